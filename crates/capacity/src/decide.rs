//! What to do about one group.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::key::ObjectKey;
use api::reasons::capacity::Reason;
use api::views::TemplateStatus;
use jiff::Timestamp;

use crate::config::Config;
use crate::facts::{GroupFacts, TemplateFacts};
use crate::goal::{Around, Goal, Profile};
use crate::judge::Skip;
use crate::memory::Memory;
use crate::names::{ACCELERATOR, LABELS, TAINTS};
use crate::offer::Offer;
use crate::plan::{Hands, Plan, plan};
use crate::status::Trouble;
use crate::template::{says, says_everything, status};

/// How things stand with a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is left alone.
    Skipped(Skip),
    /// It cannot be annotated.
    Stuck {
        /// Why.
        trouble: Trouble,
        /// When to look again, where nothing announces it.
        again: Option<Timestamp>,
    },
    /// The cloud is being asked.
    Asking,
    /// What its machines offer is known.
    Known {
        /// What they offer.
        offer: Arc<Offer>,
        /// What is known beside it.
        around: Around,
        /// When to look again, where a refresh has failed.
        again: Option<Timestamp>,
    },
}

/// A template, as it was seen with a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Where it is.
    pub key: ObjectKey,
    /// What is known of it.
    pub facts: Arc<TemplateFacts>,
    /// Whether its image says which system nodes run: `None` while that is being asked.
    pub windows: Option<bool>,
}

/// One group at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whether it belongs to OpenShift's Machine API.
    pub machine_api: bool,
    /// The group.
    pub group: Arc<GroupFacts>,
    /// How things stand with it.
    pub standing: Standing,
    /// Its template, if that is one of machines on EC2.
    pub template: Option<Sight>,
    /// What is remembered of it.
    pub memory: Memory,
    /// What the flags say.
    pub config: Arc<Config>,
    /// When this was seen.
    pub now: Timestamp,
}

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Change annotations, all in one request.
    Annotate(Plan),
    /// Say in the status of the template what machines of it offer.
    Describe(TemplateStatus),
    /// Leave a key alone, because somebody else keeps changing it back.
    Yield {
        /// The key.
        key: Box<str>,
        /// What is told.
        message: String,
    },
    /// Say something on the group.
    Tell {
        /// Whether somebody should look.
        warning: bool,
        /// The reason.
        reason: Reason,
        /// The sentence.
        message: String,
    },
    /// Look again at that time, or when something changes.
    Wait {
        /// When.
        until: Option<Timestamp>,
    },
}

/// Decides.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    match &s.standing {
        Standing::Skipped(_) => Vec::new(),
        Standing::Asking => vec![Step::Wait { until: None }],
        Standing::Stuck { trouble, again } => {
            let mut steps = Vec::new();
            if !s.memory.knows(trouble.reason, &trouble.message, s.now) {
                let (reason, message) = (trouble.reason, trouble.message.clone());
                steps.push(Step::Tell { warning: true, reason, message });
            }
            steps.push(Step::Wait { until: *again });
            steps
        }
        Standing::Known { offer, around, again } => known(s, offer, around, *again),
    }
}

fn known(s: &Snapshot, offer: &Offer, around: &Around, again: Option<Timestamp>) -> Vec<Step> {
    let goal = s.goal(offer, around);
    let (mut plan, mut steps) = (s.plan(&goal), Vec::new());
    let fought: Vec<String> = plan
        .changes
        .iter()
        .filter(|(key, value)| s.memory.is_fought(key, value.as_deref(), s.now))
        .map(|(key, _)| key.clone())
        .collect();
    for key in fought {
        let wanted = plan.changes.remove(&key).flatten();
        steps.push(Step::Yield { message: conflict(s, &key, wanted.as_deref()), key: key.into() });
    }
    for key in &plan.unreadable {
        let value = s.group.annotation(key).unwrap_or_default();
        let message = format!("{key}: {value:?} was set by hand and cannot be read by cluster-autoscaler");
        if !s.memory.knows(Reason::InvalidAnnotation, &message, s.now) {
            steps.push(Step::Tell { warning: true, reason: Reason::InvalidAnnotation, message });
        }
    }
    // What is worth a word when something is written is none for a process that finds it written.
    if !plan.is_empty() {
        steps.extend(remarks(s, offer, around));
    }
    if s.memory.troubled && s.config.success_events {
        let message = format!("the annotations describe {}", around.instance_type);
        steps.push(Step::Tell { warning: false, reason: Reason::CapacityAnnotated, message });
    }
    // What the machines offer is what matters; words come after it.
    if !plan.is_empty() {
        steps.insert(0, Step::Annotate(plan));
    }
    // A template that cannot be described is no reason to keep quiet about the group, so this comes after it.
    steps.extend(s.description(offer, around).map(Step::Describe));
    if again.is_some() {
        steps.push(Step::Wait { until: again });
    }
    steps
}

