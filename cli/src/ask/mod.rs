//! `modex get` and `modex query`: ask a live server, as a tool does.
//!
//! - [`target`]: which server
//! - [`words`]: names of keys, ranks and qualifiers as people write them
//! - [`get`], [`query`]: what is asked
//! - [`answer`]: what is printed, as text or as JSON

mod answer;
mod get;
mod query;
mod target;
mod words;

pub(super) use get::{Options as GetOptions, run as get};
pub(super) use query::{Options as QueryOptions, run as query};
pub(super) use words::WordError;
