//! The jobs of all servers. Connections stay from one question to the next.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, Builder};
use std::time::Duration;

use modex::ptl::rendezvous::Found;

use super::Snapshot;
use crate::ps::{self, Connection, ServerReport};

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
        let servers = ps::servers();
        for servers in servers.chunks(ASKED_AT_ONCE_MAX) {
            let known = servers.iter().map(|found| (found, self.open.remove(&found.path)));
            for (found, answered) in asked(known.collect()) {
                match answered {
                    Ok((connection, report)) => {
                        snapshot.servers.push(report);
                        open.insert(found.path.clone(), connection);
                    }
                    // The process has ended meanwhile.
                    Err(_) if !found.path.exists() => {}
                    Err(error) => {
                        let pid = found.contents.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
                        snapshot.complaints.push(format!("cannot ask process {pid}: {error}"));
                    }
                }
            }
        }
        self.open = open;
        snapshot
    }
}

/// Servers that are asked at the same time, so that those that do not answer hold up the others once.
const ASKED_AT_ONCE_MAX: usize = 32;

type Answered = Result<(Connection, ServerReport), String>;

/// Asks each server in a thread of its own.
fn asked(servers: Vec<(&Found, Option<Connection>)>) -> Vec<(&Found, Answered)> {
    let ask = |found: &Found, known: Option<Connection>| -> Answered {
        let connection = known.map_or_else(|| Connection::open(found), Ok).map_err(|error| error.to_string())?;
        let report = connection.report().map_err(|error| error.to_string())?;
        Ok((connection, report))
    };
    thread::scope(|scope| {
        let begun: Vec<_> =
            servers.into_iter().map(|(found, known)| (found, scope.spawn(move || ask(found, known)))).collect();
        let ended = begun.into_iter().map(|(found, thread)| {
            (found, thread.join().unwrap_or_else(|_| Err("the thread that asked has failed".to_owned())))
        });
        ended.collect()
    })
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
