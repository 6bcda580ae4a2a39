//! Values as text for people.

use std::fmt::Write as _;

use modex::types::{App, Coord, DataArray, DataType, Info, InfoFlags, Query, Rank, Regattr, Status, Text, Value};

use super::code_names;

/// Limit of shown bytes of a byte object.
const BYTES_SHOWN_MAX: usize = 32;
/// Limit of shown levels of nested values.
const DEPTH_MAX: u32 = 8;

/// Type and content on one line; arrays take a line for each element.
pub(crate) fn value(value: &Value) -> String {
    nested(value, 0)
}

/// Key, flags and value.
pub(super) fn info(info: &Info) -> String {
    info_at(info, 0)
}

/// Command, arguments, number of processes and directives.
pub(super) fn app(app: &App) -> String {
    let (argv, environment) = (texts(&app.argv), texts(&app.environment));
    let mut text = format!(
        "PMIX_APP command: {} argv: [{argv}] env: [{environment}] cwd: {} maxprocs: {}",
        optional(app.command.as_ref()),
        optional(app.working_directory.as_ref()),
        app.processes_max,
    );
    lines(&mut text, &app.info, 1, info_at);
    text
}

/// The flags that are set, joined with a colon.
pub(super) fn info_flags(flags: u32) -> String {
    let names = [
        (InfoFlags::REQUIRED, "REQUIRED"),
        (InfoFlags::ARRAY_END, "ARRAY-END"),
        (InfoFlags::PROCESSED, "PROCESSED"),
        (InfoFlags::QUALIFIER, "QUALIFIER"),
        (InfoFlags::PERSISTENT, "PERSISTENT"),
    ];
    let set: Vec<&str> = names.iter().filter(|(flag, _)| flags & flag.bits() != 0).map(|(_, name)| *name).collect();
    match set.is_empty() {
        true if flags & InfoFlags::REQUIRED.bits() == 0 => "OPTIONAL".to_owned(),
        _ => set.join(":"),
    }
}

/// A rank by its number or the standard's name.
pub(super) fn rank(raw: u32) -> String {
    match Rank::from_raw(raw) {
        Ok(Rank::Process(rank)) => rank.to_string(),
        Ok(Rank::Wildcard) => "WILDCARD".to_owned(),
        Ok(Rank::Undefined) => "UNDEFINED".to_owned(),
        Ok(Rank::LocalNode) => "LOCAL-NODE".to_owned(),
        Ok(Rank::LocalPeers) => "LOCAL-PEERS".to_owned(),
        Ok(Rank::Invalid) => "INVALID".to_owned(),
        Err(_) => format!("RESERVED({raw})"),
    }
}

