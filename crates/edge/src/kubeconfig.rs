//! What `kubectl` needs to find the clusters and be let in.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::authority::Credentials;

/// A kubeconfig: one context for each cluster, named like it, all with the same user.
#[derive(Clone)]
pub struct Kubeconfig {
    value: Value,
}

impl Kubeconfig {
    /// From contexts as name and server; the first is the current one.
    pub fn new(
        authority_pem: &str,
        user: &str,
        credentials: Credentials,
        contexts: Vec<(String, String)>,
    ) -> Self {
        let authority = STANDARD.encode(authority_pem);
        let clusters: Vec<Value> = contexts
            .iter()
            .map(|(name, server)| {
                let cluster = json!({"certificate-authority-data": authority, "server": server});
                json!({"name": name, "cluster": cluster})
            })
            .collect();
        let entries: Vec<Value> = contexts
            .iter()
            .map(|(name, _)| json!({"name": name, "context": {"cluster": name, "user": user}}))
            .collect();
        let user = json!({"name": user, "user": {
            "client-certificate-data": STANDARD.encode(credentials.certificate),
            "client-key-data": STANDARD.encode(credentials.key),
        }});
        let current = contexts.first().map(|(name, _)| name.as_str()).unwrap_or_default();
        let value = json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {},
            "clusters": clusters, "contexts": entries, "users": [user],
            "current-context": current,
        });
        Self { value }
    }

    /// The same with another current context.
    #[must_use]
    pub fn with_current(mut self, context: &str) -> Self {
        self.value["current-context"] = json!(context);
        self
    }

    /// As JSON, which is YAML too.
    pub fn to_value(&self) -> &Value {
        &self.value
    }

    /// As the YAML that people expect.
    pub fn to_yaml(&self) -> String {
        // JSON is YAML: should the writer ever refuse, kubectl still reads this.
        serde_saphyr::to_string(&self.value).unwrap_or_else(|_| self.value.to_string())
    }

    /// Adds what is in a file to this, as kind does: of entries with one name ours stay, and
    /// ours is the current context. Refuses to take a name from somebody else's context.
    ///
    /// # Errors
    /// What keeps the two from being one, for the person who named the file.
    pub fn merged_into(mut self, text: &str) -> Result<Self, String> {
        let there: Value = serde_saphyr::from_str(text).map_err(|why| {
            format!("it is no YAML: {}", why.to_string().lines().next().unwrap_or_default())
        })?;
        if there.is_null() {
            return Ok(self);
        }
        if there["kind"] != "Config" || there["apiVersion"] != "v1" {
            return Err("it is no kubeconfig".to_owned());
        }
        let own: Vec<String> = names(&self.value["users"]);
        for context in there["contexts"].as_array().into_iter().flatten() {
            let name = context["name"].as_str().unwrap_or_default();
            let user = context["context"]["user"].as_str().unwrap_or_default();
            let taken = names(&self.value["contexts"]).iter().any(|ours| ours == name);
            if taken && !own.iter().any(|ours| ours == user) {
                return Err(format!("its context {name} belongs to somebody else ({user})"));
            }
        }
        let mut all = there;
        for list in ["clusters", "contexts", "users"] {
            let ours = names(&self.value[list]);
            let kept = all[list].as_array().into_iter().flatten().filter(|entry| {
                !entry["name"].as_str().is_some_and(|name| ours.iter().any(|own| own == name))
            });
            let added = self.value[list].as_array().into_iter().flatten();
            let merged: Vec<Value> = kept.chain(added).cloned().collect();
            all[list] = json!(merged);
        }
        all["current-context"] = self.value["current-context"].clone();
        self.value = all;
        Ok(self)
    }

    /// Writes the file, readable only by its owner: it holds a key.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            flagship_files::make_folder(folder)?;
        }
        flagship_files::replace(path, self.to_yaml().as_bytes())
    }
}

/// Names of the entries of a list.
fn names(list: &Value) -> Vec<String> {
    let entries = list.as_array().into_iter().flatten();
    entries.filter_map(|entry| Some(entry["name"].as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_is_in_a_file_stays() {
        let ours = || {
            let credentials = Credentials { certificate: "C".to_owned(), key: "K".to_owned() };
            let contexts = vec![("hub".to_owned(), "https://new".to_owned())];
            Kubeconfig::new("A", "flagship-admin", credentials, contexts)
        };
        let entry = |name: &str, user: &str| json!({"name": name, "context": {"cluster": name, "user": user}});
        let file = |contexts: Value| {
            json!({"apiVersion": "v1", "kind": "Config", "current-context": "prod",
                "clusters": [{"name": "prod", "cluster": {"server": "https://prod"}},
                    {"name": "hub", "cluster": {"server": "https://old"}}],
                "contexts": contexts, "users": [{"name": "me", "user": {"token": "t"}}],
                "extensions": [{"name": "kept"}]})
        };
        let before = file(json!([entry("prod", "me"), entry("hub", "flagship-admin")]));
        let merged = ours().merged_into(&before.to_string()).unwrap();
        let value = merged.to_value();
        assert_eq!(names(&value["contexts"]), ["prod", "hub"]);
        assert_eq!(names(&value["users"]), ["me", "flagship-admin"]);
        assert_eq!(value["clusters"][1]["cluster"]["server"], "https://new");
        assert_eq!(value["users"][0]["user"]["token"], "t");
        assert_eq!(
            (&value["current-context"], &value["extensions"]),
            (&json!("hub"), &before["extensions"])
        );
        // Again is the same.
        let again = ours().merged_into(&merged.to_yaml()).unwrap();
        assert_eq!(again.to_value(), value);
        assert_eq!(ours().merged_into("").unwrap().to_value(), ours().to_value());
        let refused = |text: &str| ours().merged_into(text).err().unwrap();
        assert_eq!(refused("kind: Pod"), "it is no kubeconfig");
        assert_eq!(refused("just words"), "it is no kubeconfig");
        assert!(refused("a: b: c").starts_with("it is no YAML"));
        let taken = file(json!([entry("hub", "me")]));
        assert_eq!(refused(&taken.to_string()), "its context hub belongs to somebody else (me)");
    }

    #[test]
    fn every_cluster_is_a_context() {
        let credentials = Credentials { certificate: "C".to_owned(), key: "K".to_owned() };
        let contexts =
            [("hub", "https://h/clusters/hub"), ("member1", "https://h/clusters/member1")]
                .map(|(name, server)| (name.to_owned(), server.to_owned()));
        let config = Kubeconfig::new("A", "admin", credentials, contexts.into());
        expect_test::expect![[r#"
            apiVersion: v1
            clusters:
            - cluster:
                certificate-authority-data: QQ==
                server: https://h/clusters/hub
              name: hub
            - cluster:
                certificate-authority-data: QQ==
                server: https://h/clusters/member1
              name: member1
            contexts:
            - context:
                cluster: hub
                user: admin
              name: hub
            - context:
                cluster: member1
                user: admin
              name: member1
            current-context: member1
            kind: Config
            preferences: {}
            users:
            - name: admin
              user:
                client-certificate-data: Qw==
                client-key-data: Sw==
        "#]]
        .assert_eq(&config.with_current("member1").to_yaml());
    }
}
