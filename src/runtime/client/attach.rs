use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::alone::job_of_one;
use super::link::Link;
use super::link_state::LinkState;
use super::readers::{Source, map_segment};
use super::received::ReceivedData;
use super::session::Session;
use crate::client::{Call, CallError, LossReason, Outcome};
use crate::os_error_hint::is_shortage;
use crate::proto::handshake::{
    Connect, HandshakeAnswer, INIT_BEGUN, Ids, Role, SECURITY_MUNGE, SECURITY_NATIVE, SECURITY_NONE, STORE_HASH,
    STORE_MODEX, ToolAnswer, native_credential,
};
use crate::proto::{RankData, Reply, Request};
use crate::ptl::{
    self, ClientEnvironment, Endpoint, EnvironmentError, Proof, Received, ServerAddress, ServerOffer, Stream,
    StreamError, StreamLimits, Trust,
};
use crate::runtime::shared::clock::{Clock, node_time, wait_ms};
use crate::runtime::shared::local::hostname;
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::runtime::shared::prover::{ProofError, Prover};
use crate::types::{AsStatus, Info, Key, Namespace, ProcId, Rank, Status, Text, Time};

/// How long a server may take to admit a client, unless the client sets another limit.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(60);

/// Why a process did not become a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No launcher started the process.
    #[error("{}", EnvironmentError::NotLaunched)]
    NotLaunched,
    /// A launcher started the process, but its environment variables do not lead to a server.
    #[error(transparent)]
    Environment(EnvironmentError),
    /// The launcher's server can't be reached.
    #[error("the launcher's server at {uri} can't be reached: {reason}; start the process through its launcher again")]
    ServerUnreachable {
        /// Its address.
        uri: String,
        /// Why not.
        reason: UnreachableReason,
    },
    /// The server demands a credential that this process can't get.
    #[error("the server at {uri} requires a munge credential (PMIX_SECURITY_MODE), but {reason}")]
    Unproven {
        /// Its address.
        uri: String,
        /// Why there is no proof.
        reason: ProofError,
    },
    /// The server refused this process.
    #[error(
        "the server at {uri} refused process {proc} with {status}; {}", advice(*.status)
    )]
    Refused {
        /// Its address.
        uri: String,
        /// The name that this process claims.
        proc: ProcId,
        /// Why.
        status: Status,
    },
}

/// MPI libraries take `ERR_UNREACH` for "no launcher": with it, each process of a job would run alone. So it stands
/// only for no launcher, and for an address without a listener, as in variables that an old job left behind.
impl AsStatus for ConnectError {
    fn status(&self) -> Status {
        match self {
            Self::NotLaunched => Status::ERR_UNREACH,
            Self::Environment(EnvironmentError::Missing { .. }) => Status::ERR_DATA_VALUE_NOT_FOUND,
            Self::Environment(EnvironmentError::NoServer { .. }) => Status::ERR_SERVER_NOT_AVAIL,
            Self::Environment(_) => Status::ERR_BAD_PARAM,
            Self::ServerUnreachable { reason: UnreachableReason::Connect(error), .. } if error.is_nobody_there() => {
                Status::ERR_UNREACH
            }
            Self::ServerUnreachable { reason, .. } if reason.is_shortage() => Status::ERR_OUT_OF_RESOURCE,
            Self::ServerUnreachable { .. } => Status::ERR_COMM_FAILURE,
            Self::Unproven { reason, .. } => reason.status(),
            Self::Refused { status, .. } => *status,
        }
    }
}

