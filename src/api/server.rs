use std::path::Path;
use std::time::Duration;

use crate::gds::registration::Description;
use crate::keys;
use crate::ptl::ServerEnvironment;
use crate::runtime::{LongestTurn, Registration, ServerHandle, Stopped, Work};
use crate::server::{
    Capabilities, DirectModexRequest, HostCall, HostResult, IofOutput, OwnGet, ProcessFacts, ProcessSet,
    RegisterClient, RegisterNamespace,
};
use crate::types::{AsStatus, Info, Key, Kval, Namespace, ProcId, Rank, Status, Text};

/// A PMIx server: serves the processes of jobs on this node, on behalf of a [`Host`](crate::Host).
///
/// Every function may be called from any thread, the host's functions included. It does its work there, or waits for the
/// server's thread if that is busy.
/// Dropping the server ends it; see [`Server::shutdown`].
///
/// Source: PMIx Standard, "Server-Specific Interfaces".
#[derive(Debug)]
pub struct Server {
    pub(super) handle: ServerHandle,
}

/// Reason of a failed call to the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server refused.
    #[error("the server can't {doing}: {reason}")]
    Refused {
        /// The refused action.
        doing: &'static str,
        /// The reason, as a status of the standard.
        status: Status,
        /// The reason for people: the wrong value of an object, and the remedy. Without details it is the status's name.
        reason: String,
    },
    /// The name does not stand for a single process.
    #[error("{proc} is not one process; name it by namespace and number")]
    NoProcess {
        /// The given name.
        proc: ProcId,
    },
    /// The server has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl AsStatus for ServerError {
    fn status(&self) -> Status {
        match self {
            Self::Refused { status, .. } => *status,
            Self::NoProcess { .. } => Status::ERR_BAD_PARAM,
            Self::Stopped(_) => Status::ERR_INIT,
        }
    }
}

impl Server {
    /// The server's own name.
    #[must_use]
    pub const fn proc(&self) -> &ProcId {
        &self.handle.environment().address.server
    }

    /// The address for tools of any library, in the form `<namespace>.<rank>;<place>`. Without clients of other libraries it is the
    /// server's socket.
    #[must_use]
    pub fn uri(&self) -> String {
        self.handle.environment().uri()
    }

    /// Statistics of the server's thread: number of handled requests, and its longest turn.
    #[must_use]
    pub fn work(&self) -> Work {
        self.handle.work()
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

    /// Describes a job, before its first local process starts. `local_count` is the number of its processes on this node. With
    /// `PMIX_REGISTER_NODATA` only the job's name is kept.
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
    /// # Errors
    /// [`ServerError::Refused`] for a description that contradicts itself, or when there is no memory for it.
    pub fn register_namespace(
        &self,
        namespace: &Namespace,
        local_count: u32,
        description: impl Into<Description>,
    ) -> Result<(), ServerError> {
        self.describe_namespace(namespace, Some(local_count), description.into())
    }

    /// As [`Server::register_namespace`]. Without a number of local processes the number of a described job stays, and
    /// a new job has none.
    ///
    /// # Errors
    /// As [`Server::register_namespace`].
    #[doc(hidden)]
    pub fn describe_namespace(
        &self,
        namespace: &Namespace,
        local_count: Option<u32>,
        description: Description,
    ) -> Result<(), ServerError> {
        let (registration, doing, call) = self.registration(namespace, local_count, description);
        let result = self.status(doing, call);
        registration.conclude(result.is_ok());
        result
    }

    /// Extends the description of a registered job, as a second [`Server::register_namespace`] would: values under the same keys are
    /// replaced. It never begins a job, and the number of local processes stays.
    ///
    /// # Errors
    /// As [`Server::register_namespace`]; with `NOT_FOUND` for a job that has not been registered.
    pub fn extend_namespace(
        &self,
        namespace: &Namespace,
        description: impl Into<Description>,
    ) -> Result<(), ServerError> {
        let call = HostCall::ExtendNamespace(namespace.clone(), description.into());
        self.status(EXTENDING, call)
    }

    /// As [`Server::extend_namespace`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn extend_namespace_with(
        &self,
        namespace: &Namespace,
        description: impl Into<Description>,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let call = HostCall::ExtendNamespace(namespace.clone(), description.into());
        self.status_with(EXTENDING, call, callback)
    }

