//! One certificate for the webhooks of all replicas, in a Secret beside them.
//!
//! Whoever finds none, or one that ends soon or has other names, makes the next, with an authority
//! of its own whose key nobody keeps; of several who do, the first one's counts. The authority
//! before it stays in the bundle, for replicas that still show what it signed.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use flagship_api::names::ObjectKey;
use flagship_edge::{Authority, Credentials};
use flagship_runtime::client::{Client, ClientError};
use flagship_runtime::env::Env;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A certificate with less time left than this is replaced.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How often somebody else may be first.
const TRIES: usize = 5;
const BUNDLE: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const END: &str = "-----END CERTIFICATE-----\n";

/// What the Secret holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept {
    /// Authorities to trust, in PEM, the newest first.
    pub bundle: String,
    /// What every replica shows.
    pub shown: Credentials,
}

impl Kept {
    /// The authority that signed what is shown, in PEM.
    pub fn authority(&self) -> &str {
        let end = self.bundle.find(END).map_or(self.bundle.len(), |at| at + END.len());
        &self.bundle[..end]
    }

    fn read(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let shown = Credentials { certificate: text(CERTIFICATE)?, key: text(KEY)? };
        Some(Self { bundle: text(BUNDLE)?, shown })
    }
}

/// The certificate of all replicas.
#[derive(Clone)]
pub struct SharedCertificate {
    client: Client,
    env: Env,
    secret: ObjectKey,
    names: Vec<String>,
}

impl SharedCertificate {
    /// Kept in this Secret, for a server of these names.
    pub fn new(client: &Client, env: &Env, secret: ObjectKey, names: Vec<String>) -> Self {
        Self { client: client.clone(), env: env.clone(), secret, names }
    }

    /// The certificate of now, made if there is none that lasts.
    pub async fn obtain(&self) -> anyhow::Result<Kept> {
        let secrets = self.client.of::<Secret>();
        let refused = || {
            format!(
                "the certificate of the webhooks cannot be kept in the Secret {} \
                 (--webhook-certificate-secret)",
                self.secret
            )
        };
        let until = self.env.now().checked_add(RENEWED_BEFORE)?;
        for _ in 0..TRIES {
            let found = secrets.find(&self.secret).await.with_context(refused)?;
            let kept = found.as_ref().and_then(Kept::read);
            if let Some(kept) = kept.as_ref().filter(|it| it.shown.serves(&self.names, until)) {
                return Ok(kept.clone());
            }
            let made = self.made(kept.as_ref())?;
            let written = match &found {
                Some(there) => secrets.update(&self.secret_of(&made, &there.metadata)).await,
                None => {
                    let metadata = ObjectMeta {
                        name: Some(self.secret.name.clone()),
                        namespace: self.secret.namespace.clone(),
                        ..ObjectMeta::default()
                    };
                    secrets.create(&self.secret_of(&made, &metadata)).await
                }
            };
            match written {
                Ok(_) => {
                    tracing::info!(secret = %self.secret, "the webhooks have a new certificate");
                    return Ok(made);
                }
                Err(ClientError::Conflict { .. } | ClientError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error).with_context(refused),
            }
        }
        bail!("{}: somebody else writes it all the time", refused())
    }

    fn made(&self, before: Option<&Kept>) -> anyhow::Result<Kept> {
        let authority = Authority::create(self.env.now())?;
        let shown = authority.server(&self.names, self.env.now())?;
        let before = before.map(Kept::authority).unwrap_or_default();
        Ok(Kept { bundle: format!("{}{before}", authority.certificate_pem()), shown })
    }

    fn secret_of(&self, kept: &Kept, metadata: &ObjectMeta) -> Secret {
        let parts = [
            (BUNDLE, &kept.bundle),
            (CERTIFICATE, &kept.shown.certificate),
            (KEY, &kept.shown.key),
        ];
        let bytes = |text: &String| ByteString(text.clone().into_bytes());
        let data: BTreeMap<String, ByteString> =
            parts.into_iter().map(|(key, text)| (key.to_owned(), bytes(text))).collect();
        Secret {
            metadata: metadata.clone(),
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }
}