/// Why a server can't be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnreachableReason {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ptl::EndpointError),
    /// The connection broke.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The server closed the connection instead of answering.
    #[error("it closed the connection without an answer")]
    Closed,
    /// The server did not answer.
    #[error("it did not answer within {} seconds", .0.as_secs().saturating_add(u64::from(.0.subsec_nanos() > 0)))]
    TimedOut(Duration),
    /// The operating system refused to let this process wait.
    #[error("waiting for it failed: {0}")]
    Wait(#[from] io::Error),
    /// The bytes from the server are no answer.
    #[error("its message does not have the encoding that its address announces")]
    Garbled,
    /// The answer is a status that is no error: the peer is no server of PMIx.
    #[error("its answer is no status of a server")]
    NoServer,
    /// The server knows this process under another namespace.
    #[error("it described job {described:?} instead of this process's job")]
    OtherJob {
        /// The namespace in the server's answer.
        described: String,
    },
    /// The server demands a credential that this process can't get.
    #[error(transparent)]
    Unproven(#[from] ProofError),
    /// The connect message could not be written.
    #[error("the connect message can't be written for it")]
    Message,
}

impl UnreachableReason {
    /// Whether this process or the system has no descriptor or memory left.
    pub(super) fn is_shortage(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_shortage(),
            Self::Wait(reason) => is_shortage(reason),
            _ => false,
        }
    }

    /// Whether the time ran out.
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_timeout(),
            Self::TimedOut(_) => true,
            _ => false,
        }
    }
}

/// The name that the environment gives this process, if a launcher set it.
#[must_use]
pub fn launched_as<N: AsRef<OsStr>, V: AsRef<OsStr>>(environment: impl IntoIterator<Item = (N, V)>) -> Option<ProcId> {
    ClientEnvironment::parse_name(environment).ok()
}

/// Becomes a client of the server that the environment names. Without a prover, a server that demands munge can't be
/// used.
///
/// # Errors
/// [`ConnectError`].
pub fn connect<N, V>(
    environment: impl IntoIterator<Item = (N, V)>,
    time_max: Duration,
    prover: Option<Arc<dyn Prover>>,
) -> Result<Session, ConnectError>
where
    N: AsRef<OsStr>,
    V: AsRef<OsStr>,
{
    let begun = node_time();
    let environment = ClientEnvironment::parse(environment).map_err(|error| match error {
        EnvironmentError::NotLaunched => ConnectError::NotLaunched,
        error => ConnectError::Environment(error),
    })?;
    let server = match &prover {
        Some(_) => environment.server,
        None => environment.server.without_munge().map_err(ConnectError::Environment)?,
    };
    let uri = server.address.to_string();
    let attempt = Attempt { begun, clock: Clock::start(), time_max };
    let newcomer = Newcomer {
        role: Role::Client(environment.proc.clone()),
        server,
        fallback: environment.fallback,
        hostname: environment.hostname,
        info: Vec::new(),
        prover,
        trust: Trust::OwnAndRoot,
    };
    match attempt.join(&newcomer) {
        Ok(Joined::In(session)) => Ok(*session),
        Ok(Joined::Refused(status)) => Err(ConnectError::Refused { uri, proc: environment.proc, status }),
        Err(UnreachableReason::Unproven(reason)) => Err(ConnectError::Unproven { uri, reason }),
        Err(reason) => Err(ConnectError::ServerUnreachable { uri, reason }),
    }
}

/// The refusal of a server. A status that is no error comes from another program.
fn refused<T>(status: Status) -> Result<Joined<T>, UnreachableReason> {
    if status.is_error() { Ok(Joined::Refused(status)) } else { Err(UnreachableReason::NoServer) }
}

/// A process that wants to connect, and its server.
pub(super) struct Newcomer {
    pub(super) role: Role,
    pub(super) server: ServerOffer,
    /// Another address of the same server.
    pub(super) fallback: Option<ServerAddress>,
    /// The server's name for this node, if the environment has it.
    pub(super) hostname: Option<String>,
    /// Attributes that the process sends about itself.
    pub(super) info: Vec<Info>,
    /// Makes credentials of munge.
    pub(super) prover: Option<Arc<dyn Prover>>,
    /// The users whose servers may be trusted.
    pub(super) trust: Trust,
}

