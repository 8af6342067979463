//! What a bundle says about itself: what is in it, what is not, and what was taken out.

use serde::Serialize;

use super::redact;
use super::text;
use crate::screen::{self, Screen};

/// Lines of one text file that are told one by one.
const TOLD: usize = 20;

/// How many objects of a kind are in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// As kubectl names it.
    pub resource: String,
    /// The version that was read.
    pub version: String,
    /// Every version that the server serves.
    pub served: Vec<String>,
    /// How many objects.
    pub objects: usize,
}

/// Something that is not in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Something that was taken out of a file of the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// The file.
    pub file: String,
    /// Where in it.
    pub path: String,
    /// Why.
    pub why: String,
}

/// What a bundle holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// When it was made.
    pub made: String,
    /// The version of the program that made it.
    pub berth: String,
    /// The version of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The namespace the operator was looked for in.
    pub operator_namespace: String,
    /// Objects by kind.
    pub kinds: Vec<Count>,
    /// Events of these objects.
    pub events: usize,
    /// Pods of the operator.
    pub pods: usize,
    /// Logs of their containers.
    pub logs: usize,
    /// What is not in it.
    pub left_out: Vec<LeftOut>,
    /// How many values were taken out.
    pub removed: usize,
}

impl Manifest {
    /// Notes that something is not there.
    pub fn miss(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), why: why.into() });
    }

    fn objects(&self) -> usize {
        self.kinds.iter().map(|count| count.objects).sum()
    }
}

/// What was removed of an object, as the list tells it.
pub fn of_object(file: &str, removed: Vec<redact::Removed>) -> Vec<Removed> {
    let told = removed.into_iter().map(|gone| Removed { file: file.to_owned(), path: gone.path, why: gone.why });
    told.collect()
}

/// What was removed of a text: one entry for each reason, with the lines.
pub fn of_text(file: &str, cuts: &[text::Cut]) -> Vec<Removed> {
    let mut reasons: Vec<&str> = cuts.iter().map(|cut| cut.what.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let told = reasons.into_iter().map(|why| {
        let lines: Vec<usize> = cuts.iter().filter(|cut| cut.what == why).map(|cut| cut.line).collect();
        let named: Vec<String> = lines.iter().take(TOLD).map(ToString::to_string).collect();
        let more = match lines.len().saturating_sub(TOLD) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let word = if lines.len() == 1 { "line" } else { "lines" };
        Removed { file: file.to_owned(), path: format!("{word} {}{more}", named.join(", ")), why: why.to_owned() }
    });
    told.collect()
}

/// `removed.txt`: one line for each place.
pub fn removed_text(removed: &[Removed]) -> String {
    if removed.is_empty() {
        return "nothing was removed but managed fields\n".to_owned();
    }
    let line = |gone: &Removed| match gone.path.as_str() {
        "" => format!("{}: {}\n", gone.file, gone.why),
        path => format!("{}: {path}: {}\n", gone.file, gone.why),
    };
    removed.iter().map(line).collect()
}

/// `README.txt`: what is where.
pub fn readme(manifest: &Manifest) -> String {
    let mut out = format!(
        "A support bundle of Berth, made {} by berth {}.\n\n\
         manifest.json       what is in here, for programs\n\
         versions.json       the server, berth, and the kinds that are served\n\
         definitions.json    names, labels and annotations of their definitions\n\
         objects/            one file for each object: <kind>/<namespace>/<name>.json\n\
         events/             events of these objects and of the operator, one file for each namespace\n\
         operator/<pod>/     logs, metrics.txt and readyz.txt of the operator\n\
         removed.txt         what was taken out, place by place; removed.json is the same for programs\n\n\
         Secrets were never read. Values that can be secrets are replaced by {}; managed fields are left out.\n\
         Names of objects, hosts and addresses are in here: look through it before you hand it on.\n",
        manifest.made,
        manifest.berth,
        text::MARK,
    );
    out.push_str("\nObjects\n");
    for count in &manifest.kinds {
        out.push_str(&format!("  {:>7}  {} {}\n", count.objects, count.resource, count.version));
    }
    if !manifest.left_out.is_empty() {
        out.push_str("\nLeft out\n");
        for missing in &manifest.left_out {
            out.push_str(&format!("  {}: {}\n", missing.what, missing.why));
        }
    }
    out
}

/// What is shown when the bundle is there.
pub fn summary(screen: Screen, place: &str, manifest: &Manifest) -> String {
    let held: Vec<&Count> = manifest.kinds.iter().filter(|count| count.objects > 0).collect();
    let mut out = String::new();
    if !held.is_empty() {
        let rows: Vec<[String; 3]> = held
            .iter()
            .map(|count| [count.resource.clone(), count.version.clone(), count.objects.to_string()])
            .collect();
        out += &screen::table(screen, ["KIND", "VERSION", "OBJECTS"], &rows);
        out.push('\n');
    }
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let parts = [
        plural(manifest.objects(), "object"),
        plural(manifest.events, "event"),
        plural(manifest.pods, "pod"),
        plural(manifest.logs, "log"),
    ];
    out += &screen::text(screen, &parts.join(", "));
    // Kinds that are not installed are the normal case and need no line each.
    let unknown = |missing: &&LeftOut| missing.why == super::UNKNOWN;
    let count = manifest.left_out.iter().filter(unknown).count();
    if count > 0 {
        out += &screen::text(screen, &format!("not installed: {}, listed in README.txt", plural(count, "kind")));
    }
    for missing in manifest.left_out.iter().filter(|missing| !unknown(missing)) {
        out += &screen::text(screen, &format!("left out: {}: {}", missing.what, missing.why));
    }
    out += &screen::text(
        screen,
        &match manifest.removed {
            0 => "removed: nothing but managed fields".to_owned(),
            removed => format!("removed: {}, listed in removed.txt", plural(removed, "value")),
        },
    );
    out += &screen::text(screen, &format!("wrote {place}; look through it before you hand it on"));
    out
}
