//! Credentials of munge through its programs `munge` and `unmunge`.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use modex::{ProofError, Prover};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The programs on the launcher's path.
#[derive(Debug)]
pub(crate) struct MungePrograms;

/// The longest answer that is read. A credential has some hundred bytes.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// The time for a program. The server waits as long for an answer.
const TIME_MAX: Duration = Duration::from_secs(10);

impl Prover for MungePrograms {
    fn credential(&self) -> Result<Vec<u8>, ProofError> {
        let answer = ask("munge", &["--no-input"], &[], TIME_MAX);
        let answer = answer.map_err(|reason| refused("make a credential", &reason))?;
        let mut text = answer.trim_ascii().to_vec();
        text.push(0);
        Ok(text)
    }

    fn check(&self, credential: &[u8]) -> Result<(u32, u32), ProofError> {
        let garbled = ProofError::Garbled { size_bytes: credential.len() };
        let Some(text) = credential.strip_suffix(&[0]).filter(|text| !text.contains(&0)) else { return Err(garbled) };
        let options = ["--numeric", "--keys=UID,GID", "--output=/dev/null"];
        let answer = ask("unmunge", &options, text, TIME_MAX);
        let answer = answer.map_err(|reason| refused("check a credential", &reason))?;
        ids(&String::from_utf8_lossy(&answer)).ok_or(garbled)
    }
}

fn refused(doing: &'static str, reason: &io::Error) -> ProofError {
    ProofError::Refused { doing, reason: reason.to_string() }
}

/// The user and the group in lines such as `UID: 1000`.
fn ids(answer: &str) -> Option<(u32, u32)> {
    let number = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((number("UID:")?, number("GID:")?))
}

/// The output of a program with this input. A program that takes too long is killed.
#[expect(clippy::disallowed_methods, reason = "a program outside gets a time limit")]
fn ask(program: &str, options: &[&str], input: &[u8], time_max: Duration) -> io::Result<Vec<u8>> {
    let start = Instant::now();
    let mut command = Command::new(program);
    let mut child = command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    // The input fits into the pipe.
    let given = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let answer = child.stdout.take().map_or(Ok(Vec::new()), |stdout| read_within(stdout, start, time_max));
    // A program may live on without its output.
    while answer.is_ok() && child.try_wait()?.is_none() && start.elapsed() < time_max {
        std::thread::sleep(Duration::from_millis(1));
    }
    // A program that has ended can't be killed.
    let _ = child.kill();
    let status = child.wait()?;
    let answer = answer?;
    if !status.success() {
        return Err(io::Error::other(format!("{program} ended with {status}")));
    }
    given?;
    Ok(answer)
}

/// The bytes up to the end of a program's output, or to the longest answer.
fn read_within(mut stdout: ChildStdout, start: Instant, time_max: Duration) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    loop {
        let left = time_max.checked_sub(start.elapsed()).ok_or(io::ErrorKind::TimedOut)?;
        let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Ok(0) | Err(Errno::EINTR) => continue,
            polled => polled?,
        };
        let mut chunk = [0; 4096];
        let size = stdout.read(&mut chunk)?;
        answer.extend_from_slice(chunk.get(..size).unwrap_or_default());
        if size == 0 || answer.len() >= ANSWER_BYTES_MAX {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_stand_behind_their_names() {
        assert_eq!(ids("STATUS:           0\nUID:              1000\nGID:              7\n"), Some((1000, 7)));
        assert_eq!((ids("UID: root (0)\nGID: 0\n"), ids("")), (None, None));
        assert!(matches!(MungePrograms.check(b"no end"), Err(ProofError::Garbled { size_bytes: 6 })));
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let error = ask("sleep", &["1000"], &[], Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let silent = ["-c", "exec >&- && exec sleep 1000"];
        assert!(ask("sh", &silent, &[], Duration::from_millis(200)).is_err());
        assert_eq!(ask("cat", &[], b"a text", Duration::from_secs(20)).unwrap(), b"a text");
    }
}
