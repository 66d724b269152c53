//! One round of one check: every question to its Prometheus, and the answers to its series.
//! Checks by Jobs are in `jobs`.

mod jobs;

use std::sync::Arc;

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use flagship_api::work::Work;
use flagship_rules::notification::delivery::Trouble;
use flagship_rules::policy::checks::{Answer, Ask, Question, Round, number};
use flagship_runtime::client::ResourceType;
use flagship_runtime::effects::PendingWrites;
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use futures::future::join_all;
use http::{HeaderMap, HeaderValue, Method, header};

use super::{CheckKey, Checks};
use crate::egress::{Outgoing, secret};
use crate::hub::Context;
use crate::mirrors::Mirrors;

/// How much of an answer is read: one number is asked for.
const ANSWER: usize = 64 * 1024;
/// Questions that are asked at once.
const AT_ONCE: usize = 8;

/// Asks checks.
pub(super) struct Shell {
    cx: Context,
    checks: Checks,
    mirrors: Arc<Mirrors>,
    sent: PendingWrites<CheckKey>,
    swept: PendingWrites<ObjectKey>,
}

/// Where to ask, and as whom.
struct Place {
    url: String,
    headers: HeaderMap,
    trust: Option<Bytes>,
}

impl Shell {
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        let (sent, swept) = (PendingWrites::default(), PendingWrites::default());
        sent.shown_by(ResourceType::of::<Work>(), &mirrors.works.works);
        swept.shown_by(ResourceType::of::<Work>(), &mirrors.works.works);
        Self { cx: cx.clone(), checks: cx.checks.clone(), mirrors: mirrors.clone(), sent, swept }
    }

    /// One round.
    pub async fn pass(&self, key: CheckKey) -> Result<Outcome, Failure> {
        let Some(ask) = self.checks.open(&key) else { return Ok(Outcome::Done) };
        if ask.check.job.is_some() {
            return Ok(self.look_at_jobs(&key, &ask).await);
        }
        let at = self.cx.env.now();
        let (updated, rest) = ask.questions();
        let place = self.place(&ask).await;
        let updated = self.ask_all(&place, updated).await;
        let rest = self.ask_all(&place, rest).await;
        let more = self.checks.take(&key, &Round { at, updated, rest });
        let took = self.cx.env.now().duration_since(at);
        let left = ask.every().saturating_sub(took).max(jiff::SignedDuration::from_millis(100));
        Ok(match more {
            true => Outcome::After(left.unsigned_abs()),
            false => Outcome::Done,
        })
    }

    async fn place(&self, ask: &Ask) -> Result<Place, String> {
        let asked = ask.check.prometheus.as_ref().ok_or("the check asks no Prometheus")?;
        let url = match (&asked.url, &asked.secret_ref) {
            (Some(url), _) => url.clone(),
            (None, Some(of)) => self.secret_text(of).await?,
            (None, None) => return Err("the check has no URL".to_owned()),
        };
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        if let Some(of) = &asked.credentials {
            let text = self.secret_text(of).await?;
            let whole = text.starts_with("Basic ") || text.starts_with("Bearer ");
            let text = if whole { text } else { format!("Bearer {text}") };
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| format!("key {} of Secret {} is no header", of.key, of.name))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let url = format!("{}/api/v1/query", url.trim_end_matches('/'));
        let trust = asked.ca_bundle.as_ref().map(|bundle| Bytes::from(bundle.0.clone()));
        Ok(Place { url, headers, trust })
    }

    async fn secret_text(
        &self,
        of: &flagship_api::notification_channel::SecretRef,
    ) -> Result<String, String> {
        let bytes = secret(&self.cx, of).await.map_err(|why| why.told().to_owned())?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| format!("key {} of Secret {} is no text", of.key, of.name))?;
        Ok(text.trim().to_owned())
    }

    /// Asks a few at once. Where one cannot be asked, the others behind it are not tried: a
    /// Prometheus that is away must not hold a round up once for each cluster.
    async fn ask_all(&self, place: &Result<Place, String>, all: Vec<Question>) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(all.len());
        let mut away: Option<String> = place.as_ref().err().cloned();
        for some in all.chunks(AT_ONCE) {
            let answered = match (place, &away) {
                (Ok(place), None) => join_all(some.iter().map(|one| self.ask(place, one))).await,
                (_, why) => {
                    let why = why.clone().unwrap_or_default();
                    some.iter().map(|_| Err(Trouble::Failed(why.clone()))).collect()
                }
            };
            for (question, answer) in some.iter().zip(answered) {
                let value = match answer {
                    Ok(value) => value,
                    Err(why) => {
                        away.get_or_insert_with(|| why.told().to_owned());
                        Err(why.told().to_owned())
                    }
                };
                answers.push(Answer { cluster: question.cluster.clone(), value });
            }
        }
        answers
    }

    /// One question; trouble if nobody answered it.
    async fn ask(&self, place: &Place, one: &Question) -> Result<Result<f64, String>, Trouble> {
        let body = format!("query={}", encoded(&one.query));
        let request = Outgoing {
            method: Method::POST,
            headers: place.headers.clone(),
            body: Bytes::from(body),
            trust: place.trust.clone(),
            at_most: ANSWER,
        };
        let answer = self.cx.options.egress.call(&place.url, request).await?;
        Ok(number(answer.status.as_u16(), &answer.body))
    }
}

/// As a form has it.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
