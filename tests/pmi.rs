//! Ranks that speak PMI-1 or PMI-2 over an inherited socket, beside ranks that speak PMIx.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use modex::keys::TypedKey;
use modex::pmi::{KEY_BYTES_MAX, LINE_BYTES_MAX, VALUE_BYTES_MAX};
use modex::proto::{Lookup, Publish, Spawn, Unpublish};
use modex::registration::JobDescription;
use modex::types::{Info, Key, Namespace, Pdata, ProcId, Scope, Status};
use modex::{AbortUpcall, AsStatus, Capabilities, FenceOptions, Host, LocalHost, Moment, Requester, Responder};
use support::{TestServer, namespace, proc};

/// A rank, as its library speaks.
struct Rank(BufReader<UnixStream>);

impl Rank {
    /// A started rank that has said nothing.
    fn silent(node: &TestServer, rank: u32) -> Self {
        let channel = node.server.open_pmi(&proc("job", rank)).unwrap();
        let end = UnixStream::from(channel.rank_end().try_clone().unwrap());
        end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        node.server.serve_pmi(channel, std::process::id()).unwrap();
        Self(BufReader::new(end))
    }

    fn start(node: &TestServer, rank: u32) -> Self {
        let mut begun = Self::silent(node, rank);
        let expected = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 msg=success\n";
        assert_eq!(begun.ask("cmd=init pmi_version=1 pmi_subversion=1"), expected);
        begun
    }

    fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    fn put(&mut self, key: &str, value: &str) {
        let answer = self.ask(&format!("cmd=put kvsname=job key={key} value={value}"));
        assert_eq!(answer, "cmd=put_result rc=0 msg=success\n");
    }

    fn get(&mut self, key: &str) -> String {
        self.ask(&format!("cmd=get kvsname=job key={key}"))
    }

    fn finalize(mut self) {
        assert_eq!(self.ask("cmd=finalize"), "cmd=finalize_ack\n");
    }

    /// Whether the server has closed the connection without another word.
    fn ends_cut_off(mut self) -> bool {
        let mut rest = Vec::new();
        // A server that closes with bytes unread resets the connection.
        let ended = self.0.read_to_end(&mut rest);
        (ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset))
            && rest.is_empty()
    }
}

/// A host that publishes names and spawns jobs in name only, and tells the test what it observes.
struct Named {
    events: mpsc::Sender<String>,
    published: Mutex<Vec<Pdata>>,
}

impl Named {
    fn start(size: u32) -> (TestServer, mpsc::Receiver<String>) {
        let (events, observed) = mpsc::channel();
        let node = TestServer::start("node0", Self { events, published: Mutex::default() });
        node.register_local_job("job", size);
        (node, observed)
    }
}

impl Host for Named {
    fn capabilities(&self) -> Capabilities {
        let names = Capabilities::PUBLISH | Capabilities::LOOKUP | Capabilities::UNPUBLISH;
        Capabilities::ABORT | Capabilities::SPAWN | names
    }

