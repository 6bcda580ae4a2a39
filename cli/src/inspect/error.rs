//! Why a report can't be made.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use modex::gds::Damage;
use modex::shmem::{HandleError, SegmentError};
use modex::topo::{InventoryError, MachineError};

/// Why there is nothing to show, or only a part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum InspectError {
    /// No process has that number.
    #[error("there is no process {pid}; it may have ended")]
    NoProcess {
        /// The number.
        pid: u32,
    },
    /// The system does not let this user inspect the process.
    #[error("not permitted to look into process {pid}; run this as the user it belongs to, or as root")]
    Forbidden {
        /// The process.
        pid: u32,
    },
    /// `/proc` could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Proc {
        /// The part of it.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file holds no inventory.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The segment of a topology is damaged.
    #[error(transparent)]
    Topology(MachineError),
    /// The process is no server that this user's tools may ask.
    #[error("process {pid} is no server of this user that admits tools")]
    NoServer {
        /// The process.
        pid: u32,
    },
    /// The process holds no segment.
    #[error("process {pid} holds no segment of modex: it is not a server, or no process has connected to it yet")]
    NoSegment {
        /// The process.
        pid: u32,
    },
    /// The address is not that of a Unix socket.
    #[error("{uri:?} names no Unix socket; give the path of the socket, or a URI that ends in ;unix:PATH")]
    Uri {
        /// The address.
        uri: String,
    },
    /// No process listens there.
    #[error("cannot connect to the server at {}: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel does not say which process listens.
    #[error("the process of the server at {} is not visible from here; run modex inspect --pid in the server's \
     container", path.display())]
    HiddenServer {
        /// The socket.
        path: PathBuf,
    },
    /// The object could not be opened.
    #[error("{}", with_causes(.0))]
    Open(#[from] HandleError),
    /// The object is no segment, or can't be read.
    #[error("{}", with_causes(.0))]
    Attach(#[from] SegmentError),
    /// The process is about to make the segment, or was when this command read it.
    #[error("the server is still creating the segment; try again")]
    Unfinished,
    /// No segment belongs to that namespace.
    #[error("there is no segment of namespace {wanted:?}; it gets one when its first process connects. {}", listed(.found))]
    NoNamespace {
        /// The namespace asked for.
        wanted: String,
        /// The namespaces that exist.
        found: Vec<String>,
    },
    /// A part of the segment is damaged.
    #[error("cannot read its {part}: {damage}")]
    Damaged {
        /// The part.
        part: &'static str,
        /// The fault.
        damage: Damage,
    },
    /// More values than a report shows.
    #[error("it holds more than {values_max} values; the rest is not shown. Select single ranks with --rank")]
    TooMany {
        /// The number of values shown.
        values_max: u32,
    },
    /// Details of a foreign layout were asked for.
    #[error("its layout belongs to another build; only the header can be shown")]
    Foreign,
    /// The job has no such rank.
    #[error("namespace {namespace} has no rank {rank}; it has {rank_count} ranks")]
    NoRank {
        /// The namespace.
        namespace: String,
        /// The rank asked for.
        rank: u32,
        /// Number of ranks.
        rank_count: u32,
    },
}

/// Why a command line makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("--inventory with a file asks no server; leave out --pid and --socket")]
pub(crate) struct OptionError;

fn listed(namespaces: &[String]) -> String {
    match namespaces {
        [] => "No job that this user may inspect has one; start a job with modex run".to_owned(),
        _ => format!("There are: {}", namespaces.join(", ")),
    }
}

/// An error and its cause, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // Some errors name their cause themselves, perhaps with advice.
        let is_said = line.ends_with(&text) || line.contains(&format!(": {text}; "));
        if !is_said {
            line = format!("{line}: {text}");
        }
        next = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the message ended with an empty list.
    #[test]
    fn a_machine_without_any_job_is_named_so() {
        let line = |found: &[&str]| {
            let found = found.iter().map(|name| (*name).to_owned()).collect();
            InspectError::NoNamespace { wanted: "a".to_owned(), found }.to_string()
        };
        assert!(line(&["b", "c"]).ends_with(". There are: b, c"), "{}", line(&["b", "c"]));
        assert!(
            line(&[]).ends_with(". No job that this user may inspect has one; start a job with modex run"),
            "{}",
            line(&[])
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Caused(&'static str, #[source] std::io::Error);

    /// Regression: a short cause was left out if its letters were anywhere in the line.
    #[test]
    fn a_cause_is_left_out_only_where_the_line_says_it() {
        let line = |text| with_causes(&Caused(text, std::io::Error::other("end")));
        assert_eq!(line("pending"), "pending: end");
        assert_eq!(line("cannot read: end"), "cannot read: end");
        assert_eq!(line("cannot read: end; try again"), "cannot read: end; try again");
    }
}
