use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::types::{Namespace, NamespaceError, ProcId, Rank};

/// One way to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Absolute path of a UNIX-domain socket: `unix:/path`. Only our own servers listen there.
    Unix(PathBuf),
    /// `tcp4://1.2.3.4:port` or `tcp6://::1:port`, the address of the latter with or without brackets.
    Tcp(SocketAddr),
}

impl Endpoint {
    /// Whether processes on other machines may reach it, too.
    #[must_use]
    pub const fn is_for_other_machines(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

/// Name and place of a server: `<namespace>.<rank>;<endpoint>`.
///
/// The form is the reference's. The namespace may hold dots: the rank stands after the last one. The last semicolon
/// separates name and place. Only our own processes read the address of a UNIX-domain socket. There, `%` and two
/// hexadecimal digits stand for each semicolon, percent sign or control character of name and path.
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
    /// Address for clients of other libraries.
    pub tcp: Option<SocketAddr>,
}

/// Reason why a server address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No semicolon between name and place.
    #[error("server address {text:?} has no semicolon; it must read <namespace>.<rank>;<place>")]
    Form {
        /// The address.
        text: String,
    },
    /// No dot before the rank, or the rank names no single process.
    #[error("server name {name:?} must end in a dot and a rank, like srv.0")]
    Name {
        /// The part before the semicolon.
        name: String,
    },
    /// The namespace is invalid.
    #[error("server name {name:?} has a bad namespace: {source}")]
    Namespace {
        /// The part before the semicolon.
        name: String,
        /// The error in it.
        source: NamespaceError,
    },
    /// A percent sign that begins no byte.
    #[error(
        "{escape:?} in the server address {text:?} is not an ASCII byte: two hexadecimal digits up to 7F must follow \
         a percent sign; write %25 for the sign itself"
    )]
    Escape {
        /// The part of the address with the escape: the name or the path.
        text: String,
        /// The percent sign and the characters behind it.
        escape: String,
    },
    /// Neither a UNIX-domain socket nor a TCP address.
    #[error("server place {place:?} is not unix:<absolute path>, tcp4://<address>:<port> or tcp6://<address>:<port>")]
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
            let path = from_plain(path)?;
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
            Self::Unix(path) => write!(f, "unix:{}", Plain(&path.to_string_lossy())),
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
        let form = || AddressError::Form { text: text.to_owned() };
        let (name, place) = text.rsplit_once(';').ok_or_else(form)?;
        let endpoint: Endpoint = place.parse()?;
        let name = match endpoint {
            Endpoint::Unix(_) => from_plain(name)?,
            Endpoint::Tcp(_) => name.to_owned(),
        };
        Ok(Self { server: parse_name(&name)?, endpoint })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, rank) = (self.server.namespace.as_str(), self.server.rank.to_raw());
        match self.endpoint {
            Endpoint::Unix(_) => write!(f, "{}.{rank};{}", Plain(namespace), self.endpoint),
            // Readers of this form know no escapes.
            Endpoint::Tcp(_) => write!(f, "{namespace}.{rank};{}", self.endpoint),
        }
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

/// Text with the separators of an address, and of the file that holds it, escaped.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stands_out = |c: char| c == ';' || c == '%' || c.is_ascii_control();
        self.0.chars().try_for_each(|c| match stands_out(c) {
            true => write!(f, "%{:02X}", u32::from(c)),
            false => write!(f, "{c}"),
        })
    }
}

/// Reads the text that [`Plain`] has written.
fn from_plain(text: &str) -> Result<String, AddressError> {
    let mut parts = text.split('%');
    let mut read = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((c, rest)) = escaped(part) else {
            let escape = std::iter::once('%').chain(part.chars().take(2)).collect();
            return Err(AddressError::Escape { text: text.to_owned(), escape });
        };
        read.push(c);
        read.push_str(rest);
    }
    Ok(read)
}

/// The character that two hexadecimal digits encode, and the rest of the text.
fn escaped(part: &str) -> Option<(char, &str)> {
    let (digits, rest) = part.split_at_checked(2)?;
    let byte = u8::from_str_radix(digits, 16).ok().filter(|byte| byte.is_ascii() && !digits.starts_with('+'))?;
    Some((char::from(byte), rest))
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

/// Reads the rank of one process: decimal digits only, no sign, no reserved value.
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
            "srv.0;unix:/a%",
            "srv.0;unix:/a%3",
            "srv.0;unix:/a%zz",
            "srv.0;unix:/a%+3",
            "srv.0;unix:/a%00",
            "srv.0;unix:/a%e9",
            "srv%.0;unix:/a",
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
    fn a_bad_escape_is_shown() {
        // Regression: the error called the path too long or not absolute, and it was neither.
        for (text, part, escape) in [
            ("srv.0;unix:/a%zz/s", "/a%zz/s", "%zz"),
            ("srv.0;unix:/a%3", "/a%3", "%3"),
            ("srv.0;unix:/100%", "/100%", "%"),
            ("srv.0;unix:/caf%e9", "/caf%e9", "%e9"),
            ("50%off.0;unix:/a", "50%off.0", "%of"),
        ] {
            let refused = text.parse::<ServerAddress>().unwrap_err();
            let expected = AddressError::Escape { text: part.to_owned(), escape: escape.to_owned() };
            assert_eq!(refused, expected);
            let said = refused.to_string();
            assert!(said.starts_with(&format!("{escape:?} in the server address")) && said.contains("%25"), "{said}");
        }
        assert!(matches!("srv.0;unix:/a%00".parse::<ServerAddress>(), Err(AddressError::Path { .. })));
    }

    #[test]
    fn the_longest_path_has_107_bytes() {
        let fits = format!("s.0;unix:/{}", "p".repeat(106));
        assert!(fits.parse::<ServerAddress>().is_ok());
        assert_eq!(format!("{fits}p").parse::<ServerAddress>(), Err(AddressError::Path { size_bytes: 108 }));
    }

    /// Regression: a server whose directory held a semicolon could not be reached.
    #[test]
    fn a_name_and_a_path_may_hold_what_parts_them() {
        let address: ServerAddress = "a%3Bb.7;unix:/tmp/50%25%3Bx/s".parse().unwrap();
        assert_eq!(address.server, ProcId::new(Namespace::new("a;b").unwrap(), 7));
        assert_eq!(address.endpoint, Endpoint::Unix("/tmp/50%;x/s".into()));
        assert_eq!(address.to_string(), "a%3Bb.7;unix:/tmp/50%25%3Bx/s");
        let tcp = ServerAddress { endpoint: "tcp4://127.0.0.1:4711".parse().unwrap(), ..address };
        assert_eq!(tcp.to_string(), "a;b.7;tcp4://127.0.0.1:4711", "as others read it");
        assert_eq!(tcp.to_string().parse(), Ok(tcp));
    }

    fn endpoints() -> impl Strategy<Value = Endpoint> {
        // Path parts with the separators of an address and of its file, and with the characters of an escape.
        let tcp = (any::<IpAddr>(), 1..=u16::MAX).prop_map(|(ip, port)| Endpoint::Tcp(SocketAddr::new(ip, port)));
        prop_oneof!["/[a-z/;%\n 3B\u{e9}]{0,30}".prop_map(|path| Endpoint::Unix(path.into())), tcp]
    }

    proptest! {
        #[test]
        fn a_written_address_is_read_back(
            namespace in "[a-z.@%-]{1,40}",
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
