//! In which order the clusters of a stage go, where a policy says.
//!
//! The seed is the run's UID, so the order is by chance and can be told again.

use std::collections::BTreeSet;

use flagship_api::keys::property;

use crate::model::Cluster;

/// Names of clusters by chance.
pub fn random(seed: &str, clusters: &mut [String]) {
    clusters.sort_by_key(|name| (fnv(seed, name), name.clone()));
}

/// The most different clusters first: after the first by name always the one that has most in
/// itself that none before it had, ties by name.
pub fn diverse(fleet: &[&Cluster], clusters: &mut Vec<String>) {
    clusters.sort();
    let traits = |name: &String| {
        let found = fleet.iter().find(|cluster| cluster.name == *name);
        found.map_or_else(BTreeSet::new, |cluster| traits_of(cluster))
    };
    let mut left: Vec<(String, BTreeSet<String>)> =
        clusters.iter().map(|name| (name.clone(), traits(name))).collect();
    let (mut seen, mut ordered) = (BTreeSet::new(), Vec::new());
    while !left.is_empty() {
        // Of equals the first by name.
        let news = |(_, traits): &(String, BTreeSet<String>)| traits.difference(&seen).count();
        let best = left.iter().map(news).max().unwrap_or(0);
        let at = left.iter().position(|one| news(one) == best).unwrap_or(0);
        let (name, traits) = left.remove(at);
        seen.extend(traits);
        ordered.push(name);
    }
    *clusters = ordered;
}

/// What makes a cluster different from others: its version, region, zone and architecture.
fn traits_of(cluster: &Cluster) -> BTreeSet<String> {
    const LABELS: [&str; 3] =
        ["topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/arch"];
    let labels = LABELS.iter().filter_map(|key| Some((*key, cluster.labels.get(key)?)));
    let version = cluster.properties.get(property::K8S_VERSION);
    let version = version.map(|version| (property::K8S_VERSION, version));
    labels.chain(version).map(|(key, value)| format!("{key}={value}")).collect()
}

fn fnv(seed: &str, name: &str) -> u64 {
    let bytes = seed.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The last bytes of names differ most, and would stay near each other.
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn chance_is_the_same_for_the_same_run_and_another_for_the_next() {
        let order = |seed: &str| {
            let mut all = names(&["a", "b", "c", "d", "e", "f"]);
            random(seed, &mut all);
            all
        };
        assert_eq!(order("uid-1"), order("uid-1"));
        assert_ne!(order("uid-1"), order("uid-2"));
        let mut sorted = order("uid-1");
        sorted.sort();
        assert_eq!(sorted, names(&["a", "b", "c", "d", "e", "f"]));
    }

    #[test]
    fn the_odd_cluster_comes_early() {
        let cluster = |name: &str, region: &str, arch: &str| Cluster {
            name: name.to_owned(),
            labels: BTreeMap::from([
                ("topology.kubernetes.io/region".to_owned(), region.to_owned()),
                ("kubernetes.io/arch".to_owned(), arch.to_owned()),
            ])
            .into(),
            ..Cluster::default()
        };
        let fleet = [
            cluster("a", "eu", "amd64"),
            cluster("b", "eu", "amd64"),
            cluster("c", "us", "arm64"),
            cluster("d", "us", "amd64"),
            cluster("e", "ap", "amd64"),
        ];
        let mut all = names(&["e", "d", "c", "b", "a", "unknown"]);
        diverse(&fleet.iter().collect::<Vec<_>>(), &mut all);
        assert_eq!(all, names(&["a", "c", "e", "b", "d", "unknown"]));
    }
}
