//! Streams of processes.

use std::fmt;

use modex::types::ProcId;
use modex::types::codes::iof_channel;

/// A stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The stream of diagnostics.
    Stddiag,
}

impl Stream {
    /// The stream of a channel with one bit.
    pub(crate) const fn of(channel: u16) -> Self {
        match channel {
            iof_channel::FWD_STDOUT_CHANNEL => Self::Stdout,
            iof_channel::FWD_STDDIAG_CHANNEL => Self::Stddiag,
            _ => Self::Stderr,
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Stddiag => "stddiag",
        })
    }
}

/// A source and a stream of it.
pub(crate) type Channel = (ProcId, Stream);
