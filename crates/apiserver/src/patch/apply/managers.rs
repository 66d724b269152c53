//! `metadata.managedFields`: who set which fields, how and when.
//!
//! An entry belongs to a manager, an operation, a subresource and, for updates, an API
//! version. All served versions of a kind have the same shape here, so sets of
//! different versions are compared as they are.

use std::borrow::Cow;
use std::collections::{BTreeMap, btree_map};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::fieldset::FieldSet;

/// More Update entries than this are folded into one per API version.
const MAX_UPDATERS: usize = 10;
/// Who the folded entries belong to.
const ANCIENT: &str = "ancient-changes";

/// Who writes, as what, and when.
#[derive(Debug, Clone, Copy)]
pub struct Manager<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// The API version that the request was made in, such as `apps/v1`.
    pub api_version: &'a str,
    /// The subresource written to; empty for the object itself.
    pub subresource: &'a str,
    /// The moment of the request.
    pub time: Timestamp,
}

impl Manager<'_> {
    /// The moment as `managedFields` carries it.
    pub(super) fn stamp(&self) -> String {
        // Whole seconds, as metav1.Time.
        Timestamp::from_second(self.time.as_second()).unwrap_or(self.time).to_string()
    }
}

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone)]
pub(super) struct Entry<'v> {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// As written.
    pub(super) time: Option<String>,
    fields: Fields<'v>,
}

/// A set that is only read when somebody asks for it.
#[derive(Debug, Clone)]
enum Fields<'v> {
    Written(Cow<'v, Map<String, Value>>),
    Read(FieldSet),
}

impl<'v> Entry<'v> {
    pub(super) fn new(by: &Manager<'_>, operation: Operation, fields: Map<String, Value>) -> Self {
        Self {
            manager: by.name.to_owned(),
            operation,
            api_version: by.api_version.to_owned(),
            subresource: by.subresource.to_owned(),
            time: Some(by.stamp()),
            fields: Fields::Written(Cow::Owned(fields)),
        }
    }

    /// Whether the entry is this manager's. Who applies keeps one entry across versions.
    pub(super) fn is(&self, by: &Manager<'_>, operation: Operation) -> bool {
        self.manager == by.name
            && self.operation == operation
            && self.subresource == by.subresource
            && (operation == Operation::Apply || self.api_version == by.api_version)
    }

    /// The same entry in another version of the kind.
    pub(super) fn in_version(mut self, api_version: &str) -> Self {
        api_version.clone_into(&mut self.api_version);
        self
    }

    /// The set, read if it was not yet.
    pub(super) fn set(&mut self) -> &mut FieldSet {
        if let Fields::Written(_) = self.fields {
            self.fields = Fields::Read(self.read());
        }
        match &mut self.fields {
            Fields::Read(set) => set,
            Fields::Written(_) => unreachable!("replaced above"),
        }
    }

    /// A copy of the set that leaves the entry as it is written.
    pub(super) fn read(&self) -> FieldSet {
        match &self.fields {
            // Entries are checked when they are taken in.
            Fields::Written(map) => FieldSet::from_map(map).unwrap_or_default(),
            Fields::Read(set) => set.clone(),
        }
    }

    /// The paths that are in both sets.
    pub(super) fn shared_with(&self, paths: &FieldSet) -> FieldSet {
        match &self.fields {
            Fields::Written(map) if !paths.touches(map) => FieldSet::new(),
            Fields::Written(_) => self.read().intersection(paths),
            Fields::Read(set) => set.intersection(paths),
        }
    }

    /// Whether the set is written exactly so.
    pub(super) fn is_written_as(&self, fields: &Map<String, Value>) -> bool {
        matches!(&self.fields, Fields::Written(map) if **map == *fields)
    }

    pub(super) fn lose(&mut self, paths: &FieldSet) {
        match &mut self.fields {
            Fields::Written(map) if !paths.touches(map) => {}
            Fields::Written(map) => paths.subtract_from(map.to_mut()),
            Fields::Read(set) => set.subtract(paths),
        }
    }

    pub(super) fn gain(&mut self, paths: FieldSet) {
        match &mut self.fields {
            Fields::Written(map) => paths.add_to(map.to_mut()),
            Fields::Read(set) => set.union_with(paths),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Written(map) => map.is_empty(),
            Fields::Read(set) => set.is_empty(),
        }
    }

