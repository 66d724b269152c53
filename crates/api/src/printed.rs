//! Objects as admission messages and conditions print them.
//!
//! Clients compare these texts, so the form is API: fields in the order of their
//! declaration as `Name:value`, strings bare, absent objects `<nil>`, an absent
//! label selector `nil`.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, OwnerReference,
};

use crate::cluster::Taint;
use crate::overrides::{JsonPatchOverride, ResourceSelector};
use crate::placement::ResourceSelectorTerm;
use crate::placement_status::{NamespacedName, ResourceIdentifier};
use crate::policy::{ClusterSelectorTerm, Toleration};

/// Prints something in that form.
pub struct Printed<'a, T>(pub &'a T);

/// Prints a label selector in that form, `nil` if it is absent:
/// `&LabelSelector{MatchLabels:map[string]string{env: prod,},MatchExpressions:[]LabelSelectorRequirement{},}`.
pub struct PrintedSelector<'a>(pub Option<&'a LabelSelector>);

impl fmt::Display for PrintedSelector<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(selector) = self.0 else { return out.write_str("nil") };
        out.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in selector.match_labels.iter().flatten() {
            write!(out, "{key}: {value},")?;
        }
        out.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for LabelSelectorRequirement { key, operator, values } in
            selector.match_expressions.iter().flatten()
        {
            write!(out, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[")?;
            out.write_str(&values.as_deref().unwrap_or_default().join(" "))?;
            out.write_str("],},")?;
        }
        out.write_str("},}")
    }
}

/// The wire spelling of an enum, empty if it is absent.
fn word<T: serde::Serialize>(value: &Option<T>) -> String {
    let spelled = value.as_ref().and_then(|value| serde_json::to_value(value).ok());
    spelled.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl fmt::Display for Printed<'_, ResourceSelectorTerm> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResourceSelectorTerm { group, version, kind, name, label_selector, selection_scope } =
            self.0;
        let labels = PrintedSelector(label_selector.as_ref());
        let scope = word(selection_scope);
        write!(out, "{{Group:{group} Version:{version} Kind:{kind} Name:{name} ")?;
        write!(out, "LabelSelector:{labels} SelectionScope:{scope}}}")
    }
}

impl fmt::Display for Printed<'_, ResourceSelector> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResourceSelector { group, version, kind, name } = self.0;
        write!(out, "{{Group:{group} Version:{version} Kind:{kind} Name:{name}}}")
    }
}

impl fmt::Display for Printed<'_, ResourceIdentifier> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResourceIdentifier { group, version, kind, name, namespace, envelope } = self.0;
        write!(out, "{{Group:{group} Version:{version} Kind:{kind} ")?;
        write!(out, "Name:{name} Namespace:{namespace} Envelope:")?;
        match envelope {
            None => out.write_str("<nil>}"),
            Some(envelope) => {
                let (name, namespace) = (&envelope.name, &envelope.namespace);
                write!(
                    out,
                    "&{{Name:{name} Namespace:{namespace} Type:{}}}}}",
                    word(&envelope.r#type)
                )
            }
        }
    }
}

impl fmt::Display for Printed<'_, ClusterSelectorTerm> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterSelectorTerm { label_selector, property_selector, property_sorter } = self.0;
        write!(out, "{{LabelSelector:{} ", PrintedSelector(label_selector.as_ref()))?;
        out.write_str("PropertySelector:")?;
        match property_selector {
            None => out.write_str("<nil>")?,
            Some(selector) => {
                let expressions = selector.match_expressions.iter().map(|wanted| {
                    let (name, values) = (&wanted.name, wanted.values.join(" "));
                    let operator = word(&Some(&wanted.operator));
                    format!("{{Name:{name} Operator:{operator} Values:[{values}]}}")
                });
                let expressions: Vec<_> = expressions.collect();
                write!(out, "&{{MatchExpressions:[{}]}}", expressions.join(" "))?;
            }
        }
        out.write_str(" PropertySorter:")?;
        match property_sorter {
            None => out.write_str("<nil>}"),
            Some(sorter) => {
                let order = word(&Some(sorter.sort_order));
                write!(out, "&{{Name:{} SortOrder:{order}}}}}", sorter.name)
            }
        }
    }
}

impl fmt::Display for Printed<'_, Toleration> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Toleration { key, operator, value, effect } = self.0;
        let (operator, effect) = (word(operator), word(effect));
        write!(out, "{{Key:{key} Operator:{operator} Value:{value} Effect:{effect}}}")
    }
}

impl fmt::Display for Printed<'_, Taint> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taint { key, value, effect } = self.0;
        write!(out, "{{Key:{key} Value:{value} Effect:{}}}", word(&Some(effect)))
    }
}

impl fmt::Display for Printed<'_, JsonPatchOverride> {
    /// Without field names: `{add /metadata/labels/x {"v"}}`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonPatchOverride { op, path, value } = self.0;
        let value = value.as_ref().map_or("", |value| value.text());
        write!(out, "{{{} {path} {{{value}}}}}", word(&Some(op)))
    }
}

impl fmt::Display for Printed<'_, NamespacedName> {
    /// Without field names: `{ro-1-0 app}`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{{} {}}}", self.0.name, self.0.namespace)
    }
}

impl fmt::Display for Printed<'_, Vec<OwnerReference>> {
    /// In brackets; truth values as such, never as an address.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owners = self.0.iter().map(|owner| {
            let flag = |flag: Option<bool>| flag.map_or("<nil>".to_owned(), |set| set.to_string());
            format!(
                "{{APIVersion:{} Kind:{} Name:{} UID:{} Controller:{} BlockOwnerDeletion:{}}}",
                owner.api_version,
                owner.kind,
                owner.name,
                owner.uid,
                flag(owner.controller),
                flag(owner.block_owner_deletion)
            )
        });
        write!(out, "[{}]", owners.collect::<Vec<_>>().join(" "))
    }
}

