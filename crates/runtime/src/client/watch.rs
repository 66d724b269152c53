//! The stream of changes to the objects of one resource.
//!
//! A thin reading of the wire: one line, one [`WatchEvent`]. A line with a
//! malformed object is an event like any other, so one bad object does not end a
//! watch. Keeping the stream alive is the reflector's work.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flagship_api::decode::{self, LARGEST_OBJECT};
use http::Method;
use http_body_util::BodyExt;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{AnswerBody, Call, ClientError, Malformed, Objects, Query, Selection};

/// How a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// After this version.
    Version(String),
    /// With all objects as they are now, closed by [`WatchEvent::ListEnded`].
    StreamedList,
}

/// One line of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent<K> {
    /// The object is there, new or changed.
    Applied(K),
    /// The object is gone; this is how it was last.
    Deleted(K),
    /// The object cannot be read. `deleted` if it is gone anyhow.
    Malformed {
        /// What is wrong.
        problem: Malformed,
        /// Its `metadata.resourceVersion`, if that can be read.
        resource_version: Option<String>,
        /// Whether it is gone.
        deleted: bool,
    },
    /// Nothing older than this version will come.
    Bookmark(String),
    /// The streamed list is complete, as of this version.
    ListEnded(String),
}

/// An open watch.
pub struct Watch<K> {
    objects: Objects<K>,
    body: AnswerBody,
    /// Bytes that do not make a line yet.
    rest: BytesMut,
    /// Up to where `rest` holds no line end.
    searched: usize,
}

impl<K: DeserializeOwned> Objects<K> {
    /// Opens a watch that the server ends after `span`.
    pub async fn watch(
        &self,
        selection: &Selection,
        from: &WatchFrom,
        span: Duration,
    ) -> Result<Watch<K>, ClientError> {
        let query = Query::of(selection)
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("timeoutSeconds", &span.as_secs().to_string());
        let query = match from {
            WatchFrom::Version(version) => query.with("resourceVersion", version),
            WatchFrom::StreamedList => {
                query.with("sendInitialEvents", "true").with("resourceVersionMatch", "NotOlderThan")
            }
        };
        let object = self.resource.to_string();
        let call = Call {
            method: Method::GET,
            path: query.on(self.resource.collection(selection.namespace.as_deref())),
            accept: self.accept_one(),
            content: None,
            object: object.clone(),
        };
        // The answer begins at once, however long the watch then lasts.
        let opened = tokio::time::timeout(self.client.timeout, self.client.open(call)).await;
        let body = opened
            .map_err(|elapsed| ClientError::Unreachable { object, source: Box::new(elapsed) })??
            .into_body();
        Ok(Watch { objects: self.clone(), body, rest: BytesMut::new(), searched: 0 })
    }
}

impl<K: DeserializeOwned> Watch<K> {
    /// The next event. `None` when the server ended the watch. May be cancelled
    /// between events without losing any.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<K>, ClientError>> {
        loop {
            if let Some(line) = self.line() {
                if line.is_empty() {
                    continue;
                }
                return Some(self.read(&line));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Err(error) => return Some(Err(self.broken(error))),
            }
            // An event is an object and a few bytes around it.
            if self.rest.len() > 2 * LARGEST_OBJECT && !self.rest.contains(&b'\n') {
                return Some(Err(self.broken("a line is longer than any object".into())));
            }
        }
    }

    fn line(&mut self) -> Option<Bytes> {
        let end = self.rest[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.searched = self.rest.len();
            return None;
        };
        let line = self.rest.split_to(self.searched + end + 1).freeze();
        self.searched = 0;
        Some(line.slice(..line.len() - 1))
    }

    fn read(&self, line: &[u8]) -> Result<WatchEvent<K>, ClientError> {
        let line: Line<'_> =
            serde_json::from_slice(line).map_err(|error| self.broken(Box::new(error)))?;
        let object = line.object.get().as_bytes();
        let deleted = match line.r#type {
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            "BOOKMARK" => return self.bookmark(object),
            _ => {
                let status: Status =
                    serde_json::from_slice(object).map_err(|error| self.broken(Box::new(error)))?;
                let object = self.objects.resource.to_string();
                return Err(ClientError::from_status(object, status.code, None, &status));
            }
        };
        match decode::decode(object) {
            Ok(object) if deleted => Ok(WatchEvent::Deleted(object)),
            Ok(object) => Ok(WatchEvent::Applied(object)),
            Err(error) => {
                let marks: Option<Marks> = serde_json::from_slice(object).ok();
                Ok(WatchEvent::Malformed {
                    problem: Malformed::new(&self.objects.resource.kind, error),
                    resource_version: marks.and_then(|marks| marks.metadata.resource_version),
                    deleted,
                })
            }
        }
    }

    fn bookmark(&self, object: &[u8]) -> Result<WatchEvent<K>, ClientError> {
        let marks: Marks =
            serde_json::from_slice(object).map_err(|error| self.broken(Box::new(error)))?;
        let version = marks.metadata.resource_version.unwrap_or_default();
        let annotations = marks.metadata.annotations;
        let ended = annotations.is_some_and(|marks| marks.list_ended.as_deref() == Some("true"));
        Ok(if ended { WatchEvent::ListEnded(version) } else { WatchEvent::Bookmark(version) })
    }

    fn broken(&self, source: Box<dyn std::error::Error + Send + Sync>) -> ClientError {
        ClientError::Unreachable { object: self.objects.resource.to_string(), source }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marks {
    metadata: MarksMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarksMeta {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    annotations: Option<MarksAnnotations>,
}

#[derive(Deserialize)]
struct MarksAnnotations {
    #[serde(default, rename = "k8s.io/initial-events-end")]
    list_ended: Option<String>,
}