/// One attempt to connect, with the time it may take.
pub(super) struct Attempt {
    /// The time when Init began, on the node's clock, which the server reads too.
    begun: Option<Time>,
    clock: Clock,
    time_max: Duration,
}

/// The result of an introduction: what the newcomer makes of the connection, or a refusal.
pub(super) enum Joined<T> {
    In(Box<T>),
    Refused(Status),
}

/// An admitted connection, before its first message.
pub(super) struct Admitted {
    pub(super) stream: Stream,
    pub(super) peer_profile: PeerProfile,
    /// The name of the newcomer.
    pub(super) proc: ProcId,
    /// The name of the server.
    pub(super) server: ProcId,
    pub(super) index: u32,
    /// The bytes after the answer.
    pub(super) rest: Vec<u8>,
    /// Whether the kernel knows the server's user. It is one whom the newcomer trusts.
    pub(super) is_owner_known: bool,
}

/// A server's answer to a newcomer.
enum Greeted {
    Welcome {
        /// The name of the newcomer.
        proc: ProcId,
        /// The name of the server.
        server: ProcId,
        index: u32,
        /// The bytes after the answer.
        rest: Vec<u8>,
    },
    Refused(Status),
}

impl Attempt {
    pub(super) fn start(time_max: Duration) -> Self {
        Self { begun: None, clock: Clock::start(), time_max }
    }

    /// Connects, introduces the newcomer, and waits for its admission.
    pub(super) fn enter(&self, who: &Newcomer) -> Result<Joined<Admitted>, UnreachableReason> {
        let (mut stream, peer_profile) = self.reach(who)?;
        let hello = self.introduction(who, &peer_profile)?;
        // The first message of a connection is never refused by its queue.
        stream.queue(hello, None).map_err(|_| UnreachableReason::Message)?;
        let greeted = self.greet(who, &peer_profile, &mut stream)?;
        let Greeted::Welcome { proc, server, index, rest } = greeted else {
            let Greeted::Refused(status) = greeted else { return Err(UnreachableReason::Garbled) };
            return refused(status);
        };
        // The connection to a UNIX-domain socket has proven it.
        let is_owner_known = stream.carries_descriptors() || stream.check_tcp_server(who.trust)?;
        Ok(Joined::In(Box::new(Admitted { stream, peer_profile, proc, server, index, rest, is_owner_known })))
    }

    /// As [`Attempt::enter`], and makes a session with its source of values.
    pub(super) fn join(&self, who: &Newcomer) -> Result<Joined<Session>, UnreachableReason> {
        let admitted = match self.enter(who)? {
            Joined::In(admitted) => *admitted,
            Joined::Refused(status) => return Ok(Joined::Refused(status)),
        };
        let Admitted { stream, peer_profile, proc, server, index, rest, .. } = admitted;
        let known_as = who.hostname.clone().unwrap_or_else(hostname);
        let received = ReceivedData::new(known_as, peer_profile.dialect);
        let mut state = LinkState::new(stream, proc.clone(), index, peer_profile, received);
        state.feed(&rest);
        let link = Link::new(state, self.clock);
        let own = match self.open_store(who, &proc, &link)? {
            Ok(own) => own,
            Err(status) => return refused(status),
        };
        // Tools of every library reach the TCP address.
        let address = who.fallback.as_ref().unwrap_or(&who.server.address).clone();
        let session = Session::new(proc, server, who.hostname.clone(), own, link).at(address);
        Ok(Joined::In(Box::new(session)))
    }

    /// Waits for the answer to the introduction. Tools and clients get different forms of it.
    fn greet(
        &self,
        who: &Newcomer,
        peer_profile: &PeerProfile,
        stream: &mut Stream,
    ) -> Result<Greeted, UnreachableReason> {
        let mut bytes = Vec::new();
        loop {
            let greeted = match who.role.proc().filter(|_| who.role.is_answered_as_client(peer_profile.dialect.peer)) {
                Some(proc) => as_client(proc, &who.server.address.server, &bytes),
                None => as_tool(&who.role, &bytes)?,
            };
            match greeted {
                Some((Greeted::Welcome { proc, server, index, .. }, size)) => {
                    let rest = bytes.get(size..).unwrap_or_default().to_vec();
                    return Ok(Greeted::Welcome { proc, server, index, rest });
                }
                Some((refused @ Greeted::Refused(_), _)) => return Ok(refused),
                None => self.receive(stream, &mut bytes)?,
            }
        }
    }

