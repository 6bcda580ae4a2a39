//! `modex get` and `modex query`: ask a live server, as a tool does.
//!
//! - [`target`]: which server
//! - [`words`]: names of keys, ranks and qualifiers as people write them
//! - [`get`], [`query`]: what is asked
//! - [`answer`]: what is printed, as text or as JSON

mod answer;
mod arguments;
mod get;
mod query;
mod target;

pub(super) use arguments::ArgumentError;
pub(super) use get::{Options as GetOptions, run as get};
pub(super) use query::{Options as QueryOptions, run as query};
