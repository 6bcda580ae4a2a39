//! Stored values as JSON. A composite value is an object with the names of the fields of its record.

use modex::gds::{Damage, ValueRef};
use modex::types::{
    App, Coord, DiskStats, Info, NetStats, NodeStats, ProcId, ProcStats, Regattr, Text, Timeval, Value,
};
use serde::Serialize;
use serde_json::{Value as Json, json};

/// A value, or the part of it that may be shown.
#[derive(Debug, Serialize)]
pub(super) struct ValueReport {
    /// The standard's name of its type.
    #[serde(rename = "type")]
    pub(super) data_type: &'static str,
    /// Bytes of a string, byte object or archive; `None` if it fits its cell or follows from a rule.
    pub(super) size_bytes: Option<u64>,
    /// The value, if it may be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<Json>,
}

impl ValueReport {
    /// Describes a value, and shows it if `is_shown`.
    pub(super) fn new(value: ValueRef<'_>, is_shown: bool) -> Result<Self, Damage> {
        let shown = if is_shown { Some(to_json(&value.to_value()?)) } else { None };
        Ok(Self { data_type: value.data_type().name(), size_bytes: value.payload_bytes(), value: shown })
    }
}

/// A value in the closest form that JSON has. A pointer is only shown as a pointer.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Undefined | Value::NullString | Value::ProcCpuset(None) => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int8(v) => json!(v),
        Value::Int16(v) => json!(v),
        Value::Int(v) | Value::Int32(v) | Value::Status(v) => json!(v),
        Value::Int64(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Double(v) => json!(v),
        Value::String(text) | Value::ProcCpuset(Some(text)) => json!(text.to_string_lossy()),
        Value::ProcNamespace(namespace) => json!(namespace.as_str()),
        Value::ProcRank(rank) => rank.process().map_or_else(|| json!(rank.to_string()), |rank| json!(rank)),
        Value::Proc(proc) => proc_to_json(proc),
        Value::Info(info) => info_to_json(info),
        Value::Kval(entry) => json!({ "key": entry.key.as_str(), "value": to_json(&entry.value) }),
        Value::Value(value) => to_json(value),
        Value::DataArray(array) => array.elements.iter().map(to_json).collect(),
        Value::ByteObject(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::DataBuffer(bytes) => json!(hexadecimal(bytes)),
        Value::Regex(bytes) => map_to_json(bytes),
        other => code(other)
            .map(|code| json!(code))
            .or_else(|| record_to_json(other))
            .unwrap_or_else(|| json!(format!("{other:?}"))),
    }
}

/// Unsigned numbers and the codes that are kept as numbers.
fn code(value: &Value) -> Option<u64> {
    match *value {
        Value::Persistence(v)
        | Value::Scope(v)
        | Value::DataRange(v)
        | Value::Command(v)
        | Value::ProcState(v)
        | Value::AllocDirective(v)
        | Value::JobState(v)
        | Value::LinkState(v)
        | Value::ResblockDirective(v) => Some(v.into()),
        Value::DataType(v) | Value::IofChannel(v) | Value::LocalityType(v) | Value::StorageAccessType(v) => {
            Some(v.into())
        }
        Value::InfoDirectives(v) => Some(v.into()),
        Value::DeviceType(v) | Value::StorageMedium(v) | Value::StorageAccess(v) | Value::StoragePersistence(v) => {
            Some(v)
        }
        ref other => other.as_u64(),
    }
}

fn proc_to_json(proc: &ProcId) -> Json {
    json!({ "namespace": proc.namespace.as_str(), "rank": to_json(&Value::ProcRank(proc.rank)) })
}

fn info_to_json(info: &Info) -> Json {
    json!({ "key": info.key.as_str(), "type": info.value.data_type().name(), "value": to_json(&info.value) })
}

/// A node or process map as text, or as hexadecimal digits if it is compressed. A map in text also has other
/// characters.
fn map_to_json(bytes: &[u8]) -> Json {
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    match std::str::from_utf8(text) {
        Ok(text) if !text.contains(char::is_control) => json!(text),
        _ => json!(hexadecimal(bytes)),
    }
}

