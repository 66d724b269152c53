//! Why a request failed, sorted by what to do about it.
//!
//! [`ClientError::action`] is the one place that turns an answer of an API
//! server into a decision. An error after which nobody knows whether the write
//! happened says so in [`ClientError::outcome_unknown`].

use std::time::Duration;

use flagship_api::error_class::ErrorClass;
use http::StatusCode;
use kube::core::Status;
use thiserror::Error;

use super::Malformed;
use crate::error_action::{ErrorAction, Failure};

/// Why a request failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Somebody wrote first. Read again; nothing is wrong.
    #[error("{object} changed under us: {message}")]
    Conflict {
        /// Which object.
        object: String,
        /// The server's words.
        message: String,
    },
    /// The name is taken.
    #[error("{object} exists already")]
    AlreadyExists {
        /// Which object.
        object: String,
    },
    /// There is no such object.
    #[error("{object}{}", if message.is_empty() { " not found".into() } else { format!(": {message}") })]
    NotFound {
        /// Which object.
        object: String,
        /// The server's words: what was not found may be the namespace around it.
        message: String,
    },
    /// The server does not know the type, not yet or no longer.
    #[error("the server does not serve {object}")]
    NotServed {
        /// Which type.
        object: String,
    },
    /// The version asked for is no longer kept: list again.
    #[error("{object}: {message}")]
    Expired {
        /// Which object or type.
        object: String,
        /// The server's words.
        message: String,
    },
    /// The object is invalid, which is 422 and nothing else; an admission policy may say so, too.
    #[error("{object} was refused: {message}")]
    Invalid {
        /// Which object.
        object: String,
        /// The server's words.
        message: String,
    },
    /// We may not do this, or not yet: roles change without telling us.
    #[error("{object}: {message}")]
    Forbidden {
        /// Which object.
        object: String,
        /// The server's words.
        message: String,
    },
    /// Too many requests.
    #[error("{object}: the server asks for patience: {message}")]
    Throttled {
        /// Which object.
        object: String,
        /// The server's words.
        message: String,
        /// When to come back.
        after: Option<Duration>,
    },
    /// The server failed. A write may have happened.
    #[error("{object}: the server failed with {code}: {message}")]
    ServerFailed {
        /// Which object.
        object: String,
        /// HTTP status.
        code: u16,
        /// The server's words.
        message: String,
        /// When to come back.
        after: Option<Duration>,
    },
    /// No answer. A write may have happened.
    #[error("no answer about {object}")]
    Unreachable {
        /// Which object.
        object: String,
        /// What went wrong below.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer cannot be read as what it should be.
    #[error(transparent)]
    Malformed(Box<Malformed>),
    /// A write that must say what it was decided on does not.
    #[error("{object} carries no resourceVersion to compare with")]
    Unfenced {
        /// Which object.
        object: String,
    },
    /// We no longer lead; nothing was sent.
    #[error("{object} was not written: we no longer lead")]
    Deposed {
        /// Which object.
        object: String,
    },
    /// Any other refusal, such as of a request that cannot be read or is too large.
    #[error("{object}: refused with {code}: {message}")]
    Refused {
        /// Which object.
        object: String,
        /// HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
}

impl ClientError {
    /// What to do next.
    pub fn action(&self) -> ErrorAction {
        match self {
            Self::Conflict { .. } | Self::Expired { .. } => ErrorAction::Reread,
            Self::AlreadyExists { .. } => ErrorAction::AlreadyExists,
            Self::NotFound { .. } => ErrorAction::NotFound,
            Self::Throttled { after, .. } | Self::ServerFailed { after, .. } => {
                ErrorAction::BackOff { after: *after }
            }
            Self::NotServed { .. } | Self::Forbidden { .. } | Self::Unreachable { .. } => {
                ErrorAction::BackOff { after: None }
            }
            Self::Invalid { .. } | Self::Refused { .. } => ErrorAction::Refused,
            Self::Malformed(_) | Self::Unfenced { .. } | Self::Deposed { .. } => {
                ErrorAction::GiveUp
            }
        }
    }

    /// The class that messages to users name it by.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Conflict { .. } | Self::AlreadyExists { .. } => ErrorClass::Expected,
            // Defects of ours: the server was not even asked, or did its part.
            Self::Malformed(_) | Self::Unfenced { .. } | Self::Deposed { .. } => {
                ErrorClass::Unexpected
            }
            Self::NotFound { .. }
            | Self::NotServed { .. }
            | Self::Expired { .. }
            | Self::Invalid { .. }
            | Self::Forbidden { .. }
            | Self::Throttled { .. }
            | Self::ServerFailed { .. }
            | Self::Unreachable { .. }
            | Self::Refused { .. } => ErrorClass::ApiServer,
        }
    }

    /// Whether a write that ended like this may have happened nonetheless.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::ServerFailed { .. } | Self::Unreachable { .. })
    }

    /// The error with everything below it, on one line. What TLS says of certificates reads like
    /// any lost connection, so that is called by its name.
    pub fn in_full(&self) -> String {
        let mut told = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(below) = cause {
            told.push_str(&format!(": {below}"));
            cause = below.source();
        }
        if is_about_certificates(&told) {
            told = format!(
                "TLS: a certificate is not accepted, check the CA and the name of the server: {told}"
            );
        }
        told
    }

    /// Sorts an answer. `object` is what the request was about.
    pub(crate) fn from_answer(
        object: String,
        code: StatusCode,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
            Status { message: text, ..Status::default() }
        });
        Self::from_status(object, code.as_u16(), retry_after, &status)
    }

    /// Sorts a `Status`, which may also arrive inside a watch.
    pub(crate) fn from_status(
        object: String,
        code: u16,
        retry_after: Option<Duration>,
        status: &Status,
    ) -> Self {
        let message = status.message.clone();
        let details = status.details.as_ref();
        let after = retry_after.or_else(|| {
            let seconds = details.map(|details| details.retry_after_seconds)?;
            (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
        });
        match (code, status.reason.as_str()) {
            (_, "AlreadyExists") => Self::AlreadyExists { object },
            (409, _) => Self::Conflict { object, message },
            // Without a name in the details the path itself is unknown.
            (404, _) if details.is_none_or(|details| details.name.is_empty()) => {
                Self::NotServed { object }
            }
            (404, _) => Self::NotFound { object, message },
            (410, _) | (_, "Expired") => Self::Expired { object, message },
            (422, _) => Self::Invalid { object, message },
            (401 | 403, _) => Self::Forbidden { object, message },
            (429, _) => Self::Throttled { object, message, after },
            (500.., _) => Self::ServerFailed { object, code, message, after },
            _ => Self::Refused { object, code, message },
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let action = error.action();
        Self { action, why: error.in_full() }
    }
}

/// Whether this is rustls refusing a certificate, or being told that ours was refused.
fn is_about_certificates(told: &str) -> bool {
    const SIGNS: [&str; 5] = [
        "invalid peer certificate",
        "UnknownCA",
        "BadCertificate",
        "CertificateUnknown",
        "CertificateRequired",
    ];
    SIGNS.iter().any(|sign| told.contains(sign))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(code: u16, body: serde_json::Value) -> ClientError {
        let code = StatusCode::from_u16(code).unwrap();
        ClientError::from_answer("Work w".to_owned(), code, None, body.to_string().as_bytes())
    }

    #[test]
    fn answers_are_sorted_by_what_to_do_next() {
        let named = json!({"name": "w"});
        let busy = json!({"retryAfterSeconds": 3});
        let later = ErrorAction::BackOff { after: None };
        let in_three = ErrorAction::BackOff { after: Some(Duration::from_secs(3)) };
        let table = [
            (409, json!({"reason": "Conflict"}), ErrorAction::Reread),
            (409, json!({"reason": "AlreadyExists"}), ErrorAction::AlreadyExists),
            (404, json!({"reason": "NotFound", "details": named}), ErrorAction::NotFound),
            (404, json!({"reason": "NotFound"}), later),
            (410, json!({"reason": "Expired"}), ErrorAction::Reread),
            (422, json!({"reason": "Invalid"}), ErrorAction::Refused),
            (400, json!({}), ErrorAction::Refused),
            (413, json!({"reason": "RequestEntityTooLarge"}), ErrorAction::Refused),
            (403, json!({"reason": "Forbidden"}), later),
            (429, json!({"details": busy}), in_three),
            (500, json!({}), later),
            (504, json!({"reason": "Timeout", "details": busy}), in_three),
            (405, json!({}), ErrorAction::Refused),
        ];
        for (code, body, action) in table {
            assert_eq!(sorted(code, body.clone()).action(), action, "{code} {body}");
        }
    }

    #[test]
    fn only_one_answer_calls_the_object_invalid() {
        for (code, invalid) in [(400, false), (413, false), (415, false), (422, true)] {
            let error = sorted(code, json!({"message": "no"}));
            assert_eq!(matches!(error, ClientError::Invalid { .. }), invalid, "{code}: {error}");
        }
    }

    #[test]
    fn only_lost_races_are_expected() {
        let class = |code, reason: &str| sorted(code, json!({"reason": reason})).class();
        assert_eq!(class(409, "Conflict"), ErrorClass::Expected);
        assert_eq!(class(409, "AlreadyExists"), ErrorClass::Expected);
        assert_eq!(class(422, "Invalid"), ErrorClass::ApiServer);
        assert_eq!(class(500, ""), ErrorClass::ApiServer);
    }

    #[test]
    fn the_header_wins_over_the_details() {
        let body = json!({"details": {"retryAfterSeconds": 3}}).to_string();
        let after = Some(Duration::from_secs(9));
        let error = ClientError::from_answer(
            String::new(),
            StatusCode::TOO_MANY_REQUESTS,
            after,
            body.as_bytes(),
        );
        assert_eq!(error.action(), ErrorAction::BackOff { after });
    }

    #[test]
    fn an_answer_that_is_no_status_is_quoted() {
        let error = ClientError::from_answer(
            "Work w".to_owned(),
            StatusCode::BAD_GATEWAY,
            None,
            b"<html>upstream\xff</html>",
        );
        assert!(error.outcome_unknown());
        assert_eq!(
            error.to_string(),
            "Work w: the server failed with 502: <html>upstream\u{fffd}</html>"
        );
    }

    #[test]
    fn a_certificate_that_is_not_accepted_is_called_that() {
        let source = Box::new(std::io::Error::other("invalid peer certificate: UnknownIssuer"));
        let error = ClientError::Unreachable { object: "Work w".to_owned(), source };
        assert_eq!(
            error.in_full(),
            "TLS: a certificate is not accepted, check the CA and the name of the server: no answer about Work w: invalid peer certificate: UnknownIssuer"
        );
    }

    #[test]
    fn a_failure_tells_the_whole_chain() {
        let source = Box::new(std::io::Error::other("connection reset"));
        let error = ClientError::Unreachable { object: "Work w".to_owned(), source };
        let failure = Failure::from(error);
        assert_eq!(failure.why, "no answer about Work w: connection reset");
        assert_eq!(failure.action, ErrorAction::BackOff { after: None });
    }
}
