//! The search for the address of a tool's server: by the tool's directions, or by files in directories.
//!
//! The trusted owner of a server depends on the search. A *named* server (by address, file, process number or
//! namespace) may belong to any user. Root may ask about a user's job, and a user about a colleague's. The owner of its
//! file must then own the answering server, and the process whose number was given. Files of this user and of root come
//! first, so a file of the same name can't replace a server. A server that is merely *found* must be this user's or
//! root's.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{SystemServer, ToolDirections, ToolError};
use crate::bfrops::Generation;
use crate::proto::Version;
use crate::ptl::rendezvous::{self, Belief, Found, Names, RendezvousError};
use crate::ptl::{Proof, ServerAddress, ServerOffer, Trust};
use crate::runtime::shared::local::{hostname, system_directory_of};
use crate::runtime::shared::parameters::{NamedServer, is_server_name, named_server};
use crate::types::ProcId;

/// The directories of servers' files.
pub(super) struct Places {
    names: Names,
    session_tmpdir: Option<PathBuf>,
    system_tmpdir: PathBuf,
}

/// A server to connect to.
#[derive(Clone)]
pub(super) struct Chosen {
    pub(super) offer: ServerOffer,
    /// The users whose servers may be trusted.
    pub(super) trust: Trust,
}

impl Places {
    pub(super) fn of(
        directions: &ToolDirections,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, RendezvousError> {
        let variable = |name: &str| {
            let found = environment.iter().rev().find(|(variable, _)| variable.as_os_str() == OsStr::new(name));
            found.map(|(_, value)| PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty())
        };
        let session_tmpdir = directions.session_tmpdir.clone().or_else(|| variable("PMIX_SERVER_TMPDIR"));
        let from_environment = || system_directory_of(|name| variable(name).map(PathBuf::into_os_string));
        let system_tmpdir = directions.system_tmpdir.clone().unwrap_or_else(from_environment);
        Ok(Self {
            names: Names::new(&directions.hostname.clone().unwrap_or_else(hostname))?,
            session_tmpdir,
            system_tmpdir,
        })
    }

    /// The server that the directions name; `None` if they name no server.
    pub(super) fn chosen(&self, directions: &ToolDirections) -> Result<Option<Chosen>, ToolError> {
        if let Some(path) = &directions.file {
            return of_file(&rendezvous::read_named(path)?).map(Some);
        }
        if let Some(address) = &directions.address {
            return at_or_of_file(&of_name(address)?).map(Some);
        }
        if let Some(pid) = directions.pid {
            let owner = owner_of_process(pid);
            let found = self.only_named(&self.names.of_pid(pid), |found| owner == Some(found.owner));
            let found = found.map_err(|error| match error {
                ToolError::NoServer { places } => ToolError::NoServerOf { pid, is_there: owner.is_some(), places },
                other => other,
            });
            return of_file(&found?).map(Some);
        }
        if let Some(namespace) = &directions.namespace {
            return of_file(&self.only_named(&self.names.of_namespace(namespace)?, |_| true)?).map(Some);
        }
        let name = match directions.system {
            SystemServer::Any | SystemServer::First => return Ok(None),
            SystemServer::Only => self.names.system(),
            SystemServer::Scheduler => self.names.scheduler(),
            SystemServer::Controller => self.names.controller(),
        };
        of_file(&rendezvous::read(&self.system_tmpdir.join(name), Belief::OwnAndRoot)?).map(Some)
    }

    /// The system server of the node.
    pub(super) fn system_server(&self) -> Result<Chosen, ToolError> {
        of_file(&rendezvous::read(&self.system_tmpdir.join(self.names.system()), Belief::OwnAndRoot)?)
    }

    /// The servers in the directories to which the tool is not `attached`, in the order in which it tries them. Several
    /// are an error if the tool refuses to choose.
    pub(super) fn candidates(&self, attached: &[ProcId], is_choice_refused: bool) -> Result<Vec<Chosen>, ToolError> {
        let is_wanted = |name: &str| self.names.is_tool_file(name);
        let is_new = |found: &Found| {
            let address = found.contents.address.parse::<ServerAddress>();
            address.map_or(true, |address| !attached.contains(&address.server))
        };
        let mut found = self.search_for(Belief::OwnAndRoot, is_wanted, is_new);
        if is_choice_refused {
            found = vec![self.only(certain(found))?];
        }
        if found.is_empty() {
            let others = self.search(Belief::Everybody, is_wanted).into_iter().next();
            return Err(match others {
                Some(found) => ToolError::OthersServers { path: found.path, owner: found.owner },
                None => ToolError::NoServer { places: self.names_of_places() },
            });
        }
        // A server that is too old, or an address that can't be read, is no reason to give up the others.
        let (mut servers, mut first_error) = (Vec::new(), None);
        for found in found.iter().take(CANDIDATES_MAX) {
            match of_file(found) {
                Ok(server) => servers.push(server),
                Err(error) => {
                    tracing::info!(path = ?found.path, %error, "the tool can't use a server");
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if servers.is_empty() => Err(error),
            _ => Ok(servers),
        }
    }

    /// The only file of this name: first of this user or root, then any other that fits.
    fn only_named(&self, name: &str, fits: impl Fn(&Found) -> bool) -> Result<Found, ToolError> {
        let own = self.search(Belief::OwnAndRoot, |found| found == name);
        if !own.is_empty() {
            return self.only(certain(own));
        }
        let found = self.search(Belief::Everybody, |found| found == name);
        self.only(certain(found.into_iter().filter(fits).collect()))
    }

    /// The only server among the found ones.
    fn only(&self, found: Vec<Found>) -> Result<Found, ToolError> {
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(ToolError::NoServer { places: self.names_of_places() }),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(found);
                Err(ToolError::Ambiguous {
                    servers: all.map(|found| found.contents.address).take(SERVERS_TOLD_MAX).collect(),
                })
            }
        }
    }

    /// Files below the session's directory. If there are none, files below the node's directory.
    fn search(&self, belief: Belief, is_wanted: impl Fn(&str) -> bool) -> Vec<Found> {
        self.search_for(belief, is_wanted, |_| true)
    }

    fn search_for(
        &self,
        belief: Belief,
        is_wanted: impl Fn(&str) -> bool,
        fits: impl Fn(&Found) -> bool,
    ) -> Vec<Found> {
        let places = self.session_tmpdir.iter().chain([&self.system_tmpdir]);
        let found = places.map(|place| rendezvous::search(place, belief, &is_wanted));
        let fitting = found.map(|found| found.into_iter().filter(&fits).collect::<Vec<_>>());
        fitting.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The searched directories.
    pub(super) fn names_of_places(&self) -> Vec<String> {
        let places = self.session_tmpdir.iter().chain([&self.system_tmpdir]);
        places.map(|place| place.display().to_string()).collect()
    }
}

/// The servers that certainly live, or all if none certainly does.
fn certain(mut found: Vec<Found>) -> Vec<Found> {
    if found.iter().any(|file| !file.is_doubtful) {
        found.retain(|file| !file.is_doubtful);
    }
    found
}

/// The owner of a process; `None` if it is on another node or in another pid namespace.
fn owner_of_process(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid())
}

/// The address that parameters give to a server's name. Other texts are addresses already.
fn of_name(text: &str) -> Result<Cow<'_, str>, ToolError> {
    if !is_server_name(text) {
        return Ok(Cow::Borrowed(text));
    }
    let name = text.to_owned();
    match named_server(text) {
        Err((mut known, mut complaints)) => {
            shorten(&mut known, " (modex info --parameters)");
            shorten(&mut complaints, "");
            Err(ToolError::UnknownName { name, known, complaints })
        }
        Ok(NamedServer { address, .. }) if address.starts_with(FILE_PREFIX) => Ok(Cow::Owned(address)),
        Ok(NamedServer { address, place }) => match address.parse::<ServerAddress>() {
            Ok(_) => Ok(Cow::Owned(address)),
            Err(source) => Err(ToolError::NamedAddress { name, place, source }),
        },
    }
}

