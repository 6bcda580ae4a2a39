//! Standard input that a tool with the C library reads and gives to ranks of `modex run` (`PMIX_IOF_PUSH_STDIN`).

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::examples::id_of;
use crate::library::{library, repository, scratch};
use crate::process::{Consumer, Running, wait_for};

/// The tool, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = scratch().join("io-tool");
        library().headers()[0].compile(&[repository().join("scripts/io-tool.c")], &program);
        program
    })
}

/// A job of three ranks, and a tool that gives a regular file to some of them.
struct Fed {
    job: Running,
    tool: Running,
    input: Vec<u8>,
}

impl Fed {
    /// Each rank runs the script in the temporary directory of the job. Without named ranks all get the file.
    fn start(script: &str, ranks: &[&str]) -> Self {
        let script = format!("cd $TMPDIR; echo ready; {script}");
        let run = ["run", "-n", "3", "--stdin", "tools", "--", "sh", "-c", &script];
        let job = Consumer::new(library(), crate::command::built("modex")).args(run).start();
        wait_for(|| job.is_closed() || job.transcript().matches("ready\n").count() == 3);
        let input: Vec<u8> = (0..4_u32 << 20).map(|at| (at % 251).to_le_bytes()[0]).collect();
        fs::write(job.temporary().join("input"), &input).unwrap();
        let tool = Consumer::new(library(), "sh").args(["-c", "exec \"$0\" push \"$@\" <$TMPDIR/input"]);
        let tool = tool.env("TMPDIR", job.temporary()).arg(program()).arg(id_of(&job)).args(ranks).start();
        Self { job, tool, input }
    }

    fn copy_of(&self, rank: u32) -> Vec<u8> {
        fs::read(self.job.temporary().join(format!("copy.{rank}"))).unwrap_or_default()
    }

    /// Waits for the end of job and tool. These ranks have the whole file then.
    fn end(self, ranks: &[u32]) {
        wait_for(|| self.job.is_closed());
        for &rank in ranks {
            assert!(self.copy_of(rank) == self.input, "rank {rank} has {} bytes", self.copy_of(rank).len());
        }
        self.job.wait().success();
        self.tool.wait().success();
    }
}

#[test]
fn a_tool_gives_its_file_to_all_ranks_or_some_with_its_end() {
    if library().is_stock() {
        return; // It does not wait for the answer to a push.
    }
    Fed::start("exec cat >copy.$PMIX_RANK", &[]).end(&[0, 1, 2]);
    Fed::start("[ $PMIX_RANK = 1 ] || exec cat >copy.$PMIX_RANK", &["0", "2"]).end(&[0, 2]);
}

/// The place in the file up to which the tool has read.
fn position(tool: &Running) -> usize {
    let facts = fs::read_to_string(format!("/proc/{}/fdinfo/0", id_of(tool))).unwrap();
    facts.lines().find_map(|line| line.strip_prefix("pos:")).unwrap().trim().parse().unwrap()
}

/// A rank that does not read stops the reading of the file. When it has gone, the others get the rest.
#[test]
fn a_rank_that_does_not_read_stops_the_tool_and_nothing_is_lost() {
    if library().is_stock() {
        return;
    }
    let idle = "until [ -e go ]; do sleep 0.1; done";
    let fed = Fed::start(&format!("if [ $PMIX_RANK = 1 ]; then {idle}; else exec cat >copy.$PMIX_RANK; fi"), &[]);
    // A tool without a limit gets to the end of the file here, and one with it does not move any more.
    let before = Cell::new(0);
    wait_for(|| {
        let position = position(&fed.tool);
        fed.job.is_closed() || position > 0 && before.replace(position) == position
    });
    assert!(position(&fed.tool) <= 1 << 20, "the tool has read {} bytes", position(&fed.tool));
    fs::write(fed.job.temporary().join("go"), "").unwrap();
    fed.end(&[0, 2]);
}
