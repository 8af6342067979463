//! Which rooms there are, which of them this build has, and what each needs.

use kit::admission::{Admission, Webhook};
use kit::manager::Manager;
use kit::rights::Right;

use crate::Usage;
use crate::cli::RunOptions;
use crate::serving::Listener;
use crate::{capacity, claims, hosts, vip};

/// Every room's name; those without an entry in [`BUILT`] are refused by name.
pub const NAMES: [&str; 6] = ["vip", "claims", "machines", "hosts", "capacity", "clusters"];

/// One room of this build.
pub struct Room {
    /// Its name in `--controllers`.
    pub name: &'static str,
    /// Checks its flags, before anything is started.
    pub check: fn(&RunOptions) -> Result<(), Usage>,
    /// Adds it to a manager; returns what it wants served.
    pub mount: fn(&Manager, &RunOptions) -> anyhow::Result<Vec<Listener>>,
    /// What its parts ask of the API server.
    pub rights: &'static [&'static [Right]],
    /// What its parts do at admission.
    pub webhooks: &'static [&'static [Webhook]],
    /// Adds that; with a manager when the room runs, so that it can look at what it follows anyway.
    pub admit: fn(Admission, &RunOptions, Option<&Manager>) -> anyhow::Result<Admission>,
}

/// The rooms of this build.
pub const BUILT: &[Room] = &[
    Room {
        name: "vip",
        check: vip::check,
        mount: vip::mount,
        rights: &[::vip::rights::RIGHTS],
        webhooks: &[],
        admit: |admission, _, _| Ok(admission),
    },
    Room {
        name: "claims",
        check: |_| Ok(()),
        mount: claims::mount,
        rights: &[claim_kind::rights::RIGHTS, ::claims::rights::RIGHTS],
        webhooks: &[claim_kind::admit::WEBHOOKS, ::claims::admit::WEBHOOKS],
        admit: claims::admit,
    },
    Room {
        name: "hosts",
        check: hosts::check,
        mount: hosts::mount,
        rights: &[::hosts::rights::RIGHTS],
        webhooks: &[::hosts::admit::WEBHOOKS],
        admit: hosts::admit,
    },
    Room {
        name: "capacity",
        check: capacity::check,
        mount: capacity::mount,
        rights: &[::capacity::rights::RIGHTS],
        webhooks: &[::capacity::admit::WEBHOOKS],
        admit: |admission, _, _| Ok(::capacity::admit::register(admission)),
    },
];

/// The rooms chosen by `--controllers`; all of this build when nothing is chosen.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Room>, Usage> {
    if names.is_empty() {
        return Ok(BUILT.iter().collect());
    }
    let built = || BUILT.iter().map(|room| room.name).collect::<Vec<_>>().join(", ");
    let mut rooms: Vec<&'static Room> = Vec::new();
    for name in names {
        match BUILT.iter().find(|room| room.name == name) {
            Some(room) if rooms.iter().any(|r| r.name == room.name) => {}
            Some(room) => rooms.push(room),
            None if NAMES.contains(&name.as_str()) => {
                return Err(Usage(format!(
                    "--controllers: the room `{name}` is not built yet; this build has: {}",
                    built()
                )));
            }
            None => {
                let all = NAMES.join(", ");
                return Err(Usage(format!("--controllers: there is no room `{name}`; the rooms are: {all}")));
            }
        }
    }
    Ok(rooms)
}

/// Every right of every room of this build and of the kit itself.
pub fn rights() -> Vec<&'static Right> {
    let rooms = BUILT.iter().flat_map(|room| room.rights).copied().flatten();
    kit::rights::KIT.iter().chain(kit::rights::SELF_SIGNED).chain(rooms).collect()
}

/// Every admission webhook of every room of this build.
pub fn webhooks() -> impl Iterator<Item = &'static Webhook> {
    BUILT.iter().flat_map(|room| room.webhooks.iter().copied().flatten())
}

/// Admission for every room of this build, whichever rooms run: a check does not depend on who acts on the object.
pub fn admission(manager: &Manager, options: &RunOptions, running: &[&'static Room]) -> anyhow::Result<Admission> {
    BUILT.iter().try_fold(Admission::new(), |admission, room| {
        let runs = running.iter().any(|other| other.name == room.name);
        (room.admit)(admission, options, runs.then_some(manager))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_we_may_patch_are_our_own() {
        let own: Vec<String> = api::own::crds().into_iter().filter_map(|crd| crd.metadata.name).collect();
        let patched = rights().into_iter().filter(|r| r.resources.contains(&"customresourcedefinitions"));
        let named: Vec<&str> = patched.flat_map(|right| right.names.iter().copied()).collect();
        // Machines on EC2 may be defined by others, and have no conversion webhook of ours.
        let foreign = api::own::aws_crds().len();
        assert_eq!(named, own[..own.len() - foreign]);
    }

    #[test]
    fn rooms_are_chosen_by_name_and_others_refused_with_a_reason() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).unwrap().len(), BUILT.len());
        assert_eq!(chosen(&names("claims,claims")).unwrap().len(), 1);
        let unbuilt = chosen(&names("claims,machines")).err().unwrap().to_string();
        assert!(unbuilt.contains("`machines` is not built yet"), "{unbuilt}");
        let unknown = chosen(&names("castles")).err().unwrap().to_string();
        assert!(unknown.contains("no room `castles`") && unknown.contains("capacity"), "{unknown}");
    }
}
