//! Whether the process behind one connection belongs to the process behind another. Relatives are the same process, a
//! parent or a child of any degree, and a sibling below the server's own process.
//!
//! A rank's forked and executed children use its name, so a second connection of that name may come from a child. It
//! may also come from a process that claims a taken rank. The kernel records each parent (`/proc/PID/stat`) and the
//! holders of a socket (`/proc/PID/fd`), as far as this process may read them. Both searches are bounded, and happen
//! only when a name is claimed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Knowledge about the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// The process that connected, in our pid namespace.
    Process(u32),
    /// The socket's inode, and the user whose process holds it.
    Socket {
        /// Its number.
        inode: u64,
        /// The user.
        uid: u32,
    },
    /// Unknown: the socket is closed, or in another namespace.
    Unknown,
}

/// Says for each of `others` whether it is proven unrelated to `claimant`. No proof exists for processes of other pid
/// namespaces, for unreadable or ended processes, and for orphans that init took over.
#[must_use]
pub fn strangers(claimant: PeerEnd, others: &[PeerEnd]) -> Vec<bool> {
    Processes { table: PathBuf::from("/proc"), own: std::process::id() }.strangers(claimant, others)
}

/// The kernel's table of processes.
struct Processes {
    table: PathBuf,
    /// Our own number in it.
    own: u32,
}

/// Relation of two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinship {
    Related,
    Strangers,
    Unknown,
}

/// A process and its known ancestors.
#[derive(Debug)]
struct Lineage {
    /// The process itself first.
    pids: Vec<u32>,
    end: End,
}

/// End of a lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Our own process, which is the last of the pids.
    Ourselves,
    /// Init, which is not among the pids.
    Init,
    /// A process that has ended, that is hidden, or whose parent is in another pid namespace.
    Unknown,
}

impl Processes {
    fn strangers(&self, claimant: PeerEnd, others: &[PeerEnd]) -> Vec<bool> {
        let ends: Vec<PeerEnd> = std::iter::once(claimant).chain(others.iter().copied()).collect();
        let holders = self.holders(&ends).unwrap_or_default();
        let lineages = |end: PeerEnd| -> Vec<Lineage> {
            let pids = match end {
                PeerEnd::Process(pid) => vec![pid],
                PeerEnd::Socket { inode, .. } => holders.get(&inode).cloned().unwrap_or_default(),
                PeerEnd::Unknown => Vec::new(),
            };
            pids.into_iter().map(|pid| self.lineage(pid)).collect()
        };
        let claimants = lineages(claimant);
        let is_stranger = |&other: &PeerEnd| {
            let holders = lineages(other);
            let mut pairs =
                claimants.iter().flat_map(|one| holders.iter().map(move |other| one.kinship(other, self.own)));
            !claimants.is_empty() && !holders.is_empty() && pairs.all(|kinship| kinship == Kinship::Strangers)
        };
        // Many connections of one process are one end.
        let mut known: Vec<(PeerEnd, bool)> = Vec::new();
        let answer = |other: &PeerEnd| {
            if let Some((_, is_stranger)) = known.iter().find(|(known, _)| known == other) {
                return *is_stranger;
            }
            let is_stranger = is_stranger(other);
            known.push((*other, is_stranger));
            is_stranger
        };
        others.iter().map(answer).collect()
    }

    fn lineage(&self, pid: u32) -> Lineage {
        let mut lineage = Lineage { pids: Vec::new(), end: End::Unknown };
        let mut next = pid;
        while lineage.pids.len() < GENERATIONS_MAX {
            if next == INIT && self.own != INIT {
                return Lineage { end: End::Init, ..lineage };
            }
            lineage.pids.push(next);
            if next == self.own {
                return Lineage { end: End::Ourselves, ..lineage };
            }
            let Some(parent) = self.parent(next) else { return lineage };
            next = parent;
        }
        lineage
    }

    /// The parent of a living process. 0 stands for a parent in another pid namespace.
    fn parent(&self, pid: u32) -> Option<u32> {
        let status = fs::read_to_string(self.table.join(pid.to_string()).join("stat")).ok()?;
        // The program's name stands in parentheses, and may contain some.
        let (_, rest) = status.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
        fields.next()?.parse().ok().filter(|&parent| parent != 0 && !has_ended)
    }

