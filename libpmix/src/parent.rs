//! The tool that started this one: its address, and notice of its end.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
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

/// Removes the address from the environment: processes that this tool starts are not the other tool's children.
pub(super) fn forget_address() {
    forget(ADDRESS);
}

/// Removes a variable from the environment. libc's function is not used: this library's own threads read the
/// environment under the standard library's lock.
pub(super) fn forget(name: &str) {
    // SAFETY: no thread of the program's may be looking at the environment meanwhile, which the standard asks of a program
    // that initializes a tool.
    unsafe { std::env::remove_var(name) };
}

/// Raises `PMIX_EVENT_JOB_END` in this tool when the other tool ends, if it passed a keepalive descriptor.
pub(super) fn watch(client: &Arc<Membership>) {
    let client = Arc::downgrade(client);
    watch_by(move || {
        if let Some(client) = client.upgrade() {
            client.deliver_locally(Status::EVENT_JOB_END, None, &[]);
        }
    });
}

/// Raises `PMIX_ERR_JOB_TERMINATED` in this server when its starter ends. Hosts such as PRRTE know it by the affected process.
pub(super) fn watch_of_server(role: &Arc<dyn ServerRole>) {
    let role = Arc::downgrade(role);
    watch_by(move || {
        let Some(role) = role.upgrade() else { return };
        let Ok(namespace) = Namespace::new(KEEPALIVE) else { return };
        let starter = ProcId { namespace, rank: Rank::Undefined };
        let infos = [
            Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true),
            Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), starter),
        ];
        let server = role.server();
        // A server that ends meanwhile needs no event.
        let _ = server.notify_event(Status::ERR_JOB_TERMINATED, Some(server.proc()), RANGE_PROC_LOCAL, &infos).wait();
    });
}

/// Calls `ended` when the other end of the keepalive descriptor closes, if there is one.
fn watch_by(ended: impl FnOnce() + Send + 'static) {
    // In a set-user-id program the variable would select a descriptor of the program to be read and closed.
    let number =
        trusted_variable(KEEPALIVE).and_then(|number| number.to_str().and_then(|number| number.parse::<i32>().ok()));
    let Some(number) = number else { return };
    forget(KEEPALIVE);
    // SAFETY: looks at a number.
    if number <= 2 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return tracing::warn!(number, "the descriptor in PMIX_KEEPALIVE_PIPE is not open; the parent is not watched");
    }
    // SAFETY: it is open, and the variable, which nobody sees any more, gave it to this library.
    let pipe = unsafe { OwnedFd::from_raw_fd(number) };
    if let Err(error) = runtime::watch_for_end(File::from(pipe), ended) {
        tracing::warn!(%error, "no thread can be started to watch the parent tool");
    }
}
