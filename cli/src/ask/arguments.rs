//! Names of keys, ranks and qualifiers as people write them.

use modex::keys::{self, ValueKind};
use modex::types::{DataArray, Info, Key, KeyError, Namespace, NamespaceError, ProcId, Rank, Scope, Status, Value};

/// Why a word on the command line was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0:?} is not a rank; give a number, * (the job), local-node, local-peers or undefined")]
    Rank(String),
    #[error("{0:?} is not a scope; give local, remote or global")]
    Scope(String),
    #[error("{0:?} is not a qualifier; write KEY=VALUE, or KEY alone for a true flag")]
    Qualifier(String),
    #[error("the qualifier {0} is given twice; only keys outside the standard have arrays of values")]
    Repeated(Key),
    #[error("the values of {0} have different types; an array has one type")]
    Mixed(Key),
    #[error("{0:?} is not data to publish; write KEY=VALUE, or KEY=TYPE:VALUE")]
    Data(String),
    #[error("values of type {0} can't be written here; the types are {TYPE_NAMES}; write string:TEXT for a text")]
    Type(String),
    #[error("{word:?} is no status code{}", suggestion(.similar.as_deref()))]
    Status { word: String, similar: Option<&'static str> },
    #[error("{0:?} is not a process; write NAMESPACE:RANK, such as modex-4711:0 or modex-4711:*")]
    Process(String),
    #[error("{key} needs {wanted}; the command line cannot convert {value:?} to one")]
    Value { key: String, wanted: &'static str, value: String },
}

fn suggestion(similar: Option<&str>) -> String {
    similar.map_or_else(String::new, |similar| format!("; did you mean {similar}?"))
}

/// A status or event code: a number, or its name in any case, with or without `PMIX_`.
pub(super) fn status(word: &str) -> Result<Status, ArgumentError> {
    let name = word.to_ascii_uppercase();
    if let Some(status) = word.parse().ok().map(Status::from_raw).or_else(|| Status::from_name(&name)) {
        return Ok(status);
    }
    let name = name.strip_prefix("PMIX_").unwrap_or(&name);
    let likeness = |known: &str| strsim::jaro_winkler(name, known.strip_prefix("PMIX_").unwrap_or(known));
    let known = Status::named().filter_map(Status::name).map(|known| (likeness(known), known));
    let similar =
        known.max_by(|(one, _), (other, _)| one.total_cmp(other)).filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    Err(ArgumentError::Status { word: word.to_owned(), similar: similar.map(|(_, known)| known) })
}

/// Likeness from which a name may be a misspelling of another (Jaro and Winkler, 1 for the same).
const LIKENESS_MIN: f64 = 0.8;

/// A process or, with a rank such as `*`, several.
pub(super) fn process(word: &str) -> Result<ProcId, ArgumentError> {
    let (name, number) = word.rsplit_once(':').ok_or_else(|| ArgumentError::Process(word.to_owned()))?;
    Ok(ProcId { namespace: namespace(name)?, rank: rank(number)? })
}

/// A key by its name, or by that of its attribute (`PMIX_JOB_SIZE`).
pub(super) fn key(word: &str) -> Result<Key, ArgumentError> {
    let name = keys::by_macro(word).map_or(word, |attribute| attribute.name);
    Ok(Key::new(name.to_owned())?)
}

/// A namespace.
pub(super) fn namespace(word: &str) -> Result<Namespace, ArgumentError> {
    Ok(Namespace::new(word)?)
}

/// One process or several.
pub(super) fn rank(word: &str) -> Result<Rank, ArgumentError> {
    let refuse = || ArgumentError::Rank(word.to_owned());
    match word {
        "*" | "wildcard" => Ok(Rank::Wildcard),
        "local-node" => Ok(Rank::LocalNode),
        "local-peers" => Ok(Rank::LocalPeers),
        "undefined" => Ok(Rank::Undefined),
        digits => {
            let number: u32 = digits.parse().map_err(|_| refuse())?;
            if number <= Rank::PROCESS_MAX { Ok(Rank::from(number)) } else { Err(refuse()) }
        }
    }
}

/// The scope of a value.
pub(super) fn scope(word: &str) -> Result<Scope, ArgumentError> {
    match word {
        "local" => Ok(Scope::Local),
        "remote" => Ok(Scope::Remote),
        "global" => Ok(Scope::Global),
        other => Err(ArgumentError::Scope(other.to_owned())),
    }
}

/// `KEY=VALUE`. The value has the type of the attribute, or is text.
pub(super) fn qualifier(word: &str) -> Result<Info, ArgumentError> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    if name.is_empty() {
        return Err(ArgumentError::Qualifier(word.to_owned()));
    }
    let key = key(name)?;
    let kind = keys::by_name(key.as_str()).map(|attribute| attribute.value_type);
    let value = match value {
        None => Value::Bool(true),
        Some(text) => typed(key.as_str(), kind, text)?,
    };
    Ok(Info::new(key, value))
}

