//! A source of storage systems.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::io::Errno;

use crate::types::{Status, Text};

/// A source of storage systems. A site with others than mounted file systems, or with more knowledge of these,
/// implements it and adds it by `ServerBuilder::storage`.
///
/// ```
/// use modex::storage_systems::{MountTable, Provider, StorageSystem, Usage};
/// use modex::types::Text;
/// use modex::types::codes::{storage_accessibility, storage_medium};
/// use modex::{LocalHost, Server};
///
/// #[derive(Debug)]
/// struct Archive;
///
/// impl Provider for Archive {
///     fn systems(&self) -> Vec<StorageSystem> {
///         let mut tape = StorageSystem::new("tape1");
///         tape.kind = Some(Text::from("hpss"));
///         tape.medium = Some(storage_medium::STORAGE_MEDIUM_TAPE);
///         tape.accessibility = Some(storage_accessibility::STORAGE_ACCESSIBILITY_CLUSTER);
///         vec![tape]
///     }
///
///     fn usage(&self, _system: &StorageSystem) -> Usage {
///         Usage { capacity_bytes: Some(1 << 50), ..Usage::default() }
///     }
/// }
///
/// let server = Server::builder().storage(Archive).storage(MountTable::new()).start(LocalHost)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Provider: fmt::Debug + Send + Sync {
    /// The systems, with the facts that are known without a look at them. It must not wait.
    fn systems(&self) -> Vec<StorageSystem>;

    /// The use of a system. It may wait: each request that looks has a thread.
    fn usage(&self, system: &StorageSystem) -> Usage {
        let _ = system;
        Usage::default()
    }

    /// Carries out a task about a file. The result is the file's path afterwards. It may wait, and calls
    /// [`FileTask::check`] from time to time. `None`: another provider may know how.
    fn carry_out(&self, task: &FileTask<'_>) -> Option<Result<PathBuf, FileError>> {
        let _ = task;
        None
    }
}

/// The action of a task about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAction {
    /// Bring a copy to the target. A file with the same content stays there.
    Stage,
    /// The same; then remove the file from its old place.
    Move,
    /// Read the file into the memory of this node.
    Cache,
}

/// A task about a file, of the user of this process.
#[non_exhaustive]
pub struct FileTask<'t> {
    /// The action.
    pub action: FileAction,
    /// The absolute path of the file.
    pub file: &'t Path,
    /// The directory that is the target.
    pub directory: Option<&'t Path>,
    /// The storage that is the target. Its main mount point is the directory.
    pub system: Option<&'t StorageSystem>,
    pub(super) end: &'t dyn Fn() -> Option<Status>,
}

impl FileTask<'_> {
    /// Checks that the task is still wanted.
    ///
    /// # Errors
    /// Its time is over, or it was cancelled. A part of a copy must go.
    pub fn check(&self) -> Result<(), FileError> {
        (self.end)().map_or(Ok(()), |status| Err(FileError::new(status, reason_of_end(status))))
    }
}

/// The reason for the end of a request, in words.
pub(super) const fn reason_of_end(status: Status) -> &'static str {
    match status {
        Status::ERR_TIMEOUT => "the time in PMIX_TIMEOUT is over; ask again with more time, or with fewer files",
        Status::ERR_JOB_CANCELED => "the request was cancelled with modex.storage.cancel",
        Status::ERR_LOST_CONNECTION => "the requester has left the server",
        Status::ERR_SERVER_NOT_AVAIL => "the server ends; ask the next one",
        Status::ERR_OUT_OF_RESOURCE => "too many requests wait; ask again when others have ended",
        _ => "a provider of storage has failed; the log of the server has the reason",
    }
}

/// The reason for a task that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileError {
    /// The status for the requester.
    pub status: Status,
    /// The reason in words.
    pub reason: String,
}

