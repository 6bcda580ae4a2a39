use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::socket_directory::{ListenError, SocketDirectory};
use super::{PeerCredentials, Stream, StreamLimits};

/// Users that can reach a server's socket. The server decides about their rights after the kernel named them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketAccess {
    /// The server's own user (and root): directory 0700, socket 0600. For a server that runs as the user of its job.
    #[default]
    OwnerOnly,
    /// Every user may connect: directory 0711 (enter, but not list) and socket 0666. Only the processes started by the
    /// server know the name, 128 random bits. The server drops each peer whose kernel credentials differ from the
    /// registered ones. For a server that runs as root and serves jobs of other users.
    RegisteredUsers,
}

/// A listening socket in a directory of its own. Its drop removes both, except in a forked copy. The user's next socket
/// in the same place removes the leftovers of a killed process.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    directory: SocketDirectory,
}

impl Listener {
    /// Makes a socket in a new directory below `parent`, which must exist, and removes the leftovers of killed servers.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(parent: &Path, access: SocketAccess) -> Result<Self, ListenError> {
        Self::within(SocketDirectory::create(parent)?, access)
    }

    fn within(directory: SocketDirectory, access: SocketAccess) -> Result<Self, ListenError> {
        let path = directory.socket_path();
        let failed = |step, path: &Path| {
            let path = path.to_owned();
            move |source| ListenError::Io { step, path, source }
        };
        let socket = UnixListener::bind(path).map_err(failed("bind a socket at", path))?;
        socket.set_nonblocking(true).map_err(failed("make non-blocking the socket", path))?;
        // The directory is still 0700 here, so no other user can connect before the modes are right.
        let (directory_mode, socket_mode) = access.modes();
        directory.set_modes(directory_mode, socket_mode).map_err(failed("set the mode of", path))?;
        Ok(Self { socket, directory })
    }

    /// The path that clients connect to.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.socket_path()
    }

    /// Takes the next waiting connection, or `None` if there is none.
    ///
    /// # Errors
    /// Out of descriptors or memory; the caller should stop accepting for a while.
    pub fn accept(&self, limits: StreamLimits) -> io::Result<Option<(Stream, PeerCredentials)>> {
        loop {
            let socket = match self.socket.accept() {
                Ok((socket, _)) => socket,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => continue,
                Err(e) => return Err(e),
            };
            let credentials = PeerCredentials::of_peer(&socket)?;
            return Ok(Some((Stream::new(socket, limits), credentials)));
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl SocketAccess {
    /// Modes of the directory and of the socket.
    const fn modes(self) -> (u32, u32) {
        match self {
            Self::OwnerOnly => (0o700, 0o600),
            Self::RegisteredUsers => (0o711, 0o666),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn modes_follow_the_policy() {
        let parent = tempfile::tempdir().unwrap();
        for (access, directory, socket) in
            [(SocketAccess::OwnerOnly, 0o700, 0o600), (SocketAccess::RegisteredUsers, 0o711, 0o666)]
        {
            let listener = Listener::bind(parent.path(), access).unwrap();
            assert_eq!(mode(listener.path()), socket);
            assert_eq!(mode(listener.path().parent().unwrap()), directory);
        }
    }

    /// Where others may write to the parent (`chmod 0777`, no sticky bit), one of them can put a link in the place of
    /// the server's directory. A server of root then made the link's target, such as a home, open for all, and at its
    /// end removed a file there. Modes are set, and the socket removed, through the descriptor of the server's own
    /// directory.
    #[test]
    fn a_link_in_the_place_of_the_directory_leads_nowhere() {
        let parent = tempfile::tempdir().unwrap();
        let [victim, aside] = ["victim", "aside"].map(|name| parent.path().join(name));
        fs::create_dir(&victim).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).unwrap();
        let swap = |directory: &Path| {
            fs::rename(directory, &aside).unwrap();
            symlink(&victim, directory).unwrap();
        };
        let directory = SocketDirectory::create(parent.path()).unwrap();
        swap(directory.path());
        let error = Listener::within(directory, SocketAccess::RegisteredUsers).unwrap_err();
        assert!(error.to_string().contains("set the mode of"), "{error}");
        assert_eq!(mode(&victim), 0o700);
        fs::remove_dir(&aside).unwrap();

        let listener = Listener::bind(parent.path(), SocketAccess::RegisteredUsers).unwrap();
        swap(listener.path().parent().unwrap());
        let name = listener.path().file_name().unwrap().to_owned();
        fs::rename(victim.join(&name), victim.join("socket of the first")).unwrap();
        fs::write(victim.join(&name), "a file of the victim").unwrap();
        drop(listener);
        assert!(victim.join(&name).exists());
        assert_eq!(fs::read_dir(&aside).unwrap().count(), 0, "the server's own socket is gone");
    }

    #[test]
    fn nothing_is_left_after_the_listener() {
        let parent = tempfile::tempdir().unwrap();
        let first = Listener::bind(parent.path(), SocketAccess::OwnerOnly).unwrap();
        let second = Listener::bind(parent.path(), SocketAccess::OwnerOnly).unwrap();
        assert_ne!(first.path(), second.path());
        drop((first, second));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_long_temporary_directory_is_named_in_the_error_and_left_empty() {
        let parent = tempfile::tempdir().unwrap();
        let deep = parent.path().join("d".repeat(100));
        fs::create_dir(&deep).unwrap();
        let error = Listener::bind(&deep, SocketAccess::OwnerOnly).unwrap_err();
        assert!(matches!(error, ListenError::PathTooLong { .. }), "{error}");
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 0);
    }

    #[test]
    fn a_temporary_directory_that_can_not_be_made_is_an_error() {
        let error = Listener::bind(Path::new("/dev/null/modex"), SocketAccess::OwnerOnly).unwrap_err();
        assert!(error.to_string().contains("/dev/null/modex"), "{error}");
    }
}
