//! Tools: processes that choose their server themselves, and singletons, which take the node's system server.

mod search;
mod wait;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use self::search::{Chosen, Places};
pub use self::wait::{Look, wait_for_server};
use super::attach::{self, Admitted, Attempt, CONNECT_TIME_MAX, ConnectError, Joined, Newcomer, UnreachableReason};
use super::session::Session;
use crate::keys;
use crate::proto::Version;
use crate::proto::handshake::{Ids, Role};
use crate::ptl::rendezvous::RendezvousError;
use crate::ptl::{AddressError, ClientEnvironment, Endpoint, Proof, Trust};
use crate::runtime::shared::clock::{Clock, SharedTime};
use crate::runtime::shared::launcher_end::ParentConnection;
use crate::runtime::shared::local::hostname;
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::runtime::shared::prover::Prover;
use crate::types::{AsStatus, Info, InfoFlags, Key, Namespace, ProcId, Status, Time, Value};

/// A tool's name, and how to find its server. The first given one counts, in this order: file, address, process number,
/// namespace, system server. Without any, it is the server that started this process, or else the first server in the
/// directories that admits the tool.
#[derive(Clone, Debug, Default)]
pub struct ToolDirections {
    /// The tool's name; without one the server chooses it.
    pub name: Option<ProcId>,
    /// Whether it starts jobs and has processes of its own.
    pub is_launcher: bool,
    /// A rendezvous file.
    pub file: Option<PathBuf>,
    /// The server's address, `file:` and the path of a rendezvous file, or a name that the parameter
    /// `modex_server_NAME` has.
    pub address: Option<String>,
    /// The server's process number.
    pub pid: Option<u32>,
    /// The server's namespace.
    pub namespace: Option<Namespace>,
    /// The kind of the node's server.
    pub system: SystemServer,
    /// The name of this node in the names of the system's files; without one that of the kernel.
    pub hostname: Option<String>,
    /// Directory of the session's files. Directories below it are searched too.
    pub session_tmpdir: Option<PathBuf>,
    /// Directory of the node's files.
    pub system_tmpdir: Option<PathBuf>,
    /// Number of retries while the server is missing.
    pub retries: u32,
    /// Time before each retry.
    pub retry_delay: Duration,
    /// How long the tool may take to find its server and be admitted, with all retries. If not given, a server has 20
    /// seconds to admit the tool, and 60 if it has started this process.
    pub time_max: Option<Duration>,
    /// Attributes for the server's host.
    pub info: Vec<Info>,
    /// Makes credentials of munge, by which the tool proves its user to a server on another machine.
    pub prover: Option<Arc<dyn Prover>>,
    /// Whether several servers in the directories are an error. Otherwise the first that admits the tool is taken.
    pub is_choice_refused: bool,
}

/// The kind of the node's servers that a tool wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemServer {
    /// No particular one.
    #[default]
    Any,
    /// The system server if there is one that admits the tool.
    First,
    /// The system server alone.
    Only,
    /// The scheduler's.
    Scheduler,
    /// The system controller's.
    Controller,
}

