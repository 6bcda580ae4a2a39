//! `modex events`: raises events, and watches those that a server delivers to a tool.
//!
//! - [`watch`], [`raise`]: the two directions
//! - [`report`]: an event as a line or as JSON

mod raise;
mod report;
mod watch;

use clap::{Args, Subcommand};

use crate::Outcome;

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct EventsOptions {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print each event in one line, those of the last minutes first
    Watch(watch::WatchOptions),
    /// Raise an event
    Raise(raise::RaiseOptions),
}

const HELP: &str = help!(
    "\
Examples:
  modex events watch
  modex events watch -n modex-4711 PMIX_EVENT_JOB_END --count 1
  modex events raise PMIX_EVENT_NODE_DOWN --info PMIX_HOSTNAME=n7
  modex events raise 99 -n modex-4711 -r 0,4-7

Exit status:
  0  Done
  1  A server can't be asked, refuses, or fewer events came than --count
  2  The command line makes no sense"
);

pub(crate) fn run(options: &EventsOptions) -> Outcome {
    match &options.action {
        Action::Watch(options) => watch::run(options),
        Action::Raise(options) => raise::run(options),
    }
}
