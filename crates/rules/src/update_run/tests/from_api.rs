//! What is written to and read from API objects.

use flagship_api::binding::ResourceBindingStatus;
use flagship_api::staged_update::UpdateRunState::Run;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::fixture::both_scopes;
use crate::model::Binding;
use crate::update_run::CreateApprovalRequest;

#[test]
fn an_approval_request_has_these_labels_and_belongs_to_one_run() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        let ask = CreateApprovalRequest {
            name: "r-before-all".into(),
            stage: "all".into(),
            task_type: "beforeStage".into(),
        };
        let mut want = json!({
            "name": "r-before-all",
            "labels": {
                "kubernetes-fleet.io/targetUpdatingStage": "all",
                "kubernetes-fleet.io/targetUpdateRun": "r",
                "kubernetes-fleet.io/taskType": "beforeStage",
                "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
            },
            "annotations": {"flagship.dev/update-run-uid": fixture.runs[run].uid},
        });
        if let Some(namespace) = &fixture.namespace {
            want["namespace"] = namespace.as_str().into();
        }
        assert_eq!(serde_json::to_value(ask.metadata(&fixture.runs[run])).unwrap(), want);
        assert_eq!(
            serde_json::to_value(ask.spec(&fixture.runs[run])).unwrap(),
            json!({"parentStageRollout": "r", "targetStage": "all"})
        );
    });
}

#[test]
fn a_fence_left_on_a_binding_is_read_back() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        let fence = fixture.runs[run].fence();
        assert_eq!(fixture.binding("m2").fence, Some(fence.clone()));
        let mut metadata = ObjectMeta::default();
        fence.to_api().leave_on(&mut metadata);
        let status = ResourceBindingStatus::default();
        let spec = fixture.binding("m2").spec.clone();
        assert_eq!(Binding::read(metadata, spec, Some(status)).fence, Some(fence));
    });
}
