//! Tools: processes that choose their server themselves, and singletons, which take the node's system server.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::attach::{self, Attempt, CONNECT_TIME_MAX, ConnectError, Joined, Newcomer, UnreachableReason};
use super::local::hostname;
use super::session::Session;
use crate::bfrops::Generation;
use crate::gds::AsStatus;
use crate::keys;
use crate::proto::Version;
use crate::proto::handshake::{Ids, Role};
use crate::ptl::rendezvous::{self, Found, Names, RendezvousError};
use crate::ptl::{AddressError, Proof, ServerAddress, ServerOffer};
use crate::types::{Info, Key, Namespace, ProcId, Status, Value};

/// Where a tool looks for its server, and who it is. The first that is given of address, file, process number, namespace
/// and system server decides; nothing given: the server that started this process, else the one server that can be
/// found in the directories.
#[derive(Clone, Debug, Default)]
pub struct ToolDirections {
    /// Its name; without one the server gives it one.
    pub name: Option<ProcId>,
    /// It starts jobs and has processes of its own.
    pub is_launcher: bool,
    /// A rendezvous file.
    pub file: Option<PathBuf>,
    /// The server's address, or `file:` and the path of a rendezvous file.
    pub address: Option<String>,
    /// The server's process number.
    pub pid: Option<u32>,
    /// The server's namespace.
    pub namespace: Option<Namespace>,
    /// Which of the node's servers.
    pub system: SystemServer,
    /// Directory of the session's files, and of those below it.
    pub session_tmpdir: Option<PathBuf>,
    /// Directory of the node's files.
    pub system_tmpdir: Option<PathBuf>,
    /// How often to look again for a server that is not there yet.
    pub retries: u32,
    /// How long to wait before that.
    pub retry_delay: Duration,
    /// What the server's host is to know of the tool.
    pub info: Vec<Info>,
}

/// Which of the node's servers a tool wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemServer {
    /// None of them.
    #[default]
    Any,
    /// The system server if there is one.
    First,
    /// The system server alone.
    Only,
    /// The scheduler's.
    Scheduler,
    /// The system controller's.
    Controller,
}

/// Why a tool has no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// No file of a living server.
    #[error("no server that admits tools was found below {}; start one, or say where it is", places.join(" and "))]
    NoServer {
        /// Where it was looked for.
        places: Vec<String>,
    },
    /// More than one.
    #[error("several servers admit tools: {}; choose one by its process number, namespace or file", servers.join(", "))]
    Ambiguous {
        /// Their addresses.
        servers: Vec<String>,
    },
    /// The file that was named can't be used.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// The address can't be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The server speaks nothing that is spoken here.
    #[error("the server at {address} is of release {version}; tools here need one of release 3.0 or later")]
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
    /// The server does not want this tool.
    #[error("the server at {address} refused this tool with {status}")]
    Refused {
        /// Its address.
        address: String,
        /// Why.
        status: Status,
    },
    /// The server that started this process.
    #[error(transparent)]
    Started(ConnectError),
}

impl AsStatus for ToolError {
    fn status(&self) -> Status {
        match self {
            Self::Refused { status, .. } => *status,
            Self::Address(_) => Status::ERR_BAD_PARAM,
            Self::TooOld { .. } => Status::ERR_NOT_SUPPORTED,
            Self::Started(error) => error.status(),
            Self::NoServer { .. } | Self::Ambiguous { .. } | Self::Rendezvous(_) | Self::Unreachable { .. } => {
                Status::ERR_UNREACH
            }
        }
    }
}

/// Connects a tool.
///
/// # Errors
/// [`ToolError`].
pub fn connect_tool(directions: &ToolDirections, environment: &[(OsString, OsString)]) -> Result<Session, ToolError> {
    let places = Places::of(directions, environment)?;
    let mut retries = directions.retries;
    loop {
        match connect_once(directions, &places, environment) {
            Err(error) if retries > 0 && may_come(&error) => {
                retries -= 1;
                sleep(directions.retry_delay);
            }
            outcome => return outcome,
        }
    }
}

/// Connects a process that no launcher started to the node's system server. `None`: there is none, or none that wants it.
#[must_use]
pub fn connect_singleton(environment: &[(OsString, OsString)]) -> Option<Session> {
    let places = Places::of(&ToolDirections::default(), environment).ok()?;
    let found = rendezvous::read(&places.system_tmpdir.join(places.names.system())).ok()?;
    let proc = ProcId::new(Namespace::new(&format!("singleton.{}.{}", hostname(), std::process::id())).ok()?, 0);
    let offer = offer_of(&found).ok()?;
    match join(Role::Singleton(own_ids(), proc), offer, Vec::new()) {
        Ok(session) => Some(session),
        Err(error) => {
            tracing::info!(%error, "this process has no launcher, and the system server does not take it: it is alone");
            None
        }
    }
}

/// The name of the server that the directions lead to, without connecting; `None` if that is the one that started this
/// process.
///
/// # Errors
/// [`ToolError`].
pub fn locate(directions: &ToolDirections, environment: &[(OsString, OsString)]) -> Result<Option<ProcId>, ToolError> {
    let places = Places::of(directions, environment)?;
    Ok(chosen(directions, &places)?.map(|offer| offer.address.server))
}

