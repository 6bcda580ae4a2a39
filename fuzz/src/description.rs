//! Descriptions of jobs from bytes: in their wire form, or in a short form that is easier to mutate.

use modex::bfrops::{Codec, DecodeLimits, Encoding, Reader, Writer};
use modex::gds::registration::{Description, HostValue};
use modex::types::{DataArray, DataType, Info, Key, LocalAddress, ProcId, Rank, Timeval, Value};

/// Keys with a meaning in a registration, and some without.
pub const KEYS: [&str; 30] = [
    "pmix.ssn.arr",
    "pmix.job.arr",
    "pmix.app.arr",
    "pmix.pdata",
    "pmix.node.arr",
    "pmix.session.id",
    "pmix.appnum",
    "pmix.rank",
    "pmix.procid",
    "pmix.nodeid",
    "pmix.hname",
    "pmix.alias",
    "pmix.nmap",
    "pmix.pmap",
    "pmix.job.size",
    "pmix.job.napps",
    "pmix.offset",
    "pmix.lrank",
    "pmix.lpeers",
    "pmix.lcpus",
    "pmix.wdir",
    "pmix.univ.size",
    "pmix.max.size",
    "pmix.nspace",
    "pmix.spawned",
    "pmix.nlist",
    "pmix.num.nodes",
    "pmix.local.size",
    "my.key",
    "pmix.unknown",
];

/// Strings with a meaning in a registration.
const TEXTS: [&str; 14] = [
    "n0",
    "n1",
    "n2",
    "n0,n1",
    "n0,n1,n2",
    "0;1",
    "0,1;2",
    "0,1;2;",
    "pmix[n[1:0-3]]",
    "pmix[0-3;4-7;8-11;]",
    "job",
    "other",
    "pmix[n[9:0-999999999]]",
    "",
];

/// A key: first those above, then all keys of the standard in alphabetical order.
#[must_use]
pub fn key(choice: u8) -> &'static str {
    static NAMES: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
    let names = NAMES.get_or_init(|| modex::keys::attributes().map(|attribute| attribute.name).collect());
    let choice = usize::from(choice);
    // The remaining bytes are spread over all keys of the standard.
    KEYS.get(choice)
        .or_else(|| names.get((choice - KEYS.len()) * names.len() / (256 - KEYS.len())))
        .copied()
        .unwrap_or("k")
}

/// Reads infos until the bytes end.
#[must_use]
pub fn from_wire(bytes: &[u8], codec: Codec) -> Vec<Info> {
    let limits = DecodeLimits { element_count_max: 4096, ..DecodeLimits::default() };
    let Ok(mut reader) = Reader::new(bytes, codec, &limits) else { return Vec::new() };
    let mut infos = Vec::new();
    while let Ok(info) = Info::read(&mut reader) {
        infos.push(info);
    }
    infos
}

/// The opposite of [`from_wire`].
#[must_use]
pub fn to_wire(infos: &[Info], codec: Codec) -> Vec<u8> {
    let mut writer = Writer::new(codec);
    infos.iter().for_each(|info| Info::write(&mut writer, info).expect("a seed can be written"));
    writer.into_bytes()
}

/// Infos in the short form: one byte for the key, one for the kind of the value, then the value's parameters.
#[must_use]
pub fn from_short_form(mut bytes: &[u8]) -> Vec<Info> {
    infos(&mut bytes, 64, 4)
}

fn infos(bytes: &mut &[u8], count_max: usize, depth_left: u32) -> Vec<Info> {
    (0..count_max).map_while(|_| info(bytes, depth_left)).collect()
}

fn info(bytes: &mut &[u8], depth_left: u32) -> Option<Info> {
    let key = key(byte(bytes)?);
    Some(Info::new(Key::from_static(key), value(bytes, depth_left)?))
}

