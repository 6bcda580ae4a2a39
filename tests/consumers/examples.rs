//! The programs in `libpmix/examples`, run as their comments say, with every library and every set of headers. Readers
//! copy them, so they must work.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::library::{Headers, library, repository, scratch};
use crate::process::{Consumer, Running, wait_for};

const NAMES: [&str; 12] = [
    "allocation",
    "client",
    "costs",
    "debuggee",
    "debugger",
    "events",
    "hello",
    "host",
    "indirect",
    "scheduler",
    "server",
    "tool",
];

/// The directories of the compiled programs, one for each set of headers.
fn sets() -> &'static [PathBuf] {
    static SETS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    SETS.get_or_init(|| {
        let compile = |headers: &Headers| {
            let directory = scratch().join(format!("examples-{}", headers.name));
            std::fs::create_dir(&directory).unwrap();
            for name in NAMES {
                headers.compile(&[repository().join(format!("libpmix/examples/{name}.c"))], &directory.join(name));
            }
            directory
        };
        // Our macros call functions that OpenPMIx 4.2.2 does not have.
        library().headers().iter().filter(|set| set.name == "debian" || !library().is_stock()).map(compile).collect()
    })
}

/// The program with the library under test.
fn program(directory: &Path, name: &str) -> Consumer {
    Consumer::new(library(), directory.join(name))
}

/// A launcher with the library under test, for its ranks.
fn modex_run(count: &str) -> Consumer {
    Consumer::new(library(), crate::command::built("modex")).args(["run", "-n", count, "--"])
}

/// A launcher whose ranks run until they are ended.
pub(crate) fn long_job(count: usize) -> Running {
    let job = modex_run(&count.to_string()).args(["sh", "-c", "echo runs; exec sleep 1000"]).start();
    let launcher = id_of(&job);
    wait_for(|| job.is_closed() || sleepers_of(&launcher) == count);
    job
}

/// The number of a launcher's ranks that sleep. A rank in the middle of its `exec` stops late.
fn sleepers_of(launcher: &str) -> usize {
    let stats = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("stat"));
    let is_sleeper = |stat: &String| stat.contains(&format!(" (sleep) S {launcher} "));
    stats.filter_map(|path| std::fs::read_to_string(path).ok()).filter(is_sleeper).count()
}

