use std::io;
pub(in crate::runtime) mod tool_support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;
use parking_lot::Mutex;

use self::tool_support::ToolSupport;
use super::cleaner::Cleaner;
use super::connection_limits::ConnectionLimits;
use super::connections::Connections;
use super::decoder::Decoder;
use super::duplicate_rank_check::DuplicateRankCheck;
use super::fabric_desk::KnownFabric;
use super::fabric_source::{FabricSource, FabricSourceError};
use super::file_looks::FileLooks;
use super::host::Host;
use super::host_thread::HostThread;
use super::job_setup::{FabricGrants, JobSetup, StaticPorts};
use super::kernel_inventory::kernel_inventory;
use super::lifecycle_observer::LifecycleObserver;
use super::listeners::Listeners;
use super::loop_messages::{LoopMessage, LoopSender};
use super::name_desk::NameDesk;
use super::node_inventory::NodeInventory;
use super::own_process::OwnProcess;
use super::own_process::events::{FIRST_HANDLER, HostProcess};
use super::own_process::output::OwnPulls;
use super::own_services::OwnServices;
use super::pmi::{PmiChannel, PmiRefusal};
use super::poller::{Pollers, Waker};
use super::proofs::{Proofs, TRIAL_TIME_MAX};
use super::request_quota::RequestQuota;
use super::server_loop::{Calls, ServerLoop};
use super::storage_desk::BoundedStorage;
use super::topology::{NodeTopology, TopologyDesk, TopologyOptions};
use super::work::{LongestTurn, Work, WorkMeter, WorkRecord};
use crate::fabric::FabricHandle;
use crate::gds::{Store, StoreOptions};
use crate::os_error_hint::{explain, explain_start};
use crate::ptl::rendezvous::{Files, RendezvousError};
use crate::ptl::{ForeignClients, ListenError, ModexAddress, ServerEnvironment, SocketAccess, TcpOptions};
use crate::runtime::shared::clock::{Clock, calendar_time};
use crate::runtime::shared::data_form::DataForm;
use crate::runtime::shared::event_error::Stopped;
use crate::runtime::shared::events::EventHub;
use crate::runtime::shared::launcher_end::{LauncherEnd, ParentConnection};
use crate::runtime::shared::local::environment;
use crate::runtime::shared::parameters::{LOSS_WINDOW, parameter_seconds};
use crate::runtime::shared::prover::{ProofError, Prover};
use crate::runtime::shared::threads::is_host_thread;
use crate::server::{Capabilities, Contact, Limits, OpenOperation, ServerConfig, ServerCore};
use crate::shmem::SegmentOptions;
use crate::storage::Storage;
use crate::topo::inventory::{Inventories, StoredInventory};
use crate::types::{Namespace, ProcId, Text};

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The server's own name.
    pub server: ProcId,
    /// Its name for the node.
    pub hostname: String,
    /// Directory for the files of the session; the socket's directory is made in it.
    pub session_tmpdir: PathBuf,
    /// Directory for the files of the node.
    pub system_tmpdir: PathBuf,
    /// The users who can reach the socket.
    pub access: SocketAccess,
    /// Whether and where clients of other PMIx libraries and tools can connect over TCP.
    pub tcp: TcpOptions,
    /// Whether the server does not start without connections from other machines that the TCP options name.
    pub requires_remote: bool,
    /// The tools that may connect, and the files by which they find the server.
    pub tools: ToolSupport,
    /// Checks credentials of munge. If it works at the server's start, clients may prove themselves by munge.
    /// Otherwise, or without a prover, the kernel's facts identify them.
    pub prover: Option<Arc<dyn Prover>>,
    /// Makes credentials of munge for questions to servers on other machines.
    pub question_prover: Option<Arc<dyn Prover>>,
    /// Makes and checks credentials of munge for the server's own service.
    pub munge_credentials: Option<Arc<dyn Prover>>,
    /// The fabric for which the server answers, as the scheduler's.
    pub fabric: Option<FabricSource>,
    /// Ports for jobs that ask for some.
    pub static_ports: StaticPorts,
    /// The providers of storage for which the server answers queries.
    pub storage: Storage,
    /// The source of the node's topology, and its sharing.
    pub topology: TopologyOptions,
    /// Limits of what connections can hold.
    pub connections: ConnectionLimits,
    /// Limits and times of the core. The host's capabilities replace these.
    pub core: ServerConfig,
    /// Options of the segments.
    pub store: StoreOptions,
}

