//! A job of twice the size costs twice as much, and a Get costs the same. The tests count bytes and calls, not time.
//!
//! This file has one test, because it counts the memory and the page faults of its whole process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "only a global allocator sees every allocation; it forwards to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use modex::BackingKind;
use modex::gds::registration::JobDescription;
use modex::gds::{Datastore, KeyRef, Lookup, NamespaceReader, NodeSelector, RealmRequest, Store, StoreOptions};
use modex::regex::{MapLimits, expand_nodes, expand_ranks, generate_nodes, generate_ranks};
use modex::topo::inventory::{Device, Inventory, SharedInventories};
use modex::types::{Info, Key, Namespace, Rank, Value};

/// The system's allocator with a record of bytes and calls. Only sums are compared, so no ordering is needed.
struct Counting;

static BYTES: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator, which meets the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(u64::try_from(layout.size()).unwrap_or(u64::MAX), Relaxed);
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocated bytes, calls of the allocator, and page faults.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: u64,
    calls: u64,
    faults: u64,
}

fn faults() -> u64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    u64::try_from(usage.minor_page_faults()).unwrap()
}

fn cost_of<R>(work: impl FnOnce() -> R) -> (R, Cost) {
    let before = (BYTES.load(Relaxed), CALLS.load(Relaxed), faults());
    let result = work();
    let cost = Cost {
        bytes: BYTES.load(Relaxed) - before.0,
        calls: CALLS.load(Relaxed) - before.1,
        faults: faults() - before.2,
    };
    (result, cost)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Block,
    Cyclic,
    Irregular,
    /// Three applications, described process by process.
    Applications,
}

/// The ranks of each node.
fn places(shape: Shape, ranks: u32, nodes: u32) -> Vec<Vec<u32>> {
    let mut by_node = vec![Vec::new(); usize::try_from(nodes).unwrap()];
    for rank in 0..ranks {
        let node = match shape {
            Shape::Block | Shape::Applications => u64::from(rank) * u64::from(nodes) / u64::from(ranks),
            Shape::Cyclic => u64::from(rank % nodes),
            Shape::Irregular => u64::from(rank.wrapping_mul(2_654_435_761) >> 7) % u64::from(nodes),
        };
        by_node.get_mut(usize::try_from(node).unwrap()).unwrap().push(rank);
    }
    by_node
}

fn description(shape: Shape, ranks: u32, nodes: u32) -> Vec<Info> {
    let names: Vec<String> = (0..nodes).map(|node| format!("node{node:06}")).collect();
    if shape == Shape::Applications {
        let third = ranks / 3;
        let job = JobDescription::new(&namespace()).nodes(names).ranks_by_node(places(shape, ranks, nodes));
        let job = job.app(third, ["a"], "/a").app(third, ["b"], "/b").app(ranks - 2 * third, ["c"], "/c");
        return job.build().unwrap();
    }
    let mut fields = String::new();
    for (node, ranks) in places(shape, ranks, nodes).iter().enumerate() {
        fields.push_str(if node == 0 { "" } else { ";" });
        for (at, rank) in ranks.iter().enumerate() {
            write!(fields, "{}{rank}", if at == 0 { "" } else { "," }).unwrap();
        }
    }
    let info = |key, value: Value| Info::new(Key::from_static(key), value);
    vec![
        info("pmix.nmap", Value::from(names.join(","))),
        info("pmix.pmap", Value::from(fields)),
        info("pmix.job.size", Value::Uint32(ranks)),
    ]
}

fn namespace() -> Namespace {
    Namespace::new("job").unwrap()
}

/// The costs of a job.
struct Costs {
    register: Cost,
    segment_bytes: u64,
    attach_and_get: Cost,
    get: Cost,
    deregister: Cost,
    maps: Cost,
}

fn costs(shape: Shape, ranks: u32, nodes: u32) -> Costs {
    let description = description(shape, ranks, nodes);
    let mut store =
        Store::new(StoreOptions { backing: BackingKind::Memfd, ..StoreOptions::new("server.0", "node000000") });
    let (_, register) = cost_of(|| store.register(&namespace(), &description).unwrap());
    let segment_bytes = store.statistics(&namespace()).unwrap().published_bytes;
    let handle = store.handle(&namespace()).unwrap();
    let (reader, attach_and_get) = cost_of(|| {
        let reader = NamespaceReader::attach(handle).unwrap().of_process(Some(0));
        read(&reader, ranks / 2 + 1);
        reader
    });
    let ((), get) = cost_of(|| {
        for step in 0..64 {
            read(&reader, (step * (ranks / 64) + step) % ranks);
        }
    });
    let (_, deregister) = cost_of(|| store.deregister(&namespace()));
    Costs { register, segment_bytes, attach_and_get, get, deregister, maps: maps(&description, nodes) }
}

/// Reads values of a rank, of its node, and of the job.
fn read(reader: &NamespaceReader, rank: u32) {
    let look = |rank, key, realm| {
        let lookup = Lookup { rank, key: KeyRef::new(key), realm, audience: None };
        assert!(reader.get(&lookup).is_ok(), "{key} of {rank}");
    };
    look(Rank::from(rank), "pmix.lrank", RealmRequest::Default);
    look(Rank::from(rank), "pmix.hname", RealmRequest::Default);
    look(Rank::from(rank), "pmix.appnum", RealmRequest::Default);
    look(Rank::from(rank), "pmix.lpeers", RealmRequest::Node(NodeSelector::Implied));
    look(Rank::Wildcard, "pmix.job.size", RealmRequest::Default);
    look(Rank::Wildcard, "pmix.local.size", RealmRequest::Node(NodeSelector::Name("node000000")));
}

