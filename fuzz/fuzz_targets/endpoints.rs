//! Endpoints of a launch blob (`modex.endpoints`): those of other servers are refused, or every process has the list
//! that its run says.
//!
//! Input: the number of lists, a kind of damage, position of the cut, then runs of 16 bytes. The runs behind the cut
//! are those of a second blob.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::gds::registration::{Context, DescriptionLimits, ENDPOINTS, endpoints_info};
use modex::gds::{Datastore, KeyRef, Lookup, RealmRequest, Store, StoreOptions};
use modex::keys;
use modex::shmem::BackingKind;
use modex::types::{DataArray, DataType, Endpoint, Info, Key, Rank, Text, Value};
use modex_fuzz::sample;

fuzz_target!(|input: &[u8]| {
    let [lists, damage, cut, runs @ ..] = input else { return };
    let (first, second) = runs.split_at(usize::from(*cut).min(runs.len()));
    let lists = lists % 8;
    let first = Blob { lists: lists / 2, name: "first", runs: first };
    let second = Blob { lists: lists % 4, name: "second", runs: second };
    let mut infos = vec![first.info(), second.info()];
    let is_damaged = damage_one(&mut infos, *damage);
    let mut store = Store::new(StoreOptions {
        backing: BackingKind::Heap,
        span_bytes: 1 << 20,
        registration: Context {
            limits: DescriptionLimits { ranks_max: RANKS_MAX, ..DescriptionLimits::default() },
            ..Context::new("n0")
        },
        ..StoreOptions::new("server.0", "n0")
    });
    let job = sample::namespace();
    let described = [infos, sample::description()].concat();
    let registered = store.register(&job, &described);
    let expected = first.numbers().zip(second.numbers()).filter(|_| !is_damaged);
    let Some((first_numbers, second_numbers)) = expected else {
        registered.expect_err("a damaged blob is refused");
        assert!(!store.is_registered(&job), "a refused registration left something");
        return;
    };
    registered.expect("an undamaged blob is taken");
    let reader = store.reader(&job).expect("registered");
    for rank in 0..sample::RANKS {
        let of = |numbers: &[u32], name| {
            numbers.get(rank as usize).filter(|number| **number > 0).map(|number| (name, *number))
        };
        let expected = of(&first_numbers, first.name).or_else(|| of(&second_numbers, second.name));
        let expected = expected.map(|(name, number)| list(name, number, rank.to_le_bytes().to_vec()));
        let key = KeyRef::new(keys::FABRIC_ENDPT.name());
        let lookup = Lookup { rank: Rank::Process(rank), key, realm: RealmRequest::Default, audience: None };
        let found = reader.get(&lookup).ok().map(|value| value.to_value().expect("undamaged"));
        assert_eq!(found, expected, "rank {rank}");
    }
});

const RANKS_MAX: u32 = 64;

struct Blob<'a> {
    lists: u8,
    name: &'static str,
    runs: &'a [u8],
}

impl Blob<'_> {
    /// The blob: a valid one with these bytes as its runs.
    fn info(&self) -> Info {
        let lists = (1..=u32::from(self.lists)).map(|number| list(self.name, number, Vec::new())).collect();
        let mut info = endpoints_info(lists, std::iter::empty());
        let Value::DataArray(array) = &mut info.value else { panic!("no array") };
        let Some(Value::Info(runs)) = array.elements.last_mut() else { panic!("no runs") };
        runs.value = Value::ByteObject(self.runs.to_vec());
        info
    }

    /// The list of each rank, counted from 1; `None` for runs that are to be refused.
    fn numbers(&self) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        for run in self.runs.chunks(16) {
            let words: Vec<u64> = run
                .chunks(4)
                .map(|word| Some(u32::from_le_bytes(word.try_into().ok()?).into()))
                .collect::<Option<_>>()?;
            let &[first, count, start, growth] = words.as_slice() else { return None };
            if first < numbers.len() as u64 || first + count > RANKS_MAX.into() {
                return None;
            }
            numbers.resize(first as usize, 0);
            numbers.extend((0..count).map(|place| ((start + growth * place) % (1 << 32)) as u32));
        }
        numbers.iter().all(|number| *number <= self.lists.into()).then_some(numbers)
    }
}

fn list(name: &str, number: u32, bytes: Vec<u8>) -> Value {
    let (uuid, os_name) = (Some(Text::from(name)), Some(Text::from(number.to_string().as_str())));
    let elements = vec![Value::Endpoint(Box::new(Endpoint { uuid, os_name, bytes }))];
    Value::DataArray(Box::new(DataArray { element_type: DataType::Endpoint, elements }))
}

/// Changes a blob so that it is none. Returns whether it did.
fn damage_one(infos: &mut [Info], damage: u8) -> bool {
    let Some(info) = infos.get_mut(usize::from(damage & 1)) else { return false };
    let strange = Info::new(Key::from_static(ENDPOINTS), 1_u32);
    match (damage >> 1, &mut info.value) {
        (1, _) => *info = strange,
        (2, Value::DataArray(array)) => array.elements.push(Value::from("no info")),
        (3, Value::DataArray(array)) => array.elements.push(Value::Info(Box::new(strange))),
        (4, Value::DataArray(array)) => {
            let named = Info::new(Key::from_static(keys::FABRIC_ENDPT.name()), Value::info_array(Vec::new()));
            array.elements.push(Value::Info(Box::new(named)));
        }
        _ => return false,
    }
    true
}
