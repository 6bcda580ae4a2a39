//! Processes that run out of descriptors, address space, file size, or memory for segments. Each gets a clear answer or
//! a slower way, and existing data stays as it was.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::net::UnixStream;

use modex::keys::TypedKey;
use modex::types::AsStatus;
use modex::types::{IntoValue, Rank, Scope, Status, Value};
use modex::{BackingKind, Client, FenceOptions, LocalHost, Server, ServerError, keys};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use support::{TestServer, description, descriptors, ids, namespace, play, proc, role};

const ENDPOINT: TypedKey<str> = TypedKey::new("endpoint");
const MEBIBYTE: u64 = 1 << 20;
/// Address space that a limited process may take after its start: far less than a span, more than it needs.
const SPARE_ADDRESS_SPACE: u64 = 64 * MEBIBYTE;
/// Size of the values that make a segment large.
const BALLAST_BYTES: u64 = 4 * MEBIBYTE;

#[test]
fn client_process() {
    match role().as_deref() {
        Some("server short of descriptors") => serve_with_few_descriptors(),
        Some("exchange") => exchange_through_segment(true),
        Some("exchange with room for small segments") => {
            limit_address_space();
            exchange_through_segment(true);
        }
        Some("exchange with room for no segment") => {
            limit_address_space();
            exchange_through_segment(false);
        }
        Some("server with little address space") => {
            limit_address_space();
            let node = Node::start(BackingKind::Memfd);
            exchange(&node.client("job"));
        }
        Some("server with a limit on file sizes") => serve_with_small_files(),
        Some("server of many jobs") => serve_many_jobs(),
        Some("server on a small tmpfs") => serve_on_a_small_file_system(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

fn exchange_through_segment(is_expected: bool) {
    let client = Client::connect().unwrap();
    assert_eq!(client.reads_segment(), is_expected);
    exchange(&client);
    client.finalize().unwrap();
}

/// All operations of a client, together with the other processes of its job.
fn exchange(client: &Client) {
    let rank = client.proc().rank.process().unwrap();
    client.put(Scope::Global, ENDPOINT.name(), format!("endpoint of {rank}")).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).wait().unwrap();
    for peer in 0..client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap() {
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), format!("endpoint of {peer}"));
    }
    // No process leaves while others still request its values.
    client.fence(&FenceOptions::new()).wait().unwrap();
}

/// Lowers the soft limit of this process.
fn limit(resource: Resource, to: u64) {
    let (_, hard) = getrlimit(resource).unwrap();
    setrlimit(resource, to, hard).unwrap();
}

/// Leaves address space for work, but not for the span of a segment.
fn limit_address_space() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size_kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    limit(Resource::RLIMIT_AS, (size_kib << 10) + SPARE_ADDRESS_SPACE);
}

/// A server in this process, with a certain backing of its segments.
struct Node(TestServer);

impl Node {
    fn start(backing: BackingKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = Server::builder().hostname("node0").tmpdir(directory.path()).backing(backing);
        Self(TestServer { server: builder.start(LocalHost).unwrap().into(), directory })
    }

    /// The only client of a new job.
    fn client(&self, job: &str) -> Client {
        self.0.register_local_job(job, 1);
        self.0.connect(job, 0)
    }

    fn forget(&self, job: &str) {
        self.0.server.deregister_namespace(&namespace(job)).wait().unwrap();
    }
}

/// More jobs than the server once had addresses for, and far more than it has descriptors. 100,000 also work, but take
/// longer.
const JOBS: u32 = 20_000;

fn serve_many_jobs() {
    limit(Resource::RLIMIT_NOFILE, 1024);
    let node = TestServer::local();
    for job in 0..JOBS {
        let ranks = [("node0", "0"), ("node1", "1-63")];
        node.server.register_namespace(&namespace(&format!("job-{job}")), 0, description(64, &ranks)).wait().unwrap();
    }
    let [first, last] = ["job-0".to_owned(), format!("job-{}", JOBS - 1)];
    for job in [&first, &last] {
        node.server
            .register_namespace(&namespace(job), 1, description(64, &[("node0", "0"), ("node1", "1-63")]))
            .wait()
            .unwrap();
        node.register_client(job, 0);
        let client = node.connect(job, 0);
        assert!(client.reads_segment());
        assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap(), 64);
        client.finalize().unwrap();
    }
}

