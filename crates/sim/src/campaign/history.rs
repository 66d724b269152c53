//! Holds what a server has recorded against the laws: every version of every object, in the
//! order of revisions. For servers in which no judge can sit: their watches show every write
//! that was accepted, one after the other, and etcd counts all of them in one row.

use flagship_store::ObjectKey;
use flagship_store::env::Call;
use jiff::Timestamp;

use super::books::Books;
use super::judge::Inner;
use crate::testing::Scope;

/// One accepted write.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its place among all writes.
    pub revision: u64,
    /// When a watch showed it.
    pub at: Timestamp,
    /// As in `works.placement.kubernetes-fleet.io`.
    pub resource: String,
    /// Which object.
    pub key: ObjectKey,
    /// The object after it; `None` if it is gone.
    pub json: Option<Vec<u8>>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Writes of kinds that laws are about.
    pub writes: usize,
    /// How often laws were asked.
    pub asked: u64,
    /// Laws that were broken, with what was written.
    pub broken: Vec<String>,
    /// How often runs and bindings passed from one state to another, by its name.
    pub transitions: Vec<(String, u64)>,
}

/// Whether laws are about objects of this resource.
pub fn is_recorded(scope: Scope, resource: &str) -> bool {
    Books::new(scope).hold(resource)
}

/// Asks the laws after every write. Where only hubs write what a law is about, nobody else is
/// suspected.
pub fn judged(scope: Scope, mut recorded: Vec<Recorded>) -> Judged {
    recorded.sort_by_key(|write| write.revision);
    let began = recorded.first().map(|first| first.at).unwrap_or_default();
    let mut inner = Inner::new(began, scope, false);
    let mut told = Judged { writes: recorded.len(), ..Judged::default() };
    for write in &recorded {
        let (namespace, name) = (&*write.key.namespace, &*write.key.name);
        let verb = if write.json.is_some() { "update" } else { "delete" };
        let resource = &write.resource;
        let call = Call { cluster: "hub", who: "hub", verb, resource, namespace, name };
        let broken = inner.judge(&call, &write.key, write.json.as_deref(), write.at);
        told.broken.extend(broken.into_iter().map(|broken| {
            let (revision, law, what) = (write.revision, broken.law, broken.what);
            format!("{law}: {what} (revision {revision}, {resource} {namespace}/{name})")
        }));
    }
    told.asked = inner.asked;
    told.transitions = inner.coverage.transitions.into_iter().collect();
    told
}
