//! From the user's words to handles of segments.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use modex::shmem::{BackingKind, ReaderHandle, SegmentReader};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt};

use super::error::InspectError;
use super::options::Target;
use super::process::{self, FoundSegment};

/// All segments of a target.
pub(super) fn segments(target: &Target) -> Result<Vec<FoundSegment>, InspectError> {
    if let Some(path) = &target.file {
        return by_name(path).map(|found| vec![found]);
    }
    if let Some(address) = &target.socket {
        return held_by(server_at(address)?);
    }
    match target.pid {
        Some(pid) => held_by(pid),
        None => of_all_servers(),
    }
}

/// The process of the server at an address.
pub(super) fn server_at(address: &str) -> Result<u32, InspectError> {
    listener_of(&socket_path(address)?)
}

/// The segments that one process holds, from any maker.
fn held_by(pid: u32) -> Result<Vec<FoundSegment>, InspectError> {
    let found = process::segments(pid)?;
    if found.is_empty() { Err(InspectError::NoSegment { pid }) } else { Ok(found) }
}

/// The segments of the servers that this user may inspect. Clients hold segments, too, so only a segment's maker counts
/// as its holder.
fn of_all_servers() -> Result<Vec<FoundSegment>, InspectError> {
    let mut seen = BTreeSet::new();
    let mut segments = Vec::new();
    for pid in process::all()? {
        // A process that ends meanwhile, or belongs to another user, gives nothing.
        let Ok(held) = process::segments(pid) else { continue };
        let own_pid = process::number_in_its_namespace(pid);
        for found in held {
            let creator = SegmentReader::preamble(&found.handle).map(|preamble| preamble.creator_pid);
            if creator.is_ok_and(|creator| Some(creator) == own_pid) && seen.insert(found.handle.identity()) {
                segments.push(found);
            }
        }
    }
    Ok(segments)
}

/// A file, or a POSIX shared-memory object if there is no such file.
fn by_name(path: &Path) -> Result<FoundSegment, InspectError> {
    let object_name = path.to_str().filter(|text| is_object_name(text) && !path.exists());
    let handle = match object_name {
        Some(name) => ReaderHandle::open_name(name)?,
        None => ReaderHandle::open_path(path)?,
    };
    let is_posix = object_name.is_some() || path.starts_with(process::POSIX_DIRECTORY);
    let backing = if is_posix { BackingKind::Posix } else { BackingKind::File };
    Ok(FoundSegment { path: path.to_owned(), holder_pid: None, backing, handle })
}

/// Whether a text is a slash and a name, as the names of shared-memory objects are.
fn is_object_name(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// The socket's path: as it is, or out of `<namespace>.<rank>;unix:<path>`.
fn socket_path(address: &str) -> Result<PathBuf, InspectError> {
    // The socket follows the server's name. The server's TCP address may come next; it is of no use here.
    let place = address.split(';').nth(1).unwrap_or(address);
    match place.strip_prefix("unix:") {
        Some(path) => Ok(path.into()),
        None if place == address && !address.contains("://") => Ok(address.into()),
        None => Err(InspectError::Uri { uri: address.to_owned() }),
    }
}

/// The process that listens on a socket. The kernel names it once the connection exists. The server sees a peer that
/// leaves without a message.
fn listener_of(path: &Path) -> Result<u32, InspectError> {
    let refused = |errno: nix::Error| InspectError::Connect { path: path.to_owned(), source: errno.into() };
    let address = UnixAddr::new(path).map_err(refused)?;
    // The call does not block: a server too busy to accept is an error rather than a wait.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let connection = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(refused)?;
    connect(connection.as_raw_fd(), &address).map_err(refused)?;
    let peer = getsockopt(&connection, sockopt::PeerCredentials).map_err(refused)?;
    match u32::try_from(peer.pid()) {
        Ok(pid) if pid != 0 => Ok(pid),
        _ => Err(InspectError::HiddenServer { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_by_its_path_or_by_the_uri_of_its_server() {
        assert_eq!(socket_path("/tmp/d/s").unwrap(), Path::new("/tmp/d/s"));
        assert_eq!(socket_path("unix:/tmp/d/s").unwrap(), Path::new("/tmp/d/s"));
        assert_eq!(socket_path("srv.a.0;unix:/tmp/d/s").unwrap(), Path::new("/tmp/d/s"));
        for uri in ["srv.0;tcp4://127.0.0.1:7", "tcp4://127.0.0.1:7", "srv.0;/tmp/s"] {
            assert!(matches!(socket_path(uri), Err(InspectError::Uri { .. })), "{uri}");
        }
    }

    #[test]
    fn only_a_slash_and_a_name_may_be_a_shared_memory_object() {
        assert!(is_object_name("/modex-1-0-a"));
        for text in ["modex", "/", "/a/b", ""] {
            assert!(!is_object_name(text), "{text}");
        }
    }
}
