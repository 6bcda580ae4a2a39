//! The job's record: a file with a JSON line for each text that a process wants to have there.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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
pub(super) struct JobRecord(File);

impl JobRecord {
    /// Opens a file to append to. A pipe or a device could hold up the launcher.
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let open = || {
            let mut options = File::options();
            let file = options.append(true).create(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
            if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
        };
        open().map(Self).map_err(|reason| RecordError { path: path.to_owned(), reason })
    }

    /// Adds a line. `time` is since 1970.
    pub(super) fn add(&self, time: Duration, source: &str, texts: &[String]) -> io::Result<()> {
        let line = json!({ "time": universal_time(time), "source": source, "texts": texts });
        // One call, so that launchers with one record do not mix their lines.
        (&self.0).write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_a_pipe_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        for text in ["a\nb", "\u{1b}c"] {
            JobRecord::open(&path).unwrap().add(Duration::ZERO, "job:3", &[text.to_owned()]).unwrap();
        }
        let lines = std::fs::read_to_string(&path).unwrap();
        let texts: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(texts[0], json!({ "time": "1970-01-01T00:00:00.000000Z", "source": "job:3", "texts": ["a\nb"] }));
        assert_eq!((texts.len(), texts[1]["texts"][0].as_str()), (2, Some("\u{1b}c")));
        assert!(JobRecord::open(directory.path()).is_err() && JobRecord::open(Path::new("/dev/null")).is_err());
    }
}
