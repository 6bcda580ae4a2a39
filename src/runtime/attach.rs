use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::clock::{Clock, node_time, wait_ms};
use super::lines::{Lines, message_buffer};
use super::link::Link;
use super::link_state::LinkState;
use super::session::{Session, map_segment};
use crate::bfrops::Codec;
use crate::client::{Call, Config, Outcome};
use crate::gds::AsStatus;
use crate::proto::handshake::{
    Answer, Connect, INIT_BEGUN, Ids, Role, SECURITY_NATIVE, STORE_MODEX, native_credential,
};
use crate::proto::{Dialect, RankData, Reply, Request, Version};
use crate::ptl::{self, ClientEnvironment, EnvironmentError, Received, Stream, StreamError, StreamLimits};
use crate::types::{Info, Key, ProcId, Rank, Status, Text, Time};

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
        let limits = StreamLimits { descriptors_max: SEGMENTS_WAITING_MAX, ..StreamLimits::default() };
        let mut stream = Stream::connect(&environment.server.address.endpoint, limits)?;
        let hello = introduction(&environment.proc, self.begun).ok_or(UnreachableReason::Message)?;
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
        let mut inbox = message_buffer();
        inbox.feed(&early);
        let lines = Lines::new(Dialect::OWN, index);
        let state = LinkState::new(stream, environment.proc.clone(), lines, inbox, Config::default());
        self.open_store(environment, Link::new(state, self.clock))
    }

    /// Waits for the segment of the namespace. A process that gets none it can read asks for the job's data instead.
    fn open_store(&self, environment: &ClientEnvironment, link: Link) -> Result<Joined, UnreachableReason> {
        let namespace = &environment.proc.namespace;
        let is_told = |state: &LinkState| state.is_segment_announced(namespace);
        if !link.wait_until(self.deadline(), is_told) {
            return Err(self.timed_out_or(UnreachableReason::Closed));
        }
        let descriptor = link.with(|state| state.take_segment(namespace));
        let own = descriptor.and_then(|descriptor| map_segment(namespace, descriptor));
        let own = own.map(|reader| reader.of_process(environment.proc.rank.process()));
        if own.is_none() {
            let job_info = link.call(Call::Exchange(Request::StoreFallback(Some(Text::from("hash")))));
            if let Ok(Outcome::Reply(Reply::JobInfo { entries, .. })) = job_info {
                let proc = ProcId::new(namespace.clone(), Rank::Wildcard);
                link.with(|state| state.cache.receive(&[RankData { proc, entries }]));
            }
        }
        let session = Session::new(
            environment.proc.clone(),
            environment.server.address.server.clone(),
            environment.hostname.clone(),
            own,
            link,
        );
        Ok(Joined::Session(Box::new(session)))
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

fn introduction(proc: &ProcId, begun: Option<Time>) -> Option<Vec<u8>> {
    let ids = Ids { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
    let connect = Connect {
        security: Text::from(SECURITY_NATIVE),
        credential: native_credential(ids),
        role: Role::Client(proc.clone()),
        version: Text::from(Version::OWN.to_string()),
        codec: Text::from(Codec::V41.generation.module_name()),
        described: Codec::V41.described,
        store: Text::from(STORE_MODEX),
        info: begun.map(|begun| Info::new(Key::from_static(INIT_BEGUN), begun.as_nanos())).into_iter().collect(),
    };
    connect.encode().ok()
}

/// Segments that may wait to be mapped: one's own, and those of jobs one got connected to.
const SEGMENTS_WAITING_MAX: usize = 16;
/// The answer takes eight bytes; what follows it is read with it.
const ANSWER_BYTES_MAX: usize = 512;

/// What to do about a refusal.
const fn advice(status: Status) -> &'static str {
    match status {
        Status::ERR_OUT_OF_RESOURCE => "it has as many clients as it takes; end some, or raise its limits",
        _ => "its launcher must register the process, with the user and group it runs as, before it starts",
    }
}
