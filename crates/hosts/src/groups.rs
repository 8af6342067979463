//! The security groups of a machine.

use std::collections::BTreeMap;

use api::names::SecurityGroupId;

use crate::facts::CloudFacts;
use crate::obstacle::{About, Obstacle};

/// The roles whose groups a machine is in.
#[must_use]
pub fn roles(control_plane: bool) -> &'static [&'static str] {
    if control_plane { &["node", "lb", "controlplane"] } else { &["node", "lb"] }
}

/// All groups of a machine: those of its roles, unless somebody else keeps the cluster, and those it names itself, which
/// `additional` has resolved to ids.
///
/// # Errors
/// When the group of a role is not known yet, or an id is none.
pub fn wanted(
    cloud: &CloudFacts,
    overrides: &BTreeMap<String, String>,
    control_plane: bool,
    additional: &[SecurityGroupId],
) -> Result<Vec<SecurityGroupId>, Obstacle> {
    let mut all: Vec<SecurityGroupId> = Vec::new();
    let mut add = |id: SecurityGroupId| {
        if !all.contains(&id) {
            all.push(id);
        }
    };
    if !cloud.external {
        for role in roles(control_plane) {
            let given = overrides.get(*role).or_else(|| cloud.overrides.get(*role));
            let Some(id) = given.or_else(|| cloud.groups.get(*role)).filter(|id| !id.is_empty()) else {
                let message = format!("the AWSCluster has no security group for the role {role} yet");
                return Err(Obstacle::dependency(About::Groups, message));
            };
            let none = |error| Obstacle::terminal(About::Groups, format!("security group of the role {role}: {error}"));
            add(id.parse().map_err(none)?);
        }
    }
    additional.iter().cloned().for_each(add);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Class;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(role, id)| ((*role).to_owned(), (*id).to_owned())).collect()
    }

    fn ids(found: Result<Vec<SecurityGroupId>, Obstacle>) -> Vec<String> {
        found.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn roles_give_groups_and_overrides_win() {
        let groups = map(&[("node", "sg-00000001"), ("lb", "sg-00000002"), ("controlplane", "sg-00000003")]);
        let mut cloud = CloudFacts { groups, ..CloudFacts::default() };
        let extra: Vec<SecurityGroupId> = vec!["sg-00000009".parse().unwrap(), "sg-00000001".parse().unwrap()];
        assert_eq!(ids(wanted(&cloud, &map(&[]), false, &extra)), ["sg-00000001", "sg-00000002", "sg-00000009"]);
        assert_eq!(ids(wanted(&cloud, &map(&[]), true, &[])).len(), 3);
        cloud.overrides = map(&[("lb", "sg-000000c1"), ("node", "sg-000000c2")]);
        let own = map(&[("node", "sg-000000a1")]);
        assert_eq!(ids(wanted(&cloud, &own, false, &[])), ["sg-000000a1", "sg-000000c1"]);
        cloud.external = true;
        assert_eq!(ids(wanted(&cloud, &own, true, &extra)), ["sg-00000009", "sg-00000001"]);
    }

    #[test]
    fn a_missing_group_is_waited_for_and_a_wrong_one_is_not() {
        let cloud = CloudFacts { groups: map(&[("node", "sg-00000001")]), ..CloudFacts::default() };
        let missing = wanted(&cloud, &map(&[]), false, &[]).unwrap_err();
        assert!(missing.class == Class::Dependency && missing.message.contains("role lb"), "{missing:?}");
        let wrong = wanted(&cloud, &map(&[("lb", "group")]), false, &[]).unwrap_err();
        assert_eq!(wrong.class, Class::Terminal);
    }
}