/// Why a tool could not connect to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// No living server has a file.
    #[error("no server that admits tools was found below {}; start one, or name its address", places.join(" and "))]
    NoServer {
        /// The searched directories.
        places: Vec<String>,
    },
    /// The named process has no server.
    #[error(
        "process {pid} {}: none of its files was found below {}; name the process that serves the job (its `modex \
         run` or its launcher's daemon), or set TMPDIR to that process's temporary directory",
        if *is_there { "has no server that admits tools" } else { "does not run" },
        places.join(" and ")
    )]
    NoServerOf {
        /// The process number.
        pid: u32,
        /// Whether such a process exists.
        is_there: bool,
        /// The searched directories.
        places: Vec<String>,
    },
    /// There are several servers.
    #[error("several servers admit tools: {}; choose one by its process number, namespace or file", servers.join(", "))]
    Ambiguous {
        /// Their addresses.
        servers: Vec<String>,
    },
    /// No server in the directories admits this tool.
    #[error("none of the servers {} admits this tool; the last one: {last}", servers.join(", "))]
    NoneAdmits {
        /// Their addresses.
        servers: Vec<String>,
        /// The error of the last one.
        last: Box<ToolError>,
    },
    /// All servers belong to other users than this one and root, and none was named.
    #[error(
        "{} belongs to a server of user {owner}; to use it, name the server by its process number, namespace, file or \
         address",
        path.display()
    )]
    OthersServers {
        /// The file of one of them.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// The named file can't be used.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The address can't be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No parameter names this server.
    #[error("{name:?} is no address, and no parameter modex_server_{name} is set{}", hints(known, complaints))]
    UnknownName {
        /// The name.
        name: String,
        /// The names that parameters have.
        known: Vec<String>,
        /// Why lines of the files of parameters do not count.
        complaints: Vec<String>,
    },
    /// A parameter names this server with an address that can't be read.
    #[error("the server {name} ({place}) has no address: {source}")]
    NamedAddress {
        /// The name.
        name: String,
        /// The variable, or the file and the line.
        place: String,
        /// The error in the address.
        source: AddressError,
    },
    /// The release of the server is too old.
    #[error("the server at {address} has release {version}; tools need a server of release 3.0 or later")]
    TooOld {
        /// Its address.
        address: String,
        /// Its release.
        version: Version,
    },
    /// The server can't be reached.
    #[error("the server at {address} can't be reached: {reason}")]
    Unreachable {
        /// Its address.
        address: String,
        /// Why not.
        reason: UnreachableReason,
    },
    /// The server refused this tool.
    #[error("the server at {address} refused this tool with {status}{}", advice(*status))]
    Refused {
        /// Its address.
        address: String,
        /// Why.
        status: Status,
    },
    /// Nothing honours a required info.
    #[error("nothing honours the required info {key:?}: {reason}; leave it out, or do not require it")]
    Unhonoured {
        /// Its key.
        key: Key,
        /// Why no host gets it.
        reason: &'static str,
    },
    /// The tool that started this process would have the rights of this process's user.
    #[error("the user of the tool {server} is unknown; start this process on the machine of the tool")]
    UnprovenParent {
        /// The tool.
        server: ProcId,
    },
    /// The tool that started this process has given the address of its UNIX-domain socket.
    #[error("the tool that has started this process can't be served at {address}; give its TCP address instead")]
    ParentWithoutTcp {
        /// The address.
        address: String,
    },
    /// The server that started this process could not be used.
    #[error(transparent)]
    Started(ConnectError),
}

const fn advice(status: Status) -> &'static str {
    match status {
        Status::ERR_INVALID_CRED => "; on another machine than the server's, a tool needs munge to prove its user",
        _ => "",
    }
}

/// The end of a message about an unknown name.
fn hints(known: &[String], complaints: &[String]) -> String {
    let names = match known {
        [] => "; no server has a name".to_owned(),
        names => format!("; names are {}", names.join(", ")),
    };
    complaints.iter().fold(names, |text, complaint| format!("{text}; {complaint}"))
}

impl AsStatus for ToolError {
    fn status(&self) -> Status {
        match self {
            Self::Refused { status, .. } => *status,
            Self::Address(_) | Self::UnknownName { .. } | Self::NamedAddress { .. } => Status::ERR_BAD_PARAM,
            Self::TooOld { .. } | Self::Unhonoured { .. } | Self::ParentWithoutTcp { .. } => Status::ERR_NOT_SUPPORTED,
            Self::UnprovenParent { .. } => Status::ERR_INVALID_CRED,
            Self::Started(error) => error.status(),
            Self::NoneAdmits { last, .. } => last.status(),
            Self::Unreachable { reason, .. } if reason.is_shortage() => Status::ERR_OUT_OF_RESOURCE,
            Self::Unreachable { reason, .. } if reason.is_timeout() => Status::ERR_TIMEOUT,
            Self::NoServer { .. }
            | Self::NoServerOf { .. }
            | Self::Ambiguous { .. }
            | Self::OthersServers { .. }
            | Self::Rendezvous(_)
            | Self::Unreachable { .. } => Status::ERR_UNREACH,
        }
    }
}

/// Connects a tool. Servers to which it is `attached` are no candidates, unless the directions name one.
///
/// # Errors
/// [`ToolError`].
pub fn connect_tool(
    directions: &ToolDirections,
    environment: &[(OsString, OsString)],
    attached: &[ProcId],
) -> Result<Session, ToolError> {
    let places = Places::of(directions, environment)?;
    let time = directions.time_max.map(SharedTime::begin);
    let left = || time.as_ref().map(SharedTime::left);
    let mut retries = directions.retries;
    loop {
        match connect_once(directions, &places, environment, attached, left()) {
            Err(error) if retries > 0 && left() != Some(Duration::ZERO) && may_come(&error) => {
                retries -= 1;
                sleep(directions.retry_delay.min(left().unwrap_or(Duration::MAX)));
            }
            outcome => return outcome,
        }
    }
}