    /// Removes a job. Its pending operations end with an error, its clients are disconnected.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]; unknown names are harmless.
    pub fn deregister_namespace(&self, namespace: &Namespace) -> Result<(), ServerError> {
        self.jobs().forget(namespace);
        self.status("deregister the namespace", HostCall::DeregisterNamespace(namespace.clone()))
    }

    /// Announces a local process, before it starts. The kernel must report these ids for its connections.
    ///
    /// # Errors
    /// [`ServerError::Refused`] when the rank is not that of a process of the job. The namespace may be registered later.
    pub fn register_client(&self, proc: &ProcId, uid: u32, gid: u32) -> Result<(), ServerError> {
        self.register_client_object(proc, uid, gid, 0)
    }

    /// As [`Server::register_client`], with a number that upcalls about the process carry.
    ///
    /// # Errors
    /// As [`Server::register_client`].
    pub fn register_client_object(&self, proc: &ProcId, uid: u32, gid: u32, object: u64) -> Result<(), ServerError> {
        let registration = RegisterClient { proc: proc.clone(), uid, gid, object };
        self.status("register the process", HostCall::RegisterClient(registration))
    }

    /// Reports that a local process has ended. Usually the kernel or the connection reports it, too. Neither does if a
    /// copy of the process lives (a `fork` without `exec` keeps the connection open) and the kernel can't be asked. The
    /// kernel can't be asked over TCP, from another pid namespace, or before Linux 5.3. Then other processes wait until
    /// the host calls this.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]; unknown processes are harmless.
    pub fn deregister_client(&self, proc: &ProcId) -> Result<(), ServerError> {
        self.status("deregister the process", HostCall::DeregisterClient(proc.clone()))
    }

