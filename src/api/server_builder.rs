use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::gds::{StoreLimits, StoreOptions};
use crate::ptl::{ForeignClients, Interfaces, Ports, SocketAccess, TcpOptions};
use crate::runtime::{
    self, ConnectionLimits, FabricSource, Host, Prover, ServerHandle, ServerOptions, StartError, StaticPorts,
    ToolSupport, TopologyOptions,
};
use crate::server::{Capabilities, OutputSettings, ServerConfig};
use crate::shmem::BackingKind;
use crate::storage::{Provider, Storage};
use crate::types::{AsStatus, Namespace, NamespaceError, ProcId, Status};

use super::server::Server;

/// Options of a server. See [`Server::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerBuilder {
    namespace: String,
    rank: u32,
    hostname: Option<String>,
    session_tmpdir: Option<PathBuf>,
    system_tmpdir: Option<PathBuf>,
    access: SocketAccess,
    tcp: TcpOptions,
    requires_remote: bool,
    tools: ToolSupport,
    prover: Option<Arc<dyn Prover>>,
    question_prover: Option<Arc<dyn Prover>>,
    munge_credentials: Option<Arc<dyn Prover>>,
    fabric: Option<FabricSource>,
    static_ports: StaticPorts,
    storage: Storage,
    pub(super) topology: TopologyOptions,
    backing: BackingKind,
    limits: StoreLimits,
    connections: ConnectionLimits,
    core: ServerConfig,
}

impl Server {
    /// Builder of a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }
}

impl ServerBuilder {
    /// The default options.
    pub(super) fn new() -> Self {
        Self {
            namespace: "modex".to_owned(),
            rank: 0,
            hostname: None,
            session_tmpdir: None,
            system_tmpdir: None,
            access: SocketAccess::default(),
            tcp: TcpOptions::default(),
            requires_remote: false,
            tools: ToolSupport::default(),
            prover: None,
            question_prover: None,
            munge_credentials: None,
            fabric: None,
            static_ports: StaticPorts::default(),
            storage: Storage::default(),
            topology: TopologyOptions::default(),
            backing: BackingKind::Memfd,
            limits: StoreLimits::default(),
            connections: ConnectionLimits::default(),
            core: ServerConfig::default(),
        }
    }