/// Several `KEY=VALUE`. The values of a repeated key outside the standard are an array.
pub(super) fn qualifiers(words: &[String]) -> Result<Vec<Info>, ArgumentError> {
    let mut infos: Vec<Info> = Vec::new();
    for word in words {
        let info = qualifier(word)?;
        match infos.iter_mut().find(|earlier| earlier.key == info.key) {
            None => infos.push(info),
            Some(_) if info.key.is_reserved() => return Err(ArgumentError::Repeated(info.key)),
            Some(earlier) => add(earlier, info)?,
        }
    }
    Ok(infos)
}

/// Adds a value to those of an info.
fn add(earlier: &mut Info, Info { key, value, .. }: Info) -> Result<(), ArgumentError> {
    let mut array = match std::mem::replace(&mut earlier.value, Value::Undefined) {
        Value::DataArray(array) => array,
        first => Box::new(DataArray { element_type: first.data_type(), elements: vec![first] }),
    };
    if array.element_type != value.data_type() {
        return Err(ArgumentError::Mixed(key));
    }
    array.elements.push(value);
    earlier.value = Value::DataArray(array);
    Ok(())
}

/// `KEY=VALUE` or `KEY=TYPE:VALUE` to publish. The key is one of the user's own.
pub(super) fn data(word: &str) -> Result<Info, ArgumentError> {
    let (name, text) = word.split_once('=').ok_or_else(|| ArgumentError::Data(word.to_owned()))?;
    let key = Key::for_put(name.to_owned())?;
    Ok(Info { value: typed(name, None, text)?, ..Info::new(key, true) })
}

fn typed(key: &str, kind: Option<ValueKind>, text: &str) -> Result<Value, ArgumentError> {
    let refuse = |wanted| ArgumentError::Value { key: key.to_owned(), wanted, value: text.to_owned() };
    let number = |wanted: &'static str| text.parse::<u64>().map_err(|_| refuse(wanted));
    let small = |wanted: &'static str| text.parse::<u32>().map_err(|_| refuse(wanted));
    let bits = |wanted: &'static str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| refuse(wanted)),
        None => number(wanted),
    };
    match kind {
        None => match text.split_once(':').map(|(name, text)| (name, named(name), text)) {
            Some((_, Some(kind), text)) => typed(key, Some(kind), text),
            Some((name, None, _)) if is_other_number(name) => Err(ArgumentError::Type(name.to_owned())),
            _ => Ok(Value::from(text)),
        },
        Some(ValueKind::String | ValueKind::Varies | ValueKind::EnvironmentVariable) => Ok(Value::from(text)),
        Some(ValueKind::Bool) => match text {
            "true" | "yes" | "1" => Ok(Value::Bool(true)),
            "false" | "no" | "0" => Ok(Value::Bool(false)),
            _ => Err(refuse("true or false")),
        },
        Some(ValueKind::Uint16) => text.parse().map(Value::Uint16).map_err(|_| refuse("a number below 65536")),
        Some(ValueKind::Uint32) => small("a number").map(Value::Uint32),
        Some(ValueKind::Uint64) => number("a number").map(Value::Uint64),
        Some(ValueKind::Size) => number("a number").map(Value::Size),
        Some(ValueKind::Int) => text.parse().map(Value::Int).map_err(|_| refuse("a number")),
        Some(ValueKind::Int32) => text.parse().map(Value::Int32).map_err(|_| refuse("a number")),
        Some(ValueKind::Pid) => small("a process number").map(Value::Pid),
        Some(ValueKind::Rank) => rank(text).map(Value::ProcRank),
        Some(ValueKind::Scope) => scope(text).map(|scope| Value::Scope(scope.to_raw())),
        Some(ValueKind::Status) => status(text).map(|status| Value::Status(status.to_raw())),
        Some(ValueKind::Proc) => process(text).map(Value::from),
        Some(ValueKind::Time) => number("seconds since 1970").map(Value::Time),
        Some(ValueKind::DeviceType) => number("a number").map(Value::DeviceType),
        Some(ValueKind::Double) => text.parse().map(Value::Double).map_err(|_| refuse("a number")),
        Some(ValueKind::StorageMedium) => bits("bits as a number").map(Value::StorageMedium),
        Some(ValueKind::StorageAccessibility) => bits("bits as a number").map(Value::StorageAccess),
        Some(ValueKind::StoragePersistence) => bits("bits as a number").map(Value::StoragePersistence),
        Some(ValueKind::StorageAccessType) => {
            text.parse().map(Value::StorageAccessType).map_err(|_| refuse("1 for read, 2 for write, or 3"))
        }
        Some(_) => Err(refuse("a value of its own kind")),
    }
}

