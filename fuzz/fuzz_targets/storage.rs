//! Storage: tables of the kernel are read within bounds, and infos of queries and requests about files are answered or
//! refused. No file is touched: the provider has systems alone.
//!
//! Input: a byte that chooses the form. Then a text, or records of four bytes: attribute, kind of the value, and a
//! number (2).

#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use modex::storage::{
    self, Directive, FileError, FileTask, MountList, Observation, Provider, Storage, StorageSystem, Usage, limits_of,
    path_of_cgroup, work_of_devices,
};
use modex::types::{DataArray, DataType, Info, InfoFlags, Key, Query, Status, Text, Value};

/// Files of a request.
const FILES_MAX: usize = 1024;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let [form, rest @ ..] = input else { return };
    match form % 4 {
        0 => mounts(rest),
        1 => devices(&String::from_utf8_lossy(rest)),
        2 => directive(rest),
        _ => query(rest),
    }
});

/// Each system is at a mount of the table. A NUL, which the kernel does not write, ends a text.
fn mounts(table: &[u8]) {
    let list = MountList::read(table);
    assert!(list.visible().count() <= list.mounts().len());
    for system in list.systems() {
        let path = system.paths.first().expect("a mount point");
        assert!(list.mounts().iter().any(|mount| *path == Text::until_nul(mount.point())));
    }
}

/// Rates between two tables, which an empty line parts, are numbers.
fn devices(text: &str) {
    let (before, after) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut observation = Observation::default();
    let devices: Vec<_> = work_of_devices(before).into_keys().collect();
    observation.observe(1.0, work_of_devices(before));
    observation.observe(3.0, work_of_devices(after));
    for device in devices {
        for rates in observation.rates_of(device) {
            let all = [rates.bytes, rates.bytes_max, rates.operations, rates.operations_max];
            assert!(all.into_iter().flatten().all(|rate| rate.is_finite() && rate >= 0.0), "{rates:?}");
        }
        let _ = limits_of(device, &[before.to_owned(), after.to_owned()]);
    }
    assert!(path_of_cgroup(text).is_none_or(|path| text.contains(path)));
}

/// A request that is read names files within bounds. It ends before the provider does something.
fn directive(records: &[u8]) {
    let infos = infos(records);
    let is_about_files = storage::has_directive(&infos);
    match Directive::read(&infos) {
        Ok(Directive::Carry(order)) => {
            assert!(is_about_files);
            let result = storage().carry_out(&order, &|| Some(Status::ERR_TIMEOUT));
            assert!([Status::ERR_TIMEOUT, Status::ERR_NOT_FOUND].contains(&result.status), "{result:?}");
        }
        Ok(Directive::Cancel(_)) => assert!(is_about_files),
        Err(status) => assert!([Status::ERR_BAD_PARAM, Status::ERR_NOT_SUPPORTED].contains(&status)),
    }
}

/// Answers have the keys of the question, each once at most.
fn query(records: &[u8]) {
    let keys: Vec<Text> = storage::keys().filter(|key| !key.starts_with("modex.")).map(Text::from).collect();
    let answers =
        storage().answer(&[Query { keys: keys.clone(), qualifiers: infos(records) }], "here", ANSWER_BYTES_MAX);
    let names: Vec<&[u8]> = answers.iter().map(|info| info.key.as_str().as_bytes()).collect();
    assert!(names.iter().all(|name| keys.iter().any(|key| key.as_bytes() == *name)));
    assert!((1..names.len()).all(|at| !names[..at].contains(&names[at])));
}

fn infos(records: &[u8]) -> Vec<Info> {
    let known: Vec<&str> = [storage::DIRECTIVES, storage::QUALIFIERS].concat().concat();
    let info = |[attribute, kind, high, low]: &[u8; 4]| {
        let key = Key::from_static(known[usize::from(*attribute) % known.len()]);
        let flags = if kind & 0x80 == 0 { 0 } else { InfoFlags::REQUIRED.bits() };
        Info { key, flags, value: value(kind & 0x7F, u16::from_be_bytes([*high, *low])) }
    };
    records.as_chunks::<4>().0.iter().take(16).map(info).collect()
}

fn value(kind: u8, number: u16) -> Value {
    let text = |number: u16| {
        Value::String(Text::from(["/a/b", "/", "/a/..", "a", "one", "", "two", "/c/b"][usize::from(number % 8)]))
    };
    match kind % 8 {
        0 => text(number),
        1 => {
            let count = usize::from(number) % (FILES_MAX + 2);
            let elements = (0..count).map(|at| Value::String(Text::from(format!("/{at}/{}", at % 1500).as_str())));
            Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements: elements.collect() }))
        }
        2 => Value::Status(-i32::from(number)),
        3 => Value::Int(i32::from(number) - 1000),
        4 => Value::Uint64(u64::from(number) << 48),
        5 => Value::Bool(number % 2 == 1),
        6 => Value::StorageAccessType(number),
        _ => Value::Undefined,
    }
}

#[derive(Debug)]
struct Systems;

impl Provider for Systems {
    fn systems(&self) -> Vec<StorageSystem> {
        let system = |id: &str| {
            let mut system = StorageSystem::new(id);
            system.paths = vec![Text::from("/a")];
            system
        };
        ["one", "two", "two", "with,comma"].map(system).into()
    }

    fn usage(&self, _: &StorageSystem) -> Usage {
        Usage { capacity_bytes: Some(u64::MAX), used_bytes: Some(1), ..Usage::default() }
    }

    fn carry_out(&self, task: &FileTask<'_>) -> Option<Result<PathBuf, FileError>> {
        Some(task.check().map(|()| task.file.to_owned()))
    }
}

fn storage() -> Storage {
    let mut storage = Storage::default();
    storage.add(Systems);
    storage
}
