//! The requests of the protocol: one entry each.
//!
//! [`with_services`] is the table of services: requests of a process that its server passes to the host. The server may
//! answer publish, lookup and unpublish itself (`src/names`). An entry:
//!
//! ```text
//! /// What it does, for both the requester and the host.
//! Name = command number, CAPABILITY = bit, fn method(field with the directives) -> answer {
//!     [field: type = value => layout],     a field that only the wire has
//!     field: type => layout,               in the order of the wire
//! }
//! ```
//!
//! The macros that read the table make everything that a service consists of:
//!
//! | from an entry | in |
//! |---|---|
//! | the request's type, its parts and its bytes | [`service`](super::service) |
//! | random requests for the tests of the codec | `strategies` |
//! | the capability of a host | `server::interface::config` |
//! | the method of `Host`, and its call | `runtime::host` |
//! | the methods of `Client` and `Server` | `api::requests` |
//!
//! [`with_requests`] gives all requests in short form. The commands ([`command`](super::command)), the requests with
//! their bytes ([`request`](super::request)) and the replies ([`reply`](super::reply)) follow from it.
//!
//! The other requests are no services. Their capability, upcall and methods are written by hand, because each would be
//! an exception in the table:
//!
//! - An abort reaches the host with the object of its requester, and has no callback.
//! - A pull reaches the host without its number. The server keeps the pull, and its reply is a number of the server.
//! - Fences, connects and groups become one upcall for many requests.
//! - The server answers the rest itself, or refuses it.
//!
//! Source: PMIx Standard, chapters on publication, process management, queries, logging, allocation and security;
//! OpenPMIx wire protocol.