    fn spawn(&self, requester: Requester, request: Spawn, reply: Responder<Namespace>) {
        let values = request.job.iter().filter(|info| info.key.as_str().starts_with("pmi."));
        let values: Vec<String> = values.map(|info| format!("{}={:?}", info.key, info.value.as_str())).collect();
        let apps = request.apps.iter().map(|app| {
            let words: Vec<String> = app.argv.iter().map(ToString::to_string).collect();
            let info: Vec<&str> = app.info.iter().map(|info| info.key.as_str()).collect();
            format!("{} x {words:?} {info:?}", app.processes_max)
        });
        let apps: Vec<String> = apps.collect();
        self.events.send(format!("{} spawns {apps:?} {values:?}", requester.proc)).unwrap();
        reply.succeed(namespace("job-1"));
    }

    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        let message = request.message.map(|message| message.to_string());
        self.events.send(format!("{} aborts {} {message:?}", request.requester, request.status.to_raw())).unwrap();
        reply.succeed(());
    }

    fn publish(&self, requester: Requester, request: Publish, reply: Responder<()>) {
        let data = request.info.into_iter().filter(|info| !info.key.is_reserved());
        let pdata = data.map(|info| Pdata { proc: requester.proc.clone(), key: info.key, value: info.value });
        self.published.lock().unwrap().extend(pdata);
        reply.succeed(());
    }

    fn lookup(&self, _: Requester, request: Lookup, reply: Responder<Vec<Pdata>>) {
        let published = self.published.lock().unwrap();
        let found: Vec<Pdata> = published.iter().filter(|data| request.keys.contains(&data.key)).cloned().collect();
        if found.is_empty() { reply.fail(Status::ERR_NOT_FOUND) } else { reply.succeed(found) }
    }

    fn unpublish(&self, _: Requester, request: Unpublish, reply: Responder<()>) {
        self.published.lock().unwrap().retain(|data| !request.keys.contains(&data.key));
        reply.succeed(());
    }

    fn observed(&self, proc: &ProcId, moment: Moment) {
        if matches!(moment, Moment::Connected | Moment::Finalized | Moment::Left) {
            let _ = self.events.send(format!("{proc} {moment:?}"));
        }
    }
}

fn two() -> (TestServer, Rank, Rank) {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (one, other) = (Rank::start(&node, 0), Rank::start(&node, 1));
    (node, one, other)
}

#[test]
fn a_rank_learns_the_facts_of_its_job() {
    let (_node, mut rank, _other) = two();
    for (question, answer) in [
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("cmd=get_appnum", "cmd=appnum appnum=0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=job\n"),
        ("cmd=get_universe_size", "cmd=universe_size size=-1\n"),
    ] {
        assert_eq!(rank.ask(question), answer);
    }
    assert_eq!(rank.get("PMI_process_mapping"), "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
    assert_eq!(rank.get("PMI_hwloc_xmlfile"), "cmd=get_result rc=1 msg=key_not_found\n");
    rank.finalize();
}

/// The call succeeded, and the connection ended with a line in the log.
#[test]
fn a_rank_that_the_host_has_not_announced_is_refused_with_the_reason() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    for (name, rank) in [("job", 2), ("other", 0)] {
        let channel = node.server.open_pmi(&proc(name, rank)).unwrap();
        let refused = node.server.serve_pmi(channel, std::process::id()).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOT_FOUND);
        assert!(
            refused.to_string().ends_with("the process is not registered; call register_client first"),
            "{refused}"
        );
    }
}

/// A rank that has said nothing does not end with its job. The next job of that name got the facts of the first one.
#[test]
fn a_later_job_of_the_same_name_has_facts_of_its_own() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let _silent = Rank::silent(&node, 0);
    node.server.deregister_namespace(&namespace("job")).wait().unwrap();
    node.register_local_job("job", 1);
    let mut rank = Rank::start(&node, 0);
    assert_eq!(rank.get("PMI_process_mapping"), "cmd=get_result rc=0 msg=success value=(vector,(0,1,1))\n");
}

#[test]
fn the_environment_names_the_descriptor_and_the_place_of_a_rank() {
    let (node, ..) = two();
    let variables = node.server.pmi_variables(&proc("job", 1), 7).unwrap();
    let expected = [
        ("PMI_FD", "7"),
        ("PMI_RANK", "1"),
        ("PMI_SIZE", "2"),
        ("PMI_SPAWNED", "0"),
        ("MPI_LOCALRANKID", "1"),
        ("MPI_LOCALNRANKS", "2"),
    ];
    assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(node.server.pmi_variables(&proc("nobody", 0), 7).is_err());
}

