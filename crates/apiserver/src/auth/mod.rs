//! Who may ask for what: the seam between a connection and a cluster.
//!
//! The edge asks an [`Authenticator`] who a request comes from, lets [`impersonate`] put
//! another user in its place, and asks an [`Authorizer`] whether that user may do it.
//! [`Access`] is the three together. Requests inside the process (`rest::Local`, a
//! `ClusterHandle` used as a service) never pass here: whoever holds the handle is trusted.
//!
//! The rule is [`Rbac`]: the roles and bindings that the cluster stores.

pub mod accounts;
mod credentials;
mod impersonate;
pub mod rbac;
mod reviews;

use std::sync::Arc;

use flagship_base::machinery::status::ApiError;
use http::HeaderMap;
use serde_json::Value;

pub use accounts::ServiceAccounts;
pub use credentials::{CLUSTER_URI, Certificates, Presented, StaticTokens, certificate_user};
pub use flagship_base::machinery::attributes::{Decision, RequestAttributes};
pub use flagship_base::machinery::user::{User, group, name};
pub use impersonate::impersonate;
pub use rbac::Rbac;
pub use reviews::{Asking, REVIEWS, Review};

use crate::rest::ClusterHandle;

/// Finds out who a request comes from.
pub trait Authenticator: Send + Sync {
    /// The user; `None` when the request carries nothing that this one understands, an
    /// error when it carries something that is wrong.
    fn authenticate(&self, presented: &Presented<'_>) -> Result<Option<User>, ApiError>;
}

/// Decides whether a user may do what is asked.
pub trait Authorizer: Send + Sync {
    /// `cluster` is absent when no cluster of that name exists.
    fn authorize(
        &self,
        user: &User,
        ask: &RequestAttributes,
        cluster: Option<&ClusterHandle>,
    ) -> Decision;

    /// What the user may do in a namespace, as the `status` of a SelfSubjectRulesReview.
    fn rules(&self, user: &User, namespace: &str, cluster: Option<&ClusterHandle>) -> Value;
}

/// Authenticators in the order they are asked, and the authorizer.
#[derive(Clone)]
pub struct Access {
    authenticators: Vec<Arc<dyn Authenticator>>,
    authorizer: Arc<dyn Authorizer>,
}

impl Access {
    /// From its parts. Who no authenticator knows is anonymous.
    pub fn new(
        authenticators: Vec<Arc<dyn Authenticator>>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        Self { authenticators, authorizer }
    }

    /// Client certificates, these tokens and those of service accounts, with [`Rbac`] as the rule.
    pub fn with_tokens(tokens: StaticTokens) -> Self {
        let who: Vec<Arc<dyn Authenticator>> =
            vec![Arc::new(Certificates), Arc::new(tokens), Arc::new(ServiceAccounts)];
        Self::new(who, Arc::new(Rbac))
    }

    /// Who sends the request. 401 for credentials that are wrong.
    pub fn sender(&self, presented: &Presented<'_>) -> Result<User, ApiError> {
        // What exactly is wrong with a credential is nobody's business.
        let wrong = |error: ApiError| match error.code {
            401 => ApiError::new(401, "Unauthorized", "Unauthorized"),
            _ => error,
        };
        Ok(self.authenticate(presented).map_err(wrong)?.unwrap_or_else(User::anonymous))
    }

    /// As whom the sender asks. 403 for an impersonation that is not allowed.
    pub fn acting(&self, sender: User, presented: &Presented<'_>) -> Result<User, ApiError> {
        impersonate(sender, presented.headers, |user, ask| self.check(user, ask, presented.cluster))
    }

    /// Who the first authenticator that knows the sender says it is. Something wrong is
    /// forgiven when another credential is right.
    pub fn authenticate(&self, presented: &Presented<'_>) -> Result<Option<User>, ApiError> {
        let mut wrong = None;
        for authenticator in &self.authenticators {
            match authenticator.authenticate(presented) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(error) => wrong = Some(error),
            }
        }
        wrong.map_or(Ok(None), Err)
    }

    /// What a user may do in a namespace, as a SelfSubjectRulesReview says it.
    pub fn rules(&self, user: &User, namespace: &str, cluster: Option<&ClusterHandle>) -> Value {
        self.authorizer.rules(user, namespace, cluster)
    }

    /// The authorizer's bare answer, for reviews.
    pub fn may(
        &self,
        user: &User,
        ask: &RequestAttributes,
        cluster: Option<&ClusterHandle>,
    ) -> Decision {
        self.authorizer.authorize(user, ask, cluster)
    }

    /// Refuses what the user may not do, in Kubernetes' words.
    pub fn check(
        &self,
        user: &User,
        ask: &RequestAttributes,
        cluster: Option<&ClusterHandle>,
    ) -> Result<(), ApiError> {
        match self.may(user, ask, cluster) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(why) => Err(ask.forbidden(user, &why)),
        }
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::with_tokens(StaticTokens::default())
    }
}

/// The bearer token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
