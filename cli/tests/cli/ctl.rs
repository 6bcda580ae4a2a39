//! `modex ctl` on running jobs.

use crate::launch::{Ended, Running, entries, modex, script, wait_until};

/// A job whose ranks show their processes, and SIGUSR1.
struct Job(Running);

impl Job {
    fn start(count: &str) -> (Self, Vec<i32>) {
        let mut running =
            script(&["-n", count, "--grace", "20"], "trap 'echo got' USR1; echo $$; while :; do sleep 0.05; done")
                .start();
        let processes = (0..count.parse().unwrap()).map(|_| running.line().trim().parse().unwrap()).collect();
        (Self(running), processes)
    }

    fn ctl(&self, words: &[&str]) -> Ended {
        modex([&["ctl"], words].concat()).env("TMPDIR", self.0.temporary()).run()
    }

    fn pid(&self) -> String {
        self.0.child.id().to_string()
    }

    fn name(&self) -> String {
        format!("modex-{}", self.pid())
    }
}

fn state(process: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_job_is_paused_resumed_signalled_and_terminated_from_outside() {
    let (mut job, processes) = Job::start("2");
    let (name, pid) = (job.name(), job.pid());
    assert_eq!(job.ctl(&[&name, "pause"]).success(), "");
    wait_until(|| processes.iter().all(|process| state(*process) == 'T'));
    assert_eq!(job.ctl(&["--pid", &pid, "resume"]).success(), "");
    wait_until(|| processes.iter().all(|process| state(*process) != 'T'));
    assert_eq!(job.ctl(&[&name, "-r", "1", "signal", "usr1"]).success(), "");
    assert_eq!(job.0.line(), "got\n");
    for (words, code, said) in [
        (&[&name, "kill", "-r", "1,7"][..], 1, "no such rank runs (PMIX_ERR_NOT_FOUND"),
        (&[&name, "signal", "34"], 1, "its launcher does not do this (PMIX_ERR_NOT_SUPPORTED"),
        (&["nobodys", "kill"], 1, "no job nobodys of this user runs here; there is: modex-"),
        (&["--pid", "1", "kill"], 1, "process 1 is no launcher of this user"),
        (&[&name, "signal", "USR9"], 2, "\"USR9\" is not a signal"),
        (&[&name, "kill", "-r", "x"], 2, "\"x\" is not a list of ranks"),
        (&[&name, "kil"], 2, "a similar subcommand exists: 'kill'"),
        (&[&name], 2, "Usage:"),
        (&["kill"], 2, "<JOB>"),
    ] {
        let ended = job.ctl(words);
        assert!(ended.code() == Some(code) && ended.err.contains(said) && ended.out.is_empty(), "{words:?}: {ended:?}");
    }
    // As for `modex query`, a file leads to the server, and its job need not be named.
    let mut files = job.0.temporary_files().into_iter().flat_map(|directory| entries(&directory));
    let file = files.find(|path| path.to_string_lossy().ends_with(&format!(".tool.{pid}")));
    let uri = format!("file:{}", file.unwrap().display());
    let ended = job.ctl(&["--uri", &uri, "nobodys", "kill"]);
    assert!(
        ended.code() == Some(1)
            && ended.err.contains(&format!("no job nobodys of this user runs here; there is: {name}"))
    );
    assert_eq!(job.ctl(&["--uri", &uri, "terminate"]).success(), "");
    let ended = job.0.finish();
    assert_eq!(ended.code(), Some(143), "{ended:?}");
    assert!(
        ended.err.starts_with("modex: ") && ended.err.contains(" asked to terminate all ranks; 2 ranks get"),
        "{ended:?}"
    );
}

#[test]
fn one_rank_that_is_killed_from_outside_ends_the_job() {
    let (job, _) = Job::start("2");
    assert_eq!(job.ctl(&[&job.name(), "kill", "--ranks", "1"]).success(), "");
    let ended = job.0.finish();
    assert_eq!(ended.code(), Some(137), "{ended:?}");
    assert!(ended.err.starts_with("modex: rank 1 was killed by SIGKILL at the request of "), "{ended:?}");
}
