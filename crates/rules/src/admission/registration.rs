//! The names under which an API server knows our checks, and what each of them is shown.
//!
//! People meet the names: a refusal begins with one. Whoever serves the checks registers
//! the rows of [`webhooks`]; whoever asks them in the process borrows the names.

use super::Operation::{self, Create, Delete, Update};
use super::{JOINING, OWN, Options, PLACING, Request};

/// One check, as a webhook configuration lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Webhook {
    /// Name of the webhook.
    pub name: &'static str,
    /// Where it is served.
    pub path: &'static str,
    /// Whether it fills in, and does not judge.
    pub mutates: bool,
    /// Group of the kind.
    pub group: &'static str,
    /// Version that it reads; the server converts.
    pub version: &'static str,
    /// Plural of the kind.
    pub plural: &'static str,
    /// What of an object it is shown: `status`, or nothing for the object itself.
    pub parts: &'static [&'static str],
    /// The kind.
    pub kind: &'static str,
    /// What it is shown.
    pub operations: &'static [Operation],
}

const FLEET: &str = "v1beta1";

/// Fills in what the sender of a placement left out.
const COMPLETES: Webhook = Webhook {
    name: "fleet.clusterresourceplacementv1beta1.mutating",
    path: "/mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement",
    mutates: true,
    group: PLACING,
    version: FLEET,
    plural: "clusterresourceplacements",
    parts: ITSELF,
    kind: "ClusterResourcePlacement",
    operations: &[Create, Update],
};

/// All checks, those that an operator may turn off included. KubeFleet serves one for
/// ResourcePlacements and registers it nowhere; it goes by a name of our own.
const ALL: &[Webhook] = &[
    COMPLETES,
    Webhook {
        name: "fleet.pod.validating",
        path: "/validate--v1-pod",
        ..judges("", "v1", "pods", "Pod", &[Create])
    },
    Webhook {
        name: "fleet.replicaset.validating",
        path: "/validate-apps-v1-replicaset",
        ..judges("apps", "v1", "replicasets", "ReplicaSet", &[Create])
    },
    Webhook {
        name: "fleet.poddisruptionbudget.validating",
        path: "/validate-policy-v1-poddisruptionbudget",
        ..judges("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", &[Create])
    },
    Webhook {
        name: "fleet.clusterresourceplacementv1beta1.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement",
        ..judges(
            PLACING,
            FLEET,
            "clusterresourceplacements",
            "ClusterResourcePlacement",
            &[Create, Update],
        )
    },
    Webhook {
        name: "fleet.resourceplacementv1beta1.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-resourceplacement",
        ..judges(PLACING, FLEET, "resourceplacements", "ResourcePlacement", &[Create, Update])
    },
    Webhook {
        name: "fleet.membercluster.validating",
        path: "/validate-cluster.kubernetes-fleet.io-v1beta1-membercluster",
        ..judges(JOINING, FLEET, "memberclusters", "MemberCluster", &[Create, Update, Delete])
    },
    Webhook {
        name: "fleet.clusterresourceoverride.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceoverride",
        ..judges(
            PLACING,
            FLEET,
            "clusterresourceoverrides",
            "ClusterResourceOverride",
            &[Create, Update],
        )
    },
    Webhook {
        name: "fleet.resourceoverride.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-resourceoverride",
        ..judges(PLACING, FLEET, "resourceoverrides", "ResourceOverride", &[Create, Update])
    },
    Webhook {
        name: "fleet.clusterresourceplacementeviction.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementeviction",
        ..judges(
            PLACING,
            FLEET,
            "clusterresourceplacementevictions",
            "ClusterResourcePlacementEviction",
            &[Create],
        )
    },
    Webhook {
        name: "fleet.clusterresourceplacementdisruptionbudget.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementdisruptionbudget",
        ..judges(
            PLACING,
            FLEET,
            "clusterresourceplacementdisruptionbudgets",
            "ClusterResourcePlacementDisruptionBudget",
            &[Create, Update],
        )
    },
    Webhook {
        name: "flagship.rolloutpolicy.validating",
        path: "/validate-flagship.dev-v1alpha1-rolloutpolicy",
        ..judges(OWN, "v1alpha1", "rolloutpolicies", "RolloutPolicy", &[Create, Update])
    },
    Webhook {
        name: "flagship.clusterrolloutrecord.validating",
        path: "/validate-flagship.dev-v1alpha1-clusterrolloutrecord",
        ..judges(OWN, "v1alpha1", "clusterrolloutrecords", "ClusterRolloutRecord", EVERY_WRITE)
    },
    Webhook {
        name: "flagship.rolloutrecord.validating",
        path: "/validate-flagship.dev-v1alpha1-rolloutrecord",
        ..judges(OWN, "v1alpha1", "rolloutrecords", "RolloutRecord", EVERY_WRITE)
    },
    Webhook {
        name: "flagship.clusterapproval.mutating",
        path: "/mutate-flagship.dev-v1alpha1-clusterapproval",
        ..signs(OWN, "v1alpha1", "clusterapprovals", "ClusterApproval", &[Create])
    },
    Webhook {
        name: "flagship.approval.mutating",
        path: "/mutate-flagship.dev-v1alpha1-approval",
        ..signs(OWN, "v1alpha1", "approvals", "Approval", &[Create])
    },
    Webhook {
        name: "flagship.clusterstagedupdaterun.mutating",
        path: "/mutate-placement.kubernetes-fleet.io-v1beta1-clusterstagedupdaterun",
        ..signs(
            PLACING,
            FLEET,
            "clusterstagedupdateruns",
            "ClusterStagedUpdateRun",
            &[Create, Update],
        )
    },
    Webhook {
        name: "flagship.stagedupdaterun.mutating",
        path: "/mutate-placement.kubernetes-fleet.io-v1beta1-stagedupdaterun",
        ..signs(PLACING, FLEET, "stagedupdateruns", "StagedUpdateRun", &[Create, Update])
    },
    Webhook {
        name: "flagship.clusterapprovalrequest.mutating",
        path: "/mutate-placement.kubernetes-fleet.io-v1beta1-clusterapprovalrequest",
        parts: STATUS,
        ..signs(PLACING, FLEET, "clusterapprovalrequests", "ClusterApprovalRequest", &[Update])
    },
    Webhook {
        name: "flagship.approvalrequest.mutating",
        path: "/mutate-placement.kubernetes-fleet.io-v1beta1-approvalrequest",
        parts: STATUS,
        ..signs(PLACING, FLEET, "approvalrequests", "ApprovalRequest", &[Update])
    },
    Webhook {
        name: "flagship.freeze.mutating",
        path: "/mutate-flagship.dev-v1alpha1-freeze",
        ..signs(OWN, "v1alpha1", "freezes", "Freeze", &[Create, Update])
    },
    Webhook {
        name: "flagship.clusterapproval.validating",
        path: "/validate-flagship.dev-v1alpha1-clusterapproval",
        ..judges(OWN, "v1alpha1", "clusterapprovals", "ClusterApproval", &[Create, Update, Delete])
    },
    Webhook {
        name: "flagship.approval.validating",
        path: "/validate-flagship.dev-v1alpha1-approval",
        ..judges(OWN, "v1alpha1", "approvals", "Approval", &[Create, Update, Delete])
    },
    Webhook {
        name: "flagship.clusterapprovalrequest.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-clusterapprovalrequest",
        parts: &["", "status"],
        ..judges(PLACING, FLEET, "clusterapprovalrequests", "ClusterApprovalRequest", &[Update])
    },
    Webhook {
        name: "flagship.approvalrequest.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-approvalrequest",
        parts: &["", "status"],
        ..judges(PLACING, FLEET, "approvalrequests", "ApprovalRequest", &[Update])
    },
    Webhook {
        name: "flagship.clusterstagedupdaterun.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-clusterstagedupdaterun",
        parts: STATUS,
        ..judges(PLACING, FLEET, "clusterstagedupdateruns", "ClusterStagedUpdateRun", &[Update])
    },
    Webhook {
        name: "flagship.stagedupdaterun.validating",
        path: "/validate-placement.kubernetes-fleet.io-v1beta1-stagedupdaterun",
        parts: STATUS,
        ..judges(PLACING, FLEET, "stagedupdateruns", "StagedUpdateRun", &[Update])
    },
];

