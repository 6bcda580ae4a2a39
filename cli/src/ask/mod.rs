//! `modex get` and `modex query`: ask a live server, as a tool does.
//!
//! - [`target`]: the choice of the server
//! - [`arguments`]: names of keys, ranks and qualifiers as people write them
//! - [`get`], [`query`]: the requests
//! - [`absence`]: the reason for a value that is not there
//! - [`answer`]: the printed answer, as text or as JSON

mod absence;
mod answer;
mod arguments;
mod get;
mod query;
mod target;

pub(super) use arguments::ArgumentError;
pub(super) use get::{GetOptions, run as get};
pub(super) use query::{QueryOptions, run as query};
