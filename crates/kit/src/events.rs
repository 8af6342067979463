//! Events for people: one per transition, on the object they look at.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::class::chain;
use crate::write::Target;

/// Publishes events in the name of one room. One per process and room: it remembers what it said to aggregate it.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Events reported by `berth-<room>`.
    #[must_use]
    pub fn new(client: Client, room: &str, instance: Option<String>) -> Self {
        let reporter = Reporter { controller: format!("berth-{room}"), instance };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Says something about `target`. Losing an event must never fail a pass, so errors are only logged.
    pub async fn say(&self, target: &Target, warning: bool, reason: &str, message: &str) {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(cut(message).to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &reference(target)).await {
            tracing::warn!(object = %target, reason, error = %chain(&error), "event not published");
        }
    }
}

/// The server refuses an event with a longer note.
const NOTE: usize = 1024;

fn cut(message: &str) -> &str {
    message.get(..message.floor_char_boundary(NOTE)).unwrap_or_default()
}

fn reference(target: &Target) -> ObjectReference {
    ObjectReference {
        api_version: Some(target.kind.api_version()),
        kind: Some(target.kind.kind.clone()),
        name: Some(target.key.name().to_owned()),
        namespace: target.key.namespace().map(str::to_owned),
        uid: Some(target.uid.to_string()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "ä".repeat(NOTE);
        assert_eq!(cut(&long), "ä".repeat(NOTE / 2));
        assert_eq!(cut(&format!("a{long}")).len(), NOTE - 1);
    }
}
