use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::client::CallError;
use crate::runtime::{self, SystemServer, ToolDirections, ToolError};
use crate::types::{AsStatus, Info, Namespace, ProcId, Status};

use super::client::Client;
use super::server::Server;
use super::server_builder::ServerBuilder;
use super::{ToolAdmission, ToolSupport};

/// A process that chooses its servers itself, of this or another library: a debugger, a monitor, a launcher.
///
/// A tool keeps one name with all its servers. Requests go to one of them, the primary one. [`Tool::client`] has all
/// functions for them: queries, events, forwarded output, spawn, job control. The tool's namespace holds the tool
/// alone.
///
/// ```no_run
/// use modex::Tool;
///
/// let tool = Tool::builder().pid(4711).connect()?;
/// let jobs = tool.client()?.query(Vec::new()).wait()?;
/// tool.finalize()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: PMIx Standard, "Tools and Debuggers".
#[derive(Debug)]
pub struct Tool {
    proc: ProcId,
    is_launcher: bool,
    environment: Option<Vec<(OsString, OsString)>>,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    primary: Option<Arc<Client>>,
    attached: Vec<Arc<Client>>,
}

/// Options of a tool's first connection; see [`ToolDirections`] for their precedence. See [`Tool::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ToolBuilder {
    directions: ToolDirections,
    is_alone: bool,
    is_optional: bool,
    environment: Option<Vec<(OsString, OsString)>>,
}

/// Reason of a tool's failed operation on its servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ToolError),
    /// The tool has no connection to that server.
    #[error("this tool is not attached to {server}; attach it first")]
    NotAttached {
        /// The server.
        server: ProcId,
    },
    /// The server has not come within the time limit.
    #[error("this tool was not attached to {server} within the time limit")]
    TimedOut {
        /// The server.
        server: ProcId,
    },
    /// There is no primary server: the tool left it, or never had one.
    #[error("this tool has no primary server; attach it to one, or choose one of those it has")]
    NoPrimary,
    /// When there are no descriptors left.
    #[error("this process can't be a tool without a server: {}", .0)]
    Alone(std::io::Error),
}

