//! Whether the pools of addresses have any left, and who waits for those that have none.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::views::{GlobalInClusterIPPool, IPAM_GROUP, IPAddressClaim, InClusterIPPool, PoolCounts};
use kube::Client;

use super::{Check, Level, list, some};

const NAME: &str = "pools";
/// The pool of one namespace, and the pool of all.
const KINDS: [&str; 2] = ["InClusterIPPool", "GlobalInClusterIPPool"];
/// How full a pool is, in percent of its addresses, when somebody should look, and when somebody should hurry.
const FULL: [(i64, &str); 2] = [(95, "almost full"), (80, "nearly full")];

/// The check; none where a kind is not served, which the check of the provider has told.
pub async fn check(client: &Client) -> Option<Check> {
    let lists = async {
        let own = list::<InClusterIPPool>(client, NAME).await?;
        let global = list::<GlobalInClusterIPPool>(client, NAME).await?;
        Ok::<_, Check>((own, global, list::<IPAddressClaim>(client, NAME).await?))
    };
    let (own, global, claims) = match lists.await {
        Ok((Some(own), Some(global), Some(claims))) => (own, global, claims),
        Ok(_) => return None,
        Err(check) => return Some(check),
    };
    let [of_one, of_all] = KINDS;
    let own = own.into_iter().map(|pool| (Name(of_one, ObjectKey::of(&pool)), pool.status.counts));
    let global = global.into_iter().map(|pool| (Name(of_all, ObjectKey::of(&pool)), pool.status.counts));
    Some(judge(&own.chain(global).collect(), &claims))
}

/// A pool by its kind and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(&'static str, ObjectKey);

impl Name {
    /// The pool that a claim waits for; none for one that has its address, and for pools of other providers.
    fn awaited(claim: &IPAddressClaim) -> Option<Self> {
        if claim.status.address_name.is_some() || claim.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let pool = claim.spec.pool.as_ref().filter(|pool| pool.group == IPAM_GROUP)?;
        let kind = KINDS.into_iter().find(|kind| *kind == pool.kind)?;
        let here = ObjectKey::of(claim).namespace().filter(|_| kind == KINDS[0]).map(str::to_owned);
        let name = pool.name.as_str();
        Some(Self(kind, here.map_or_else(|| ObjectKey::cluster_scoped(name), |here| ObjectKey::namespaced(here, name))))
    }

    fn told(&self) -> String {
        format!("{}/{}", self.0, self.1)
    }

    /// How it is enlarged.
    fn edit(&self) -> String {
        let place = self.1.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        format!("kubectl edit {} {}{place}", self.0.to_lowercase(), self.1.name())
    }
}

fn judge(pools: &BTreeMap<Name, Option<PoolCounts>>, claims: &[IPAddressClaim]) -> Check {
    let mut waiting: BTreeMap<Name, usize> = BTreeMap::new();
    for name in claims.iter().filter_map(Name::awaited) {
        *waiting.entry(name).or_default() += 1;
    }
    let mut bad: Vec<(Level, Name, String)> = Vec::new();
    for (name, count) in waiting.iter().filter(|(name, _)| !pools.contains_key(name)) {
        bad.push((Level::Failure, name.clone(), format!("{} does not exist, {}", name.told(), wait(*count))));
    }
    // One that nobody has counted yet is not known to be empty.
    for (name, counts) in pools.iter().filter_map(|(name, counts)| Some((name, counts.as_ref()?))) {
        let waits = waiting.get(name).copied().unwrap_or_default();
        if let Some((level, words)) = trouble(counts, waits) {
            bad.push((level, name.clone(), format!("{}: {words}", name.told())));
        }
    }
    // The worst first; of equals in the order of their names.
    bad.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let Some((level, first, _)) = bad.first() else { return fine(pools) };
    let found = some(&bad.iter().map(|(_, _, words)| words.clone()).collect::<Vec<_>>());
    let fix = if pools.contains_key(first) {
        format!("{}   (enlarge spec.addresses, or add a pool with the same labels)", first.edit())
    } else {
        "make the pool that is named, or delete the claims".to_owned()
    };
    Check { level: *level, ..Check::warn(NAME, found, fix) }
}

fn fine(pools: &BTreeMap<Name, Option<PoolCounts>>) -> Check {
    let counted = pools.values().flatten();
    // A pool of IPv6 may have as many as a count can tell.
    let sum = |(free, all): (i64, i64), counts: &PoolCounts| {
        (free.saturating_add(counts.free), all.saturating_add(counts.total))
    };
    let (free, all) = counted.fold((0, 0), sum);
    match pools.len() {
        0 => Check::ok(NAME, "no pool: clusters get addresses that their users choose"),
        1 => Check::ok(NAME, format!("1 pool with {free} of {all} addresses free")),
        count => Check::ok(NAME, format!("{count} pools with {free} of {all} addresses free, none nearly full")),
    }
}

