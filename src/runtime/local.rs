//! What a process can know of itself and its node without asking a server.

use std::ffi::OsString;
use std::path::PathBuf;

/// The node's name; `localhost` where the kernel's is not text.
#[must_use]
pub fn hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// The process's environment, in order.
#[must_use]
pub fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// The directory for temporary files.
#[must_use]
pub fn temporary_directory() -> PathBuf {
    std::env::temp_dir()
}