/// Reads and writes the maps.
fn maps(description: &[Info], nodes: u32) -> Cost {
    let text =
        |key: &str| description.iter().find(|info| info.key.as_str() == key).and_then(|info| info.value.as_str());
    let (Some(names), Some(fields)) = (text("pmix.nmap"), text("pmix.pmap")) else {
        return Cost { bytes: 0, calls: 0, faults: 0 };
    };
    let limits = MapLimits::default();
    let (written, cost) = cost_of(|| {
        let names = expand_nodes(names.as_bytes(), &limits).unwrap();
        let ranks = expand_ranks(fields.as_bytes(), &limits).unwrap();
        assert_eq!(names.len(), usize::try_from(nodes).unwrap());
        (generate_nodes(&names), generate_ranks(&ranks))
    });
    drop(written);
    cost
}

/// Linear, with room for sizes that grow in powers of two and for fixed costs.
fn at_most_twice(what: &str, shape: Shape, ranks: u32, less: u64, more: u64) {
    let allowed = less * 9 / 4 + 65_536;
    assert!(more <= allowed, "{what} of a {shape:?} job: {less} at {ranks} ranks, {more} at twice as many");
}

fn doubles(shape: Shape, first: u32, doublings: u32, ranks_per_node: u32) {
    let mut less = costs(shape, first, first / ranks_per_node);
    let smallest = less.attach_and_get;
    for doubling in 0..doublings {
        let ranks = first << doubling;
        let more = costs(shape, 2 * ranks, 2 * ranks / ranks_per_node);
        at_most_twice("bytes to register", shape, ranks, less.register.bytes, more.register.bytes);
        at_most_twice("calls to register", shape, ranks, less.register.calls, more.register.calls);
        at_most_twice("bytes of the segment", shape, ranks, less.segment_bytes, more.segment_bytes);
        at_most_twice("bytes for maps", shape, ranks, less.maps.bytes, more.maps.bytes);
        at_most_twice("calls for maps", shape, ranks, less.maps.calls, more.maps.calls);
        constant(&more, smallest, shape, 2 * ranks);
        less = more;
    }
}

/// A Get allocates nothing, and a process's first Get touches as many pages in every job.
fn constant(job: &Costs, smallest: Cost, shape: Shape, ranks: u32) {
    assert_eq!((job.get.bytes, job.get.calls), (0, 0), "{shape:?} of {ranks}");
    assert!(job.attach_and_get.calls <= smallest.calls + 4, "{shape:?} of {ranks}: {:?}", job.attach_and_get);
    assert!(
        job.attach_and_get.faults <= smallest.faults + 24,
        "{shape:?} of {ranks}: {:?}, the smallest job {smallest:?}",
        job.attach_and_get
    );
    // The pages of three columns, of a node, and of the dictionary and the job, which all share.
    assert!(job.get.faults <= 64 * 8, "{shape:?} of {ranks}: {:?}", job.get);
    assert!(job.deregister.calls <= 16, "{shape:?} of {ranks}: {:?}", job.deregister);
}

/// The cost of a delivery for one of many nodes while an answer holds all inventories.
fn delivery(nodes: u32) -> Cost {
    let blob = |node: u32, device: &str| {
        let device = Device { device_types: 4, name: device.to_owned(), uuid: device.to_owned(), ..Device::default() };
        let inventory = Inventory { node: format!("node{node:06}"), devices: vec![device], ..Inventory::default() };
        inventory.encode().unwrap()
    };
    let known = SharedInventories::default();
    known.deliver((0..nodes).map(|node| blob(node, "eth0")).collect()).unwrap();
    let (held, newer) = (known.snapshot(), blob(nodes / 3, "eth1"));
    let (changes, cost) = cost_of(|| known.deliver(vec![newer]).unwrap());
    let after = known.snapshot();
    assert_eq!((changes.len(), held.network_count(), after.network_count()), (2, after.len(), after.len()));
    assert_ne!(held, after);
    cost
}

/// A delivery copied the names of all nodes and devices while an answer held them.
fn deliveries_cost_what_they_bring() {
    let [few, many] = [1 << 8, 1 << 14].map(delivery);
    assert!(many.bytes <= few.bytes * 2 && many.calls <= few.calls * 2, "{few:?} of 256 nodes, {many:?} of 16,384");
}

#[test]
fn twice_the_job_costs_twice_as_much() {
    deliveries_cost_what_they_bring();
    for shape in [Shape::Block, Shape::Cyclic, Shape::Irregular] {
        doubles(shape, 1 << 12, 4, 32);
    }
    doubles(Shape::Applications, 1 << 10, 2, 16);
    // A million ranks on ten thousand nodes: eight times a size near the doublings above. Then more nodes than most
    // machines have.
    let small = costs(Shape::Cyclic, 1 << 17, 1_250);
    let large = costs(Shape::Cyclic, 1 << 20, 10_000);
    assert!(large.segment_bytes <= small.segment_bytes * 9, "{} and {}", small.segment_bytes, large.segment_bytes);
    assert!(large.register.bytes <= small.register.bytes * 9, "{:?} and {:?}", small.register, large.register);
    constant(&large, small.attach_and_get, Shape::Cyclic, 1 << 20);
    let wide = costs(Shape::Block, 1 << 18, 100_000);
    constant(&wide, small.attach_and_get, Shape::Block, 1 << 18);
    assert!(wide.segment_bytes <= 200 * 100_000, "{} bytes", wide.segment_bytes);
}