/// What is wrong with a pool that has so many left and waited for.
fn trouble(counts: &PoolCounts, waits: usize) -> Option<(Level, String)> {
    let PoolCounts { total, free, .. } = counts;
    let left = format!("{free} of {total} free");
    if *free <= 0 {
        return Some(match waits {
            0 => (Level::Warning, format!("{left}, nobody waits")),
            _ => (Level::Failure, format!("{left}, {}", wait(waits))),
        });
    }
    let full = total.saturating_sub(*free).saturating_mul(100) / total.max(&1);
    let (_, word) = FULL.into_iter().find(|(least, _)| full >= *least)?;
    Some((Level::Warning, format!("{left}, {word}")))
}

fn wait(count: usize) -> String {
    if count == 1 { "1 claim waits".to_owned() } else { format!("{count} claims wait") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pool(kind: &'static str, name: &str, free: i64, total: i64) -> (Name, Option<PoolCounts>) {
        let key =
            if kind == KINDS[0] { ObjectKey::namespaced("team-a", name) } else { ObjectKey::cluster_scoped(name) };
        (Name(kind, key), Some(PoolCounts { total, free, used: total - free, out_of_range: 0 }))
    }

    fn claim(kind: &str, pool: &str, more: Value) -> IPAddressClaim {
        let plain = json!({"metadata": {"namespace": "team-a", "name": "c"},
            "spec": {"poolRef": {"apiGroup": IPAM_GROUP, "kind": kind, "name": pool}}});
        serde_json::from_value(sim::dock::objects::merged(plain, &more)).unwrap()
    }

    fn of(pools: Vec<(Name, Option<PoolCounts>)>, claims: &[IPAddressClaim]) -> Check {
        judge(&pools.into_iter().collect(), claims)
    }

    #[test]
    fn an_empty_pool_fails_when_somebody_waits_and_is_worth_a_look_before() {
        let empty = || vec![pool("GlobalInClusterIPPool", "vips", 0, 20)];
        let waits = claim("GlobalInClusterIPPool", "vips", json!({}));
        let check = of(empty(), &[waits.clone(), waits.clone()]);
        assert_eq!(check.level, Level::Failure);
        assert_eq!(check.found, "GlobalInClusterIPPool/vips: 0 of 20 free, 2 claims wait");
        assert!(check.fix.unwrap().starts_with("kubectl edit globalinclusterippool vips   ("));
        let has = claim("GlobalInClusterIPPool", "vips", json!({"status": {"addressRef": {"name": "a"}}}));
        let leaves =
            claim("GlobalInClusterIPPool", "vips", json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}));
        let check = of(empty(), &[has, leaves]);
        assert_eq!(
            (check.level, check.found.as_str()),
            (Level::Warning, "GlobalInClusterIPPool/vips: 0 of 20 free, nobody waits")
        );
        // Of a pool of the same name in its own namespace another claim waits.
        let other = claim("InClusterIPPool", "vips", json!({}));
        let check = of(empty(), &[other]);
        assert_eq!(check.level, Level::Failure);
        assert!(
            check.found.starts_with("InClusterIPPool/team-a/vips does not exist, 1 claim waits; Global"),
            "{}",
            check.found
        );
    }

    #[test]
    fn a_pool_is_nearly_full_at_eighty_and_almost_at_ninety_five_percent() {
        for (free, word) in [(21, None), (20, Some("nearly full")), (6, Some("nearly full")), (5, Some("almost full"))]
        {
            let check = of(vec![pool("InClusterIPPool", "vips", free, 100)], &[]);
            assert_eq!(check.level, if word.is_some() { Level::Warning } else { Level::Ok }, "{free}");
            let told = word.map_or_else(
                || "1 pool with 21 of 100 addresses free".to_owned(),
                |word| format!("InClusterIPPool/team-a/vips: {free} of 100 free, {word}"),
            );
            assert_eq!(check.found, told);
        }
        let both = vec![pool("InClusterIPPool", "a", 1, 20), pool("InClusterIPPool", "b", 0, 20)];
        let check = of(both, &[claim("InClusterIPPool", "b", json!({}))]);
        assert_eq!(check.level, Level::Failure);
        assert!(check.found.starts_with("InClusterIPPool/team-a/b: 0 of 20"), "the worst first: {}", check.found);
        assert_eq!(check.fix.unwrap().split("   ").next(), Some("kubectl edit inclusterippool b -n team-a"));
    }

    #[test]
    fn pools_that_have_more_than_can_be_counted_are_added_up_all_the_same() {
        let endless = |name: &str| pool("InClusterIPPool", name, i64::MAX, i64::MAX);
        let check = of(vec![endless("a"), endless("b")], &[]);
        let most = i64::MAX;
        let told = format!("2 pools with {most} of {most} addresses free, none nearly full");
        assert_eq!((check.level, check.found), (Level::Ok, told));
    }

    #[test]
    fn what_is_not_counted_or_not_of_this_provider_is_not_judged() {
        let (name, _) = pool("InClusterIPPool", "new", 0, 0);
        assert_eq!(of(vec![(name, None)], &[]).level, Level::Ok);
        assert_eq!(of(Vec::new(), &[claim("InfobloxIPPool", "far", json!({}))]).level, Level::Ok);
    }
}
