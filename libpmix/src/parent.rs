//! The tool that started this tool or server: its address, and notice of its end.

use std::fs::{self, File};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

use modex::keys;
use modex::runtime::{self, trusted_variable};
use modex::types::codes::range::RANGE_PROC_LOCAL;
use modex::types::{Info, Key, Namespace, ProcId, Rank, Status};
use nix::libc;

use super::process::Membership;
use super::server_role::ServerRole;

/// Variable of the standard: a pipe's descriptor. The other tool holds the other end, which closes with it.
const KEEPALIVE: &str = "PMIX_KEEPALIVE_PIPE";
/// Variable of the standard: the address of the other tool.
const ADDRESS: &str = "PMIX_LAUNCHER_RNDZ_URI";

/// The address, unless this process has more rights than its starter.
pub(super) fn trusted_address() -> Option<String> {
    trusted_variable(ADDRESS)?.into_string().ok().filter(|address| !address.is_empty())
}

/// Whether a tool has started this process. Such a tool shows the output of this process's jobs.
pub(super) fn has_starter() -> bool {
    [ADDRESS, KEEPALIVE].into_iter().any(|name| trusted_variable(name).is_some())
}

/// Removes the address from the environment: processes that this tool starts are not the other tool's children.
pub(super) fn forget_address() {
    forget(ADDRESS);
}

/// Removes a variable from the environment. libc's function is not used: this library's own threads read the
/// environment under the standard library's lock.
pub(super) fn forget(name: &str) {
    // SAFETY: no thread of the program's may be looking at the environment meanwhile, which the standard asks of a
    // program that initializes a tool.
    unsafe { std::env::remove_var(name) };
}

/// A pipe or socket of this process's starter. Its other end closes with the starter.
pub(super) struct Keepalive(RawFd);

impl Keepalive {
    /// Finds the descriptor that the starter has passed. Call it before the library opens descriptors of its own: a
    /// starter may pass the variable without the descriptor. The descriptor stays as it is until the watch begins, so
    /// that a failed initialization can be repeated.
    pub(super) fn of_starter() -> Option<Self> {
        // In a set-user-id program the variable would select a descriptor of the program to be read and closed.
        let number = trusted_variable(KEEPALIVE)?;
        let passed = number.to_str().and_then(|number| number.parse().ok()).filter(|number| is_passed(*number));
        if passed.is_none() {
            forget(KEEPALIVE);
            tracing::warn!(
                ?number,
                "PMIX_KEEPALIVE_PIPE names no inherited pipe or socket; the starter is not watched"
            );
        }
        passed.map(Self)
    }

    /// Raises `PMIX_EVENT_JOB_END` in this tool when the starter ends.
    pub(super) fn watch(self, client: &Arc<Membership>) {
        let client = Arc::downgrade(client);
        self.watch_by(move || {
            if let Some(client) = client.upgrade() {
                client.deliver_locally(Status::EVENT_JOB_END, None, &[]);
            }
        });
    }

    /// Raises `PMIX_ERR_JOB_TERMINATED` in this server when the starter ends. Hosts such as PRRTE know it by the
    /// affected process.
    pub(super) fn watch_of_server(self, role: &Arc<dyn ServerRole>) {
        let role = Arc::downgrade(role);
        self.watch_by(move || {
            let Some(role) = role.upgrade() else { return };
            let Ok(namespace) = Namespace::new(KEEPALIVE) else { return };
            let starter = ProcId { namespace, rank: Rank::Undefined };
            let infos = [
                Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true),
                Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), starter),
            ];
            let (server, code) = (role.server(), Status::ERR_JOB_TERMINATED);
            // A server that ends meanwhile needs no event.
            let _ = server.notify_event(code, Some(server.proc()), RANGE_PROC_LOCAL, &infos).wait();
        });
    }

    /// Calls `ended` when the other end closes.
    fn watch_by(self, ended: impl FnOnce() + Send + 'static) {
        forget(KEEPALIVE);
        // SAFETY: sets a flag of a descriptor, which has been open since before the library opened any.
        unsafe { libc::fcntl(self.0, libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: the starter passed it for this purpose, and nobody sees the variable any more.
        let pipe = unsafe { OwnedFd::from_raw_fd(self.0) };
        if let Err(error) = runtime::watch_for_end(File::from(pipe), ended) {
            tracing::warn!(%error, "no thread can be started to watch the starter");
        }
    }
}

/// Whether the starter can have passed this descriptor for a watch: a pipe or a socket that does not close on exec.
fn is_passed(number: RawFd) -> bool {
    let kind = fs::metadata(format!("/proc/self/fd/{number}")).map(|found| found.file_type());
    let is_watchable = kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket());
    // SAFETY: looks at a number. Descriptors of this library close on exec.
    number > 2 && is_watchable && unsafe { libc::fcntl(number, libc::F_GETFD) } == 0
}