/// A server had two descriptors, two mappings and 16 GiB of addresses for each known job, so 8,214 jobs were the limit.
#[test]
fn a_server_knows_more_jobs_than_it_has_descriptors() {
    play("server of many jobs").succeed();
}

/// Descriptors that the server may open in addition to those at its start: two connections. A segment needs none,
/// because all clients get the server's own descriptor of it.
const SPARE: usize = 2;

fn serve_with_few_descriptors() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    node.register_local_job("other", 1);
    // The first process of a job creates its segment, which has one descriptor for writing and one for reading.
    let before = descriptors().len();
    node.connect("job", 0).finalize().unwrap();
    node.connect("other", 0).finalize().unwrap();
    while descriptors().len() != before + 4 {
        std::thread::yield_now();
    }
    for (number, proc) in [proc("job", 0), proc("job", 1), proc("other", 0)].iter().enumerate() {
        for (name, value) in node.server.setup_fork(proc).unwrap() {
            println!("{number} {name}={value}");
        }
    }
    let mut free = (0_u64..).filter(|number| std::fs::read_link(format!("/proc/self/fd/{number}")).is_err());
    limit(Resource::RLIMIT_NOFILE, free.nth(SPARE).unwrap());
    println!("all told");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_server_out_of_descriptors_serves_those_it_has_and_takes_the_others_later() {
    let mut server = play("server short of descriptors");
    let mut variables = [Vec::new(), Vec::new(), Vec::new()];
    for (number, variables) in variables.iter_mut().enumerate() {
        while variables.len() < 10 {
            let line = server.line_after(&format!("{number} "));
            let (name, value) = line.split_once('=').unwrap();
            variables.push((name.to_owned(), value.to_owned()));
        }
    }
    server.line_after("all told");
    let connect = |number: usize| Client::builder().env(variables[number].clone()).connect().unwrap();

    let first = connect(0);
    assert!(first.reads_segment(), "there is a descriptor to hand over");
    // The server drops silent connections that are in the way, but no process.
    let other = connect(2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| connect(1));
        for round in 0..100_u32 {
            first.put(Scope::Global, "round", round).unwrap();
            first.commit().unwrap();
        }
        assert!(!second.is_finished(), "the server had no descriptor for this client");
        other.finalize().unwrap();
        let second = second.join().unwrap();
        assert!(second.reads_segment(), "to hand over a segment takes no other descriptor");
        let other = scope.spawn(|| exchange(&first));
        exchange(&second);
        other.join().unwrap();
        second.finalize().unwrap();
    });
    first.finalize().unwrap();
    server.release();
}

#[test]
fn a_client_without_room_for_the_whole_span_maps_what_is_there_and_what_comes() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let ballast = node.connect("job", 2);
    let cramped = node.spawn("job", 0, "exchange with room for small segments");
    let other = node.spawn("job", 1, "exchange");
    put_ballast(&ballast, SPARE_ADDRESS_SPACE / 4);
    exchange(&ballast);
    cramped.succeed();
    other.succeed();
}

#[test]
fn a_client_without_room_for_the_segment_asks_for_each_value() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let ballast = node.connect("job", 2);
    put_ballast(&ballast, SPARE_ADDRESS_SPACE * 2);
    let cramped = node.spawn("job", 0, "exchange with room for no segment");
    let other = node.spawn("job", 1, "exchange");
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&ballast));
        cramped.succeed();
        other.succeed();
    });
}