    /// The processes that hold these sockets. `None`: too many entries to search.
    fn holders(&self, ends: &[PeerEnd]) -> Option<BTreeMap<u64, Vec<u32>>> {
        let mut holders = BTreeMap::new();
        let mut uids = BTreeSet::new();
        for end in ends {
            if let PeerEnd::Socket { inode, uid } = end {
                holders.insert(*inode, Vec::new());
                uids.insert(*uid);
            }
        }
        let mut left = if holders.is_empty() { 0 } else { ENTRIES_MAX };
        let entries = fs::read_dir(&self.table).ok().filter(|_| left > 0);
        for entry in entries.into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let is_theirs = || entry.metadata().is_ok_and(|metadata| uids.contains(&metadata.uid()));
            let Some(pid) = pid.filter(|_| is_theirs()) else { continue };
            for inode in sockets_of(&entry.path(), &mut left)? {
                if let Some(pids) = holders.get_mut(&inode) {
                    pids.push(pid);
                }
            }
        }
        Some(holders)
    }
}

/// The open sockets of a process. `None`: too many entries to search.
fn sockets_of(process: &Path, left: &mut usize) -> Option<Vec<u64>> {
    let mut sockets = Vec::new();
    // Unreadable: it belongs to another user by now, or hides from its own user.
    for descriptor in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
        *left = left.checked_sub(1)?;
        let target = fs::read_link(descriptor.path()).unwrap_or_default();
        let inode = |target: &str| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
        sockets.extend(target.to_str().and_then(inode));
    }
    Some(sockets)
}

impl Lineage {
    fn kinship(&self, other: &Self, own: u32) -> Kinship {
        let begins_in = |first: &Self, second: &Self| first.pids.first().is_some_and(|pid| second.pids.contains(pid));
        if begins_in(self, other) || begins_in(other, self) {
            return Kinship::Related;
        }
        match (self.end, other.end) {
            (End::Ourselves, End::Ourselves) => {
                // All processes that the server started have it as parent; that alone makes no family.
                let have_met = self.pids.iter().any(|&pid| pid != own && other.pids.contains(&pid));
                if have_met { Kinship::Related } else { Kinship::Strangers }
            }
            (End::Unknown, _) | (_, End::Unknown) => Kinship::Unknown,
            _ if self.may_be_orphan() || other.may_be_orphan() => Kinship::Unknown,
            _ => Kinship::Strangers,
        }
    }

    /// Whether init is its parent: init started it, or its own parent has ended.
    fn may_be_orphan(&self) -> bool {
        self.end == End::Init && self.pids.len() <= 1
    }
}

