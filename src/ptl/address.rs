use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::types::{Namespace, NamespaceError, ProcId, Rank};

/// One way to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Absolute path of a UNIX-domain socket: `unix:/path`. Only ours listen there.
    Unix(PathBuf),
    /// `tcp4://1.2.3.4:port` or `tcp6://::1:port`, the address of the latter with or without brackets.
    Tcp(SocketAddr),
}

/// Where a server listens and who it is: `<namespace>.<rank>;<endpoint>`.
///
/// The form is the reference's: the namespace may hold dots (the rank stands after the last one), and exactly one
/// semicolon parts name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// The server's own name.
    pub server: ProcId,
    /// Its socket.
    pub endpoint: Endpoint,
}

/// The sockets of a server of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModexAddress {
    /// The server's own name.
    pub server: ProcId,
    /// Absolute path of its UNIX-domain socket, for our own clients.
    pub path: PathBuf,
    /// Where it listens for clients of other libraries.
    pub tcp: Option<SocketAddr>,
}

/// Why a server address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No semicolon, or more than one.
    #[error("server address {text:?} has {count} semicolons instead of one; it must read <namespace>.<rank>;<place>")]
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
    /// Neither a UNIX-domain socket nor a TCP address.
    #[error(
        "server place {place:?} is none of unix:<absolute path>, tcp4://<address>:<port> and tcp6://<address>:<port>"
    )]
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

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(place: &str) -> Result<Self, AddressError> {
        if let Some(path) = place.strip_prefix("unix:") {
            if !path.starts_with('/') || path.len() > ServerAddress::PATH_SIZE_BYTES_MAX || path.contains('\0') {
                return Err(AddressError::Path { size_bytes: path.len() });
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let tcp = match (place.strip_prefix("tcp4://"), place.strip_prefix("tcp6://")) {
            (Some(address), _) => parse_tcp(address).filter(SocketAddr::is_ipv4),
            (_, Some(address)) => parse_tcp(address).filter(SocketAddr::is_ipv6),
            _ => None,
        };
        tcp.map(Self::Tcp).ok_or_else(|| AddressError::Transport { place: place.to_owned() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            // Without brackets, as the reference writes it.
            Self::Tcp(address) => {
                let family = if address.is_ipv4() { 4 } else { 6 };
                write!(f, "tcp{family}://{}:{}", address.ip(), address.port())
            }
        }
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
        Ok(Self { server: parse_name(name)?, endpoint: place.parse()? })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{};{}", self.server.namespace, self.server.rank.to_raw(), self.endpoint)
    }
}

impl ModexAddress {
    /// The address for our own clients.
    #[must_use]
    pub fn unix(&self) -> ServerAddress {
        ServerAddress { server: self.server.clone(), endpoint: Endpoint::Unix(self.path.clone()) }
    }

    /// The address for clients of other libraries.
    #[must_use]
    pub fn tcp(&self) -> Option<ServerAddress> {
        self.tcp.map(|address| ServerAddress { server: self.server.clone(), endpoint: Endpoint::Tcp(address) })
    }
}

fn parse_tcp(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(address);
    let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten().filter(|port| *port != 0);
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port?))
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
        assert_eq!(address.endpoint, Endpoint::Unix("/tmp/x/s".into()));
    }

    #[test]
    fn tcp_addresses_are_read_as_all_releases_write_them() {
        for (place, address) in [
            ("tcp4://127.0.0.1:4711", "127.0.0.1:4711"),
            ("tcp6://::1:4711", "[::1]:4711"),
            ("tcp6://[::1]:4711", "[::1]:4711"),
        ] {
            let expected = Endpoint::Tcp(address.parse().unwrap());
            assert_eq!(format!("srv.0;{place}").parse::<ServerAddress>().unwrap().endpoint, expected);
        }
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
            "srv.0;unix:",
            "srv.0;tcp4://127.0.0.1",
            "srv.0;tcp4://127.0.0.1:0",
            "srv.0;tcp4://127.0.0.1:+1",
            "srv.0;tcp4://127.0.0.1:65536",
            "srv.0;tcp4://::1:1",
            "srv.0;tcp6://127.0.0.1:1",
            "srv.0;tcp4://localhost:1",
            "srv.0;tcp://127.0.0.1:1",
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

    fn endpoints() -> impl Strategy<Value = Endpoint> {
        let tcp = (any::<IpAddr>(), 1..=u16::MAX).prop_map(|(ip, port)| Endpoint::Tcp(SocketAddr::new(ip, port)));
        prop_oneof!["/[a-z/]{0,90}".prop_map(|path| Endpoint::Unix(path.into())), tcp]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            namespace in "[a-z.@-]{1,40}",
            rank in 0..=Rank::PROCESS_MAX,
            endpoint in endpoints(),
        ) {
            let server = ProcId::new(Namespace::new(&namespace).unwrap(), rank);
            let address = ServerAddress { server, endpoint };
            prop_assert_eq!(address.to_string().parse::<ServerAddress>(), Ok(address));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<ServerAddress>();
        }
    }
}
