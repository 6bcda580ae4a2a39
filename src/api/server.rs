use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::fabric::FabricHandle;
use crate::gds::registration::Description;
use crate::keys;
use crate::ptl::ServerEnvironment;
use crate::runtime::{
    self, DataForm, JobSetup, LongestTurn, ServerHandle, ToolDirections, ToolError, UnreachableReason, Work,
};
use crate::server::{
    Capabilities, Delivery, DirectModexRequest, HostCall, HostResult, IofOutput, OpenOperation, OwnGet, ProcessFacts,
    ProcessSet, RegisterClient, RegisterNamespace, requires_more_than,
};
use crate::types::{Info, Key, Kval, Namespace, ProcId, Rank, Status, Text};

use super::client::Client;
use super::pending::Pending;
use super::server_call::{Begun, ServerCall, ServerError, done, refused};

/// A PMIx server: serves the processes of jobs on this node, on behalf of a [`Host`](crate::Host).
///
/// Every function may be called from any thread, the host's functions included. It does its work there, or waits for
/// the server's thread if that is busy. A function that gives a [`Pending`] does nothing before its `wait`, `then` or
/// `await`. Dropping the server ends it; see [`Server::shutdown`].
///
/// Source: PMIx Standard, "Server-Specific Interfaces".
#[derive(Debug)]
pub struct Server {
    pub(super) handle: ServerHandle,
}

impl Server {
    /// The server's own name.
    #[must_use]
    pub const fn proc(&self) -> &ProcId {
        &self.handle.environment().address.server
    }

    /// The address for tools of any library, in the form `<namespace>.<rank>;<place>`. Without clients of other
    /// libraries it is the server's socket.
    #[must_use]
    pub fn uri(&self) -> String {
        self.handle.environment().uri()
    }

    /// The newest revision of the fabric for which this server answers; see
    /// [`ServerBuilder::fabric`](crate::ServerBuilder::fabric). It never changes; [`FabricHandle::is_outdated`] tells
    /// that a later one exists.
    #[must_use]
    pub fn fabric(&self) -> Option<FabricHandle> {
        self.handle.fabric()
    }

    /// Statistics of the server's thread: number of handled requests, and its longest turn.
    #[must_use]
    pub fn work(&self) -> Work {
        self.handle.work()
    }