    /// Environment variables that a process should not inherit. They belong to a server of an outer job, or tune another PMIx library in
    /// ways that keep it from talking to this one.
    pub const REMOVED_VARIABLES: &'static [&'static str] = &ServerEnvironment::REMOVED;

    /// The environment variables that lead a process to this server. Add them to the process's own, without
    /// [`Server::REMOVED_VARIABLES`].
    ///
    /// # Errors
    /// [`ServerError::NoProcess`] for a rank that is not the number of a process.
    pub fn setup_fork(&self, proc: &ProcId) -> Result<Vec<(String, String)>, ServerError> {
        match proc.rank {
            Rank::Process(_) => Ok(self.handle.environment().variables(proc)),
            _ => Err(ServerError::NoProcess { proc: proc.clone() }),
        }
    }

    /// Data that a local process posted for other nodes, or job-level data (wildcard rank). Waits until the process has committed: do
    /// not call it from a host function that must not wait.
    ///
    /// # Errors
    /// [`ServerError::Refused`] when the process is unknown, has ended, or the time is over.
    pub fn direct_modex(
        &self,
        proc: &ProcId,
        required: Option<&Key>,
        timeout: Option<Duration>,
    ) -> Result<Vec<Kval>, ServerError> {
        let call = HostCall::DirectModexRequest(direct_modex_request(proc, required, timeout));
        entries(self.handle.call(call)?)
    }

    /// As [`Server::direct_modex`], without waiting: `callback` gets the result, on the thread of the host's functions.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn direct_modex_with(
        &self,
        proc: &ProcId,
        required: Option<&Key>,
        timeout: Option<Duration>,
        callback: impl FnOnce(Result<Vec<Kval>, ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let call = HostCall::DirectModexRequest(direct_modex_request(proc, required, timeout));
        Ok(self.handle.call_with(call, Box::new(|result| callback(entries(result))))?)
    }

    /// The result of a Get by a client on this node: one value or, without a key, all values. Unless the directives say otherwise, it
    /// waits for values of local processes, and for the host to fetch those of remote ones.
    ///
    /// # Errors
    /// [`ServerError::Refused`] when there is no such value for this process.
    pub fn get(&self, proc: &ProcId, key: Option<&Key>, directives: Vec<Info>) -> Result<Vec<Kval>, ServerError> {
        entries(self.handle.call(own_get(proc, key, directives))?)
    }

    /// As [`Server::get`], without waiting: `callback` gets the result, on the thread of the host's functions.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn get_with(
        &self,
        proc: &ProcId,
        key: Option<&Key>,
        directives: Vec<Info>,
        callback: impl FnOnce(Result<Vec<Kval>, ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let call = own_get(proc, key, directives);
        Ok(self.handle.call_with(call, Box::new(|result| callback(entries(result))))?)
    }

    /// Runs a job on the thread of the host's functions, after earlier ones.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the job will not run.
    pub fn defer(&self, deferred: impl FnOnce() + Send + 'static) -> Result<(), ServerError> {
        Ok(self.handle.run(Box::new(deferred))?)
    }

    /// As [`Server::register_namespace`], without waiting: `callback` gets the result, on the thread of the host's
    /// functions.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn register_namespace_with(
        &self,
        namespace: &Namespace,
        local_count: u32,
        description: impl Into<Description>,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        self.describe_namespace_with(namespace, Some(local_count), description.into(), callback)
    }

    /// As `describe_namespace`, without waiting.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    #[doc(hidden)]
    pub fn describe_namespace_with(
        &self,
        namespace: &Namespace,
        local_count: Option<u32>,
        description: Description,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let (registration, doing, call) = self.registration(namespace, local_count, description);
        let conclude = move |result: Result<(), ServerError>| {
            registration.conclude(result.is_ok());
            callback(result);
        };
        self.status_with(doing, call, conclude)
    }

    fn registration(
        &self,
        namespace: &Namespace,
        local_count: Option<u32>,
        mut description: Description,
    ) -> (Registration, &'static str, HostCall) {
        let registration = self.jobs().begin(namespace, &mut description);
        if local_count.is_none() && !registration.is_first() {
            return (registration, EXTENDING, HostCall::ExtendNamespace(namespace.clone(), description));
        }
        let is_nodata =
            |info: &Info| info.key.as_str() == keys::REGISTER_NODATA.name() && info.value.as_bool() == Some(true);
        let nodata = description.infos().iter().any(is_nodata);
        let (namespace, local_count) = (namespace.clone(), Some(local_count.unwrap_or(0)));
        let register = RegisterNamespace { namespace, local_count, description, nodata };
        (registration, "register the namespace", HostCall::RegisterNamespace(register))
    }

    /// As [`Server::deregister_namespace`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn deregister_namespace_with(
        &self,
        namespace: &Namespace,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        self.jobs().forget(namespace);
        self.status_with("deregister the namespace", HostCall::DeregisterNamespace(namespace.clone()), callback)
    }

    /// As [`Server::register_client_object`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn register_client_with(
        &self,
        proc: &ProcId,
        uid: u32,
        gid: u32,
        object: u64,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let registration = RegisterClient { proc: proc.clone(), uid, gid, object };
        self.status_with("register the process", HostCall::RegisterClient(registration), callback)
    }

    /// As [`Server::deregister_client`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn deregister_client_with(
        &self,
        proc: &ProcId,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        self.status_with("deregister the process", HostCall::DeregisterClient(proc.clone()), callback)
    }

    /// Replaces the capabilities, after the host has got other functions. [`Host::capabilities`](crate::Host::capabilities) is called
    /// only when the server starts.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    pub fn set_capabilities(&self, capabilities: Capabilities) -> Result<(), ServerError> {
        Ok(self.handle.set_capabilities(capabilities)?)
    }

    /// Records facts about a started process, for requests of the table of processes.
    ///
    /// # Errors
    /// [`ServerError::Stopped`].
    pub fn describe_process(&self, proc: &ProcId, pid: u32, executable: &str) -> Result<(), ServerError> {
        let facts = ProcessFacts { proc: proc.clone(), pid, executable: Some(Text::from(executable)) };
        self.status("describe the process", HostCall::DescribeProcess(facts))
    }

    /// Defines a process set, or redefines the set of that name, and notifies the processes of this node (`PMIX_PROCESS_SET_DEFINE`).
    /// Queries find the set.
    ///
    /// # Errors
    /// [`ServerError::Refused`] with `BAD_PARAM` for a set without name or members.
    pub fn define_process_set(&self, name: &str, members: &[ProcId]) -> Result<(), ServerError> {
        self.status("define the process set", self.definition(name, members))
    }

    /// As [`Server::define_process_set`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn define_process_set_with(
        &self,
        name: &str,
        members: &[ProcId],
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        self.status_with("define the process set", self.definition(name, members), callback)
    }

    /// Removes a process set, and notifies the processes of this node (`PMIX_PROCESS_SET_DELETE`).
    ///
    /// # Errors
    /// [`ServerError::Refused`] with `NOT_FOUND`.
    pub fn delete_process_set(&self, name: &str) -> Result<(), ServerError> {
        let call = HostCall::DeleteProcessSet { name: Text::from(name), source: self.proc().clone() };
        self.status("delete the process set", call)
    }

    /// As [`Server::delete_process_set`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn delete_process_set_with(
        &self,
        name: &str,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let call = HostCall::DeleteProcessSet { name: Text::from(name), source: self.proc().clone() };
        self.status_with("delete the process set", call, callback)
    }

    fn definition(&self, name: &str, members: &[ProcId]) -> HostCall {
        let (name, members, source) = (Text::from(name), members.to_vec(), self.proc().clone());
        HostCall::DefineProcessSet(ProcessSet { name, members, source })
    }

    /// Hands over output of a process, for the clients that have pulled it. Without such a client it is kept for the first one, up to a
    /// limit, beyond which it is dropped.
    ///
    /// # Errors
    /// [`ServerError::Refused`] with `BAD_PARAM` for a channel that is no output channel.
    pub fn iof_deliver(&self, output: IofOutput) -> Result<(), ServerError> {
        self.status("deliver output", HostCall::IofDeliver(output))
    }

    /// As [`Server::iof_deliver`], without waiting; see [`Server::register_namespace_with`].
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn iof_deliver_with(
        &self,
        output: IofOutput,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        self.status_with("deliver output", HostCall::IofDeliver(output), callback)
    }

    /// Ends the server as [`Server::shutdown`] does, while it has other owners: their pending and later calls end with an error. Then
    /// waits for the host's functions, at most for `time_max`, and not if the caller is one of them.
    pub fn close(&self, time_max: Duration) {
        self.handle.close();
        self.handle.wait_drained(time_max);
    }

    /// Ends the server: its clients are disconnected, its socket is removed, its segments vanish with their last mapping. Dropping the
    /// server does the same.
    pub fn shutdown(self) {
        drop(self);
    }

    pub(super) fn status(&self, doing: &'static str, call: HostCall) -> Result<(), ServerError> {
        done(doing, self.handle.call(call)?)
    }

    pub(super) fn status_with(
        &self,
        doing: &'static str,
        call: HostCall,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        Ok(self.handle.call_with(call, Box::new(move |result| callback(done(doing, result))))?)
    }
}

