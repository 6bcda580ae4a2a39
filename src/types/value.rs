use std::cmp::Ordering;
use std::fmt;

use rkyv::Deserialize;
use rkyv::rancor::{Failure, Strategy};

use super::archive::Copier;
use super::deep::{Deeper, descend};
use super::local_address::LocalAddress;
use super::{DataType, Key, Namespace, ProcId, Rank, Text};

bitflags::bitflags! {
    /// Flags of an [`Info`]. The upper 16 bits belong to the implementation that made it.
    ///
    /// Source: PMIx Standard, "Data Structures and Types" (`pmix_info_directives_t`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InfoFlags: u32 {
        /// The operation must fail if this entry is not honoured.
        const REQUIRED = 0x1;
        /// Last entry of an array (written by older libraries, ignored by all readers).
        const ARRAY_END = 0x2;
        /// A receiver honoured this entry.
        const PROCESSED = 0x4;
        /// The entry qualifies another one.
        const QUALIFIER = 0x8;
        /// The receiver does not own the value.
        const PERSISTENT = 0x10;
        const _ = !0;
    }
}

/// An array of values that all have `element_type`.
///
/// Every deeply nested value goes through these. So copying, comparing and similar functions recurse here
/// ([`descend`]), and the drop of values of any depth needs no recursion.
#[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(
    serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source),
    deserialize_bounds(__D: super::archive::Checking, __D::Error: rkyv::rancor::Source),
    bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source))
)]
pub struct DataArray {
    /// Type of every element.
    pub element_type: DataType,
    /// The elements; `element_type` of each must be the array's.
    #[rkyv(omit_bounds, with = Deeper)]
    pub elements: Vec<Value>,
}

impl Clone for DataArray {
    fn clone(&self) -> Self {
        Self { element_type: self.element_type, elements: descend(|| self.elements.clone()) }
    }
}

impl PartialEq for DataArray {
    fn eq(&self, other: &Self) -> bool {
        self.element_type == other.element_type && descend(|| self.elements == other.elements)
    }
}

impl PartialOrd for DataArray {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let by_type = self.element_type.cmp(&other.element_type);
        if by_type.is_ne() { Some(by_type) } else { descend(|| self.elements.partial_cmp(&other.elements)) }
    }
}

impl fmt::Debug for DataArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element_type, elements } = self;
        descend(|| f.debug_struct("DataArray").field("element_type", element_type).field("elements", elements).finish())
    }
}

impl Drop for DataArray {
    fn drop(&mut self) {
        let mut left = Vec::new();
        move_deep(&mut self.elements, &mut left);
        while let Some(value) = left.pop() {
            match value {
                Value::DataArray(mut array) => move_deep(&mut array.elements, &mut left),
                Value::Info(info) => left.push(info.value),
                Value::Value(inner) => left.push(*inner),
                Value::Kval(entry) => left.push(entry.value),
                Value::Pdata(data) => left.push(data.value),
                Value::App(app) => left.extend(app.info.into_iter().map(|info| info.value)),
                Value::Query(query) => left.extend(query.qualifiers.into_iter().map(|info| info.value)),
                _ => {}
            }
        }
    }
}

/// Moves out the values whose drop would recurse.
fn move_deep(elements: &mut [Value], to: &mut Vec<Value>) {
    let deep = elements.iter_mut().filter(|value| holds_array(value));
    to.extend(deep.map(|value| std::mem::replace(value, Value::Undefined)));
}

/// Whether its drop would recurse further than into flat values.
fn holds_array(value: &Value) -> bool {
    match value {
        Value::DataArray(array) => array.elements.iter().any(is_container),
        Value::Value(inner) => is_container(inner),
        Value::Info(info) => is_container(&info.value),
        Value::Kval(entry) => is_container(&entry.value),
        Value::Pdata(data) => is_container(&data.value),
        Value::App(app) => app.info.iter().any(|info| is_container(&info.value)),
        Value::Query(query) => query.qualifiers.iter().any(|info| is_container(&info.value)),
        _ => false,
    }
}

const fn is_container(value: &Value) -> bool {
    matches!(
        value,
        Value::DataArray(_)
            | Value::Value(_)
            | Value::Info(_)
            | Value::Kval(_)
            | Value::Pdata(_)
            | Value::App(_)
            | Value::Query(_)
    )
}

