//! A helper process that cleans up when the launcher is killed with SIGKILL and can't do it itself.
//!
//! It reads orders from a pipe and waits for its end. If the last order was not `done`, the launcher died: the guardian
//! kills the job's process group and removes the job's directory.

use std::ffi::OsStr;
use std::io::{self, BufRead, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The hidden subcommand that runs the guardian.
pub(crate) const SUBCOMMAND: &str = "guardian";

/// The launcher's end. Dropping it relieves the helper: the launcher has cleaned up, whichever way it got there.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Child,
    /// Closed to end the helper.
    orders: Option<ChildStdin>,
}

impl Guardian {
    /// Starts the helper in a process group of its own, so that a Ctrl-C meant for the launcher does not reach it.
    pub(super) fn start() -> io::Result<Self> {
        let mut process = idle_command()?.stdin(Stdio::piped()).process_group(0).spawn()?;
        let orders = process.stdin.take().ok_or_else(|| io::Error::other("the guardian has no pipe"))?;
        Ok(Self { process, orders: Some(orders) })
    }

    /// Makes it responsible for a process group.
    pub(super) fn watch_group(&mut self, group: Pid) -> io::Result<()> {
        self.order(format!("group {group}\n").as_bytes())
    }

    /// Makes it responsible for a directory.
    pub(super) fn watch_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.order(&[b"directory ", directory.as_os_str().as_bytes(), b"\n"].concat())
    }

    fn order(&mut self, line: &[u8]) -> io::Result<()> {
        self.orders.as_mut().map_or(Ok(()), |orders| orders.write_all(line))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // A helper that somebody killed is not missed: there is nothing left for it to do.
        let _ = self.order(b"done\n");
        self.orders = None;
        let _ = self.process.wait();
    }
}

/// A guardian without orders, which ends at once.
pub(super) fn idle_command() -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// What the guardian was told so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Orders {
    group: Option<i32>,
    directories: Vec<PathBuf>,
    done: bool,
}

impl Orders {
    fn read(input: impl BufRead) -> Self {
        let mut orders = Self::default();
        for line in input.split(b'\n').map_while(Result::ok) {
            if line == b"done" {
                orders.done = true;
            } else if let Some(group) = line.strip_prefix(b"group ") {
                orders.group = std::str::from_utf8(group).ok().and_then(|text| text.parse().ok());
            } else if let Some(directory) = line.strip_prefix(b"directory ") {
                orders.directories.push(PathBuf::from(std::ffi::OsString::from_vec(directory.to_vec())));
            }
        }
        orders
    }
}

/// The helper's life: waits for the end of its input and cleans up if nobody else did.
pub(crate) fn run() -> u8 {
    let orders = Orders::read(io::stdin().lock());
    if orders.done {
        return 0;
    }
    // Groups 0 and 1 would be the guardian's own and init's: never what a launcher means.
    if let Some(group) = orders.group.filter(|group| *group > 1) {
        // Nobody is left to tell about a failure; the usual one is that the group has ended by itself.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    for directory in orders.directories.iter().filter(|directory| is_ours(directory)) {
        let _ = std::fs::remove_dir_all(directory);
    }
    0
}

/// Only directories that a modex server makes are ever removed.
fn is_ours(directory: &Path) -> bool {
    directory.is_absolute()
        && directory.file_name().is_some_and(|name| name.as_bytes().starts_with(OsStr::new("modex-").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_line_by_line() {
        let orders = Orders::read(&b"group 42\ndirectory /tmp/modex-1\n"[..]);
        assert_eq!(orders, Orders { group: Some(42), directories: vec!["/tmp/modex-1".into()], done: false });
        assert!(Orders::read(&b"group 42\ndone\n"[..]).done);
    }

    #[test]
    fn garbled_orders_name_nobody() {
        assert_eq!(Orders::read(&b"group x\ngroup"[..]).group, None);
    }

    #[test]
    fn only_directories_of_servers_are_removed() {
        assert!(is_ours(Path::new("/tmp/modex-abc")));
        assert!(!is_ours(Path::new("/tmp")));
        assert!(!is_ours(Path::new("modex-abc")));
    }
}
