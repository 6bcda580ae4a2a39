//! PMI-1 and PMI-2, the protocols between MPICH's launchers and ranks. They are text over a socket that a rank
//! inherits: lines in PMI-1, messages with a length in PMI-2. The rank's first line names the release. Bytes in,
//! commands and answers out; no socket and no state of a job.
//!
//! | file | owns |
//! |---|---|
//! | `messages` | bytes to lines and messages, with bounds |
//! | `command` | commands of a rank |
//! | `version_1`, `version_2` | lines of PMI-1 and messages of PMI-2 to commands |
//! | `reader` | bytes to commands, and answers in the rank's release |
//! | `spawn` | the lines of a spawn |
//! | `answer` | answers to commands |
//!
//! Promises:
//! - bytes of a rank are data of a stranger: every length has a bound, and no input panics;
//! - an answer is one line whatever it carries: [`Answer::line`] refuses values with a blank or line end.
//!
//! ```
//! use modex::pmi::{Answer, Command, CommandReader};
//!
//! let mut reader = CommandReader::default();
//! reader.feed(b"cmd=get kvsname=job ");
//! assert_eq!(reader.next_command(), Ok(None));
//! reader.feed(b"key=address\n");
//! let expected = Command::Get { kvsname: Some("job".into()), key: "address".into() };
//! assert_eq!(reader.next_command(), Ok(Some(expected)));
//! let line = Answer::Got(Ok("10.0.0.1")).line();
//! assert_eq!(line, "cmd=get_result rc=0 msg=success value=10.0.0.1\n");
//! ```
//!
//! Source: the messages of MPICH 4.0 and 5.0 and of Intel MPI 2021 to their own launchers; for PMI-2 the libraries of
//! MPICH and Slurm.

mod answer;
mod command;
mod messages;
mod reader;
mod spawn;
mod version_1;
mod version_2;

pub use answer::{Answer, Place};
pub use command::{Command, CommandError};
pub use messages::{LINE_BYTES_MAX, MESSAGE_BYTES_MAX, MessageError};
pub use reader::CommandReader;
pub use spawn::{Program, SPAWN_BYTES_MAX, Spawn, SpawnLinesError};

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 1024;
/// Longest name of a key space in bytes.
pub const KVSNAME_BYTES_MAX: usize = 256;
