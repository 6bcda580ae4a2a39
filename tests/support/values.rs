//! Random values for property tests. The wire form keeps them unchanged, so reading returns the same value.

use modex::bfrops::{Codec, Generation};
use modex::types::{
    App, Buffer, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, Key,
    Kval, LocalAddress, Namespace, NetStats, NodePid, NodeStats, Pdata, ProcId, ProcInfo, ProcStats, Query, Rank,
    Regattr, Regex2, ResourceUnit, Text, Timeval, Topology, Value,
};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

/// Every encoding.
pub(crate) fn codec() -> impl Strategy<Value = Codec> {
    (prop::sample::select(Generation::ALL.as_slice()), any::<bool>())
        .prop_map(|(generation, described)| Codec { generation, described })
}

/// Values of every type of the encoding, with inner values up to three levels deep.
pub(crate) fn value(codec: Codec) -> BoxedStrategy<Value> {
    if !codec.registers(DataType::Topology) {
        return inner_value(codec);
    }
    prop_oneof![40 => inner_value(codec), 1 => leaf_of(DataType::Topology)].boxed()
}

/// As [`value`], without topologies: their end is uncertain if zero bytes may follow, as in arrays of queries.
fn inner_value(codec: Codec) -> BoxedStrategy<Value> {
    let is_clear = |data_type: &DataType| codec.registers(*data_type) && *data_type != DataType::Topology;
    let types: Vec<DataType> = DataType::ALL.iter().copied().filter(is_clear).collect();
    let (holders, leaves): (Vec<_>, Vec<_>) = types.into_iter().partition(|&data_type| holds_values(data_type));
    let leaf = Union::new(leaves.iter().map(|&data_type| leaf_of(data_type))).boxed();
    let arrays = leaves.iter().filter(|&&data_type| data_type != DataType::Undefined);
    let array_of_leaves = Union::new(arrays.map(|&data_type| array_of(data_type, leaf_of(data_type)))).boxed();
    leaf.clone()
        .prop_recursive(3, 24, 4, move |inner| {
            let holder = |&data_type: &DataType| holder_of(data_type, inner.clone());
            let array = holders.iter().filter(|&&data_type| data_type != DataType::DataArray);
            let array_of_holders = array.map(|data_type| array_of(*data_type, holder(data_type)));
            let single = holders.iter().filter(|&&data_type| data_type != DataType::DataArray).map(holder);
            Union::new(single.chain(array_of_holders).chain([array_of_leaves.clone()]))
        })
        .boxed()
}

pub(crate) fn text() -> impl Strategy<Value = Text> {
    vec(1u8..=255, 0..12).prop_map(|bytes| Text::new(bytes).unwrap())
}

pub(crate) fn key() -> impl Strategy<Value = Key> {
    "[a-z][a-z.]{0,11}".prop_map(|key| Key::new(key).unwrap())
}

pub(crate) fn namespace() -> impl Strategy<Value = Namespace> {
    "[a-z][a-z0-9.-]{0,11}".prop_map(|name| Namespace::new(&name).unwrap())
}

pub(crate) fn rank() -> impl Strategy<Value = Rank> {
    let special = [Rank::Invalid, Rank::LocalPeers, Rank::LocalNode, Rank::Wildcard, Rank::Undefined];
    prop_oneof![(0..=Rank::PROCESS_MAX).prop_map(Rank::Process), prop::sample::select(special.to_vec())]
}

pub(crate) fn proc_id() -> impl Strategy<Value = ProcId> {
    (namespace(), rank()).prop_map(|(namespace, rank)| ProcId { namespace, rank })
}

pub(crate) fn info(codec: Codec) -> impl Strategy<Value = Info> {
    info_with(value(codec))
}

pub(crate) fn kval(codec: Codec) -> impl Strategy<Value = Kval> {
    (key(), value(codec)).prop_map(|(key, value)| Kval { key, value })
}

pub(crate) fn app(codec: Codec) -> impl Strategy<Value = App> {
    app_with(inner_value(codec))
}

pub(crate) fn query(codec: Codec) -> impl Strategy<Value = Query> {
    query_with(inner_value(codec))
}

pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..20)
}

pub(crate) fn topology() -> impl Strategy<Value = Topology> {
    let flags = vec(0u8..=1, 0..=32);
    option::of((text(), flags)).prop_map(|some| match some {
        Some((xml, support)) => Topology { xml: Some(xml), support },
        None => Topology { xml: None, support: Vec::new() },
    })
}

pub(crate) fn device_distance() -> impl Strategy<Value = DeviceDistance> {
    let fields = (name(), name(), any::<u64>(), any::<u16>(), any::<u16>());
    fields.prop_map(|(uuid, os_name, device_type, minimum, maximum)| DeviceDistance {
        uuid,
        os_name,
        device_type,
        minimum,
        maximum,
    })
}

pub(crate) fn resource_unit() -> impl Strategy<Value = ResourceUnit> {
    (any::<u64>(), any::<u64>()).prop_map(|(device_type, count)| ResourceUnit { device_type, count })
}

