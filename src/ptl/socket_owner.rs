//! Owner of the process at the other end of a TCP connection within this node.
//!
//! TCP has no `SO_PEERCRED`, but both ends of such a connection are sockets of this kernel, which records the owner of
//! each. A peer on another machine has no socket here: its address is none of this node's. `NETLINK_SOCK_DIAG` looks up
//! the one socket. If it is not allowed (seccomp, kernels without it), the table `/proc/net/tcp` or `tcp6` is read.
//!
//! Only the owner of an *established* and *open* socket is believed. The kernel reports a socket that its process
//! closed as root's: it has no inode and its owner reads as 0. Without these two conditions any process could write an
//! introduction, close, and pass as root. Nor could another process have taken the peer's port meanwhile. Our own end
//! is checked afterwards and is still connected, so it had this one peer all the time.
//!
//! A user without a number in this process's user namespace is shown as the "overflow" user (65534), which may be a
//! real user here. If such a mapping is in force, that number names no user.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Looks owners up. Keeps a socket to the kernel, if it got one.
#[derive(Debug)]
pub(super) struct SocketOwners {
    kernel: Option<OwnedFd>,
    /// The number that stands for users without one, if such users exist.
    hidden_uid: Option<u32>,
}

/// Reason why the owner of the other end of a TCP connection is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The peer is not on this node.
    #[error("{peer} is on another machine, or in another network namespace")]
    Remote {
        /// Its address.
        peer: SocketAddr,
    },
    /// No open, established socket has this address: its process closed it, or lives in another network namespace.
    #[error(
        "the kernel knows no open socket at {peer}; its process has closed it, or runs in another network namespace"
    )]
    NotFound {
        /// Its address.
        peer: SocketAddr,
    },
    /// The connection ended before its owner was known.
    #[error("{peer} closed the connection before its owner was known")]
    Closed {
        /// Its address.
        peer: SocketAddr,
    },
    /// The owner has no number in the user namespace of this process.
    #[error(
        "the owner of {peer} has no id in this process's user namespace; run server and clients in the same user \
     namespace"
    )]
    Hidden {
        /// Its address.
        peer: SocketAddr,
    },
    /// Neither lookup works.
    #[error(
        "the kernel does not report the owner of socket {peer}, neither over NETLINK_SOCK_DIAG nor in {table}: \
     {source}"
    )]
    Unknown {
        /// Its address.
        peer: SocketAddr,
        /// The table that was tried last.
        table: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl SocketOwners {
    pub(super) fn new() -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kernel = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG)).ok();
        let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
        Self { kernel, hidden_uid: hidden_uid(&maps, &overflow) }
    }

    /// The user whose process holds the other end of our connection `socket` between `own` and `peer`.
    pub(super) fn owner(&self, socket: impl AsFd, own: SocketAddr, peer: SocketAddr) -> Result<u32, OwnerError> {
        let owner = self.holder(own, peer)?.map(|owned| owned.uid);
        // Checked after the lookup of the peer's end: while ours is open, no other process can have had the peer's
        // port.
        match owner {
            _ if !is_open(&socket) => Err(OwnerError::Closed { peer }),
            None if peer.ip().is_loopback() => Err(OwnerError::NotFound { peer }),
            None => Err(OwnerError::Remote { peer }),
            owner if owner == self.hidden_uid => Err(OwnerError::Hidden { peer }),
            Some(uid) => Ok(uid),
        }
    }

    /// The number of the socket at the other end of our connection between `own` and `peer`.
    pub(super) fn inode(&self, own: SocketAddr, peer: SocketAddr) -> Option<u64> {
        self.holder(own, peer).ok().flatten().map(|owned| owned.inode)
    }

    /// The socket at `at` that is connected to `remote`.
    fn holder(&self, remote: SocketAddr, at: SocketAddr) -> Result<Option<Owned>, OwnerError> {
        match self.kernel.as_ref().map(|kernel| ask(kernel, remote, at)) {
            Some(Asked::Found(owned)) => Ok(owned),
            Some(Asked::Unanswered) | None => confirmed(|| read_table(remote, at)),
        }
    }
}

/// Whether the other end neither closed the connection, in one direction or both, nor reset it.
fn is_open(socket: impl AsFd) -> bool {
    let wanted = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
    let mut watched = [PollFd::new(socket.as_fd(), wanted)];
    loop {
        match poll(&mut watched, PollTimeout::ZERO) {
            Err(nix::errno::Errno::EINTR) => {}
            result => return result == Ok(0),
        }
    }
}

