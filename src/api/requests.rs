//! Client requests that need the host.

use crate::client::CallError;
use crate::proto::{Command, Reply};
use crate::server::Credential;
use crate::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Status, Text};

use super::asks::{self, Answered, Ask, Group, RequestError};
use super::client::Client;

/// Two functions for each request: a blocking one and one with a callback.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident, $with:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// [`RequestError`], with the host's status among others.
                pub fn $name(&self, $($argument: $type),*) -> Result<$result, RequestError> {
                    self.exchange(asks::$name($($argument),*)?)
                }

                #[doc = concat!("As [`Client::", stringify!($name), "`], without waiting: the result goes to `callback`,")]
                /// on a thread of the client that the first callback starts, never from inside this function.
                ///
                /// # Errors
                /// [`RequestError`]: the callback will not run.
                pub fn $with(
                    &self,
                    $($argument: $type,)*
                    callback: impl FnOnce(Result<$result, RequestError>) + Send + 'static,
                ) -> Result<(), RequestError> {
                    self.exchange_with(asks::$name($($argument),*)?, callback)
                }
            )*
        }
    };
}

requests! {
    /// Publishes data: every entry that is no directive. Waits until the data can be looked up.
    publish, publish_with(info: Vec<Info>) -> ();

    /// Finds published data. If some keys are missing, the status says so. If all are missing, the result is an error
    /// with the status `NOT_FOUND`.
    lookup, lookup_with(keys: Vec<Key>, directives: Vec<Info>) -> Answered<Vec<Pdata>>;

    /// Withdraws data that this process has published; without keys, all of it.
    unpublish, unpublish_with(keys: Vec<Key>, directives: Vec<Info>) -> ();

    /// Starts a job and waits until all its processes have started. Gets of the returned namespace find its data.
    spawn, spawn_with(job: Vec<Info>, apps: Vec<App>) -> Namespace;

    /// Connects processes: the host treats them as belonging together. Each of them must call this, and name the same
    /// set in the same way. Job data of all their namespaces is available afterwards.
    connect_processes, connect_processes_with(procs: Vec<ProcId>, directives: Vec<Info>) -> ();

    /// Undoes [`Client::connect_processes`]. Each of the processes must call this.
    disconnect_processes, disconnect_processes_with(procs: Vec<ProcId>, directives: Vec<Info>) -> ();

    /// Queries facts about the system. If some are unknown, the status says so.
    query, query_with(queries: Vec<Query>) -> Answered<Vec<Info>>;

    /// Logs data, one entry for each channel. Waits until the host has accepted it.
    log, log_with(data: Vec<Info>, directives: Vec<Info>) -> ();

    /// Asks for a change of the allocation: one of [`crate::types::codes::alloc_directive`].
    allocate, allocate_with(directive: u8, info: Vec<Info>) -> Answered<Vec<Info>>;

    /// Asks for processes to be paused, resumed, signalled, ended ...; without targets, those of this process's
    /// namespace.
    job_control, job_control_with(targets: Vec<ProcId>, directives: Vec<Info>) -> Answered<Vec<Info>>;

    /// Asks for an object to be monitored; `error` is the event to raise.
    monitor, monitor_with(monitor: Info, error: Status, directives: Vec<Info>) -> Answered<Vec<Info>>;

    /// Asks for a credential.
    get_credential, get_credential_with(directives: Vec<Info>) -> Credential;

    /// Validates a credential; the results say what it proves.
    validate_credential, validate_credential_with(credential: Vec<u8>, directives: Vec<Info>) -> Answered<Vec<Info>>;

    /// Forms a group. Every member must call this. If members were lost meanwhile, the status may say so.
    group_construct, group_construct_with(id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> Answered<Group>;

    /// Dissolves a group. Every member must call this.
    group_destruct, group_destruct_with(id: &str, directives: Vec<Info>) -> ();

    /// The processes of a namespace (`None`: of all) on a node (`None`: this one). The list may be empty.
    resolve_peers, resolve_peers_with(node: Option<&str>, namespace: Option<&Namespace>) -> Vec<ProcId>;

    /// The nodes of a namespace (`None`: of all), as a list with commas.
    resolve_nodes, resolve_nodes_with(namespace: Option<&Namespace>) -> Text;

    /// Sends bytes to the standard input of processes; no bytes mean its end. Waits until the host has accepted them,
    /// not until they are read.
    iof_push, iof_push_with(targets: Vec<ProcId>, directives: Vec<Info>, bytes: Vec<u8>) -> ();
}

impl Client {
    fn exchange<T>(&self, ask: Ask<T>) -> Result<T, RequestError> {
        let Ask { request, time_limit, read } = ask;
        let command = request.command();
        let reply = self.session().exchange(request, time_limit)?;
        result_of(reply, command, read)
    }

    fn exchange_with<T: 'static>(
        &self,
        ask: Ask<T>,
        callback: impl FnOnce(Result<T, RequestError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let Ask { request, time_limit, read } = ask;
        let command = request.command();
        let result = move |reply| result_of(reply, command, read);
        let begun = self.session().exchange_with(request, time_limit, move |reply| {
            callback(reply.map_err(RequestError::Call).and_then(result));
        });
        begun.map_err(|error| RequestError::Thread(error.kind()))
    }
}

/// The result in a reply. An error with unreadable results is returned as that error: servers of the reference append
/// an empty name to a failed spawn.
fn result_of<T>(reply: Reply, command: Command, read: impl FnOnce(Reply) -> Option<T>) -> Result<T, RequestError> {
    let status = match &reply {
        Reply::Partial { status, .. } => Some(*status),
        _ => None,
    };
    let unreadable = || match status {
        Some(status) => CallError::Refused { command, status },
        None => CallError::WrongReply { command },
    };
    read(reply).ok_or_else(|| RequestError::Call(unreadable()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::AsStatus;

    /// Regression: under a server of 4.2.2 a failed spawn ended with "wrong reply", and so did a granted monitor
    /// request.
    #[test]
    fn a_failed_spawn_has_the_hosts_status_and_a_bare_success_no_results() {
        let spawned = Reply::Spawned { namespace: Text::from(""), entries: Vec::new() };
        let status = Status::ERR_JOB_FAILED_TO_LAUNCH;
        let failed = Reply::Partial { status, results: Box::new(spawned) };
        let asked = asks::spawn(Vec::new(), Vec::new()).unwrap();
        assert_eq!(result_of(failed, Command::Spawn, asked.read).unwrap_err().status(), status);
        let asked = asks::monitor(Info::new(Key::from_static("k"), true), status, Vec::new()).unwrap();
        let granted = result_of(Reply::Status(Status::SUCCESS), Command::Monitor, asked.read).unwrap();
        assert_eq!(granted, Answered { status: Status::SUCCESS, results: Vec::new() });
    }
}
