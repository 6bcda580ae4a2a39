//! Looks at files that processes want to be watched, on a thread of its own: a file system may answer late.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crossbeam::channel::{Sender, unbounded};
use nix::sys::stat::stat;

use super::loop_messages::{LoopMessage, LoopSender};
use crate::runtime::shared::threads::spawn;
use crate::server::{FileLook, FileState};
use crate::types::Text;

/// The looks of a server. The first one starts the thread. The core limits the looks that wait. Each has its answer.
pub(super) struct FileLooks {
    loop_sender: LoopSender,
    orders: Option<Sender<(FileLook, Text)>>,
}

impl FileLooks {
    pub(super) const fn new(loop_sender: LoopSender) -> Self {
        Self { loop_sender, orders: None }
    }

    /// Looks at a file. The answer is a message to the loop.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn order(&mut self, look: FileLook, path: Text) -> io::Result<()> {
        let orders = match self.orders.take() {
            Some(orders) => orders,
            None => match start(self.loop_sender.clone()) {
                Ok(orders) => orders,
                Err(error) => {
                    let _ = self.loop_sender.send(LoopMessage::FileSeen(look, None));
                    return Err(error);
                }
            },
        };
        // The thread outlives its sender.
        let _ = self.orders.insert(orders).send((look, path));
        Ok(())
    }
}

/// The thread ends with its sender, as soon as the operating system answers it.
fn start(loop_sender: LoopSender) -> io::Result<Sender<(FileLook, Text)>> {
    let (orders, receiver) = unbounded::<(FileLook, Text)>();
    let body = move || {
        for (look, path) in receiver {
            let state = state_of(Path::new(OsStr::from_bytes(path.as_bytes())));
            if loop_sender.send(LoopMessage::FileSeen(look, state)).is_err() {
                return;
            }
        }
    };
    spawn("modex-files", body)?;
    Ok(orders)
}

/// A file that can't be looked at counts as none.
fn state_of(path: &Path) -> Option<FileState> {
    let found = stat(path).ok()?;
    Some(FileState {
        size_bytes: u64::try_from(found.st_size).unwrap_or_default(),
        accessed: (found.st_atime, found.st_atime_nsec),
        modified: (found.st_mtime, found.st_mtime_nsec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_file_is_its_size_and_its_times() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(state_of(&path), None);
        std::fs::write(&path, "one").unwrap();
        let first = state_of(&path).unwrap();
        assert_eq!(first.size_bytes, 3);
        std::fs::write(&path, "longer").unwrap();
        let second = state_of(&path).unwrap();
        assert!(second.size_bytes == 6 && second.modified >= first.modified);
    }
}
