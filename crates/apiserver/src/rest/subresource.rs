//! The paths below an object that are written like the object itself.

use flagship_base::machinery::status::ApiError;
use serde_json::{Value, json};

use super::cluster::Ctx;
use super::connect::Remote;
use super::decode::Decoded;
use super::options::{FieldValidation, WriteOptions};
use super::patching::Patch;
use super::write::Source;
use super::{managers, meta, scale};
use crate::patch;
use crate::registry::Served;

/// What part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sub {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// `/scale`.
    Scale,
    /// `/finalize` of namespaces.
    Finalize,
    /// `/ephemeralcontainers` of pods.
    EphemeralContainers,
    /// `/resize` of pods.
    Resize,
    /// `/binding` of pods: only ever posted, and written by the server itself.
    Binding,
    /// `/eviction` of pods: only ever posted.
    Eviction,
    /// `/token` of service accounts: only ever posted.
    Token,
    /// `/approval` of certificate requests.
    Approval,
    /// A way out of the server, such as `/exec`: asked for and never written.
    Connect(Remote),
}

impl Sub {
    /// The subresource of this name, if the kind has it in this version.
    pub(super) fn of(served: &Served, name: &str) -> Option<Self> {
        let has = match served.kind.row() {
            Some(row) => row.subresource(name).is_some(),
            None => match name {
                "status" => served.version().status,
                "scale" => served.version().scale.is_some(),
                _ => false,
            },
        };
        let sub = match name {
            "" => return Some(Self::Main),
            "status" => Self::Status,
            "scale" => Self::Scale,
            "finalize" => Self::Finalize,
            "ephemeralcontainers" => Self::EphemeralContainers,
            "resize" => Self::Resize,
            "approval" => Self::Approval,
            _ => return None,
        };
        has.then_some(sub)
    }

    /// The last part of its path; empty for the object itself.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Token => "token",
            Self::Approval => "approval",
            Self::Connect(remote) => remote.name(),
        }
    }

    /// The whole object as the client wants it, and the duplicate keys it sent.
    pub(super) fn evaluate(
        self,
        ctx: &Ctx<'_>,
        old: &Value,
        source: &mut Source,
        manager: &str,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), ApiError> {
        match self {
            Self::Main
            | Self::Status
            | Self::Approval
            | Self::Finalize
            | Self::Binding
            | Self::Eviction
            | Self::Token
            | Self::Connect(_) => self.whole(ctx, old, source, manager, options),
            Self::Scale => {
                let served = &ctx.place.served;
                let shown = scale::of(served, old).ok_or_else(|| ctx.place.not_found())?;
                let wanted = patched(&shown, source)?;
                let mut new = old.clone();
                scale::apply(served, &ctx.place.name, &wanted, &mut new)?;
                // The precondition is the one of the Scale that was sent.
                let revision = meta::text(&wanted, "resourceVersion").to_owned();
                set_or_remove(&mut new, "resourceVersion", &revision);
                if revision.is_empty() {
                    let own = meta::text(old, "resourceVersion").to_owned();
                    set_or_remove(&mut new, "resourceVersion", &own);
                }
                Ok((new, Vec::new()))
            }
            Self::EphemeralContainers | Self::Resize => {
                let (sent, duplicates) = self.whole(ctx, old, source, manager, options)?;
                let mut new = old.clone();
                let metadata = &sent["metadata"]["resourceVersion"];
                new["metadata"]["resourceVersion"] = metadata.clone();
                if matches!(source, Source::Patch(Patch::Apply(_))) {
                    // Apply has noted its owner there already.
                    new["metadata"]["managedFields"] = sent["metadata"]["managedFields"].clone();
                }
                if self == Self::EphemeralContainers {
                    new["spec"]["ephemeralContainers"] =
                        sent["spec"]["ephemeralContainers"].clone();
                } else {
                    resize(&mut new, &sent);
                }
                Ok((new, duplicates))
            }
        }
    }

    fn whole(
        self,
        ctx: &Ctx<'_>,
        old: &Value,
        source: &mut Source,
        manager: &str,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), ApiError> {
        match source {
            Source::Object(body) if !meta::text(&body.value, "resourceVersion").is_empty() => {
                let Decoded { value, duplicates, .. } = std::mem::take(body);
                *source = Source::Consumed;
                Ok((value, duplicates))
            }
            Source::Consumed => Err(ApiError::stale(&ctx.place.qualified(), &ctx.place.name)),
            Source::Object(Decoded { value, duplicates, .. }) => {
                Ok((value.clone(), duplicates.clone()))
            }
            Source::Patch(Patch::Apply(Decoded { value, duplicates, .. })) => {
                let (cluster, served) = (ctx.cluster, &ctx.place.served);
                let new = managers::apply(
                    cluster,
                    served,
                    Some(old),
                    value,
                    manager,
                    options.force,
                    self,
                )?;
                Ok((new, duplicates.clone()))
            }
            // One that names a revision is not tried again. Where unknown fields are refused, its
            // refusal speaks of the patch.
            Source::Patch(Patch::Merge(body))
                if ctx.place.served.kind.row().is_none()
                    && options.field_validation != FieldValidation::Strict
                    && !meta::text(&body.value, "resourceVersion").is_empty() =>
            {
                let Decoded { value, duplicates, .. } = std::mem::take(body);
                *source = Source::Consumed;
                Ok((patch::merge_owned(old, value).map_err(patch::refused)?, duplicates))
            }
            Source::Patch(patch) => {
                let duplicates = patch.duplicates().to_vec();
                Ok((patch.apply(old, &ctx.place.served)?, duplicates))
            }
        }
    }
}

/// A small object that is not stored by itself, such as a Scale, after the request.
fn patched(shown: &Value, source: &Source) -> Result<Value, ApiError> {
    match source {
        Source::Object(body) => Ok(body.value.clone()),
        Source::Patch(patch) => patch.apply_plain(shown),
        Source::Consumed => Err(ApiError::internal("only whole objects are spent")),
    }
}

fn set_or_remove(object: &mut Value, key: &str, text: &str) {
    let metadata = meta::of_mut(object);
    if text.is_empty() {
        metadata.remove(key);
    } else {
        metadata.insert(key.to_owned(), json!(text));
    }
}

/// Takes over the resources of containers by name, and nothing else.
fn resize(new: &mut Value, sent: &Value) {
    let Some(containers) = new["spec"]["containers"].as_array_mut() else { return };
    for container in containers {
        let wanted = sent["spec"]["containers"].as_array().into_iter().flatten();
        let same = wanted.into_iter().find(|wanted| wanted["name"] == container["name"]);
        if let (Some(wanted), Some(map)) = (same, container.as_object_mut()) {
            map.insert("resources".to_owned(), wanted["resources"].clone());
        }
    }
}
