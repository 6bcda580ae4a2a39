//! A process that finalizes and begins again, as MPI sessions do, ten thousand times. Neither it nor its server grows,
//! and its neighbours see no difference.
//!
//! One test, because it counts the resources of the whole process, which holds server and clients.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "of the memory only what stays in use is of interest here")]
#[path = "support/counting.rs"]
mod counting;
mod support;

use modex::types::{Rank, Scope};
use modex::{Client, FenceOptions, GetOptions, keys};
use support::{TestServer, descriptors, namespace, proc, role, shared_mappings};

/// After these lives, everything is there that is kept once or up to a limit.
const FIRST_LIVES: usize = 500;
const LIVES: usize = 10_000;
/// Memory that the later lives may leave together: less than a byte for each.
const GROWTH_BYTES_MAX: usize = 8192;
/// Lives over TCP, where each connection needs a search in the kernel's tables.
const TCP_LIVES: usize = 500;

#[test]
fn client_process() {
    assert_eq!(role(), None, "no test here starts processes");
}

/// Descriptors, mappings, and the bytes of the largest segment.
fn held(node: &TestServer) -> (usize, usize, usize) {
    // The end of a connection is mostly noticed before the reply to a call of a later turn.
    for _ in 0..2 {
        node.server.deregister_namespace(&namespace("nobody")).wait().unwrap();
    }
    (descriptors().len(), shared_mappings().len(), file_size_of_segments())
}

/// The size of the largest segment: a segment that grew with every life would show here.
fn file_size_of_segments() -> usize {
    let segments = descriptors_of("memfd:");
    segments.into_iter().max().unwrap_or_default()
}

fn descriptors_of(kind: &str) -> Vec<usize> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let is_kind =
        |path: &std::path::PathBuf| std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains(kind));
    let paths = entries.map(|entry| entry.path()).filter(is_kind);
    paths.map(|path| usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap()).collect()
}

/// A short-lived session: it reads its neighbour's value. Sometimes it puts its value again and enters a fence of its
/// own.
fn live(client: Client, number: usize) {
    let neighbour = client.get_value(&proc("job", 1), "neighbour", &GetOptions::new()).unwrap();
    assert_eq!(neighbour.as_str(), Some("stays"));
    if number.is_multiple_of(8) {
        exchange(&client);
    }
    client.finalize().unwrap();
}

fn exchange(client: &Client) {
    client.put(Scope::Global, "endpoint", "the same each time").unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().procs(vec![client.proc().clone()]).collect(true)).wait().unwrap();
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
}

#[test]
fn ten_thousand_lives_of_one_process_leave_nothing_behind() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let neighbour = node.connect("job", 1);
    neighbour.put(Scope::Global, "neighbour", "stays").unwrap();
    neighbour.commit().unwrap();
    let endpoint = || {
        let found = neighbour.get_value(&proc("job", 0), "endpoint", &GetOptions::new()).unwrap();
        assert_eq!(found.as_str(), Some("the same each time"));
    };
    for (lives, connect) in [
        (LIVES, Box::new(|| node.connect("job", 0)) as Box<dyn Fn() -> Client>),
        (TCP_LIVES + FIRST_LIVES, Box::new(|| node.connect_over_tcp("job", 0))),
    ] {
        (0..FIRST_LIVES).for_each(|number| live(connect(), number));
        endpoint();
        let (before, used) = (held(&node), counting::used_bytes());
        (FIRST_LIVES..lives).for_each(|number| live(connect(), number));
        endpoint();
        // The end of the last connection may come later than the reply to a later call.
        let is_more = |now: (usize, usize, usize)| now.0 > before.0 || now.1 > before.1 || now.2 > before.2;
        for _ in 0..1000 {
            if !is_more(held(&node)) {
                break;
            }
            std::thread::yield_now();
        }
        assert!(!is_more(held(&node)), "{:?}, was {before:?}", held(&node));
        let growth = counting::used_bytes().saturating_sub(used);
        assert!(growth <= GROWTH_BYTES_MAX, "{growth} bytes more than after {FIRST_LIVES} lives");
    }
    // A process that has left may come back, so others wait for it. The host reports a process that does not come back.
    neighbour.finalize().unwrap();
    node.server.deregister_namespace(&namespace("job")).wait().unwrap();
}
