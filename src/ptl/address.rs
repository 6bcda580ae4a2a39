use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::types::{Namespace, NamespaceError, ProcId, Rank};

/// Where a server listens and who it is: `<namespace>.<rank>;unix:<path>`.
///
/// The form follows the reference's `<namespace>.<rank>;tcp4://...`: the namespace may hold dots (the rank stands
/// after the last one), and exactly one semicolon parts name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// The server's own name.
    pub server: ProcId,
    /// Absolute path of its socket.
    pub path: PathBuf,
}

/// Why a server address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No semicolon, or more than one.
    #[error(
        "server address {text:?} has {count} semicolons instead of one; it must read <namespace>.<rank>;unix:<path>"
    )]
    Semicolons {
        /// The address.
        text: String,
        /// How many there are.
        count: usize,
    },
    /// No dot before the rank, or the rank is not the number of a process.
    #[error("server name {name:?} must end in a dot and a rank, like srv.0")]
    Name {
        /// The part before the semicolon.
        name: String,
    },
    /// The namespace is not one.
    #[error("server name {name:?} has a bad namespace: {source}")]
    Namespace {
        /// The part before the semicolon.
        name: String,
        /// What is wrong with it.
        source: NamespaceError,
    },
    /// A transport other than `unix:`.
    #[error("server place {place:?} is not reachable: only unix:<absolute path> is supported")]
    Transport {
        /// The part after the semicolon.
        place: String,
    },
    /// A path that no socket can have.
    #[error(
        "socket path of {size_bytes} bytes must be absolute, without NUL, and at most {} bytes",
        ServerAddress::PATH_SIZE_BYTES_MAX
    )]
    Path {
        /// Its length.
        size_bytes: usize,
    },
}

impl ServerAddress {
    /// Longest path a UNIX-domain socket can have on Linux: 108 bytes with the terminating NUL.
    pub const PATH_SIZE_BYTES_MAX: usize = 107;

    /// Whether a socket can have this path.
    #[must_use]
    pub fn path_fits(path: &Path) -> bool {
        path.as_os_str().len() <= Self::PATH_SIZE_BYTES_MAX
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let count = text.bytes().filter(|&b| b == b';').count();
        let (name, place) = match text.split_once(';') {
            Some(parts) if count == 1 => parts,
            _ => return Err(AddressError::Semicolons { text: text.to_owned(), count }),
        };
        let path = place.strip_prefix("unix:").ok_or_else(|| AddressError::Transport { place: place.to_owned() })?;
        if !path.starts_with('/') || path.len() > Self::PATH_SIZE_BYTES_MAX || path.contains('\0') {
            return Err(AddressError::Path { size_bytes: path.len() });
        }
        Ok(Self { server: parse_name(name)?, path: PathBuf::from(path) })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{};unix:{}", self.server.namespace, self.server.rank.to_raw(), self.path.display())
    }
}

fn parse_name(name: &str) -> Result<ProcId, AddressError> {
    let bad = || AddressError::Name { name: name.to_owned() };
    let (namespace, rank) = name.rsplit_once('.').ok_or_else(bad)?;
    let rank = parse_rank(rank).ok_or_else(bad)?;
    let namespace =
        Namespace::new(namespace).map_err(|source| AddressError::Namespace { name: name.to_owned(), source })?;
    Ok(ProcId { namespace, rank })
}

/// Reads the rank of one process: decimal digits only, no sign, nothing that is reserved.
pub(super) fn parse_rank(text: &str) -> Option<Rank> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match Rank::from_raw(text.parse().ok()?) {
        Ok(rank @ Rank::Process(_)) => Some(rank),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_namespace_may_hold_dots() {
        let address: ServerAddress = "a.b.7;unix:/tmp/x/s".parse().unwrap();
        assert_eq!(address.server, ProcId::new(Namespace::new("a.b").unwrap(), 7));
        assert_eq!(address.path, Path::new("/tmp/x/s"));
    }

    #[test]
    fn anything_but_the_exact_form_is_refused() {
        for text in [
            "",
            ";",
            "srv;unix:/a",
            "srv.0",
            "srv.0;unix:/a;b",
            "srv.x;unix:/a",
            "srv.+1;unix:/a",
            "srv.;unix:/a",
            "srv.4294967295;unix:/a",
            ".0;unix:/a",
            "srv.0;unix:a",
            "srv.0;tcp4://127.0.0.1:1",
            "srv.0;unix:",
        ] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn the_longest_path_has_107_bytes() {
        let fits = format!("s.0;unix:/{}", "p".repeat(106));
        assert!(fits.parse::<ServerAddress>().is_ok());
        assert_eq!(format!("{fits}p").parse::<ServerAddress>(), Err(AddressError::Path { size_bytes: 108 }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(namespace in "[a-z.@-]{1,40}", rank in 0..=Rank::PROCESS_MAX, path in "/[a-z/]{0,90}") {
            let address = ServerAddress {
                server: ProcId::new(Namespace::new(&namespace).unwrap(), rank),
                path: PathBuf::from(path),
            };
            prop_assert_eq!(address.to_string().parse::<ServerAddress>(), Ok(address));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<ServerAddress>();
        }
    }
}