    /// What tells entries apart.
    fn identity(&self) -> (Operation, String, String, String) {
        let version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => self.api_version.clone(),
        };
        (self.operation, self.manager.clone(), version, self.subresource.clone())
    }

    fn is_ancient(&self) -> bool {
        self.manager == ANCIENT && self.subresource.is_empty()
    }

    fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|t| t.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    fn parse(entry: Cow<'v, Value>, at: usize, trusted: bool) -> Result<Self, String> {
        let Some(about) = entry.as_object() else {
            return Err(format!("managed fields entry {at} is not a map"));
        };
        let text = |name: &str| match about.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            None | Some(Value::Null) => Ok(""),
            Some(_) => Err(format!("{name} must be a string in managed fields entry {at}")),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion")?.to_owned();
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => {
                return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}"));
            }
        }
        let (manager, subresource) = (text("manager")?.to_owned(), text("subresource")?.to_owned());
        let time = Some(text("time")?).filter(|t| !t.is_empty()).map(str::to_owned);
        if let Some(Err(e)) = time.as_deref().map(str::parse::<Timestamp>) {
            return Err(format!("invalid time in managed fields entry {at}: {e}"));
        }
        let written = match entry {
            Cow::Borrowed(entry) => entry.get("fieldsV1").map(Cow::Borrowed),
            Cow::Owned(mut entry) => entry.get_mut("fieldsV1").map(Value::take).map(Cow::Owned),
        };
        let fields = match written {
            None => Fields::Read(FieldSet::new()),
            Some(fields) if fields.is_null() => Fields::Read(FieldSet::new()),
            Some(Cow::Borrowed(Value::Object(map))) if trusted => {
                Fields::Written(Cow::Borrowed(map))
            }
            Some(Cow::Owned(Value::Object(map))) if trusted => Fields::Written(Cow::Owned(map)),
            Some(fields) => Fields::Read(
                FieldSet::from_value(&fields)
                    .map_err(|e| format!("error decoding managed fields entry {at}: {e}"))?,
            ),
        };
        Ok(Self { manager, operation, api_version, subresource, time, fields })
    }

    fn into_value(self) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, text: String| {
            if !text.is_empty() {
                entry.insert(name.to_owned(), Value::String(text));
            }
        };
        put("manager", self.manager);
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        put("operation", operation.to_owned());
        put("apiVersion", self.api_version);
        put("fieldsType", "FieldsV1".to_owned());
        put("subresource", self.subresource);
        put("time", self.time.unwrap_or_default());
        let fields = match self.fields {
            Fields::Written(map) => Value::Object(map.into_owned()),
            Fields::Read(set) => set.to_value(),
        };
        entry.insert("fieldsV1".to_owned(), fields);
        Value::Object(entry)
    }
}

/// Reads entries; the later of two for the same manager counts. `trusted` ones were
/// written by this server and need not be checked.
pub(super) fn read(managed: Cow<'_, Value>, trusted: bool) -> Result<Vec<Entry<'_>>, String> {
    let list: Vec<Cow<'_, Value>> = match managed {
        Cow::Borrowed(Value::Null) | Cow::Owned(Value::Null) => return Ok(Vec::new()),
        Cow::Borrowed(Value::Array(list)) => list.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(list)) => list.into_iter().map(Cow::Owned).collect(),
        _ => return Err("managedFields must be a list".to_owned()),
    };
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(list.len());
    let mut known = BTreeMap::new();
    for (at, entry) in list.into_iter().enumerate() {
        let entry = Entry::parse(entry, at, trusted)?;
        match known.entry(entry.identity()) {
            btree_map::Entry::Occupied(earlier) => entries[*earlier.get()] = entry,
            btree_map::Entry::Vacant(free) => {
                free.insert(entries.len());
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

/// Writes entries in the order Kubernetes prints them. `None` if there are none.
pub(super) fn write(mut entries: Vec<Entry<'_>>) -> Option<Value> {
    entries.retain(|entry| !entry.is_empty());
    if entries.is_empty() {
        return None;
    }
    entries.sort_by_cached_key(|e| {
        let names = (e.manager.clone(), e.api_version.clone(), e.subresource.clone());
        (e.operation, e.seconds(), names)
    });
    Some(Value::Array(entries.into_iter().map(Entry::into_value).collect()))
}

/// Folds the oldest updaters of each API version together until few enough are left.
pub(super) fn cap(entries: &mut Vec<Entry<'_>>) {
    let is_updater = |e: &Entry<'_>| e.operation == Operation::Update;
    let mut count = entries.iter().filter(|e| is_updater(e)).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let (mut updaters, mut kept): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
        std::mem::take(entries).into_iter().partition(is_updater);
    updaters.sort_by_cached_key(|e| {
        (e.seconds(), e.manager.clone(), e.api_version.clone(), e.subresource.clone())
    });
    let mut left: Vec<Entry<'_>> = Vec::new();
    // The oldest entry of each version, into which the next ones are folded.
    let mut buckets: BTreeMap<String, usize> = BTreeMap::new();
    for mut entry in updaters {
        let bucket = match buckets.entry(entry.api_version.clone()) {
            btree_map::Entry::Occupied(found) => &mut left[*found.get()],
            btree_map::Entry::Vacant(free) => {
                free.insert(left.len());
                left.push(entry);
                continue;
            }
        };
        let collides = bucket.is_ancient() && entry.is_ancient();
        if count <= MAX_UPDATERS && !collides {
            left.push(entry);
            continue;
        }
        ANCIENT.clone_into(&mut bucket.manager);
        bucket.subresource.clear();
        bucket.gain(std::mem::take(entry.set()));
        // The younger time, as that entry was merged last.
        bucket.time = entry.time;
        count -= 1;
    }
    kept.append(&mut left);
    *entries = kept;
}
