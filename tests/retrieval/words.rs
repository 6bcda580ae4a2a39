//! Values, questions and descriptions in the text form of `host.c`.

use modex::types::{Info, Rank, Value};

use crate::cases::{Put, Register};
use crate::infos::Question;

/// A value as `host.c` prints it.
pub(crate) fn value(value: &Value) -> String {
    let code = value.data_type().to_raw();
    format!("{code}:{}", payload(value))
}

fn payload(value: &Value) -> String {
    match value {
        Value::Undefined => String::new(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::String(text) => escaped(text.as_bytes()),
        Value::NullString => "(null)".to_owned(),
        Value::Int(number) | Value::Int32(number) | Value::Status(number) => number.to_string(),
        Value::ProcRank(rank) => rank.to_raw().to_string(),
        Value::Scope(scope) => scope.to_string(),
        Value::Proc(proc) => format!("{}:{}", escaped(proc.namespace.as_str().as_bytes()), proc.rank.to_raw()),
        Value::DataArray(array) => {
            format!("[{}]", array.elements.iter().map(element).collect::<Vec<_>>().join(","))
        }
        other => other.as_u64().map_or_else(|| "?".to_owned(), |number| number.to_string()),
    }
}

/// A value in the form that it has in an array.
pub(crate) fn element(element: &Value) -> String {
    match element {
        Value::Info(info) => self::info(info),
        other => payload(other),
    }
}

pub(crate) fn info(info: &Info) -> String {
    format!("{}={}", escaped(info.key.as_str().as_bytes()), value(&info.value))
}

/// Bytes outside of printable ASCII as %XX.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    bytes.iter().map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }).collect()
}

/// The lines that register a job.
pub(crate) fn register(register: &Register) -> String {
    let Register { namespace, local_count, infos } = register;
    format!("register\t{namespace}\t{local_count}\n{}end\n", entries(infos))
}

/// Infos, one in a line or as a list of lines.
pub(crate) fn entries(infos: &[Info]) -> String {
    let entry = |info: &Info| {
        let key = escaped(info.key.as_str().as_bytes());
        match &info.value {
            Value::DataArray(array) if array.elements.iter().all(|element| matches!(element, Value::Info(_))) => {
                let inside: Vec<Info> = array
                    .elements
                    .iter()
                    .filter_map(|element| if let Value::Info(info) = element { Some((**info).clone()) } else { None })
                    .collect();
                format!("a\t{key}\n{}e\n", entries(&inside))
            }
            Value::DataArray(array) => {
                let texts: Vec<String> = array.elements.iter().map(payload).collect();
                format!("s\t{key}\t{}\n", texts.join("\t"))
            }
            other => format!("i\t{key}\t{}\t{}\n", other.data_type().to_raw(), payload(other)),
        }
    };
    infos.iter().map(entry).collect()
}

/// The line of a put.
pub(crate) fn put(put: &Put) -> String {
    format!("u\t{}\t{}\t{}\t{}\n", put.key, put.value.data_type().to_raw(), payload(&put.value), put.scope.to_raw())
}

/// The line of a question.
pub(crate) fn question(question: &Question) -> String {
    let (name, rank) = match &question.proc {
        Some((name, rank)) => (name.as_str(), *rank),
        None => ("-", Rank::Undefined),
    };
    format!("g\t{name}\t{}\t{}{}\n", rank.to_raw(), question.key, qualifiers(&question.qualifiers))
}

pub(crate) fn qualifiers(infos: &[Info]) -> String {
    let words =
        |info: &Info| format!("\t{}\t{}\t{}", info.key.as_str(), info.value.data_type().to_raw(), payload(&info.value));
    infos.iter().map(words).collect()
}
