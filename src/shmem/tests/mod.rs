//! Tests of segments: the contract over all backings, refusals, protection by the kernel, limits, leaks, and two
//! processes at once.

mod contract;
mod growth;
mod limits;
mod property;
mod protection;
mod refusal;
mod stress;

use std::process::{Command, Stdio};

use super::*;
use tempfile::TempDir;

/// The description of data the tests use.
const LAYOUT: &str = "tests=1";

/// Options for a segment of `kind`, and its directory if it needs one.
fn options(kind: BackingKind) -> (SegmentOptions, TempDir) {
    let directory = TempDir::new().unwrap();
    let mut options = SegmentOptions::new("job-7@host", "daemon.0");
    options.backing = kind;
    options.directory = Some(directory.path().to_owned());
    options.span_bytes = 64 << 20;
    options.created_unix_s = 1_700_000_000;
    (options, directory)
}

/// A writer with a span of 64 MiB.
fn writer(kind: BackingKind) -> (SegmentWriter, TempDir) {
    let (options, directory) = options(kind);
    (SegmentWriter::create(&options, LAYOUT).unwrap(), directory)
}

/// A reader of the segment of `writer`.
fn reader(writer: &SegmentWriter) -> SegmentReader {
    attach(writer.handle().unwrap()).unwrap()
}

fn attach(handle: ReaderHandle) -> Result<SegmentReader, SegmentError> {
    SegmentReader::attach(handle, LayoutId::of(LAYOUT), &ReaderOptions::default())
}

/// An offset that is not zero.
fn at(raw: u64) -> Offset {
    Offset::from_raw(raw).unwrap()
}

/// The variable with the name of the test that a process was started for.
const CHILD: &str = "MODEX_TEST_CHILD";

/// The command that runs test `name` (a full path) alone in a process of its own.
fn child(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, name);
    command.stdin(Stdio::null());
    command
}

#[expect(clippy::disallowed_methods, reason = "a test learns from its parent what it is to do")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether this process was started to run test `name` alone. If not, starts such a process and checks its success.
///
/// For tests that change the limits of the process or count its descriptors.
fn alone(name: &str) -> bool {
    if variable(CHILD).as_deref() == Some(name) {
        return true;
    }
    let output = child(name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {said}{complained}");
    assert!(said.contains("1 passed"), "{name} did not run: {said}");
    false
}
