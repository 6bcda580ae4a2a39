//! The tool that started this one: its address, and notice of its end.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use modex::runtime::{self, trusted_variable};
use modex::types::Status;
use nix::libc;

use super::process::Membership;

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

/// Raises `PMIX_EVENT_JOB_END` in this process when the other tool ends, if it passed a keepalive descriptor.
pub(super) fn watch(client: &Arc<Membership>) {
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
    let client = Arc::downgrade(client);
    let watched = runtime::watch_for_end(File::from(pipe), move || {
        if let Some(client) = client.upgrade() {
            client.deliver_locally(Status::EVENT_JOB_END, None, &[]);
        }
    });
    if let Err(error) = watched {
        tracing::warn!(%error, "no thread can be started to watch the parent tool");
    }
}
