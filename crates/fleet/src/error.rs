//! Why a fleet cannot be assembled.

use flagship_edge::EdgeError;
use flagship_runtime::client::ClientError;
use flagship_store::durable::DurableError;

/// Why a fleet cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The file with the objects cannot be used.
    #[error(transparent)]
    Storage(#[from] DurableError),
    /// A cluster does not take one of our definitions.
    #[error("cannot install {name}: {reason}")]
    Definition {
        /// The definition.
        name: String,
        /// What the server says.
        reason: String,
    },
    /// The hub does not take its system namespace.
    #[error("cannot create namespace {name}: {reason}")]
    Namespace {
        /// The namespace.
        name: &'static str,
        /// What the server says.
        reason: String,
    },
    /// The fleet cannot be reached from the network.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// The hub does not take its admission policies.
    #[error("cannot install the admission policies of the hub")]
    Policies {
        /// What the hub says.
        source: ClientError,
    },
    /// The hub does not take a member.
    #[error("cannot register {member}")]
    Register {
        /// The member.
        member: String,
        /// What the hub says.
        source: ClientError,
    },
}

impl FleetError {
    pub(crate) fn definition(name: &str, reason: String) -> Self {
        Self::Definition { name: name.to_owned(), reason }
    }
}