fn info_with(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Info> {
    (key(), any::<u32>(), inner).prop_map(|(key, flags, value)| Info { key, flags, value })
}

fn app_with(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = App> {
    let texts = || vec(text(), 0..3);
    (name(), texts(), texts(), name(), any::<i32>(), vec(info_with(inner), 0..3)).prop_map(
        |(command, argv, environment, working_directory, processes_max, info)| App {
            command,
            argv,
            environment,
            working_directory,
            processes_max,
            info,
        },
    )
}

fn query_with(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Query> {
    (vec(text(), 0..3), vec(info_with(inner), 0..3)).prop_map(|(keys, qualifiers)| Query { keys, qualifiers })
}

fn array_of(element_type: DataType, element: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(element, 0..=3)
        .prop_map(move |elements| Value::DataArray(Box::new(DataArray { element_type, elements })))
        .boxed()
}

const fn holds_values(data_type: DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Value | T::App | T::Info | T::Pdata | T::Kval | T::DataArray | T::Query)
}

fn holder_of(data_type: DataType, inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Value => inner.prop_map(|value| Value::Value(Box::new(value))).boxed(),
        DataType::App => app_with(inner).prop_map(|app| Value::App(Box::new(app))).boxed(),
        DataType::Info => info_with(inner).prop_map(|info| Value::Info(Box::new(info))).boxed(),
        DataType::Pdata => (proc_id(), key(), inner)
            .prop_map(|(proc, key, value)| Value::Pdata(Box::new(Pdata { proc, key, value })))
            .boxed(),
        DataType::Kval => (key(), inner).prop_map(|(key, value)| Value::Kval(Box::new(Kval { key, value }))).boxed(),
        DataType::Query => query_with(inner).prop_map(|query| Value::Query(Box::new(query))).boxed(),
        other => unreachable!("{other:?} holds no values"),
    }
}

/// Numbers with at most six binary places, which decimal text with six places holds exactly.
fn float() -> impl Strategy<Value = f32> {
    (-0x4000i16..0x4000).prop_map(|sixty_fourths| f32::from(sixty_fourths) / 64.0)
}

fn timeval() -> impl Strategy<Value = Timeval> {
    (any::<i64>(), any::<i64>()).prop_map(|(seconds, microseconds)| Timeval { seconds, microseconds })
}

fn coord() -> impl Strategy<Value = Coord> {
    (any::<u8>(), vec(any::<u32>(), 0..4)).prop_map(|(view, positions)| Coord { view, positions })
}

fn disk_stats() -> impl Strategy<Value = DiskStats> {
    (name(), any::<[u64; 11]>()).prop_map(|(disk, counters)| DiskStats { disk, counters })
}

fn net_stats() -> impl Strategy<Value = NetStats> {
    (name(), any::<[u64; 6]>()).prop_map(|(interface, counters)| NetStats { interface, counters })
}

fn node_stats() -> impl Strategy<Value = NodeStats> {
    let lists = (vec(disk_stats(), 0..3), vec(net_stats(), 0..3));
    (name(), uniform(float()), timeval(), lists).prop_map(|(node, figures, sample_time, (disks, interfaces))| {
        NodeStats { node, figures, sample_time, disks, interfaces }
    })
}

fn proc_stats() -> impl Strategy<Value = ProcStats> {
    let who = (name(), proc_id(), any::<u32>(), name());
    let numbers = (any::<u8>(), any::<i32>(), any::<i16>(), any::<i16>());
    (who, numbers, timeval(), timeval(), uniform::<_, 3>(float())).prop_map(
        |((node, proc, pid, command), (state, priority, threads, processor), time, sample_time, [pss, vsize, rss])| {
            ProcStats {
                node,
                proc,
                pid,
                command,
                state,
                time,
                priority,
                threads,
                pss,
                vsize,
                rss,
                processor,
                sample_time,
            }
        },
    )
}

fn regex() -> impl Strategy<Value = Vec<u8>> {
    let terminated = "pmix\\[[a-z0-9,:]{0,9}\\]\0".prop_map(String::into_bytes);
    let blob = bytes().prop_map(|payload| {
        let head = format!("blob:\0component=zlib:\0size={}:\0", payload.len());
        [head.into_bytes(), payload].concat()
    });
    prop_oneof![terminated, blob]
}

fn plain<T: Arbitrary<Strategy: 'static> + 'static>(wrap: fn(T) -> Value) -> BoxedStrategy<Value> {
    any::<T>().prop_map(wrap).boxed()
}

/// The variant of this name with any content, boxed if the variant is.
macro_rules! of {
    ($variant:ident) => {
        plain(Value::$variant)
    };
    ($variant:ident, $content:expr) => {
        $content.prop_map(|content| Value::$variant(content.into())).boxed()
    };
}

fn name() -> impl Strategy<Value = Option<Text>> {
    option::of(text())
}

/// A value of a type without inner values.
fn leaf_of(data_type: DataType) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Undefined => Just(Value::Undefined).boxed(),
        DataType::Bool => of!(Bool),
        DataType::Byte => of!(Byte),
        DataType::String => prop_oneof![text().prop_map(Value::String), Just(Value::NullString)].boxed(),
        DataType::Size => of!(Size),
        DataType::Pid => of!(Pid),
        DataType::Int => of!(Int),
        DataType::Int8 => of!(Int8),
        DataType::Int16 => of!(Int16),
        DataType::Int32 => of!(Int32),
        DataType::Int64 => of!(Int64),
        DataType::Uint => of!(Uint),
        DataType::Uint8 => of!(Uint8),
        DataType::Uint16 => of!(Uint16),
        DataType::Uint32 => of!(Uint32),
        DataType::Uint64 => of!(Uint64),
        DataType::Float => of!(Float, float()),
        DataType::Double => of!(Double, float()),
        DataType::Timeval => of!(Timeval, timeval()),
        DataType::Time => of!(Time),
        DataType::Status => of!(Status),
        DataType::Proc => of!(Proc, proc_id()),
        DataType::ByteObject => of!(ByteObject, bytes()),
        DataType::Persistence => of!(Persistence),
        DataType::Pointer => Just(Value::Pointer(LocalAddress::default())).boxed(),
        DataType::Scope => of!(Scope),
        DataType::DataRange => of!(DataRange),
        DataType::Command => of!(Command),
        DataType::InfoDirectives => of!(InfoDirectives),
        DataType::DataType => of!(DataType),
        DataType::ProcState => of!(ProcState),
        DataType::ProcInfo => {
            of!(
                ProcInfo,
                (proc_id(), name(), name(), any::<u32>(), any::<u8>()).prop_map(
                    |(proc, hostname, executable, pid, state)| { ProcInfo { proc, hostname, executable, pid, state } }
                )
            )
        }
        DataType::ProcRank => of!(ProcRank, rank()),
        DataType::CompressedString => of!(CompressedString, bytes()),
        DataType::AllocDirective => of!(AllocDirective),
        DataType::IofChannel => of!(IofChannel),
        DataType::Coord => of!(Coord, coord()),
        DataType::Regex => of!(Regex, regex()),
        DataType::JobState => of!(JobState),
        DataType::LinkState => of!(LinkState),
        DataType::ProcCpuset => of!(ProcCpuset, name()),
        DataType::DeviceDistance => of!(DeviceDistance, device_distance()),
        DataType::Topology => of!(Topology, topology()),
        DataType::DeviceType => of!(DeviceType),
        DataType::LocalityType => of!(LocalityType),
        DataType::CompressedByteObject => of!(CompressedByteObject, bytes()),
        DataType::ProcNamespace => of!(ProcNamespace, namespace()),
        DataType::ProcStats => of!(ProcStats, proc_stats()),
        DataType::DiskStats => of!(DiskStats, disk_stats()),
        DataType::NetStats => of!(NetStats, net_stats()),
        DataType::NodeStats => of!(NodeStats, node_stats()),
        DataType::DataBuffer => of!(DataBuffer, bytes()),
        DataType::StorageMedium => of!(StorageMedium),
        DataType::StorageAccess => of!(StorageAccess),
        DataType::StoragePersistence => of!(StoragePersistence),
        DataType::StorageAccessType => of!(StorageAccessType),
        DataType::ResblockDirective => of!(ResblockDirective),
        DataType::ResourceUnit => of!(ResourceUnit, resource_unit()),
        record => record_of(record),
    }
}

