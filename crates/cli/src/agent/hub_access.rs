//! How a member agent reaches its hub: by a kubeconfig, or by KubeFleet's environment.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_runtime::client::Client;
use http::{HeaderName, HeaderValue};
use kube::Config;
use kube::config::AuthInfo;

/// How often a token file that is not there yet is looked for, and how long in between.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The environment variables KubeFleet's charts set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `HUB_SERVER_URL`.
    pub server: Option<String>,
    /// `CONFIG_PATH`: a file with the bearer token.
    pub token_file: Option<String>,
    /// `IDENTITY_KEY`.
    pub key_file: Option<String>,
    /// `IDENTITY_CERT`.
    pub certificate_file: Option<String>,
    /// `CA_BUNDLE`: a file.
    pub ca_file: Option<String>,
    /// `HUB_CERTIFICATE_AUTHORITY`: base64.
    pub ca_data: Option<String>,
    /// `HUB_KUBE_HEADER`: `Name: value` lines.
    pub headers: Option<String>,
}

impl Environment {
    /// The environment of this process.
    pub fn read() -> Self {
        let named = |name: &str| std::env::var(name).ok();
        Self {
            server: named("HUB_SERVER_URL"),
            token_file: named("CONFIG_PATH"),
            key_file: named("IDENTITY_KEY"),
            certificate_file: named("IDENTITY_CERT"),
            ca_file: named("CA_BUNDLE"),
            ca_data: named("HUB_CERTIFICATE_AUTHORITY"),
            headers: named("HUB_KUBE_HEADER"),
        }
    }

    /// A client of the hub. `by_certificate` and `insecure` are the flags `--use-ca-auth`
    /// and `--tls-insecure`.
    pub async fn connect(&self, by_certificate: bool, insecure: bool) -> anyhow::Result<Client> {
        if !by_certificate && let Some(file) = filled(self.token_file.as_ref()) {
            appears(Path::new(file)).await;
        }
        let config = self.config(by_certificate, insecure)?;
        Client::from_config(config).context("cannot connect to the hub")
    }

    /// How the hub is reached.
    pub fn config(&self, by_certificate: bool, insecure: bool) -> anyhow::Result<Config> {
        let server = filled(self.server.as_ref()).context("hub server api cannot be empty")?;
        let server =
            server.parse().with_context(|| format!("HUB_SERVER_URL {server:?} is no URL"))?;
        let mut config = Config::new(server);
        config.auth_info = self.identity(by_certificate)?;
        config.accept_invalid_certs = insecure;
        if !insecure {
            config.root_cert = self.authorities()?;
        }
        config.headers = self.extra_headers()?;
        Ok(config)
    }

    fn identity(&self, by_certificate: bool) -> anyhow::Result<AuthInfo> {
        if by_certificate {
            let key =
                filled(self.key_file.as_ref()).context("identity key file path cannot be empty")?;
            let certificate = filled(self.certificate_file.as_ref())
                .context("identity certificate file path cannot be empty")?;
            return Ok(AuthInfo {
                client_key: Some(key.to_owned()),
                client_certificate: Some(certificate.to_owned()),
                ..AuthInfo::default()
            });
        }
        let file = filled(self.token_file.as_ref())
            .context("hub token file path cannot be empty if CA auth not used")?;
        ensure!(Path::new(file).is_file(), "the token file {file} does not exist");
        // The file is read again from time to time, so a new token needs no restart.
        Ok(AuthInfo { token_file: Some(file.to_owned()), ..AuthInfo::default() })
    }