/// Gives the table of services to a macro. The other form names the macro by its path, and gives it arguments before
/// the table.
macro_rules! with_services {
    ($macro:ident) => {
        $crate::proto::with_services! { [$macro] }
    };
    ([$($macro:tt)+] $($argument:tt)*) => {
        $($macro)+! {
            $($argument)*
            /// Publishes data: every info that is no directive. Answered when the data can be looked up.
            Publish = 6, PUBLISH = 8, fn publish(info) -> () {
                [uid: u32 = u32::MAX => One<wire::Uint32>],
                /// Data and directives.
                info: Vec<Info> => Many<wire::Info>,
            }
            /// Finds published data. If some keys are missing, the status of the answer is `PARTIAL_SUCCESS`. If all
            /// are missing, the request fails with `NOT_FOUND`.
            Lookup = 7, LOOKUP = 9, fn lookup(directives) -> Vec<Pdata> {
                [uid: u32 = u32::MAX => One<wire::Uint32>],
                /// The wanted keys.
                keys: Vec<Key> => Each<wire::Key>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Withdraws data that the requester has published; without keys, all of it.
            Unpublish = 8, UNPUBLISH = 10, fn unpublish(directives) -> () {
                [uid: u32 = u32::MAX => One<wire::Uint32>],
                /// The keys; empty: everything that the requester has published.
                keys: Vec<Key> => Each<wire::Key>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Starts a job. Answered with its namespace when all its processes have started. Gets of this namespace
            /// then find its data.
            Spawn = 9, SPAWN = 11, fn spawn(job) -> Namespace {
                /// Directives for the whole job.
                job: Vec<Info> => Many<wire::Info>,
                /// Applications.
                apps: Vec<App> => Many<wire::App>,
            }
            /// Queries facts about the system. If some are unknown, the status shows it.
            QueryInfo = 15, QUERY = 14, fn query(queries) -> Vec<Info> {
                /// The queries.
                queries: Vec<Query> => Many<wire::Query>,
            }
            /// Logs data, one info for each channel. Answered when the host has accepted it.
            Log = 16, LOG = 15, fn log(directives) -> () {
                [timestamp: Option<u64> = None => SinceRelease3<wire::Time>],
                /// The data, one info for each channel.
                data: Vec<Info> => Many<wire::Info>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Changes an allocation. The directive is one of [`crate::types::codes::alloc_directive`].
            Allocate = 17, ALLOCATE = 16, fn allocate(info) -> Vec<Info> {
                /// The change: one of [`crate::types::codes::alloc_directive`].
                directive: u8 => One<wire::AllocDirective>,
                /// Details.
                info: Vec<Info> => Many<wire::Info>,
            }
            /// Pauses, resumes, signals, ends ... processes. Without targets it means those of the requester's
            /// namespace.
            JobControl = 18, JOB_CONTROL = 17, fn job_control(directives) -> Vec<Info> {
                /// The processes; empty: those of the requester's namespace.
                targets: Vec<ProcId> => Many<wire::Proc>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Watches processes, files and nodes.
            Monitor = 19, MONITOR = 18, fn monitor(directives) -> Vec<Info> {
                /// The object to watch.
                monitor: Info => One<wire::Info>,
                /// The event to raise.
                error: Status => One<wire::Status>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Makes a credential.
            GetCredential = 20, GET_CREDENTIAL = 19, fn get_credential(directives) -> Credential {
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Checks a credential. Answered with the facts that it proves.
            ValidateCredential = 21, VALIDATE_CREDENTIAL = 20, fn validate_credential(directives) -> Vec<Info> {
                /// The credential.
                credential: Vec<u8> => One<wire::ByteObject>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Sends bytes to the standard input of processes. No bytes mean the end of the input. Answered when the
            /// host has accepted them, not when they are read.
            IofPush = 23, IOF_PUSH = 22, fn iof_push(directives) -> () {
                /// The receivers; the wildcard rank: all of the namespace.
                targets: Vec<ProcId> => Many<wire::Proc>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
                /// The bytes; none: the end of the input.
                bytes: Vec<u8> => One<wire::ByteObject>,
            }
            /// Registers for the data of a fabric. Answered with these data.
            FabricRegister = 30, FABRIC_REGISTER = 27, fn fabric_register(directives) -> Vec<Info> {
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Brings the data of a registered fabric up to date. Answered with these data. If the fabric's description
            /// can't be read, the answer has the status of the error, and the data as they were.
            FabricUpdate = 31, FABRIC_UPDATE = 28, fn fabric_update(index) -> Vec<Info> {
                /// The fabric's number: `PMIX_FABRIC_INDEX` in the answer to the registration.
                index: u64 => One<wire::Size>,
            }
            /// Defines, extends, reduces or deletes a named block of resources.
            ResourceBlock = 34, RESOURCE_BLOCK = 29, fn resource_block(directives) -> () {
                /// The change: one of [`crate::types::codes::resource_block_directive`].
                directive: u8 => Newer<One<wire::ResblockDirective>>,
                /// The name of the block.
                name: Option<Text> => One<wire::String>,
                /// The resources.
                units: Vec<ResourceUnit> => Newer<Many<wire::ResourceUnit>>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
            /// Controls a session.
            SessionControl = 35, SESSION_CONTROL = 30, fn session_control(directives) -> Vec<Info> {
                /// The session.
                session: u32 => One<wire::Uint32>,
                /// Directives.
                directives: Vec<Info> => Many<wire::Info>,
            }
        }
    };
}
pub(crate) use with_services;

/// Gives all requests to a macro, in short form: services, `bare` requests without a body, requests with a body of
/// their `own`, and requests that `share` one type. All entries have one form:
///
/// ```text
/// Name = command number, body as layout => results of the reply;       without a body: Name = command number => results;
/// ```
macro_rules! with_requests {
    ($macro:ident) => {
        $crate::proto::with_services! { [$crate::proto::services::with_others] $macro; }
    };
}
pub(super) use with_requests;

/// Adds the requests that are no services.
macro_rules! with_others {
    ($macro:ident; $(
        $(#$doc:tt)*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty { $($fields:tt)* }
    )*) => {
        $macro! {
            services { $(
                /// A service of the host: see the request of this name.
                $service = $code => $answer;
            )* }
            bare {
                /// Job information of the requester's namespace (REQ).
                JobInfo = 0 => Job;
                /// The client leaves in order (FINALIZE). Reply: a status, or the end of the connection.
                Finalize = 5 => ();
            }
            own {
                /// End processes (ABORT).
                Abort = 1, Abort as Abort => ();
                /// Values put since the last commit (COMMIT).
                Commit = 2, Commit as Commit => ();
                /// Barrier, with or without exchange of data (FENCENB).
                Fence = 3, Collective as Collective => ();
                /// Data of a process or a job (GETNB).
                Get = 4, Get as Get => Data;
                /// CONNECTNB. Clients of release 6.1 put their posted data behind the directives, as infos
                /// `pmix.pdata`. The reply has data of each namespace, under the wildcard rank.
                Connect = 10, Collective as Connecting => Jobs;
                /// DISCONNECTNB.
                Disconnect = 11, Collective as Collective => ();
                /// NOTIFY.
                Notify = 12, Notify as Notify => ();
                /// REGEVENTS. No codes: the default handler.
                RegisterEvents = 13, RegisterEvents as RegisterEvents => ();
                /// DEREGEVENTS. No reply at all.
                DeregisterEvents = 14, Vec<Status> as Rest<wire::Status> => ();
                /// IOF_PULL. The reply has the server's number for the pull.
                IofPull = 22, IofPull as IofPull => u64;
                /// GROUP_CONSTRUCT.
                GroupConstruct = 24, Group as Constructing => Group;
                /// GROUP_DESTRUCT.
                GroupDestruct = 28, Group as Destructing => ();
                /// IOF_DEREG.
                IofDeregister = 29, IofDeregister as IofDeregister => ();
                /// COMPUTE_DEVICE_DISTANCES.
                ComputeDistances = 32, ComputeDistances as ComputeDistances => Vec<DeviceDistance>;
                /// REFRESH_CACHE.
                RefreshCache = 33, ProcId as Whose => Vec<Kval>;
                /// RESOLVE_PEERS.
                ResolvePeers = 37, ResolvePeers as ResolvePeers => Vec<ProcId>;
                /// RESOLVE_NODE; `None` means every namespace. The reply has names of nodes.
                ResolveNode = 38, Option<Text> as One<wire::String> => Text;
                /// GDS_FALLBACK with the name of the requested module.
                StoreFallback = 39, Option<Text> as One<wire::String> => Job;
            }
            shared {
                /// GROUP_JOIN.
                GroupJoin = 25 => ();
                /// GROUP_INVITE.
                GroupInvite = 26 => ();
                /// GROUP_LEAVE.
                GroupLeave = 27 => ();
            }
        }
    };
}
pub(super) use with_others;
