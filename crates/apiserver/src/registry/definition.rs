//! What a CustomResourceDefinition says: its kind, its names, its conditions.
//!
//! Pure functions over the definition. Who calls them, and when, is in `rest::crd`.

use std::sync::Arc;

use flagship_base::machinery::gvk::{self, GroupVersion, version_rank};
use flagship_base::machinery::status::FieldError;
use flagship_kinds::tables::Custom;
use flagship_schema::Compiled;
use serde_json::{Value, json};

use super::kind::{Kind, Origin, Rules, ScalePaths, Version};

/// Compiles a definition that has passed validation.
pub(super) fn compile(crd: &Value) -> Result<Kind, Vec<FieldError>> {
    let spec = &crd["spec"];
    let text = |value: &Value| Box::<str>::from(value.as_str().unwrap_or_default());
    let group = text(&spec["group"]);
    let names = names_of(crd);
    let mut versions = Vec::new();
    let mut storage_name = String::new();
    // Versions with the same schema share it, which also makes converting a splice.
    let mut known: Vec<(&Value, Arc<Compiled>)> = Vec::new();
    for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        let name = version["name"].as_str().unwrap_or_default();
        if version["storage"] == true {
            storage_name = name.to_owned();
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        let compiled = match known.iter().find(|(seen, _)| *seen == schema) {
            Some((_, compiled)) => compiled.clone(),
            None => Arc::new(Compiled::from_crd_version(schema).map_err(|errors| {
                let inside = |mut error: FieldError| {
                    error.path = format!("spec.versions[{index}].schema.{}", error.path);
                    error
                };
                errors.into_iter().map(inside).collect::<Vec<_>>()
            })?),
        };
        known.push((schema, compiled.clone()));
        versions.push(custom_version(&group, &names.kind, version, compiled));
    }
    name_successors(&mut versions, &names.kind);
    versions.sort_by_key(|v| version_rank(&v.gv.version));
    let storage = versions.iter().position(|v| v.gv.version == storage_name).unwrap_or_default();
    Ok(Kind {
        resource: gvk::qualified(&names.plural, &group).into(),
        group,
        plural: names.plural.into(),
        singular: names.singular.into(),
        kind: names.kind.into(),
        list_kind: names.list_kind.into(),
        short_names: names.short_names.into_iter().map(Box::from).collect(),
        categories: names.categories.into_iter().map(Box::from).collect(),
        namespaced: spec["scope"] == "Namespaced",
        versions,
        storage,
        origin: Origin::Custom,
    })
}

/// A deprecated version that says nothing of its own points to the best that is not.
fn name_successors(versions: &mut [Version], kind: &str) {
    let good = versions.iter().filter(|version| version.served && version.deprecation.is_none());
    let Some(best) = good.min_by_key(|version| version_rank(&version.gv.version)) else { return };
    let successor = format!("; use {} {kind}", best.gv);
    for version in versions {
        if let Some(says) = version.deprecation.take() {
            let plain = *says == *plain_warning(&version.gv, kind);
            let more = if plain { successor.as_str() } else { "" };
            version.deprecation = Some(format!("{says}{more}").into());
        }
    }
}

fn plain_warning(gv: &GroupVersion, kind: &str) -> String {
    format!("{gv} {kind} is deprecated")
}

fn custom_version(group: &str, kind: &str, version: &Value, compiled: Arc<Compiled>) -> Version {
    let name = version["name"].as_str().unwrap_or_default();
    let gv = GroupVersion::new(group, name);
    let subresources = &version["subresources"];
    let deprecation = (version["deprecated"] == true).then(|| {
        let says = version["deprecationWarning"].as_str();
        says.map_or_else(|| plain_warning(&gv, kind), str::to_owned).into()
    });
    let paths = version["selectableFields"].as_array().into_iter().flatten();
    let selectable = paths
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|path| Box::from(path.trim_start_matches('.')))
        .collect();
    Version {
        api_version: gv.to_string().into(),
        gv,
        served: version["served"] == true,
        status: subresources["status"].is_object(),
        scale: scale_paths(&subresources["scale"]),
        deprecation,
        selectable,
        rules: Rules::Custom(compiled),
        columns: Some(Custom::new(&version["additionalPrinterColumns"])),
    }
}