const EXTENDING: &str = "add to the description of the namespace";

pub(super) fn done(doing: &'static str, result: HostResult) -> Result<(), ServerError> {
    match result {
        HostResult::Status(Status::SUCCESS) | HostResult::Entries(_) => Ok(()),
        failure => Err(refused(doing, failure)),
    }
}

pub(super) fn refused(doing: &'static str, failure: HostResult) -> ServerError {
    match failure {
        HostResult::Failed { status, reason } => ServerError::Refused { doing, status, reason },
        HostResult::Status(status) => ServerError::Refused { doing, status, reason: status.to_string() },
        // Data is no failure, but an error where none is expected.
        HostResult::Entries(_) => {
            ServerError::Refused { doing, status: Status::ERROR, reason: "unexpected data".into() }
        }
    }
}

fn direct_modex_request(proc: &ProcId, required: Option<&Key>, timeout: Option<Duration>) -> DirectModexRequest {
    DirectModexRequest { proc: proc.clone(), key: required.cloned(), timeout }
}

fn own_get(proc: &ProcId, key: Option<&Key>, directives: Vec<Info>) -> HostCall {
    HostCall::Get(OwnGet { proc: proc.clone(), key: key.cloned(), directives })
}

fn entries(result: HostResult) -> Result<Vec<Kval>, ServerError> {
    match result {
        HostResult::Entries(entries) => Ok(entries),
        HostResult::Status(Status::SUCCESS) => Ok(Vec::new()),
        failure => Err(refused("fetch what the process posted", failure)),
    }
}
