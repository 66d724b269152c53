//! Agents that do not start, and say why.

use super::fleet::Fleet;

// update runs 1.6: without its definitions the hub refuses to start
#[test]
fn a_hub_on_a_cluster_without_its_definitions_does_not_start() {
    let fleet = Fleet::new("refusals", &["--members", "1", "--ephemeral"]);
    // A member has no more of our kinds than it needs.
    let line = "flagship hub --context member1 --enable-webhook=false \
         --health-probe-bind-address 0 --metrics-bind-address 0";
    let ended = fleet.line(line);
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    let error = told.split("error: ").last().unwrap_or_default();
    assert!(
        error.starts_with("the API server lacks 25 CustomResourceDefinition(s) this hub needs:\n"),
        "{told}"
    );
    for part in [
        "\n  clusterstagedupdateruns.placement.kubernetes-fleet.io/v1beta1\n",
        "\n  memberclusters.cluster.kubernetes-fleet.io/v1beta1\n",
        "\n  flagship crds | kubectl apply --server-side -f -\n",
    ] {
        assert!(error.contains(part), "{part}: {told}");
    }
}