fn scale_paths(scale: &Value) -> Option<ScalePaths> {
    let path = |key: &str| scale[key].as_str().filter(|p| !p.is_empty()).map(split_path);
    Some(ScalePaths {
        spec_replicas: path("specReplicasPath")?,
        status_replicas: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

/// `.spec.replicas` as its segments. Definitions allow no more than that here.
fn split_path(path: &str) -> Vec<Box<str>> {
    path.split('.').filter(|segment| !segment.is_empty()).map(Box::from).collect()
}

/// The names a definition asks for, with the derived ones filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Such as `gadgets`.
    pub plural: String,
    /// Such as `gadget`.
    pub singular: String,
    /// Such as `Gadget`.
    pub kind: String,
    /// Such as `GadgetList`.
    pub list_kind: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Groups such as `all`.
    pub categories: Vec<String>,
}

/// Reads `spec.names`.
pub fn names_of(crd: &Value) -> Names {
    let names = &crd["spec"]["names"];
    let text = |key: &str| names[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| {
        let items = names[key].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let or = |value: String, other: String| if value.is_empty() { other } else { value };
    let kind = text("kind");
    Names {
        plural: text("plural"),
        singular: or(text("singular"), kind.to_lowercase()),
        list_kind: or(text("listKind"), format!("{kind}List")),
        kind,
        short_names: list("shortNames"),
        categories: list("categories"),
    }
}

impl Names {
    /// As `status.acceptedNames` carries them.
    pub fn to_value(&self) -> Value {
        let mut names = json!({
            "plural": self.plural, "singular": self.singular,
            "kind": self.kind, "listKind": self.list_kind,
        });
        for (key, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                names[key] = json!(list);
            }
        }
        names
    }

    /// The first name that `other`, a kind of the same group, already has, as
    /// Kubernetes words it.
    pub fn clash(&self, other: &Kind) -> Option<(&'static str, String)> {
        let taken: Vec<&str> = [&*other.plural, &*other.singular]
            .into_iter()
            .chain(other.short_names.iter().map(|s| &**s))
            .collect();
        let says = |name: &str| format!("{name:?} is already in use");
        if taken.contains(&self.plural.as_str()) {
            return Some(("PluralConflict", says(&self.plural)));
        }
        if taken.contains(&self.singular.as_str()) {
            return Some(("SingularConflict", says(&self.singular)));
        }
        if let Some(name) = self.short_names.iter().find(|name| taken.contains(&name.as_str())) {
            return Some(("ShortNamesConflict", says(name)));
        }
        let kinds = [&*other.kind, &*other.list_kind];
        if kinds.contains(&self.kind.as_str()) {
            return Some(("KindConflict", says(&self.kind)));
        }
        if kinds.contains(&self.list_kind.as_str()) {
            return Some(("ListKindConflict", says(&self.list_kind)));
        }
        None
    }
}

/// A condition of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `NamesAccepted`, `Established` or `Terminating`.
    pub kind: &'static str,
    /// `True` or `False`.
    pub truth: bool,
    /// One word.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// Sets conditions in `status.conditions`; the time moves only when the truth does.
pub fn conditions(crd: &mut Value, set: &[Condition], now: &str) {
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    let list = &mut crd["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    for condition in set {
        let truth = if condition.truth { "True" } else { "False" };
        let old = list.iter().position(|c| c["type"] == condition.kind);
        let since = old
            .filter(|&at| list[at]["status"] == truth)
            .and_then(|at| list[at]["lastTransitionTime"].as_str())
            .unwrap_or(now);
        let new = json!({
            "type": condition.kind, "status": truth, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": since,
        });
        match old {
            Some(at) => list[at] = new,
            None => list.push(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_names_are_filled_in() {
        let crd = json!({"spec": {"names": {"plural": "gadgets", "kind": "Gadget"}}});
        let names = names_of(&crd);
        assert_eq!(names.singular, "gadget");
        assert_eq!(names.list_kind, "GadgetList");
    }

    #[test]
    fn a_condition_keeps_its_time_while_the_truth_stays() {
        let mut crd = json!({});
        let says =
            |truth| Condition { kind: "Established", truth, reason: "R", message: "m".to_owned() };
        conditions(&mut crd, &[says(false)], "t1");
        conditions(&mut crd, &[says(false)], "t2");
        assert_eq!(crd["status"]["conditions"][0]["lastTransitionTime"], "t1");
        conditions(&mut crd, &[says(true)], "t3");
        assert_eq!(crd["status"]["conditions"][0]["lastTransitionTime"], "t3");
        assert_eq!(crd["status"]["conditions"].as_array().map(Vec::len), Some(1));
    }
}