#[test]
fn a_put_is_read_by_all_after_a_barrier() {
    let (_node, mut one, mut other) = two();
    one.put("-bcast-1-0", "one=1");
    other.put("b", "2");
    one.say("cmd=barrier_in");
    assert_eq!((other.ask("cmd=barrier_in"), one.hear()), ("cmd=barrier_out\n".into(), "cmd=barrier_out\n".into()));
    for rank in [&mut one, &mut other] {
        assert_eq!(rank.get("-bcast-1-0"), "cmd=get_result rc=0 msg=success value=one=1\n");
        assert_eq!(rank.get("b"), "cmd=get_result rc=0 msg=success value=2\n");
    }
    // The key space is one for the job: the last put of a key counts, whoever put it.
    other.put("-bcast-1-0", "3");
    assert_eq!(one.get("-bcast-1-0"), "cmd=get_result rc=0 msg=success value=3\n");
    one.put("-bcast-1-0", "4");
    assert_eq!(other.get("-bcast-1-0"), "cmd=get_result rc=0 msg=success value=4\n");
    one.finalize();
    other.finalize();
}

#[test]
fn commands_that_come_at_once_are_answered_in_their_order() {
    let (_node, mut one, mut other) = two();
    one.say("cmd=put kvsname=job key=a value=1\ncmd=barrier_in\ncmd=get kvsname=job key=b\ncmd=finalize");
    other.put("b", "2");
    assert_eq!(other.ask("cmd=barrier_in"), "cmd=barrier_out\n");
    let heard: Vec<String> = (0..4).map(|_| one.hear()).collect();
    let expected = [
        "cmd=put_result rc=0 msg=success\n",
        "cmd=barrier_out\n",
        "cmd=get_result rc=0 msg=success value=2\n",
        "cmd=finalize_ack\n",
    ];
    assert_eq!(heard, expected);
    other.finalize();
}

#[test]
fn ranks_of_both_protocols_share_a_fence_and_the_store() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let mut rank = Rank::start(&node, 0);
    let client = node.connect("job", 1);
    rank.put("a", "of PMI".replace(' ', "_").as_str());
    client.put(Scope::Global, "pmi.b", "of_PMIx").unwrap();
    client.commit().unwrap();
    rank.say("cmd=barrier_in");
    client.fence(&FenceOptions::new()).wait().unwrap();
    assert_eq!(rank.hear(), "cmd=barrier_out\n");
    assert_eq!(client.get(0, TypedKey::<str>::new("pmi.a")).unwrap(), "of_PMI");
    assert_eq!(rank.get("b"), "cmd=get_result rc=0 msg=success value=of_PMIx\n");
    rank.finalize();
    client.finalize().unwrap();
}

#[test]
fn names_are_published_looked_up_and_withdrawn() {
    let (node, _observed) = Named::start(1);
    let mut rank = Rank::start(&node, 0);
    assert_eq!(rank.ask("cmd=lookup_name service=my srv"), "cmd=lookup_result rc=1 msg=service_not_found\n");
    let published = rank.ask("cmd=publish_name service=my srv port=tag#0$ifname#::1$");
    assert_eq!(published, "cmd=publish_result info=ok rc=0 msg=success\n");
    let found = rank.ask("cmd=lookup_name service=my srv");
    assert_eq!(found, "cmd=lookup_result rc=0 msg=success info=ok port=tag#0$ifname#::1$\n");
    assert_eq!(rank.ask("cmd=unpublish_name service=my srv"), "cmd=unpublish_result info=ok rc=0 msg=success\n");
    assert_eq!(rank.ask("cmd=lookup_name service=my srv"), "cmd=lookup_result rc=1 msg=service_not_found\n");
    rank.finalize();
}

