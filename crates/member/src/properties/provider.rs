//! A source of properties besides the built-in one, such as a cloud's prices.
//!
//! One that does not start is tried again at the next heartbeat, with the built-in
//! collection in its place. One that hangs is cut off, so calls never pile up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flagship_api::condition::ConditionDraft;
use flagship_rules::properties::{Collected, provider};
use futures::future::BoxFuture;

/// How long a provider may take to start, and to answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Tells what a member has to offer.
pub trait Provider: Send + Sync {
    /// Gets ready; must not take longer than ten seconds.
    fn start(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Says what is so now; must not take longer than ten seconds.
    fn collect(&self) -> BoxFuture<'_, Collected>;
}

/// A provider, and whether it runs.
#[derive(Clone)]
pub(crate) struct Guarded {
    provider: Arc<dyn Provider>,
    started: Arc<AtomicBool>,
}

/// What a provider had to say.
pub(crate) struct Answer {
    /// What the member has to offer; `None` if the built-in collection must say.
    pub collected: Option<Collected>,
    /// Whether the provider runs: then an answer that is missing is not replaced.
    pub runs: bool,
    pub conditions: Vec<ConditionDraft>,
}

impl Guarded {
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, started: Arc::default() }
    }

    pub async fn ask(&self) -> Answer {
        let silent =
            |said: ConditionDraft| Answer { collected: None, runs: false, conditions: vec![said] };
        if !self.started.load(Ordering::Acquire) {
            match tokio::time::timeout(DEADLINE, self.provider.start()).await {
                Ok(Ok(())) => self.started.store(true, Ordering::Release),
                Ok(Err(why)) => return silent(provider::failed_to_start(&why)),
                Err(_) => return silent(provider::start_timed_out()),
            }
        }
        let collected = tokio::time::timeout(DEADLINE, self.provider.collect()).await.ok();
        let said = match collected {
            Some(_) => provider::collected(),
            None => provider::collection_timed_out(),
        };
        Answer { collected, runs: true, conditions: vec![provider::started(), said] }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes so many seconds to start and to answer, and starts if it is told to.
    struct Scripted(Mutex<(u64, Result<(), String>, u64)>);

    impl Provider for Scripted {
        fn start(&self) -> BoxFuture<'_, Result<(), String>> {
            let (span, result, _) = self.0.lock().unwrap().clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(span)).await;
                result
            })
        }

        fn collect(&self) -> BoxFuture<'_, Collected> {
            let (_, _, span) = self.0.lock().unwrap().clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(span)).await;
                Collected::default()
            })
        }
    }

    // checklist fleet 12.24, 12.25
    #[tokio::test(start_paused = true)]
    async fn a_provider_gets_another_chance_at_every_heartbeat() {
        let script = Arc::new(Scripted(Mutex::new((60, Ok(()), 1))));
        let guarded = Guarded::new(script.clone());
        let table = [
            ((60, Ok(()), 1), false, false, vec![provider::start_timed_out()]),
            ((1, Err("no".to_owned()), 1), false, false, vec![provider::failed_to_start("no")]),
            ((1, Ok(()), 1), true, true, vec![provider::started(), provider::collected()]),
            ((60, Ok(()), 60), false, true, {
                vec![provider::started(), provider::collection_timed_out()]
            }),
            ((60, Ok(()), 1), true, true, vec![provider::started(), provider::collected()]),
        ];
        for (told, collects, runs, says) in table {
            *script.0.lock().unwrap() = told;
            let answer = guarded.ask().await;
            assert_eq!((answer.collected.is_some(), answer.runs), (collects, runs));
            assert_eq!(answer.conditions, says);
        }
    }
}