fn nested(value: &Value, depth: u32) -> String {
    let name = value.data_type().name();
    if depth > DEPTH_MAX {
        return format!("{name}: ...");
    }
    let content = match value {
        Value::Undefined => return name.to_owned(),
        Value::NullString => "NULL".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => if *flag { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Timeval(time) => format!("{}.{:06}", time.seconds, time.microseconds),
        Value::Value(inner) => nested(inner, depth + 1),
        Value::Info(info) => info_at(info, depth),
        Value::DataArray(array) => array_at(array, depth),
        Value::Pdata(pdata) => format!("{} {} {}", pdata.proc, pdata.key, nested(&pdata.value, depth + 1)),
        Value::Kval(kval) => format!("{} {}", kval.key, nested(&kval.value, depth + 1)),
        Value::App(application) => app(application),
        Value::Query(query) => query_at(query, depth),
        other => flat(other),
    };
    format!("{name}: {content}")
}

/// Types that hold no values.
fn flat(value: &Value) -> String {
    if let Some(name) = code(value) {
        return name;
    }
    match value {
        Value::Proc(proc) => format!("{}:{}", proc.namespace, rank(proc.rank.to_raw())),
        Value::ProcRank(process) => rank(process.to_raw()),
        Value::ProcNamespace(namespace) => namespace.to_string(),
        Value::ProcCpuset(cpuset) => optional(cpuset.as_ref()),
        Value::ByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::DataBuffer(bytes) => shown_bytes(bytes),
        Value::Regex(expression) if !expression.starts_with(b"blob:") => Text::until_nul(expression).to_string(),
        Value::Regex(expression) => shown_bytes(expression),
        Value::Regattr(attribute) => regattr(attribute),
        Value::Envar(envar) => format!(
            "{}={} separator: {}",
            optional(envar.name.as_ref()),
            optional(envar.value.as_ref()),
            char::from(envar.separator).escape_default()
        ),
        Value::ProcInfo(process) => format!(
            "{} host: {} executable: {} pid: {} state: {}",
            process.proc,
            optional(process.hostname.as_ref()),
            optional(process.executable.as_ref()),
            process.pid,
            code_names::proc_state(process.state)
        ),
        Value::Pointer(_) => "(a pointer)".to_owned(),
        Value::Device(of) => device((&of.uuid, &of.os_name), code_names::device_type(of.device_type)),
        Value::DeviceDistance(of) => {
            let kind = code_names::device_type(of.device_type);
            format!("{} min: {} max: {}", device((&of.uuid, &of.os_name), kind), of.minimum, of.maximum)
        }
        Value::Endpoint(of) => device((&of.uuid, &of.os_name), &shown_bytes(&of.bytes)),
        Value::Geometry(of) => {
            let coordinates: Vec<String> = of.coordinates.iter().map(coord).collect();
            device((&of.uuid, &of.os_name), &format!("fabric: {} {}", of.fabric, coordinates.join(" ")))
        }
        Value::Coord(of) => coord(of),
        // Records are shown field by field, under the names in this library's documentation.
        record => match super::number::integer(record) {
            Some(number) => number.to_string(),
            None => format!("{record:?}"),
        },
    }
}

/// A device's id and name, and more about it.
fn device((id, name): (&Option<Text>, &Option<Text>), more: &str) -> String {
    format!("id: {} name: {} {more}", optional(id.as_ref()), optional(name.as_ref()))
}

fn coord(coord: &Coord) -> String {
    let numbers: Vec<String> = coord.positions.iter().map(u32::to_string).collect();
    format!("({})", numbers.join(","))
}

/// Codes that have names.
fn code(value: &Value) -> Option<String> {
    let name = match *value {
        Value::Status(status) => return Some(Status::from_raw(status).to_string()),
        Value::Persistence(code) => code_names::persistence(code),
        Value::Scope(code) => code_names::scope(code),
        Value::DataRange(code) => code_names::data_range(code),
        Value::InfoDirectives(flags) => return Some(info_flags(flags)),
        Value::DataType(code) => DataType::from_raw(code).map_or(code_names::UNKNOWN, DataType::name),
        Value::ProcState(code) => code_names::proc_state(code),
        Value::AllocDirective(code) => code_names::alloc_directive(code),
        Value::JobState(code) => code_names::job_state(code),
        Value::LinkState(code) => code_names::link_state(code),
        Value::ResblockDirective(code) => code_names::resource_block_directive(code),
        _ => return None,
    };
    Some(name.to_owned())
}

fn info_at(info: &Info, depth: u32) -> String {
    format!("{} [{}] {}", info.key, info_flags(info.flags), nested(&info.value, depth + 1))
}

fn array_at(array: &DataArray, depth: u32) -> String {
    let mut text = format!("{} of {}", array.elements.len(), array.element_type.name());
    lines(&mut text, &array.elements, depth + 1, nested);
    text
}

fn query_at(query: &Query, depth: u32) -> String {
    let mut text = format!("keys: [{}]", texts(&query.keys));
    lines(&mut text, &query.qualifiers, depth + 1, info_at);
    text
}

fn regattr(attribute: &Regattr) -> String {
    let data_type = DataType::from_raw(attribute.data_type).map_or(code_names::UNKNOWN, DataType::name);
    let name = optional(attribute.name.as_ref());
    format!("{name} ({}) {data_type} [{}]", attribute.key, texts(&attribute.description))
}

fn lines<T>(text: &mut String, elements: &[T], depth: u32, line: fn(&T, u32) -> String) {
    for element in elements {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str("  "));
        text.push_str(&line(element, depth));
    }
}

fn texts(texts: &[Text]) -> String {
    texts.iter().map(Text::to_string).collect::<Vec<_>>().join(" ")
}

fn optional(text: Option<&Text>) -> String {
    text.map_or_else(|| "NULL".to_owned(), Text::to_string)
}

fn shown_bytes(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes", bytes.len());
    if !bytes.is_empty() {
        text.push_str(": ");
    }
    for byte in bytes.iter().take(BYTES_SHOWN_MAX) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > BYTES_SHOWN_MAX {
        text.push_str("...");
    }
    text
}
