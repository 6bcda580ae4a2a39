//! Output of processes that this process writes itself: a launcher's server with `PMIX_IOF_LOCAL_OUTPUT`, and a tool that
//! shows the output of its job.
//!
//! | file | owns |
//! |---|---|
//! | `style` | the directives of a job: prefixes, XML, files |
//! | `stream` | streams of processes |
//! | `lines` | pieces of output, put together to whole lines |
//! | `writer` | the thread that writes |

mod lines;
mod stream;
mod style;
mod writer;

pub(crate) use lines::Lines;
pub(crate) use stream::{Channel, Stream};
pub(crate) use style::{Origin, OutputStyle};
pub(crate) use writer::{FindOrigin, JobOutput, OutputWriter, time};