/// Cuts a list for a message, and says how many parts are left out, and where they are.
fn shorten(texts: &mut Vec<String>, place: &str) {
    let left_out = texts.len().saturating_sub(SERVERS_TOLD_MAX);
    if left_out > 0 {
        texts.truncate(SERVERS_TOLD_MAX);
        texts.push(format!("{left_out} more{place}"));
    }
}

fn at_or_of_file(address: &str) -> Result<Chosen, ToolError> {
    match address.strip_prefix(FILE_PREFIX) {
        Some(path) => of_file(&rendezvous::read_named(Path::new(path))?),
        None => at(address, None, Trust::Everybody),
    }
}

fn of_file(found: &Found) -> Result<Chosen, ToolError> {
    at(&found.contents.address, found.contents.peer_version(), Trust::AlsoOf(found.owner))
}

/// A server with the encoding of its release. An unknown release counts as a current one.
fn at(address: &str, version: Option<Version>, trust: Trust) -> Result<Chosen, ToolError> {
    let codec = match version {
        None => Generation::V41,
        Some(version) if version.major < 3 => return Err(ToolError::TooOld { address: address.to_owned(), version }),
        Some(version) if version.major == 3 => Generation::V3,
        Some(version) if (version.major, version.minor) == (4, 0) => Generation::V4,
        Some(_) => Generation::V41,
    };
    let offer = ServerOffer { address: address.parse::<ServerAddress>()?, codec, version, proofs: vec![Proof::Native] };
    Ok(Chosen { offer, trust })
}

/// The beginning of an address that names a file.
const FILE_PREFIX: &str = "file:";
/// Limit of the servers that a tool tries.
const CANDIDATES_MAX: usize = 256;
/// Limit of the servers, or of the ignored lines, that a message names.
pub(super) const SERVERS_TOLD_MAX: usize = 8;