    /// The operations of local processes that wait, oldest first: fences, connects, groups and Gets, with the processes
    /// that they wait for. They show why a job does not go on. At most [`OpenOperation::LISTED_MAX`] collectives and as
    /// many Gets are listed.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().start(LocalHost)?;
    /// for operation in server.open_operations()? {
    ///     println!("{}: waits for {:?}", operation.kind, operation.missing);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_operations(&self) -> Result<Vec<OpenOperation>, ServerError> {
        Ok(self.handle.open_operations()?)
    }

    /// The number of requests that each connected rank has sent to this server. Values that ranks read from shared
    /// memory ask nobody, so they are not counted. The count begins anew with a new connection.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().start(LocalHost)?;
    /// for (proc, requests) in server.request_counts()? {
    ///     println!("{proc}: {requests}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request_counts(&self) -> Result<BTreeMap<ProcId, u64>, ServerError> {
        Ok(self.handle.request_counts()?)
    }

    /// The number of bytes that the slowest client with output has not read. A server drops output for a client beyond
    /// 32 MiB, so a host may read its processes' output later while this number is large. A client that has missed
    /// output does not count until it has read everything.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().start(LocalHost)?;
    /// assert_eq!(server.unread_output_bytes()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unread_output_bytes(&self) -> Result<usize, ServerError> {
        Ok(self.handle.unread_output_bytes()?)
    }

    /// The form of packed data for the processes of a namespace. `None` if none is connected.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    #[doc(hidden)]
    pub fn data_form(&self, namespace: &Namespace) -> Result<Option<DataForm>, ServerError> {
        Ok(self.handle.data_form(namespace)?)
    }

    /// A client of a launcher that is connected to this server and serves this process on the same connection, as
    /// launchers of PRRTE do. `None`: it is not connected, or is no such launcher.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    #[doc(hidden)]
    pub fn client_of_launcher(&self, launcher: &ProcId) -> Result<Option<Client>, ServerError> {
        let end = self.handle.open_launcher(launcher)?;
        Ok(end.map(|end| Client::of(Arc::new(runtime::to_launcher(self.proc().clone(), launcher.clone(), end)))))
    }

    /// Connects to the tool that started this process, and serves it on that connection, as launchers of PRRTE do.
    /// Returns a client of the tool. It has the tool's description of this process's job.
    ///
    /// # Errors
    /// [`ToolError`].
    #[doc(hidden)]
    pub fn serve_parent(&self, directions: &ToolDirections) -> Result<Client, ToolError> {
        let connection = runtime::connect_to_parent(directions, &runtime::environment())?;
        let parent = connection.parent().clone();
        let unreachable =
            |reason| ToolError::Unreachable { address: directions.address.clone().unwrap_or_default(), reason };
        let end = self.handle.serve_parent(connection).ok().flatten();
        let end = end.ok_or_else(|| unreachable(UnreachableReason::Closed))?;
        let time_max = directions.time_max.unwrap_or(runtime::TOOL_TIME_MAX);
        let session = runtime::to_parent(self.proc().clone(), parent, end, time_max).map_err(unreachable)?;
        Ok(Client::of(Arc::new(session)))
    }

    /// Takes the longest turn so far. From then on [`Server::work`] reports the longest of the turns that follow.
    pub fn take_longest_turn(&self) -> Option<LongestTurn> {
        self.handle.take_longest_turn()
    }

    /// The server's name for this node.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.handle.environment().hostname
    }

    /// The directory that holds the server's socket, removed when the server ends.
    #[must_use]
    pub fn directory(&self) -> &Path {
        let socket = &self.handle.environment().address.path;
        socket.parent().unwrap_or(socket)
    }

    /// Describes a job, before its first local process starts. `local_count` is the number of its processes on this
    /// node. With `PMIX_REGISTER_NODATA` only the job's name is kept.
    ///
    /// A host registers each job with every server whose processes may act together with it. The number of local
    /// processes is 0 if the server has no process of the job. Fences, connects, disconnects, and the construction and
    /// destruction of groups wait until all jobs that they name are registered. Without a time limit this wait has no
    /// end. A host that learns of jobs only from connect requests declares it ([`Capabilities::REGISTERS_ON_CONNECT`]).
    ///
    /// A second call for the same job extends the description: its values replace those under the same keys, and all
    /// others stay. If it brings a map of nodes or processes, values derived from the earlier map are derived anew.
    /// Nodes missing in the new map are removed. To describe a job from the beginning, deregister it first.
    /// [`Server::extend_namespace`] treats values alike, but never begins a job and leaves `local_count` unchanged.
    ///
    /// ```
    /// use modex::registration::JobDescription;
    /// use modex::types::Namespace;
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let job = Namespace::new("job-1")?;
    /// let description = JobDescription::new(&job).nodes([server.hostname()]).ranks_by_node([0..2]).build()?;
    /// server.register_namespace(&job, 2, description).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] for a description that contradicts itself, or when there is no memory for
    /// it.
    pub fn register_namespace(
        &self,
        namespace: &Namespace,
        local_count: u32,
        description: impl Into<Description>,
    ) -> Pending<ServerCall<()>> {
        self.describe_namespace(namespace, Some(local_count), description.into())
    }

    /// As [`Server::register_namespace`]. Without a number of local processes the number of a described job stays, and
    /// a new job has none.
    #[doc(hidden)]
    pub fn describe_namespace(
        &self,
        namespace: &Namespace,
        local_count: Option<u32>,
        description: Description,
    ) -> Pending<ServerCall<()>> {
        let (jobs, namespace) = (Arc::clone(self.jobs()), namespace.clone());
        let own = Arc::clone(self.handle.own_process());
        Pending(ServerCall::begin(own, move || begin_registration(&jobs, namespace, local_count, description)))
    }

    /// Extends the description of a registered job, as a second [`Server::register_namespace`] would: values under the
    /// same keys are replaced. It never begins a job, and the number of local processes stays.
    ///
    /// ```
    /// # use modex::registration::JobDescription;
    /// # use modex::types::{Info, Key, Namespace};
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let job = Namespace::new("job-1")?;
    /// # server.register_namespace(&job, 0, JobDescription::new(&job).build()?).wait()?;
    /// server.extend_namespace(&job, vec![Info::new(Key::new("site.rack")?, "r7")]).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails as [`Server::register_namespace`] does; with `NOT_FOUND` for a job that has not been registered.
    pub fn extend_namespace(
        &self,
        namespace: &Namespace,
        description: impl Into<Description>,
    ) -> Pending<ServerCall<()>> {
        self.call(EXTENDING, HostCall::ExtendNamespace(namespace.clone(), description.into()))
    }

    /// Removes a job. Its pending operations end with an error, its clients are disconnected. Unknown names are
    /// harmless.
    ///
    /// ```
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let job = modex::types::Namespace::new("job-1")?;
    /// server.deregister_namespace(&job).then(|result| println!("the job is gone: {result:?}"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Stopped`].
    pub fn deregister_namespace(&self, namespace: &Namespace) -> Pending<ServerCall<()>> {
        let (jobs, namespace) = (Arc::clone(self.jobs()), namespace.clone());
        let begin = move || {
            jobs.forget(&namespace);
            let end = |result| done("deregister the namespace", result);
            Begun::Call(HostCall::DeregisterNamespace(namespace), Box::new(end))
        };
        Pending(ServerCall::begin(Arc::clone(self.handle.own_process()), begin))
    }

    /// Announces a local process, before it starts. The kernel must report these ids for its connections. The namespace
    /// may be registered later.
    ///
    /// ```
    /// use std::os::unix::fs::MetadataExt;
    ///
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// let user = std::fs::metadata("/proc/self")?;
    /// let proc = modex::types::ProcId::new(modex::types::Namespace::new("job-1")?, 0);
    /// server.register_client(&proc, user.uid(), user.gid()).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] when the rank is not that of a process of the job.
    pub fn register_client(&self, proc: &ProcId, uid: u32, gid: u32) -> Pending<ServerCall<()>> {
        self.register_client_object(proc, uid, gid, 0)
    }

    /// As [`Server::register_client`], with a number that upcalls about the process carry.
    ///
    /// ```
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let proc = modex::types::ProcId::new(modex::types::Namespace::new("job-1")?, 0);
    /// server.register_client_object(&proc, 1000, 1000, 42).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register_client_object(&self, proc: &ProcId, uid: u32, gid: u32, object: u64) -> Pending<ServerCall<()>> {
        let registration = RegisterClient { proc: proc.clone(), uid, gid, object };
        self.call("register the process", HostCall::RegisterClient(registration))
    }

    /// Reports that a local process has ended. Usually the kernel or the connection reports it, too. Neither does if a
    /// copy of the process lives (a `fork` without `exec` keeps the connection open) and the kernel can't be asked. The
    /// kernel can't be asked over TCP, from another pid namespace, or before Linux 5.3. Then other processes wait until
    /// the host calls this. Unknown processes are harmless.
    ///
    /// ```no_run
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let proc = modex::types::ProcId::new(modex::types::Namespace::new("job-1")?, 0);
    /// # let mut child = std::process::Command::new("./rank").spawn()?;
    /// child.wait()?;
    /// server.deregister_client(&proc).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Stopped`].
    pub fn deregister_client(&self, proc: &ProcId) -> Pending<ServerCall<()>> {
        self.call("deregister the process", HostCall::DeregisterClient(proc.clone()))
    }

    /// Environment variables that a process should not inherit. They belong to a server of an outer job, or tune
    /// another PMIx library in ways that keep it from talking to this one.
    pub const REMOVED_VARIABLES: &'static [&'static str] = &ServerEnvironment::REMOVED;

    /// The environment variables that lead a process to this server. Add them to the process's own, without
    /// [`Server::REMOVED_VARIABLES`]. A process of Open MPI gets those of `mpirun`, too, such as `OMPI_COMM_WORLD_RANK`,
    /// if the job's description or its setup names this programming model.
    ///
    /// # Errors
    /// [`ServerError::NoProcess`] for a rank that is not the number of a process, [`ServerError::UnknownJob`] before the
    /// job's registration.
    pub fn setup_fork(&self, proc: &ProcId) -> Result<Vec<(String, String)>, ServerError> {
        if self.jobs().is_unknown(&proc.namespace) {
            return Err(ServerError::UnknownJob { namespace: proc.namespace.clone() });
        }
        let mut variables = self.variables_of(proc)?;
        variables.extend(self.variables_of_model(proc));
        Ok(variables)
    }

    /// As [`Server::setup_fork`], also for processes of unknown jobs. Takes no lock, so it works in a forked child.
    ///
    /// # Errors
    /// [`ServerError::NoProcess`] for a rank that is not the number of a process.
    #[doc(hidden)]
    pub fn variables_of(&self, proc: &ProcId) -> Result<Vec<(String, String)>, ServerError> {
        match proc.rank {
            Rank::Process(_) => Ok(self.handle.environment().variables(proc)),
            _ => Err(ServerError::NoProcess { proc: proc.clone() }),
        }
    }

    /// Data that a local process posted for other nodes, or job-level data (wildcard rank). The result comes once the
    /// process has committed: a host function that must not wait takes `then`.
    ///
    /// ```
    /// use modex::registration::JobDescription;
    /// use modex::types::{Namespace, ProcId, Rank};
    ///
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// let job = Namespace::new("job-1")?;
    /// server.register_namespace(&job, 0, JobDescription::new(&job).build()?).wait()?;
    /// let of_job = ProcId { namespace: job, rank: Rank::Wildcard };
    /// server.direct_modex(&of_job, None, None).then(|result| println!("for the other server: {result:?}"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] when the process is unknown, has ended, or the time is over.
    pub fn direct_modex(
        &self,
        proc: &ProcId,
        required: Option<&Key>,
        timeout: Option<Duration>,
    ) -> Pending<ServerCall<Vec<Kval>>> {
        let request = DirectModexRequest { proc: proc.clone(), key: required.cloned(), timeout };
        self.call_for_entries(HostCall::DirectModexRequest(request))
    }

    /// The result of a Get by a client on this node: one value or, without a key, all values. Unless the directives say
    /// otherwise, it waits for values of local processes, and for the host to fetch those of remote ones.
    ///
    /// ```
    /// use modex::registration::JobDescription;
    /// use modex::types::{Key, Namespace, ProcId, Rank};
    /// use modex::{LocalHost, Server, keys};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let job = Namespace::new("job-1")?;
    /// let description = JobDescription::new(&job).nodes([server.hostname()]).ranks_by_node([0..2]).build()?;
    /// server.register_namespace(&job, 2, description).wait()?;
    /// let of_job = ProcId { namespace: job, rank: Rank::Wildcard };
    /// let found = server.get(&of_job, Some(&Key::new(keys::JOB_SIZE.name())?), Vec::new()).wait()?;
    /// assert_eq!(found[0].value.as_u32(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] when there is no such value for this process.
    pub fn get(&self, proc: &ProcId, key: Option<&Key>, directives: Vec<Info>) -> Pending<ServerCall<Vec<Kval>>> {
        self.call_for_entries(HostCall::Get(OwnGet { proc: proc.clone(), key: key.cloned(), directives }))
    }

    /// Runs a job on the thread of the host's functions, after earlier ones.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the job will not run.
    pub fn defer(&self, deferred: impl FnOnce() + Send + 'static) -> Result<(), ServerError> {
        Ok(self.handle.own_process().run(Box::new(deferred))?)
    }

    /// Replaces the capabilities, after the host has got other functions.
    /// [`Host::capabilities`](crate::Host::capabilities) is called only when the server starts.
    ///
    /// ```
    /// use modex::{Capabilities, LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// server.set_capabilities(Capabilities::FENCE).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Stopped`].
    pub fn set_capabilities(&self, capabilities: Capabilities) -> Pending<ServerCall<()>> {
        let own = self.handle.own_process();
        let noter = Arc::clone(own);
        let begin = move || {
            noter.note_capabilities(capabilities);
            let end = |result| done("change the host's capabilities", result);
            Begun::Call(HostCall::Capabilities(capabilities), Box::new(end))
        };
        Pending(ServerCall::begin(Arc::clone(own), begin))
    }

    /// Records facts about a started process, for requests of the table of processes.
    ///
    /// ```no_run
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let proc = modex::types::ProcId::new(modex::types::Namespace::new("job-1")?, 0);
    /// let child = std::process::Command::new("./rank").spawn()?;
    /// server.describe_process(&proc, child.id(), "./rank").wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Stopped`].
    pub fn describe_process(&self, proc: &ProcId, pid: u32, executable: &str) -> Pending<ServerCall<()>> {
        let facts = ProcessFacts { proc: proc.clone(), pid, executable: Some(Text::from(executable)) };
        self.call("describe the process", HostCall::DescribeProcess(facts))
    }

    /// Defines a process set, or redefines the set of that name, and notifies the processes of this node
    /// (`PMIX_PROCESS_SET_DEFINE`). Queries find the set.
    ///
    /// ```
    /// # use modex::types::{Namespace, ProcId};
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let job = Namespace::new("job-1")?;
    /// server.define_process_set("odd", &[ProcId::new(job.clone(), 1), ProcId::new(job, 3)]).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] and `BAD_PARAM` for a set without name or members.
    pub fn define_process_set(&self, name: &str, members: &[ProcId]) -> Pending<ServerCall<()>> {
        let (name, members, source) = (Text::from(name), members.to_vec(), self.proc().clone());
        self.call("define the process set", HostCall::DefineProcessSet(ProcessSet { name, members, source }))
    }

    /// Removes a process set, and notifies the processes of this node (`PMIX_PROCESS_SET_DELETE`).
    ///
    /// ```
    /// # use modex::types::{Namespace, ProcId};
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # server.define_process_set("odd", &[ProcId::new(Namespace::new("job-1")?, 1)]).wait()?;
    /// server.delete_process_set("odd").wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] and `NOT_FOUND`.
    pub fn delete_process_set(&self, name: &str) -> Pending<ServerCall<()>> {
        let call = HostCall::DeleteProcessSet { name: Text::from(name), source: self.proc().clone() };
        self.call("delete the process set", call)
    }

    /// Hands over output of a process, for the clients that have pulled it. Without such a client it is kept for the
    /// first one, up to a limit, beyond which it is dropped.
    ///
    /// ```
    /// use modex::IofOutput;
    /// use modex::types::codes::iof_channel;
    /// # use modex::types::{Namespace, ProcId};
    ///
    /// # let server = modex::Server::builder().start(modex::LocalHost)?;
    /// # let source = ProcId::new(Namespace::new("job-1")?, 0);
    /// let (channel, bytes) = (iof_channel::FWD_STDOUT_CHANNEL, b"hello\n".to_vec());
    /// server.iof_deliver(IofOutput { source, channel, bytes, info: Vec::new() }).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`] and `BAD_PARAM` for a channel that is no output channel.
    pub fn iof_deliver(&self, output: impl Into<Arc<IofOutput>>) -> Pending<ServerCall<()>> {
        self.call("deliver output", HostCall::IofDeliver(output.into()))
    }

    /// Forwards the output of a job to a tool that does not pull it: this process has started the job for the tool.
    ///
    /// Fails with [`ServerError::Refused`] and `NOT_FOUND` if there is no such tool.
    #[doc(hidden)]
    pub fn forward_output(&self, tool: ProcId, job: Namespace, channels: u16) -> Pending<ServerCall<()>> {
        self.call("forward the output of a job", HostCall::ForwardOutput { tool, job, channels })
    }

    /// Passes output of a process on to the clients that have pulled it ([`Capabilities::IOF_PULL`]), as
    /// [`Server::iof_deliver`] does, but keeps nothing. This is for a host that also writes the output itself: the
    /// result says whether a client wants it in place of that (`PMIX_IOF_REDIRECT`).
    ///
    /// Fails with [`ServerError::Refused`] and `BAD_PARAM` for a channel that is no output channel.
    pub fn iof_offer(&self, output: impl Into<Arc<IofOutput>>) -> Pending<ServerCall<Delivery>> {
        self.offer(HostCall::IofOffer(output.into()))
    }

    /// As [`Server::iof_offer`]. Output that no client has pulled is kept as by [`Server::iof_deliver`], and the result
    /// says whether there was room for it ([`Delivery::Kept`]).
    ///
    /// Fails with [`ServerError::Refused`] and `BAD_PARAM` for a channel that is no output channel.
    pub fn iof_offer_or_keep(&self, output: impl Into<Arc<IofOutput>>) -> Pending<ServerCall<Delivery>> {
        self.offer(HostCall::IofOfferOrKeep(output.into()))
    }

    fn offer(&self, call: HostCall) -> Pending<ServerCall<Delivery>> {
        Pending(ServerCall::new(Arc::clone(self.handle.own_process()), call, |result| match result {
            HostResult::Status(status) => Delivery::of(status).ok_or_else(|| refused("pass output on", result)),
            failure => Err(refused("pass output on", failure)),
        }))
    }

    /// Takes the output that the host of this server delivers ([`Server::iof_deliver`], [`Server::iof_offer`]): of
    /// these processes, on these channels. It goes to `handler` on the thread of the host's functions, after the
    /// callback. The first pull gets the kept output. The directives for kept output and for the size of deliveries are
    /// those of [`crate::Client::iof_pull`]. The result is the number of the pull. Output that waits for the handler is
    /// bounded: a handler that does not keep up misses some, but no end of a channel.
    ///
    /// Fails with [`ServerError::Refused`]: `BAD_PARAM` without processes or an output channel, `NOT_SUPPORTED` for
    /// standard input or another required directive.
    pub fn iof_pull(
        &self,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        channels: u16,
        handler: impl Fn(IofOutput) + Send + Sync + 'static,
    ) -> Pending<ServerCall<u64>> {
        let own = Arc::clone(self.handle.own_process());
        Pending(ServerCall::begin(Arc::clone(&own), move || {
            let (call, number) = own.pull(procs, directives, channels, Arc::new(handler));
            let settle = move |result| {
                let settled = done("pull output", result);
                if settled.is_err() {
                    own.forget_pull(number);
                }
                settled.map(|()| number)
            };
            Begun::Call(call, Box::new(settle))
        }))
    }

    /// Ends the pull of [`Server::iof_pull`]. Output that is on its way to the handler may still be handled.
    ///
    /// Fails with [`ServerError::Refused`]: `NOT_FOUND` for an unknown number, `NOT_SUPPORTED` for a required
    /// directive.
    pub fn iof_deregister(&self, number: u64, directives: Vec<Info>) -> Pending<ServerCall<()>> {
        let own = Arc::clone(self.handle.own_process());
        Pending(ServerCall::begin(Arc::clone(&own), move || {
            if requires_more_than(&directives, &[]) {
                return Begun::Over(Err(refused("end the pull", HostResult::Status(Status::ERR_NOT_SUPPORTED))));
            }
            let settle = move |result| {
                own.forget_pull(number);
                done("end the pull", result)
            };
            Begun::Call(HostCall::IofDeregister(number), Box::new(settle))
        }))
    }

    /// Ends the server as [`Server::shutdown`] does, while it has other owners: their pending and later calls end with
    /// an error. Then waits for the host's functions, at most for `time_max`, and not if the caller is one of them.
    pub fn close(&self, time_max: Duration) {
        self.handle.close();
        self.handle.wait_drained(time_max);
    }

    /// Ends the server: its clients are disconnected, its socket is removed, its segments vanish with their last
    /// mapping. Dropping the server does the same.
    pub fn shutdown(self) {
        drop(self);
    }

    pub(super) fn call(&self, doing: &'static str, call: HostCall) -> Pending<ServerCall<()>> {
        Pending(ServerCall::without_data(Arc::clone(self.handle.own_process()), doing, call))
    }

    fn call_for_entries(&self, call: HostCall) -> Pending<ServerCall<Vec<Kval>>> {
        Pending(ServerCall::new(Arc::clone(self.handle.own_process()), call, entries))
    }
}

