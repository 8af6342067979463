//! Which rooms there are, which of them this build has, and what each needs.

use kit::admission::{Admission, Webhook};
use kit::manager::Manager;
use kit::rights::Right;

use crate::Usage;
use crate::cli::RunOptions;
use crate::serving::Listener;
use crate::{capacity, claims, clusters, hosts, machines, vip};

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
        rights: &[claim_kind::rights::HEARTBEAT, claim_kind::rights::RIGHTS, ::claims::rights::RIGHTS],
        webhooks: &[claim_kind::admit::WEBHOOKS, ::claims::admit::WEBHOOKS],
        admit: claims::admit,
    },
    Room {
        name: "machines",
        check: machines::check,
        mount: machines::mount,
        rights: &[
            ::machines::rights::RIGHTS,
            ::machines::data::rights::RIGHTS,
            ::machines::remediation::rights::RIGHTS,
        ],
        webhooks: &[::machines::admit::WEBHOOKS],
        admit: machines::admit,
    },
    Room {
        name: "hosts",
        check: hosts::check,
        mount: hosts::mount,
        rights: &[::hosts::rights::RIGHTS, ::hosts::claim::rights::RIGHTS, claim_kind::rights::HEARTBEAT],
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
    Room {
        name: "clusters",
        check: clusters::check,
        mount: clusters::mount,
        rights: &[::clusters::rights::RIGHTS, ::clusters::vm::rights::RIGHTS, claim_kind::rights::HEARTBEAT],
        webhooks: &[::clusters::admit::WEBHOOKS],
        admit: clusters::admit,
    },
];

/// The rooms chosen by `--controllers`; all of this build when nothing is chosen.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Room>, Usage> {
    if names.is_empty() {
        return Ok(BUILT.iter().collect());
    }
    let mut rooms: Vec<&'static Room> = Vec::new();
    for name in names {
        match BUILT.iter().find(|room| room.name == name) {
            Some(room) if rooms.iter().any(|r| r.name == room.name) => {}
            Some(room) => rooms.push(room),
            None => {
                let all = BUILT.iter().map(|room| room.name).collect::<Vec<_>>().join(", ");
                return Err(Usage(format!("--controllers: there is no room `{name}`; the rooms are: {all}")));
            }
        }
    }
    Ok(rooms)
}

/// Whether a room of this build runs by these options.
pub fn runs(options: &RunOptions, name: &str) -> bool {
    options.controllers.is_empty() || options.controllers.iter().any(|chosen| chosen == name)
}

/// Every right of every room of this build and of the kit itself.
pub fn rights() -> Vec<&'static Right> {
    let rooms = BUILT.iter().flat_map(|room| room.rights).copied().flatten();
    kit::rights::KIT.iter().chain(kit::rights::SELF_SIGNED).chain(rooms).collect()
}

/// The rights of the rooms that run by these options, and of the kit itself.
pub fn rights_of(options: &RunOptions) -> Vec<&'static Right> {
    let rooms = BUILT.iter().filter(|room| runs(options, room.name));
    let rights = rooms.flat_map(|room| room.rights).copied().flatten();
    kit::rights::KIT.iter().chain(kit::rights::SELF_SIGNED).chain(rights).collect()
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
        // Machines on EC2 and clusters of EKS Anywhere may be defined by others, and have no conversion webhook of ours.
        let foreign = api::own::aws_crds().len() + api::own::anywhere::crds().len();
        assert_eq!(named, own[..own.len() - foreign]);
    }

    // Whoever loses a race for a name reads what the winner made.
    #[test]
    fn what_a_room_may_make_it_may_read_back() {
        for room in BUILT {
            let all = || room.rights.iter().copied().flatten();
            let made = all().filter(|right| right.verbs.contains(&"create"));
            for (group, resource) in
                made.flat_map(|right| right.resources.iter().map(|resource| (right.group, resource)))
            {
                let read = all().any(|right| {
                    right.group == group && right.resources.contains(resource) && right.verbs.contains(&"get")
                });
                assert!(read, "{} makes {resource} and may not read one", room.name);
            }
        }
    }

    #[test]
    fn a_room_that_does_not_run_asks_for_nothing() {
        let of = |args: &[&str]| rights_of(&crate::cli::tests::run_options(args));
        assert_eq!(of(&[]).len(), rights().len());
        let system = |right: &&&Right| right.reach == kit::rights::Reach::System;
        assert!(of(&["--controllers=clusters"]).iter().any(|right| system(&right)));
        assert!(!of(&["--controllers=vip,claims"]).iter().any(|right| system(&right)));
    }

    #[test]
    fn rooms_are_chosen_by_name_and_others_refused_with_a_reason() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).unwrap().len(), BUILT.len());
        assert_eq!(chosen(&names("claims,claims")).unwrap().len(), 1);
        let unknown = chosen(&names("castles")).err().unwrap().to_string();
        assert!(unknown.contains("no room `castles`") && unknown.contains("capacity"), "{unknown}");
    }
}