/// The same with the server's own service: a name is of all ranks, and belongs to the rank that published it.
#[test]
fn the_servers_own_service_has_the_names_of_ranks() {
    let node = TestServer::with_name_service(LocalHost);
    node.register_local_job("job", 3);
    let [mut one, mut other] = [0, 1].map(|rank| Rank::start(&node, rank));
    let done = "info=ok rc=0 msg=success\n";
    assert_eq!(other.ask("cmd=lookup_name service=my srv"), "cmd=lookup_result rc=1 msg=service_not_found\n");
    assert_eq!(one.ask("cmd=publish_name service=my srv port=tag#0$"), format!("cmd=publish_result {done}"));
    let again = other.ask("cmd=publish_name service=my srv port=tag#1$");
    assert_eq!(again, "cmd=publish_result rc=1 msg=the_name_is_published_already\n");
    let found = other.ask("cmd=lookup_name service=my srv");
    assert_eq!(found, "cmd=lookup_result rc=0 msg=success info=ok port=tag#0$\n");
    // A client of PMIx finds the name, too, and it outlives its rank.
    let client = node.connect("job", 2);
    one.finalize();
    let name = || vec![modex::types::Key::from_static("my srv")];
    let found = client.lookup(name(), Vec::new()).wait().unwrap();
    assert_eq!((found.results[0].proc.clone(), found.results[0].value.as_str()), (proc("job", 0), Some("tag#0$")));
    assert_eq!(other.ask("cmd=unpublish_name service=my srv"), "cmd=unpublish_result rc=1 msg=service_not_found\n");
    assert_eq!(other.ask("cmd=publish_name service=b port=q"), format!("cmd=publish_result {done}"));
    assert_eq!(other.ask("cmd=unpublish_name service=b"), format!("cmd=unpublish_result {done}"));
    other.finalize();
    client.finalize().unwrap();
}

