//! Faults in a stream of lines, without any input or output: bytes go in, steps come out.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

/// Longest line that is put together; an API object is at most about 3 MiB on the wire.
pub(super) const MAX_LINE: usize = 16 * 1024 * 1024;

/// What is done to the lines of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Cut { after: u64, abrupt: bool },
    Gone { after: u64 },
    Half { after: u64, abrupt: bool },
    Duplicate { line: u64 },
    Swap { line: u64 },
    Drop { line: u64 },
    OnlyBookmarks,
}

/// What the body does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Send these bytes.
    Data(Bytes),
    /// The fault has taken effect.
    Landed,
    /// End the answer properly.
    End,
    /// Break the connection.
    Reset,
}

/// One fault at work on one stream.
#[derive(Debug)]
pub(super) struct Lines {
    fault: Fault,
    /// Bytes of the line that is not complete yet; `seen` of them hold no line end.
    partial: BytesMut,
    seen: usize,
    /// Complete lines read so far.
    count: u64,
    held: Option<Bytes>,
    over: bool,
}

impl Lines {
    pub(super) fn new(fault: Fault) -> Self {
        Self { fault, partial: BytesMut::new(), seen: 0, count: 0, held: None, over: false }
    }

    /// What happens before the first byte: a cut after no lines does not wait for one.
    pub(super) fn start(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.after_line(&mut steps);
        steps
    }

    /// What happens when these bytes arrive.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.over {
            return steps;
        }
        self.partial.extend_from_slice(chunk);
        while let Some(at) = self.partial.get(self.seen..).and_then(|rest| rest.iter().position(|b| *b == b'\n')) {
            let line = self.partial.split_to(self.seen + at + 1).freeze();
            self.seen = 0;
            self.line(line, &mut steps);
            if self.over {
                return steps;
            }
        }
        self.seen = self.partial.len();
        if self.seen > MAX_LINE {
            self.over = true;
            steps.push(Step::Reset);
        }
        steps
    }

    /// What is still to be sent when the upstream ends the stream.
    pub(super) fn finish(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.over {
            return steps;
        }
        if !self.partial.is_empty() {
            let rest = self.partial.split().freeze();
            self.seen = 0;
            self.line(rest, &mut steps);
        }
        if let Some(held) = self.held.take() {
            steps.push(Step::Data(held));
        }
        steps
    }

    fn line(&mut self, line: Bytes, steps: &mut Vec<Step>) {
        self.count += 1;
        match self.fault {
            Fault::Half { after, abrupt } if self.count == after + 1 => {
                let half = line.len() / 2;
                steps.push(Step::Data(line.slice(..half)));
                self.end(abrupt, steps);
                return;
            }
            Fault::Duplicate { line: n } if self.count == n => {
                steps.push(Step::Data(line.clone()));
                steps.push(Step::Data(line));
                steps.push(Step::Landed);
            }
            Fault::Swap { line: n } if self.count == n => self.held = Some(line),
            Fault::Swap { line: n } if self.count == n + 1 => {
                steps.push(Step::Data(line));
                steps.extend(self.held.take().map(Step::Data));
                steps.push(Step::Landed);
            }
            Fault::Drop { line: n } if self.count == n => steps.push(Step::Landed),
            Fault::OnlyBookmarks if !is_bookmark(&line) => steps.push(Step::Landed),
            _ => steps.push(Step::Data(line)),
        }
        self.after_line(steps);
    }

    fn after_line(&mut self, steps: &mut Vec<Step>) {
        match self.fault {
            Fault::Cut { after, abrupt } if self.count == after => self.end(abrupt, steps),
            Fault::Gone { after } if self.count == after => {
                steps.push(Step::Data(gone()));
                self.end(false, steps);
            }
            _ => {}
        }
    }

    fn end(&mut self, abrupt: bool, steps: &mut Vec<Step>) {
        self.over = true;
        steps.push(Step::Landed);
        steps.push(if abrupt { Step::Reset } else { Step::End });
    }
}

fn is_bookmark(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line)
        .is_ok_and(|event| event.get("type").and_then(Value::as_str) == Some("BOOKMARK"))
}