    /// The server's own namespace; `modex` if not given. Clients of release 3.2 need one without dots.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The server's own rank; 0 if not given.
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = rank;
        self
    }

    /// The name of this node as job descriptions spell it; the kernel's name if not given.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.hostname = Some(hostname.into());
        self
    }

    /// Directory for the files of the session; the directory in `TMPDIR`, `TEMP` or `TMP`, or else `/tmp`, if not
    /// given.
    pub fn tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.session_tmpdir = Some(directory.into());
        self
    }

    /// Directory for the files of the node, which clients learn; the directory in `PMIX_SYSTEM_TMPDIR`, or else the
    /// default of [`ServerBuilder::tmpdir`], if not given.
    pub fn system_tmpdir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.system_tmpdir = Some(directory.into());
        self
    }

    /// Users that can reach the UNIX-domain socket; the server's own user if not given.
    pub fn access(mut self, access: SocketAccess) -> Self {
        self.access = access;
        self
    }

    /// Whether clients of other PMIx libraries can connect; the default is yes. They use TCP, and the server listens on
    /// the loopback interface for them. The kernel reports the user of each connection; this decides about admission,
    /// not [`ServerBuilder::access`].
    pub fn foreign_clients(mut self, clients: ForeignClients) -> Self {
        self.tcp.clients = clients;
        self
    }

    /// The ports of the TCP socket on IPv4 and on IPv6. If all are taken, the server does not start.
    pub fn tcp_ports(mut self, ipv4: Ports, ipv6: Ports) -> Self {
        (self.tcp.ipv4_ports, self.tcp.ipv6_ports) = (ipv4, ipv6);
        self
    }

    /// Opens the server to processes on other machines: it listens on the first suitable address of these interfaces
    /// instead of the loopback interface. The kernel reports the user of each process of this node. A process on
    /// another machine proves its user by munge, so a [`ServerBuilder::prover`] is needed. `is_required`: the server
    /// does not start without. Otherwise it then listens on the loopback interface, and logs the reason.
    ///
    /// The data that follow are neither encrypted nor signed. Use a network that only the site's machines can read and
    /// write.
    pub fn remote_connections(mut self, interfaces: Interfaces, is_required: bool) -> Self {
        (self.tcp.remote, self.requires_remote) = (Some(interfaces), is_required);
        self
    }

    /// Admission of tools, and the ways in which they find the server; the default admits none.
    pub fn tools(mut self, support: ToolSupport) -> Self {
        self.tools = support;
        self
    }

    /// Maker and checker of munge credentials. If it works when the server starts, the server offers foreign clients
    /// munge before the kernel's word alone. Otherwise, and without a prover, it does not.
    pub fn prover(mut self, prover: Arc<dyn Prover>) -> Self {
        self.prover = Some(prover);
        self
    }

    /// Maker of munge credentials, by which this server proves its user when it asks a server on another machine: for
    /// inventories ([`Server::ask_for_inventories`]) and for the fabric resources of a job.
    pub fn question_prover(mut self, prover: Arc<dyn Prover>) -> Self {
        self.question_prover = Some(prover);
        self
    }

    /// Place of the segments; sealed memfds if not given.
    pub fn backing(mut self, backing: BackingKind) -> Self {
        self.backing = backing;
        self
    }

    /// Storage limits of a namespace.
    pub fn store_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits of connections in memory and time.
    pub fn connection_limits(mut self, limits: ConnectionLimits) -> Self {
        self.connections = limits;
        self
    }

    /// Time limit for the host's answer to an upcall; none if not given.
    pub fn host_timeout(mut self, timeout: Duration) -> Self {
        self.core.host_timeout = Some(timeout);
        self
    }

    /// Directives for the output of all jobs: bounds of kept output, and the size of deliveries. Those of a spawn and
    /// of a job's description have precedence, and those of a pull over both.
    ///
    /// ```
    /// use modex::{LocalHost, OutputSettings, Server};
    ///
    /// let output = OutputSettings { cache_bytes_max: Some(4096), ..OutputSettings::default() };
    /// let server = Server::builder().output_settings(output).start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_settings(mut self, settings: OutputSettings) -> Self {
        self.core.output = settings;
        self
    }

    /// Lets the server answer publish, lookup and unpublish itself, for those of the three that the host does not
    /// have. Without this call they are not supported.
    ///
    /// The server keeps the data in its memory. Processes of other servers do not find it.
    ///
    /// ```
    /// use modex::types::{Info, Key, Value};
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().name_service().start(LocalHost)?;
    /// let port = Key::new("solver.port")?;
    /// server.publish(vec![Info::new(port.clone(), 4711_u32)]).wait()?;
    /// let found = server.lookup(vec![port], Vec::new()).wait()?;
    /// assert_eq!(found.results[0].value, Value::from(4711_u32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name_service(mut self) -> Self {
        self.core.own_services |= Capabilities::PUBLISH | Capabilities::LOOKUP | Capabilities::UNPUBLISH;
        self
    }

    /// Lets the server watch files for processes of its own user (`PMIX_MONITOR_FILE`), if the host has no monitor.
    /// Without this call it watches heartbeats alone.
    ///
    /// A file must grow, be accessed or be modified in each interval. Its path must be absolute. The server looks at it
    /// with its own rights, on a thread of its own.
    pub fn file_monitor(mut self) -> Self {
        self.core.watches_files = true;
        self
    }

    /// Lets the server measure the use of resources, if the host has no monitor (`PMIX_MONITOR_PROC_RESOURCE_USAGE` and
    /// its relatives). Processes, the node, its disks and its networks are measured.
    ///
    /// The figures are those of `/proc`. Without `PMIX_MONITOR_RESOURCE_RATE` the answer has one sample. With it, an
    /// event for the requester brings another sample after each period.
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().resource_monitor().start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, `PMIx_Process_monitor`.
    pub fn resource_monitor(mut self) -> Self {
        self.core.own_services |= Capabilities::MONITOR;
        self
    }

    /// Lets the server monitor its own node, also if the host has a monitor: the host gets requests about other nodes
    /// alone (`PMIX_SERVER_ENABLE_MONITORING`). Switches [`file_monitor`](Self::file_monitor) and
    /// [`resource_monitor`](Self::resource_monitor) on.
    ///
    /// The answer to a request about this node and others holds the samples of both. If the host refuses its part, the
    /// answer is that of this node, with the status `PMIX_ERR_PARTIAL_SUCCESS`. A host asks the servers of other nodes by
    /// a request of their own processes with `PMIX_MONITOR_LOCAL_ONLY`. `PMIX_MONITOR_PROXY` names the process that gets
    /// the events of a request with a period. It has to end with its job on each of these servers.
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().shared_monitoring().start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, `PMIx_Process_monitor`.
    pub fn shared_monitoring(mut self) -> Self {
        self.core.shares_monitoring = true;
        self.file_monitor().resource_monitor()
    }

    /// Lets the server make and check credentials (`PMIx_Get_credential`, `PMIx_Validate_credential`). A host's own
    /// function comes first.
    ///
    /// A credential of the type `native` is a secret of this server, while its process is connected. Whoever shows the
    /// secret is taken for that process: its user and group are those that the kernel has reported. With a prover there
    /// are credentials of the type `munge` for processes of the server's own user.
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().credentials(None).start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, chapter on security.
    pub fn credentials(mut self, munge: Option<Arc<dyn Prover>>) -> Self {
        self.core.own_services |= Capabilities::GET_CREDENTIAL | Capabilities::VALIDATE_CREDENTIAL;
        self.munge_credentials = munge;
        self
    }

    /// Lets the server answer for a fabric, as the scheduler's server does (`PMIx_Fabric_register`,
    /// `PMIx_Fabric_update`). A host's own function comes first. An update reads the description again.
    ///
    /// ```
    /// use modex::{FabricSource, LocalHost, Server};
    ///
    /// let source = FabricSource::parse("test:nodes:5;plane:d:3")?;
    /// let server = Server::builder().fabric(source).start(LocalHost)?;
    /// let fabric = server.fabric().ok_or("no fabric")?;
    /// let plane = fabric.planes().first().ok_or("no plane")?;
    /// assert_eq!((plane.device_count(), plane.cost(0, 4)), (5, Some(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, "Fabric Support Definitions".
    pub fn fabric(mut self, source: FabricSource) -> Self {
        self.core.own_services |= Capabilities::FABRIC_REGISTER | Capabilities::FABRIC_UPDATE;
        self.fabric = Some(source);
        self
    }

    /// Lets the server hand out ports to jobs that ask for endpoints of the type tcp or udp in their setup
    /// (`PMIX_ALLOC_FABRIC`). They come back when the job is deregistered.
    pub fn static_ports(mut self, ports: StaticPorts) -> Self {
        self.static_ports = ports;
        self
    }

    /// Lets the server answer queries about storage (`PMIX_QUERY_STORAGE_LIST` and its relatives) that the host leaves.
    /// Further calls add providers; the first one that knows a value decides.
    ///
    /// A provider may wait for a file system. Each request has a thread of its own.
    ///
    /// ```
    /// use modex::storage_systems::MountTable;
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().storage(MountTable::new()).start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, "Storage Support Definitions".
    pub fn storage(mut self, provider: impl Provider + 'static) -> Self {
        self.core.answers_storage = true;
        self.storage.add(provider);
        self
    }

    /// Lets processes of the server's user stage, move and cache files by directives of `PMIx_Job_control`, with the
    /// providers of [`Self::storage`]. Without this call a server with storage answers queries alone, and changes no
    /// file. Without a provider the server does not start.
    ///
    /// ```
    /// use modex::storage_systems::MountTable;
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().storage(MountTable::new()).file_staging().start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn file_staging(mut self) -> Self {
        self.core.stages_files = true;
        self
    }

    /// Requests the data of a process of another node once at a time, whatever the key. PRRTE up to 4.1 needs this: it
    /// gives the first answer to all open requests for a process. A request for a key that never comes then delays
    /// those for other keys of the process.
    ///
    /// ```
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().one_fetch_per_process().start(LocalHost)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, "Server-Specific Interfaces" (`pmix_server_dmodex_req_fn_t`).
    pub fn one_fetch_per_process(mut self) -> Self {
        self.core.one_fetch_per_process = true;
        self
    }

    /// Starts the server. Clients can connect when this returns.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn start(self, host: impl Host) -> Result<Server, BuildError> {
        self.start_shared(Arc::new(host))
    }

    /// As [`ServerBuilder::start`], for a host with other owners.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn start_shared(self, host: Arc<dyn Host>) -> Result<Server, BuildError> {
        let server = ProcId::new(Namespace::new(&self.namespace)?, self.rank);
        let hostname = self.hostname.unwrap_or_else(runtime::hostname);
        if hostname.is_empty() || hostname.contains(',') {
            return Err(BuildError::Hostname { name: hostname });
        }
        if self.core.stages_files && self.storage.is_empty() {
            return Err(BuildError::NoStorage);
        }
        let session_tmpdir = self.session_tmpdir.unwrap_or_else(runtime::temporary_directory);
        let store = StoreOptions {
            backing: self.backing,
            directory: Some(session_tmpdir.clone()),
            limits: self.limits,
            ..StoreOptions::new(format!("{}.{}", server.namespace, self.rank), hostname.as_str())
        };
        let options = ServerOptions {
            server,
            hostname,
            session_tmpdir,
            system_tmpdir: self.system_tmpdir.unwrap_or_else(runtime::system_directory),
            access: self.access,
            tcp: self.tcp,
            requires_remote: self.requires_remote,
            tools: self.tools,
            prover: self.prover,
            question_prover: self.question_prover,
            munge_credentials: self.munge_credentials,
            fabric: self.fabric,
            static_ports: self.static_ports,
            storage: self.storage,
            topology: self.topology,
            connections: self.connections,
            core: self.core,
            store,
        };
        Ok(Server { handle: ServerHandle::start(options, host)? })
    }
}

