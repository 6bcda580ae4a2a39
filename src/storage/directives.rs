//! Requests to stage, move and cache files, beyond the standard. `PMIx_Job_control` carries them.
//!
//! The caller answers for the rights: a directive of another user than that of this process must not be carried out.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{array, path_of, paths_of};
use super::provider::{FileAction, FileError, FileTask, StorageSystem, reason_of_end};
use super::questions::{Known, Storage, listed};
use crate::keys;
use crate::types::{Info, Key, Status, Text, Value};

/// The files to copy to the target: a path, or an array of paths.
const STAGE: &str = "modex.storage.stage";
/// The files to move to the target.
const MOVE: &str = "modex.storage.move";
/// The files to read into memory.
const CACHE: &str = "modex.storage.cache";
/// Ends requests of this process: all, or those with a name (`PMIX_JOB_CTRL_ID`).
const CANCEL: &str = "modex.storage.cancel";
/// The target: a directory. Otherwise `PMIX_STORAGE_ID` is the target.
const TARGET: &str = "modex.storage.to";
/// The code of the event that tells the end of the request.
const EVENT: &str = "modex.storage.event";

/// In results: the files at their places, in the order of the request.
const FILES: &str = super::files::FILES;
/// In results: the file that was not carried out, and why.
const FAILED: &str = "modex.storage.failed";
/// See [`FAILED`].
const REASON: &str = "modex.storage.reason";
/// In events: the status of the request.
const STATUS: &str = "modex.storage.status";

/// The actions by their keys.
const ACTIONS: [(&str, FileAction); 3] =
    [(STAGE, FileAction::Stage), (MOVE, FileAction::Move), (CACHE, FileAction::Cache)];

/// Further directives of a request about files.
const UNDERSTOOD: [&str; 5] = [TARGET, EVENT, keys::STORAGE_ID.name(), keys::JOB_CTRL_ID.name(), keys::TIMEOUT.name()];

/// All directives of requests about files: the requests, and those beside them.
pub const DIRECTIVES: [&[&str]; 2] = [&[ACTIONS[0].0, ACTIONS[1].0, ACTIONS[2].0, CANCEL], &UNDERSTOOD];

/// The requester, as the server adds it.
const SIGNATURE: [&str; 2] = [keys::USERID.name(), keys::GRPID.name()];

/// Whether a request for job control is about files.
#[must_use]
pub fn has_directive(directives: &[Info]) -> bool {
    directives.iter().any(|info| info.key.as_str() == CANCEL || action_of(info).is_some())
}

fn action_of(info: &Info) -> Option<FileAction> {
    ACTIONS.iter().find(|(key, _)| *key == info.key.as_str()).map(|(_, action)| *action)
}

/// A request about files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Do something with files.
    Carry(FileOrder),
    /// End the requests of the requester, or those with a name.
    Cancel(Option<Text>),
}

/// Files, an action and a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOrder {
    action: FileAction,
    files: Vec<PathBuf>,
    directory: Option<PathBuf>,
    system: Option<Text>,
    /// The name of the request.
    pub name: Option<Text>,
    /// The code of the event at the end.
    pub event: Option<Status>,
    /// The time limit.
    pub timeout: Option<Duration>,
}

impl Directive {
    /// Reads the directives of a request.
    ///
    /// # Errors
    /// The infos are not of one request about files, or have wrong values.
    pub fn read(directives: &[Info]) -> Result<Self, Status> {
        let keys: BTreeSet<&str> = directives.iter().map(|info| info.key.as_str()).collect();
        if keys.len() < directives.len() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let is_known = |key: &str| UNDERSTOOD.contains(&key) || SIGNATURE.contains(&key);
        let mut requests = directives.iter().filter(|info| !is_known(info.key.as_str()));
        let (Some(request), None) = (requests.next(), requests.next()) else { return Err(Status::ERR_NOT_SUPPORTED) };
        if request.key.as_str() == CANCEL {
            return Self::read_cancel(&request.value, directives).ok_or(Status::ERR_BAD_PARAM);
        }
        let action = action_of(request).ok_or(Status::ERR_NOT_SUPPORTED)?;
        FileOrder::read(action, &request.value, directives).map(Self::Carry).ok_or(Status::ERR_BAD_PARAM)
    }

    /// Reads the name of the requests to end, from the directive or beside it. Targets and events are for actions.
    fn read_cancel(value: &Value, directives: &[Info]) -> Option<Self> {
        let find = |key: &str| directives.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
        if [TARGET, EVENT, keys::STORAGE_ID.name()].into_iter().any(|key| find(key).is_some()) {
            return None;
        }
        let beside = find(keys::JOB_CTRL_ID.name());
        match (value, beside) {
            (Value::Undefined | Value::Bool(true), None) => Some(Self::Cancel(None)),
            (Value::String(name), None) | (Value::Undefined | Value::Bool(true), Some(Value::String(name))) => {
                Some(Self::Cancel(Some(name.clone())))
            }
            _ => None,
        }
    }
}