fn connect_once(
    directions: &ToolDirections,
    places: &Places,
    environment: &[(OsString, OsString)],
) -> Result<Session, ToolError> {
    let offer = match chosen(directions, places)? {
        Some(offer) => offer,
        None => match attach::connect(environment.iter().map(|(name, value)| (name, value)), CONNECT_TIME_MAX, None) {
            Ok(session) => return Ok(session),
            Err(ConnectError::NotLaunched) => {
                offer_of(&only(places.search(|name| places.names.is_tool_file(name)), places)?)?
            }
            Err(error) => return Err(ToolError::Started(error)),
        },
    };
    join(role(directions), offer, about(directions))
}

/// The server that the directions name; `None` if they name none.
fn chosen(directions: &ToolDirections, places: &Places) -> Result<Option<ServerOffer>, ToolError> {
    if let Some(path) = &directions.file {
        return offer_of(&rendezvous::read(path)?).map(Some);
    }
    if let Some(address) = &directions.address {
        return match address.strip_prefix("file:") {
            Some(path) => offer_of(&rendezvous::read(Path::new(path))?).map(Some),
            None => offer_at(address, None).map(Some),
        };
    }
    if let Some(pid) = directions.pid {
        let wanted = places.names.of_pid(pid);
        return offer_of(&only(places.search(|name| name == wanted), places)?).map(Some);
    }
    if let Some(namespace) = &directions.namespace {
        let wanted = places.names.of_namespace(namespace)?;
        return offer_of(&only(places.search(|name| name == wanted), places)?).map(Some);
    }
    let name = match directions.system {
        SystemServer::Any => return Ok(None),
        SystemServer::First | SystemServer::Only => places.names.system(),
        SystemServer::Scheduler => places.names.scheduler(),
        SystemServer::Controller => places.names.controller(),
    };
    match rendezvous::read(&places.system_tmpdir.join(name)) {
        Err(error) if directions.system == SystemServer::First && error.is_absent() => Ok(None),
        found => offer_of(&found?).map(Some),
    }
}

/// The only server among those found.
fn only(found: Vec<Found>, places: &Places) -> Result<Found, ToolError> {
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(ToolError::NoServer { places: places.told() }),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(found);
            Err(ToolError::Ambiguous {
                servers: all.map(|found| found.contents.address).take(SERVERS_TOLD_MAX).collect(),
            })
        }
    }
}

fn offer_of(found: &Found) -> Result<ServerOffer, ToolError> {
    offer_at(&found.contents.address, Some(found.contents.peer_version()))
}

/// How a server of a release is spoken to; one whose release is not known is taken for a current one.
fn offer_at(address: &str, version: Option<Version>) -> Result<ServerOffer, ToolError> {
    let codec = match version {
        None => Generation::V41,
        Some(version) if version.major < 3 => return Err(ToolError::TooOld { address: address.to_owned(), version }),
        Some(version) if version.major == 3 => Generation::V3,
        Some(version) if (version.major, version.minor) == (4, 0) => Generation::V4,
        Some(_) => Generation::V41,
    };
    Ok(ServerOffer { address: address.parse::<ServerAddress>()?, codec, version, proofs: vec![Proof::Native] })
}

fn join(role: Role, server: ServerOffer, info: Vec<Info>) -> Result<Session, ToolError> {
    let address = server.address.to_string();
    let newcomer = Newcomer { role, server, fallback: None, hostname: Some(hostname()), info, prover: None };
    match Attempt::start(CONNECT_TIME_MAX).join(&newcomer) {
        Ok(Joined::Session(session)) => Ok(*session),
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

/// What other libraries say of a tool, too.
fn about(directions: &ToolDirections) -> Vec<Info> {
    let pid = Value::Pid(std::process::id());
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    let mut info = directions.info.clone();
    info.push(Info::new(Key::from_static(keys::PROC_PID.name()), pid));
    info.push(Info::new(Key::from_static(keys::CMD_LINE.name()), command));
    info
}

/// Whether the server may only not be there yet.
fn may_come(error: &ToolError) -> bool {
    match error {
        ToolError::NoServer { .. } | ToolError::Unreachable { .. } => true,
        ToolError::Rendezvous(error) => error.is_absent(),
        _ => false,
    }
}

/// Where servers keep their files.
struct Places {
    names: Names,
    session_tmpdir: Option<PathBuf>,
    system_tmpdir: PathBuf,
}

impl Places {
    fn of(directions: &ToolDirections, environment: &[(OsString, OsString)]) -> Result<Self, RendezvousError> {
        let variable = |name: &str| {
            let found = environment.iter().rev().find(|(variable, _)| variable.as_os_str() == OsStr::new(name));
            found.map(|(_, value)| PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty())
        };
        let session_tmpdir = directions.session_tmpdir.clone().or_else(|| variable("PMIX_SERVER_TMPDIR"));
        let system_tmpdir = directions.system_tmpdir.clone();
        let from_environment = || ["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"].into_iter().find_map(variable);
        let system_tmpdir = system_tmpdir.or_else(from_environment).unwrap_or_else(|| PathBuf::from("/tmp"));
        Ok(Self { names: Names::new(&hostname())?, session_tmpdir, system_tmpdir })
    }

    /// Files anywhere below the session's directory; if there are none, below the node's.
    fn search(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Found> {
        let in_session = self.session_tmpdir.iter().flat_map(|place| rendezvous::search(place, &is_wanted)).collect();
        let in_session: Vec<Found> = in_session;
        if in_session.is_empty() { rendezvous::search(&self.system_tmpdir, is_wanted) } else { in_session }
    }

    fn told(&self) -> Vec<String> {
        let places = self.session_tmpdir.iter().chain([&self.system_tmpdir]);
        places.map(|place| place.display().to_string()).collect()
    }
}

/// Servers that a message names.
const SERVERS_TOLD_MAX: usize = 8;
