//! One subscriber for the whole process.

use std::ffi::OsStr;

use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object per line, for machines.
    #[default]
    Json,
    /// One readable line, for people.
    Text,
}

impl std::str::FromStr for LogFormat {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            other => Err(LogError::Format { value: other.to_owned() }),
        }
    }
}

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The format has no such name.
    #[error("unknown log format {value:?}: use \"json\" or \"text\"")]
    Format {
        /// The text.
        value: String,
    },
    /// A part of the filter is neither a level nor `target=level`.
    #[error("invalid log filter {filter:?}: {part:?} is not off, error, warn, info, debug or trace, nor target=level")]
    Part {
        /// The whole filter.
        filter: String,
        /// The part that is wrong.
        part: String,
    },
    /// The filter as a whole cannot be read.
    #[error("invalid log filter {filter:?}")]
    Filter {
        /// The whole filter.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something else in this process has set a subscriber.
    #[error("cannot start logging twice in one process")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Whether what is written is coloured: on a terminal, unless `NO_COLOR`, whose value is given, is set and not empty. That is
/// the rule of no-color.org.
#[must_use]
pub fn coloured(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Starts logging to standard error for the whole process.
///
/// `filter` is a level (`info`) or a list such as `info,kit::feed=debug`.
///
/// # Errors
/// Names the filter, and the part of it that is wrong; fails when logging was started before.
pub fn init_logs(format: LogFormat, filter: &str, color: bool) -> Result<(), LogError> {
    let subscriber = subscriber(format, filter, color, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(LogError::Twice)
}

/// The subscriber of [`init_logs`] on another writer, for tests and tools.
///
/// # Errors
/// Names the filter, and the part of it that is wrong.
pub fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    color: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let filter = parse_filter(filter)?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match format {
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(true).with_span_list(false);
            Box::new(registry.with(layer.with_ansi(false)))
        }
        LogFormat::Text => Box::new(registry.with(layer.with_ansi(color))),
    })
}

/// `Targets` takes a mistyped level ("inof") for a target and then logs nothing but that: bare words must be levels here. Filters
/// by span and field would need a compiler of regular expressions of their own in every release.
fn parse_filter(filter: &str) -> Result<Targets, LogError> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in filter.split(',').map(str::trim) {
        let (target, level) = part.rsplit_once('=').map_or((None, part), |(target, level)| (Some(target), level));
        let known = LEVELS.contains(&level.to_ascii_lowercase().as_str());
        if !known || target.is_some_and(|target| !is_path(target)) {
            return Err(LogError::Part { filter: filter.to_owned(), part: part.to_owned() });
        }
    }
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    parts.join(",").parse().map_err(|source| LogError::Filter { filter: filter.to_owned(), source })
}

/// Whether a target can be one of ours or of a crate: a path of modules.
fn is_path(target: &str) -> bool {
    !target.is_empty() && target.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, emit: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(format, filter, false, move || writer.clone()).expect("a valid filter");
        tracing::subscriber::with_default(subscriber, emit);
        String::from_utf8(sink.0.lock().unwrap().clone()).expect("utf-8")
    }

    #[test]
    fn a_json_line_is_one_flat_object_with_constant_message_and_fields() {
        let text = logged(LogFormat::Json, "info", || {
            tracing::info!(room = "vip", elapsed_ms = 3, "pass done");
            tracing::debug!("hidden");
        });
        let line: serde_json::Value = serde_json::from_str(text.trim()).expect("one JSON document");
        assert_eq!(line["message"], "pass done");
        assert_eq!(line["room"], "vip");
        assert_eq!(line["elapsed_ms"], 3);
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn colour_needs_a_terminal_and_nobody_who_minds() {
        for (terminal, no_color, expected) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (true, Some("0"), false),
            (false, None, false),
            (false, Some(""), false),
        ] {
            assert_eq!(coloured(terminal, no_color.map(OsStr::new)), expected, "{terminal} {no_color:?}");
        }
    }

    #[test]
    fn targets_have_their_own_levels() {
        let text = logged(LogFormat::Text, "warn,loud=debug", || {
            tracing::debug!(target: "loud", "shown");
            tracing::info!(target: "quiet", "hidden");
        });
        assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
    }

    #[test]
    fn a_wrong_filter_or_format_is_named() {
        for (filter, part) in [("inof", "\"inof\""), ("info,kit=loud", "\"kit=loud\""), ("", "\"\""), ("info,", "\"\"")]
        {
            let error = subscriber(LogFormat::Text, filter, false, std::io::stderr).err().expect("refused").to_string();
            assert!(error.contains(&format!("{filter:?}")) && error.contains(part), "{error}");
        }
        for filter in ["[pass]=debug", "kit[pass{room=vip}]=debug", "=debug", "a b=info"] {
            let error = subscriber(LogFormat::Text, filter, false, std::io::stderr).err().expect("refused").to_string();
            assert!(error.contains("nor target=level"), "{error}");
        }
        assert!("yaml".parse::<LogFormat>().unwrap_err().to_string().contains("yaml"));
    }

    #[test]
    fn a_planted_secret_never_reaches_the_log_in_any_spelling() {
        let canary = "canary-4f1c";
        let secret = Secret::new(canary.to_owned());
        for format in [LogFormat::Json, LogFormat::Text] {
            let text = logged(format, "trace", || {
                tracing::info!(?secret, shown = %secret, nested = ?Some(&secret), "secrets");
            });
            assert!(text.contains("***") && !text.contains(canary), "{text}");
        }
    }
}
