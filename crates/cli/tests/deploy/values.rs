//! Every value of the charts, held against its effect.
//!
//! `hub-values.txt` and `member-values.txt` have a line `> VALUES` for each case, and below it
//! what the values take away from the default rendering and what they add; or what helm says
//! where they are refused. `UPDATE_EXPECT=1` writes the effects again, for a person to read.

use std::collections::BTreeSet;
use std::process::Command;

use expect_test::expect_file;
use flagship_api::crd;
use serde_json::Value;

use super::helm::{Chart, HUB, MEMBER, Rendered};

const BINARY: &str = env!("CARGO_BIN_EXE_flagship");

/// The values of KubeFleet's hub chart.
const HUB_VALUES: &[&str] = &[
    "replicaCount",
    "image.repository",
    "image.pullPolicy",
    "image.tag",
    "namespace",
    "logVerbosity",
    "logFileMaxSize",
    "enableWebhook",
    "enableGuardRail",
    "webhookServiceName",
    "webhookClientConnectionType",
    "enableWorkload",
    "useCertManager",
    "webhookCertSecretName",
    "forceDeleteWaitTime",
    "clusterUnhealthyThreshold",
    "resourceSnapshotCreationMinimumInterval",
    "resourceChangesCollectionDuration",
    "enableClusterInventoryAPI",
    "enableStagedUpdateRunAPIs",
    "enableEvictionAPIs",
    "enablePprof",
    "pprofPort",
    "hubAPIQPS",
    "hubAPIBurst",
    "MaxConcurrentClusterPlacement",
    "ConcurrentResourceChangeSyncs",
    "MaxFleetSizeSupported",
    "enableAdmissionPolicyManager",
    "admissionPolicyManagerConfigName",
    "additionalConfigData",
    "additionalConfigDataMountPath",
    "resources",
    "affinity",
    "tolerations",
];

/// The values of KubeFleet's member chart.
const MEMBER_VALUES: &[&str] = &[
    "replicaCount",
    "image.repository",
    "image.pullPolicy",
    "image.tag",
    "refreshtoken.repository",
    "refreshtoken.pullPolicy",
    "refreshtoken.tag",
    "logVerbosity",
    "namespace",
    "resources",
    "tolerations",
    "affinity",
    "nodeSelector",
    "config.provider",
    "config.hubURL",
    "config.memberClusterName",
    "config.hubCA",
    "config.identityKey",
    "config.identityCert",
    "config.CABundle",
    "config.azureCloudConfig",
    "secret.name",
    "secret.namespace",
    "azure.clientid",
    "tlsClientInsecure",
    "useCAAuth",
    "enablePprof",
    "pprofPort",
    "hubPprofPort",
    "priorityQueue.enabled",
    "priorityQueue.priorityLinearEquationCoeffA",
    "priorityQueue.priorityLinearEquationCoeffB",
    "propertyProvider",
    "region",
    "enableNamespaceCollectionInPropertyProvider",
    "workApplierRequeueRateLimiterAttemptsWithFixedDelay",
    "workApplierRequeueRateLimiterFixedDelaySeconds",
    "workApplierRequeueRateLimiterExponentialBaseForSlowBackoff",
    "workApplierRequeueRateLimiterInitialSlowBackoffDelaySeconds",
    "workApplierRequeueRateLimiterMaxSlowBackoffDelaySeconds",
    "workApplierRequeueRateLimiterExponentialBaseForFastBackoff",
    "workApplierRequeueRateLimiterMaxFastBackoffDelaySeconds",
    "workApplierRequeueRateLimiterSkipToFastBackoffForAvailableOrDiffReportedWorkObjs",
];

#[test]
fn every_value_of_the_hub_has_its_effect() {
    hold(HUB, include_str!("hub-values.txt"), HUB_VALUES, "hub-values.txt");
}

#[test]
fn every_value_of_the_member_has_its_effect() {
    hold(MEMBER, include_str!("member-values.txt"), MEMBER_VALUES, "member-values.txt");
}

#[test]
fn the_charts_pass_helms_own_check() {
    for chart in [HUB, MEMBER] {
        let Some(checked) = chart.lint() else { return };
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success(), "{said}");
    }
}

