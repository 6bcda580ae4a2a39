//! Requests of client functions, as one type, for clients and servers. `call` begins them.

use std::sync::{Arc, OnceLock};

use modex::proto::Reply;
use modex::types::{Info, Namespace, Pdata, ProcId, Status, Text};
use modex::{Answered, Credential, Group, IofOutput, Service};

/// A request. The arguments are those of the function of the same name.
pub(super) enum ClientRequest {
    Fence {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    Abort {
        status: Status,
        message: String,
        procs: Vec<ProcId>,
    },
    Connect {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    Disconnect {
        procs: Vec<ProcId>,
        directives: Vec<Info>,
    },
    /// A request that a host answers.
    Service(Service),
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
}

/// Takes forwarded output.
pub(super) type OutputHandler = Box<dyn Fn(IofOutput) + Send + Sync>;

/// Result of a successful request.
#[derive(Debug)]
pub(super) struct Answer {
    /// Success, or the host's status for partial results.
    pub(super) status: Status,
    pub(super) results: Results,
}

/// Results of a request.
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

impl ClientRequest {
    /// Whether a process without a server can't do it.
    pub(super) const fn needs_a_server(&self) -> bool {
        !matches!(self, Self::Fence { .. } | Self::Notify { .. } | Self::IofDeregister { .. })
    }
}

impl<R: Into<Service>> From<R> for ClientRequest {
    fn from(request: R) -> Self {
        Self::Service(request.into())
    }
}

impl Answer {
    /// An answer with all wanted results.
    pub(super) const fn complete(results: Results) -> Self {
        Self { status: Status::SUCCESS, results }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        let (status, results) = match reply {
            Reply::Partial { status, results } => (status, *results),
            results => (Status::SUCCESS, results),
        };
        let results = match results {
            Reply::Infos(infos) => Results::Infos(infos),
            Reply::Lookup(found) => Results::Found(found),
            Reply::Spawned { namespace, .. } => match Namespace::from_bytes(namespace.as_bytes()) {
                Ok(namespace) => Results::Namespace(namespace),
                Err(_) => Results::None,
            },
            Reply::Credential(credential) => Results::Credential(credential),
            _ => Results::None,
        };
        Self { status, results }
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
    Group => |group| Results::Group(Box::new(group));
    Option<Group> => |group| group.map_or(Results::None, |group| Results::Group(Box::new(group)));
    Vec<ProcId> => |procs| Results::Procs(procs);
    Text => |text| Results::Text(text);
    u64 => |number| Results::Number(number);
}