/// Whether this is the name of a number that can't be written here, such as `float` or `uint8`.
fn is_other_number(name: &str) -> bool {
    ["byte", "int8", "int16", "int64", "uint", "uint8", "float"].contains(&name)
}

/// The names of [`named`].
const TYPE_NAMES: &str = "string, bool, uint16, uint32, uint64, size, int, int32 and double";

/// The types for values of keys outside the standard.
fn named(name: &str) -> Option<ValueKind> {
    Some(match name {
        "string" => ValueKind::String,
        "bool" => ValueKind::Bool,
        "uint16" => ValueKind::Uint16,
        "uint32" => ValueKind::Uint32,
        "uint64" => ValueKind::Uint64,
        "size" => ValueKind::Size,
        "int" => ValueKind::Int,
        "int32" => ValueKind::Int32,
        "double" => ValueKind::Double,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use modex::types::DataType;

    use super::*;

    #[test]
    fn keys_go_by_their_name_and_by_that_of_their_attribute() {
        assert_eq!(key("PMIX_JOB_SIZE").unwrap().as_str(), "pmix.job.size");
        assert_eq!(key("pmix.job.size").unwrap().as_str(), "pmix.job.size");
        assert_eq!(key("endpoint").unwrap().as_str(), "endpoint");
        assert!(matches!(key(""), Err(ArgumentError::Key(_))));
    }

    #[test]
    fn repeated_qualifiers_outside_the_standard_are_an_array() {
        let read = |words: &[&str]| qualifiers(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let nodes =
            read(&["modex.storage.nodes=a", "own=1", "modex.storage.nodes=b", "modex.storage.nodes=c"]).unwrap();
        let [Info { value: Value::DataArray(array), .. }, _] = &nodes[..] else { panic!("{nodes:?}") };
        assert_eq!(
            (array.element_type, &array.elements[..]),
            (DataType::String, &["a", "b", "c"].map(Value::from)[..])
        );
        assert!(matches!(read(&["PMIX_HOSTNAME=a", "PMIX_HOSTNAME=b"]), Err(ArgumentError::Repeated(_))));
        assert!(matches!(read(&["own=a", "own=uint32:1"]), Err(ArgumentError::Mixed(_))));
        let medium = |text| read(&[text]).map(|infos| infos[0].value.clone());
        assert_eq!(medium("PMIX_STORAGE_MEDIUM=0x20"), Ok(Value::StorageMedium(32)));
        assert_eq!(medium("PMIX_STORAGE_PERSISTENCE=4"), Ok(Value::StoragePersistence(4)));
        assert!(medium("PMIX_STORAGE_ACCESSIBILITY=node").is_err());
    }

    #[test]
    fn ranks_are_numbers_or_words() {
        assert_eq!(["3", "*", "local-node"].map(rank), [Ok(3.into()), Ok(Rank::Wildcard), Ok(Rank::LocalNode)]);
        for word in ["", "-1", "x", "4294967294"] {
            assert_eq!(rank(word), Err(ArgumentError::Rank(word.to_owned())));
        }
    }

    #[test]
    fn statuses_are_numbers_or_names_and_a_misspelt_one_has_a_suggestion() {
        for word in ["-145", "PMIX_EVENT_JOB_END", "event_job_end"] {
            assert_eq!(status(word), Ok(Status::EVENT_JOB_END));
        }
        assert_eq!(status("4711"), Ok(Status::from_raw(4711)));
        for word in ["PMIX_EVENT_JBO_END", "event_job_ent", "event-job-end"] {
            let refused = status(word).unwrap_err().to_string();
            assert!(refused.contains("is no status code; did you mean PMIX_EVENT_JOB_END?"), "{refused}");
        }
        assert_eq!(status("qqqq").unwrap_err().to_string(), "\"qqqq\" is no status code");
    }

    #[test]
    fn a_process_has_a_namespace_and_a_rank() {
        let namespace = Namespace::new("a:b").unwrap();
        assert_eq!(process("a:b:3"), Ok(ProcId::new(namespace.clone(), 3)));
        assert_eq!(process("a:b:*"), Ok(ProcId { namespace, rank: Rank::Wildcard }));
        assert_eq!(process("a"), Err(ArgumentError::Process("a".to_owned())));
        assert_eq!(process("a:x"), Err(ArgumentError::Rank("x".to_owned())));
    }

    #[test]
    fn a_qualifier_has_the_type_of_its_attribute() {
        let of = |word: &str| qualifier(word).map(|info| (info.key.as_str().to_owned(), info.value));
        let expected = |key: &str, value: Value| Ok((key.to_owned(), value));
        assert_eq!(of("PMIX_NODEID=7"), expected("pmix.nodeid", Value::Uint32(7)));
        assert_eq!(of("pmix.hname=n0=x"), expected("pmix.hname", Value::from("n0=x")));
        assert_eq!(of("PMIX_NODE_INFO"), expected("pmix.node.info", Value::Bool(true)));
        assert_eq!(of("own=7"), expected("own", Value::from("7")));
        assert!(matches!(of("PMIX_NODEID=x"), Err(ArgumentError::Value { .. })));
        assert_eq!(of("number=uint32:5").unwrap().1, Value::Uint32(5));
        assert_eq!(of("rate=double:2e9").unwrap().1, Value::Double(2e9));
        assert_eq!(of("PMIX_STORAGE_ACCESS_TYPE=3").unwrap().1, Value::StorageAccessType(3));
        assert_eq!(of("place=here:there").unwrap().1, Value::from("here:there"));
        assert!(matches!(of("number=uint32:x"), Err(ArgumentError::Value { .. })));
        assert_eq!(of("number=uint8:3"), Err(ArgumentError::Type("uint8".to_owned())));
        assert!(
            TYPE_NAMES
                .split([',', ' '])
                .filter(|word| !word.is_empty() && *word != "and")
                .all(|name| named(name).is_some())
        );
        assert!(matches!(of("=x"), Err(ArgumentError::Qualifier(_))));
    }

    #[test]
    fn data_to_publish_has_a_key_of_the_users_own() {
        let of = |word: &str| data(word).map(|info| (info.key.as_str().to_owned(), info.value));
        assert_eq!(of("port=tag#0=x"), Ok(("port".to_owned(), Value::from("tag#0=x"))));
        assert_eq!(of("port=uint32:5"), Ok(("port".to_owned(), Value::Uint32(5))));
        assert_eq!(of("port="), Ok(("port".to_owned(), Value::from(""))));
        assert_eq!(of("port"), Err(ArgumentError::Data("port".to_owned())));
        assert!(matches!(of("pmix.port=1"), Err(ArgumentError::Key(_))));
        assert!(matches!(of("=1"), Err(ArgumentError::Key(_))));
    }
}