/// Reason of a failed start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The server's own namespace is invalid.
    #[error("the server can't have that namespace: {0}")]
    Namespace(#[from] NamespaceError),
    /// The node's name is empty, or would look like two names in a list.
    #[error(
        "the server's node can't be called {name:?}: give one name without a comma, with ServerBuilder::hostname or PMIX_HOSTNAME"
    )]
    Hostname {
        /// The name.
        name: String,
    },
    /// Each directive about files would fail.
    #[error("the server can't stage files without storage; add a provider with ServerBuilder::storage")]
    NoStorage,
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl AsStatus for BuildError {
    fn status(&self) -> Status {
        match self {
            Self::Namespace(_) | Self::Hostname { .. } | Self::Start(StartError::Directory { .. }) => {
                Status::ERR_BAD_PARAM
            }
            Self::Start(StartError::Fabric(error)) => error.status(),
            Self::NoStorage | Self::Start(StartError::RemoteUnproven(_) | StartError::RemoteWithoutTcp) => {
                Status::ERR_NOT_SUPPORTED
            }
            Self::Start(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::LocalHost;

    /// An empty name, or one with a comma, is ambiguous in lists of names.
    #[test]
    fn a_node_whose_name_is_none_or_two_has_no_server() {
        for name in ["", "n0,n1"] {
            let refused = Server::builder().hostname(name).start(LocalHost).err();
            let error = refused.unwrap_or_else(|| panic!("a server on {name:?}"));
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }

    /// The server started, and refused each directive.
    #[test]
    fn a_server_without_storage_stages_no_files() {
        let error = Server::builder().file_staging().start(LocalHost).err().unwrap();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
    }

    /// A server that other machines must reach starts for them or not at all. One that they may reach starts anyway.
    #[test]
    fn a_wish_for_other_machines_is_met_or_told() {
        let directory = tempfile::tempdir().unwrap();
        let start = |clients, is_required| {
            let builder = Server::builder().tmpdir(directory.path()).foreign_clients(clients);
            builder.remote_connections(Interfaces::default(), is_required).start(LocalHost)
        };
        for clients in [ForeignClients::Welcome, ForeignClients::Refused] {
            let error = start(clients, true).err().unwrap();
            assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
            let server = start(clients, false).unwrap();
            assert_eq!(
                server.uri().contains("tcp4://127.0.0.1"),
                clients == ForeignClients::Welcome,
                "{}",
                server.uri()
            );
        }
    }
}
