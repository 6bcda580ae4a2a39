//! The launcher's outputs, and the standard input of ranks.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::launch::{MODEX, modex, script};

#[test]
fn lines_of_many_ranks_never_mix() {
    let pieces = "for i in $(seq 50); do printf '%s ' $PMIX_RANK; printf half; printf '%s\\n' ' line'; done";
    let out = script(&["-n", "8"], pieces).run().success();
    let mut counts = BTreeMap::new();
    for line in out.lines() {
        *counts.entry(line).or_insert(0) += 1;
    }
    let expected: Vec<String> = (0..8).map(|rank| format!("{rank} half line")).collect();
    assert_eq!(counts, expected.iter().map(|line| (line.as_str(), 50)).collect());
}

#[test]
fn a_tag_names_rank_and_channel_of_every_line() {
    let ended = script(&["-n", "2", "--tag-output"], "echo said; echo wailed >&2; printf end").run();
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0,stdout] end", "[0,stdout] said", "[1,stdout] end", "[1,stdout] said"]);
    let mut lines: Vec<&str> = ended.err.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0,stderr] wailed", "[1,stderr] wailed"]);
}

/// Regression: a newline was put in every 64 KiB, and a tag with it.
#[test]
fn a_long_line_leaves_as_it_came() {
    const LONG: &str = "head -c 300000 /dev/zero; printf '\\nshort\\n'";
    let zeros = "\0".repeat(300_000);
    assert!(script(&["-n", "1"], LONG).run().success() == format!("{zeros}\nshort\n"));
    let tagged = script(&["-n", "1", "--tag-output"], LONG).run().success();
    assert!(tagged == format!("[0,stdout] {zeros}\n[0,stdout] short\n"));
}

#[test]
fn long_lines_of_many_ranks_never_mix() {
    let long = "for i in 1 2 3; do head -c 300000 /dev/zero | tr '\\0' $PMIX_RANK; echo; done; echo short";
    let out = script(&["-n", "4"], long).run().success();
    let mut lines: Vec<&str> = out.lines().filter(|line| *line != "short").collect();
    assert_eq!(out.lines().count() - lines.len(), 4);
    lines.sort_unstable();
    let expected: Vec<String> = (0..12).map(|line| (line / 3).to_string().repeat(300_000)).collect();
    assert!(lines == expected, "{:?}", lines.iter().map(|line| line.len()).collect::<Vec<_>>());
}

/// Rank 0 waits for rank 1 in the middle of a line, and rank 1 waits for a reader of its output. The output exceeds two
/// pipes and a held line. Without an end of the line both would wait for ever.
#[test]
fn a_long_line_whose_rank_waits_for_another_is_broken() {
    let zeros = "head -c 300000 /dev/zero; touch $PMIX_SERVER_TMPDIR/begun";
    let end = "until [ -e $PMIX_SERVER_TMPDIR/done ]; do sleep 0.02; done; printf end";
    let other =
        "until [ -e $PMIX_SERVER_TMPDIR/begun ]; do sleep 0.02; done; seq 50000; touch $PMIX_SERVER_TMPDIR/done";
    let both = format!("if [ $PMIX_RANK = 0 ]; then {zeros}; {end}; else {other}; fi");
    let out = script(&["-n", "2", "--tag-output"], &both).run().success();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((lines.len(), lines[50_000], lines[50_001]), (50_002, "[1,stdout] 50000", "[0,stdout] end"));
    assert!(lines[0] == format!("[0,stdout] {}", "\0".repeat(300_000)));
}

#[test]
fn the_two_outputs_stay_apart() {
    let ended = script(&["-n", "1"], "echo to out; echo to err >&2").run();
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("to out\n", "to err\n"));
}

/// A rank wrote the start of a line and ended, while its child still held the pipe. The line was lost, because only the
/// end of the pipe released an unfinished line. Now everything written by the job's end is passed on.
#[test]
fn an_unfinished_line_is_not_lost_when_a_child_of_the_rank_still_holds_the_pipe() {
    assert_eq!(script(&["-n", "1"], "sleep 1000 & printf unfinished").run().success(), "unfinished");
}

/// Regression: a program's binary output had one byte too many, also in a file of its own.
#[test]
fn the_last_line_gets_a_newline_if_other_ranks_write_to_the_same_output() {
    for (options, expected) in
        [(&["-n", "1"][..], "end"), (&["-n", "2"], "end\nend\n"), (&["-n", "1", "--tag-output"], "[0,stdout] end\n")]
    {
        assert_eq!(script(options, "printf end").run().success(), expected, "{options:?}");
    }
    let place = tempfile::tempdir().unwrap();
    script(&["-n", "2", "--output", place.path().to_str().unwrap()], "printf end").run().success();
    let files: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    assert_eq!(texts.filter(|text| text == "end").count(), 2, "{files:?}");
}