/// Begins the registration of a job, or an extension of its description.
fn begin_registration(
    jobs: &Arc<JobSetup>,
    namespace: Namespace,
    local_count: Option<u32>,
    mut description: Description,
) -> Begun<()> {
    let registration = jobs.begin(&namespace, &mut description);
    let (doing, call) = if local_count.is_none() && !registration.is_first() {
        (EXTENDING, HostCall::ExtendNamespace(namespace, description))
    } else {
        let is_nodata =
            |info: &Info| info.key.as_str() == keys::REGISTER_NODATA.name() && info.value.as_bool() == Some(true);
        let nodata = description.infos().iter().any(is_nodata);
        let local_count = Some(local_count.unwrap_or(0));
        let register = RegisterNamespace { namespace, local_count, description, nodata };
        ("register the namespace", HostCall::RegisterNamespace(register))
    };
    let conclude = move |result| {
        let result = done(doing, result);
        registration.conclude(result.is_ok());
        result
    };
    Begun::Call(call, Box::new(conclude))
}

const EXTENDING: &str = "add to the description of the namespace";

fn entries(result: HostResult) -> Result<Vec<Kval>, ServerError> {
    match result {
        HostResult::Entries(entries) => Ok(entries),
        HostResult::Status(Status::SUCCESS) => Ok(Vec::new()),
        failure => Err(refused("fetch what the process posted", failure)),
    }
}
