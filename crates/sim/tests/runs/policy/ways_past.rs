//! Ways to get past the people who must approve, as data: told of an embedded hub in `approvals`,
//! of a real API server with the hub's webhooks in `crates/cli/tests/agents/approvals.rs`.

use serde_json::{Value, json};

pub const RECORDS: &str = "clusterrolloutrecords.flagship.dev";
pub const HASH: &str = "flagship.dev/plan-hash";

/// What the policy of these ways asks for: two managers, not the author, with a reason.
pub fn rules() -> Value {
    json!({"required": 2, "groups": ["managers"], "notAuthor": true,
        "reason": "Required", "expiresAfter": "12h", "breakGlass": {"groups": ["leads"]}})
}

/// What somebody says to a request of the whole cluster; the spec may be changed.
pub fn word(request: &Value, name: &str, more: &Value) -> Value {
    let mut spec = json!({"request": request["metadata"]["name"],
        "requestUID": request["metadata"]["uid"],
        "planHash": request["metadata"]["annotations"][HASH], "decision": "Approve"});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "flagship.dev/v1alpha1", "kind": "ClusterApproval",
        "metadata": {"name": name}, "spec": spec})
}

/// What somebody tries.
pub enum Try {
    /// To create an approval of the request, with this changed in it.
    Say(Value),
    /// To create something.
    Make(&'static str, &'static str, Value),
    /// To change something, or a subresource of it.
    Patch(&'static str, &'static str, &'static str, Value),
    /// To delete something.
    Delete(&'static str, &'static str),
}

pub const RUNS: &str = "clusterstagedupdateruns.placement.kubernetes-fleet.io";
pub const REQUESTS: &str = "clusterapprovalrequests.placement.kubernetes-fleet.io";
pub const WORDS: &str = "clusterapprovals.flagship.dev";
pub const REQUEST: &str = "r-before-canary";

/// Ways to get past the policy, who tries each, and what is said: by the server where it refuses,
/// or by the run where the attempt is stored and does not count. Rows are data, so that they can
/// be sent to any API server.
pub fn attempts(now: &str) -> Vec<(&'static str, &'static str, Try, &'static str)> {
    use Try::{Delete, Make, Patch, Say};
    let condition = |kind: &str, reason: &str| {
        json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": reason,
            "message": "fine", "observedGeneration": 1, "lastTransitionTime": now}]}})
    };
    let named = |user: &str, groups: &[&str]| json!({"by": {"user": user, "groups": groups}, "reason": "r"});
    let passed = json!({"status": {"policyObservedClusterCount": 7}});
    let plan = json!({"placement": "web", "strategy": "plan", "snapshot": "0", "stages": [],
        "hash": ""});
    let entry = json!({"run": {"name": "r", "uid": "u"}, "part": 1, "plan": plan, "entries": []});
    vec![
        ("a forged name", "eve@interns", Say(named("bob", &["managers"])), "eve is not of group"),
        ("forged groups", "eve@interns", Say(named("eve", &["managers"])), "eve is not of group"),
        (
            "the author",
            "carol@managers",
            Say(json!({"reason": "mine"})),
            "carol created or started",
        ),
        (
            "nobody in particular",
            "system:anonymous",
            Say(json!({"reason": "r"})),
            "is not of group",
        ),
        (
            "one person twice",
            "alice@managers",
            Say(json!({"reason": "again"})),
            "1 of 2 approvals, by alice",
        ),
        (
            "an old plan",
            "bob@managers",
            Say(json!({"reason": "r", "planHash": "0123"})),
            "about another plan (0123)",
        ),
        (
            "another request of the name",
            "bob@managers",
            Say(json!({"reason": "r", "requestUID": "u"})),
            "1 of 2 approvals",
        ),
        (
            "a request that is not there yet",
            "bob@managers",
            Say(json!({"reason": "r", "request": "r-before-prod", "requestUID": "u"})),
            "1 of 2 approvals",
        ),
        (
            "a request of another run",
            "bob@managers",
            Say(json!({"reason": "r", "request": "q-before-canary", "requestUID": "u"})),
            "1 of 2 approvals",
        ),
        ("no reason", "dan@managers", Say(json!({})), "dan gave no reason"),
        ("an empty reason", "dan@managers", Say(json!({"reason": ""})), "dan gave no reason"),
        (
            "the glass, broken by anybody",
            "eve@interns",
            Say(json!({"breakGlass": true, "reason": "r"})),
            "eve is not of group",
        ),
        (
            "the glass, broken in silence",
            "lea@leads",
            Say(json!({"breakGlass": true})),
            "refused: whoever breaks the glass says why",
        ),
        (
            "no decision",
            "bob@managers",
            Say(json!({"decision": "Perhaps"})),
            "refused: supported values",
        ),
        (
            "another decision of somebody",
            "bob@managers",
            Patch(WORDS, "alice", "", json!({"spec": {"decision": "Reject"}})),
            "refused: what somebody has said stays",
        ),
        (
            "another name on a word",
            "bob@managers",
            Patch(WORDS, "alice", "", json!({"spec": {"by": {"user": "bob"}}})),
            "refused: what somebody has said stays",
        ),
        (
            "a word of one's own, changed",
            "alice@managers",
            Patch(WORDS, "alice", "", json!({"spec": {"reason": "other"}})),
            "refused: what somebody has said stays",
        ),
        (
            "a word given to another owner",
            "bob@managers",
            Patch(WORDS, "alice", "", json!({"metadata": {"ownerReferences": []}})),
            "refused: what somebody has said stays",
        ),
        (
            "somebody's word, deleted",
            "eve@managers",
            Delete(WORDS, "alice"),
            "refused: only who said it may take it back",
        ),
        (
            "the status of the request",
            "bob@managers",
            Patch(
                REQUESTS,
                REQUEST,
                "status",
                condition("Approved", "ClusterApprovalRequestApproved"),
            ),
            "refused: flagship approve r canary",
        ),
        (
            "the answer of the hub",
            "bob@managers",
            Patch(
                REQUESTS,
                REQUEST,
                "status",
                condition("ApprovalAccepted", "ApprovalRequestApprovalAccepted"),
            ),
            "refused: flagship approve r canary",
        ),
        (
            "the words of the hub",
            "eve@interns",
            Patch(
                REQUESTS,
                REQUEST,
                "status",
                condition("Approved", "RolloutPolicyApprovalsCounted"),
            ),
            "refused: flagship approve r canary",
        ),
        (
            "the stamp of admission",
            "eve@interns",
            Patch(
                REQUESTS,
                REQUEST,
                "status",
                condition("Approved", "RolloutPolicyApprovalStamped"),
            ),
            "refused: flagship approve r canary",
        ),
        (
            "the name of the hub's account",
            "hub@interns",
            Patch(
                REQUESTS,
                REQUEST,
                "status",
                condition("Approved", "RolloutPolicyApprovalsCounted"),
            ),
            "refused: flagship approve r canary",
        ),
        (
            "an administrator's patch",
            "root@system:masters",
            Patch(REQUESTS, REQUEST, "status", condition("Approved", "x")),
            "refused: flagship approve r canary",
        ),
        (
            "another plan on the request",
            "bob@managers",
            Patch(REQUESTS, REQUEST, "", json!({"metadata": {"annotations": {HASH: "0123"}}})),
            "refused: which run and plan it is about",
        ),
        (
            "the status of the run",
            "carol@managers",
            Patch(RUNS, "r", "status", passed),
            "refused: only the hub says how far it is",
        ),
        (
            "a run that follows no policy",
            "carol@managers",
            Patch(
                RUNS,
                "r",
                "",
                json!({"metadata": {"annotations": {"flagship.dev/adopted-policies": null}}}),
            ),
            "1 of 2 approvals",
        ),
        (
            "a run by somebody else",
            "carol@managers",
            Patch(
                RUNS,
                "r",
                "",
                json!({"metadata": {"annotations": {"flagship.dev/created-by": "zoe"}}}),
            ),
            "1 of 2 approvals",
        ),
        (
            "the author of that run",
            "carol@managers",
            Say(json!({"reason": "mine"})),
            "carol created or started",
        ),
        (
            "a record of one's own",
            "eve@interns",
            Make(RECORDS, "ClusterRolloutRecord", entry),
            "refused: the hub alone writes them",
        ),
        (
            "a changed record",
            "root@system:masters",
            Patch(RECORDS, "r", "", json!({"metadata": {"annotations": {"a": "b"}}})),
            "refused: a record stays as the hub wrote it",
        ),
        (
            "a policy edited in mid-run",
            "root@system:masters",
            Patch(
                "rolloutpolicies.flagship.dev",
                "strict",
                "",
                json!({"spec": {"approvals": {"required": 1}}}),
            ),
            "1 of 2 approvals",
        ),
        (
            "a policy deleted in mid-run",
            "root@system:masters",
            Delete("rolloutpolicies.flagship.dev", "strict"),
            "1 of 2 approvals",
        ),
        ("a request made anew", "bob@managers", Delete(REQUESTS, REQUEST), "0 of 2 approvals"),
    ]
}
