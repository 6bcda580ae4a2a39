//! Values received over the socket, for processes whose segment lacks them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::proto::RankData;
use crate::types::{Key, Namespace, ProcId, Rank, Value, footprint};

/// Values received from the server, by process and key; the newest wins.
///
/// Bounded: when it is full, the oldest values are dropped. Values of processes go before those of jobs, because they
/// can be fetched again. Only answers to unqualified requests belong here (see
/// [`ClientOutput::Received`](super::ClientOutput::Received)).
#[derive(Debug)]
pub struct ValueCache {
    limits: CacheLimits,
    entries: BTreeMap<ProcId, BTreeMap<Key, Cached>>,
    /// Order of removal: processes before jobs, old before new.
    by_age: BTreeMap<Age, (ProcId, Key)>,
    size_bytes: usize,
    last: u64,
}

/// Bounds of a [`ValueCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Limit of the number of values.
    pub entry_count_max: usize,
    /// Limit of the bytes of all values with their keys.
    pub total_bytes_max: usize,
}

impl CacheLimits {
    /// A million values, 256 MiB.
    pub const DEFAULT: Self = Self { entry_count_max: 1 << 20, total_bytes_max: 256 << 20 };
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[derive(Debug)]
struct Cached {
    value: Arc<Value>,
    size_bytes: usize,
    age: Age,
}

/// Job-level values compare greater, so they are removed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    is_job_level: bool,
    order: u64,
}

impl ValueCache {
    /// An empty cache.
    #[must_use]
    pub const fn new(limits: CacheLimits) -> Self {
        Self { limits, entries: BTreeMap::new(), by_age: BTreeMap::new(), size_bytes: 0, last: 0 }
    }

    /// Takes the data of a reply. Later values of the reply replace earlier ones; an undefined value removes them.
    pub fn receive(&mut self, data: &[RankData]) {
        for of in data {
            for entry in &of.entries {
                match entry.key.as_str() {
                    QUALIFIED_VALUE => {
                        let (key, value) = qualified::stored(entry.key.clone(), entry.value.clone());
                        self.insert(&of.proc, &key, &value)
                    }
                    _ => self.insert(&of.proc, &entry.key, &entry.value),
                };
            }
        }
    }

    /// Takes one value. Returns whether it is cached: an undefined value, or one larger than the cache, is not. The old
    /// value is removed in any case, because it is out of date.
    pub fn insert(&mut self, proc: &ProcId, key: &Key, value: &Value) -> bool {
        self.remove(proc, key);
        if *value == Value::Undefined {
            return false;
        }
        let Some(size_bytes) = footprint(value).map(|size| size.saturating_add(key.as_str().len())) else {
            return false;
        };
        if size_bytes > self.limits.total_bytes_max || self.limits.entry_count_max == 0 {
            return false;
        }
        while self.by_age.len() >= self.limits.entry_count_max
            || self.size_bytes.saturating_add(size_bytes) > self.limits.total_bytes_max
        {
            self.forget_oldest();
        }
        self.last += 1;
        let age = Age { is_job_level: proc.rank == Rank::Wildcard, order: self.last };
        let cached = Cached { value: Arc::new(value.clone()), size_bytes, age };
        self.entries.entry(proc.clone()).or_default().insert(key.clone(), cached);
        self.by_age.insert(age, (proc.clone(), key.clone()));
        self.size_bytes += size_bytes;
        true
    }

    /// The newest value received.
    #[must_use]
    pub fn find(&self, proc: &ProcId, key: &str) -> Option<&Arc<Value>> {
        self.entries.get(proc)?.get(key).map(|cached| &cached.value)
    }

