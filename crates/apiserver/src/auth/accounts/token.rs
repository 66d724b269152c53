//! JSON Web Tokens: how they are put together and taken apart.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flagship_base::machinery::status::ApiError;
use serde_json::{Value, json};

use super::key::{Key, Public};

/// Longer tokens are not looked at.
const MAX_LENGTH: usize = 16 * 1024;

/// A token in its parts, nothing of it proven.
pub struct Unproven<'t> {
    /// What is signed.
    message: &'t str,
    signature: Vec<u8>,
    header: Value,
    /// What it says.
    pub claims: Value,
}

/// Signs claims.
pub fn seal(key: &Key, claims: &Value) -> Result<String, ApiError> {
    let header = json!({"alg": "ES256", "kid": key.public.id}).to_string();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let message =
        format!("{}.{}", encode(header.as_bytes()), encode(claims.to_string().as_bytes()));
    let signature = key.sign(message.as_bytes())?;
    Ok(format!("{message}.{}", encode(&signature)))
}

/// Takes a token apart; `None` when it is none.
pub fn open(token: &str) -> Option<Unproven<'_>> {
    if token.len() > MAX_LENGTH {
        return None;
    }
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let json = |text: &str| serde_json::from_slice::<Value>(&decode(text)?).ok();
    Some(Unproven {
        message,
        signature: decode(signature)?,
        header: json(header)?,
        claims: json(claims)?,
    })
}

impl Unproven<'_> {
    /// Whether this key signed it, in the one way that is accepted.
    pub fn is_signed_by(&self, key: &Public) -> bool {
        self.header["alg"] == "ES256"
            && self.header["kid"] == *key.id
            && key.verifies(self.message.as_bytes(), &self.signature)
    }
}
