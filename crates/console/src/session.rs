//! One caller's console: a mirror of the hub with the caller's credentials, what the caller
//! may do, and the views that somebody looks at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use tokio::task::JoinSet;

use crate::commands::Commands;
use crate::live::Live;
use crate::looks::MemberLookups;
use crate::mirror::Mirror;
use crate::rights::Rights;
use crate::view::{Model, View, ViewInputs};

/// One caller's console.
pub struct Session {
    inner: Arc<Inner>,
    _tasks: JoinSet<()>,
}

pub(crate) struct Inner {
    env: Env,
    pub(crate) mirror: Mirror,
    rights: Rights,
    looks: MemberLookups,
    pub(crate) commands: Arc<dyn Commands>,
    lives: Mutex<BTreeMap<View, Arc<Live>>>,
}

/// How often rights and members are looked at again, if somebody wants to know.
const LOOK: Duration = Duration::from_millis(500);

/// Views that are kept up at a time.
const MOST_VIEWS: usize = 128;

impl Session {
    /// Begins to watch the hub with this client. Needs a runtime.
    pub fn start(client: &Client, env: &Env, commands: Arc<dyn Commands>, rights: Rights) -> Self {
        let inner = Arc::new(Inner {
            env: env.clone(),
            mirror: Mirror::start(client, env),
            rights,
            looks: MemberLookups::default(),
            commands,
            lives: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let (asking, client) = (Arc::downgrade(&inner), client.clone());
        tasks.spawn(async move {
            while let Some(session) = asking.upgrade() {
                let news = session.rights.refresh(&client).await
                    | session.looks.refresh(&*session.commands).await;
                if news {
                    session.mirror.touch();
                }
                drop(session);
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { inner, _tasks: tasks }
    }

    /// A view, for as long as somebody reads it; nothing if too many others are.
    pub(crate) fn live(&self, view: View) -> Option<Arc<Live>> {
        let mut lives = self.inner.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.retain(|_, live| !live.is_over());
        if lives.len() >= MOST_VIEWS && !lives.contains_key(&view) {
            return None;
        }
        let live = lives.entry(view.clone());
        Some(live.or_insert_with(|| Live::start(&self.inner, view)).clone())
    }

    /// A view as it is now.
    pub fn model(&self, view: &View) -> Model {
        self.inner.model(view)
    }

    pub(crate) fn commands(&self) -> &dyn Commands {
        &*self.inner.commands
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Inner {
    pub(crate) fn model(&self, view: &View) -> Model {
        let (mirror, rights, looks) = (&self.mirror, &self.rights, &self.looks);
        view.model(&ViewInputs { mirror, rights, looks, now: self.env.now() })
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.env.now()
    }
}