impl AsStatus for AttachError {
    fn status(&self) -> Status {
        match self {
            Self::Connect(error) => error.status(),
            Self::NotAttached { .. } => Status::ERR_NOT_FOUND,
            Self::TimedOut { .. } => Status::ERR_TIMEOUT,
            Self::NoPrimary => Status::ERR_UNREACH,
            Self::Alone(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

impl Tool {
    /// Builder of a tool. The default server is the one that started this process, else the first one found that admits
    /// it.
    pub fn builder() -> ToolBuilder {
        ToolBuilder::default()
    }

    /// This tool's name.
    #[must_use]
    pub const fn proc(&self) -> &ProcId {
        &self.proc
    }

    /// Whether requests go to a server.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client().is_ok()
    }

    /// The connection to the primary server, with all functions of a client. It stays with that server when another
    /// becomes primary.
    ///
    /// # Errors
    /// [`AttachError::NoPrimary`], also after the end of the primary server.
    pub fn client(&self) -> Result<Arc<Client>, AttachError> {
        self.forget_lost();
        self.connections.lock().primary.clone().ok_or(AttachError::NoPrimary)
    }

    /// The connection to a server that this tool is attached to.
    ///
    /// # Errors
    /// [`AttachError::NotAttached`].
    pub fn client_of(&self, server: &ProcId) -> Result<Arc<Client>, AttachError> {
        self.forget_lost();
        let found = self.connections.lock().roster().find(server);
        found.ok_or_else(|| AttachError::NotAttached { server: server.clone() })
    }

    /// The attached servers: the primary one, then the others, the oldest first. A server that has ended is not among
    /// them.
    #[must_use]
    pub fn servers(&self) -> Vec<ProcId> {
        self.forget_lost();
        self.connections.lock().roster().servers()
    }

    /// Attaches to one more server and returns its name. A named server that is attached already is a success; a search
    /// leaves out attached servers. The server becomes the primary one if there is none. The tool's name in the
    /// directions is ignored.
    ///
    /// # Errors
    /// [`AttachError::Connect`].
    pub fn attach(&self, directions: &ToolDirections) -> Result<ProcId, AttachError> {
        let name = Some(self.proc.clone());
        let directions =
            ToolDirections { name, is_launcher: self.is_launcher || directions.is_launcher, ..directions.clone() };
        let find = |server: &ProcId| self.client_of(server).ok();
        let add = |client| {
            let client = Arc::new(client);
            self.connections.lock().roster().add(Arc::clone(&client), false);
            client
        };
        let environment = environment(self.environment.as_ref());
        let client = Self::find_or_connect(&directions, &environment, &self.servers(), find, add)?;
        Ok(client.server().clone())
    }

    /// The connection to the server of the directions. `find` has the connection of an attached server, and `add` keeps
    /// a new one. A search leaves out the servers that are `attached`.
    ///
    /// # Errors
    /// [`ToolError`].
    #[doc(hidden)]
    pub fn find_or_connect<C>(
        directions: &ToolDirections,
        environment: &[(OsString, OsString)],
        attached: &[ProcId],
        find: impl FnOnce(&ProcId) -> Option<C>,
        add: impl FnOnce(Client) -> C,
    ) -> Result<C, ToolError> {
        if let Ok(Some(server)) = runtime::locate(directions, environment)
            && let Some(found) = find(&server)
        {
            directions.refuse_required("the tool is attached to that server already")?;
            return Ok(found);
        }
        Ok(add(Client::of(Arc::new(runtime::connect_tool(directions, environment, attached)?))))
    }

    /// Chooses the primary server. Handlers and pulls of output stay with their connections.
    ///
    /// # Errors
    /// [`AttachError::NotAttached`].
    pub fn set_primary(&self, server: &ProcId) -> Result<(), AttachError> {
        self.forget_lost();
        let is_there = self.connections.lock().roster().choose(server);
        is_there.then_some(()).ok_or_else(|| AttachError::NotAttached { server: server.clone() })
    }

    /// As [`Tool::set_primary`], and waits until the server is there: another thread attaches this tool to it, or it
    /// leaves a rendezvous file under its namespace. A launcher that has attached to this tool's server leaves such a
    /// file. Other servers of that namespace are not attached. Without a time limit the wait has no end.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use modex::types::{Namespace, ProcId};
    /// let tool = modex::Tool::builder().alone().connect()?;
    /// let launcher = ProcId::new(Namespace::new("launcher-4711")?, 0);
    /// tool.wait_for_primary(&launcher, Some(Duration::from_secs(10)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError::TimedOut`].
    pub fn wait_for_primary(&self, server: &ProcId, time_max: Option<Duration>) -> Result<(), AttachError> {
        let by_namespace = ToolDirections { namespace: Some(server.namespace.clone()), ..ToolDirections::default() };
        let environment = environment(self.environment.as_ref());
        let is_located = || matches!(runtime::locate(&by_namespace, &environment), Ok(Some(found)) if found == *server);
        let attach = |time_max| self.attach(&ToolDirections { time_max, ..by_namespace.clone() }).is_ok();
        let is_found = runtime::wait_for_server(time_max, |look| {
            let is_there = self.set_primary(server).is_ok();
            let is_attached = !is_there && look.may_search && is_located() && attach(look.left);
            Ok::<_, AttachError>(is_there || (is_attached && self.set_primary(server).is_ok()))
        })?;
        is_found.then_some(()).ok_or_else(|| AttachError::TimedOut { server: server.clone() })
    }

    /// Takes servers that have ended out of the list.
    fn forget_lost(&self) {
        let attached = self.connections.lock().attached.clone();
        // The reading of their last messages may take a while, so it needs no lock.
        for lost in attached.iter().filter(|client| client.has_lost_server()) {
            self.connections.lock().roster().remove_this(lost, None);
        }
    }

    /// Leaves a server. If it was the primary one, there is none until another is chosen.
    ///
    /// # Errors
    /// [`AttachError::NotAttached`].
    pub fn disconnect(&self, server: &ProcId) -> Result<(), AttachError> {
        let left = self.connections.lock().roster().remove(server, None);
        let left = left.ok_or_else(|| AttachError::NotAttached { server: server.clone() })?;
        // The server's answer does not matter: the server is left in any case.
        let _ = left.leave();
        Ok(())
    }

    /// Builder of a server inside this tool, under the tool's name: for a tool that launches processes, or that other
    /// tools attach to. It admits tools that bring a name.
    pub fn server_builder(&self) -> ServerBuilder {
        let tools = ToolSupport { admission: ToolAdmission::Named, ..ToolSupport::default() };
        let rank = self.proc.rank.process().unwrap_or_default();
        Server::builder().namespace(self.proc.namespace.as_str()).rank(rank).tools(tools)
    }

    /// Leaves all servers.
    ///
    /// # Errors
    /// [`CallError`] when the primary server refused or took too long; the connections are closed all the same.
    pub fn finalize(self) -> Result<(), CallError> {
        let Connections { primary, attached } = self.connections.into_inner();
        for other in &attached {
            if primary.as_ref().is_none_or(|primary| !Arc::ptr_eq(primary, other)) {
                let _ = other.leave();
            }
        }
        primary.map_or(Ok(()), |primary| primary.leave())
    }
}

impl Connections {
    const fn roster(&mut self) -> Roster<'_, Client> {
        Roster { primary: &mut self.primary, attached: &mut self.attached }
    }
}

impl ToolBuilder {
    /// Sets all directions.
    pub fn directions(mut self, directions: ToolDirections) -> Self {
        self.directions = directions;
        self
    }

    /// The tool's name; without one the server assigns a name.
    pub fn name(mut self, proc: ProcId) -> Self {
        self.directions.name = Some(proc);
        self
    }

    /// The tool starts jobs.
    pub fn launcher(mut self) -> Self {
        self.directions.is_launcher = true;
        self
    }

    /// The server of this rendezvous file, or of a copy of it.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.directions.file = Some(path.into());
        self
    }

    /// The server at this address (`NAMESPACE.RANK;tcp4://ADDRESS:PORT`, or `file:` and a path), or the server to which
    /// the parameter `modex_server_NAME` gives this name.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.directions.address = Some(address.into());
        self
    }