const INIT: u32 = 1;
/// Bound on ancestors: more than the shells and launchers between a rank and its children.
const GENERATIONS_MAX: usize = 64;
/// Bound on processes and open descriptors searched for the holders of sockets. So many may take 0.2 s.
const ENTRIES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::symlink;

    use super::*;

    const SERVER: u32 = 10;

    /// A table of processes: number, state, parent.
    fn table(processes: &[(u32, &str, u32)]) -> (tempfile::TempDir, Processes) {
        let directory = tempfile::tempdir().unwrap();
        for (pid, state, parent) in processes {
            let process = directory.path().join(pid.to_string());
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("stat"), format!("{pid} (a) b (c) {state} {parent} {pid} 0 0")).unwrap();
        }
        let processes = Processes { table: directory.path().to_owned(), own: SERVER };
        (directory, processes)
    }

    const NODE: [(u32, &str, u32); 14] = [
        (SERVER, "S", 1),
        (20, "S", SERVER),
        (21, "S", 20),
        (22, "S", 21),
        (23, "S", 20),
        (30, "S", SERVER),
        (31, "S", 30),
        (40, "S", 1),
        (50, "S", 49),
        (49, "S", 1),
        (60, "S", 0),
        (70, "Z", SERVER),
        (80, "S", 1),
        (81, "S", 80),
    ];

    #[test]
    fn a_process_and_its_descendants_are_one_family_and_others_of_the_server_are_not() {
        let (_directory, processes) = table(&NODE);
        let is_stranger =
            |claimant, other| processes.strangers(PeerEnd::Process(claimant), &[PeerEnd::Process(other)]) == [true];
        let related = [(20, 20), (22, 20), (20, 22), (22, 23), (20, SERVER), (81, 80)];
        for (claimant, other) in related {
            assert!(!is_stranger(claimant, other), "{claimant} and {other}");
        }
        for (claimant, other) in [(30, 20), (31, 22), (20, 31), (50, 20), (20, 50), (50, 81)] {
            assert!(is_stranger(claimant, other), "{claimant} and {other}");
        }
    }

    #[test]
    fn a_process_of_unknown_ancestry_is_no_stranger() {
        let (_directory, processes) = table(&NODE);
        for (claimant, other, why) in [
            (40, 20, "its parent may have ended"),
            (60, 20, "its parent is in another pid namespace"),
            (20, 60, "the same of the other"),
            (99, 20, "hidden, or gone"),
            (20, 99, "the same of the other"),
            (30, 70, "the other has ended, which the server has yet to see"),
        ] {
            let told = processes.strangers(PeerEnd::Process(claimant), &[PeerEnd::Process(other)]);
            assert_eq!(told, [false], "{claimant} and {other}: {why}");
        }
        assert_eq!(processes.strangers(PeerEnd::Unknown, &[PeerEnd::Process(20)]), [false]);
        assert_eq!(processes.strangers(PeerEnd::Process(20), &[PeerEnd::Unknown, PeerEnd::Process(30)]), [false, true]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let (_directory, processes) = table(&[(20, "S", 21), (21, "S", 20), (30, "S", SERVER)]);
        assert_eq!(processes.strangers(PeerEnd::Process(30), &[PeerEnd::Process(20)]), [false]);
    }

    /// Over TCP the kernel names no process, but `/proc` shows the sockets that each process holds.
    #[test]
    fn sockets_lead_to_the_processes_that_hold_them() {
        let (directory, processes) = table(&NODE);
        let uid = nix::unistd::geteuid().as_raw();
        let hold = |pid: u32, inode: u64| {
            symlink(format!("socket:[{inode}]"), directory.path().join(format!("{pid}/fd/{inode}"))).unwrap();
        };
        hold(20, 1000);
        hold(21, 1000);
        hold(21, 1001);
        hold(30, 1002);
        let socket = |inode| PeerEnd::Socket { inode, uid };
        let told = processes.strangers(socket(1001), &[socket(1000), socket(1002), PeerEnd::Process(30), socket(1003)]);
        assert_eq!(told, [false, true, true, false], "nobody is seen to hold the last");
        let hidden = PeerEnd::Socket { inode: 1002, uid: uid.wrapping_add(1) };
        assert_eq!(processes.strangers(hidden, &[PeerEnd::Process(20)]), [false], "only that user's are looked at");
    }

    #[test]
    fn a_socket_owner_beyond_the_search_limit_is_no_stranger() {
        let (directory, processes) = table(&NODE);
        let uid = nix::unistd::geteuid().as_raw();
        let filled = ENTRIES_MAX - NODE.len();
        for number in 1..filled {
            symlink("/", directory.path().join(format!("40/fd/{number}"))).unwrap();
        }
        symlink("socket:[7]", directory.path().join("30/fd/0")).unwrap();
        let claim = PeerEnd::Socket { inode: 7, uid };
        assert_eq!(processes.strangers(claim, &[PeerEnd::Process(20)]), [true], "the last that is looked at");
        symlink("/", directory.path().join("40/fd/0")).unwrap();
        assert_eq!(processes.strangers(claim, &[PeerEnd::Process(20)]), [false]);
    }

    #[test]
    fn this_process_is_found_by_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inode = rustix::fs::fstat(&client).unwrap().st_ino;
        let processes = Processes { table: PathBuf::from("/proc"), own: std::process::id() };
        let uid = nix::unistd::geteuid().as_raw();
        let holders = processes.holders(&[PeerEnd::Socket { inode, uid }]).unwrap();
        assert_eq!(holders.get(&inode), Some(&vec![std::process::id()]));
    }
}
