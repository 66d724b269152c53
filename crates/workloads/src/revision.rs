//! ControllerRevisions: the templates a StatefulSet or DaemonSet has had.

use serde_json::{Value, json};

use crate::hash;
use crate::object::{Fields, controller_ref, means_the_same, set};
use crate::plan::{Action, Plan, Target};

const REVISIONS: &str = "controllerrevisions.apps";
/// Label that tells which template a pod was made from.
pub const LABEL: &str = "controller-revision-hash";

/// The revision of the present template.
#[derive(Debug, Clone, PartialEq)]
pub struct Latest {
    /// Its name.
    pub name: String,
    /// The hash in its name.
    pub hash: String,
}

/// Finds or makes the revision of the owner's template. Going back to an old template
/// gives its revision the highest number.
pub fn latest(owner: &Value, revisions: &[Value], plan: &mut Plan) -> Latest {
    let template = owner.at("/spec/template");
    let data = json!({"spec": {"template": template}});
    let highest = revisions.iter().filter_map(|r| r.int("/revision")).max().unwrap_or(0);
    let same = revisions.iter().find(|r| means_the_same(r.at("/data"), &data));
    if let Some(found) = same {
        if found.int("/revision") != Some(highest) {
            let mut object = found.clone();
            set(&mut object, &["revision"], json!(highest + 1));
            plan.act(Action::Replace { resource: REVISIONS.into(), object });
        }
        let hash = found.at("/metadata/labels").get(LABEL).and_then(Value::as_str);
        let hash = hash.unwrap_or_default().to_owned();
        return Latest { name: found.name().to_owned(), hash };
    }
    let mut hash = hash::of_template(template, owner.int("/status/collisionCount"));
    let mut attempt = 1;
    let name_of = |hash: &str| format!("{}-{hash}", owner.name());
    // Another template with the same hash: hash again until the name is free.
    while revisions.iter().any(|r| r.name() == name_of(&hash)) {
        hash = hash::of_template(template, Some(attempt));
        attempt += 1;
    }
    let name = name_of(&hash);
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": name, "namespace": owner.namespace(),
            "labels": owner.at("/spec/template/metadata/labels").clone(),
            "ownerReferences": [controller_ref(owner)],
        },
        "data": data, "revision": highest + 1,
    });
    set(&mut object, &["metadata", "labels", LABEL], json!(hash));
    plan.act(Action::Create { resource: REVISIONS, object, then: None, refused: None });
    Latest { name, hash }
}

/// The template that a revision keeps.
pub fn template<'a>(revisions: &'a [Value], name: &str) -> Option<&'a Value> {
    let found = revisions.iter().find(|r| r.name() == name)?;
    Some(found.at("/data/spec/template"))
}

/// Removes the oldest revisions beyond the limit, except those in use.
pub fn forget(owner: &Value, revisions: &[Value], in_use: &[&str], plan: &mut Plan) {
    let limit = owner.int("/spec/revisionHistoryLimit").unwrap_or(10).max(0);
    let is_idle =
        |r: &&Value| !in_use.contains(&r.name()) && r.controller_uid() == Some(owner.uid());
    let mut idle: Vec<&Value> = revisions.iter().filter(is_idle).collect();
    idle.sort_by_key(|r| r.int("/revision"));
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    for old in idle.into_iter().take(surplus) {
        plan.act(Action::delete(Target::of(REVISIONS, old)));
    }
}