    /// The server with this process number.
    pub fn pid(mut self, pid: u32) -> Self {
        self.directions.pid = Some(pid);
        self
    }

    /// The server with this namespace.
    pub fn server_namespace(mut self, namespace: Namespace) -> Self {
        self.directions.namespace = Some(namespace);
        self
    }

    /// One of the node's servers.
    pub fn system(mut self, system: SystemServer) -> Self {
        self.directions.system = system;
        self
    }

    /// Directory of the session's servers for their files.
    pub fn session_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directions.session_tmpdir = Some(directory.into());
        self
    }

    /// Directory of the node's servers for their files.
    pub fn system_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directions.system_tmpdir = Some(directory.into());
        self
    }

    /// Repeats the search for a missing server `count` times, each after `delay`.
    pub fn retries(mut self, count: u32, delay: Duration) -> Self {
        self.directions.retries = count;
        self.directions.retry_delay = delay;
        self
    }

    /// The tool may take this long to find its server and be admitted, with all retries. Without a limit a server has
    /// 20 seconds to admit the tool.
    pub const fn timeout(mut self, time_max: Duration) -> Self {
        self.directions.time_max = Some(time_max);
        self
    }

    /// An info for the server's host about the tool. A required one is refused if the server's host has no function for
    /// tools, or if the tool has no server.
    pub fn info(mut self, info: Info) -> Self {
        self.directions.info.push(info);
        self
    }

    /// A missing server is no error: the tool then has none.
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Search for no server.
    pub fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// Takes these environment variables instead of the process's own.
    pub fn env<N: Into<OsString>, V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = Some(variables.collect());
        self
    }

    /// Connects. If another tool started this one (`PMIX_LAUNCHER_RNDZ_URI` holds its address), this tool is attached
    /// to that one as well; its primary server is its own.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn connect(self) -> Result<Tool, AttachError> {
        let Self { directions, is_alone, is_optional, environment: variables } = self;
        let environment = environment(variables.as_ref());
        let connected = if is_alone { None } else { Some(runtime::connect_tool(&directions, &environment, &[])) };
        let primary = match connected {
            Some(Ok(session)) => Some(Arc::new(Client::of(Arc::new(session)))),
            Some(Err(error)) if !is_optional => return Err(error.into()),
            Some(Err(_)) | None => {
                directions.refuse_required("the tool has no server")?;
                None
            }
        };
        let proc = match (&primary, &directions.name) {
            (Some(client), _) => client.proc().clone(),
            (None, Some(name)) => name.clone(),
            (None, None) => runtime::alone().map_err(AttachError::Alone)?.proc().clone(),
        };
        let attached = primary.iter().cloned().collect();
        let connections = Mutex::new(Connections { primary, attached });
        let tool = Tool { proc, is_launcher: directions.is_launcher, environment: variables, connections };
        if let Some(parent) = runtime::parent_address(&environment).filter(|_| !is_alone) {
            match tool.attach(&ToolDirections { address: Some(parent), ..ToolDirections::default() }) {
                Err(error) if directions.is_launcher => return Err(error),
                Err(error) => tracing::warn!(%error, "the tool that started this one can't be reached"),
                Ok(_) => {}
            }
        }
        Ok(tool)
    }
}

