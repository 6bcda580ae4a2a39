use std::path::PathBuf;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use super::ServerOptions;
use crate::proto::Version;
use crate::ptl::rendezvous::{AddressReport, Announcement, Contents, Files, Names, Publicity, RendezvousError};
use crate::ptl::{Endpoint, ModexAddress, ServerAddress};
use crate::server::{ToolAdmission, ToolPolicy};

/// The tools that a server admits, and the files by which they find it.
///
/// Without any flag, a tool finds the server in the session's directory, under its process number and its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSupport {
    /// Whether tools may connect, and their names if the host does not choose them.
    pub admission: ToolAdmission,
    /// Whether tools of every user may connect, not only root's and the server's own. All users can then read its
    /// files.
    pub any_user: bool,
    /// It is the server of its session: tools find it by the session's directory.
    pub is_session: bool,
    /// It is the one system server of the node, in the node's directory.
    pub is_system: bool,
    /// It is the scheduler, in the node's directory.
    pub is_scheduler: bool,
    /// It is the system controller, in the node's directory.
    pub is_controller: bool,
    /// Required roles: the server does not start if another user has the name of the file of one of them.
    pub required: Vec<ToolRole>,
    /// An extra file with any name.
    pub file: Option<PathBuf>,
    /// A report of the server's address, with or without tools.
    pub report: Option<AddressReport>,
}

/// A role by which tools find a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRole {
    /// [`ToolSupport::is_session`].
    Session,
    /// [`ToolSupport::is_system`].
    System,
    /// [`ToolSupport::is_scheduler`].
    Scheduler,
    /// [`ToolSupport::is_controller`].
    Controller,
}

impl ToolSupport {
    pub(super) fn policy(&self, options: &ServerOptions) -> ToolPolicy {
        ToolPolicy {
            admission: self.admission,
            any_user: self.any_user,
            own_uid: nix::unistd::geteuid().as_raw(),
            // No dots: release 3.2 ends a namespace at the first dot.
            name_prefix: format!("tool-{}-{}-", options.server.namespace, options.server.rank.to_raw())
                .replace('.', "_"),
        }
    }

    /// Writes the files of a listening server.
    pub(super) fn announce(&self, options: &ServerOptions, address: &ModexAddress) -> Result<Files, RendezvousError> {
        let contents = contents(address);
        if let Some(report) = &self.report {
            report.write(&contents)?;
        }
        if self.admission == ToolAdmission::Refused {
            return Ok(Files::default());
        }
        if address.tcp.is_none() {
            tracing::warn!(
                "the server does not listen on TCP; clients and tools with another PMIx library can't connect to it"
            );
        }
        let names = Names::new(&options.hostname)?;
        // Files of other nodes are ignored, because locks may not work in shared directories.
        Files::remove_abandoned(&options.session_tmpdir, |name| names.is_tool_file(name));
        Files::write(&Announcement {
            roles: self.roles(&names, options),
            paths: self.paths(&names, options)?,
            contents,
            publicity: if self.any_user { Publicity::Everybody } else { Publicity::Owner },
            seconds: seconds_since_1970(),
        })
    }

    fn paths(&self, names: &Names, options: &ServerOptions) -> Result<Vec<PathBuf>, RendezvousError> {
        let in_session = |name: String| options.session_tmpdir.join(name);
        let mut paths =
            vec![in_session(names.of_pid(process::id())), in_session(names.of_namespace(&options.server.namespace)?)];
        paths.extend(self.file.clone());
        Ok(paths)
    }

    fn roles(&self, names: &Names, options: &ServerOptions) -> Vec<(PathBuf, bool)> {
        let (session, system) = (&options.session_tmpdir, &options.system_tmpdir);
        let roles = [
            (self.is_session, ToolRole::Session, session.join(names.session())),
            (self.is_system, ToolRole::System, system.join(names.system())),
            (self.is_scheduler, ToolRole::Scheduler, system.join(names.scheduler())),
            (self.is_controller, ToolRole::Controller, system.join(names.controller())),
        ];
        let has_it = |(has_it, role, path)| if has_it { Some((path, self.required.contains(&role))) } else { None };
        roles.into_iter().filter_map(has_it).collect()
    }
}

/// Without TCP, only our own tools can connect.
fn contents(address: &ModexAddress) -> Contents {
    let endpoint = address.tcp.map_or_else(|| Endpoint::Unix(address.path.clone()), Endpoint::Tcp);
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    Contents {
        address: ServerAddress { server: address.server.clone(), endpoint }.to_string(),
        version: Some(Version::OWN.to_string()),
        pid: Some(process::id()),
        owner: Some((uid, gid)),
        is_locked: true,
    }
}

#[expect(clippy::disallowed_methods, reason = "people read in the file when it was written")]
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
