//! Requests of client functions, as one type. Each is written once, for callers that wait and those that don't, in
//! clients and in servers.

use std::sync::{Arc, OnceLock};

use modex::gds::AsStatus;
use modex::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Status, Text};
use modex::{Answered, Client, Credential, FenceOptions, Group, IofOutput};

use super::process::{self, Member};
use super::server_role::Done;

/// A request. The arguments are those of the function of the same name.
pub(super) enum Operation {
    Fence {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    Abort {
        status: Status,
        message: String,
        procs: Vec<ProcId>,
    },
    Publish {
        info: Vec<Info>,
    },
    Lookup {
        keys: Vec<Key>,
        directives: Vec<Info>,
    },
    Unpublish {
        keys: Vec<Key>,
        directives: Vec<Info>,
    },
    Spawn {
        job: Vec<Info>,
        apps: Vec<App>,
    },
    Connect {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    Disconnect {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    Query {
        queries: Vec<Query>,
    },
    Log {
        data: Vec<Info>,
        directives: Vec<Info>,
    },
    Allocate {
        directive: u8,
        info: Vec<Info>,
    },
    JobControl {
        targets: Vec<ProcId>,
        directives: Vec<Info>,
    },
    Monitor {
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    },
    GetCredential {
        directives: Vec<Info>,
    },
    ValidateCredential {
        credential: Vec<u8>,
        directives: Vec<Info>,
    },
    GroupConstruct {
        id: String,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    GroupDestruct {
        id: String,
        directives: Vec<Info>,
    },
    GroupInvite {
        id: String,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    GroupJoin {
        id: String,
        leader: Option<ProcId>,
        is_accepted: bool,
        directives: Vec<Info>,
    },
    GroupLeave {
        id: String,
        directives: Vec<Info>,
    },
    ResolvePeers {
        node: Option<String>,
        namespace: Option<Namespace>,
    },
    ResolveNodes {
        namespace: Option<Namespace>,
    },
    Notify {
        status: Status,
        source: Option<ProcId>,
        range: u8,
        info: Vec<Info>,
    },
    /// `id` gets the registration's number before the handler is called. If the caller waits for the pull, the handler
    /// may run first and waits for the number.
    IofPull {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        channels: u16,
        handler: OutputHandler,
        id: Arc<OnceLock<u64>>,
    },
    IofDeregister {
        id: u64,
        directives: Vec<Info>,
    },
    IofPush {
        targets: Vec<ProcId>,
        directives: Vec<Info>,
        bytes: Vec<u8>,
    },
}

/// Takes forwarded output.
pub(super) type OutputHandler = Box<dyn Fn(IofOutput) + Send + Sync>;

/// Result of a successful operation.
#[derive(Debug)]
pub(super) struct Answer {
    /// Success, or the host's status for partial results.
    pub(super) status: Status,
    pub(super) results: Results,
}

/// Results of an operation.
#[derive(Debug)]
pub(super) enum Results {
    None,
    Infos(Vec<Info>),
    Found(Vec<Pdata>),
    Namespace(Namespace),
    Credential(Credential),
    Group(Box<Group>),
    Procs(Vec<ProcId>),
    Text(Text),
    Number(u64),
}

/// Runs an operation and waits.
///
/// # Errors
/// The operation's error; `ERR_INIT` when this process is not initialized.
pub(super) fn run(operation: Operation) -> Result<Answer, Status> {
    match process::member()? {
        Member::Client(client) => perform(&client, operation),
        Member::Server(server) => {
            let (done, answer) = Done::waiter();
            server.perform(operation, done)?;
            answer.wait()
        }
    }
}

/// Starts an operation. `done` runs on a thread of the library, never inside this function.
///
/// # Errors
/// The operation was not started, and `done` will not run.
pub(super) fn start(operation: Operation, done: Done<Answer>) -> Result<(), Status> {
    match process::member()? {
        // No server will ever answer, so the caller gets the error at once.
        Member::Client(client) if client.is_alone() && operation.needs_a_server() => Err(Status::ERR_UNREACH),
        Member::Client(client) => perform_with(&client, operation, done),
        Member::Server(server) => server.perform(operation, done),
    }
}

impl Operation {
    /// Whether a process without a server can't do it.
    const fn needs_a_server(&self) -> bool {
        !matches!(self, Self::Fence { .. } | Self::Notify { .. } | Self::IofDeregister { .. })
    }
}

fn perform(client: &Client, operation: Operation) -> Result<Answer, Status> {
    match operation {
        Operation::Fence { procs, directives } => answer(client.fence(&fence_options(procs, directives))),
        Operation::Abort { status, message, procs } => answer(client.abort(status, &message, procs)),
        Operation::Publish { info } => answer(client.publish(info)),
        Operation::Lookup { keys, directives } => answer(client.lookup(keys, directives)),
        Operation::Unpublish { keys, directives } => answer(client.unpublish(keys, directives)),
        Operation::Spawn { job, apps } => answer(client.spawn(job, apps)),
        Operation::Connect { procs, directives } => answer(client.connect_processes(procs, directives)),
        Operation::Disconnect { procs, directives } => answer(client.disconnect_processes(procs, directives)),
        Operation::Query { queries } => answer(client.query(queries)),
        Operation::Log { data, directives } => answer(client.log(data, directives)),
        Operation::Allocate { directive, info } => answer(client.allocate(directive, info)),
        Operation::JobControl { targets, directives } => answer(client.job_control(targets, directives)),
        Operation::Monitor { monitor, error, directives } => answer(client.monitor(monitor, error, directives)),
        Operation::GetCredential { directives } => answer(client.get_credential(directives)),
        Operation::ValidateCredential { credential, directives } => {
            answer(client.validate_credential(credential, directives))
        }
        Operation::GroupConstruct { id, procs, directives } => answer(client.group_construct(&id, procs, directives)),
        Operation::GroupDestruct { id, directives } => answer(client.group_destruct(&id, directives)),
        Operation::GroupInvite { id, procs, directives } => answer(client.group_invite(&id, procs, directives)),
        Operation::GroupJoin { id, leader, is_accepted, directives } => {
            answer(client.group_join(&id, leader.as_ref(), is_accepted, directives))
        }
        Operation::GroupLeave { id, directives } => answer(client.group_leave(&id, directives)),
        Operation::ResolvePeers { node, namespace } => {
            answer(client.resolve_peers(node.as_deref(), namespace.as_ref()))
        }
        Operation::ResolveNodes { namespace } => answer(client.resolve_nodes(namespace.as_ref())),
        Operation::Notify { status, source, range, info } => {
            answer(client.notify_event(status, source.as_ref(), range, &info))
        }
        Operation::IofPull { procs, directives, channels, handler, id } => {
            let number = client.iof_pull(procs, directives, channels, handler);
            // Output may be on its way already. Its handler waits for the number, or for [`NO_NUMBER`].
            let _ = id.set(*number.as_ref().unwrap_or(&NO_NUMBER));
            answer(number)
        }
        Operation::IofDeregister { id, directives } => answer(client.iof_deregister(id, directives)),
        Operation::IofPush { targets, directives, bytes } => answer(client.iof_push(targets, directives, bytes)),
    }
}

fn perform_with(client: &Client, operation: Operation, done: Done<Answer>) -> Result<(), Status> {
    match operation {
        Operation::Fence { procs, directives } => {
            begun(client.fence_with(&fence_options(procs, directives), back(done)))
        }
        Operation::Abort { .. } => Err(Status::ERR_NOT_SUPPORTED),
        Operation::Publish { info } => begun(client.publish_with(info, back(done))),
        Operation::Lookup { keys, directives } => begun(client.lookup_with(keys, directives, back(done))),
        Operation::Unpublish { keys, directives } => begun(client.unpublish_with(keys, directives, back(done))),
        Operation::Spawn { job, apps } => begun(client.spawn_with(job, apps, back(done))),
        Operation::Connect { procs, directives } => begun(client.connect_processes_with(procs, directives, back(done))),
        Operation::Disconnect { procs, directives } => {
            begun(client.disconnect_processes_with(procs, directives, back(done)))
        }
        Operation::Query { queries } => begun(client.query_with(queries, back(done))),
        Operation::Log { data, directives } => begun(client.log_with(data, directives, back(done))),
        Operation::Allocate { directive, info } => begun(client.allocate_with(directive, info, back(done))),
        Operation::JobControl { targets, directives } => {
            begun(client.job_control_with(targets, directives, back(done)))
        }
        Operation::Monitor { monitor, error, directives } => {
            begun(client.monitor_with(monitor, error, directives, back(done)))
        }
        Operation::GetCredential { directives } => begun(client.get_credential_with(directives, back(done))),
        Operation::ValidateCredential { credential, directives } => {
            begun(client.validate_credential_with(credential, directives, back(done)))
        }
        Operation::GroupConstruct { id, procs, directives } => {
            begun(client.group_construct_with(&id, procs, directives, back(done)))
        }
        Operation::GroupDestruct { id, directives } => begun(client.group_destruct_with(&id, directives, back(done))),
        Operation::GroupInvite { id, procs, directives } => {
            begun(client.group_invite_with(&id, procs, directives, back(done)))
        }
        Operation::GroupJoin { id, leader, is_accepted, directives } => {
            begun(client.group_join_with(&id, leader.as_ref(), is_accepted, directives, back(done)))
        }
        Operation::GroupLeave { id, directives } => begun(client.group_leave_with(&id, directives, back(done))),
        Operation::ResolvePeers { node, namespace } => {
            begun(client.resolve_peers_with(node.as_deref(), namespace.as_ref(), back(done)))
        }
        Operation::ResolveNodes { namespace } => begun(client.resolve_nodes_with(namespace.as_ref(), back(done))),
        Operation::Notify { status, source, range, info } => {
            begun(client.notify_event_with(status, source.as_ref(), range, &info, back(done)))
        }
        Operation::IofPull { procs, directives, channels, handler, id } => {
            begun(client.iof_pull_with(procs, directives, channels, handler, move |result| {
                // This runs once, so the number is set once.
                let _ = result.as_ref().map(|number| id.set(*number));
                done.give(answer(result));
            }))
        }
        Operation::IofDeregister { id, directives } => begun(client.iof_deregister_with(id, directives, back(done))),
        Operation::IofPush { targets, directives, bytes } => {
            begun(client.iof_push_with(targets, directives, bytes, back(done)))
        }
    }
}

/// Number of a refused pull.
const NO_NUMBER: u64 = u64::MAX;

fn fence_options(procs: Vec<ProcId>, directives: Vec<Info>) -> FenceOptions {
    directives.into_iter().fold(FenceOptions::new().procs(procs), FenceOptions::info)
}

fn answer<T: Into<Answer>, E: AsStatus>(result: Result<T, E>) -> Result<Answer, Status> {
    result.map(Into::into).map_err(|error| error.status())
}

fn begun<E: AsStatus>(result: Result<(), E>) -> Result<(), Status> {
    result.map_err(|error| error.status())
}

fn back<T: Into<Answer>, E: AsStatus>(done: Done<Answer>) -> impl FnOnce(Result<T, E>) + Send + 'static {
    move |result| done.give(answer(result))
}

impl Answer {
    /// An answer with all wanted results.
    pub(super) const fn complete(results: Results) -> Self {
        Self { status: Status::SUCCESS, results }
    }
}

macro_rules! answers {
    ($($type:ty => |$value:ident| $results:expr;)*) => {
        $(
            impl From<$type> for Answer {
                fn from($value: $type) -> Self {
                    Self::complete($results)
                }
            }

            impl From<Answered<$type>> for Answer {
                fn from(answered: Answered<$type>) -> Self {
                    let $value = answered.results;
                    Self { status: answered.status, results: $results }
                }
            }
        )*
    };
}

answers! {
    () => |_nothing| Results::None;
    Vec<Info> => |infos| Results::Infos(infos);
    Vec<Pdata> => |found| Results::Found(found);
    Namespace => |namespace| Results::Namespace(namespace);
    Credential => |credential| Results::Credential(credential);
    Group => |group| Results::Group(Box::new(group));
    Option<Group> => |group| group.map_or(Results::None, |group| Results::Group(Box::new(group)));
    Vec<ProcId> => |procs| Results::Procs(procs);
    Text => |text| Results::Text(text);
    u64 => |number| Results::Number(number);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Regression: a callback that asked for output, and waited, never returned: its answer was queued on its own
    /// thread.
    #[test]
    fn output_may_be_asked_for_where_callbacks_run() {
        let client = Arc::new(Client::alone().unwrap());
        let (sender, receiver) = mpsc::channel();
        let there = Arc::clone(&client);
        let job = move || {
            let (procs, id) = (vec![there.proc().clone()], Arc::new(OnceLock::new()));
            let pull = Operation::IofPull { procs, directives: Vec::new(), channels: 2, handler: Box::new(drop), id };
            sender.send(perform(&there, pull).map(|answer| answer.status)).unwrap();
        };
        client.later(job).unwrap();
        assert_eq!(receiver.recv().unwrap(), Err(Status::ERR_UNREACH));
    }
}
