use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::clock::{Clock, node_time, wait_ms};
use super::link::Link;
use super::link_state::LinkState;
use super::local::hostname;
use super::manners::Manners;
use super::readers::{Source, map_segment};
use super::received::ReceivedData;
use super::session::Session;
use crate::client::{Call, CallError, LossReason, Outcome};
use crate::gds::AsStatus;
use crate::proto::handshake::{
    Answer, Connect, INIT_BEGUN, Ids, Role, SECURITY_NATIVE, STORE_HASH, STORE_MODEX, native_credential,
};
use crate::proto::{RankData, Reply, Request};
use crate::ptl::{
    self, ClientEnvironment, Endpoint, EnvironmentError, Received, ServerOffer, Stream, StreamError, StreamLimits,
};
use crate::types::{Info, Key, Namespace, ProcId, Rank, Status, Text, Time};

/// How long a server may take to admit a client unless the client says otherwise.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(60);

/// Why a process did not become a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No launcher is at work: the process is alone.
    #[error("{}", EnvironmentError::NotLaunched)]
    NotLaunched,
    /// A launcher is at work, but what it put into the environment does not lead to a server.
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
    /// The server does not want this process.
    #[error(
        "the server at {uri} refused process {proc} with {status}; {}", advice(*.status)
    )]
    Refused {
        /// Its address.
        uri: String,
        /// Who this process claims to be.
        proc: ProcId,
        /// Why.
        status: Status,
    },
}