/// Several errors as one text: duplicates dropped, a single one bare, more as
/// `[e1, e2]`.
pub fn errors<E: fmt::Display>(errors: impl IntoIterator<Item = E>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        let error = error.to_string();
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check<T: DeserializeOwned>(value: Value, printed: &str)
    where
        for<'a> Printed<'a, T>: fmt::Display,
    {
        let value: T = serde_json::from_value(value).unwrap();
        assert_eq!(Printed(&value).to_string(), printed);
    }

    #[test]
    fn a_selector_prints_as_admission_messages_show_it() {
        let full: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"k2": "v2", "k1": "v1"},
            "matchExpressions": [{"key": "test-key", "operator": "In", "values": ["a", "b"]}],
        }))
        .unwrap();
        assert_eq!(
            PrintedSelector(Some(&full)).to_string(),
            "&LabelSelector{MatchLabels:map[string]string{k1: v1,k2: v2,},\
             MatchExpressions:[]LabelSelectorRequirement{\
             LabelSelectorRequirement{Key:test-key,Operator:In,Values:[a b],},},}"
        );
        let bare: LabelSelector = serde_json::from_value(
            json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]}),
        )
        .unwrap();
        assert_eq!(
            PrintedSelector(Some(&bare)).to_string(),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{\
             LabelSelectorRequirement{Key:k,Operator:Exists,Values:[],},},}"
        );
        assert_eq!(
            PrintedSelector(Some(&LabelSelector::default())).to_string(),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
        assert_eq!(PrintedSelector(None).to_string(), "nil");
    }

    #[test]
    fn resource_selectors() {
        check::<ResourceSelectorTerm>(
            json!({
                "group": "rbac.authorization.k8s.io",
                "version": "v1",
                "kind": "ClusterRole",
                "name": "r1",
                "selectionScope": "NamespaceWithResources",
            }),
            "{Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:r1 LabelSelector:nil \
             SelectionScope:NamespaceWithResources}",
        );
        check::<ResourceSelectorTerm>(
            json!({"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {}}),
            "{Group: Version:v1 Kind:Namespace Name: \
             LabelSelector:&LabelSelector{MatchLabels:map[string]string{},\
             MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}",
        );
        check::<ResourceSelector>(
            json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "d1"}),
            "{Group:apps Version:v1 Kind:Deployment Name:d1}",
        );
    }

    #[test]
    fn resources() {
        check::<ResourceIdentifier>(
            json!({"version": "v1", "kind": "ConfigMap", "name": "cm", "namespace": "app"}),
            "{Group: Version:v1 Kind:ConfigMap Name:cm Namespace:app Envelope:<nil>}",
        );
        check::<ResourceIdentifier>(
            json!({
                "version": "v1", "kind": "ConfigMap", "name": "cm",
                "envelope": {"name": "e", "type": "ResourceEnvelope"},
            }),
            "{Group: Version:v1 Kind:ConfigMap Name:cm Namespace: \
             Envelope:&{Name:e Namespace: Type:ResourceEnvelope}}",
        );
        check::<NamespacedName>(json!({"name": "ro-1-0", "namespace": "app"}), "{ro-1-0 app}");
    }

    #[test]
    fn cluster_selector_terms() {
        check::<ClusterSelectorTerm>(
            json!({}),
            "{LabelSelector:nil PropertySelector:<nil> PropertySorter:<nil>}",
        );
        check::<ClusterSelectorTerm>(
            json!({
                "propertySelector": {"matchExpressions": [
                    {"name": "n", "operator": "Ge", "values": ["3"]},
                ]},
                "propertySorter": {"name": "n", "sortOrder": "Ascending"},
            }),
            "{LabelSelector:nil \
             PropertySelector:&{MatchExpressions:[{Name:n Operator:Ge Values:[3]}]} \
             PropertySorter:&{Name:n SortOrder:Ascending}}",
        );
    }

    #[test]
    fn taints_and_tolerations() {
        check::<Toleration>(
            json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}),
            "{Key:k Operator:Equal Value:v Effect:NoSchedule}",
        );
        check::<Toleration>(json!({"operator": "Exists"}), "{Key: Operator:Exists Value: Effect:}");
        check::<Taint>(
            json!({"key": "k", "value": "v", "effect": "NoSchedule"}),
            "{Key:k Value:v Effect:NoSchedule}",
        );
    }

    #[test]
    fn patches() {
        check::<JsonPatchOverride>(json!({"op": "remove", "path": "/kind"}), "{remove /kind {}}");
        check::<JsonPatchOverride>(
            json!({"op": "add", "path": "/metadata/labels/x", "value": "v"}),
            r#"{add /metadata/labels/x {"v"}}"#,
        );
    }

    #[test]
    fn owners() {
        check::<Vec<OwnerReference>>(
            json!([
                {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u"},
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "w", "controller": true},
            ]),
            "[{APIVersion:v1 Kind:Namespace Name:n UID:u Controller:<nil> BlockOwnerDeletion:<nil>} \
             {APIVersion:v1 Kind:Pod Name:p UID:w Controller:true BlockOwnerDeletion:<nil>}]",
        );
    }

    #[test]
    fn several_errors_are_one_text() {
        assert_eq!(errors(["a"]), "a");
        assert_eq!(errors(["a", "a"]), "a");
        assert_eq!(errors(["a", "b", "a"]), "[a, b]");
        assert_eq!(errors(Vec::<String>::new()), "[]");
    }
}
