//! What proves who somebody is: certificates and tokens.
//!
//! TLS has verified a certificate against the authority before it gets here; this only
//! reads the name in it. Tokens are kept and compared as hashes, so that the time a
//! comparison takes says nothing about them.

use std::collections::BTreeMap;

use flagship_base::machinery::status::ApiError;
use http::HeaderMap;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::accounts::ISSUER;
use super::{Authenticator, User, bearer};
use crate::rest::ClusterHandle;

/// Stands before the identity of the only cluster where a certificate is good, in a URI among
/// its names; our own, which name none, are good in all.
pub const CLUSTER_URI: &str = "flagship:cluster:";
/// Where that identity is kept until the cluster is known. Nobody is told.
const ONLY_CLUSTER: &str = "flagship/cluster";
/// Says by which certificate somebody was known.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What came with a request.
#[derive(Clone, Copy)]
pub struct Presented<'a> {
    /// The user in the client certificate, which TLS has verified.
    pub certificate: Option<&'a User>,
    /// The headers of the request.
    pub headers: &'a HeaderMap,
    /// The cluster that is asked, if it exists: service accounts live in one.
    pub cluster: Option<&'a ClusterHandle>,
    /// For whom a token must be meant; the server itself when empty.
    pub audiences: &'a [&'a str],
}

/// Takes the user from the client certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Certificates;

impl Authenticator for Certificates {
    fn authenticate(&self, presented: &Presented<'_>) -> Result<Option<User>, ApiError> {
        let Some(mut user) = presented.certificate.cloned() else { return Ok(None) };
        let only = user.extra.remove(ONLY_CLUSTER).unwrap_or_default();
        let is_here = |cluster: &ClusterHandle| {
            let here = cluster.identity();
            only.iter().all(|named| *named == here)
        };
        match only.is_empty() || presented.cluster.is_some_and(is_here) {
            true => Ok(Some(user)),
            // Another cluster vouched for this one.
            false => Err(ApiError::new(401, "Unauthorized", "Unauthorized")),
        }
    }
}

/// The user a verified certificate names: the common name, and organisations as groups.
/// `None` without a common name, or when its other names cannot be read: one of them could
/// say that it is good in one cluster only.
pub fn certificate_user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    let mut user = User::authenticated(name, groups);
    let hash: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hash}")]);
    let names = certificate.subject_alternative_name().ok()?;
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    if names.iter().any(|name| matches!(name, GeneralName::Invalid(..))) {
        return None;
    }
    let only = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => uri.strip_prefix(CLUSTER_URI),
        _ => None,
    });
    let only: Vec<String> = only.map(str::to_owned).collect();
    if !only.is_empty() {
        user.extra.insert(ONLY_CLUSTER.to_owned(), only);
    }
    Some(user)
}

/// Tokens known from the start. A bearer token that is none of them is refused, unless
/// another authenticator knows the user.
#[derive(Clone, Default)]
pub struct StaticTokens {
    users: BTreeMap<[u8; 32], User>,
}

impl StaticTokens {
    /// Adds a token for a user.
    #[must_use]
    pub fn with(mut self, token: &str, user: User) -> Self {
        self.users.insert(Sha256::digest(token.as_bytes()).into(), user);
        self
    }
}

impl Authenticator for StaticTokens {
    fn authenticate(&self, presented: &Presented<'_>) -> Result<Option<User>, ApiError> {
        let Some(token) = bearer(presented.headers) else { return Ok(None) };
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // They are meant for this server, whoever else is asked about.
        let meant = presented.audiences.is_empty() || presented.audiences.contains(&ISSUER);
        match self.users.get(&hash) {
            Some(user) if meant => Ok(Some(user.clone())),
            _ => Err(ApiError::new(401, "Unauthorized", "Unauthorized")),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;
    use crate::auth::group;

    /// The user of a certificate with these bytes as its other names.
    fn with_names(names: &[u8]) -> Option<User> {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "eve");
        let extension = rcgen::CustomExtension::from_oid_content(&[2, 5, 29, 17], names.to_vec());
        params.custom_extensions.push(extension);
        let key = rcgen::KeyPair::generate().unwrap();
        certificate_user(params.self_signed(&key).unwrap().der())
    }

    #[test]
    fn a_certificate_whose_names_cannot_be_read_is_nobodys() {
        let named = |uri: &[u8]| {
            let length = |of: usize| u8::try_from(of).unwrap();
            [&[0x30, length(uri.len() + 2), 0x86, length(uri.len())], uri].concat()
        };
        let only = with_names(&named(b"flagship:cluster:east")).unwrap();
        assert_eq!(only.extra[ONLY_CLUSTER], ["east"]);
        assert!(!with_names(&named(b"other:thing")).unwrap().extra.contains_key(ONLY_CLUSTER));
        // No list of names at all, and one with a name that is no text.
        assert!(with_names(b"flagship:cluster:east").is_none());
        assert!(with_names(&named(b"flagship:cluster:\xff")).is_none());
    }

    fn asked(authorization: Option<&str>) -> Result<Option<String>, u16> {
        let tokens =
            StaticTokens::default().with("s3cret", User::authenticated("eve", [group::MASTERS]));
        let mut headers = HeaderMap::new();
        if let Some(text) = authorization {
            headers.insert(AUTHORIZATION, text.parse().unwrap());
        }
        let presented =
            Presented { certificate: None, headers: &headers, cluster: None, audiences: &[] };
        let user = tokens.authenticate(&presented).map_err(|e| e.code)?;
        Ok(user.map(|user| user.name.to_string()))
    }

    #[test]
    fn a_token_is_known_or_refused_and_its_absence_is_neither() {
        assert_eq!(asked(Some("Bearer s3cret")), Ok(Some("eve".to_owned())));
        assert_eq!(asked(Some("bearer  s3cret ")), Ok(Some("eve".to_owned())));
        assert_eq!(asked(Some("Bearer other")), Err(401));
        assert_eq!(asked(Some("Basic czNjcmV0")), Ok(None));
        assert_eq!(asked(Some("Bearer ")), Ok(None));
        assert_eq!(asked(None), Ok(None));
    }
}
