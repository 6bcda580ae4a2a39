//! Credentials of munge through its programs `munge` and `unmunge`.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use modex::{ProofError, Prover};

/// The programs on the launcher's path.
#[derive(Debug)]
pub(super) struct MungePrograms;

/// The longest answer that is read. A credential has some hundred bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

impl Prover for MungePrograms {
    fn credential(&self) -> Result<Vec<u8>, ProofError> {
        let answer = ask("munge", &["--no-input"], &[]).map_err(|reason| refused("make a credential", &reason))?;
        let mut text = answer.trim_ascii().to_vec();
        text.push(0);
        Ok(text)
    }

    fn check(&self, credential: &[u8]) -> Result<(u32, u32), ProofError> {
        let garbled = ProofError::Garbled { size_bytes: credential.len() };
        let Some(text) = credential.strip_suffix(&[0]).filter(|text| !text.contains(&0)) else { return Err(garbled) };
        let options = ["--numeric", "--keys=UID,GID", "--output=/dev/null"];
        let answer = ask("unmunge", &options, text).map_err(|reason| refused("check a credential", &reason))?;
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

/// The output of a program with this input.
fn ask(program: &str, options: &[&str], input: &[u8]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    let mut child = command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    // The input fits into the pipe.
    let given = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let mut answer = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |stdout| stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut answer));
    let status = child.wait()?;
    if !status.success() {
        return Err(io::Error::other(format!("{program} ended with {status}")));
    }
    given?;
    read?;
    Ok(answer)
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
}
