//! The files of `--output`, the time of `--timestamp`, and the one output of `--merge`.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::launch::{Ended, MODEX, entries, modex, script, wait_until};

/// A directory whose name is text.
fn directory() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap().to_owned();
    (directory, path)
}

fn read(directory: &str, name: &str) -> String {
    fs::read_to_string(Path::new(directory).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const BOTH: &str = "echo out $PMIX_RANK; echo err $PMIX_RANK >&2; printf end";

#[test]
fn each_output_of_each_rank_has_a_file_and_the_terminal_has_none() {
    let (_kept, parent) = directory();
    for path in [format!("{parent}/new/deep"), parent.clone()] {
        let old = Path::new(&path).join("rank.1.out");
        fs::create_dir_all(&path).unwrap();
        fs::write(&old, "old content that is longer than the new one").unwrap();
        assert_eq!(script(&["-n", "2", "--output", &path], BOTH).run().success(), "");
        for rank in 0..2 {
            assert_eq!(read(&path, &format!("rank.{rank}.out")), format!("out {rank}\nend"));
            assert_eq!(read(&path, &format!("rank.{rank}.err")), format!("err {rank}\n"));
        }
    }
}

#[test]
fn files_of_several_programs_are_numbered_as_the_ranks_with_equal_length() {
    let (_kept, path) = directory();
    let words = ["run", "--output-filename", &path, "-n", "10", "echo", "a", ":", "-n", "1", "echo", "b"];
    assert_eq!(modex(words).run().success(), "");
    assert_eq!((read(&path, "rank.09.out"), read(&path, "rank.10.out")), ("a\n".to_owned(), "b\n".to_owned()));
    assert_eq!(entries(Path::new(&path)).len(), 22);
}

/// The launcher overlooked these parameters of OpenPMIx, which servers in C read.
#[test]
fn parameters_ask_for_marks_as_options_do() {
    let said = |name: &str, job: &str| script(&["-n", "1"], job).env(name, "true").run().success();
    assert_eq!(said("PMIX_MCA_iof_tag_output", "echo said"), "[0,stdout] said\n");
    assert_eq!(said("PMIX_MCA_iof_xml_output", "printf '&'"), "<stdout rank=\"0\">&amp;</stdout>\n");
    let stamped = said("PMIX_MCA_iof_timestamp_output", "echo said");
    assert!(stamped.starts_with("20") && stamped.ends_with("Z said\n"), "{stamped}");
}

/// One pipe for both outputs keeps the order in which the rank wrote.
#[test]
fn merged_outputs_keep_their_order() {
    let alternating = "for i in $(seq 200); do echo out $i; echo err $i >&2; done";
    let expected: String = (1..=200).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(script(&["-n", "1", "--merge"], alternating).run().success(), expected);
    let (_kept, path) = directory();
    let options = ["-n", "2", "--merge-stderr-to-stdout", "--output", &path];
    assert_eq!(script(&options, alternating).run().success(), "");
    assert_eq!((read(&path, "rank.0.out"), read(&path, "rank.1.out")), (expected.clone(), expected));
    assert_eq!(entries(Path::new(&path)).len(), 2, "no file for an output that no rank has");
    assert_eq!(script(&["-n", "1", "--merge", "--tag-output"], "echo said >&2").run().success(), "[0,stdout] said\n");
}

#[test]
fn the_time_stands_in_front_of_each_line_and_before_the_tag() {
    let now = || {
        let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (_kept, path) = directory();
    let before = now();
    let to_pipe = script(&["-n", "1", "--timestamp"], BOTH).run();
    let tagged = ["-n", "1", "--timestamp-output", "--tag-output", "--output", &path];
    assert_eq!(script(&tagged, BOTH).run().success(), "");
    let after = now();
    let is_between = |time: &str| before.as_str() <= time && time[..19] <= after[..];
    for (text, lines) in [
        (&to_pipe.out, &["out 0", "end"][..]),
        (&to_pipe.err, &["err 0"]),
        (&read(&path, "rank.0.out"), &["[0,stdout] out 0", "[0,stdout] end"]),
        (&read(&path, "rank.0.err"), &["[0,stderr] err 0"]),
    ] {
        let cut: Vec<_> = text.lines().map(|line| line.split_at(28)).collect();
        assert_eq!(cut.iter().map(|(_, rest)| *rest).collect::<Vec<_>>(), lines);
        assert!(cut.iter().all(|(time, _)| is_between(time) && time.ends_with("Z ")), "{before} {text} {after}");
    }
}

#[test]
fn long_lines_reach_the_files_as_they_are() {
    let (_kept, path) = directory();
    let long = "head -c 300000 /dev/zero | tr '\\0' $PMIX_RANK; echo; echo short";
    assert_eq!(script(&["-n", "4", "--output", &path], long).run().success(), "");
    for rank in 0..4 {
        let expected = format!("{}\nshort\n", rank.to_string().repeat(300_000));
        assert!(read(&path, &format!("rank.{rank}.out")) == expected);
    }
}

/// The job's program leaves a mark if it runs.
fn refused(path: &str) -> Ended {
    let (_kept, marks) = directory();
    let ended = script(&["-n", "2", "--output", path], &format!("touch {marks}/ran")).run();
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.lines().count()), (Some(1), "", 1), "{ended:?}");
    assert_eq!(entries(Path::new(&marks)).len(), 0, "a rank ran");
    ended
}

#[test]
fn a_place_that_can_not_be_written_is_named_before_any_rank_starts() {
    let (_kept, path) = directory();
    fs::create_dir(format!("{path}/rank.1.err")).unwrap();
    fs::create_dir(format!("{path}/pipes")).unwrap();
    let pipe = format!("{path}/pipes/rank.0.out");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(format!("{path}/file"), "").unwrap();
    for (place, reason) in [
        (path.clone(), format!("{path}/rank.1.err: Is a directory")),
        (format!("{path}/file"), format!("{path}/file: File exists")),
        (format!("{path}/file/deep"), format!("{path}/file/deep: Not a directory")),
        ("/proc/none".to_owned(), "/proc/none: No such file".to_owned()),
        (format!("{path}/pipes"), format!("{pipe}: No such device or address")),
    ] {
        let ended = refused(&place);
        assert!(ended.err.starts_with(&format!("modex: --output: cannot write {reason}")), "{ended:?}");
    }
}

/// A rank's work is worth more than its output, so the job goes on.
#[test]
fn a_full_disk_is_said_once_and_the_job_goes_on() {
    let (_kept, path) = directory();
    symlink("/dev/full", format!("{path}/rank.0.out")).unwrap();
    symlink("/dev/full", format!("{path}/rank.1.err")).unwrap();
    let much = format!("seq 100000; seq 100000 >&2; touch {path}/done.$PMIX_RANK");
    let ended = script(&["-n", "2", "--output", &path], &much).run();
    assert_eq!((ended.code(), ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.err.starts_with("modex: the ranks' output can't be written to "), "{ended:?}");
    assert!(ended.err.contains("No space left on device"), "{ended:?}");
    assert!((0..2).all(|rank| Path::new(&format!("{path}/done.{rank}")).exists()), "a rank was ended");
    assert_eq!((read(&path, "rank.0.err").len(), read(&path, "rank.1.out").len()), (588_895, 588_895));
}

/// A named pipe that nobody reads is a disk that never answers.
#[test]
fn a_disk_that_hangs_keeps_nobody_from_ending_the_job() {
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let (_kept, path) = directory();
        let pipe = format!("{path}/rank.0.out");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _unread = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let running =
            script(&["-n", "2", "--output", &path], &format!("touch {path}/begun.$PMIX_RANK; exec yes")).start();
        wait_until(|| (0..2).all(|rank| Path::new(&format!("{path}/begun.{rank}")).exists()));
        running.signal(signal);
        let ended = running.finish();
        assert_eq!(ended.code(), Some(status), "{ended:?}");
        assert_eq!(ended.err, format!("modex: received {signal}; 2 ranks get 2 s to end\n"));
    }
}

#[test]
fn too_few_descriptors_for_the_files_are_counted() {
    let (_kept, path) = directory();
    let job = |limit: u32| {
        let words = format!("ulimit -n {limit} && exec {MODEX} run -n 64 --output {path} -- true");
        Command::new("sh").args(["-c", &words]).output().unwrap()
    };
    let enough = job(40 + 4 * 64 + 2 * 64);
    assert!(enough.status.success(), "{enough:?}");
    let said = |limit: u32| String::from_utf8(job(limit).stderr).unwrap();
    assert!(said(160).contains("raise the limit on open files (ulimit -n), which is 160"), "{}", said(160));
    assert!(said(250).ends_with("; a job of 64 ranks needs 424\n"), "{}", said(250));
    assert!(said(64).starts_with("modex: --output: cannot write "), "{}", said(64));
}