impl ToolDirections {
    /// Refuses a required info that no host gets, for `reason`.
    ///
    /// # Errors
    /// [`ToolError::Unhonoured`].
    pub fn refuse_required(&self, reason: &'static str) -> Result<(), ToolError> {
        match self.info.iter().find(|info| info.flags().contains(InfoFlags::REQUIRED)) {
            None => Ok(()),
            Some(Info { key, .. }) => Err(ToolError::Unhonoured { key: key.clone(), reason }),
        }
    }
}

/// Connects to the tool that started this process. The connection is for a server of this process, which serves the
/// tool there.
///
/// # Errors
/// [`ToolError`].
pub fn connect_to_parent(
    directions: &ToolDirections,
    environment: &[(OsString, OsString)],
) -> Result<ParentConnection, ToolError> {
    let places = Places::of(directions, environment)?;
    let parent = places.chosen(directions)?.ok_or(ToolError::NoServer { places: Vec::new() })?;
    if matches!(parent.offer.address.endpoint, Endpoint::Unix(_)) {
        return Err(ToolError::ParentWithoutTcp { address: parent.offer.address.to_string() });
    }
    // This process serves the tool as one of its own user.
    let parent = Chosen { trust: Trust::OwnAndRoot, ..parent };
    let time_max = directions.time_max.unwrap_or(TOOL_TIME_MAX);
    let entered = enter(directions, parent, time_max, Attempt::enter)?;
    let Admitted { stream, peer_profile, server, rest, is_owner_known, .. } = entered;
    if !is_owner_known {
        return Err(ToolError::UnprovenParent { server });
    }
    let PeerProfile { dialect, message_bytes_max, .. } = peer_profile;
    Ok(ParentConnection { stream, dialect, message_bytes_max, parent: server, rest })
}

/// Connects a process without a launcher to the node's system server. `None`: there is no such server, or it refuses.
#[must_use]
pub fn connect_singleton(environment: &[(OsString, OsString)]) -> Option<Session> {
    let server = Places::of(&ToolDirections::default(), environment).ok()?.system_server().ok()?;
    let proc = ProcId::new(Namespace::new(&format!("singleton.{}.{}", hostname(), std::process::id())).ok()?, 0);
    match enter_as(Role::Singleton(own_ids(), proc), server, Vec::new(), None, CONNECT_TIME_MAX, Attempt::join) {
        Ok(session) => Some(session),
        Err(error) => {
            tracing::info!(%error, "this process has no launcher, and the system server refuses it; it runs alone");
            None
        }
    }
}

/// The name of the server that the directions lead to, without connecting. `None` if it is the server that started this
/// process.
///
/// # Errors
/// [`ToolError`].
pub fn locate(directions: &ToolDirections, environment: &[(OsString, OsString)]) -> Result<Option<ProcId>, ToolError> {
    let places = Places::of(directions, environment)?;
    Ok(places.chosen(directions)?.map(|server| server.offer.address.server))
}

/// The address of the tool that started this one, if a tool did.
#[must_use]
pub fn parent_address(environment: &[(OsString, OsString)]) -> Option<String> {
    let found = environment.iter().rev().find(|(name, _)| name.to_str() == Some(PARENT_URI));
    found.and_then(|(_, address)| address.to_str()).filter(|address| !address.is_empty()).map(str::to_owned)
}

