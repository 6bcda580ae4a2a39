//! Commands of a rank, in either release.

use super::messages::MessageError;
use super::spawn::{Spawn, SpawnLinesError};

/// A command of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The rank begins, and names its release of the protocol.
    Init {
        /// The release, 1 or 2. The messages behind this one have the form of that release.
        version: u32,
    },
    /// Question for its place in the job; PMI-2 alone.
    FullInit,
    /// Question for the longest names and values.
    GetMaxes,
    /// Question for the number of its application in the job.
    GetAppnum,
    /// Question for the name of the job's key space.
    GetMyKvsname,
    /// Question for the number of processes that may exist.
    GetUniverseSize,
    /// A value for all ranks, after the next barrier.
    Put {
        /// The key space; PMI-2 has one alone.
        kvsname: Option<String>,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Question for a value that any rank has put.
    Get {
        /// The key space; in PMI-2, its own if it names none.
        kvsname: Option<String>,
        /// The key.
        key: String,
    },
    /// Question for a fact about the job; PMI-2 alone.
    GetJobAttribute {
        /// The key.
        key: String,
    },
    /// A value for the ranks of this node, at once; PMI-2 alone.
    PutNodeAttribute {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Question for a value that a rank of this node has put; PMI-2 alone.
    GetNodeAttribute {
        /// The key.
        key: String,
        /// Whether the answer waits for the value.
        waits: bool,
    },
    /// A wait for all ranks.
    BarrierIn,
    /// An address to publish under the name of a service.
    PublishName {
        /// The name.
        service: String,
        /// The address.
        port: String,
    },
    /// Question for the address of a service.
    LookupName {
        /// The name.
        service: String,
    },
    /// The end of a published address.
    UnpublishName {
        /// The name.
        service: String,
    },
    /// Further processes.
    Spawn(Spawn),
    /// The end of the job.
    Abort {
        /// The exit status of the job.
        exit_code: i32,
        /// The reason, for people; empty if it gave none.
        message: String,
    },
    /// The end of the rank's use of PMI.
    Finalize,
    /// Another command.
    Unknown {
        /// Its name: lower-case letters, digits, underscores and hyphens.
        name: String,
    },
}

/// Why a line is no command. The connection has no further use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Bytes that are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Lines that are no spawn.
    #[error(transparent)]
    Spawn(#[from] SpawnLinesError),
    /// Bytes that are no text.
    #[error("a message is not UTF-8")]
    NotText,
    /// A message that begins otherwise.
    #[error("a message does not begin with \"cmd=\" and the name of a command; is another protocol spoken?")]
    NoCommand,
    /// A command without one of its fields.
    #[error("the command {command:?} lacks the field {field:?}")]
    Lacks {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field that should be a number.
    #[error("the field {field:?} of the command {command:?} is not a number")]
    NoNumber {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
    },
}

impl Command {
    /// A command that has no other name here.
    pub(super) fn unknown(name: &str) -> Result<Self, CommandError> {
        if is_name(name) { Ok(Self::Unknown { name: name.to_owned() }) } else { Err(CommandError::NoCommand) }
    }
}

/// Whether a text can be the name of a command.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// Longest name of a command in bytes.
const NAME_BYTES_MAX: usize = 32;
