//! Sessions through a connection of this process's server: with a launcher that has connected, or with the tool that
//! started the process.

use std::time::Duration;

use super::attach::{Attempt, UnreachableReason};
use super::link::Link;
use super::link_state::LinkState;
use super::received::ReceivedData;
use super::session::Session;
use crate::ptl::{Stream, StreamLimits};
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::launcher_end::LauncherEnd;
use crate::runtime::shared::local::hostname;
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::types::ProcId;

/// Makes a session with a launcher, through the launcher's own connection to a server of this process.
#[must_use]
pub fn to_launcher(proc: ProcId, launcher: ProcId, end: LauncherEnd) -> Session {
    let (host, link) = link_by(&proc, end);
    Session::new(proc, launcher, Some(host), None, link)
}

/// Makes a session with the tool that started this process, through this process's own connection to the tool. It has
/// the tool's description of this process's job.
///
/// # Errors
/// The tool does not answer.
pub fn to_parent(
    proc: ProcId,
    parent: ProcId,
    end: LauncherEnd,
    time_max: Duration,
) -> Result<Session, UnreachableReason> {
    let (host, link) = link_by(&proc, end);
    let own = Attempt::start(time_max).job_of(&proc, &link)?;
    Ok(Session::new(proc, parent, Some(host), own, link))
}

/// A conversation through a channel, and the name of this node.
fn link_by(proc: &ProcId, end: LauncherEnd) -> (String, Link) {
    let host = hostname();
    let LauncherEnd { socket, dialect } = end;
    let stream = Stream::new(socket, StreamLimits::default());
    let received = ReceivedData::new(host.clone(), dialect);
    let state = LinkState::new(stream, proc.clone(), 0, PeerProfile::of_launcher(dialect), received);
    (host, Link::new(state, Clock::start()))
}
