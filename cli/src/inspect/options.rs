//! The command line of `modex inspect`.

use std::path::PathBuf;

use clap::Args;

use super::error::OptionError;

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct InspectOptions {
    #[command(flatten)]
    pub(super) target: Target,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

/// The target. Without any of these: all servers that this user may inspect.
#[derive(Args, Debug)]
pub(super) struct Target {
    /// Process that holds the segments: a server, or a client that has mapped them
    #[arg(long, value_name = "PID", conflicts_with_all = ["socket", "file"])]
    pub(super) pid: Option<u32>,
    /// Socket of a server, as a path or as the server's URI
    #[arg(long, value_name = "PATH|URI", conflicts_with = "file")]
    pub(super) socket: Option<String>,
    /// Segment in a file, or name of one in a POSIX shared-memory object
    #[arg(long, value_name = "PATH")]
    pub(super) file: Option<PathBuf>,
    /// Inventories of all nodes that the servers of this user know, or of one node in a file: the blob of
    /// `PMIx_server_collect_inventory`
    #[arg(long, value_name = "PATH", num_args = 0..=1, conflicts_with = "file")]
    pub(super) inventory: Option<Option<PathBuf>>,
}

impl Target {
    /// Refuses a file and a server together.
    pub(super) const fn check(&self) -> Result<(), OptionError> {
        let is_of_server = self.pid.is_some() || self.socket.is_some();
        if matches!(self.inventory, Some(Some(_))) && is_of_server { Err(OptionError) } else { Ok(()) }
    }
}

/// The parts of each segment to show besides its summary.
#[derive(Args, Debug, Default)]
pub(super) struct Selection {
    /// Show this namespace only
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// List the key dictionary
    #[arg(long)]
    pub(super) keys: bool,
    /// List the session, job, application, node and process realms
    #[arg(long)]
    pub(super) realms: bool,
    /// List the values of this rank in the segment, its newest block first
    #[arg(long, value_name = "RANK")]
    pub(super) rank: Option<u32>,
    /// List every part of the machine in the segment of its topology
    #[arg(long)]
    pub(super) topology: bool,
    /// Print posted values too, not just their type and size, and columns in full
    #[arg(long)]
    pub(super) values: bool,
}

/// Documents the JSON document: programs that parse it rely on these names.
const HELP: &str = concat!(
    "\
Examples:
  modex inspect
  modex inspect --pid 4711 --rank 3 --values
  modex inspect --namespace modex-4711 --realms --json
  modex inspect --inventory
  modex inspect --inventory inventory.bin

Exit status:
  0  Everything can be shown
  1  There is no such segment, or a part of it can't be shown
  2  The command line makes no sense

Environment:
",
    log_help!(),
    "
JSON document (--json):
  format      version of this document, 1; fields may be added without a new version
  segments[]  one object for each segment:
    namespace, owner        its namespace; its server as namespace.rank; null if the header is not ours
    place, holder_pid       the path it was opened by; the process it was found in, or null
    backing                 memfd, posix or file
    protection, seals[]     sealed, read-only-descriptor; seals in force
    creator_pid             process that made it, as that process counts
    created_unix_s          when, in seconds since 1970; null if not recorded
    layout_id, layout_version, is_layout_ours, note
                            layout, in hexadecimal; if it is another build's, only this header is shown, note says why
    span_bytes, reserved_bytes
                            the most it can hold; memory it takes now
    content                 null if it can't be read, else:
      state, generation     live or retired; number of its last publication
      published_bytes       bytes that readers may read
      roots[]               name, offset (null: nothing there yet)
      sections[]            name, bytes, share (of published_bytes), bytes_per_rank (null without a job)
      key_count, rank_capacity
                            keys in the dictionary; ranks the modex table has room for
      job                   null before registration, else rank_count, node_count, own_node, session_id
      keys[]                with --keys: name, attribute (null if not of the standard), realm
                            (where a Get finds it: session, job, application, node, process; 'job, process'
                            if the job and its processes have values)
      realms                with --realms, absent without a job: session[], job[], other_sessions[] and apps[] (number,
                            values[], node_columns[]), session_node_columns[], node_columns[], proc_columns[] (key,
                            type, encoding, width_bytes, size_bytes, count, values[]: the first 8, all with --values)
      rank                  with --rank, absent if there is no such rank: rank, values[] of the process realm,
                            blocks[] newest first (offset, entries[] with scope, origin)
    hardware                null except for the segment of the node's topology: object_count, xml_bytes, packages, cores,
                            processors, model, memory[] (number, bytes), caches[] (level, count, bytes), devices[] (kinds[],
                            name, uuid, subtype, bus_address, vendor, model, package, numa_node), with --topology also
                            objects[] (level, kind, number, os_number, processors, size_bytes, name)
  servers[]   processes of servers among those: pid, longest_turn_us (what a request waits for at most), of which
              longest_turn_cause_us for longest_turn_cause
  inventory   with --inventory PATH, else absent: node, and the same from packages to devices[]
  inventories[]
              with --inventory alone, else absent; one object for each server: pid, or null; server, its own name; nodes[]
              of node, and the same from packages to devices[]. A device of the server's fabric has plane, too
  problems[]  place, message: what could not be shown; exit status 1 if there is any
  Entries of realms and blocks have key, type, size_bytes (null: fits its cell, or follows from a rule) and value. The
  value of a posted entry is there only with --values. Byte objects are strings of hexadecimal digits; special ranks are their names."
);