    /// Connects to the server. Uses TCP if the server's UNIX-domain socket does not exist in this file system.
    fn reach(&self, who: &Newcomer) -> Result<(Stream, PeerProfile), UnreachableReason> {
        let server = &who.server;
        let limits = StreamLimits { descriptors_max: SEGMENTS_WAITING_MAX, ..StreamLimits::default() };
        let connect = |address: &ServerAddress| {
            let peer_profile = match address.endpoint {
                Endpoint::Unix(_) => PeerProfile::ours(),
                Endpoint::Tcp(_) => PeerProfile::of_reference(server.codec, server.version),
            };
            self.connect(&address.endpoint, limits, who.trust).map(|stream| (stream, peer_profile))
        };
        match (connect(&server.address), &who.fallback) {
            (Err(UnreachableReason::Connect(error)), Some(address)) if error.is_nothing_there() => connect(address),
            (outcome, _) => outcome,
        }
    }

    /// Connects. Tries again while the server's queue is full.
    fn connect(&self, endpoint: &Endpoint, limits: StreamLimits, trust: Trust) -> Result<Stream, UnreachableReason> {
        let mut tries_left = CONNECT_TRIES;
        loop {
            tries_left -= 1;
            let left = self.clock.until(Some(self.deadline())).unwrap_or(self.time_max);
            match Stream::connect_within(endpoint, limits, left, trust) {
                Err(error) if tries_left > 0 && error.may_pass() && self.clock.now() < self.deadline() => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Gets the session's source of values: the server's segment of the namespace, or else the job information from the
    /// server.
    fn open_store(
        &self,
        who: &Newcomer,
        proc: &ProcId,
        link: &Link,
    ) -> Result<Result<Option<Source>, Status>, UnreachableReason> {
        let namespace = &proc.namespace;
        let is_client = matches!(who.role, Role::Client(_));
        let is_ours = link.with(|state| state.peer_profile().is_ours) && is_client;
        let mut own = None;
        if is_ours {
            let is_announced = |state: &LinkState| state.is_segment_announced(namespace);
            if !link.wait_until(self.deadline(), is_announced) {
                return Err(self.timed_out_or(UnreachableReason::Closed));
            }
            let descriptor = link.with(|state| state.take_segment(namespace));
            let reader = descriptor.and_then(|descriptor| map_segment(namespace, descriptor));
            own = reader.map(|reader| Source { reader, is_servers: true });
        }
        if own.is_none() {
            let request = if is_ours { Request::StoreFallback(Some(Text::from(STORE_HASH))) } else { Request::JobInfo };
            if matches!(who.role, Role::Singleton(..)) {
                // Values from the server take precedence over these.
                link.with(|state| state.received.receive(&job_of_one(proc, &hostname())));
            }
            match self.ask_for_job(link, namespace, request) {
                Ok(()) => {}
                // A tool can work without job information; mostly there is none.
                Err(NoJob::Refused(_) | NoJob::Garbled) if !is_client => {}
                Err(NoJob::Refused(status)) if !is_ours => return Ok(Err(status)),
                // Every value can be requested from our own server.
                Err(_) if is_ours => {}
                Err(NoJob::Refused(_) | NoJob::Lost) => return Err(self.timed_out_or(UnreachableReason::Closed)),
                Err(NoJob::Garbled) => return Err(UnreachableReason::Garbled),
                Err(NoJob::OtherJob(described)) => return Err(UnreachableReason::OtherJob { described }),
            }
            let job = link.with(|state| state.received.job(namespace));
            own = job.map(|reader| Source { reader, is_servers: false });
        }
        let rank = proc.rank.process();
        Ok(Ok(own.map(|own| Source { reader: own.reader.of_process(rank), ..own })))
    }

    /// Requests the description of a process's job. `None`: the peer has none.
    pub(super) fn job_of(&self, proc: &ProcId, link: &Link) -> Result<Option<Source>, UnreachableReason> {
        match self.ask_for_job(link, &proc.namespace, Request::JobInfo) {
            Ok(()) => {}
            Err(NoJob::Refused(_)) => return Ok(None),
            Err(NoJob::Lost) => return Err(self.timed_out_or(UnreachableReason::Closed)),
            Err(NoJob::Garbled) => return Err(UnreachableReason::Garbled),
            Err(NoJob::OtherJob(described)) => return Err(UnreachableReason::OtherJob { described }),
        }
        let job = link.with(|state| state.received.job(&proc.namespace));
        Ok(job.map(|reader| Source { reader: reader.of_process(proc.rank.process()), is_servers: false }))
    }

    /// Requests the job's information and keeps it among the received values.
    fn ask_for_job(&self, link: &Link, namespace: &Namespace, request: Request) -> Result<(), NoJob> {
        let left = self.clock.until(Some(self.deadline())).unwrap_or(self.time_max);
        match link.call(Call::ExchangeWithin(request, left)) {
            Ok(Outcome::Reply(Reply::JobInfo { namespace: described, entries })) => {
                if described.as_bytes() != namespace.as_str().as_bytes() {
                    return Err(NoJob::OtherJob(described.to_string_lossy()));
                }
                let proc = ProcId::new(namespace.clone(), Rank::Wildcard);
                link.with(|state| state.received.receive(&[RankData { proc, entries }]));
                Ok(())
            }
            Err(CallError::Refused { status, .. }) => Err(NoJob::Refused(status)),
            Err(
                CallError::Lost { reason: LossReason::EndOfFile | LossReason::Broken, .. } | CallError::TimedOut { .. },
            ) => Err(NoJob::Lost),
            _ => Err(NoJob::Garbled),
        }
    }

    fn introduction(&self, who: &Newcomer, peer_profile: &PeerProfile) -> Result<Vec<u8>, UnreachableReason> {
        let (security, credential) = proof(who, peer_profile)?;
        let is_mapping = peer_profile.is_ours && matches!(who.role, Role::Client(_));
        let begun = self.begun.filter(|_| is_mapping);
        let begun = begun.map(|begun| Info::new(Key::from_static(INIT_BEGUN), begun.as_nanos()));
        let connect = Connect {
            security: Text::from(security),
            credential,
            role: who.role.clone(),
            version: Text::from(peer_profile.dialect.peer.to_string()),
            codec: Text::from(peer_profile.dialect.codec.generation.module_name()),
            described: peer_profile.dialect.codec.described,
            store: Text::from(if is_mapping { STORE_MODEX } else { STORE_HASH }),
            info: who.info.iter().cloned().chain(begun).collect(),
        };
        connect.encode().map_err(|_| UnreachableReason::Message)
    }

    /// Waits once and reads the bytes that arrived.
    fn receive(&self, stream: &mut Stream, bytes: &mut Vec<u8>) -> Result<(), UnreachableReason> {
        let writable = match stream.flush()? {
            ptl::Flushed::All => PollFlags::empty(),
            ptl::Flushed::Blocked => PollFlags::POLLOUT,
        };
        let timeout = wait_ms(self.clock.until(Some(self.deadline())));
        if timeout == 0 {
            return Err(UnreachableReason::TimedOut(self.time_max));
        }
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut watched = [PollFd::new(stream.as_fd(), PollFlags::POLLIN | writable)];
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(UnreachableReason::Wait(errno.into())),
        }
        let mut buffer = [0; ANSWER_BYTES_MAX];
        match stream.receive(&mut buffer)? {
            Received::Bytes(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Received::Nothing => {}
            Received::End => return Err(UnreachableReason::Closed),
        }
        Ok(())
    }

    fn deadline(&self) -> Time {
        Time::ZERO + self.time_max
    }

    fn timed_out_or(&self, other: UnreachableReason) -> UnreachableReason {
        if self.clock.now() >= self.deadline() { UnreachableReason::TimedOut(self.time_max) } else { other }
    }
}

/// The name and credential of the first working security module. Our own socket needs none: the kernel identifies the
/// peer.
fn proof(who: &Newcomer, peer_profile: &PeerProfile) -> Result<(&'static str, Vec<u8>), UnreachableReason> {
    let ids = Ids { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
    let native = || (SECURITY_NATIVE, native_credential(ids));
    if peer_profile.is_ours {
        return Ok(native());
    }
    let mut failure = ProofError::Absent;
    for proof in &who.server.proofs {
        match (proof, &who.prover) {
            (Proof::Native, _) => return Ok(native()),
            (Proof::None, _) => return Ok((SECURITY_NONE, Vec::new())),
            (Proof::Munge, None) => {}
            (Proof::Munge, Some(prover)) => match prover.credential() {
                Ok(credential) => return Ok((SECURITY_MUNGE, credential)),
                Err(error) => {
                    tracing::info!(%error, "munge gives no credential; the client tries the next method of the \
                     server's list");
                    failure = error;
                }
            },
        }
    }
    Err(failure.into())
}

/// The answer to a client; `None` while it is incomplete.
fn as_client(proc: &ProcId, server: &ProcId, bytes: &[u8]) -> Option<(Greeted, usize)> {
    let (answer, size) = HandshakeAnswer::decode(bytes)?;
    let greeted = match answer {
        HandshakeAnswer::Accepted { index } => {
            Greeted::Welcome { proc: proc.clone(), server: server.clone(), index, rest: Vec::new() }
        }
        HandshakeAnswer::Refused(status) => Greeted::Refused(status),
    };
    Some((greeted, size))
}

/// The answer to a tool; `None` while it is incomplete. Tools have no slot.
fn as_tool(role: &Role, bytes: &[u8]) -> Result<Option<(Greeted, usize)>, UnreachableReason> {
    let Some((answer, size)) = ToolAnswer::decode(bytes, role).map_err(|_| UnreachableReason::Garbled)? else {
        return Ok(None);
    };
    let greeted = match answer {
        ToolAnswer::Accepted { assigned, server, credential: Status::SUCCESS } => {
            let proc = assigned.or_else(|| role.proc().cloned()).ok_or(UnreachableReason::Garbled)?;
            Greeted::Welcome { proc, server, index: 0, rest: Vec::new() }
        }
        ToolAnswer::Accepted { credential, .. } => Greeted::Refused(credential),
        ToolAnswer::Refused(status) => Greeted::Refused(status),
    };
    Ok(Some((greeted, size)))
}

/// Why the job's information is missing.
enum NoJob {
    Refused(Status),
    /// The connection ended, or the time ran out.
    Lost,
    /// The reply is no job information.
    Garbled,
    /// The reply is about a job of this name.
    OtherJob(String),
}

/// Segments that may wait to be mapped: this process's own, and those of connected jobs.
const SEGMENTS_WAITING_MAX: usize = 16;
/// As many as OpenPMIx tries.
const CONNECT_TRIES: u32 = 10;
/// The answer takes eight bytes; the bytes after it are read in the same call.
const ANSWER_BYTES_MAX: usize = 512;

/// Advice after a refusal.
const fn advice(status: Status) -> &'static str {
    match status {
        Status::ERR_EXISTS => {
            "another process goes by this name; run this one under the name that its own launcher gave it"
        }
        Status::ERR_OUT_OF_RESOURCE => "it has as many clients as it takes; end some, or raise its limits",
        _ => "its launcher must register the process, with the user and group it runs as, before it starts",
    }
}