fn environment(given: Option<&Vec<(OsString, OsString)>>) -> Vec<(OsString, OsString)> {
    given.cloned().unwrap_or_else(runtime::environment)
}

/// A tool's connections, and the primary one among them. The owner of the references holds the lock.
pub struct Roster<'a, C> {
    /// One of the attached connections, or one without a server.
    pub primary: &'a mut Option<Arc<C>>,
    /// The oldest first.
    pub attached: &'a mut Vec<Arc<C>>,
}

impl<C: AsRef<Client>> Roster<'_, C> {
    /// The connection to a server.
    pub fn find(&self, server: &ProcId) -> Option<Arc<C>> {
        self.attached.iter().find(|attached| attached.as_ref().as_ref().server() == server).cloned()
    }

    /// All servers, the primary one first.
    pub fn servers(&self) -> Vec<ProcId> {
        let is_primary = |other: &&Arc<C>| self.primary.iter().any(|primary| Arc::ptr_eq(primary, other));
        let primary = self.attached.iter().filter(is_primary);
        let others = self.attached.iter().filter(|other| !is_primary(other));
        primary.chain(others).map(|client| client.as_ref().as_ref().server().clone()).collect()
    }

    /// Adds a connection. It becomes the primary one if `is_primary`, or if there is none with a server.
    pub fn add(&mut self, client: Arc<C>, is_primary: bool) {
        let has_server = self.primary.as_ref().is_some_and(|primary| !primary.as_ref().as_ref().is_alone());
        if is_primary || !has_server {
            *self.primary = Some(Arc::clone(&client));
        }
        self.attached.push(client);
    }

    /// Makes a server the primary one. Returns whether it is attached.
    pub fn choose(&mut self, server: &ProcId) -> bool {
        let found = self.find(server);
        let is_there = found.is_some();
        if is_there {
            *self.primary = found;
        }
        is_there
    }

    /// Removes a connection, for the caller to leave it; if it was the primary one, `instead` takes its place.
    pub fn remove(&mut self, server: &ProcId, instead: Option<Arc<C>>) -> Option<Arc<C>> {
        let found = self.find(server)?;
        self.remove_this(&found, instead);
        Some(found)
    }

    /// Removes this very connection, if it is there; `instead` takes its place as the primary one.
    pub fn remove_this(&mut self, connection: &Arc<C>, instead: Option<Arc<C>>) {
        self.attached.retain(|attached| !Arc::ptr_eq(attached, connection));
        if self.primary.as_ref().is_some_and(|primary| Arc::ptr_eq(primary, connection)) {
            *self.primary = instead;
        }
    }
}

impl AsRef<Self> for Client {
    fn as_ref(&self) -> &Self {
        self
    }
}