impl FileOrder {
    fn read(action: FileAction, files: &Value, directives: &[Info]) -> Option<Self> {
        let find = |key: &str| directives.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
        let text = |key: &str| match find(key) {
            None => Some(None),
            Some(Value::String(text)) => Some(Some(text.clone())),
            Some(_) => None,
        };
        let directory = match find(TARGET) {
            None => None,
            Some(value) => Some(path_of(value)?),
        };
        let event = match find(EVENT) {
            None => None,
            Some(Value::Status(code)) => Some(*code),
            Some(Value::Int(code) | Value::Int32(code)) => Some(*code),
            Some(_) => return None,
        };
        let seconds = match find(keys::TIMEOUT.name()) {
            None => 0,
            Some(value) => value.as_u64()?,
        };
        let order = Self {
            action,
            files: paths_of(files)?,
            directory,
            system: text(keys::STORAGE_ID.name())?,
            name: text(keys::JOB_CTRL_ID.name())?,
            event: event.map(Status::from_raw),
            timeout: (seconds > 0).then(|| Duration::from_secs(seconds)),
        };
        order.is_possible().then_some(order)
    }

    /// Whether there is one target, and a name for each file there.
    fn is_possible(&self) -> bool {
        let targets = usize::from(self.directory.is_some()) + usize::from(self.system.is_some());
        if self.action == FileAction::Cache {
            return targets == 0;
        }
        let names: BTreeSet<_> = self.files.iter().filter_map(|file| file.file_name()).collect();
        targets == 1 && names.len() == self.files.len()
    }
}

/// The result of a request about files.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderResult {
    /// The status.
    pub status: Status,
    /// The files that are there, and the one that is not.
    pub info: Vec<Info>,
}

impl OrderResult {
    /// The result of a request that ended before its first file.
    #[must_use]
    pub fn without_files(status: Status) -> Self {
        Self::refused(status, reason_of_end(status))
    }

    fn refused(status: Status, reason: &str) -> Self {
        Self { status, info: vec![info(REASON, reason.into())] }
    }

    /// The details of the event that tells it.
    #[must_use]
    pub fn of_event(&self, name: Option<&Text>) -> Vec<Info> {
        let mut infos = self.info.clone();
        infos.push(info(STATUS, Value::Status(self.status.to_raw())));
        infos.extend(name.map(|name| info(keys::JOB_CTRL_ID.name(), Value::String(name.clone()))));
        infos
    }
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(Key::from_static(key), value)
}

impl Storage {
    /// Carries out a request, one file after the other, up to the first that fails. It may wait for file systems. `end`
    /// is the status of a request that must not go on.
    #[must_use]
    pub fn carry_out(&self, order: &FileOrder, end: &dyn Fn() -> Option<Status>) -> OrderResult {
        let known = if order.system.is_some() { Known::of(&self.providers) } else { Vec::new() };
        let is_meant = |known: &&Known<'_>| {
            order
                .system
                .as_ref()
                .is_some_and(|id| *id == known.system.id || id.as_bytes() == listed(&known.system.id).as_bytes())
        };
        let system = known.iter().find(is_meant).map(|known| &known.system);
        if let (Some(id), None) = (&order.system, system) {
            let reason = format!(
                "no storage has the PMIX_STORAGE_ID {id:?}; PMIX_QUERY_STORAGE_LIST has all that the server knows"
            );
            return OrderResult::refused(Status::ERR_NOT_FOUND, &reason);
        }
        let (mut there, mut failure) = (Vec::new(), None);
        for file in &order.files {
            match self.carry_out_one(order, file, system, end) {
                Ok(place) => there.extend(text_of(&place)),
                Err(error) => {
                    failure = Some((file, error));
                    break;
                }
            }
        }
        let mut found = Vec::new();
        if !there.is_empty() {
            found.push(info(FILES, array(there)));
        }
        let Some((file, FileError { status, reason })) = failure else {
            return OrderResult { status: Status::SUCCESS, info: found };
        };
        found.extend(text_of(file).map(|path| info(FAILED, path)));
        found.push(info(REASON, reason.as_str().into()));
        OrderResult { status, info: found }
    }

    fn carry_out_one(
        &self,
        order: &FileOrder,
        file: &Path,
        system: Option<&StorageSystem>,
        end: &dyn Fn() -> Option<Status>,
    ) -> Result<PathBuf, FileError> {
        let task = FileTask { action: order.action, file, directory: order.directory.as_deref(), system, end };
        let unsupported = || Err(FileError::new(Status::ERR_NOT_SUPPORTED, "no provider carries this out"));
        self.providers.iter().find_map(|provider| provider.carry_out(&task)).unwrap_or_else(unsupported)
    }
}

fn text_of(path: &Path) -> Option<Value> {
    Text::new(path.as_os_str().as_bytes()).ok().map(Value::String)
}