impl ServerOptions {
    fn bounded_storage(&self) -> BoundedStorage {
        let (storage, bytes_max) = (self.storage.clone(), self.core.limits.query_bytes_max);
        BoundedStorage { storage, bytes_max, stages_files: self.core.stages_files }
    }

    fn node_topology(&self, clock: Clock, loop_sender: LoopSender) -> NodeTopology {
        let segment = SegmentOptions {
            backing: self.store.backing,
            directory: self.store.directory.clone(),
            ..SegmentOptions::new("", self.store.owner.clone())
        };
        NodeTopology::new(self.topology.clone(), segment, clock, loop_sender)
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The socket could not be made.
    #[error("the server has no socket: {0}")]
    Listen(#[from] ListenError),
    /// The server has nothing to wait with.
    #[error("the server can't create its epoll instance: {}", explain(&(*.0).into()))]
    Poll(#[from] Errno),
    /// The file for tools could not be written.
    #[error("the server can't publish its address for tools: {0}")]
    Rendezvous(#[from] RendezvousError),
    /// The thread could not be started.
    #[error("the server's thread can't be started: {}", explain_start(.0))]
    Thread(#[source] io::Error),
    /// TCP is off, and the host requires connections from other machines.
    #[error("connections from other machines need TCP, which is turned off for IPv4 and IPv6")]
    RemoteWithoutTcp,
    /// No process on another machine could prove its user.
    #[error("connections from other machines need munge, by which users prove themselves; {0}")]
    RemoteUnproven(#[source] ProofError),
    /// The fabric could not be read.
    #[error(transparent)]
    Fabric(#[from] Box<FabricSourceError>),
    /// Clients could not get the name of a directory.
    #[error("{path:?} is not UTF-8 and can't be put into the environment of clients; choose another directory")]
    Directory {
        /// The directory.
        path: PathBuf,
    },
}

/// A running server. Dropping it ends it: connections are closed, the socket and its directory removed.
pub struct ServerHandle {
    loop_sender: LoopSender,
    own: Arc<OwnProcess>,
    pub(super) environment: ServerEnvironment,
    /// The files by which tools find the server.
    files: Mutex<Files>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the host's thread has no more jobs.
    drained: Receiver<()>,
    topology: Arc<NodeTopology>,
    fabric: Option<KnownFabric>,
    node_inventory: NodeInventory,
    question_prover: Option<Arc<dyn Prover>>,
    jobs: Arc<JobSetup>,
    work: WorkRecord,
    /// A forked child has no thread to wait for.
    creator_pid: u32,
}

impl ServerHandle {
    /// Makes the socket and starts the server's thread. Clients can connect when this returns.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: ServerOptions, host: Arc<dyn Host>) -> Result<Self, StartError> {
        let grants = grants_of(&options)?;
        let pollers = Pollers::new(ServerLoop::NEWCOMERS)?;
        let waker = Waker::new(&pollers.main, ServerLoop::WAKER)?;
        let (loop_sender, receiver) = LoopSender::new(waker.clone());
        let clock = Clock::start();
        let (proofs, listeners) = open(&options, loop_sender.clone(), clock)?;
        let server = options.server.clone();
        let address = ModexAddress { server, path: listeners.path().to_owned(), tcp: listeners.tcp_address() };
        let (files, tools) = (options.tools.announce(&options, &address)?, options.tools.policy(&options));
        let topology = Arc::new(options.node_topology(clock, loop_sender.clone()));
        let node_inventory = NodeInventory::new(&options.hostname, &topology, &options.core.inventories);
        let given = (options.munge_credentials.clone(), Arc::clone(&grants), options.bounded_storage());
        let ServerOptions { hostname, session_tmpdir, system_tmpdir, question_prover, .. } = options;
        let ServerOptions { connections, core, store, .. } = options;
        listeners.watch(&pollers.newcomers)?;
        // The address is also passed on as text.
        text(listeners.path().to_owned())?;
        let directories = (text(session_tmpdir)?, text(system_tmpdir)?);
        let environment = environment_of(address, directories, hostname, proofs.is_some());
        let server = environment.address.server.clone();
        let events = EventHub::new(server.clone(), FIRST_HANDLER, clock, Box::new(HostProcess(loop_sender.clone())));
        let ((running, drained), pulls) = (bounded(0), Arc::new(OwnPulls::default()));
        let core = ServerConfig { tools, answers_topology: topology.is_for_clients(), ..core };
        let core = complete(core, &grants, &*host, &environment);
        let (services, peers_max) = (core.own_services, core.limits.peers_max);
        let (called, heard) = ((Arc::clone(&host), loop_sender.clone()), (Arc::clone(&events), Arc::clone(&pulls)));
        let own = Arc::new(OwnProcess::new(called, heard, &environment, &core));
        let (work, decoder) = (WorkRecord::default(), Decoder::new(loop_sender.clone(), clock));
        let server_loop = ServerLoop {
            meter: WorkMeter::new(work.clone()),
            core: ServerCore::new(core, Store::new(store)),
            lifecycle_observer: LifecycleObserver::new(Arc::clone(&host)),
            duplicate_rank_check: DuplicateRankCheck::new(loop_sender.clone()),
            file_looks: FileLooks::new(loop_sender.clone()),
            host: HostThread::start(Arc::clone(&host), loop_sender.clone(), running).map_err(StartError::Thread)?,
            clock,
            poller: Arc::clone(&pollers.main),
            waker,
            listeners,
            messages: receiver,
            connections: Connections::new(server.clone(), connections, peers_max, pollers, proofs, decoder),
            calls: Calls::default(),
            is_ending: false,
            wakes_at: None,
            events: Arc::clone(&events),
            own_pulls: Arc::clone(&pulls),
            cleaner: Cleaner::default(),
            request_quota: RequestQuota::new(connections.request_quota()),
            topology: TopologyDesk::open(Arc::clone(&topology)),
            own_services: OwnServices::new(services, (&loop_sender, clock), (&server, &node_inventory), given),
            names: services.contains(Capabilities::PUBLISH).then(|| NameDesk::new(server, geteuid().as_raw())),
        };
        Ok(Self {
            thread: Mutex::new(Some(server_loop.start(&loop_sender).map_err(StartError::Thread)?)),
            loop_sender,
            environment,
            files: Mutex::new(files),
            drained,
            topology,
            fabric: grants.fabric().cloned(),
            jobs: Arc::new(JobSetup::new(Arc::clone(&own), grants)),
            node_inventory,
            question_prover,
            own,
            work,
            creator_pid: process::id(),
        })
    }

    /// The server's own process, as a requester.
    #[must_use]
    pub const fn own_process(&self) -> &Arc<OwnProcess> {
        &self.own
    }

    /// The topology of this node.
    #[must_use]
    pub const fn topology(&self) -> &Arc<NodeTopology> {
        &self.topology
    }

    /// The newest revision of the fabric for which this server answers.
    #[must_use]
    pub fn fabric(&self) -> Option<FabricHandle> {
        self.fabric.as_ref().map(KnownFabric::newest)
    }

    /// Makes credentials for questions to servers on other machines.
    #[must_use]
    pub const fn question_prover(&self) -> Option<&Arc<dyn Prover>> {
        self.question_prover.as_ref()
    }

    /// The inventory of this node.
    #[must_use]
    pub const fn node_inventory(&self) -> &NodeInventory {
        &self.node_inventory
    }

    /// The inventories that were delivered last.
    #[must_use]
    pub fn inventories(&self) -> Arc<Inventories> {
        self.node_inventory.delivered()
    }

    /// The setup of jobs.
    #[must_use]
    pub const fn jobs(&self) -> &Arc<JobSetup> {
        &self.jobs
    }

    /// The work of the server's thread so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work.read()
    }

    /// Takes the longest turn. The record starts again with the next turn.
    pub fn take_longest_turn(&self) -> Option<LongestTurn> {
        self.work.take_longest()
    }

    /// The operations that wait, oldest first.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn open_operations(&self) -> Result<Vec<OpenOperation>, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::ListOperations(sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// The number of requests of each connected rank.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn request_counts(&self) -> Result<BTreeMap<ProcId, u64>, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::CountRequests(sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// The most bytes that wait for one of the clients that get output.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn unread_output_bytes(&self) -> Result<usize, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::MeasureOutput(sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// The form of data for the processes of a namespace. `None` if none is connected.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn data_form(&self, namespace: &Namespace) -> Result<Option<DataForm>, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::FindDataForm(namespace.clone(), sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// A channel for this process's requests to a launcher that is connected to this server. `None`: it is not
    /// connected, or does not serve this process there, as `modex run`.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn open_launcher(&self, launcher: &ProcId) -> Result<Option<LauncherEnd>, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::OpenLauncher(launcher.clone(), sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Serves the tool that started this process, on this process's connection to it. Returns a channel for requests to
    /// the tool, or `None` if the tool can't be served.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn serve_parent(&self, connection: ParentConnection) -> Result<Option<LauncherEnd>, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::ServeParent(Box::new(connection), sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Serves the connection of a rank that has started.
    ///
    /// # Errors
    /// [`PmiRefusal`], within [`Stopped`].
    pub fn serve_pmi(&self, channel: PmiChannel, pid: u32) -> Result<Result<(), PmiRefusal>, Stopped> {
        let (sender, answer) = bounded(1);
        self.loop_sender.send(LoopMessage::ServePmi(channel.into_entry(pid), sender)).map_err(|_| Stopped)?;
        answer.recv().map_err(|_| Stopped)
    }

    /// The contents of the clients' environment.
    #[must_use]
    pub const fn environment(&self) -> &ServerEnvironment {
        &self.environment
    }

    /// Ends the server; pending calls get an error. Later calls do nothing.
    pub fn close(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        if process::id() != self.creator_pid {
            return;
        }
        // Tools must not find a server that is about to end.
        drop(std::mem::take(&mut *self.files.lock()));
        self.topology.abandon();
        let _ = self.loop_sender.send(LoopMessage::Shutdown);
        // The panic hook has reported a panic of the thread; there is nothing more to end.
        let _ = thread.join();
    }

    /// After [`ServerHandle::close`], waits until the host's functions have been called for the end of everything.
    /// Gives up after `time_max`, and does not wait on the host's thread itself.
    pub fn wait_drained(&self, time_max: Duration) {
        if process::id() == self.creator_pid && !is_host_thread() {
            let _ = self.drained.recv_timeout(time_max);
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerHandle").field("address", &self.environment.address).finish()
    }
}

/// The configuration of the core, with what the host and the node contribute.
fn complete(
    core: ServerConfig,
    grants: &FabricGrants,
    host: &dyn Host,
    environment: &ServerEnvironment,
) -> ServerConfig {
    // Room for 2^30 commits of a process per second; the highest bit has another meaning.
    let commit_base = calendar_time().unwrap_or_default().min(u64::from(u32::MAX)) << 30;
    let (capabilities, contact) = (host.capabilities(), Some(contact(environment)));
    let fabric = grants.fabric().map(KnownFabric::handle);
    let own_services = core.own_services | grants.services();
    let kernel_inventory = StoredInventory::new(kernel_inventory(&environment.hostname)).ok().map(Arc::new);
    ServerConfig {
        capabilities,
        own_services,
        commit_base,
        loss_window: parameter_seconds(LOSS_WINDOW).unwrap_or_default(),
        contact,
        fabric,
        kernel_inventory,
        ..within_descriptors(core)
    }
}

/// Fabric resources of jobs, after the first reading of the fabric.
fn grants_of(options: &ServerOptions) -> Result<Arc<FabricGrants>, StartError> {
    let inventories = &options.core.inventories;
    let fabric = options.fabric.clone().map(|source| KnownFabric::read(source, inventories));
    let fabric = (fabric.transpose().map_err(Box::new)?, options.tools.is_scheduler);
    Ok(Arc::new(FabricGrants::new(fabric, inventories.clone(), options.static_ports.clone())))
}

/// The server's name and address, by which processes find it.
fn contact(environment: &ServerEnvironment) -> Contact {
    Contact { proc: environment.address.server.clone(), uri: Text::from(environment.uri()) }
}

fn environment_of(
    address: ModexAddress,
    (session_tmpdir, system_tmpdir): (String, String),
    hostname: String,
    offers_munge: bool,
) -> ServerEnvironment {
    let leftovers = ServerEnvironment::find_leftovers(environment());
    ServerEnvironment { address, session_tmpdir, system_tmpdir, hostname, leftovers, offers_munge }
}

fn text(path: PathBuf) -> Result<String, StartError> {
    path.into_os_string().into_string().map_err(|path| StartError::Directory { path: path.into() })
}

/// The thread that checks credentials of munge, if munge works.
fn start_proofs(prover: Option<Arc<dyn Prover>>, loop_sender: LoopSender, clock: Clock) -> Result<Proofs, ProofError> {
    let proofs = Proofs::start(prover.ok_or(ProofError::NoProver)?, loop_sender, clock, TRIAL_TIME_MAX);
    proofs.inspect_err(|error| tracing::warn!(%error, "munge is not offered to clients"))
}

/// The thread that checks credentials of munge, and the sockets.
fn open(
    options: &ServerOptions,
    loop_sender: LoopSender,
    clock: Clock,
) -> Result<(Option<Proofs>, Listeners), StartError> {
    let proofs = start_proofs(options.prover.clone(), loop_sender, clock);
    let tcp = provable(options, proofs.as_ref().err())?;
    let bind = |tcp: &TcpOptions| Listeners::bind(&options.session_tmpdir, options.access, tcp);
    let listeners = match bind(&tcp) {
        Err(ListenError::Tcp(error)) if tcp.remote.is_some() && !options.requires_remote => bind(&local(tcp, &error)),
        bound => bound,
    };
    Ok((proofs.ok(), listeners?))
}

/// The options for TCP. Without proofs the server is not open to other machines.
fn provable(options: &ServerOptions, failure: Option<&ProofError>) -> Result<TcpOptions, StartError> {
    let tcp = options.tcp.clone();
    if tcp.remote.is_some() && tcp.clients == ForeignClients::Refused {
        return if options.requires_remote {
            Err(StartError::RemoteWithoutTcp)
        } else {
            Ok(local(tcp, &"TCP is turned off"))
        };
    }
    match failure {
        Some(error) if tcp.remote.is_some() && options.requires_remote => {
            Err(StartError::RemoteUnproven(error.clone()))
        }
        Some(error) if tcp.remote.is_some() => Ok(local(tcp, error)),
        _ => Ok(tcp),
    }
}

/// The options without connections from other machines, and a line of the log with the reason.
fn local(tcp: TcpOptions, reason: &dyn std::fmt::Display) -> TcpOptions {
    tracing::warn!(%reason, "processes on other machines can't connect");
    TcpOptions { remote: None, ..tcp }
}

/// Users share the descriptors if the process may have only few. Otherwise one user can take all, and another user's
/// first commit, which needs one for the segment, is refused.
fn within_descriptors(core: ServerConfig) -> ServerConfig {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
    let shared = usize::try_from(soft / 8 * 7).unwrap_or(usize::MAX);
    let limits = Limits { peers_max: core.limits.peers_max.min(shared), ..core.limits };
    ServerConfig { limits, ..core }
}