impl FileError {
    /// An error with a reason in words.
    #[must_use]
    pub fn new(status: Status, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> Self {
        let status = match error {
            Errno::NOENT => Status::ERR_NOT_FOUND,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Status::ERR_NO_PERMISSIONS,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::NOMEM | Errno::MFILE | Errno::NFILE => {
                Status::ERR_OUT_OF_RESOURCE
            }
            Errno::EXIST | Errno::ISDIR | Errno::NOTEMPTY => Status::ERR_EXISTS,
            Errno::INVAL | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Status::ERR_BAD_PARAM,
            _ => Status::ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(number) => number.into(),
            None => Self::new(Status::ERR_BAD_PARAM, error.to_string()),
        }
    }
}

/// Major and minor number of a device.
pub type DeviceNumber = (u32, u32);

/// A storage system, with its fixed facts. A missing one is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageSystem {
    /// `PMIX_STORAGE_ID`. In lists commas, percent signs and control characters are written as `%` and two digits, as
    /// in an URL.
    pub id: Text,
    /// Mount points, the main one first.
    pub paths: Vec<Text>,
    /// The kind, such as `ext4` or `lustre`.
    pub kind: Option<Text>,
    /// The version of the system.
    pub version: Option<Text>,
    /// The device of a file system.
    pub device: Option<DeviceNumber>,
    /// Bits of `pmix_storage_medium_t`.
    pub medium: Option<u64>,
    /// Bits of `pmix_storage_accessibility_t`.
    pub accessibility: Option<u64>,
    /// Bits of `pmix_storage_persistence_t`.
    pub persistence: Option<u64>,
    /// Bits of `pmix_storage_access_type_t`.
    pub access: Option<u16>,
}

impl StorageSystem {
    /// A system without known facts.
    #[must_use]
    pub fn new(id: impl Into<Text>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// The facts of both; the own ones come first.
    #[must_use]
    pub(super) fn or(mut self, other: Self) -> Self {
        self.paths.extend(other.paths);
        Self {
            id: self.id,
            paths: self.paths,
            kind: self.kind.or(other.kind),
            version: self.version.or(other.version),
            device: self.device.or(other.device),
            medium: self.medium.or(other.medium),
            accessibility: self.accessibility.or(other.accessibility),
            persistence: self.persistence.or(other.persistence),
            access: self.access.or(other.access),
        }
    }
}

/// The use of a storage system. A missing figure is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// All bytes.
    pub capacity_bytes: Option<u64>,
    /// Bytes in use.
    pub used_bytes: Option<u64>,
    /// The most objects, such as inodes.
    pub objects_max: Option<u64>,
    /// Objects in use.
    pub objects_used: Option<u64>,
    /// The smallest transfer.
    pub transfer_bytes_min: Option<u64>,
    /// The size of a transfer that is best for reads.
    pub read_bytes_best: Option<u64>,
    /// The size of a transfer that is best for writes.
    pub write_bytes_best: Option<u64>,
    /// Speed of reads.
    pub reads: Rates,
    /// Speed of writes.
    pub writes: Rates,
}

/// Speeds of a storage system in one direction, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes, seen lately.
    pub bytes: Option<f64>,
    /// The most bytes.
    pub bytes_max: Option<f64>,
    /// Operations, seen lately.
    pub operations: Option<f64>,
    /// The most operations.
    pub operations_max: Option<f64>,
}

impl Usage {
    /// The figures of both; the own ones come first.
    #[must_use]
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            capacity_bytes: self.capacity_bytes.or(other.capacity_bytes),
            used_bytes: self.used_bytes.or(other.used_bytes),
            objects_max: self.objects_max.or(other.objects_max),
            objects_used: self.objects_used.or(other.objects_used),
            transfer_bytes_min: self.transfer_bytes_min.or(other.transfer_bytes_min),
            read_bytes_best: self.read_bytes_best.or(other.read_bytes_best),
            write_bytes_best: self.write_bytes_best.or(other.write_bytes_best),
            reads: self.reads.or(other.reads),
            writes: self.writes.or(other.writes),
        }
    }
}

impl Rates {
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.or(other.bytes),
            bytes_max: self.bytes_max.or(other.bytes_max),
            operations: self.operations.or(other.operations),
            operations_max: self.operations_max.or(other.operations_max),
        }
    }
}