fn connect_once(
    directions: &ToolDirections,
    places: &Places,
    environment: &[(OsString, OsString)],
    attached: &[ProcId],
    left: Option<Duration>,
) -> Result<Session, ToolError> {
    let clock = Clock::start();
    let time_max = left.unwrap_or(TOOL_TIME_MAX);
    let rest_of = |limit: Duration| clock.until(Some(Time::ZERO + limit)).unwrap_or(limit);
    if let Some(server) = places.chosen(directions)? {
        return join(directions, server, time_max);
    }
    let is_new = |server: &Chosen| !attached.contains(&server.offer.address.server);
    if directions.system == SystemServer::First
        && let Some(server) = places.system_server().ok().filter(is_new)
    {
        match join(directions, server, (time_max / 2).min(CANDIDATE_TIME_MAX)) {
            Ok(session) => return Ok(session),
            Err(error) => tracing::info!(%error, "the tool searches for another server than the system server"),
        }
    }
    if let Some(server) = starter_of_other(directions, environment).filter(is_new) {
        return join(directions, server, rest_of(time_max));
    }
    if !is_starter_attached(environment, attached) {
        // A launched process introduces itself without infos.
        if ClientEnvironment::parse(environment.iter().map(|(name, value)| (name, value))).is_ok() {
            directions.refuse_required("this process is a rank of a job")?;
        }
        let time_max = rest_of(left.unwrap_or(CONNECT_TIME_MAX));
        match attach::connect(environment.iter().map(|(name, value)| (name, value)), time_max, None) {
            Err(ConnectError::NotLaunched) => {}
            outcome => return outcome.map_err(ToolError::Started),
        }
    }
    // The search has the rest of the time.
    join_first(directions, places.candidates(attached, directions.is_choice_refused)?, rest_of(time_max))
}