const EVERY_WRITE: &[Operation] = &[Create, Update, Delete];

const fn judges(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    operations: &'static [Operation],
) -> Webhook {
    Webhook {
        name: "",
        path: "",
        mutates: false,
        group,
        version,
        plural,
        parts: ITSELF,
        kind,
        operations,
    }
}

/// The object, and none of its subresources.
const ITSELF: &[&str] = &[""];
const STATUS: &[&str] = &["status"];

/// Writes down who sends something.
const fn signs(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    operations: &'static [Operation],
) -> Webhook {
    Webhook { mutates: true, ..judges(group, version, plural, kind, operations) }
}

/// The checks that a hub of these options has, in the order to list them.
pub fn webhooks(options: Options) -> impl Iterator<Item = &'static Webhook> {
    ALL.iter().filter(move |webhook| match webhook.kind {
        "Pod" | "ReplicaSet" => !options.workloads_run_here,
        "PodDisruptionBudget" => !options.pod_disruption_budgets,
        _ => true,
    })
}

/// The check that judges requests like this one.
pub fn judge_of(request: &Request<'_>) -> Option<&'static Webhook> {
    ALL.iter().find(|webhook| {
        !webhook.mutates
            && webhook.group == request.group()
            && webhook.kind == request.kind.kind
            && webhook.operations.contains(&request.operation)
    })
}

impl Webhook {
    /// Whether requests pass that nobody answered: what is filled in of a placement is filled in
    /// again by whoever reads it, and nothing may keep people from stopping the line. Whose word
    /// an approval is, and who is behind a run, is known then or never.
    pub fn fails_open(&self) -> bool {
        self.mutates && !self.is_about_approvals()
    }

    /// What it is shown, as an API server spells it.
    pub fn resources(&self) -> Vec<String> {
        let part = |part: &&str| match *part {
            "" => self.plural.to_owned(),
            part => format!("{}/{part}", self.plural),
        };
        self.parts.iter().map(part).collect()
    }

    /// Whether it writes down who makes a freeze.
    pub fn signs_freezes(&self) -> bool {
        self.mutates && self.kind == "Freeze"
    }

    /// Whether it judges who may write records.
    pub fn is_about_records(&self) -> bool {
        self.group == OWN && super::records::KINDS.contains(&self.kind)
    }

    /// Whether it lets nobody but the hub pass, so that it must know who the hub is.
    pub fn must_know_the_hub(&self) -> bool {
        let is_run = matches!(self.kind, "ClusterStagedUpdateRun" | "StagedUpdateRun");
        self.is_about_records() || (is_run && !self.mutates)
    }

    /// Whether it is about approvals: the hub writes requests and runs itself, and is not asked.
    pub fn is_about_approvals(&self) -> bool {
        super::approvals::KINDS.contains(&self.kind)
    }

    /// What a client is told that was refused.
    pub fn refusal(&self, why: &str) -> String {
        denied(self.name, why)
    }
}

/// What a client is told that a webhook of this name refused.
pub(super) fn denied(name: &str, why: &str) -> String {
    format!("admission webhook \"{name}\" denied the request: {why}")
}
