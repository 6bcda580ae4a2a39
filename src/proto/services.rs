//! The services: requests of a process that its server passes to the host.
//!
//! [`with_services`] is the table. Each service has one entry:
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
//! | the command | [`command`](super::command) |
//! | the request's type and its bytes | [`service`](super::service) |
//! | the reply's bytes | [`reply`](super::reply) |
//! | random requests for the tests of the codec | `strategies` |
//! | the capability of a host | `server::interface::config` |
//! | the upcall and the form of its answer | `server::interface::services` |
//! | the method of `Host`, and its call | `runtime::host` |
//! | the methods of `Client` | `api::requests` |
//!
//! Source: PMIx Standard, chapters on publication, process management, queries, logging, allocation and security;
//! OpenPMIx wire protocol.

/// Gives the table of services to a macro.
macro_rules! with_services {
    ($macro:ident) => {
        $macro! {
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
        }
    };
}
pub(crate) use with_services;
