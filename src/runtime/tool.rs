//! Tools: processes that choose their server themselves, and singletons, which take the node's system server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use super::attach::{self, Attempt, CONNECT_TIME_MAX, ConnectError, Joined, Newcomer, UnreachableReason};
use super::local::hostname;
use super::session::Session;
use super::tool_search::{Chosen, Places};
use crate::gds::AsStatus;
use crate::keys;
use crate::proto::Version;
use crate::proto::handshake::{Ids, Role};
use crate::ptl::rendezvous::RendezvousError;
use crate::ptl::{AddressError, ClientEnvironment, Trust};
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
    /// The process that was named has none.
    #[error(
        "process {pid} {}: nothing of it was found below {}; name the process that serves the job (its `modex run`, or the \
         daemon of its launcher), or set TMPDIR to where that keeps its files",
        if *is_there { "has no server that admits tools" } else { "is not there" },
        places.join(" and ")
    )]
    NoServerOf {
        /// Its number.
        pid: u32,
        /// Whether there is such a process.
        is_there: bool,
        /// Where the server's file was looked for.
        places: Vec<String>,
    },
    /// More than one.
    #[error("several servers admit tools: {}; choose one by its process number, namespace or file", servers.join(", "))]
    Ambiguous {
        /// Their addresses.
        servers: Vec<String>,
    },
    /// Only servers that are neither this user's nor root's, and which nobody has named.
    #[error(
        "{} is of user {owner}'s server; to use another user's, name it by its process number, namespace, file or address",
        path.display()
    )]
    OthersServers {
        /// The file of one.
        path: PathBuf,
        /// Its owner.
        owner: u32,
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
            Self::Unreachable { reason, .. } if reason.is_shortage() => Status::ERR_OUT_OF_RESOURCE,
            Self::NoServer { .. }
            | Self::NoServerOf { .. }
            | Self::Ambiguous { .. }
            | Self::OthersServers { .. }
            | Self::Rendezvous(_)
            | Self::Unreachable { .. } => Status::ERR_UNREACH,
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
    let server = Places::of(&ToolDirections::default(), environment).ok()?.system_server().ok()?;
    let proc = ProcId::new(Namespace::new(&format!("singleton.{}.{}", hostname(), std::process::id())).ok()?, 0);
    match join(Role::Singleton(own_ids(), proc), server, Vec::new()) {
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
    Ok(places.chosen(directions)?.map(|server| server.offer.address.server))
}

/// Where the tool that started this one listens, if one did.
#[must_use]
pub fn parent_address(environment: &[(OsString, OsString)]) -> Option<String> {
    let found = environment.iter().rev().find(|(name, _)| name.to_str() == Some(PARENT_URI));
    found.and_then(|(_, address)| address.to_str()).filter(|address| !address.is_empty()).map(str::to_owned)
}

fn connect_once(
    directions: &ToolDirections,
    places: &Places,
    environment: &[(OsString, OsString)],
) -> Result<Session, ToolError> {
    let server = match places.chosen(directions)? {
        Some(server) => server,
        None if let Some(server) = starter_of_other(directions, environment) => server,
        None => match attach::connect(environment.iter().map(|(name, value)| (name, value)), CONNECT_TIME_MAX, None) {
            Ok(session) => return Ok(session),
            Err(ConnectError::NotLaunched) => places.only_server()?,
            Err(error) => return Err(ToolError::Started(error)),
        },
    };
    join(role(directions), server, about(directions))
}

/// The server that started this process, where the tool has another name than the process: it connects as a tool.
fn starter_of_other(directions: &ToolDirections, environment: &[(OsString, OsString)]) -> Option<Chosen> {
    let name = directions.name.as_ref()?;
    let found = ClientEnvironment::parse(environment.iter().map(|(name, value)| (name, value))).ok()?;
    let offer = found.server.without_munge().ok()?;
    (found.proc != *name).then_some(Chosen { offer, trust: Trust::OwnAndRoot })
}

fn join(role: Role, server: Chosen, info: Vec<Info>) -> Result<Session, ToolError> {
    let Chosen { offer, trust } = server;
    let address = offer.address.to_string();
    let newcomer =
        Newcomer { role, server: offer, fallback: None, hostname: Some(hostname()), info, prover: None, trust };
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
        ToolError::NoServer { .. } | ToolError::NoServerOf { .. } | ToolError::Unreachable { .. } => true,
        ToolError::Rendezvous(error) => error.is_absent(),
        _ => false,
    }
}

/// Variable of the standard: where the tool that starts a launcher listens.
const PARENT_URI: &str = "PMIX_LAUNCHER_RNDZ_URI";