/// Never `ERR_UNREACH` where a launcher is at work: MPI libraries take it for "alone", and each of a job's processes would
/// run for itself.
impl AsStatus for ConnectError {
    fn status(&self) -> Status {
        match self {
            Self::NotLaunched => Status::ERR_UNREACH,
            Self::Environment(EnvironmentError::Missing { .. }) => Status::ERR_DATA_VALUE_NOT_FOUND,
            Self::Environment(EnvironmentError::NoServer { .. }) => Status::ERR_SERVER_NOT_AVAIL,
            Self::Environment(_) => Status::ERR_BAD_PARAM,
            Self::ServerUnreachable { .. } => Status::ERR_COMM_FAILURE,
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
    Connect(#[from] ptl::ConnectError),
    /// The connection broke.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The server closed the connection instead of answering.
    #[error("it closed the connection without an answer")]
    Closed,
    /// The server did not answer.
    #[error("it did not answer within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The operating system would not let this process wait.
    #[error("waiting for it failed: {0}")]
    Wait(#[from] io::Error),
    /// What the server sent is no answer.
    #[error("what it sent is no PMIx message of the encoding that its address stands for")]
    Garbled,
    /// It knows this process under another name.
    #[error("it told of job {told:?} instead of this process's")]
    OtherJob {
        /// The job it told of.
        told: String,
    },
    /// The connect message could not be written.
    #[error("the connect message can't be written for it")]
    Message,
}

/// Becomes a client of the server that the environment names.
///
/// # Errors
/// [`ConnectError`].
pub fn connect<N, V>(environment: impl IntoIterator<Item = (N, V)>, time_max: Duration) -> Result<Session, ConnectError>
where
    N: AsRef<OsStr>,
    V: AsRef<OsStr>,
{
    let begun = node_time();
    let environment = ClientEnvironment::parse(environment).map_err(|error| match error {
        EnvironmentError::NotLaunched => ConnectError::NotLaunched,
        error => ConnectError::Environment(error),
    })?;
    let uri = environment.server.address.to_string();
    let attempt = Attempt { begun, clock: Clock::start(), time_max };
    match attempt.join(&environment) {
        Ok(Joined::Session(session)) => Ok(*session),
        Ok(Joined::Refused(status)) => Err(ConnectError::Refused { uri, proc: environment.proc, status }),
        Err(reason) => Err(ConnectError::ServerUnreachable { uri, reason }),
    }
}

/// One attempt to connect, with the time it may take.
struct Attempt {
    /// When Init began, on the clock that the server reads, too.
    begun: Option<Time>,
    clock: Clock,
    time_max: Duration,
}

enum Joined {
    Session(Box<Session>),
    Refused(Status),
}

impl Attempt {
    fn join(&self, environment: &ClientEnvironment) -> Result<Joined, UnreachableReason> {
        let ServerOffer { address, codec, version } = &environment.server;
        let manners = match address.endpoint {
            Endpoint::Unix(_) => Manners::ours(),
            Endpoint::Tcp(_) => Manners::of_reference(*codec, *version),
        };
        let limits = StreamLimits { descriptors_max: SEGMENTS_WAITING_MAX, ..StreamLimits::default() };
        let mut stream = self.connect(&address.endpoint, limits)?;
        let hello = self.introduction(&environment.proc, &manners).ok_or(UnreachableReason::Message)?;
        // The first message of a connection is never refused by its queue.
        stream.queue(hello, None).map_err(|_| UnreachableReason::Message)?;
        let mut early = Vec::new();
        let index = loop {
            match Answer::decode(&early) {
                Some((Answer::Accepted { index }, size)) => {
                    early.drain(..size);
                    break index;
                }
                Some((Answer::Refused(status), _)) => return Ok(Joined::Refused(status)),
                None => self.receive(&mut stream, &mut early)?,
            }
        };
        let hostname = environment.hostname.clone().unwrap_or_else(hostname);
        let received = ReceivedData::new(hostname, manners.dialect);
        let mut state = LinkState::new(stream, environment.proc.clone(), index, manners, received);
        state.feed(&early);
        self.open_store(environment, Link::new(state, self.clock))
    }

    /// Connects, again if the server's queue is full for a moment.
    fn connect(&self, endpoint: &Endpoint, limits: StreamLimits) -> Result<Stream, UnreachableReason> {
        let mut tries_left = CONNECT_TRIES;
        loop {
            tries_left -= 1;
            let left = self.clock.until(Some(self.deadline())).unwrap_or(self.time_max);
            match Stream::connect_within(endpoint, limits, left) {
                Err(error) if tries_left > 0 && error.may_pass() && self.clock.now() < self.deadline() => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Gets what the session reads: the server's segment of the namespace, else what the server tells of the job.
    fn open_store(&self, environment: &ClientEnvironment, link: Link) -> Result<Joined, UnreachableReason> {
        let namespace = &environment.proc.namespace;
        let is_ours = link.with(|state| state.manners().is_ours);
        let mut own = None;
        if is_ours {
            let is_told = |state: &LinkState| state.is_segment_announced(namespace);
            if !link.wait_until(self.deadline(), is_told) {
                return Err(self.timed_out_or(UnreachableReason::Closed));
            }
            let descriptor = link.with(|state| state.take_segment(namespace));
            let reader = descriptor.and_then(|descriptor| map_segment(namespace, descriptor));
            own = reader.map(|reader| Source { reader, is_servers: true });
        }
        if own.is_none() {
            let request = if is_ours { Request::StoreFallback(Some(Text::from(STORE_HASH))) } else { Request::JobInfo };
            match self.ask_for_job(&link, namespace, request) {
                Ok(()) => {}
                Err(NoJob::Refused(status)) if !is_ours => return Ok(Joined::Refused(status)),
                // Under our own server every value can be asked for.
                Err(_) if is_ours => {}
                Err(NoJob::Refused(_) | NoJob::Lost) => return Err(self.timed_out_or(UnreachableReason::Closed)),
                Err(NoJob::Garbled) => return Err(UnreachableReason::Garbled),
                Err(NoJob::OtherJob(told)) => return Err(UnreachableReason::OtherJob { told }),
            }
            let told = link.with(|state| state.received.job(namespace));
            own = told.map(|reader| Source { reader, is_servers: false });
        }
        let rank = environment.proc.rank.process();
        let own = own.map(|own| Source { reader: own.reader.of_process(rank), ..own });
        let server = environment.server.address.server.clone();
        let session = Session::new(environment.proc.clone(), server, environment.hostname.clone(), own, link);
        Ok(Joined::Session(Box::new(session)))
    }

    /// Has the server tell of the job, which is kept with what else it tells.
    fn ask_for_job(&self, link: &Link, namespace: &Namespace, request: Request) -> Result<(), NoJob> {
        let left = self.clock.until(Some(self.deadline())).unwrap_or(self.time_max);
        match link.call(Call::ExchangeWithin(request, left)) {
            Ok(Outcome::Reply(Reply::JobInfo { namespace: told, entries })) => {
                if told.as_bytes() != namespace.as_str().as_bytes() {
                    return Err(NoJob::OtherJob(told.to_string_lossy()));
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

    fn introduction(&self, proc: &ProcId, manners: &Manners) -> Option<Vec<u8>> {
        let ids = Ids { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
        let begun = self.begun.filter(|_| manners.is_ours);
        let connect = Connect {
            security: Text::from(SECURITY_NATIVE),
            credential: native_credential(ids),
            role: Role::Client(proc.clone()),
            version: Text::from(manners.dialect.peer.to_string()),
            codec: Text::from(manners.dialect.codec.generation.module_name()),
            described: manners.dialect.codec.described,
            store: Text::from(if manners.is_ours { STORE_MODEX } else { STORE_HASH }),
            info: begun.map(|begun| Info::new(Key::from_static(INIT_BEGUN), begun.as_nanos())).into_iter().collect(),
        };
        connect.encode().ok()
    }

    /// Waits once and reads what came.
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

/// Why nothing is known of the job.
enum NoJob {
    Refused(Status),
    /// The connection ended, or the time.
    Lost,
    /// What came is no answer.
    Garbled,
    /// The answer is about a job of this name.
    OtherJob(String),
}

/// Segments that may wait to be mapped: one's own, and those of jobs one got connected to.
const SEGMENTS_WAITING_MAX: usize = 16;
/// As often as the reference does.
const CONNECT_TRIES: u32 = 10;
/// The answer takes eight bytes; what follows it is read with it.
const ANSWER_BYTES_MAX: usize = 512;

/// What to do about a refusal.
const fn advice(status: Status) -> &'static str {
    match status {
        Status::ERR_OUT_OF_RESOURCE => "it has as many clients as it takes; end some, or raise its limits",
        _ => "its launcher must register the process, with the user and group it runs as, before it starts",
    }
}
