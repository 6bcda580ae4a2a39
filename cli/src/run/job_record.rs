//! The job's record: a file with a JSON line for each text that a process wants to have there.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::OFlag;
use serde_json::json;

use crate::universal_time::universal_time;

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
#[error("the record {path} cannot be opened: {reason}")]
pub(crate) struct RecordError {
    path: PathBuf,
    reason: io::Error,
}

/// The open file.
#[derive(Debug)]
pub(super) struct JobRecord {
    file: File,
    /// Whether the last line lacks its end, for example because the disk was full.
    is_cut: AtomicBool,
}

impl JobRecord {
    /// Opens a file to append to. A pipe or a device could hold up the launcher.
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let open = || {
            let mut options = File::options();
            let file = options.append(true).create(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
            if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
        };
        open()
            .map(|file| Self { file, is_cut: AtomicBool::new(false) })
            .map_err(|reason| RecordError { path: path.to_owned(), reason })
    }

    /// Adds a line. `time` is since 1970.
    pub(super) fn add(&self, time: Duration, source: &str, texts: &[String]) -> io::Result<()> {
        let line = json!({ "time": universal_time(time), "source": source, "texts": texts });
        // Only the launcher's loop adds lines, so no other memory depends on this flag.
        let mut is_cut = self.is_cut.load(Ordering::Relaxed);
        let result = write_line(&mut &self.file, &mut is_cut, &line.to_string());
        self.is_cut.store(is_cut, Ordering::Relaxed);
        result
    }
}

/// Writes a line, and before it the end of a line that is cut. `is_cut`: whether the last line lacks its end.
fn write_line(file: &mut impl Write, is_cut: &mut bool, line: &str) -> io::Result<()> {
    let text = format!("{}{line}\n", if *is_cut { "\n" } else { "" });
    let mut rest = text.as_bytes();
    // Usually one call, so that launchers with one record do not mix their lines.
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => {
                rest = rest.get(size..).unwrap_or_default();
                *is_cut = !rest.is_empty();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_also_after_a_cut_one_and_a_pipe_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        for text in ["a\nb", "\u{1b}c"] {
            JobRecord::open(&path).unwrap().add(Duration::ZERO, "job:3", &[text.to_owned()]).unwrap();
        }
        let lines = std::fs::read_to_string(&path).unwrap();
        let texts: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(texts[0], json!({ "time": "1970-01-01T00:00:00.000000Z", "source": "job:3", "texts": ["a\nb"] }));
        assert_eq!((texts.len(), texts[1]["texts"][0].as_str()), (2, Some("\u{1b}c")));
        let (mut bytes, mut is_cut) = ([0; 3], false);
        assert!(write_line(&mut &mut bytes[..], &mut is_cut, "abcd").is_err() && is_cut);
        let mut rest = Vec::new();
        write_line(&mut rest, &mut is_cut, "ef").unwrap();
        assert_eq!((&bytes, &rest[..], is_cut), (b"abc", &b"\nef\n"[..], false));
        assert!(JobRecord::open(directory.path()).is_err() && JobRecord::open(Path::new("/dev/null")).is_err());
    }
}