#[test]
fn a_rank_spawns_programs_with_values_for_their_key_space() {
    let (node, observed) = Named::start(1);
    let mut rank = Rank::start(&node, 0);
    let first = "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\nargcnt=1\narg1=-x y\n\
                 preput_num=1\npreput_key_0=PARENT\npreput_val_0=tag#0$\ninfo_num=2\ninfo_key_0=wdir\ninfo_val_0=/tmp\n\
                 info_key_1=odd\ninfo_val_1=1\nendcmd\n";
    let second = "mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\nargcnt=0\nendcmd";
    assert_eq!(rank.ask(&[first, second].concat()), "cmd=spawn_result rc=0 msg=success\n");
    let heard: Vec<String> = (0..2).map(|_| observed.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
    let apps = r#"["2 x [\"./a b\", \"-x y\"] [\"pmix.wdir\"]", "1 x [\"c\"] []"]"#;
    let spawned = format!("job:0 spawns {apps} [\"pmi.PARENT=Some(\\\"tag#0$\\\")\"]");
    assert_eq!(heard, ["job:0 Connected", &spawned]);
    let long = "v".repeat(VALUE_BYTES_MAX + 1);
    let refused = rank.ask(&format!("mcmd=spawn\nnprocs=1\nexecname=a\npreput_key_0=K\npreput_val_0={long}\nendcmd"));
    assert_eq!(refused, "cmd=spawn_result rc=1 msg=a_value_has_at_most_1024_bytes\n");
    rank.finalize();
}

/// The server read no further after 64 KiB, and the rank waited for ever.
#[test]
fn a_spawn_with_long_arguments_is_read_to_its_end() {
    let (node, observed) = Named::start(1);
    let mut rank = Rank::start(&node, 0);
    let arguments: String = (1..=200).map(|number| format!("arg{number}={:01000}\n", 0)).collect();
    let spawn = format!("mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\n{arguments}endcmd");
    assert_eq!(rank.ask(&spawn), "cmd=spawn_result rc=0 msg=success\n");
    let heard: Vec<String> = (0..2).map(|_| observed.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
    assert!(heard[1].len() > 200_000, "{} bytes", heard[1].len());
    rank.finalize();
}

/// A message of the greatest length was longer than what the server reads at a time, with the number before it.
#[test]
fn a_message_of_the_greatest_length_is_answered() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let mut rank = Rank2::start(&node, 0);
    let message = |length: usize| format!("{:x<1$}", "cmd=info-getjobattr;key=", length - 1) + ";";
    for length in [65_530, 65_531, 65_536] {
        assert_eq!(rank.ask(&message(length)), "cmd=info-getjobattr-response;rc=0;found=FALSE;", "{length}");
    }
}

/// A spawned MPICH program finds the address of its parent so.
#[test]
fn a_spawned_rank_knows_it_and_reads_the_values_of_its_parent() {
    let node = TestServer::local();
    let job = namespace("job");
    let value = Info::new(Key::from_static("pmi.PARENT"), "tag#0$");
    let description = JobDescription::new(&job).nodes([node.server.hostname()]).ranks_by_node(std::iter::once(0..1));
    let description = description.spawned_by(proc("first", 3)).job_value(value.key, value.value).build().unwrap();
    node.server.register_namespace(&job, 1, description).wait().unwrap();
    node.register_client("job", 0);
    let variables = node.server.pmi_variables(&proc("job", 0), 7).unwrap();
    assert!(variables.contains(&("PMI_SPAWNED".to_owned(), "1".to_owned())), "{variables:?}");
    let mut rank = Rank::start(&node, 0);
    assert_eq!(rank.get("PARENT"), "cmd=get_result rc=0 msg=success value=tag#0$\n");
    rank.put("PARENT", "mine");
    assert_eq!(rank.get("PARENT"), "cmd=get_result rc=0 msg=success value=mine\n");
    rank.finalize();
}

#[test]
fn a_host_without_names_and_spawn_says_so() {
    let (_node, mut rank, _other) = two();
    let refused = "rc=1 msg=the_launcher_does_not_support_this\n";
    assert_eq!(rank.ask("cmd=publish_name service=s port=p"), format!("cmd=publish_result {refused}"));
    assert_eq!(rank.ask("cmd=lookup_name service=s"), format!("cmd=lookup_result {refused}"));
    let spawn = rank.ask("mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nendcmd");
    assert_eq!(spawn, format!("cmd=spawn_result {refused}"));
    assert_eq!(rank.ask("cmd=get_ranks2hosts"), "cmd=get_ranks2hosts_result rc=1 msg=unknown_command\n");
    rank.finalize();
}

#[test]
fn the_host_learns_of_a_rank_with_its_first_line_and_of_its_end() {
    let (node, observed) = Named::start(3);
    drop(Rank::silent(&node, 0));
    Rank::start(&node, 1).finalize();
    drop(Rank::start(&node, 2));
    let heard: Vec<String> = (0..4).map(|_| observed.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
    assert_eq!(heard, ["job:1 Connected", "job:1 Finalized", "job:2 Connected", "job:2 Left"]);
}

/// The launcher took the end of a rank for the reason, because it learned of the abort later.
#[test]
fn the_host_learns_of_an_abort_before_the_end_of_its_rank() {
    for _ in 0..50 {
        let (node, observed) = Named::start(1);
        let mut rank = Rank::start(&node, 0);
        rank.say("cmd=abort exitcode=7 message=no more memory");
        drop(rank);
        let heard: Vec<String> = (0..3).map(|_| observed.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
        assert_eq!(heard, ["job:0 Connected", "job:0 aborts 7 Some(\"no more memory\")", "job:0 Left"]);
    }
}

#[test]
fn a_rank_that_is_lost_ends_the_barrier_of_the_others() {
    let (_node, mut one, other) = two();
    one.say("cmd=barrier_in");
    drop(other);
    let heard = one.hear();
    assert!(heard.starts_with("cmd=barrier_out rc=1 msg="), "{heard}");
}

#[test]
fn keys_and_values_have_bounds() {
    let (_node, mut rank, _other) = two();
    let (key, value) = ("k".repeat(KEY_BYTES_MAX), "v".repeat(VALUE_BYTES_MAX));
    rank.put(&key, &value);
    assert_eq!(rank.get(&key), format!("cmd=get_result rc=0 msg=success value={value}\n"));
    for (line, reason) in [
        (format!("cmd=put kvsname=job key={key}k value=v"), "a_key_has_1_to_64_bytes"),
        ("cmd=put kvsname=job key= value=v".to_owned(), "a_key_has_1_to_64_bytes"),
        (format!("cmd=put kvsname=job key=k value={value}v"), "a_value_has_at_most_1024_bytes"),
        ("cmd=put kvsname=job key=k value=\0".to_owned(), "the_value_has_a_NUL"),
        ("cmd=put kvsname=another key=k value=v".to_owned(), "unknown_key_space"),
    ] {
        assert_eq!(rank.ask(&line), format!("cmd=put_result rc=1 msg={reason}\n"));
    }
    rank.put("empty", "");
    assert_eq!(rank.get("empty"), "cmd=get_result rc=0 msg=success value=\n");
    rank.finalize();
}

#[test]
fn a_rank_that_speaks_otherwise_is_cut_off_and_the_others_go_on() {
    let (node, observed) = Named::start(2);
    let mut other = Rank::start(&node, 1);
    assert_eq!(observed.recv_timeout(Duration::from_secs(20)).unwrap(), "job:1 Connected");
    let too_long = format!("cmd=get kvsname=job key={}", "k".repeat(LINE_BYTES_MAX));
    for line in ["GET / HTTP/1.1", "cmd=put key=a", too_long.as_str()] {
        let mut rank = Rank::start(&node, 0);
        rank.say(line);
        assert!(rank.ends_cut_off(), "{line:.20}");
        for expected in ["job:0 Connected", "job:0 Left"] {
            assert_eq!(observed.recv_timeout(Duration::from_secs(20)).unwrap(), expected);
        }
    }
    let mut newer = Rank::silent(&node, 0);
    let refused = newer.ask("cmd=init pmi_version=3 pmi_subversion=0");
    assert!(refused.contains("rc=1 msg=the_launcher_speaks_versions_1_and_2"), "{refused}");
    other.put("a", "1");
    assert_eq!(other.get("a"), "cmd=get_result rc=0 msg=success value=1\n");
    other.finalize();
}

/// A rank that sends without reading, or reads nothing of a long job, costs no more than its bounds.
#[test]
fn a_flood_of_commands_is_answered_while_others_are_served() {
    let (_node, mut flooder, mut other) = two();
    let mut writer = flooder.0.get_ref().try_clone().unwrap();
    let flood = std::thread::Builder::new().spawn(move || {
        let lines = "cmd=get kvsname=job key=none\n".repeat(100);
        (0..100).try_for_each(|_| writer.write_all(lines.as_bytes())).unwrap();
    });
    for round in 0..50 {
        other.put("a", &round.to_string());
        assert_eq!(other.get("a"), format!("cmd=get_result rc=0 msg=success value={round}\n"));
    }
    for _ in 0..10_000 {
        assert_eq!(flooder.hear(), "cmd=get_result rc=1 msg=key_not_found\n");
    }
    flood.unwrap().join().unwrap();
    flooder.finalize();
    other.finalize();
}

/// A rank, as a library of PMI-2 speaks.
struct Rank2(Rank);

impl Rank2 {
    fn start(node: &TestServer, rank: u32) -> Self {
        let mut begun = Rank::silent(node, rank);
        let expected = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0 msg=success\n";
        assert_eq!(begun.ask("cmd=init pmi_version=2 pmi_subversion=0"), expected);
        Self(begun)
    }

    fn say(&mut self, message: &str) {
        let message = format!("{:<6}{message}", message.len());
        self.0.0.get_mut().write_all(message.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut length = [0; 6];
        self.0.0.read_exact(&mut length).unwrap();
        let length = str::from_utf8(&length).unwrap().trim().parse().unwrap();
        let mut message = vec![0; length];
        self.0.0.read_exact(&mut message).unwrap();
        String::from_utf8(message).unwrap()
    }

    fn ask(&mut self, message: &str) -> String {
        self.say(message);
        self.hear()
    }
}

#[test]
fn a_rank_of_pmi_2_learns_its_place_and_the_facts_of_its_job() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let mut rank = Rank2::start(&node, 1);
    for (message, expected) in [
        (
            "cmd=fullinit;pmirank=1;threaded=FALSE;",
            "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=0;",
        ),
        ("cmd=job-getid;thrid=0x7f;", "cmd=job-getid-response;thrid=0x7f;rc=0;jobid=job;"),
        (
            "cmd=info-getjobattr;key=PMI_process_mapping;",
            "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,1,2));",
        ),
        ("cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;rc=0;found=FALSE;"),
        ("cmd=info-getjobattr;key=PMI_dead_processes;", "cmd=info-getjobattr-response;rc=0;found=FALSE;"),
        ("cmd=job-connect;jobid=x;", "cmd=job-connect-response;rc=14;errmsg=unknown command;"),
        ("cmd=finalize;", "cmd=finalize-response;rc=0;"),
    ] {
        assert_eq!(rank.ask(message), expected);
    }
}

#[test]
fn ranks_of_all_protocols_share_a_fence_and_the_store() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let (mut one, mut two) = (Rank::start(&node, 0), Rank2::start(&node, 1));
    one.put("a", "1");
    assert_eq!(two.ask("cmd=kvs-put;key=b;value=x;;y z;"), "cmd=kvs-put-response;rc=0;");
    one.say("cmd=barrier_in");
    assert_eq!(two.ask("cmd=kvs-fence;"), "cmd=kvs-fence-response;rc=0;");
    assert_eq!(one.hear(), "cmd=barrier_out\n");
    assert_eq!(two.ask("cmd=kvs-get;jobid=job;srcid=0;key=a;"), "cmd=kvs-get-response;rc=0;found=TRUE;value=1;");
    assert_eq!(two.ask("cmd=kvs-get;jobid=;srcid=-1;key=b;"), "cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y z;");
    assert_eq!(two.ask("cmd=kvs-get;jobid=other;key=a;"), "cmd=kvs-get-response;rc=0;found=FALSE;");
    assert_eq!(one.get("b"), "cmd=get_result rc=1 msg=the_value_has_a_blank_or_a_line_end\n");
}

#[test]
fn a_rank_waits_for_an_attribute_of_its_node() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let [mut one, mut two, mut three] = [0, 1, 2].map(|rank| Rank2::start(&node, rank));
    let missing = "cmd=info-getnodeattr-response;rc=0;found=FALSE;";
    assert_eq!(two.ask("cmd=info-getnodeattr;key=segment;wait=FALSE;"), missing);
    two.say("cmd=info-getnodeattr;key=segment;wait=TRUE;");
    // The command behind it waits, too.
    two.say("cmd=job-getid;");
    three.say("cmd=info-getnodeattr;key=another;wait=TRUE;");
    assert_eq!(one.ask("cmd=info-putnodeattr;key=segment;value=/x;"), "cmd=info-putnodeattr-response;rc=0;");
    assert_eq!(two.hear(), "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=/x;");
    assert_eq!(two.hear(), "cmd=job-getid-response;rc=0;jobid=job;");
    // Other jobs have attributes of their own.
    node.register_local_job("other", 1);
    assert_eq!(one.ask("cmd=info-putnodeattr;key=another;value=y;"), "cmd=info-putnodeattr-response;rc=0;");
    assert_eq!(three.hear(), "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=y;");
    let full = (0..1024).map(|number| one.ask(&format!("cmd=info-putnodeattr;key=k{number};value=;")));
    assert_eq!(full.filter(|answer| answer.contains("rc=0")).count(), 1022);
    assert_eq!(two.ask("cmd=info-putnodeattr;key=mine;value=;"), "cmd=info-putnodeattr-response;rc=0;");
}

/// A long value would break the frames of PMI-2 or the lines of PMI-1.
#[test]
fn a_longer_value_of_another_protocol_is_not_given_to_a_rank_of_pmi() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let (mut one, mut two, three) = (Rank::start(&node, 0), Rank2::start(&node, 1), node.connect("job", 2));
    for (key, length) in [("pmi.fits", VALUE_BYTES_MAX), ("pmi.long", VALUE_BYTES_MAX + 1)] {
        three.put(Scope::Global, key, "x".repeat(length)).unwrap();
    }
    three.commit().unwrap();
    let fence = three.fence(&FenceOptions::new());
    one.say("cmd=barrier_in");
    two.say("cmd=kvs-fence;");
    fence.wait().unwrap();
    assert_eq!((one.hear().as_str(), two.hear().as_str()), ("cmd=barrier_out\n", "cmd=kvs-fence-response;rc=0;"));
    assert!(one.get("fits").starts_with("cmd=get_result rc=0 "));
    assert!(two.ask("cmd=kvs-get;key=fits;").starts_with("cmd=kvs-get-response;rc=0;found=TRUE;"));
    assert_eq!(one.get("long"), "cmd=get_result rc=1 msg=the_value_is_too_long\n");
    assert_eq!(two.ask("cmd=kvs-get;key=long;"), "cmd=kvs-get-response;rc=0;found=FALSE;");
}