/// Key and value.
#[derive(Clone, Debug, PartialEq, PartialOrd, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(
    serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source),
    deserialize_bounds(__D: super::archive::Checking, __D::Error: rkyv::rancor::Source),
    bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source))
)]
pub struct Kval {
    /// The key.
    #[rkyv(omit_bounds)]
    pub key: Key,
    /// Its value.
    #[rkyv(omit_bounds)]
    pub value: Value,
}

impl Kval {
    /// Whether it removes the value that a process has posted under the key: its own value is undefined.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.value == Value::Undefined
    }
}

/// Key, flags and value: a directive, or one entry of a description.
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_info_t`).
#[derive(Clone, Debug, PartialEq, PartialOrd, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(
    serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source),
    deserialize_bounds(__D: super::archive::Checking, __D::Error: rkyv::rancor::Source),
    bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source))
)]
pub struct Info {
    /// The key.
    #[rkyv(omit_bounds)]
    pub key: Key,
    /// [`InfoFlags`] as a number.
    pub flags: u32,
    /// The value.
    #[rkyv(omit_bounds)]
    pub value: Value,
}

impl ArchivedValue {
    /// The value, copied out. `None` if it holds a string, key, namespace or rank that no constructor makes.
    #[must_use]
    pub fn to_value(&self) -> Option<Value> {
        let mut copier = Copier { is_valid: true };
        let value = self.deserialize(Strategy::<_, Failure>::wrap(&mut copier)).ok()?;
        copier.is_valid.then_some(value)
    }
}

impl Info {
    /// An entry without flags.
    #[must_use]
    pub fn new(key: Key, value: impl Into<Value>) -> Self {
        Self { key, flags: 0, value: value.into() }
    }

    /// The entry's flags.
    #[must_use]
    pub const fn flags(&self) -> InfoFlags {
        InfoFlags::from_bits_retain(self.flags)
    }
}

/// A value of any of the standard's data types.
///
/// The order of values is for indexes, and has no meaning. Values with a float that is no number have none.
///
/// Codes that the library does not interpret (states, ranges, persistence ...) are kept as numbers; the constants are
/// in [`super::codes`](crate::types).
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_value_t`).
#[derive(Clone, Debug, PartialEq, PartialOrd, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(
    serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source),
    deserialize_bounds(__D: super::archive::Checking, __D::Error: rkyv::rancor::Source),
    bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source))
)]
#[expect(missing_docs, reason = "each variant is the data type of the same name, documented at DataType")]
pub enum Value {
    Undefined,
    Bool(bool),
    Byte(u8),
    String(Text),
    /// A `char *` that is NULL: type string, no text.
    NullString,
    Size(u64),
    Pid(u32),
    Int(i32),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Uint(u32),
    Uint8(u8),
    Uint16(u16),
    Uint32(u32),
    Uint64(u64),
    Float(f32),
    Double(f64),
    Timeval(Timeval),
    Time(u64),
    Status(i32),
    Value(#[rkyv(omit_bounds)] Box<Value>),
    Proc(Box<ProcId>),
    App(#[rkyv(omit_bounds)] Box<App>),
    Info(#[rkyv(omit_bounds)] Box<Info>),
    Pdata(#[rkyv(omit_bounds)] Box<Pdata>),
    Buffer(Box<Buffer>),
    ByteObject(Vec<u8>),
    Kval(#[rkyv(omit_bounds)] Box<Kval>),
    Persistence(u8),
    /// A pointer. Its address never leaves its process: other processes only learn that there was one.
    Pointer(#[rkyv(with = rkyv::with::Skip)] LocalAddress),
    Scope(u8),
    DataRange(u8),
    Command(u8),
    InfoDirectives(u32),
    DataType(u16),
    ProcState(u8),
    ProcInfo(Box<ProcInfo>),
    DataArray(#[rkyv(omit_bounds)] Box<DataArray>),
    ProcRank(Rank),
    Query(#[rkyv(omit_bounds)] Box<Query>),
    CompressedString(Vec<u8>),
    AllocDirective(u8),
    IofChannel(u16),
    Envar(Box<Envar>),
    Coord(Box<Coord>),
    Regattr(Box<Regattr>),
    Regex(Vec<u8>),
    JobState(u8),
    LinkState(u8),
    /// Processors in list form (`0-3,8`); `None` when unbound.
    ProcCpuset(Option<Text>),
    Geometry(Box<Geometry>),
    DeviceDistance(Box<DeviceDistance>),
    Endpoint(Box<Endpoint>),
    Topology(Box<Topology>),
    DeviceType(u64),
    LocalityType(u16),
    CompressedByteObject(Vec<u8>),
    ProcNamespace(Namespace),
    ProcStats(Box<ProcStats>),
    DiskStats(Box<DiskStats>),
    NetStats(Box<NetStats>),
    NodeStats(Box<NodeStats>),
    DataBuffer(Vec<u8>),
    StorageMedium(u64),
    StorageAccess(u64),
    StoragePersistence(u64),
    StorageAccessType(u16),
    Device(Box<Device>),
    ResblockDirective(u8),
    ResourceUnit(ResourceUnit),
    NodePid(Box<NodePid>),
    Regex2(Box<Regex2>),
}

macro_rules! data_type_of {
    ($value:expr; $($variant:ident $(($pattern:tt))?),* $(,)?) => {
        match $value {
            Value::Undefined => DataType::Undefined,
            Value::NullString => DataType::String,
            $(Value::$variant(..) => DataType::$variant,)*
        }
    };
}

impl Value {
    /// The type of this value.
    #[must_use]
    pub const fn data_type(&self) -> DataType {
        data_type_of!(self;
            Bool, Byte, String, Size, Pid, Int, Int8, Int16, Int32, Int64, Uint, Uint8, Uint16, Uint32, Uint64, Float,
            Double, Timeval, Time, Status, Value, Proc, App, Info, Pdata, Buffer, ByteObject, Kval, Persistence, Pointer, Scope,
            DataRange, Command, InfoDirectives, DataType, ProcState, ProcInfo, DataArray, ProcRank, Query,
            CompressedString, AllocDirective, IofChannel, Envar, Coord, Regattr, Regex, JobState, LinkState, ProcCpuset,
            Geometry, DeviceDistance, Endpoint, Topology, DeviceType, LocalityType, CompressedByteObject, ProcNamespace,
            ProcStats, DiskStats, NetStats, NodeStats, DataBuffer, StorageMedium, StorageAccess, StoragePersistence,
            StorageAccessType, Device, ResblockDirective, ResourceUnit, NodePid, Regex2,
        )
    }

    /// A value with a type but without data, for a directive given without data: true.
    #[must_use]
    pub const fn flag() -> Self {
        Self::Bool(true)
    }

    /// An array of infos.
    #[must_use]
    pub fn info_array(entries: Vec<Info>) -> Self {
        let elements = entries.into_iter().map(|info| Self::Info(Box::new(info))).collect();
        Self::DataArray(Box::new(DataArray { element_type: DataType::Info, elements }))
    }

    /// The value as a boolean, if it is one; a directive without data means true.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Undefined => Some(true),
            _ => None,
        }
    }

    /// The value as an unsigned number, if its type is an integer of any width and it is not negative.
    ///
    /// Hosts use different widths for a count; readers of directives accept them all.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Byte(v) | Self::Uint8(v) => Some(v.into()),
            Self::Uint16(v) => Some(v.into()),
            Self::Uint32(v) | Self::Uint(v) | Self::Pid(v) => Some(v.into()),
            Self::Uint64(v) | Self::Size(v) | Self::Time(v) => Some(v),
            Self::Int8(v) => v.try_into().ok(),
            Self::Int16(v) => v.try_into().ok(),
            Self::Int(v) | Self::Int32(v) => v.try_into().ok(),
            Self::Int64(v) => v.try_into().ok(),
            Self::ProcRank(rank) => rank.process().map(u64::from),
            _ => None,
        }
    }

    /// The value as a 32-bit unsigned number; see [`Value::as_u64`].
    #[must_use]
    pub fn as_u32(&self) -> Option<u32> {
        self.as_u64().and_then(|v| v.try_into().ok())
    }

    /// The value as text, if it is a UTF-8 string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => text.to_str().ok(),
            _ => None,
        }
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

value_from! {
    bool => Bool, u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64, i8 => Int8, i16 => Int16, i32 => Int32,
    i64 => Int64, f32 => Float, f64 => Double, Text => String, Vec<u8> => ByteObject,
    Rank => ProcRank, Box<ProcId> => Proc, Namespace => ProcNamespace,
}

/// A string. A text with a NUL inside becomes a byte object, because no string holds a NUL. So nothing is lost. A byte
/// object is refused where a string is expected.
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        match Text::new(text.as_bytes()) {
            Ok(text) => Self::String(text),
            Err(_) => Self::ByteObject(text.as_bytes().to_vec()),
        }
    }
}

/// As for a `&str`.
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<ProcId> for Value {
    fn from(proc: ProcId) -> Self {
        Self::Proc(Box::new(proc))
    }
}

// Composite values. Field order follows the wire (see `bfrops`), which follows the C structures.

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, PartialOrd, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
}

/// A record that holds values again, which needs `omit_bounds` on the recursive field for rkyv.
macro_rules! recursive_record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, PartialOrd, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
        #[rkyv(
            serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source),
            deserialize_bounds(__D: super::archive::Checking, __D::Error: rkyv::rancor::Source),
            bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source))
        )]
        pub struct $name {
            $($(#[$field_doc])* #[rkyv(omit_bounds)] pub $field: $type,)*
        }
    };
}

