//! Bodies that pass through the proxy frame by frame, and what is done to them on the way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use tokio::time::{Sleep, sleep};

use super::engine::{Ticket, lock};
use super::lines::{Lines, Step};
use super::recordings::{Recording, Recordings};

/// Any error on the way through.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Any body on the way through.
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Time for the server half to write out what it holds before the connection is broken, because an error in a body
/// throws away what is still in its buffer.
const GRACE: Duration = Duration::from_millis(20);

/// Made on purpose by a rule.
#[derive(Debug, thiserror::Error)]
#[error("broken by a rule of the fault proxy")]
pub(super) struct Broken;

/// Breaks one connection from the inside.
#[derive(Clone)]
pub(super) struct Breaker {
    pub(super) broken: Arc<AtomicBool>,
    /// On HTTP/1 an answer cannot be broken without its connection.
    pub(super) http1: bool,
}

impl Breaker {
    pub(super) fn stream(&self) -> Broken {
        if self.http1 {
            self.broken.store(true, Ordering::SeqCst);
        }
        Broken
    }

    pub(super) fn connection(&self) -> Broken {
        self.broken.store(true, Ordering::SeqCst);
        Broken
    }
}

/// A body that is there as a whole.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Applies one line fault to a streamed answer.
pub(super) struct LineBody {
    inner: Option<Body>,
    lines: Lines,
    ticket: Ticket,
    breaker: Breaker,
    steps: VecDeque<Step>,
    grace: Option<Pin<Box<Sleep>>>,
}

impl LineBody {
    pub(super) fn new(inner: Body, mut lines: Lines, ticket: Ticket, breaker: Breaker) -> Self {
        let steps = lines.start().into();
        Self { inner: Some(inner), lines, ticket, breaker, steps, grace: None }
    }
}

impl HttpBody for LineBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            match this.steps.pop_front() {
                Some(Step::Data(data)) if data.is_empty() => continue,
                Some(Step::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Step::Landed) => {
                    this.ticket.landed();
                    continue;
                }
                Some(Step::End) => {
                    this.inner = None;
                    return Poll::Ready(None);
                }
                Some(Step::Reset) => {
                    this.inner = None;
                    this.grace = Some(Box::pin(sleep(GRACE)));
                    continue;
                }
                None => {}
            }
            if let Some(grace) = &mut this.grace {
                ready!(grace.as_mut().poll(cx));
                this.grace = None;
                return Poll::Ready(Some(Err(this.breaker.stream().into())));
            }
            let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
            match ready!(Pin::new(inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers describe the whole answer, which this is no longer.
                    if let Ok(data) = frame.into_data() {
                        this.steps.extend(this.lines.push(&data));
                    }
                }
                Some(Err(error)) => {
                    this.inner = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.inner = None;
                    this.steps.extend(this.lines.finish());
                }
            }
        }
    }
}

/// Sends a body at a fixed pace.
pub(super) struct SlowBody {
    inner: Body,
    rest: Bytes,
    portion: usize,
    pause: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SlowBody {
    /// Ten portions a second, or one byte at a time where the pace is below ten bytes a second.
    pub(super) fn new(inner: Body, bytes_per_second: u64) -> Self {
        let pace = bytes_per_second.max(1);
        let portion = (pace / 10).max(1);
        let pause = Duration::from_secs_f64(portion as f64 / pace as f64);
        let portion = usize::try_from(portion).unwrap_or(usize::MAX);
        Self { inner, rest: Bytes::new(), portion, pause, timer: None }
    }
}

impl HttpBody for SlowBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(this.pause)));
        ready!(timer.as_mut().poll(cx));
        this.timer = None;
        let portion = this.rest.split_to(this.portion.min(this.rest.len()));
        Poll::Ready(Some(Ok(Frame::data(portion))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }
}

/// Passes a body on and keeps a copy once it is complete.
pub(super) struct Recorder {
    inner: Body,
    copy: BytesMut,
    length: Option<u64>,
    /// Gone once the copy is stored or has become too large.
    target: Option<(Recordings, http::HeaderMap)>,
    bound: usize,
}

impl Recorder {
    pub(super) fn new(inner: Body, headers: http::HeaderMap, stores: Recordings) -> Self {
        let bound = stores.iter().map(|(store, _)| lock(store).max_bytes()).max().unwrap_or(0);
        let length = inner.size_hint().exact();
        let ended = inner.is_end_stream();
        let mut recorder = Self { inner, copy: BytesMut::new(), length, target: Some((stores, headers)), bound };
        // A server does not ask an empty body for frames.
        if ended {
            recorder.store();
        }
        recorder
    }

    fn store(&mut self) {
        let Some((stores, headers)) = self.target.take() else { return };
        let body = self.copy.split().freeze();
        for (store, key) in stores {
            lock(&store).add(key, Recording { headers: headers.clone(), body: body.clone() });
        }
    }
}

impl HttpBody for Recorder {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(data), true) = (frame.data_ref(), this.target.is_some()) {
                    if this.copy.len() + data.len() > this.bound {
                        this.target = None;
                        this.copy = BytesMut::new();
                    } else {
                        this.copy.extend_from_slice(data);
                    }
                }
                // A server stops asking for frames once the announced length is reached, and the client may come back
                // at once: the copy is stored before the last frame leaves.
                let complete = this.length == u64::try_from(this.copy.len()).ok() || this.inner.is_end_stream();
                if complete {
                    this.store();
                }
            }
            Some(Err(_)) => this.target = None,
            None => this.store(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body made of one block over and over, so that a large answer costs no memory.
pub(super) struct Repeat {
    block: Bytes,
    left: u64,
}

impl Repeat {
    pub(super) fn new(text: &[u8], size: u64) -> Self {
        let times = (64 * 1024 / text.len().max(1)).max(1);
        Self { block: Bytes::from(text.repeat(times)), left: size }
    }
}

impl HttpBody for Repeat {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 || self.block.is_empty() {
            return Poll::Ready(None);
        }
        let portion = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.block.len());
        self.left -= u64::try_from(portion).unwrap_or(self.left);
        Poll::Ready(Some(Ok(Frame::data(self.block.slice(..portion)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A body of which the first frames were already read.
pub(super) struct Peeked {
    first: VecDeque<Frame<Bytes>>,
    rest: Body,
}

impl Peeked {
    /// Reads until `limit` bytes or the end are there; gives these bytes and the body as it was.
    pub(super) async fn read(mut body: Body, limit: usize) -> Result<(Bytes, Self), BoxError> {
        let (mut first, mut start) = (VecDeque::new(), BytesMut::new());
        while start.len() < limit
            && let Some(frame) = body.frame().await
        {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                start.extend_from_slice(data);
            }
            first.push_back(frame);
        }
        start.truncate(limit);
        Ok((start.freeze(), Self { first, rest: body }))
    }
}

impl HttpBody for Peeked {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.first.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_end_stream()
    }
}