#[test]
fn a_rank_of_pmi_2_that_speaks_otherwise_is_cut_off() {
    let node = TestServer::local();
    node.register_local_job("job", 4);
    for (rank, bytes) in
        [&b"cmd=get_appnum\n"[..], b"999999", b"4     a=b;", b"8     cmd=\xff\xff;x"].iter().enumerate()
    {
        let mut two = Rank2::start(&node, u32::try_from(rank).unwrap());
        two.0.0.get_mut().write_all(bytes).unwrap();
        assert!(two.0.ends_cut_off(), "{bytes:?}");
    }
}

#[test]
fn a_rank_of_pmi_2_publishes_and_spawns() {
    let (node, events) = Named::start(1);
    let mut rank = Rank2::start(&node, 0);
    assert_eq!(rank.ask("cmd=name-publish;name=my srv;port=a;;b;"), "cmd=name-publish-response;rc=0;");
    assert_eq!(rank.ask("cmd=name-lookup;name=my srv;"), "cmd=name-lookup-response;rc=0;port=a;;b;value=a;;b;");
    assert_eq!(rank.ask("cmd=name-unpublish;name=my srv;"), "cmd=name-unpublish-response;rc=0;");
    assert_eq!(rank.ask("cmd=name-lookup;name=my srv;"), "cmd=name-lookup-response;rc=14;errmsg=service_not_found;");
    let spawn = "cmd=spawn;ncmds=1;preputcount=1;ppkey0=PORT;ppval0=p;subcmd=./x;maxprocs=2;argc=1;argv0=a;\
                 infokeycount=1;infokey0=wdir;infoval0=/;";
    assert_eq!(rank.ask(spawn), "cmd=spawn-response;rc=0;jobid=job-1;");
    let told: Vec<String> = events.try_iter().collect();
    let expected = r#"job:0 spawns ["2 x [\"./x\", \"a\"] [\"pmix.wdir\"]"] ["pmi.PORT=Some(\"p\")"]"#;
    assert_eq!(told.last().map(String::as_str), Some(expected), "{told:?}");
    rank.say("cmd=abort;isworld=TRUE;msg=enough;");
    assert_eq!(events.recv_timeout(Duration::from_secs(20)).unwrap(), r#"job:0 aborts 1 Some("enough")"#);
}