record! {
    /// Seconds and microseconds.
    Timeval {
        /// Whole seconds.
        seconds: i64,
        /// Microseconds.
        microseconds: i64,
    }
}
recursive_record! {
    /// One application of a spawn request.
    App {
        /// Program; `None` is a NULL pointer.
        command: Option<Text>,
        /// Arguments, with the program's name first.
        argv: Vec<Text>,
        /// Environment as `NAME=value`.
        environment: Vec<Text>,
        /// Working directory.
        working_directory: Option<Text>,
        /// Number of processes to start.
        processes_max: i32,
        /// Directives for this application.
        info: Vec<Info>,
    }
}
recursive_record! {
    /// A published value and its publisher.
    Pdata {
        /// Its publisher.
        proc: ProcId,
        /// Its key.
        key: Key,
        /// The value.
        value: Value,
    }
}
record! {
    /// A packed buffer inside another.
    Buffer {
        /// 1: values without type descriptions, 2: fully described.
        kind: u8,
        /// The packed bytes.
        bytes: Vec<u8>,
    }
}
record! {
    /// Data about a process. Exit code and process set are not part of the wire form.
    ProcInfo {
        /// The process.
        proc: ProcId,
        /// Node it runs on.
        hostname: Option<Text>,
        /// Its program.
        executable: Option<Text>,
        /// Operating system's process id.
        pid: u32,
        /// State code.
        state: u8,
    }
}
recursive_record! {
    /// A query: requested keys, and qualifiers that narrow it.
    Query {
        /// Requested keys.
        keys: Vec<Text>,
        /// Qualifiers.
        qualifiers: Vec<Info>,
    }
}
record! {
    /// An environment variable.
    Envar {
        /// Its name.
        name: Option<Text>,
        /// Its value.
        value: Option<Text>,
        /// Separator for prepending and appending.
        separator: u8,
    }
}
record! {
    /// A coordinate in a fabric.
    Coord {
        /// View code.
        view: u8,
        /// One position for each dimension.
        positions: Vec<u32>,
    }
}
record! {
    /// Description of a supported attribute.
    Regattr {
        /// Macro name.
        name: Option<Text>,
        /// Key string.
        key: Text,
        /// Type number.
        data_type: u16,
        /// Explanations, a line each.
        description: Vec<Text>,
    }
}
record! {
    /// Coordinates of a device in a fabric.
    Geometry {
        /// Fabric number.
        fabric: u64,
        /// Device's unique id.
        uuid: Option<Text>,
        /// Operating system's name of the device.
        os_name: Option<Text>,
        /// Coordinates.
        coordinates: Vec<Coord>,
    }
}
record! {
    /// Distance of a process from a device; 65535 means unknown.
    DeviceDistance {
        /// Device's unique id.
        uuid: Option<Text>,
        /// Operating system's name of the device.
        os_name: Option<Text>,
        /// Device type code.
        device_type: u64,
        /// Smallest distance.
        minimum: u16,
        /// Largest distance.
        maximum: u16,
    }
}
record! {
    /// A fabric endpoint.
    Endpoint {
        /// Device's unique id.
        uuid: Option<Text>,
        /// Operating system's name of the device.
        os_name: Option<Text>,
        /// Opaque address.
        bytes: Vec<u8>,
    }
}
record! {
    /// A hardware topology as the sender's hwloc exports it.
    Topology {
        /// XML text; `None` is a NULL topology.
        xml: Option<Text>,
        /// Support structures of the sender's hwloc build, opaque.
        support: Vec<u8>,
    }
}
record! {
    /// Process statistics (4.2 and 5.0 peers).
    ProcStats {
        /// Node name.
        node: Option<Text>,
        /// The process.
        proc: ProcId,
        /// Operating system's process id.
        pid: u32,
        /// Command.
        command: Option<Text>,
        /// State letter.
        state: u8,
        /// Processor time.
        time: Timeval,
        /// Priority.
        priority: i32,
        /// Number of threads.
        threads: i16,
        /// Proportional set size.
        pss: f32,
        /// Virtual size.
        vsize: f32,
        /// Resident set size.
        rss: f32,
        /// Its last processor.
        processor: i16,
        /// When this was sampled.
        sample_time: Timeval,
    }
}
record! {
    /// Disk statistics (4.2 and 5.0 peers): eleven counters of the kernel, in its order.
    DiskStats {
        /// Disk name.
        disk: Option<Text>,
        /// The counters.
        counters: [u64; 11],
    }
}
record! {
    /// Network statistics (4.2 and 5.0 peers): bytes, packets and errors received, then sent.
    NetStats {
        /// Interface name.
        interface: Option<Text>,
        /// The counters.
        counters: [u64; 6],
    }
}
record! {
    /// Node statistics (4.2 and 5.0 peers).
    NodeStats {
        /// Node name.
        node: Option<Text>,
        /// Load averages (3), then memory figures (8), in the wire's order.
        figures: [f32; 11],
        /// When this was sampled.
        sample_time: Timeval,
        /// Disks.
        disks: Vec<DiskStats>,
        /// Interfaces.
        interfaces: Vec<NetStats>,
    }
}
record! {
    /// A device.
    Device {
        /// Unique id.
        uuid: Option<Text>,
        /// Operating system's name.
        os_name: Option<Text>,
        /// Device type code.
        device_type: u64,
    }
}
record! {
    /// A number of devices of one type.
    ResourceUnit {
        /// Device type code.
        device_type: u64,
        /// Number of elements.
        count: u64,
    }
}
record! {
    /// A process known by where it runs.
    NodePid {
        /// Node name.
        hostname: Option<Text>,
        /// Node number.
        node_id: u32,
        /// Operating system's process id.
        pid: u32,
    }
}
record! {
    /// A map expression with the name of its encoding (6.1 peers).
    Regex2 {
        /// Encoding.
        encoding: Option<Text>,
        /// Encoded bytes.
        bytes: Vec<u8>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_small_enough_to_pass_by_hand() {
        assert!(size_of::<Value>() <= 32);
    }

    #[test]
    fn numbers_of_any_width_are_read_and_negative_ones_are_not() {
        assert_eq!(Value::Int(5).as_u32(), Some(5));
        assert_eq!(Value::Int(-5).as_u32(), None);
        assert_eq!(Value::Size(1 << 40).as_u32(), None);
        assert_eq!(Value::ProcRank(Rank::Wildcard).as_u64(), None);
    }

    #[test]
    fn a_nested_value_survives_its_archive() {
        let value = Value::info_array(vec![
            Info::new(Key::from_static("a"), 7u32),
            Info::new(Key::from_static("b"), Value::info_array(vec![Info::new(Key::from_static("c"), "deep")])),
        ]);
        let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&value).unwrap();
        let archived = rkyv::access::<ArchivedValue, rkyv::rancor::Error>(&bytes).unwrap();
        assert_eq!(archived.to_value(), Some(value));
    }
}