/// The event an API server sends when the asked-for revision is compacted away.
fn gone() -> Bytes {
    let event = json!({
        "type": "ERROR",
        "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version (injected by the fault proxy)", "reason": "Expired", "code": 410
        }
    });
    Bytes::from(format!("{event}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All bytes that come out, and how the stream ended.
    fn run(fault: Fault, chunks: &[&[u8]]) -> (String, Option<Step>, bool) {
        let mut lines = Lines::new(fault);
        let mut steps = lines.start();
        for chunk in chunks {
            steps.extend(lines.push(chunk));
        }
        steps.extend(lines.finish());
        let (mut text, mut end, mut landed) = (Vec::new(), None, false);
        for step in steps {
            assert!(end.is_none(), "a step after the end: {step:?}");
            match step {
                Step::Data(data) => text.extend_from_slice(&data),
                Step::Landed => landed = true,
                last => end = Some(last),
            }
        }
        (String::from_utf8(text).unwrap(), end, landed)
    }

    #[test]
    fn each_fault_does_what_its_name_says() {
        let input: &[&[u8]] = &[b"on", b"e\ntwo\nthr", b"ee\nfour\n"];
        assert_eq!(run(Fault::Cut { after: 2, abrupt: false }, input), ("one\ntwo\n".into(), Some(Step::End), true));
        assert_eq!(run(Fault::Cut { after: 0, abrupt: true }, input), (String::new(), Some(Step::Reset), true));
        assert_eq!(run(Fault::Half { after: 1, abrupt: false }, input), ("one\ntw".into(), Some(Step::End), true));
        assert_eq!(run(Fault::Duplicate { line: 2 }, input).0, "one\ntwo\ntwo\nthree\nfour\n");
        assert_eq!(run(Fault::Swap { line: 2 }, input).0, "one\nthree\ntwo\nfour\n");
        assert_eq!(run(Fault::Drop { line: 4 }, input).0, "one\ntwo\nthree\n");
        let (text, end, landed) = run(Fault::Gone { after: 1 }, input);
        let (first, event) = text.split_once('\n').unwrap();
        assert_eq!((first, end, landed), ("one", Some(Step::End), true));
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["object"]["code"], 410);
    }

    #[test]
    fn a_line_held_for_a_swap_is_not_lost_when_the_stream_ends() {
        assert_eq!(run(Fault::Swap { line: 2 }, &[b"one\ntwo\n"]), ("one\ntwo\n".into(), None, false));
    }

    #[test]
    fn only_bookmarks_pass_a_watch_that_is_starved() {
        let input: &[&[u8]] =
            &[b"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\nrubbish\n"];
        assert_eq!(run(Fault::OnlyBookmarks, input).0, "{\"type\":\"BOOKMARK\",\"object\":{}}\n");
    }

    #[test]
    fn a_line_without_an_end_is_cut_off_at_the_bound() {
        let mut lines = Lines::new(Fault::Drop { line: 9 });
        let block = vec![b'x'; 4 * 1024 * 1024];
        let steps: Vec<Step> = (0..5).flat_map(|_| lines.push(&block)).collect();
        assert_eq!(steps, vec![Step::Reset]);
    }

    fn fault() -> impl Strategy<Value = Fault> {
        prop_oneof![
            (0u64..8, any::<bool>()).prop_map(|(after, abrupt)| Fault::Cut { after, abrupt }),
            (0u64..8).prop_map(|after| Fault::Gone { after }),
            (0u64..8, any::<bool>()).prop_map(|(after, abrupt)| Fault::Half { after, abrupt }),
            (1u64..8).prop_map(|line| Fault::Duplicate { line }),
            (1u64..8).prop_map(|line| Fault::Swap { line }),
            (1u64..8).prop_map(|line| Fault::Drop { line }),
            Just(Fault::OnlyBookmarks),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        #[test]
        fn how_the_bytes_are_cut_into_chunks_does_not_matter(
            fault in fault(), text in "[ab\n]{0,40}", sizes in proptest::collection::vec(1usize..7, 0..40)
        ) {
            let whole = run(fault.clone(), &[text.as_bytes()]);
            let (mut rest, mut chunks) = (text.as_bytes(), Vec::new());
            for size in sizes {
                let (chunk, tail) = rest.split_at(size.min(rest.len()));
                chunks.push(chunk);
                rest = tail;
            }
            chunks.push(rest);
            prop_assert_eq!(run(fault, &chunks), whole);
        }

        #[test]
        fn a_fault_beyond_the_end_changes_nothing(text in "[ab\n]{0,40}") {
            for fault in [
                Fault::Cut { after: 99, abrupt: true }, Fault::Gone { after: 99 }, Fault::Half { after: 99, abrupt: true },
                Fault::Duplicate { line: 99 }, Fault::Swap { line: 99 }, Fault::Drop { line: 99 },
            ] {
                prop_assert_eq!(run(fault, &[text.as_bytes()]), (text.clone(), None, false));
            }
        }
    }
}
