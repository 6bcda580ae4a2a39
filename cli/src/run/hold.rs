//! A launcher that a tool has started, as a debugger does: it waits for the tool before it starts its job, takes the
//! tool's directives, and tells the tool about the job.
//!
//! ```text
//! tool: its address in PMIX_LAUNCHER_RNDZ_URI --> launcher: connects to the tool and to the server that has started it
//! launcher: PMIX_LAUNCHER_READY ---------------> tool: attaches to the launcher, if it wants to
//! tool: PMIX_DEBUGGER_RELEASE -----------------> launcher: PMIX_LAUNCH_DIRECTIVES, job, PMIX_LAUNCH_COMPLETE
//! ```
//!
//! The release comes from the tool's server, from the server that has started the launcher, or from a tool that is
//! attached to the launcher. In the first two cases the tool hears of the job on the connection of the release.
//!
//! The launcher's server also serves the tool on the connection that the launcher has made, as PRRTE's launchers do.
//!
//! Source: PMIx Standard, chapter on tools and debuggers, indirect launch. The launchers of PRRTE wait at the same
//! place.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Builder;
use std::time::Duration;

use modex::keys;
use modex::ptl::{ClientEnvironment, LAUNCHER_SERVER_NAME};
use modex::runtime::{self, trusted_variable};
use modex::types::codes::range::RANGE_CUSTOM;
use modex::types::{Info, Key, ProcId, Rank, Status, Value};
use modex::{
    AsStatus, AttachError, Client, EventError, GetError, GetOptions, Operation, Pending, Server, Tool, ToolDirections,
};
use nix::fcntl::{FcntlArg, fcntl};

use super::life_events::LifeEvent;
use super::spawn_request::{self, PAUSE, SpawnRefusal};

/// Variables by which a tool starts a launcher. They are not for the ranks, which are no children of the tool.
pub(super) const VARIABLES: [&str; 6] = [
    keys::LAUNCHER_RNDZ_URI.name(),
    keys::LAUNCHER_RNDZ_FILE.name(),
    keys::KEEPALIVE_PIPE.name(),
    PAUSE,
    LAUNCHER_SERVER_NAME[0],
    LAUNCHER_SERVER_NAME[1],
];

/// How long the tool may take to admit the launcher.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a server may take to tell the directives. The launcher does nothing else meanwhile.
const DIRECTIVES_TIME_MAX: Duration = Duration::from_secs(10);
/// The room for input of the tool before a rank reads it: as much as any user may have.
const INPUT_PIPE_BYTES: i32 = 1 << 20;
/// How long the launcher waits at its end for answers to its last events.
const LAST_ANSWERS_TIME_MAX: Duration = Duration::from_secs(1);

