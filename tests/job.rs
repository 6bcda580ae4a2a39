//! A server and its clients as they are used: real processes, real sockets, real segments.

mod support;

use modex::types::{Rank, Scope};
use modex::{Client, FenceOptions, keys};
use support::{TestServer, role};

#[test]
fn client_process() {
    match role().as_deref() {
        Some("exchange") => exchange(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

fn exchange() {
    let client = Client::connect().unwrap();
    let rank = client.proc().rank.process().unwrap();
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap();
    client.put(Scope::Global, "endpoint", format!("endpoint of {rank}")).unwrap();
    client.put(Scope::Global, "square", u64::from(rank) * u64::from(rank)).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).unwrap();
    const ENDPOINT: keys::TypedKey<str> = keys::TypedKey::new("endpoint");
    const SQUARE: keys::TypedKey<u64> = keys::TypedKey::new("square");
    for peer in 0..size {
        assert_eq!(client.get(peer, ENDPOINT).unwrap(), format!("endpoint of {peer}"));
        assert_eq!(client.get(peer, SQUARE).unwrap(), u64::from(peer) * u64::from(peer));
    }
    client.finalize().unwrap();
}

#[test]
fn every_process_reads_what_every_other_put_before_the_fence() {
    let node = TestServer::local();
    node.register_local_job("job", 4);
    let clients: Vec<_> = (0..4).map(|rank| node.spawn("job", rank, "exchange")).collect();
    clients.into_iter().for_each(support::Process::succeed);
}