impl Snapshot {
    /// What should stand on the group.
    #[must_use]
    pub fn goal(&self, offer: &Offer, around: &Around) -> Goal {
        let mut goal = Goal::of(offer, around, Profile::of(self.config.keys, self.machine_api), &self.config);
        if self.is_deferred(offer, around) && goal.upstream {
            goal.values
                .iter_mut()
                .filter(|(key, _)| key.starts_with(crate::names::DOMAIN))
                .for_each(|(_, v)| *v = None);
        }
        if self.config.propagate_taints && goal.upstream {
            goal.values.insert(TAINTS, Some(self.group.taints.to_string()).filter(|taints| !taints.is_empty()));
        }
        if self.config.propagate_labels {
            for (key, value) in &self.group.node_labels {
                goal.labels.entry(key.to_string()).or_insert_with(|| value.to_string());
            }
        }
        goal
    }

    /// Whether the template says everything by itself, and not because we wrote it.
    fn is_deferred(&self, offer: &Offer, around: &Around) -> bool {
        let Some(template) = self.template.as_ref().filter(|_| self.config.defer_to_template) else { return false };
        let ours =
            || self.config.template_status && says(&template.facts.status, &self.wanted(template, offer, around));
        says_everything(&template.facts.status) && !ours()
    }

    fn wanted(&self, template: &Sight, offer: &Offer, around: &Around) -> TemplateStatus {
        let windows = around.windows || template.windows.unwrap_or(false);
        status(offer, around, windows, &self.config)
    }

    /// What the status of the template should say and does not, if that is ours to say.
    #[must_use]
    pub fn description(&self, offer: &Offer, around: &Around) -> Option<TemplateStatus> {
        let template = self.template.as_ref().filter(|template| template.windows.is_some())?;
        if !self.config.template_status || template.facts.uid.is_empty() {
            return None;
        }
        let wanted = self.wanted(template, offer, around);
        let silent =
            says(&template.facts.status, &wanted) || self.memory.described(&template.facts.uid, &wanted, self.now);
        (!silent && says_everything(&wanted)).then_some(wanted)
    }

    /// What changes for that.
    #[must_use]
    pub fn plan(&self, goal: &Goal) -> Plan {
        self.plan_for(&self.group, goal)
    }

    /// The same for a newer version of the group.
    #[must_use]
    pub fn plan_for(&self, group: &GroupFacts, goal: &Goal) -> Plan {
        let mut off: BTreeSet<Box<str>> = group.declared.clone();
        off.extend(self.memory.held(self.now).map(Into::into));
        plan(&group.annotations, goal, Hands { off: &off })
    }
}

fn conflict(s: &Snapshot, key: &str, wanted: Option<&str>) -> String {
    let theirs = s.group.annotation(key).map_or("nothing".to_owned(), |value| format!("{value:?}"));
    let ours = wanted.map_or("nothing".to_owned(), |value| format!("{value:?}"));
    let who = s.group.writers.get(key).map_or("somebody else", AsRef::as_ref);
    format!("{key}: {who} keeps writing {theirs} where {ours} is right; it is left alone for an hour")
}

/// What whoever made the group should know about what stands on it, once.
fn remarks(s: &Snapshot, offer: &Offer, around: &Around) -> impl Iterator<Item = Step> {
    let mixed = (offer.arch.is_none() && around.instance_type.contains(',')).then(|| {
        let message = format!("{} have different architectures, so none is told", around.instance_type);
        (true, Reason::ArchitectureMixed, message)
    });
    let unlabelled = hint(s, offer).map(|message| (false, Reason::AcceleratorLabelMissing, message));
    let new = |(_, reason, message): &(bool, Reason, String)| !s.memory.heard(*reason, message);
    mixed.into_iter().chain(unlabelled).filter(new).map(|(warning, reason, message)| Step::Tell {
        warning,
        reason,
        message,
    })
}

/// Without this label cluster-autoscaler does not wait for the driver and adds nodes in vain.
fn hint(s: &Snapshot, offer: &Offer) -> Option<String> {
    let labelled = s.group.accelerator_label
        || s.group
            .annotation(LABELS)
            .is_some_and(|list| list.split(',').any(|item| item.trim().starts_with(ACCELERATOR)));
    (offer.accelerators.is_some() && !labelled).then(|| {
        format!(
            "machines of this group have accelerators but nodes will not carry the label {ACCELERATOR}: \
             cluster-autoscaler may add too many while drivers load"
        )
    })
}
