//! `modex get`, `query`, `publish`, `unpublish`, `lookup`, `events` and `attrs`: ask a live server, as a tool does.
//!
//! - [`target`]: the choice of the server
//! - [`arguments`]: names of keys, ranks and qualifiers as people write them
//! - [`get`], [`query`], [`names`], [`events`], [`attrs`]: the requests
//! - [`absence`]: the reason for a value that is not there
//! - [`answer`]: the printed answer, as text or as JSON

/// The help text of a command, with the environment in which all of them search servers.
macro_rules! help {
    ($text:literal) => {
        concat!(
            $text,
            "\n\n\
Environment:
  TMPDIR               Directory in which servers are searched [default: /tmp]
  PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR
                       Further such directories, which launchers set for their processes"
        )
    };
}

mod absence;
mod answer;
mod arguments;
mod attrs;
mod events;
mod get;
mod names;
mod query;
mod target;

pub(super) use arguments::ArgumentError;
pub(super) use attrs::{AttrsOptions, run as attrs};
pub(super) use events::{EventsOptions, run as events};
pub(super) use get::{GetOptions, run as get};
pub(super) use names::{LookupOptions, PublishOptions, UnpublishOptions, lookup, publish, unpublish};
pub(super) use query::{QueryOptions, run as query};
pub(super) use target::{Target, TargetError};
