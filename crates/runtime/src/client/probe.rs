//! How a server is, and which.

use http::Method;
use serde::Deserialize;

use super::{Call, Client, ClientError};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

impl Client {
    /// Asks a path for its HTTP status alone, such as `/readyz`; 0 is no answer in time.
    pub async fn probe(&self, path: &str) -> u16 {
        match self.ask_plainly(call(path)).await {
            Ok(_) => 200,
            Err(refused) => refused.code,
        }
    }

    /// The version of the server, such as `v1.34.1`.
    pub async fn version(&self) -> Result<String, ClientError> {
        let body = self.ask(call("/version")).await?;
        let version: Version = serde_json::from_slice(&body).map_err(|error| {
            ClientError::Unreachable { object: "/version".to_owned(), source: Box::new(error) }
        })?;
        Ok(version.git_version)
    }
}

fn call(path: &str) -> Call<'static> {
    let (path, object) = (path.to_owned(), path.to_owned());
    Call { method: Method::GET, path, accept: "*/*", content: None, object }
}