fn value(bytes: &mut &[u8], depth_left: u32) -> Option<Value> {
    let (kind, parameter) = (byte(bytes)?, byte(bytes)?);
    Some(match kind % 15 {
        0 => Value::Uint32(parameter.into()),
        1 => Value::Uint32(u32::from(parameter) << 24),
        2 => Value::Int(i32::from(parameter.cast_signed())),
        3 => Value::Size(parameter.into()),
        4 | 5 => Value::ProcRank(Rank::from(u32::from(parameter))),
        6..=8 => Value::from(TEXTS[usize::from(parameter) % TEXTS.len()]),
        9 => Value::Bool(parameter % 2 == 0),
        10 => {
            [Value::Undefined, Value::NullString, Value::ProcRank(Rank::Wildcard)][usize::from(parameter) % 3].clone()
        }
        11 => Value::Uint16(parameter.into()),
        14 => odd(parameter),
        _ if depth_left == 0 => Value::Undefined,
        _ => Value::info_array(infos(bytes, usize::from(parameter % 16), depth_left - 1)),
    })
}

/// Values of rare types.
fn odd(choice: u8) -> Value {
    let array = |element_type, elements| Value::DataArray(Box::new(DataArray { element_type, elements }));
    let proc = || Value::from(ProcId::new(crate::sample::namespace(), 1));
    let odd = [
        Value::Byte(choice),
        Value::Pid(choice.into()),
        Value::Int8(choice.cast_signed()),
        Value::Int64(-1),
        Value::Uint64(u64::MAX),
        Value::Float(f32::NAN),
        Value::Double(-0.0),
        Value::Timeval(Timeval { seconds: -1, microseconds: i64::MAX }),
        Value::Time(u64::MAX),
        Value::Status(-1),
        Value::Value(Box::new(Value::Bool(true))),
        proc(),
        Value::Info(Box::new(Info::new(Key::from_static("k"), 1_u8))),
        Value::ByteObject(vec![choice; 3]),
        Value::Pointer(LocalAddress::default()),
        Value::Scope(choice),
        Value::CompressedString(vec![choice; 9]),
        Value::Regex(b"raw:n0,n1\0".to_vec()),
        Value::Regex(vec![choice; 5]),
        Value::ProcCpuset(None),
        Value::ProcNamespace(crate::sample::namespace()),
        array(DataType::String, vec![Value::from("n1"), Value::NullString]),
        array(DataType::Uint32, vec![Value::Uint32(choice.into())]),
        array(DataType::Proc, vec![proc()]),
        array(DataType::Info, vec![Value::Uint8(1)]),
        array(DataType::DataArray, vec![array(DataType::Undefined, Vec::new())]),
    ];
    odd[usize::from(choice) % odd.len()].clone()
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

/// The description, with every process array in a table that can hold it.
pub fn in_tables(infos: &[Info]) -> Description {
    let mut description = Description::default();
    for info in infos {
        if file(info, &mut description).is_none() {
            description.push(info.clone());
        }
    }
    description
}

fn file(info: &Info, description: &mut Description) -> Option<()> {
    let Value::DataArray(array) = &info.value else { return None };
    if info.key.as_str() != "pmix.pdata" || array.element_type != DataType::Info {
        return None;
    }
    let (Value::Info(first), others) = array.elements.split_first()? else { return None };
    let Value::ProcRank(Rank::Process(rank)) = first.value else { return None };
    if first.key.as_str() != "pmix.rank" {
        return None;
    }
    let table = description.processes();
    let mut cells = Vec::new();
    for (place, entry) in others.iter().enumerate() {
        let Value::Info(entry) = entry else { return None };
        let known = table.column_at(place, |key| key == entry.key.as_str());
        let column = known.or_else(|| table.column(place, &entry.key))?;
        cells.push(table.cell(column, given(&entry.value))?);
    }
    table.push(rank, &cells);
    Some(())
}

fn given(value: &Value) -> HostValue<'_> {
    match value {
        Value::Uint16(number) => HostValue::Number(DataType::Uint16, (*number).into()),
        Value::Uint32(number) => HostValue::Number(DataType::Uint32, *number),
        Value::ProcRank(Rank::Process(rank)) => HostValue::Number(DataType::ProcRank, *rank),
        Value::String(text) => HostValue::Text(text.as_bytes()),
        other => HostValue::Other(other.clone()),
    }
}