fn record_of(data_type: DataType) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Buffer => of!(Buffer, (1u8..=2, bytes()).prop_map(|(kind, bytes)| Buffer { kind, bytes })),
        DataType::Envar => {
            of!(
                Envar,
                (name(), name(), any::<u8>()).prop_map(|(name, value, separator)| Envar { name, value, separator })
            )
        }
        DataType::Regattr => {
            of!(
                Regattr,
                (name(), text(), any::<u16>(), vec(text(), 0..3))
                    .prop_map(|(name, key, data_type, description)| Regattr { name, key, data_type, description })
            )
        }
        DataType::Geometry => of!(
            Geometry,
            (any::<u64>(), name(), name(), vec(coord(), 0..3))
                .prop_map(|(fabric, uuid, os_name, coordinates)| Geometry { fabric, uuid, os_name, coordinates })
        ),
        DataType::Endpoint => of!(
            Endpoint,
            (name(), name(), bytes()).prop_map(|(uuid, os_name, bytes)| Endpoint { uuid, os_name, bytes })
        ),
        DataType::Device => of!(
            Device,
            (name(), name(), any::<u64>()).prop_map(|(uuid, os_name, device_type)| Device {
                uuid,
                os_name,
                device_type
            })
        ),
        DataType::NodePid => {
            of!(
                NodePid,
                (name(), any::<u32>(), any::<u32>()).prop_map(|(hostname, node_id, pid)| NodePid {
                    hostname,
                    node_id,
                    pid
                })
            )
        }
        DataType::Regex2 => {
            of!(Regex2, (name(), bytes()).prop_map(|(encoding, bytes)| Regex2 { encoding, bytes }))
        }
        other => unreachable!("{other:?} is neither a leaf nor a record"),
    }
}
