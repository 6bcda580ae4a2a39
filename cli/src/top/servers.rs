//! The jobs of all servers. Connections stay from one question to the next.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, Builder};
use std::time::Duration;

use super::Snapshot;
use crate::ps::{self, Connection};

/// The connections, by the servers' files.
#[derive(Debug, Default)]
pub(super) struct Servers {
    open: BTreeMap<PathBuf, Connection>,
}

impl Servers {
    /// Asks all servers of this user.
    pub(super) fn ask(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut open = BTreeMap::new();
        for found in ps::servers() {
            let known = self.open.remove(&found.path);
            let connection = known.map_or_else(|| Connection::open(&found).map_err(Into::into), Ok);
            let answered = connection.and_then(|connection| connection.report().map(|report| (connection, report)));
            match answered {
                Ok((connection, report)) => {
                    snapshot.servers.push(report);
                    open.insert(found.path, connection);
                }
                // The process has ended meanwhile.
                Err(_) if !found.path.exists() => {}
                Err(error) => {
                    let pid = found.contents.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
                    snapshot.complaints.push(format!("cannot ask process {pid}: {error}"));
                }
            }
        }
        self.open = open;
        snapshot
    }
}

/// A thread that asks, so that a server that does not answer holds up no key.
#[derive(Debug)]
pub(super) struct Background(Receiver<Snapshot>);

impl Background {
    /// Asks in this interval. The thread ends with the receiver, or with the process.
    pub(super) fn start(delay: Duration) -> io::Result<Self> {
        let (sender, snapshots) = mpsc::sync_channel(1);
        Builder::new().name("modex-top".to_owned()).spawn(move || {
            let mut servers = Servers::default();
            // A second snapshot waits until the first one is taken.
            while sender.send(servers.ask()).is_ok() {
                thread::sleep(delay);
            }
        })?;
        Ok(Self(snapshots))
    }

    /// The newest answers, if there are new ones.
    pub(super) fn newest(&self) -> Option<Snapshot> {
        self.0.try_iter().last()
    }
}
