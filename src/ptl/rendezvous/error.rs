use std::io;
use std::path::PathBuf;

use crate::os_error_hint::explain;

/// Reason why a rendezvous file can't be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousError {
    /// Another server uses the name.
    #[error(
        "{path} belongs to a server that still runs (pid {}); there can be one, so end it or choose another directory",
        pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
    )]
    Occupied {
        /// The file.
        path: PathBuf,
        /// Its server, if the file names it.
        pid: Option<u32>,
    },
    /// The file belongs to another user, who is not root.
    #[error("{path} belongs to user {owner}, neither root nor user {ours}; the file is not trusted")]
    ForeignOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our effective user id.
        ours: u32,
    },
    /// Other users could have written it.
    #[error("users other than the owner may write {path}; the file is not trusted")]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// Not a regular file: a directory, a pipe, a device.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// Larger than any server's file.
    #[error("{path} has more than {size_bytes_max} bytes; no server wrote it")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        size_bytes_max: u64,
    },
    /// The bytes are no rendezvous file.
    #[error("{path} does not begin with a server's address: {problem}")]
    Contents {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: &'static str,
    },
    /// Its server has ended without removing it.
    #[error("{path} was left behind by a server that has ended")]
    Abandoned {
        /// The file.
        path: PathBuf,
    },
    /// The file in this place can't be replaced.
    #[error("{path} is in the way and can't be replaced: {source}; remove it")]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A host name or namespace that can't be part of a file's name.
    #[error("{part:?} can't be part of a file's name")]
    Name {
        /// The part.
        part: String,
    },
    /// The operating system refused a step.
    #[error("cannot {step} {path}: {}", explain(.source))]
    Io {
        /// The step.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl RendezvousError {
    /// Whether no file of a living server exists yet. Such a file may still come.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Abandoned { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether a file in this place is provably no living server's: another user's file, an unreadable or an
    /// irreplaceable file. Any user could have put it there.
    pub(super) const fn is_in_the_way(&self) -> bool {
        match self {
            Self::ForeignOwner { .. }
            | Self::Writable { .. }
            | Self::NotAFile { .. }
            | Self::TooLarge { .. }
            | Self::Contents { .. }
            | Self::InTheWay { .. } => true,
            Self::Occupied { .. } | Self::Abandoned { .. } | Self::Name { .. } | Self::Io { .. } => false,
        }
    }
}