/// Connects to the first server that admits the tool.
fn join_first(directions: &ToolDirections, candidates: Vec<Chosen>, time_max: Duration) -> Result<Session, ToolError> {
    let clock = Clock::start();
    let mut servers = Vec::new();
    let mut left = candidates.len();
    for server in candidates {
        left -= 1;
        let time_left = clock.until(Some(Time::ZERO + time_max)).unwrap_or(time_max);
        // A stopped server must not use up the time of the others.
        let share = if left == 0 { time_left } else { (time_left / 2).min(CANDIDATE_TIME_MAX) };
        servers.push(server.offer.address.to_string());
        let error = match join(directions, server, share) {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        let is_over = left == 0 || clock.until(Some(Time::ZERO + time_max)).is_some_and(|left| left.is_zero());
        if is_over || error.status() == Status::ERR_OUT_OF_RESOURCE {
            servers.truncate(search::SERVERS_TOLD_MAX);
            return Err(if servers.len() == 1 { error } else { ToolError::NoneAdmits { servers, last: error.into() } });
        }
        tracing::info!(%error, "the tool tries the next server");
    }
    Err(ToolError::NoServer { places: Vec::new() })
}

/// Whether the server that started this process is one of these.
fn is_starter_attached(environment: &[(OsString, OsString)], attached: &[ProcId]) -> bool {
    let found = ClientEnvironment::parse(environment.iter().map(|(name, value)| (name, value)));
    found.is_ok_and(|found| attached.contains(&found.server.address.server))
}

/// The server that started this process, if the tool's name differs from the process's. The process then connects as a
/// tool.
fn starter_of_other(directions: &ToolDirections, environment: &[(OsString, OsString)]) -> Option<Chosen> {
    let name = directions.name.as_ref()?;
    let found = ClientEnvironment::parse(environment.iter().map(|(name, value)| (name, value))).ok()?;
    let offer = found.server.without_munge().ok()?;
    (found.proc != *name).then_some(Chosen { offer, trust: Trust::OwnAndRoot })
}

fn join(directions: &ToolDirections, server: Chosen, time_max: Duration) -> Result<Session, ToolError> {
    enter(directions, server, time_max, Attempt::join)
}

/// The way in which a newcomer uses its connection.
type Entrance<T> = fn(&Attempt, &Newcomer) -> Result<Joined<T>, UnreachableReason>;

fn enter<T>(
    directions: &ToolDirections,
    server: Chosen,
    time_max: Duration,
    entrance: Entrance<T>,
) -> Result<T, ToolError> {
    let join_with =
        |prover, time_max| enter_as(role(directions), server.clone(), about(directions), prover, time_max, entrance);
    // A server of another user could use the credential elsewhere. The user answers for an address of their own choice.
    let is_for_proof = server.offer.address.endpoint.is_for_other_machines() && !server.trust.is_of_third_user();
    let prover = directions.prover.clone().filter(|_| is_for_proof);
    let Some(prover) = prover else { return join_with(None, time_max) };
    let clock = Clock::start();
    match join_with(Some(prover), time_max) {
        // A server of another library may know no munge. It refuses that, or closes the connection.
        Err(error) if is_about_proof(&error) => {
            tracing::info!(%error, "the tool tries again without munge");
            join_with(None, clock.until(Some(Time::ZERO + time_max)).unwrap_or(time_max))
        }
        outcome => outcome,
    }
}

/// Whether another proof of the user may help.
fn is_about_proof(error: &ToolError) -> bool {
    match error {
        ToolError::Refused { status, .. } => [Status::ERR_INVALID_CRED, Status::ERR_NOT_SUPPORTED].contains(status),
        ToolError::Unreachable { reason, .. } => matches!(reason, UnreachableReason::Closed),
        _ => false,
    }
}

/// Connects with a role. A `prover` comes before the kernel's word.
fn enter_as<T>(
    role: Role,
    server: Chosen,
    info: Vec<Info>,
    prover: Option<Arc<dyn Prover>>,
    time_max: Duration,
    entrance: Entrance<T>,
) -> Result<T, ToolError> {
    let Chosen { mut offer, trust } = server;
    if prover.is_some() {
        offer.proofs.insert(0, Proof::Munge);
    }
    let address = offer.address.to_string();
    let newcomer = Newcomer { role, server: offer, fallback: None, hostname: Some(hostname()), info, prover, trust };
    match entrance(&Attempt::start(time_max), &newcomer) {
        Ok(Joined::In(entered)) => Ok(*entered),
        Ok(Joined::Refused(status)) => Err(ToolError::Refused { address, status }),
        Err(reason) => Err(ToolError::Unreachable { address, reason }),
    }
}

fn role(directions: &ToolDirections) -> Role {
    let ids = own_ids();
    match (&directions.name, directions.is_launcher) {
        (None, false) => Role::Tool(ids),
        (None, true) => Role::Launcher(ids),
        (Some(proc), false) => Role::NamedTool(ids, proc.clone()),
        (Some(proc), true) => Role::NamedLauncher(ids, proc.clone()),
    }
}

fn own_ids() -> Ids {
    Ids { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
}

/// The attributes of a tool that other libraries send too.
fn about(directions: &ToolDirections) -> Vec<Info> {
    let pid = Value::Pid(std::process::id());
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    let mut info = directions.info.clone();
    info.push(Info::new(Key::from_static(keys::PROC_PID.name()), pid));
    info.push(Info::new(Key::from_static(keys::CMD_LINE.name()), command));
    info
}

/// Whether the server may appear later.
fn may_come(error: &ToolError) -> bool {
    match error {
        ToolError::NoServer { .. } | ToolError::NoServerOf { .. } | ToolError::Unreachable { .. } => true,
        ToolError::NoneAdmits { last, .. } => may_come(last),
        ToolError::Rendezvous(error) => error.is_absent(),
        _ => false,
    }
}

/// How long a server may take to admit a tool, unless the tool sets another limit. Its host decides in the meantime.
/// Ranks and singletons have longer, because many of them may come at once.
pub const TOOL_TIME_MAX: Duration = Duration::from_secs(20);

/// The time that a server gets to admit a tool while there are other candidates.
const CANDIDATE_TIME_MAX: Duration = Duration::from_secs(5);

/// Variable of the standard: the address of the tool that starts a launcher.
const PARENT_URI: &str = "PMIX_LAUNCHER_RNDZ_URI";

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::ptl::EndpointError;

    /// Regression: a server that takes no connection was unreachable, and `PMIX_ERR_TIMEOUT` was promised.
    #[test]
    fn a_connection_that_takes_too_long_is_a_timeout() {
        let endpoint = Endpoint::Tcp(([127, 0, 0, 1], 1).into());
        let status_of = |kind: io::ErrorKind| {
            let reason = EndpointError::Unreachable { endpoint: endpoint.clone(), source: kind.into() }.into();
            ToolError::Unreachable { address: String::new(), reason }.status()
        };
        let statuses = [io::ErrorKind::TimedOut, io::ErrorKind::ConnectionRefused].map(status_of);
        assert_eq!(statuses, [Status::ERR_TIMEOUT, Status::ERR_UNREACH]);
    }

    /// Regression: the address was refused after the connection, for an unknown user.
    #[test]
    fn a_parent_at_a_unix_domain_socket_is_refused_before_the_connection() {
        let address = Some("tool.0;unix:/nowhere".to_owned());
        let refused = connect_to_parent(&ToolDirections { address, ..ToolDirections::default() }, &[]).map(drop);
        assert!(matches!(refused, Err(ToolError::ParentWithoutTcp { .. })), "{refused:?}");
    }
}
