//! Facts about a process and its node that need no server.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fs, io};

/// The node's name; `localhost` if the kernel's name is not text.
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

/// Variables that name the directory for temporary files. The first one that is set counts.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];

/// The directory for temporary files. A process with more rights than its starter takes `/tmp`.
#[must_use]
pub fn temporary_directory() -> PathBuf {
    TEMPORARY.into_iter().find_map(trusted_variable).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// The directory of the node's servers, in which tools look for them: `PMIX_SYSTEM_TMPDIR`, or that for temporary
/// files. A process with more rights than its starter takes `/tmp`.
#[must_use]
pub fn system_directory() -> PathBuf {
    system_directory_of(trusted_variable)
}

/// [`system_directory`] of an environment. An empty variable counts as not set.
pub(crate) fn system_directory_of(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let names = ["PMIX_SYSTEM_TMPDIR"].into_iter().chain(TEMPORARY);
    let found = names.filter_map(variable).find(|value| !value.is_empty());
    found.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// A variable that chooses a file to write or a library to load. It is ignored if the user who set it may have fewer
/// rights than the process. An empty variable counts as not set.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the runtime is an edge")]
pub fn trusted_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    if has_more_rights_than_its_starter() {
        tracing::warn!("{name} is ignored: this process has more rights than the user that started it");
        return None;
    }
    Some(value)
}

/// Whether the kernel started this process with more rights than its starter has (`AT_SECURE`): it is setuid or setgid,
/// or its file has capabilities. Its environment then comes from a user with fewer rights.
#[must_use]
pub fn has_more_rights_than_its_starter() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| match fs::read("/proc/self/auxv") {
        Ok(vector) => is_secure(&vector),
        // Without `/proc` only the ids are known.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            use nix::unistd::{getegid, geteuid, getgid, getuid};
            getuid() != geteuid() || getgid() != getegid()
        }
        // The file of a setuid process can belong to root.
        Err(_) => true,
    })
}

/// Whether the kernel's auxiliary vector has `AT_SECURE` set; a vector without it is damaged.
#[expect(clippy::host_endian_bytes, reason = "the kernel writes the vector for this machine")]
fn is_secure(vector: &[u8]) -> bool {
    const AT_SECURE: usize = 23;
    let (pairs, _) = vector.as_chunks::<{ 2 * size_of::<usize>() }>();
    let facts = pairs.iter().filter_map(|pair| {
        let (name, value) = pair.split_first_chunk::<{ size_of::<usize>() }>()?;
        Some((usize::from_ne_bytes(*name), value))
    });
    let mut facts = facts.filter(|(name, _)| *name == AT_SECURE);
    facts.next().is_none_or(|(_, value)| value.iter().any(|byte| *byte != 0))
}

/// Whether a variable with this prefix is set.
#[must_use]
pub fn has_variable_with_prefix(prefix: &str) -> bool {
    std::env::vars_os().any(|(name, _)| OsStr::as_encoded_bytes(&name).starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(facts: &[(usize, usize)]) -> Vec<u8> {
        facts.iter().flat_map(|(name, value)| [name.to_ne_bytes(), value.to_ne_bytes()]).flatten().collect()
    }

    #[test]
    fn the_kernel_says_whether_a_process_has_more_rights_than_its_starter() {
        assert!(is_secure(&vector(&[(6, 4096), (23, 1), (0, 0)])));
        assert!(!is_secure(&vector(&[(6, 4096), (23, 0), (0, 0)])));
        assert!(is_secure(&vector(&[(6, 4096), (0, 0)])), "it does not say");
        assert!(is_secure(b""));
        assert!(!has_more_rights_than_its_starter(), "as this test");
    }
}
