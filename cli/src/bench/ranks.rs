//! Gets of random processes of a large job: their cost when no cache holds the data.

use std::hint::black_box;

use modex::gds::job_record::{Column, ColumnValues, JobRecord};
use modex::gds::{KeyRef, Lookup, NamespaceReader, RealmRequest, Store, StoreOptions};
use modex::keys;
use modex::types::{DataType, Key, Namespace, Rank};

use super::measure::{Series, Unit, batched};
use super::node::Failure;
use super::probe::{HashProbe, LARGE_SLOTS};

/// The figure to which the Gets here are compared.
pub(super) const PROBE: &str = "limit.hash_probe.1M_names";

/// The number of rounds, as in all of `modex bench get`.
const ROUND_COUNT: usize = 10;

/// Gets of a column without any regularity, and of a column that is computed from the map.
pub(super) fn measure(ranks: u32, samples: usize) -> Result<Vec<Series>, Failure> {
    let job = Namespace::new("bench-job")?;
    let mut store = Store::new(StoreOptions::new("bench.0", "node00000"));
    store.register_record(&job, &record(ranks))?;
    let reader = NamespaceReader::attach(store.handle(&job)?)?;
    let mut probe = HashProbe::<LARGE_SLOTS>::new().ok_or("no table for the probe")?;
    let mut random = Random(88_172_645_463_325_252);
    let mut rank = move || u32::try_from(random.next() % u64::from(ranks)).unwrap_or_default();
    let series = |name: &str| Series::new(name, Unit::Nanoseconds).param("ranks", ranks.into());
    let mut all = [series(PROBE), series("get.random_rank.scattered"), series("get.random_rank.mapped")];
    let [scattered_key, mapped_key] = [SCATTERED, keys::NODEID.name()].map(KeyRef::new);
    for _ in 0..ROUND_COUNT {
        let [probed, scattered, mapped] = &mut all;
        probed.samples.extend(batched(samples / ROUND_COUNT, || probe.run()));
        scattered.samples.extend(batched(samples / ROUND_COUNT, || number(&reader, rank(), scattered_key)));
        mapped.samples.extend(batched(samples / ROUND_COUNT, || number(&reader, rank(), mapped_key)));
    }
    Ok(all.into())
}

/// A key of processes whose values follow no rule here.
const SCATTERED: &str = keys::GLOBAL_RANK.name();

/// Processes on each node.
const RANKS_PER_NODE: u64 = 100;

fn number(reader: &NamespaceReader, rank: u32, key: KeyRef<'_>) -> Option<u64> {
    let lookup = Lookup { rank: Rank::Process(black_box(rank)), key, realm: RealmRequest::Default, audience: None };
    reader.get(&lookup).ok().and_then(|value| value.as_u64())
}

fn record(ranks: u32) -> JobRecord {
    let mut random = Random(1);
    let numbers = |values: Vec<u64>| ColumnValues::Numbers { data_type: DataType::Uint32, values };
    let scattered = (0..ranks).map(|_| random.next() >> 32).collect();
    let nodes = (0..u64::from(ranks)).map(|rank| rank / RANKS_PER_NODE).collect();
    JobRecord {
        rank_count: ranks,
        node_count: ranks.div_ceil(100),
        proc_columns: vec![
            Column { key: Key::from_static(SCATTERED), values: numbers(scattered) },
            Column { key: Key::from_static(keys::NODEID.name()), values: numbers(nodes) },
        ],
        ..JobRecord::default()
    }
}

/// Xorshift: numbers that no prefetcher foresees.
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_its_own_number_and_node() {
        let job = Namespace::new("bench-job").unwrap();
        let mut store = Store::new(StoreOptions::new("bench.0", "node00000"));
        let record = record(1000);
        store.register_record(&job, &record).unwrap();
        let reader = NamespaceReader::attach(store.handle(&job).unwrap()).unwrap();
        let ColumnValues::Numbers { values, .. } = &record.proc_columns[0].values else { panic!("numbers are meant") };
        for (rank, value) in (0..).zip(values) {
            assert_eq!(number(&reader, rank, KeyRef::new(SCATTERED)), Some(*value));
            assert_eq!(number(&reader, rank, KeyRef::new(keys::NODEID.name())), Some(u64::from(rank) / 100));
        }
    }
}