    /// Whom the hub's certificate must be of, as DER.
    pub fn authorities(&self) -> anyhow::Result<Option<Vec<Vec<u8>>>> {
        let pem = match (self.ca_file.as_deref(), self.ca_data.as_deref()) {
            (Some(""), _) => bail!("environment variable CA_BUNDLE should not be empty"),
            (_, Some("")) => {
                bail!("environment variable HUB_CERTIFICATE_AUTHORITY should not be empty")
            }
            (Some(_), Some(_)) => bail!(
                "environment variables CA_BUNDLE and HUB_CERTIFICATE_AUTHORITY should not be set at same time"
            ),
            (None, None) => return Ok(None),
            (Some(file), None) => {
                std::fs::read(file).with_context(|| format!("cannot read CA_BUNDLE {file}"))?
            }
            (None, Some(data)) => {
                STANDARD.decode(data.trim()).context("HUB_CERTIFICATE_AUTHORITY is not base64")?
            }
        };
        let certificates =
            pem::parse_many(&pem).context("the hub's certificate authority is not PEM")?;
        Ok(Some(certificates.into_iter().map(pem::Pem::into_contents).collect()))
    }

    fn extra_headers(&self) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
        let text = self.headers.as_deref().unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let (name, value) = line
                    .split_once(':')
                    .with_context(|| format!("HUB_KUBE_HEADER {line:?} is not `Name: value`"))?;
                let name = HeaderName::try_from(name.trim());
                let value = HeaderValue::try_from(value.trim());
                Ok((
                    name.with_context(|| format!("HUB_KUBE_HEADER {line:?} has no valid name"))?,
                    value
                        .with_context(|| format!("HUB_KUBE_HEADER {line:?} has no valid value"))?,
                ))
            })
            .collect()
    }
}

/// Gives the sidecar that writes the token, and starts when we do, a moment to write it.
async fn appears(file: &Path) {
    for _ in 1..LOOKS {
        if file.is_file() {
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

fn filled(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(environment: &Environment, by_certificate: bool) -> String {
        environment.config(by_certificate, false).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_said_in_kubefleets_words() {
        let mut given = Environment::default();
        assert_eq!(refusal(&given, false), "hub server api cannot be empty");
        given.server = Some("https://hub.example".into());
        assert_eq!(
            refusal(&given, false),
            "hub token file path cannot be empty if CA auth not used"
        );
        assert_eq!(refusal(&given, true), "identity key file path cannot be empty");
        given.key_file = Some("key".into());
        assert_eq!(refusal(&given, true), "identity certificate file path cannot be empty");
        given.certificate_file = Some("cert".into());
        given.ca_file = Some(String::new());
        assert_eq!(refusal(&given, true), "environment variable CA_BUNDLE should not be empty");
        given.ca_file = Some("ca".into());
        given.ca_data = Some("Y2E=".into());
        assert_eq!(
            refusal(&given, true),
            "environment variables CA_BUNDLE and HUB_CERTIFICATE_AUTHORITY should not be set at same time"
        );
    }

    #[tokio::test]
    async fn a_token_that_is_written_a_moment_later_is_found() {
        let folder = std::env::temp_dir().join(format!("flagship-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("token");
        let writes = async {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            std::fs::write(&file, "secret").unwrap();
        };
        futures::join!(appears(&file), writes);
        assert!(file.is_file());
        std::fs::remove_dir_all(&folder).unwrap();
        // Nobody writes it: looked for a few times, and then the agent says so.
        let given = Environment {
            server: Some("https://hub.example".into()),
            token_file: Some(file.display().to_string()),
            ..Environment::default()
        };
        let refusal = given.connect(false, true).await.err().unwrap().to_string();
        assert_eq!(refusal, format!("the token file {} does not exist", file.display()));
    }

    #[test]
    fn headers_are_sent_with_every_request() {
        let given =
            Environment { headers: Some("X-One: 1\nx-two:2".into()), ..Environment::default() };
        let headers = given.extra_headers().unwrap();
        let shown: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        assert_eq!(shown, ["x-one=1", "x-two=2"]);
        let bad = Environment { headers: Some("nonsense".into()), ..Environment::default() };
        assert!(bad.extra_headers().is_err());
    }
}