#[test]
fn a_slow_reader_gets_everything() {
    let mut running = script(&["-n", "2"], "seq 20000; printf end").start();
    let out = read_slowly(&mut running.out);
    assert_eq!((out.matches("end\n").count(), out.lines().count()), (2, 40_002));
    assert!(running.finish().status.success());
}

/// Another process with the same pipe (a shell, ssh) had made it non-blocking. The launcher took a full pipe for a
/// broken one, and killed the rank through its own pipe. Now it waits for room.
#[test]
fn a_non_blocking_output_that_is_full_for_a_moment_loses_nothing() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK | OFlag::O_WRONLY)).unwrap();
    let running = script(&["-n", "1"], "seq 50000").out_to(writer).start();
    assert_eq!(read_slowly(&mut reader).lines().count(), 50_000);
    assert!(running.finish().status.success());
}

/// The subject is slowness, so another process's life serves as the clock.
fn read_slowly(source: &mut impl Read) -> String {
    let mut out = Vec::new();
    loop {
        Command::new("sleep").arg("0.1").status().unwrap();
        let mut chunk = [0; 32 << 10];
        match source.read(&mut chunk).unwrap() {
            0 => return String::from_utf8(out).unwrap(),
            count => out.extend_from_slice(&chunk[..count]),
        }
    }
}

#[test]
fn rank_0_reads_the_input_unless_told_otherwise() {
    let read = "printf '%s:' $PMIX_RANK; cat; echo";
    let lines = |options: &[&str]| script(options, read).input("given").run().sorted();
    assert_eq!(lines(&["-n", "2"]), ["0:given", "1:"]);
    assert_eq!(lines(&["-n", "2", "--stdin", "0"]), ["0:given", "1:"]);
    assert_eq!(lines(&["-n", "2", "--stdin", "all"]), ["0:given", "1:given"]);
    assert_eq!(lines(&["-n", "2", "--stdin", "none"]), ["0:", "1:"]);
}

#[test]
fn a_rank_that_does_not_read_holds_nobody_up() {
    let much = "x".repeat(1 << 20);
    assert_eq!(script(&["-n", "1"], "echo done").input(&much).run().success(), "done\n");
}

#[test]
fn an_output_that_nobody_reads_ends_the_job() {
    let mut running = script(&["-n", "2"], "exec yes").start();
    assert_eq!(running.line(), "y\n");
    running.out = std::io::BufReader::new(Box::new(std::io::empty()));
    let ended = running.finish();
    assert_eq!(ended.code(), Some(141), "{ended:?}");
    assert!(ended.err.contains("was killed by SIGPIPE"), "{ended:?}");
}

/// The launcher panicked when it could not print why the job ended. Its exit status was 101 instead of the rank's.
#[test]
fn the_status_is_the_ranks_even_if_nobody_reads_the_errors() {
    let ended = script(&["-n", "1", "--report"], "exit 3").err_to(closed()).run();
    assert_eq!(ended.code(), Some(3));
}

/// Regression: completions, man pages, measurements and simulations ended with "Broken pipe" and status 1.
#[test]
fn output_that_is_cut_off_is_no_error() {
    for arguments in [
        &["completions", "bash"][..],
        &["man"],
        &["info"],
        &["ps", "--help"],
        &["info", "--api"],
        &["sim", "--seeds", "0..2"],
        &["sim", "--seeds", "0..2", "--json"],
        &["bench", "put", "--samples", "1"],
        &["--help"],
        &["run", "--help"],
    ] {
        assert_eq!(modex(arguments).out_to(closed()).run().success(), "", "{arguments:?}");
    }
}

/// A pipe without a reader.
pub(crate) fn closed() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

/// The pipe of a rank of a small job holds 256 KiB. With the usual 64 KiB the rank would wait for the launcher for ever.
#[test]
fn a_rank_writes_much_while_its_launcher_stands_still() {
    let text = "kill -STOP $PPID; head -c 262144 /dev/zero; kill -CONT $PPID";
    let out = script(&["-n", "1"], text).run().success();
    assert_eq!(out.len(), 262_144);
}

/// Regression: a full disk behind the launcher's output lost the output without a message.
#[test]
fn output_that_can_not_be_written_is_said_once() {
    let launcher = |words: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        std::process::Command::new(MODEX).args(words).stdout(full).output().unwrap()
    };
    let ended = launcher(&["run", "-n", "2", "--", "echo", "hi"]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("can't be written: No space left on device"), "{said}");
    assert_eq!(ended.status.code(), Some(1), "lost output is no success");
    let ended = launcher(&["bench", "get", "--quiet-loop", "--count", "1"]);
    assert_eq!(ended.status.code(), Some(1), "an error, no panic: {ended:?}");
}