/// Every value that is documented may be given, and only those: the default values name exactly
/// what the schema knows.
#[test]
fn the_schema_knows_what_the_default_values_name() {
    for chart in [HUB, MEMBER] {
        let read = |name: &str| std::fs::read_to_string(chart.folder().join(name)).unwrap();
        let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
        let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        let keys = |of: &Value| -> BTreeSet<String> {
            of.as_object().unwrap().keys().filter(|key| *key != "global").cloned().collect()
        };
        assert_eq!(keys(&schema["properties"]), keys(&values), "{}", chart.name);
    }
}

/// A hub has the definitions of the fleet's API and of rollout policies, unless told otherwise.
#[test]
fn definitions_come_with_the_hub_unless_told_otherwise() {
    let (fleets, policies) = (crd::all().len() - 1, crd::policies().len());
    for (values, wanted) in [
        ("{}", fleets + policies),
        ("{policies: {install: false}}", fleets),
        ("{crds: {install: false}}", 0),
    ] {
        let Some(rendered) = HUB.template(&[values]) else { return };
        let rendered = rendered.unwrap().0;
        let definitions = rendered.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
        let kept = |it: &&Value| it["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        assert_eq!(definitions.filter(kept).count(), wanted, "{values}");
    }
}

fn hold(chart: Chart, table: &str, kubefleets: &[&str], file: &str) {
    let cases: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    let given: Vec<Value> =
        cases.iter().map(|case| serde_saphyr::from_str(case).unwrap()).collect();
    let is_untried = |value: &&&str| {
        let pointer = format!("/{}", value.replace('.', "/"));
        !given.iter().any(|case| case.pointer(&pointer).is_some())
    };
    let untried: Vec<&&str> = kubefleets.iter().filter(is_untried).collect();
    assert_eq!(untried, Vec::<&&str>::new(), "KubeFleet's values without a case in {file}");

    let Some(plain) = chart.render("{}") else { return };
    let plain = plain.unwrap();
    starts(&plain, "the default values");
    let plain = plain.lines();
    let head = table.lines().take_while(|line| line.starts_with('#'));
    let mut shown: String = head.map(|line| format!("{line}\n")).collect();
    for case in cases {
        shown.push_str(&format!("\n> {case}\n"));
        match chart.render(case).unwrap() {
            Ok(rendered) => {
                starts(&rendered, case);
                let lines = rendered.lines();
                let gone = plain.difference(&lines).map(|line| format!("- {line}\n"));
                shown.extend(gone);
                let new = lines.difference(&plain).map(|line| format!("+ {line}\n"));
                shown.extend(new);
            }
            Err(refusal) => {
                let said = refusal.lines().filter(|line| !line.is_empty());
                // A hint at --debug says nothing of the values.
                let said = said.filter(|line| !line.starts_with("Use --debug"));
                shown.extend(said.map(|line| format!("! {line}\n")));
            }
        }
    }
    expect_file![format!("{}/tests/deploy/{file}", env!("CARGO_MANIFEST_DIR"))].assert_eq(&shown);
}

/// The real commands understand every rendered argument, and look for their cluster next.
fn starts(rendered: &Rendered, case: &str) {
    let words = |of: &Value| -> Vec<String> {
        let all = of.as_array().into_iter().flatten();
        all.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    for (namespace, container) in rendered.containers() {
        let command = words(&container["command"]);
        let [binary, subcommand @ ..] = command.as_slice() else { continue };
        assert_eq!(binary, "/flagship");
        let environment = container["env"].as_array().into_iter().flatten().map(|variable| {
            let value = variable["value"].as_str().unwrap_or(namespace);
            (variable["name"].as_str().unwrap(), value)
        });
        let answer = Command::new(BINARY)
            .args(subcommand)
            .args(words(&container["args"]))
            .arg("--kubeconfig=/nowhere")
            .env_clear()
            .envs(environment)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&answer.stderr);
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: cannot use the kubeconfig /nowhere"),
            "{subcommand:?} with {case}: {said}"
        );
    }
}
