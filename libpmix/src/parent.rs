//! The tool that started this one: how it is found, and that it has ended.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use modex::runtime::{self, trusted_variable};
use modex::types::Status;
use nix::libc;

use super::process::Membership;

/// Variable of the standard: a descriptor that the other tool holds the other end of, and that closes with it.
const KEEPALIVE: &str = "PMIX_KEEPALIVE_PIPE";
/// Variable of the standard: where the other tool listens.
const ADDRESS: &str = "PMIX_LAUNCHER_RNDZ_URI";

/// Takes the address out of the environment: what this tool starts is not that tool's child.
pub(super) fn forget_address() {
    forget(ADDRESS);
}

/// Takes a variable out of the environment. Not with libc's function: this library's own threads read the environment
/// under the standard library's lock.
pub(super) fn forget(name: &str) {
    // SAFETY: no thread of the program's may be looking at the environment meanwhile, which the standard asks of a program
    // that initializes a tool.
    unsafe { std::env::remove_var(name) };
}

/// Raises `PMIX_EVENT_JOB_END` in this process when the other tool is gone, if it left a way to tell.
pub(super) fn watch(client: &Arc<Membership>) {
    // In a setuid program the variable would choose which descriptor of the program is read and closed.
    let number =
        trusted_variable(KEEPALIVE).and_then(|number| number.to_str().and_then(|number| number.parse::<i32>().ok()));
    let Some(number) = number else { return };
    forget(KEEPALIVE);
    // SAFETY: looks at a number.
    if number <= 2 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return tracing::warn!(number, "the descriptor in PMIX_KEEPALIVE_PIPE is not open; nobody is watched");
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
        tracing::warn!(%error, "no thread to watch the tool that started this one");
    }
}
