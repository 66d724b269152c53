//! Volumes of pods.

use flagship_base::names;

use super::super::json::Field;
use super::Findings;
use super::rules::{config_key, quantity, required, required_name, unique};

/// Every volume has one name and one source.
pub(super) fn volumes(volumes: &Field<'_>, out: &mut Findings) {
    for volume in volumes.items() {
        required_name(&volume.get("name"), names::dns1123_label, out);
        let sources = volume.value().as_object();
        let mut sources: Vec<&str> = sources
            .into_iter()
            .flatten()
            .filter(|(key, value)| *key != "name" && !value.is_null())
            .map(|(key, _)| key.as_str())
            .collect();
        sources.sort_unstable();
        match sources.as_slice() {
            [] => out.push(volume.required("must specify a volume type")),
            [_] => {}
            [_, others @ ..] => {
                for other in others {
                    let says = "may not specify more than 1 volume type";
                    out.push(volume.get(other).forbidden(says));
                }
            }
        }
        source(&volume, out);
    }
    unique(volumes.items().map(|volume| volume.get("name")), out);
}

fn source(volume: &Field<'_>, out: &mut Findings) {
    let needs = |source: Field<'_>, fields: &[&'static str], out: &mut Findings| {
        if source.is_set() {
            fields.iter().for_each(|field| required(&source.get(field), out));
        }
    };
    needs(volume.get("configMap"), &["name"], out);
    needs(volume.get("secret"), &["secretName"], out);
    needs(volume.get("persistentVolumeClaim"), &["claimName"], out);
    needs(volume.get("nfs"), &["server", "path"], out);
    needs(volume.get("csi"), &["driver"], out);
    host_path(&volume.get("hostPath"), out);
    let limit = volume.get("emptyDir").get("sizeLimit");
    if limit.is_set() && quantity(&limit, out).is_some_and(|limit| limit.is_negative()) {
        out.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
    for key in ["configMap", "secret", "downwardAPI", "projected"] {
        let source = volume.get(key);
        mode(&source.get("defaultMode"), out);
        items(&source, key != "downwardAPI", out);
    }
    for source in volume.get("projected").get("sources").items() {
        needs(source.get("configMap"), &["name"], out);
        needs(source.get("secret"), &["name"], out);
        needs(source.get("serviceAccountToken"), &["path"], out);
        items(&source.get("configMap"), true, out);
        items(&source.get("secret"), true, out);
        items(&source.get("downwardAPI"), false, out);
    }
}

/// A path of the host, also of persistent volumes.
pub(super) fn host_path(host: &Field<'_>, out: &mut Findings) {
    if !host.is_set() {
        return;
    }
    let path = host.get("path");
    required(&path, out);
    if path.text().split('/').any(|part| part == "..") {
        out.push(path.invalid("must not contain '..'"));
    }
    let kinds = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    super::rules::any_of(&host.get("type"), &kinds, out);
}

fn items(source: &Field<'_>, keyed: bool, out: &mut Findings) {
    for item in source.get("items").items() {
        if keyed {
            required_name(&item.get("key"), config_key, out);
        }
        let path = item.get("path");
        required(&path, out);
        if !path.text().is_empty() {
            inner_path(&path, out);
        }
        mode(&item.get("mode"), out);
    }
}

fn mode(mode: &Field<'_>, out: &mut Findings) {
    if mode.int().is_some_and(|bits| !(0..=0o777).contains(&bits)) {
        out.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// A path that stays where it is mounted.
pub(super) fn inner_path(path: &Field<'_>, out: &mut Findings) {
    let text = path.text();
    if text.starts_with('/') {
        out.push(path.invalid("must be a relative path"));
    }
    if text.split('/').any(|part| part == "..") {
        out.push(path.invalid("must not contain '..'"));
    } else if text.starts_with("..") {
        out.push(path.invalid("must not start with '..'"));
    }
}
