//! Output of processes that this process writes itself: a launcher's server with `PMIX_IOF_LOCAL_OUTPUT`, and a tool
//! that shows the output of its job.
//!
//! | file | owns |
//! |---|---|
//! | `style` | the directives of a job: prefixes, XML, files |
//! | `required` | directives that are honoured or refused |
//! | `stream` | streams of processes |
//! | `lines` | pieces of output, put together to whole lines |
//! | `questions` | lines without an end, which are written after a time |
//! | `files` | the files that get output |
//! | `writer` | the thread that writes |
//! | `pull_output` | output that a pull without a callback brings |
//! | `spawned_output` | output of the jobs that a tool has spawned |

mod files;
mod lines;
mod pull_output;
mod questions;
mod required;
mod spawned_output;
mod stream;
mod style;
mod writer;

pub(crate) use files::JobOutput;
pub(crate) use pull_output::PullOutputs;
pub(crate) use required::UnmetOutput;
pub(crate) use spawned_output::SpawnedOutput;
pub(crate) use stream::Stream;
pub(crate) use style::{Origin, OutputStyle};
pub(crate) use writer::{FindOrigin, OutputWriter};