/// A record; `None` for any other value.
fn record_to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::App(app) => app_to_json(app),
        Value::Query(query) => json!({ "keys": texts(&query.keys), "qualifiers": infos(&query.qualifiers) }),
        Value::Pdata(data) => json!({
            "proc": proc_to_json(&data.proc),
            "key": data.key.as_str(),
            "type": data.value.data_type().name(),
            "value": to_json(&data.value),
        }),
        Value::ProcInfo(info) => json!({
            "proc": proc_to_json(&info.proc),
            "hostname": text(info.hostname.as_ref()),
            "executable": text(info.executable.as_ref()),
            "pid": info.pid,
            "state": info.state,
        }),
        Value::Envar(envar) => json!({
            "name": text(envar.name.as_ref()),
            "value": text(envar.value.as_ref()),
            "separator": char::from(envar.separator).to_string(),
        }),
        Value::Regattr(attribute) => regattr_to_json(attribute),
        Value::NodePid(process) => json!({
            "hostname": text(process.hostname.as_ref()),
            "node_id": process.node_id,
            "pid": process.pid,
        }),
        Value::Timeval(time) => timeval_to_json(time),
        Value::Buffer(buffer) => json!({ "kind": buffer.kind, "bytes": hexadecimal(&buffer.bytes) }),
        Value::Regex2(map) => {
            json!({ "encoding": text(map.encoding.as_ref()), "bytes": hexadecimal(&map.bytes) })
        }
        other => return device_to_json(other).or_else(|| statistics_to_json(other)),
    })
}

/// Records of devices and the fabric.
fn device_to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Topology(topology) => {
            json!({ "xml": text(topology.xml.as_ref()), "support": hexadecimal(&topology.support) })
        }
        Value::Device(device) => json!({
            "uuid": text(device.uuid.as_ref()),
            "os_name": text(device.os_name.as_ref()),
            "device_type": device.device_type,
        }),
        Value::DeviceDistance(distance) => json!({
            "uuid": text(distance.uuid.as_ref()),
            "os_name": text(distance.os_name.as_ref()),
            "device_type": distance.device_type,
            "minimum": distance.minimum,
            "maximum": distance.maximum,
        }),
        Value::Endpoint(endpoint) => json!({
            "uuid": text(endpoint.uuid.as_ref()),
            "os_name": text(endpoint.os_name.as_ref()),
            "bytes": hexadecimal(&endpoint.bytes),
        }),
        Value::Geometry(geometry) => json!({
            "fabric": geometry.fabric,
            "uuid": text(geometry.uuid.as_ref()),
            "os_name": text(geometry.os_name.as_ref()),
            "coordinates": geometry.coordinates.iter().map(coord_to_json).collect::<Json>(),
        }),
        Value::Coord(coord) => coord_to_json(coord),
        Value::ResourceUnit(unit) => json!({ "device_type": unit.device_type, "count": unit.count }),
        _ => return None,
    })
}

fn statistics_to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::ProcStats(process) => proc_stats_to_json(process),
        Value::NodeStats(node) => node_stats_to_json(node),
        Value::DiskStats(disk) => disk_stats_to_json(disk),
        Value::NetStats(interface) => net_stats_to_json(interface),
        _ => return None,
    })
}

fn app_to_json(app: &App) -> Json {
    json!({
        "command": text(app.command.as_ref()),
        "argv": texts(&app.argv),
        "environment": texts(&app.environment),
        "working_directory": text(app.working_directory.as_ref()),
        "processes_max": app.processes_max,
        "info": infos(&app.info),
    })
}

fn regattr_to_json(attribute: &Regattr) -> Json {
    json!({
        "name": text(attribute.name.as_ref()),
        "key": attribute.key.to_string_lossy(),
        "data_type": attribute.data_type,
        "description": texts(&attribute.description),
    })
}

fn coord_to_json(coord: &Coord) -> Json {
    json!({ "view": coord.view, "positions": coord.positions })
}

fn timeval_to_json(time: &Timeval) -> Json {
    json!({ "seconds": time.seconds, "microseconds": time.microseconds })
}

fn proc_stats_to_json(process: &ProcStats) -> Json {
    json!({
        "node": text(process.node.as_ref()),
        "proc": proc_to_json(&process.proc),
        "pid": process.pid,
        "command": text(process.command.as_ref()),
        "state": char::from(process.state).to_string(),
        "time": timeval_to_json(&process.time),
        "priority": process.priority,
        "threads": process.threads,
        "pss": process.pss,
        "vsize": process.vsize,
        "rss": process.rss,
        "processor": process.processor,
        "sample_time": timeval_to_json(&process.sample_time),
    })
}

fn node_stats_to_json(node: &NodeStats) -> Json {
    json!({
        "node": text(node.node.as_ref()),
        "figures": node.figures,
        "sample_time": timeval_to_json(&node.sample_time),
        "disks": node.disks.iter().map(disk_stats_to_json).collect::<Json>(),
        "interfaces": node.interfaces.iter().map(net_stats_to_json).collect::<Json>(),
    })
}

