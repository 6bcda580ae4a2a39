//! PMI-1, the protocol between MPICH's launchers and ranks. It is lines of text over a socket that a rank inherits.
//! Bytes in, commands and lines out; no socket and no state of a job.
//!
//! | file | owns |
//! |---|---|
//! | `lines` | bytes to lines, with a bound |
//! | `command` | lines to commands of a rank |
//! | `spawn` | the lines of a spawn |
//! | `answer` | answers to lines |
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
//! let expected = Command::Get { kvsname: "job".into(), key: "address".into() };
//! assert_eq!(reader.next_command(), Ok(Some(expected)));
//! let line = Answer::Got(Ok("10.0.0.1")).line();
//! assert_eq!(line, "cmd=get_result rc=0 msg=success value=10.0.0.1\n");
//! ```
//!
//! Source: the messages of MPICH 4.0 and 5.0 and of Intel MPI 2021 to their own launchers.

mod answer;
mod command;
mod lines;
mod spawn;

pub use answer::Answer;
pub use command::{Command, CommandError, CommandReader};
pub use lines::{LINE_BYTES_MAX, LineTooLong};
pub use spawn::{Program, SPAWN_BYTES_MAX, Spawn, SpawnLinesError};

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 1024;
/// Longest name of a key space in bytes.
pub const KVSNAME_BYTES_MAX: usize = 256;