    /// Number of values.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.by_age.len()
    }

    /// Size of the values in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Removes values of processes, which may have been replaced. Values of jobs stay.
    pub fn forget_processes(&mut self) {
        while let Some(oldest) = self.by_age.first_entry().filter(|oldest| !oldest.key().is_job_level) {
            let (proc, key) = oldest.remove();
            self.remove(&proc, &key);
        }
    }

    /// Removes all values of a namespace, of the job and of its processes.
    pub fn forget_namespace(&mut self, namespace: &Namespace) {
        let first = ProcId::new(namespace.clone(), Rank::Process(0));
        let of_it = self.entries.range(first..).take_while(|(proc, _)| proc.namespace == *namespace);
        let procs: Vec<ProcId> = of_it.map(|(proc, _)| proc.clone()).collect();
        for cached in procs.iter().filter_map(|proc| self.entries.remove(proc)).flat_map(BTreeMap::into_values) {
            self.by_age.remove(&cached.age);
            self.size_bytes -= cached.size_bytes;
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, (proc, key))) = self.by_age.pop_first() {
            self.remove(&proc, &key);
        }
    }

    fn remove(&mut self, proc: &ProcId, key: &Key) {
        let Some(of_proc) = self.entries.get_mut(proc) else { return };
        if let Some(cached) = of_proc.remove(key) {
            self.by_age.remove(&cached.age);
            self.size_bytes -= cached.size_bytes;
        }
        if of_proc.is_empty() {
            self.entries.remove(proc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Kval;

    fn proc(rank: impl Into<Rank>) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn key(name: &'static str) -> Key {
        Key::from_static(name)
    }

    fn cache_of(entry_count_max: usize, total_bytes_max: usize) -> ValueCache {
        ValueCache::new(CacheLimits { entry_count_max, total_bytes_max })
    }

    #[test]
    fn the_newest_value_wins() {
        let mut cache = ValueCache::new(CacheLimits::default());
        let entries = [1u32, 2].map(|value| Kval { key: key("k"), value: value.into() }).to_vec();
        cache.receive(&[RankData { proc: proc(1), entries }]);
        assert_eq!(**cache.find(&proc(1), "k").unwrap(), Value::Uint32(2));
        assert_eq!(cache.entry_count(), 1);
        cache.insert(&proc(1), &key("k"), &Value::Uint32(3));
        assert_eq!(**cache.find(&proc(1), "k").unwrap(), Value::Uint32(3));
    }

    #[test]
    fn an_undefined_value_leaves_nothing() {
        let mut cache = ValueCache::new(CacheLimits::default());
        for name in ["k", "other"] {
            cache.insert(&proc(1), &key(name), &Value::Uint32(1));
        }
        let nothing = Kval { key: key("k"), value: Value::Undefined };
        cache.receive(&[RankData { proc: proc(1), entries: vec![nothing] }]);
        assert!(cache.find(&proc(1), "k").is_none() && cache.find(&proc(1), "other").is_some());
    }

    #[test]
    fn processes_and_jobs_do_not_mix() {
        let mut cache = ValueCache::new(CacheLimits::default());
        cache.insert(&proc(Rank::Wildcard), &key("k"), &Value::Uint32(1));
        assert!(cache.find(&proc(0), "k").is_none());
        assert!(cache.find(&proc(Rank::Wildcard), "k").is_some());
    }

    #[test]
    fn at_the_entry_limit_the_oldest_of_a_process_goes_before_any_of_a_job() {
        let mut cache = cache_of(3, 1 << 20);
        cache.insert(&proc(Rank::Wildcard), &key("job"), &Value::Bool(true));
        cache.insert(&proc(0), &key("a"), &Value::Bool(true));
        cache.insert(&proc(0), &key("b"), &Value::Bool(true));
        assert_eq!(cache.entry_count(), 3);
        cache.insert(&proc(0), &key("c"), &Value::Bool(true));
        assert_eq!(cache.entry_count(), 3);
        assert!(cache.find(&proc(0), "a").is_none());
        assert!(cache.find(&proc(Rank::Wildcard), "job").is_some());
    }

    #[test]
    fn at_the_byte_limit_old_values_go_and_the_sum_stays_below() {
        let mut cache = cache_of(100, 500);
        for name in ["a", "b", "c", "d"] {
            assert!(cache.insert(&proc(0), &key(name), &Value::ByteObject(vec![0; 150])));
            assert!(cache.size_bytes() <= 500);
        }
        assert!(cache.find(&proc(0), "a").is_none());
        assert!(cache.find(&proc(0), "d").is_some());
    }

    #[test]
    fn the_cache_forgets_values_of_processes_and_keeps_those_of_the_job() {
        let mut cache = ValueCache::new(CacheLimits::default());
        cache.insert(&proc(Rank::Wildcard), &key("job"), &Value::Bool(true));
        for rank in 0..3 {
            cache.insert(&proc(rank), &key("a"), &Value::Bool(true));
        }
        cache.forget_processes();
        assert!((0..3).all(|rank| cache.find(&proc(rank), "a").is_none()));
        assert!(cache.find(&proc(Rank::Wildcard), "job").is_some());
        assert_eq!(cache.entry_count(), 1);
    }

    #[test]
    fn of_one_namespace_everything_is_forgotten() {
        let mut cache = ValueCache::new(CacheLimits::default());
        let of = |name: &str, rank: Rank| ProcId::new(Namespace::new(name).unwrap(), rank);
        for name in ["a", "b", "c"] {
            for rank in [Rank::Process(0), Rank::Process(7), Rank::Wildcard] {
                cache.insert(&of(name, rank), &key("k"), &Value::Bool(true));
            }
        }
        let bytes = cache.size_bytes();
        cache.forget_namespace(&Namespace::new("b").unwrap());
        assert_eq!((cache.entry_count(), cache.size_bytes()), (6, bytes / 3 * 2));
        assert!([Rank::Process(7), Rank::Wildcard].iter().all(|rank| cache.find(&of("b", *rank), "k").is_none()));
        assert!(cache.find(&of("c", Rank::Process(0)), "k").is_some());
    }

    #[test]
    fn a_value_larger_than_the_cache_leaves_no_stale_one_behind() {
        let mut cache = cache_of(100, 500);
        cache.insert(&proc(0), &key("k"), &Value::Bool(true));
        assert!(!cache.insert(&proc(0), &key("k"), &Value::ByteObject(vec![0; 1000])));
        assert!(cache.find(&proc(0), "k").is_none());
        assert_eq!((cache.entry_count(), cache.size_bytes()), (0, 0));
    }
}
