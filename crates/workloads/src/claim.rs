//! Who a dependent belongs to: adopt what matches and is free, release what no
//! longer matches.

use serde_json::{Value, json};

use crate::object::{Fields, controller_ref, set};
use crate::plan::Action;
use crate::selector;

/// What to do about one possible dependent.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// It is ours.
    Keep,
    /// Write this first: it takes or gives up the object.
    Rewrite(Value),
    /// It is not ours.
    Leave,
}

/// Decides by owner reference and labels. An owner that is going adopts nobody.
pub fn decide(owner: &Value, wanted: &Value, object: &Value) -> Claim {
    let matches = selector::picks(wanted, &object.labels());
    match object.controller_uid() {
        Some(uid) if uid == owner.uid() && matches => Claim::Keep,
        Some(uid) if uid == owner.uid() => {
            if owner.is_deleting() {
                return Claim::Leave;
            }
            let mut freed = object.clone();
            let others: Vec<Value> = object
                .list("/metadata/ownerReferences")
                .iter()
                .filter(|o| o.text("/uid") != owner.uid())
                .cloned()
                .collect();
            set(&mut freed, &["metadata", "ownerReferences"], json!(others));
            Claim::Rewrite(freed)
        }
        Some(_) => Claim::Leave,
        None if matches && !owner.is_deleting() && !object.is_deleting() => {
            let mut adopted = object.clone();
            let mut owners = object.list("/metadata/ownerReferences").to_vec();
            owners.retain(|o| o.text("/uid") != owner.uid());
            owners.push(controller_ref(owner));
            set(&mut adopted, &["metadata", "ownerReferences"], json!(owners));
            Claim::Rewrite(adopted)
        }
        None => Claim::Leave,
    }
}

/// The writes that settle whose objects these are.
pub fn settle(owner: &Value, resource: &str, strays: &[Value]) -> Vec<Action> {
    let wanted = selector::of(owner);
    let decide = |stray: &Value| match decide(owner, &wanted, stray) {
        Claim::Rewrite(object) => Some(Action::Replace { resource: resource.into(), object }),
        Claim::Keep | Claim::Leave => None,
    };
    strays.iter().filter_map(decide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_matches_are_adopted_and_strangers_released() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "uid": "u1"}});
        let wanted = json!({"matchLabels": {"app": "web"}});
        let pod = |app: &str, owners: Value| json!({"metadata": {"name": "p", "labels": {"app": app}, "ownerReferences": owners}});
        let ours = json!([controller_ref(&owner)]);
        let theirs = json!([{"uid": "u2", "controller": true}]);
        let loose = json!([{"uid": "u3"}]);
        assert_eq!(decide(&owner, &wanted, &pod("web", ours.clone())), Claim::Keep);
        assert_eq!(decide(&owner, &wanted, &pod("web", theirs)), Claim::Leave);
        assert_eq!(decide(&owner, &wanted, &pod("db", json!([]))), Claim::Leave);
        assert_eq!(decide(&owner, &wanted, &pod("db", ours)), Claim::Rewrite(pod("db", json!([]))));
        let Claim::Rewrite(adopted) = decide(&owner, &wanted, &pod("web", loose)) else {
            panic!("a free match is adopted");
        };
        assert_eq!(adopted.list("/metadata/ownerReferences").len(), 2);
        assert_eq!(adopted.controller_uid(), Some("u1"));
    }
}
