//! Where objects of a kind are found on the member, learnt from the member itself.
//!
//! What is known is believed until a kind is missed or turns out to be gone; then the
//! member is asked again, once for all passes that miss something at that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flagship_rules::apply::{GroupVersionKind, Mapping, Unmapped};
use flagship_runtime::client::Client;
use flagship_runtime::dynamic::{Discovered, ServedType, discover};
use tokio::sync::Mutex;

/// Pause before a member that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// What is known of the member's kinds.
pub(crate) struct Kinds {
    client: Client,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    found: Arc<Discovered>,
    /// How often the member was asked.
    looks: u64,
}

impl Kinds {
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), known: Mutex::default() }
    }

    /// Looks kinds up; a kind that is missed makes us ask the member.
    pub async fn find(
        &self,
        wanted: &BTreeSet<GroupVersionKind>,
    ) -> BTreeMap<GroupVersionKind, Result<Mapping, Unmapped>> {
        let (found, looks) = self.known().await;
        let answers = answers(&found, wanted);
        if answers.values().all(Result::is_ok) {
            return answers;
        }
        let answers = self.ask(wanted, looks).await;
        let unanswered = |answer: &Result<_, _>| matches!(answer, Err(Unmapped::Unanswered(_)));
        if !answers.values().any(unanswered) {
            return answers;
        }
        tokio::time::sleep(AGAIN).await;
        let (_, looks) = self.known().await;
        self.ask(wanted, looks).await
    }

    /// Asks the member, unless somebody has since `looks`.
    async fn ask(
        &self,
        wanted: &BTreeSet<GroupVersionKind>,
        looks: u64,
    ) -> BTreeMap<GroupVersionKind, Result<Mapping, Unmapped>> {
        let mut known = self.known.lock().await;
        if known.looks == looks {
            known.found = Arc::new(discover(&self.client).await);
            known.looks += 1;
        }
        answers(&known.found, wanted)
    }

    /// Discovery has turned out to be out of date; the next question asks the server again.
    pub async fn forget(&self) {
        self.known.lock().await.found = Arc::default();
    }

    async fn known(&self) -> (Arc<Discovered>, u64) {
        let known = self.known.lock().await;
        (known.found.clone(), known.looks)
    }
}

fn answers(
    found: &Discovered,
    wanted: &BTreeSet<GroupVersionKind>,
) -> BTreeMap<GroupVersionKind, Result<Mapping, Unmapped>> {
    wanted.iter().map(|kind| (kind.clone(), answer(found, kind))).collect()
}

fn answer(found: &Discovered, wanted: &GroupVersionKind) -> Result<Mapping, Unmapped> {
    let same = |served: &&ServedType| {
        let of = &served.resource;
        (&of.group, &of.version, &of.kind) == (&wanted.group, &wanted.version, &wanted.kind)
    };
    if let Some(served) = found.types.values().find(same) {
        return Ok(Mapping { resource: served.resource.plural.clone(), scope: served.scope });
    }
    if found.is_sure_about(&wanted.group) {
        return Err(Unmapped::NoSuchKind);
    }
    let why = found.failed.get(&wanted.group).cloned();
    Err(Unmapped::Unanswered(why.unwrap_or_else(|| "the groups cannot be listed".to_owned())))
}