fn disk_stats_to_json(disk: &DiskStats) -> Json {
    json!({ "disk": text(disk.disk.as_ref()), "counters": disk.counters })
}

fn net_stats_to_json(interface: &NetStats) -> Json {
    json!({ "interface": text(interface.interface.as_ref()), "counters": interface.counters })
}

/// A string; a NULL pointer is null.
fn text(text: Option<&Text>) -> Json {
    text.map_or(Json::Null, |text| json!(text.to_string_lossy()))
}

fn texts(texts: &[Text]) -> Json {
    texts.iter().map(|text| json!(text.to_string_lossy())).collect()
}

fn infos(infos: &[Info]) -> Json {
    infos.iter().map(info_to_json).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use modex::types::{
        Buffer, DataArray, DataType, Device, DeviceDistance, Endpoint, Envar, Geometry, Key, LocalAddress, Namespace,
        NodePid, Pdata, ProcInfo, Query, Rank, Regex2, ResourceUnit, Topology,
    };

    use super::*;

    #[test]
    fn values_become_the_json_closest_to_them() {
        let proc = ProcId::new(Namespace::new("job").unwrap(), Rank::Wildcard);
        let array = DataArray { element_type: DataType::Uint8, elements: vec![Value::Uint8(1), Value::Uint8(2)] };
        for (value, expected) in [
            (Value::Undefined, json!(null)),
            (Value::Bool(true), json!(true)),
            (Value::Int64(-5), json!(-5)),
            (Value::Uint64(u64::MAX), json!(u64::MAX)),
            (Value::from("text"), json!("text")),
            (Value::ByteObject(vec![0, 0xAB]), json!("00ab")),
            (Value::ProcRank(Rank::Process(3)), json!(3)),
            (Value::from(proc), json!({ "namespace": "job", "rank": "*" })),
            (Value::DataArray(Box::new(array)), json!([1, 2])),
            (Value::JobState(4), json!(4)),
            (Value::Regex(b"raw:n0,n1\0".to_vec()), json!("raw:n0,n1")),
            (Value::Regex(b"b\0\xff".to_vec()), json!("6200ff")),
            (
                Value::info_array(vec![Info::new(Key::from_static("k"), 7_u32)]),
                json!([{ "key": "k", "type": "PMIX_UINT32", "value": 7 }]),
            ),
        ] {
            assert_eq!(to_json(&value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_type_without_counterpart_is_spelled_out() {
        assert_eq!(to_json(&Value::Pointer(LocalAddress::new(0x1234))), json!("Pointer(_)"));
    }

    fn some(text: &str) -> Option<Text> {
        Some(Text::from(text))
    }

    fn check<const N: usize>(table: [(Value, Json); N]) {
        for (value, expected) in table {
            assert_eq!(to_json(&value), expected, "{value:?}");
        }
    }

    /// Regression: they were texts in the notation of Rust's `Debug`.
    #[test]
    fn records_of_processes_are_objects() {
        let proc = ProcId::new(Namespace::new("job").unwrap(), 3);
        let proc_json = json!({ "namespace": "job", "rank": 3 });
        let info = Info::new(Key::from_static("k"), 7_u32);
        let info_json = json!({ "key": "k", "type": "PMIX_UINT32", "value": 7 });
        let told = ProcInfo { proc: proc.clone(), hostname: some("n0"), executable: None, pid: 7, state: 4 };
        let app = App {
            command: some("./a"),
            argv: vec![Text::from("a"), Text::from("-v")],
            environment: vec![Text::from("A=1")],
            working_directory: None,
            processes_max: 2,
            info: vec![info.clone()],
        };
        let data = Pdata { proc, key: Key::from_static("port"), value: Value::ByteObject(vec![0xAB]) };
        let attribute = Regattr {
            name: some("PMIX_TIMEOUT"),
            key: Text::from("pmix.timeout"),
            data_type: 6,
            description: vec![Text::from("seconds")],
        };
        check([
            (
                Value::ProcInfo(Box::new(told)),
                json!({ "proc": proc_json, "hostname": "n0", "executable": null, "pid": 7, "state": 4 }),
            ),
            (
                Value::App(Box::new(app)),
                json!({
                    "command": "./a", "argv": ["a", "-v"], "environment": ["A=1"], "working_directory": null,
                    "processes_max": 2, "info": [info_json],
                }),
            ),
            (
                Value::Query(Box::new(Query { keys: vec![Text::from("q")], qualifiers: vec![info] })),
                json!({ "keys": ["q"], "qualifiers": [info_json] }),
            ),
            (
                Value::Pdata(Box::new(data)),
                json!({ "proc": proc_json, "key": "port", "type": "PMIX_BYTE_OBJECT", "value": "ab" }),
            ),
            (
                Value::Regattr(Box::new(attribute)),
                json!({ "name": "PMIX_TIMEOUT", "key": "pmix.timeout", "data_type": 6, "description": ["seconds"] }),
            ),
            (
                Value::Envar(Box::new(Envar { name: some("PATH"), value: some("/bin"), separator: b':' })),
                json!({ "name": "PATH", "value": "/bin", "separator": ":" }),
            ),
            (
                Value::NodePid(Box::new(NodePid { hostname: some("n0"), node_id: 1, pid: 7 })),
                json!({ "hostname": "n0", "node_id": 1, "pid": 7 }),
            ),
            (Value::Timeval(Timeval { seconds: 1, microseconds: 2 }), json!({ "seconds": 1, "microseconds": 2 })),
            (Value::Buffer(Box::new(Buffer { kind: 1, bytes: vec![0] })), json!({ "kind": 1, "bytes": "00" })),
            (
                Value::Regex2(Box::new(Regex2 { encoding: None, bytes: vec![0xFF] })),
                json!({ "encoding": null, "bytes": "ff" }),
            ),
        ]);
    }

    #[test]
    fn records_of_devices_are_objects() {
        let (uuid, os_name) = (some("u"), some("eth0"));
        let distance = DeviceDistance {
            uuid: uuid.clone(),
            os_name: os_name.clone(),
            device_type: 4,
            minimum: 1,
            maximum: u16::MAX,
        };
        let coord = Coord { view: 1, positions: vec![2, 3] };
        let coord_json = json!({ "view": 1, "positions": [2, 3] });
        let geometry =
            Geometry { fabric: 9, uuid: uuid.clone(), os_name: os_name.clone(), coordinates: vec![coord.clone()] };
        let endpoint = Endpoint { uuid: uuid.clone(), os_name: os_name.clone(), bytes: vec![1, 0xC0] };
        check([
            (
                Value::Topology(Box::new(Topology { xml: some("<topology/>"), support: Vec::new() })),
                json!({ "xml": "<topology/>", "support": "" }),
            ),
            (
                Value::Device(Box::new(Device { uuid, os_name, device_type: 4 })),
                json!({ "uuid": "u", "os_name": "eth0", "device_type": 4 }),
            ),
            (
                Value::DeviceDistance(Box::new(distance)),
                json!({ "uuid": "u", "os_name": "eth0", "device_type": 4, "minimum": 1, "maximum": 65535 }),
            ),
            (Value::Endpoint(Box::new(endpoint)), json!({ "uuid": "u", "os_name": "eth0", "bytes": "01c0" })),
            (Value::Coord(Box::new(coord)), coord_json.clone()),
            (
                Value::Geometry(Box::new(geometry)),
                json!({ "fabric": 9, "uuid": "u", "os_name": "eth0", "coordinates": [coord_json] }),
            ),
            (Value::ResourceUnit(ResourceUnit { device_type: 4, count: 2 }), json!({ "device_type": 4, "count": 2 })),
        ]);
    }

    #[test]
    fn statistics_are_objects() {
        let disk = DiskStats { disk: some("sda"), counters: [1; 11] };
        let interface = NetStats { interface: None, counters: [2; 6] };
        let (ones, twos, halves) = (vec![1_u64; 11], vec![2_u64; 6], vec![0.5_f32; 11]);
        let (disk_json, interface_json) =
            (json!({ "disk": "sda", "counters": ones }), json!({ "interface": null, "counters": twos }));
        let node = NodeStats {
            node: some("n0"),
            figures: [0.5; 11],
            sample_time: Timeval { seconds: 1, microseconds: 0 },
            disks: vec![disk.clone()],
            interfaces: vec![interface.clone()],
        };
        let node_json = json!({
            "node": "n0", "figures": halves, "sample_time": { "seconds": 1, "microseconds": 0 },
            "disks": [disk_json], "interfaces": [interface_json],
        });
        check([
            (Value::DiskStats(Box::new(disk)), disk_json),
            (Value::NetStats(Box::new(interface)), interface_json),
            (Value::NodeStats(Box::new(node)), node_json),
        ]);
    }
}
