//! Names in a job of `modex run`: its processes and the commands `modex publish` and `modex lookup` share them.

use modex::types::{AsStatus, Info, Key, Status};
use modex::{Client, FenceOptions, keys};
use serde_json::{Value as Json, json};

use crate::launch::{Launch, ROLE, Running, modex};

/// Rank 0 publishes a name, and rank 1 waits for it and for one from outside of the job.
pub(crate) fn share_names() {
    let client = Client::connect().unwrap();
    let wait = || vec![Info::new(Key::from_static(keys::WAIT.name()), 0)];
    if client.proc().rank.process() == Some(0) {
        let port = || vec![Info::new(Key::from_static("job port"), 4711_u32)];
        client.publish(port()).wait().unwrap();
        assert_eq!(client.publish(port()).wait().unwrap_err().status(), Status::ERR_DUPLICATE_KEY);
    } else {
        let found = client.lookup(vec![Key::from_static("job port")], wait()).wait().unwrap();
        assert_eq!(found.results[0].value.as_u32(), Some(4711));
        println!("ready");
        let found = client.lookup(vec![Key::from_static("outside")], wait()).wait().unwrap();
        println!("outside is {}", found.results[0].value.as_str().unwrap());
    }
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.finalize().unwrap();
}

/// A job that runs until `outside` is published.
struct Job(Running);

impl Job {
    fn start() -> Self {
        let this = std::env::current_exe().unwrap();
        let program = [this.to_str().unwrap(), "--exact", "client_process", "--nocapture"];
        let launch = modex([&["run", "-n", "2", "--"][..], &program].concat()).env(ROLE, "share names");
        let mut running = launch.start();
        while !running.line().contains("ready") {}
        Self(running)
    }

    /// The command, in the place where it finds this job.
    fn command(&self, words: &[&str]) -> Launch {
        modex(words).env("TMPDIR", self.0.temporary())
    }

    /// The output of a command that succeeds.
    fn says(&self, words: &[&str]) -> String {
        self.command(words).run().success()
    }

    fn end(self) {
        self.says(&["publish", "outside=a tool"]);
        let ended = self.0.finish();
        assert!(ended.status.success() && ended.out.contains("outside is a tool"), "{ended:?}");
    }
}

#[test]
fn processes_and_commands_find_each_others_names() {
    let job = Job::start();
    assert_eq!(job.says(&["lookup", "job port"]), "4711\n");
    assert_eq!(job.says(&["publish", "a=x=\u{1b}y", "b=uint32:5"]), "");
    assert_eq!(job.says(&["lookup", "b", "a"]), "b: 5\na: x=\\u{1b}y\n", "nothing steers the terminal");
    let document: Json = serde_json::from_str(&job.says(&["lookup", "--json", "job port"])).unwrap();
    let namespace = format!("modex-{}", job.0.child.id());
    let result = json!({ "key": "job port", "type": "PMIX_UINT32", "value": 4711, "namespace": namespace, "rank": 0 });
    assert_eq!(document, json!({ "format": 1, "status": "PMIX_SUCCESS", "results": [result] }));
    let partly = job.command(&["lookup", "a", "none"]).run();
    assert_eq!((partly.code(), partly.out.as_str()), (Some(1), "a: x=\\u{1b}y\n"));
    assert_eq!(partly.err, "modex: not published for this user: none\n");
    assert_eq!(job.says(&["unpublish", "b"]), "");
    assert_eq!(job.command(&["lookup", "b"]).run().code(), Some(1));
    // Data of a rank is not that of a tool.
    let refused = job.command(&["unpublish", "job port"]).run();
    let said = "modex: no tool of this user has published such data\n";
    assert_eq!((refused.code(), refused.err.as_str()), (Some(1), said));
    // A command that waits, and data that is read once.
    let waiting = job.command(&["lookup", "--wait", "once"]).start();
    job.says(&["publish", "--persistence", "first-read", "once=1"]);
    let ended = waiting.finish();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(0), "1\n"));
    assert_eq!(job.command(&["lookup", "once"]).run().code(), Some(1));
    job.end();
}

#[test]
fn names_that_can_not_be_shared_are_an_error_in_one_line() {
    let job = Job::start();
    job.says(&["publish", "a=1"]);
    for (words, code, said) in [
        (&["publish", "a=2"][..], 1, "DUPLICATE_KEY"),
        (&["lookup", "--timeout", "1", "none"], 1, "TIMEOUT"),
        (&["lookup", "none"], 1, "none"),
        (&["publish", "pmix.a=1"], 2, "reserved"),
        (&["publish", "a"], 2, "KEY=VALUE"),
        (&["publish", "b=uint32:x"], 2, "a number"),
        (&["lookup", "--file", "/nowhere", "a"], 1, "/nowhere"),
    ] {
        let ended = job.command(words).run();
        assert_eq!(ended.code(), Some(code), "{words:?}: {ended:?}");
        let one_line = ended.err.lines().count() == 1 && ended.err.starts_with("modex: ");
        assert!(one_line && ended.err.contains(said) && ended.out.is_empty(), "{words:?}: {ended:?}");
    }
    job.end();
}