/// `None` where every user has a number of its own (user_namespaces(7)).
fn hidden_uid(uid_map: &str, overflow: &str) -> Option<u32> {
    let is_identity = uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    (!is_identity).then(|| overflow.trim().parse().unwrap_or(OVERFLOW_UID))
}

/// An open, established socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    uid: u32,
    inode: u64,
}

/// The kernel's answer about one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// `None` if there is no such socket, or it is not open and established.
    Found(Option<Owned>),
    /// The kernel did not answer.
    Unanswered,
}

/// Looks up one socket. The request names the socket from its own side, so the peer's address comes first.
fn ask(kernel: &OwnedFd, own: SocketAddr, peer: SocketAddr) -> Asked {
    let mut buffer = [0; ANSWER_BYTES];
    // Drops the answer to an earlier question that was given up.
    while recv(kernel, &mut buffer, RecvFlags::DONTWAIT).is_ok() {}
    if send(kernel, &question(own, peer), SendFlags::DONTWAIT).is_err() {
        return Asked::Unanswered;
    }
    // The kernel answers before `send` returns.
    match recv(kernel, &mut buffer, RecvFlags::DONTWAIT) {
        Ok((count, _)) => read_answer(buffer.get(..count).unwrap_or_default(), own, peer),
        Err(_) => Asked::Unanswered,
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2` (linux/netlink.h, linux/inet_diag.h).
fn question(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let header = [host_order(QUESTION_BYTES), kind_and_flags(), [0; 4], [0; 4]];
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    let mut bytes = header.concat();
    bytes.extend([family, IPPROTO_TCP, 0, 0]);
    bytes.extend(host_order(1 << TCP_ESTABLISHED));
    bytes.extend(socket_id(own, peer));
    bytes.extend(ANY_INTERFACE);
    bytes.extend(ANY_COOKIE);
    bytes
}

/// `struct inet_diag_sockid` up to the interface: ports and addresses of both ends in network order.
fn socket_id(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let ports = [peer.port().to_be_bytes(), own.port().to_be_bytes()];
    let addresses = [peer, own].map(|end| {
        let mut field = [0; 16];
        match end.ip() {
            IpAddr::V4(address) => field.iter_mut().zip(address.octets()).for_each(|(byte, octet)| *byte = octet),
            IpAddr::V6(address) => field = address.octets(),
        }
        field
    });
    ports.concat().into_iter().chain(addresses.concat()).collect()
}

/// `struct inet_diag_msg` behind a `struct nlmsghdr`; anything else is an error message of the kernel.
fn read_answer(answer: &[u8], own: SocketAddr, peer: SocketAddr) -> Asked {
    let number = |at: usize| answer.get(at..)?.first_chunk().copied().map(from_host_order);
    let (Some(kind), Some(first)) = (number(4), number(16)) else { return Asked::Unanswered };
    match kind_of(kind) {
        SOCK_DIAG_BY_FAMILY => {}
        NLMSG_ERROR if first == NO_SUCH_ENTRY => return Asked::Found(None),
        _ => return Asked::Unanswered,
    }
    let is_same = answer.get(20..56).is_some_and(|id| id == socket_id(own, peer));
    let is_established = answer.get(17) == Some(&TCP_ESTABLISHED);
    match (number(80), number(84)) {
        (Some(uid), Some(inode)) => {
            let is_believed = is_same && is_established && inode != 0;
            Asked::Found(is_believed.then_some(Owned { uid, inode: inode.into() }))
        }
        _ => Asked::Unanswered,
    }
}

/// Reads a socket from the table. Its lines are not snapshots: a socket closed meanwhile could show its old inode with
/// root as its owner. So root is believed only after a second read. Other users are believed at once: the table may be
/// long, and every connection causes a read.
fn confirmed(mut read: impl FnMut() -> Result<Option<Owned>, OwnerError>) -> Result<Option<Owned>, OwnerError> {
    let first = read()?;
    if first.is_none_or(|owned| owned.uid != ROOT) {
        return Ok(first);
    }
    Ok(read()?.filter(|owned| owned.uid == ROOT))
}

/// Reads the table of all sockets.
fn read_table(own: SocketAddr, peer: SocketAddr) -> Result<Option<Owned>, OwnerError> {
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let lines = File::open(table).map(|file| BufReader::new(file).lines());
    lines.and_then(|lines| find_line(lines, own, peer)).map_err(|source| OwnerError::Unknown { peer, table, source })
}

fn find_line(
    lines: impl Iterator<Item = io::Result<String>>,
    own: SocketAddr,
    peer: SocketAddr,
) -> io::Result<Option<Owned>> {
    let ends = format!(": {} {} {TCP_ESTABLISHED:02X} ", table_form(peer), table_form(own));
    for line in lines.take(TABLE_LINES_MAX) {
        let line = line?;
        let Some((_, rest)) = line.split_once(&ends) else { continue };
        // Queues, timer, retransmissions; then the owner, a timeout, and the inode.
        let mut fields = rest.split_ascii_whitespace().skip(3);
        let uid = fields.next().and_then(|field| field.parse().ok());
        let inode = fields.nth(1).and_then(|field| field.parse().ok()).filter(|&inode| inode != 0);
        return Ok(uid.zip(inode).map(|(uid, inode)| Owned { uid, inode }));
    }
    Ok(None)
}

/// An address as the table has it: the words of the address as numbers of this machine, in hexadecimal.
fn table_form(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks();
    let words: String = words.iter().map(|word| format!("{:08X}", from_host_order(*word))).collect();
    format!("{words}:{:04X}", address.port())
}

/// Type and flags of a netlink message, two halves of one word. The type lies in the lower or the higher half, by the
/// machine's byte order.
const fn kind_and_flags() -> [u8; 4] {
    let (first, second) = (SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST);
    host_order(if cfg!(target_endian = "little") { second << 16 | first } else { first << 16 | second })
}

const fn kind_of(word: u32) -> u32 {
    if cfg!(target_endian = "little") { word & 0xffff } else { word >> 16 }
}

#[expect(clippy::host_endian_bytes, reason = "the kernel's structures are this machine's")]
const fn host_order(number: u32) -> [u8; 4] {
    number.to_ne_bytes()
}

#[expect(clippy::host_endian_bytes, reason = "the kernel's structures are this machine's")]
const fn from_host_order(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h.
const SOCK_DIAG_BY_FAMILY: u32 = 20;
const NLMSG_ERROR: u32 = 2;
const NLM_F_REQUEST: u32 = 1;
const NO_SUCH_ENTRY: u32 = (-2_i32).cast_unsigned();
const TCP_ESTABLISHED: u8 = 1;
const IPPROTO_TCP: u8 = 6;
const ANY_INTERFACE: [u8; 4] = [0; 4];
const ANY_COOKIE: [u8; 8] = [0xff; 8];
/// Also the owner that a closed socket shows.
const ROOT: u32 = 0;
/// The kernel's default for `kernel.overflowuid`.
const OVERFLOW_UID: u32 = 65_534;
/// Header and request.
const QUESTION_BYTES: u32 = 16 + 56;
/// More than header and answer need; attributes were not requested.
const ANSWER_BYTES: usize = 512;
/// Bound on the lines read: more sockets than a node has.
const TABLE_LINES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    /// A connection's two ends, and both addresses as the accepting side sees them: its own first.
    fn connection(address: &str) -> Option<(TcpStream, TcpStream, SocketAddr, SocketAddr)> {
        let listener = TcpListener::bind(address).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let own = server.local_addr().unwrap();
        Some((client, server, own, peer))
    }

    fn by_table(own: SocketAddr, peer: SocketAddr) -> Option<u32> {
        read_table(own, peer).unwrap().map(|owned| owned.uid)
    }

    fn by_kernel(own: SocketAddr, peer: SocketAddr) -> Option<u32> {
        let kernel = SocketOwners::new().kernel.expect("this kernel has NETLINK_SOCK_DIAG");
        match ask(&kernel, own, peer) {
            Asked::Found(owned) => owned.map(|owned| owned.uid),
            Asked::Unanswered => panic!("the kernel did not answer"),
        }
    }

    #[test]
    fn both_ways_name_the_owner_of_the_other_end() {
        let ours = nix::unistd::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((_client, _server, own, peer)) = connection(address) else {
                assert!(address.contains("::1"), "every node has an IPv4 loopback interface");
                continue;
            };
            assert_eq!(by_kernel(own, peer), Some(ours), "{address}");
            assert_eq!(by_table(own, peer), Some(ours), "{address}");
        }
    }

    #[test]
    fn both_ways_know_the_number_that_the_other_end_has() {
        let (client, _server, own, peer) = connection("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(&client).unwrap().st_ino;
        assert_eq!(SocketOwners::new().inode(own, peer), Some(inode));
        assert_eq!(SocketOwners { kernel: None, hidden_uid: None }.inode(own, peer), Some(inode));
        drop(client);
        assert_eq!(SocketOwners::new().inode(own, peer), None);
    }

    /// The kernel names root as the owner of a closed socket. A process that connects, writes and closes would be root.
    #[test]
    fn a_socket_that_its_process_closed_has_no_owner() {
        let (client, server, own, peer) = connection("127.0.0.1:0").unwrap();
        drop(client);
        assert_eq!(by_kernel(own, peer), None);
        assert_eq!(by_table(own, peer), None);
        assert!(matches!(SocketOwners::new().owner(&server, own, peer), Err(OwnerError::Closed { .. })));
    }

    #[test]
    fn a_socket_that_was_half_closed_is_not_believed_either() {
        let (client, _server, own, peer) = connection("127.0.0.1:0").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(by_kernel(own, peer), None);
        assert_eq!(by_table(own, peer), None);
    }

    /// Bytes sent before a reset can still be read, and the port may be another process's by then.
    #[test]
    fn a_connection_that_was_reset_has_no_owner() {
        let (client, server, own, peer) = connection("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let owner = SocketOwners::new().owner(&server, own, peer);
        assert!(matches!(owner, Err(OwnerError::Closed { .. })), "our own end shows it, whoever has the port now");
    }

    #[test]
    fn the_number_of_users_without_one_is_nobodys_where_there_are_such() {
        assert_eq!(hidden_uid("         0          0 4294967295\n", "65534\n"), None);
        assert_eq!(hidden_uid("         0       1000          1\n", "65533\n"), Some(65_533));
        assert_eq!(hidden_uid("", ""), Some(65_534));
        let (_client, server, own, peer) = connection("127.0.0.1:0").unwrap();
        let ours = nix::unistd::geteuid().as_raw();
        let owners = SocketOwners { hidden_uid: Some(ours), ..SocketOwners::new() };
        assert!(matches!(owners.owner(&server, own, peer), Err(OwnerError::Hidden { .. })));
    }

    /// The lookup of a connection falls back to the listener; a listener is no peer.
    #[test]
    fn a_listener_is_nobodys_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(by_kernel(nobody, listener.local_addr().unwrap()), None);
        assert_eq!(by_table(nobody, listener.local_addr().unwrap()), None);
    }

    #[test]
    fn without_the_kernels_answer_the_table_is_read() {
        let (_client, server, own, peer) = connection("127.0.0.1:0").unwrap();
        let ours = nix::unistd::geteuid().as_raw();
        assert_eq!(SocketOwners { kernel: None, hidden_uid: None }.owner(&server, own, peer).unwrap(), ours);
    }

    /// Regression: each connection had the table read four times on the server's thread.
    #[test]
    fn the_table_is_read_once_and_again_only_for_root() {
        let told = |answers: &[Option<u32>]| {
            let mut answers = answers.iter().copied();
            let owned = |uid| Owned { uid, inode: 5 };
            let owner = confirmed(|| Ok(answers.next().unwrap().map(owned))).unwrap();
            (owner.map(|owned| owned.uid), answers.len())
        };
        assert_eq!(told(&[Some(1000), None]), (Some(1000), 1));
        assert_eq!(told(&[None, Some(0)]), (None, 1));
        assert_eq!(told(&[Some(0), Some(0)]), (Some(0), 0));
        assert_eq!(told(&[Some(0), None]), (None, 0));
        assert_eq!(told(&[Some(0), Some(1000)]), (None, 0));
    }

    #[test]
    fn a_peer_elsewhere_has_no_owner() {
        let (_client, server, own, _) = connection("127.0.0.1:0").unwrap();
        let peer = "192.0.2.1:2".parse().unwrap();
        assert!(matches!(SocketOwners::new().owner(&server, own, peer), Err(OwnerError::Remote { .. })));
    }

    #[test]
    fn answers_of_any_shape_are_survived() {
        let (own, peer) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        for size in 0..100 {
            for byte in [0, 2, 20, 0xff] {
                assert!(!matches!(read_answer(&vec![byte; size], own, peer), Asked::Found(Some(_))));
            }
        }
        let lines = ["", "  sl", "   0: 0100007F:0002 0100007F:0001 01 x", ": 0100007F:0002 0100007F:0001 01 "];
        let lines = lines.map(|line| Ok(line.to_owned()));
        assert_eq!(find_line(lines.into_iter(), own, peer).unwrap(), None);
    }
}