/// Makes the segment larger by this many bytes.
fn put_ballast(client: &Client, bytes: u64) {
    for number in 0..bytes / BALLAST_BYTES {
        let value = vec![1; usize::try_from(BALLAST_BYTES).unwrap()];
        client.put(Scope::Remote, &format!("ballast.{number}"), Value::ByteObject(value)).unwrap();
        client.commit().unwrap();
    }
}

#[test]
fn a_server_without_room_for_a_large_segment_makes_a_smaller_one() {
    play("server with little address space").release();
}

#[test]
fn a_segment_that_may_not_grow_refuses_the_commit_and_leaves_the_others_alone() {
    play("server with a limit on file sizes").release();
}

fn serve_with_small_files() {
    limit(Resource::RLIMIT_FSIZE, MEBIBYTE);
    for backing in [BackingKind::Memfd, BackingKind::File] {
        run_out_of_memory(&Node::start(backing));
    }
    // A POSIX object is as large as its span before it is cut back, so it can't even be created.
    let node = Node::start(BackingKind::Posix);
    let job = namespace("job");
    match node.0.server.register_namespace(&job, 1, description(1, &[("node0", "0")])).wait() {
        Err(ServerError::Refused { status, .. }) => assert_eq!(status, Status::ERR_OUT_OF_RESOURCE),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_dev_shm_refuses_the_commit_and_leaves_the_others_alone() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!(
            "not applicable: only root can mount a small /dev/shm; the limit on file sizes is tested anyway"
        );
    }
    play("server on a small tmpfs").release();
}

/// Makes a small /dev/shm for this thread and the threads that it starts.
fn serve_on_a_small_file_system() {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).unwrap();
    mount(Some("tmpfs"), "/dev/shm", Some("tmpfs"), MsFlags::empty(), Some("size=1m")).unwrap();
    run_out_of_memory(&Node::start(BackingKind::Posix));
    assert_eq!(std::fs::read_dir("/dev/shm").unwrap().count(), 0, "segments are left behind");
}

/// Segments may have a mebibyte here: one job wants more, another has enough, a third comes later.
fn run_out_of_memory(node: &Node) {
    let early = node.client("early");
    exchange(&early);
    let greedy = node.client("greedy");
    let much = vec![7; usize::try_from(2 * MEBIBYTE).unwrap()];
    greedy.put(Scope::Global, "much", Value::ByteObject(much)).unwrap();
    let error = greedy.commit().unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
    assert_eq!(greedy.get(Rank::Wildcard, keys::JOB_SIZE), Ok(1), "what was there is still there");
    assert_eq!(early.get(0, ENDPOINT).unwrap(), "endpoint of 0");
    exchange(&early);
    drop(greedy);
    node.forget("greedy");
    exchange(&node.client("late"));
    assert_eq!(early.get(0, ENDPOINT).unwrap(), "endpoint of 0");
}

/// A test of the user ids needs a client of another user; `tests/trust.rs` does that as root.
#[test]
fn the_kernel_names_the_user_at_the_other_end() {
    let (here, _there) = UnixStream::pair().unwrap();
    let credentials = modex::ptl::PeerCredentials::of_peer(&here).unwrap();
    assert_eq!((credentials.uid, credentials.gid), (ids().0, Some(ids().1)));
    assert_eq!(credentials.pid, Some(std::process::id()));
}

/// A value whose conversion fails the test.
struct Huge;

impl From<Huge> for Value {
    fn from(_huge: Huge) -> Self {
        unreachable!("a value that is refused for its size is not copied before")
    }
}

impl IntoValue for Huge {
    fn held_bytes(&self) -> usize {
        1 << 30
    }
}

/// A gibibyte was copied for seconds, and then refused.
#[test]
fn a_value_of_a_gibibyte_is_refused_before_it_is_copied() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let error = client.put(Scope::Global, "huge", Huge).unwrap_err();
    assert_eq!(error.status(), Status::ERR_INVALID_VAL_LENGTH);
    client.put(Scope::Global, "small", "fits").unwrap();
    client.commit().unwrap();
    client.finalize().unwrap();
}
