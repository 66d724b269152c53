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

    /// Writes the file, readable only by its owner: it holds a key.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            flagship_files::make_folder(folder)?;
        }
        flagship_files::replace(path, self.to_yaml().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