/// Why a launcher can't work for the tool that has started it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldError {
    /// No connection.
    #[error("the launcher can't reach the tool that has started it: {0}")]
    Unreachable(#[from] AttachError),
    /// No thread for the connection.
    #[error("the launcher can't start a thread that connects to its tool: {0}")]
    Thread(#[source] std::io::Error),
    /// The release would not be heard.
    #[error("the launcher can't wait for its release by a tool: {0}")]
    Deaf(#[from] EventError),
    /// Directives that are not known.
    #[error("the launcher can't learn how its tool directs the job: {0}")]
    Undirected(#[from] GetError),
    /// Directives that can't be honoured.
    #[error("the job can't start as its tool directs: {0}")]
    Directed(#[from] SpawnRefusal),
}

/// How a tool has started this launcher.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolStart {
    /// Whether the launcher waits for a tool.
    is_held: bool,
    /// The tool's address.
    address: Option<String>,
    /// The number of the descriptor of a pipe that the tool's end closes.
    keepalive: Option<String>,
    /// A file for the launcher's address.
    pub(super) file: Option<PathBuf>,
    /// The launcher's name as a spawned process. A tool knows this name from its spawn.
    pub(super) name: Option<ProcId>,
}

impl ToolStart {
    /// Reads the environment.
    pub(super) fn of_environment() -> Self {
        let text = |name: &str| trusted_variable(name).map(|value| value.to_string_lossy().into_owned());
        let address = runtime::parent_address(&runtime::environment());
        let is_held = address.is_some() || text(PAUSE).is_some_and(|value| value != "0" && value != "false");
        Self {
            is_held,
            address,
            keepalive: text(keys::KEEPALIVE_PIPE.name()),
            file: trusted_variable(keys::LAUNCHER_RNDZ_FILE.name()).map(PathBuf::from),
            name: Client::launched_as().filter(|_| is_held),
        }
    }

    /// Connects to the tool, and to the server that has started this launcher. They may be the same.
    fn connect(&self, server: &Server) -> Result<ToolConnections, AttachError> {
        let starter = ClientEnvironment::parse(runtime::environment()).ok().map(|found| found.server.address.server);
        let served = self.address.as_deref().and_then(|address| serve(server, address)).map(Arc::new);
        let builder = Tool::builder().launcher().timeout(CONNECT_TIME_MAX);
        let unserved = match (&served, &self.address, starter) {
            (Some(_), _, None) | (None, None, None) => None,
            (Some(tool), _, Some(starter)) if *tool.server() == starter => None,
            (Some(_), _, Some(_)) => {
                let variables =
                    runtime::environment().into_iter().filter(|(name, _)| name != keys::LAUNCHER_RNDZ_URI.name());
                Some(builder.env(variables).connect()?)
            }
            (None, _, Some(_)) => Some(builder.connect()?),
            (None, Some(address), None) => Some(builder.name(server.proc().clone()).address(address).connect()?),
        };
        Ok(ToolConnections { served, unserved })
    }

    /// Connects and listens for the release.
    fn attach(&self, server: &Server, hear: &(impl Fn(ToolNews) + Clone + Send + Sync + 'static)) -> Attached {
        let connections = self.connect(server)?;
        for client in connections.clients() {
            let (hear, by) = (hear.clone(), client.server().clone());
            client.on_release(move |status, tool| match status {
                Status::DEBUGGER_RELEASE => hear(ToolNews::Released { by: Some(by.clone()), tool }),
                _ => hear(ToolNews::Lost),
            })?;
            if client.is_held() {
                let server = client.server().clone();
                let log = move |error: &dyn Display| {
                    tracing::warn!(%server, %error, "the launcher can't say that it waits for a debugger");
                };
                begin(client.report_waiting(), log);
            }
        }
        Ok(connections)
    }
}

/// The connections by which the launcher knows its tool.
type Attached = Result<ToolConnections, HoldError>;

/// The connections to the tool and to the server that has started the launcher.
#[derive(Debug, Default)]
pub(super) struct ToolConnections {
    /// The tool, which the launcher's server serves on this connection.
    served: Option<Arc<Client>>,
    /// The server that has started the launcher, and a tool that the launcher's server can't serve.
    unserved: Option<Tool>,
}

impl ToolConnections {
    fn clients(&self) -> Vec<Arc<Client>> {
        let others = self.unserved.iter().flat_map(|tool| {
            let client_of = |server: &ProcId| tool.client_of(server).ok();
            tool.servers().iter().filter_map(client_of).collect::<Vec<_>>()
        });
        self.served.iter().cloned().chain(others).collect()
    }
}

/// Connects to a tool that the launcher's server can serve on that connection.
fn serve(server: &Server, address: &str) -> Option<Client> {
    let directions = ToolDirections {
        name: Some(server.proc().clone()),
        address: Some(address.to_owned()),
        time_max: Some(CONNECT_TIME_MAX),
        ..ToolDirections::default()
    };
    let served = server.serve_parent(&directions);
    served.inspect_err(|error| tracing::info!(%error, "the tool that has started this launcher must attach to it")).ok()
}

/// News about the tool.
#[derive(Debug)]
pub(super) enum ToolNews {
    /// The launcher is connected, and listens for its release; or it can't be.
    Attached(Box<Attached>),
    /// The job may start.
    Released {
        /// The server by which the release came, if it was not the launcher's own.
        by: Option<ProcId>,
        /// The tool.
        tool: Option<ProcId>,
    },
    /// A connection is lost by which the release could have come.
    Lost,
    /// The pipe from the tool is closed.
    Ended,
}

/// The launcher's relation to the tool.
#[derive(Debug, Default)]
pub(super) struct Hold {
    stage: Stage,
    connections: ToolConnections,
    /// Whether these connections are made.
    is_attached: bool,
    /// Why the launcher can't work for its tool.
    failure: Option<HoldError>,
    /// The tool that has released the launcher.
    released_by: Option<ProcId>,
    /// The server by which the release came, and by which that tool hears of the job. A tool that is attached to the
    /// launcher needs none.
    way: Option<ProcId>,
    unanswered: Unanswered,
}

/// The requests without an answer. Each has a sender, which its answer drops.
#[derive(Debug)]
struct Unanswered {
    sender: Sender<()>,
    receiver: Receiver<()>,
}

impl Default for Unanswered {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }
}

impl Unanswered {
    /// Waits for the answers.
    fn wait(self, time_max: Duration) {
        drop(self.sender);
        // It ends with an error in any case: nothing is sent.
        let _ = self.receiver.recv_timeout(time_max);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Free,
    Waiting,
    Released,
}

impl Hold {
    /// Begins to wait if a tool wants that. `hear` is called on other threads, in any order.
    pub(super) fn begin(
        start: &ToolStart,
        server: &Arc<Server>,
        hear: impl Fn(ToolNews) + Clone + Send + Sync + 'static,
    ) -> Result<Self, HoldError> {
        if let Some(number) = &start.keepalive {
            watch_pipe(number, hear.clone());
        }
        if !start.is_held {
            return Ok(Self::default());
        }
        // Tools of OpenPMIx stand still while their pipe to the launcher is full. Only a pipe has a size.
        let _ = fcntl(std::io::stdin(), FcntlArg::F_SETPIPE_SZ(INPUT_PIPE_BYTES));
        let hear_own = hear.clone();
        let own = server.register_event_handler(&[Status::DEBUGGER_RELEASE], &[], move |call| {
            hear_own(ToolNews::Released { by: None, tool: call.source.clone() });
            call.complete(Status::SUCCESS, Vec::new());
        });
        own.wait()?;
        let (start, server) = (start.clone(), Arc::clone(server));
        let attach = move || hear(ToolNews::Attached(Box::new(start.attach(&server, &hear))));
        Builder::new().name("modex-attach".to_owned()).spawn(attach).map_err(HoldError::Thread)?;
        let mut hold = Self::default();
        hold.stage = Stage::Waiting;
        Ok(hold)
    }

    /// The connections are made, or have failed. Returns whether the launcher waits now.
    pub(super) fn attached(&mut self, attached: Attached) -> bool {
        match attached {
            Ok(connections) => (self.connections, self.is_attached) = (connections, true),
            Err(error) => self.failure = Some(error),
        }
        self.is_attached && self.awaits_release()
    }

    /// Why the launcher can't work for its tool, once.
    pub(super) const fn take_failure(&mut self) -> Option<HoldError> {
        self.failure.take()
    }

    /// Whether only a tool can let the job start.
    pub(super) fn awaits_release(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Whether the job on the command line has not been started yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.stage != Stage::Free
    }

    /// The launcher may start its job.
    pub(super) fn release(&mut self, by: Option<ProcId>, tool: Option<ProcId>) {
        if self.awaits_release() {
            self.stage = Stage::Released;
            self.way = by;
            self.released_by = tool;
        }
    }

    /// Whether the job has to start now. The tool's directives come by the connections.
    pub(super) fn take_release(&mut self) -> bool {
        let is_released = self.stage == Stage::Released && self.is_attached;
        if is_released {
            self.stage = Stage::Free;
        }
        is_released
    }

    /// The tool that has released the launcher.
    pub(super) const fn released_by(&self) -> Option<&ProcId> {
        self.released_by.as_ref()
    }

    /// The tool's directives for the job: they stand in the description of the launcher's own job. A server that does
    /// not answer could have some.
    pub(super) fn directives(&self) -> Result<Vec<Info>, HoldError> {
        let mut failed = None;
        for client in self.connections.clients() {
            match directives_of(&client) {
                Ok(value) => return Ok(spawn_request::launch_directives(&value)?),
                Err(error) if error.status() == Status::ERR_NOT_FOUND => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or_else(|| Ok(Vec::new()), |error| Err(error.into()))
    }

    /// Whether the release can come from a tool that the launcher knows.
    pub(super) fn knows_tool(&self) -> bool {
        !self.connections.clients().is_empty()
    }

    /// Whether this is the tool that has started the launcher, and the launcher's server serves it.
    pub(super) fn is_tool(&self, proc: &ProcId) -> bool {
        self.connections.served.as_ref().is_some_and(|tool| tool.server() == proc)
    }

    /// Raises an event at all servers to which the launcher is connected.
    pub(super) fn tell_all(&self, event: &LifeEvent) {
        let clients = self.connections.clients();
        clients.iter().for_each(|client| self.notify(client, event.status, event.range, &event.infos));
    }

    /// Raises an event about the job in the tool, unless the tool is attached to the launcher.
    pub(super) fn tell(&self, event: &LifeEvent) {
        let Some(way) = &self.way else { return };
        let Some(client) = self.connections.clients().into_iter().find(|client| client.server() == way) else { return };
        let target = |tool: &ProcId| Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), tool.clone());
        let target = self.released_by.as_ref().map(target);
        let range = if target.is_some() { RANGE_CUSTOM } else { event.range };
        let infos: Vec<Info> = event.infos.iter().cloned().chain(target).collect();
        self.notify(&client, event.status, range, &infos);
    }

    /// The launcher goes on without the answer.
    fn notify(&self, client: &Client, status: Status, range: u8, infos: &[Info]) {
        let unanswered = self.unanswered.sender.clone();
        let log = move |error: &dyn Display| {
            // The answer drops the sender with this closure.
            let _unanswered = &unanswered;
            tracing::debug!(%status, %error, "the launcher cannot tell its tool of an event");
        };
        begin(client.notify_event(status, None, range, infos), log);
    }
}

impl Drop for Hold {
    /// The tool hears the last events before the end of its launcher. A server counts a process that leaves without a
    /// word as failed.
    fn drop(&mut self) {
        std::mem::take(&mut self.unanswered).wait(LAST_ANSWERS_TIME_MAX);
        if let Some(tool) = self.connections.unserved.take() {
            // The answer changes nothing.
            let _ = tool.finalize();
        }
    }
}

/// The directives in the description of the launcher's own job.
fn directives_of(client: &Client) -> Result<Value, GetError> {
    let proc = ProcId { namespace: client.proc().namespace.clone(), rank: Rank::Wildcard };
    let key = keys::LAUNCH_DIRECTIVES.name();
    let options = GetOptions::new().immediate().timeout(DIRECTIVES_TIME_MAX);
    let value = client.get_value(&proc, key, &options)?.into_value();
    value.map_err(|_damage| GetError::Damaged { key: key.into(), proc })
}

/// Begins an operation whose result is of no use but for the log. A server without a host for an event keeps it for the
/// handlers of its own process.
fn begin<O: Operation<Error: Display + AsStatus>>(
    operation: Pending<O>,
    log: impl Fn(&dyn Display) + Clone + Send + 'static,
) {
    let log_later = log.clone();
    let begun = operation.then(move |result| {
        if let Err(error) = result
            && error.status() != Status::ERR_NOT_SUPPORTED
        {
            log_later(&error);
        }
    });
    if let Err(error) = begun {
        log(&error);
    }
}

fn watch_pipe(number: &str, hear: impl Fn(ToolNews) + Send + 'static) {
    let watched = number.parse().map_err(std::io::Error::other).and_then(|number| {
        let pipe = runtime::open_inherited_pipe(number)?;
        runtime::watch_for_end(pipe, move || hear(ToolNews::Ended))
    });
    if let Err(error) = watched {
        tracing::warn!(number, %error, "the pipe in PMIX_KEEPALIVE_PIPE can't be watched; the launcher does not end with its tool");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_launcher_needs_its_tool_no_more_also_before_its_job_starts() {
        let mut hold = Hold::default();
        hold.stage = Stage::Waiting;
        assert!(hold.awaits_release());
        hold.release(None, None);
        assert!(!hold.awaits_release() && hold.is_waiting());
        // A release that comes before the connections are made is not lost.
        assert!(!hold.take_release() && !hold.attached(Ok(ToolConnections::default())));
        assert!(hold.take_release() && !hold.is_waiting());
    }
}