/// The launcher or server behind the `timeout` of a consumer.
pub(crate) fn id_of(consumer: &Running) -> String {
    let path = format!("/proc/{0}/task/{0}/children", consumer.id());
    let children = || std::fs::read_to_string(&path).unwrap();
    wait_for(|| !children().is_empty());
    children().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn every_source_is_compiled() {
    let files = std::fs::read_dir(repository().join("libpmix/examples")).unwrap();
    let files = files.filter_map(|file| file.unwrap().file_name().to_str()?.strip_suffix(".c").map(str::to_owned));
    let mut sources: Vec<String> = files.collect();
    sources.sort();
    assert_eq!(sources, NAMES);
}

#[test]
fn a_host_starts_clients_that_read_what_the_next_one_put() {
    for set in sets() {
        let ended = program(set, "host").arg("3").arg(set.join("client")).run().success();
        let next = |rank: u32| format!("rank {rank} of 3: rank {0} listens at 10.0.0.{0}:4711", (rank + 1) % 3);
        let last = "3 processes have ended, 0 of them with an error".to_owned();
        assert_eq!(ended.sorted(), [last, next(0), next(1), next(2)], "{}", ended.transcript());
    }
}

#[test]
fn processes_know_their_places_and_meet() {
    for set in sets() {
        let ended = modex_run("2").arg(set.join("hello")).run().success();
        let place = |rank: u32| format!("rank {rank} of 2, number {rank} of 2 on its node");
        let nothing = |rank: u32| format!("rank {rank} found nothing");
        let all = "all processes were here".to_owned();
        assert_eq!(ended.sorted(), [all, nothing(0), place(0), nothing(1), place(1)], "{}", ended.transcript());
    }
}

#[test]
fn an_event_of_one_process_reaches_the_others() {
    for set in sets() {
        let ended = modex_run("3").arg(set.join("events")).run().success();
        let hears = |rank: u32| format!("rank {rank}: rank 0 has seen wind of 31 m/s");
        assert_eq!(ended.sorted(), [hears(1), hears(2)], "{}", ended.transcript());
    }
}

#[test]
fn a_scheduler_gives_nodes_and_takes_them_back() {
    for set in sets() {
        let ended = program(set, "allocation").run().success();
        let text = ended.text();
        let [new, more, too_many, back, again] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(new, "new: allocation 1 has [n0,n1]");
        assert_eq!(more, "more: allocation 1 has [n0,n1,n2]");
        // Each library has a spelling of its own for the status.
        assert_eq!(too_many.replace('_', "-").replace("PMIX-", "").replace("ERR-", ""), "too many: OUT-OF-RESOURCE");
        assert_eq!(back, "back: allocation 1 has []");
        assert_eq!(again, "again: allocation 2 has [n0,n1,n2,n3]");
    }
}

#[test]
fn a_tool_asks_a_server_and_ends_it() {
    for set in sets() {
        let server = program(set, "server").start();
        let id = id_of(&server);
        server.wait_for_line(&format!("process {id} serves tools"));
        let ask = |words: &[&str]| {
            let tool = program(set, "tool").env("TMPDIR", server.temporary()).arg(&id).args(words).run().success();
            tool.text()
        };
        let answer = ask(&[]);
        assert!(answer.ends_with("example.weather: sunny\n"), "{answer}");
        assert_eq!(ask(&["end"]), "the server ends\n");
        let ended = server.wait().success();
        assert_eq!(ended.text().lines().last(), Some("tool-2 ends the server"), "{}", ended.transcript());
    }
}

#[test]
fn a_tool_asks_a_launcher() {
    for set in sets() {
        let job = long_job(1);
        let id = id_of(&job);
        let tool = program(set, "tool").env("TMPDIR", job.temporary()).arg(&id).run().success();
        let text = tool.text();
        let namespaces = text.lines().find_map(|line| line.strip_prefix("pmix.qry.ns: "));
        let first = format!("modex-{id}");
        assert!(namespaces.is_some_and(|names| names.split(',').any(|name| name == first)), "{text}");
        job.terminate();
        job.wait();
    }
}

/// OpenPMIx without plugins for a fabric gives nothing to a job.
#[test]
fn a_job_gets_what_its_scheduler_has_planned() {
    if library().is_stock() {
        return;
    }
    for set in sets() {
        let plan = program(set, "scheduler").args(["plan", "2"]).run().success();
        let ended = program(set, "scheduler").arg("launch").input(plan.out).run().success();
        // Only machines whose hardware shows network interfaces have endpoints.
        let endpoints = u8::from(!ended.text().contains("endpoints: 0"));
        let has = |rank: u32| format!("rank {rank} has a limit of 60, a key of 16 bytes, endpoints: {endpoints}");
        let last = "2 processes have ended, 0 of them with an error".to_owned();
        let (places, lines): (Vec<_>, Vec<_>) = ended.sorted().into_iter().partition(|line| line.contains(" is at "));
        assert_eq!(lines, [last, has(0), has(1)], "{}", ended.transcript());
        assert_eq!(places.len(), 2 * usize::from(endpoints), "{}", ended.transcript());
    }
}

/// The made-up machine of the tutorial's exercises.
fn on_test_fabric(set: &Path, name: &str) -> Consumer {
    program(set, name).env("PMIX_MCA_pnet", "test").env("PMIX_MCA_pnet_test_nverts", "nodes:5;plane:d:3")
}

/// Exercise 2 of the tutorial. Five nodes have one device each. The first two are at the first switch, the next two at
/// the second one, and the last at the third one. Each switch has links to both others. So a device has two links to
/// another one at its switch, and three to one elsewhere.
#[test]
fn a_scheduler_reads_the_costs_of_its_machine() {
    if library().is_stock() {
        return;
    }
    for set in sets() {
        let ended = on_test_fabric(set, "costs").args(["3", "test001"]).run().success();
        let text = ended.text();
        let expected = [
            "5 devices",
            "0 2 3 3 3",
            "2 0 3 3 3",
            "3 3 0 2 3",
            "3 3 2 0 3",
            "3 3 3 3 0",
            "device 3 is test003:nic003 of node test003, at plane000:switch001",
            "the first device of node test001 is number 1",
            "near device 1, cost 2: test000",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    }
}

/// Exercises 3 and 4 of the tutorial. The three processes of the second node share its device.
#[test]
fn processes_find_the_endpoints_and_the_key_that_the_scheduler_has_prepared() {
    if library().is_stock() {
        return;
    }
    for set in sets() {
        let job = ["plan", "test000,test001,test002", "0,1,2;3,4,5;6,7"];
        let plan = on_test_fabric(set, "scheduler").args(job).run().success();
        let ended = program(set, "scheduler").args(["launch", "test001"]).input(plan.out).run().success();
        let has = |rank: u32| format!("rank {rank} has a limit of 60, a key of 16 bytes, endpoints: 1");
        let is_at = |rank: u32| format!("rank {rank} is at test001:nic001");
        let last = "3 processes have ended, 0 of them with an error".to_owned();
        let expected = [last, has(3), is_at(3), has(4), is_at(4), has(5), is_at(5)];
        assert_eq!(ended.sorted(), expected, "{}", ended.transcript());
    }
}

/// A launcher with a job to attach to, and debuggers.
struct Debugged<'a> {
    set: &'a Path,
    job: Running,
    launcher: String,
}

impl<'a> Debugged<'a> {
    fn start(set: &'a Path) -> Self {
        let job = long_job(2);
        let launcher = id_of(&job);
        Self { set, job, launcher }
    }

    /// The lines of a debugger, without the numbers of processes. Then the sorted lines of ranks that it writes,
    /// because a tool gets the output of its jobs. Daemons may write theirs after the debugger's end.
    fn debug(&self, words: &[&str]) -> [Vec<String>; 2] {
        let debugger = program(self.set, "debugger").env("TMPDIR", self.job.temporary()).arg(&self.launcher);
        let ended = debugger.args(words).run().success();
        let text = ended.text();
        let without = |line: &str| match line.split_once(" is process ") {
            Some((rank, number)) if number.parse().is_ok_and(|number: u32| number > 1) => rank.to_owned(),
            _ => line.to_owned(),
        };
        let of_daemons = |line: &&str| line.starts_with("daemon ");
        let lines = text.lines().filter(|line| !of_daemons(line)).map(without);
        let (mut works, said): (Vec<String>, Vec<String>) = lines.partition(|line| line.ends_with(" works"));
        works.sort_unstable();
        [said, works]
    }

    /// Ends the launcher by its debugger. Returns the sorted lines of the jobs and of the daemons.
    fn kill(self) -> Vec<String> {
        assert_eq!(self.debug(&["kill", &format!("modex-{}", self.launcher)]).concat(), [] as [&str; 0]);
        let mut lines = self.job.wait().code(137).sorted();
        lines.retain(|line| line != "runs");
        lines
    }
}

#[test]
fn a_debugger_starts_jobs_that_wait_and_looks_at_them_with_daemons() {
    for set in sets() {
        for (place, name, state) in
            [("exec", "exec", "stopped"), ("init", "pmix-init", "not stopped"), ("app", "before-work", "not stopped")]
        {
            let debugged = Debugged::start(set);
            let debuggee = set.join("debuggee");
            let [said, written] = debugged.debug(&["launch", place, "2", debuggee.to_str().unwrap()]);
            let waits = format!("the job waits at {name}");
            assert_eq!(said, [waits.as_str(), "rank 0", "rank 1", "released", "the job has ended"]);
            let sees = |rank: u32| format!("daemon {rank} sees rank {rank}: debuggee, {state}");
            let works = |rank: u32| format!("rank {rank} works");
            assert_eq!(written, [0, 1].map(works));
            assert_eq!(debugged.kill(), [sees(0), sees(1), works(0), works(1)]);
        }
    }
}

#[test]
fn a_debugger_attaches_to_a_job_and_detaches() {
    for set in sets() {
        let debugged = Debugged::start(set);
        let job = format!("modex-{}", debugged.launcher);
        assert_eq!(debugged.debug(&["attach", &job]).concat(), ["rank 0", "rank 1", "detached"]);
        let sees = |rank: u32| format!("daemon 0 sees rank {rank}: sleep, stopped");
        assert_eq!(debugged.kill(), [sees(0), sees(1)]);
    }
}

#[test]
fn a_debugger_starts_a_launcher_that_waits_and_directs_its_job() {
    for set in sets() {
        let debugged = Debugged::start(set);
        let modex = crate::command::built("modex");
        let tool = program(set, "indirect").env("TMPDIR", debugged.job.temporary()).arg(&debugged.launcher).arg(&modex);
        let ended = tool.args(["run", "-n", "2", "--"]).arg(set.join("debuggee")).run().success();
        let text = ended.text();
        // The launcher may write the output of its ranks after the tool's end.
        let said: Vec<&str> = text.lines().filter(|line| !line.ends_with(" works")).collect();
        assert_eq!(said, ["the launcher waits", "the job waits", "the job has ended"], "{}", ended.transcript());
        assert_eq!(debugged.kill(), ["rank 0 works", "rank 1 works"]);
    }
}

#[test]
fn a_debugger_without_a_server_starts_the_launcher_itself() {
    for set in sets() {
        let tool = program(set, "indirect").arg("0").arg(crate::command::built("modex"));
        let ended = tool.args(["run", "-n", "2", "--"]).arg(set.join("debuggee")).run().success();
        let expected = ["rank 0 works", "rank 1 works", "the job has ended", "the job waits", "the launcher waits"];
        assert_eq!(ended.sorted(), expected, "{}", ended.transcript());
        assert!(!ended.transcript().contains("warning"), "{}", ended.transcript());
    }
}
