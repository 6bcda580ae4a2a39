//! Answers to `PMIX_QUERY_ATTRIBUTE_SUPPORT`: the attributes that client, server, tool and host honour, for each
//! function.
//!
//! There are two forms of the question. The standard's lists functions behind the first key, and its qualifiers choose
//! levels. OpenPMIx and its tool `pattrs` list functions in the value of each qualifier, where `all` means every
//! function. They expect one answer for each qualifier. Its key is that of the query, and its value is an array.
//!
//! Source: PMIx Standard, "Querying Attribute Support".

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{UNDERSTOOD_OF_INIT, UNDERSTOOD_OF_INVITATIONS};
use crate::events::Event;
use crate::proto::Get;
use crate::runtime::server::job_setup::{
    ENVIRONMENT_CHANGES, UNDERSTOOD as UNDERSTOOD_OF_SETUP, UNDERSTOOD_OF_LOCAL_SUPPORT,
};
use crate::server::{
    ALL_INVENTORIES, CLEANUP_PATHS, CLEANUP_RULES, CURRENT_INVENTORY, INVENTORY, OUTPUT_DIRECTIVES, QUERY_QUALIFIERS,
    UNDERSTOOD_OF_ATTACHING, UNDERSTOOD_OF_CONNECTIONS, UNDERSTOOD_OF_FENCES, UNDERSTOOD_OF_GROUP_ENDS,
    UNDERSTOOD_OF_GROUPS, UNDERSTOOD_OF_NEW_TOOLS, UNDERSTOOD_OF_OUTPUT,
};
use crate::types::{DataArray, DataType, Info, Key, Regattr, Text, Value};
use crate::{keys, storage, usage};

/// A party that honours attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Client,
    Server,
    Tool,
    Host,
}

/// The attributes that a host has registered, and a service of its server.
#[derive(Debug, Default)]
pub(super) struct HostAttributes {
    pub(super) by_function: BTreeMap<String, Vec<String>>,
    /// Whether the server answers queries about storage.
    pub(super) has_storage: bool,
    /// Whether it also stages files.
    pub(super) stages_files: bool,
}

/// The attributes that this library honours itself. The lists are those of the code that reads them, where it has one.
/// Servers pass the attributes of other functions on to the host, which registers them. A service that only some
/// servers have, such as the one for names, is the host's here.
const OF_LIBRARY: &[(Level, &str, &[&[&str]])] = &[
    (Level::Client, "PMIx_Compute_distances", &[&[keys::DEVICE_TYPE.name(), keys::DEVICE_ID.name()]]),
    (Level::Client, "PMIx_Fabric_register", &[&[keys::TIMEOUT.name()]]),
    (Level::Client, "PMIx_Finalize", &[&[keys::EMBED_BARRIER.name()]]),
    (Level::Client, "PMIx_Get", &[&Get::UNDERSTOOD, &Get::OF_HARDWARE]),
    (Level::Client, "PMIx_Init", &[&UNDERSTOOD_OF_INIT]),
    (Level::Client, "PMIx_IOF_pull", &[&OF_FORMED_OUTPUT]),
    (Level::Client, "PMIx_IOF_push", &[&[keys::IOF_PUSH_STDIN.name(), keys::IOF_COMPLETE.name()]]),
    (Level::Client, "PMIx_Notify_event", &[&Event::UNDERSTOOD]),
    (Level::Client, "PMIx_Group_invite", &[&UNDERSTOOD_OF_INVITATIONS]),
    (Level::Client, "PMIx_Group_join", &[&[keys::TIMEOUT.name()]]),
    (Level::Client, "PMIx_Process_monitor", &[&[keys::SEND_HEARTBEAT.name()]]),
    (Level::Client, "PMIx_Resource_block", &[&[keys::TIMEOUT.name()]]),
    (Level::Client, "PMIx_Session_control", &[&[keys::TIMEOUT.name()]]),
    (
        Level::Client,
        "PMIx_Register_event_handler",
        &[&[
            keys::EVENT_HDLR_NAME.name(),
            keys::EVENT_HDLR_FIRST.name(),
            keys::EVENT_HDLR_LAST.name(),
            keys::EVENT_HDLR_FIRST_IN_CATEGORY.name(),
            keys::EVENT_HDLR_LAST_IN_CATEGORY.name(),
            keys::EVENT_HDLR_BEFORE.name(),
            keys::EVENT_HDLR_AFTER.name(),
            keys::EVENT_HDLR_PREPEND.name(),
            keys::EVENT_HDLR_APPEND.name(),
            keys::EVENT_CUSTOM_RANGE.name(),
            keys::EVENT_AFFECTED_PROC.name(),
            keys::EVENT_AFFECTED_PROCS.name(),
            keys::EVENT_RETURN_OBJECT.name(),
            keys::EVENT_ONESHOT.name(),
            keys::RANGE.name(),
        ]],
    ),
    (Level::Server, "PMIx_Connect", &[&UNDERSTOOD_OF_CONNECTIONS]),
    (Level::Server, "PMIx_Disconnect", &[&UNDERSTOOD_OF_CONNECTIONS]),
    (Level::Server, "PMIx_Fence", &[&UNDERSTOOD_OF_FENCES]),
    (
        Level::Server,
        "PMIx_Get",
        &[&[
            keys::IMMEDIATE.name(),
            keys::GET_REFRESH_CACHE.name(),
            keys::DATA_SCOPE.name(),
            keys::TIMEOUT.name(),
            keys::SESSION_INFO.name(),
            keys::JOB_INFO.name(),
            keys::APP_INFO.name(),
            keys::NODE_INFO.name(),
        ]],
    ),
    (Level::Server, "PMIx_Group_construct", &[&UNDERSTOOD_OF_GROUPS]),
    (Level::Server, "PMIx_Group_destruct", &[&UNDERSTOOD_OF_GROUP_ENDS]),
    (Level::Server, "PMIx_IOF_pull", &[&OUTPUT_DIRECTIVES]),
    (Level::Server, CONTROL_FUNCTION, &[&CLEANUP_PATHS, &CLEANUP_RULES]),
    (Level::Server, "PMIx_Notify_event", &[&Event::UNDERSTOOD]),
    (
        Level::Server,
        "PMIx_Process_monitor",
        &[&[
            keys::MONITOR_HEARTBEAT.name(),
            keys::MONITOR_HEARTBEAT_TIME.name(),
            keys::MONITOR_HEARTBEAT_DROPS.name(),
            keys::MONITOR_ID.name(),
            keys::MONITOR_CANCEL.name(),
            keys::SEND_HEARTBEAT.name(),
        ]],
    ),
    (
        Level::Server,
        "PMIx_Query_info",
        &[
            &QUERY_QUALIFIERS,
            &usage::QUERY_QUALIFIERS,
            &[
                keys::QUERY_ATTRIBUTE_SUPPORT.name(),
                keys::CLIENT_ATTRIBUTES.name(),
                keys::SERVER_ATTRIBUTES.name(),
                keys::TOOL_ATTRIBUTES.name(),
                keys::HOST_ATTRIBUTES.name(),
            ],
        ],
    ),
    (Level::Server, "PMIx_Spawn", &[&OUTPUT_DIRECTIVES, &[keys::IOF_INHERIT.name()]]),
    (Level::Server, "PMIx_server_IOF_deliver", &[&UNDERSTOOD_OF_OUTPUT, &[keys::IOF_LOCAL_OUTPUT.name()]]),
    (
        Level::Server,
        "PMIx_server_collect_inventory",
        &[&[INVENTORY, ALL_INVENTORIES, CURRENT_INVENTORY, keys::SERVER_URI.name(), keys::TIMEOUT.name()]],
    ),
    (Level::Server, "PMIx_server_deliver_inventory", &[&[INVENTORY, keys::HOSTNAME.name()]]),
    (Level::Server, "PMIx_server_init", &[&OUTPUT_DIRECTIVES, &OF_WRITTEN_OUTPUT, &OF_FORMED_OUTPUT, &OF_SERVERS]),
    (
        Level::Server,
        "PMIx_server_register_nspace",
        &[&[
            keys::REGISTER_NODATA.name(),
            keys::SESSION_INFO_ARRAY.name(),
            keys::JOB_INFO_ARRAY.name(),
            keys::APP_INFO_ARRAY.name(),
            keys::NODE_INFO_ARRAY.name(),
            keys::PROC_INFO_ARRAY.name(),
            keys::IOF_INHERIT.name(),
        ]],
    ),
    (Level::Server, "PMIx_server_setup_application", &[&ENVIRONMENT_CHANGES, &UNDERSTOOD_OF_SETUP]),
    (Level::Server, "PMIx_server_setup_local_support", &[&ENVIRONMENT_CHANGES, &UNDERSTOOD_OF_LOCAL_SUPPORT]),
    (Level::Tool, "PMIx_tool_attach_to_server", &[&UNDERSTOOD_OF_ATTACHING]),
    (Level::Tool, "PMIx_tool_connect_to_server", &[&UNDERSTOOD_OF_ATTACHING]),
    (Level::Tool, "PMIx_tool_init", &[&UNDERSTOOD_OF_ATTACHING, &UNDERSTOOD_OF_NEW_TOOLS]),
    (Level::Tool, "PMIx_tool_set_server", &[&[keys::WAIT_FOR_CONNECTION.name(), keys::TIMEOUT.name()]]),
];

/// The attributes of a function that this library honours at any level. The C library compares its code with them.
#[must_use]
pub fn attributes_of_library(function: &str) -> BTreeSet<&'static str> {
    let rows = OF_LIBRARY.iter().filter(|(_, name, _)| *name == function);
    rows.flat_map(|(.., lists)| lists.concat()).collect()
}

/// Infos about output that only a C server honours: it knows where a process runs.
const OF_WRITTEN_OUTPUT: [&str; 2] = [keys::IOF_LOCAL_OUTPUT.name(), keys::IOF_TAG_DETAILED_OUTPUT.name()];

/// Infos for the form and the files of output. A process that pulls output honours them, too.
const OF_FORMED_OUTPUT: [&str; 17] = [
    keys::IOF_TAG_OUTPUT.name(),
    keys::IOF_TAG_FULLNAME_OUTPUT.name(),
    keys::IOF_RANK_OUTPUT.name(),
    keys::IOF_TIMESTAMP_OUTPUT.name(),
    keys::IOF_XML_OUTPUT.name(),
    keys::IOF_OUTPUT_RAW.name(),
    keys::IOF_MERGE_STDERR_STDOUT.name(),
    keys::IOF_FILE_ONLY.name(),
    keys::IOF_FILE_PATTERN.name(),
    keys::IOF_OUTPUT_TO_FILE.name(),
    keys::IOF_OUTPUT_TO_DIRECTORY.name(),
    keys::TAG_OUTPUT.name(),
    keys::TIMESTAMP_OUTPUT.name(),
    keys::MERGE_STDERR_STDOUT.name(),
    keys::OUTPUT_TO_FILE.name(),
    keys::OUTPUT_TO_DIRECTORY.name(),
    keys::OUTPUT_NOCOPY.name(),
];

/// Infos that a C server reads at its start. Their code is in the C library, whose test compares both.
const OF_SERVERS: [&str; 27] = [
    keys::EXTERNAL_PROGRESS.name(),
    keys::SERVER_NSPACE.name(),
    keys::SERVER_RANK.name(),
    keys::HOSTNAME.name(),
    keys::SERVER_TMPDIR.name(),
    keys::SYSTEM_TMPDIR.name(),
    keys::LAUNCHER_RENDEZVOUS_FILE.name(),
    keys::TCP_REPORT_URI.name(),
    keys::TCP_DISABLE_IPV4.name(),
    keys::TCP_DISABLE_IPV6.name(),
    keys::TCP_IPV4_PORT.name(),
    keys::TCP_IPV6_PORT.name(),
    keys::TCP_IF_INCLUDE.name(),
    keys::TCP_IF_EXCLUDE.name(),
    keys::SERVER_REMOTE_CONNECTIONS.name(),
    keys::SERVER_TOOL_SUPPORT.name(),
    keys::SERVER_ALLOW_FOREIGN_TOOLS.name(),
    keys::SERVER_SESSION_SUPPORT.name(),
    keys::SERVER_SYSTEM_SUPPORT.name(),
    keys::SERVER_SCHEDULER.name(),
    keys::SERVER_SYS_CONTROLLER.name(),
    keys::SERVER_GATEWAY.name(),
    keys::SERVER_SHARE_TOPOLOGY.name(),
    keys::HWLOC_SHARE_TOPO.name(),
    keys::TOPOLOGY.name(),
    keys::TOPOLOGY2.name(),
    keys::TOPOLOGY_FILE.name(),
];

/// Gives each answer to one query to `take`, until that refuses one. `functions` are those behind its first key.
pub(super) fn answer<E>(
    functions: &[Text],
    qualifiers: &[Info],
    host: &HostAttributes,
    mut take: impl FnMut(Info) -> Result<(), E>,
) -> Result<(), E> {
    if functions.is_empty() {
        return merged(qualifiers).iter().filter_map(|question| by_level(question, host)).try_for_each(take);
    }
    let chosen: BTreeSet<Level> = qualifiers.iter().filter_map(|info| Some(Level::of(info.key.as_str())?.0)).collect();
    let is_chosen = |level: &Level| chosen.is_empty() || chosen.contains(level);
    let of_function = |function: &Text| {
        let function = function.to_str().ok()?;
        let levels = Level::ALL.into_iter().filter(is_chosen).filter_map(|level| {
            let attributes = level.attributes(function, host)?;
            Some(Info::new(Key::from_static(level.attributes_key()), described(&attributes)))
        });
        let levels: Vec<Info> = levels.collect();
        let key = Key::new(function.to_owned()).ok().filter(|_| !levels.is_empty())?;
        Some(Info::new(key, Value::info_array(levels)))
    };
    functions.iter().filter_map(of_function).try_for_each(&mut take)
}

/// Qualifiers of one level that ask for the same kind of answer.
struct Question<'a> {
    level: Level,
    is_list: bool,
    /// The functions that they name.
    wanted: BTreeSet<&'a str>,
}

/// The questions of qualifiers in the order of their first ones. So a repeated qualifier adds no answer.
fn merged(qualifiers: &[Info]) -> Vec<Question<'_>> {
    let mut questions: Vec<Question<'_>> = Vec::new();
    for qualifier in qualifiers {
        let Some((level, is_list)) = Level::of(qualifier.key.as_str()) else { continue };
        let names = qualifier.value.as_str().unwrap_or(ALL_FUNCTIONS).split(',').map(str::trim);
        match questions.iter_mut().find(|question| (question.level, question.is_list) == (level, is_list)) {
            Some(question) => question.wanted.extend(names),
            None => questions.push(Question { level, is_list, wanted: names.collect() }),
        }
    }
    questions
}

/// The answer to one question: a level's functions as a list in text, or the attributes of some of them.
fn by_level(question: &Question<'_>, host: &HostAttributes) -> Option<Info> {
    let Question { level, is_list, wanted } = question;
    let known = level.functions(host);
    let answer =
        |entries| Info::new(Key::from_static(keys::QUERY_ATTRIBUTE_SUPPORT.name()), Value::info_array(entries));
    if *is_list {
        let list = Info::new(Key::from_static(level.functions_key()), known.join(",").as_str());
        return Some(answer(vec![list]));
    }
    let is_all = wanted.iter().any(|name| name.eq_ignore_ascii_case(ALL_FUNCTIONS));
    let is_wanted = |function: &&&str| is_all || wanted.contains(**function);
    let of_function = |function: &str| {
        let attributes = level.attributes(function, host)?;
        Some(Info::new(Key::new(function.to_owned()).ok()?, described(&attributes)))
    };
    let entries: Vec<Info> = known.iter().filter(is_wanted).filter_map(|function| of_function(function)).collect();
    (!entries.is_empty()).then(|| answer(entries))
}

/// The function whose attributes are qualifiers of queries.
const QUERY_FUNCTION: &str = "PMIx_Query_info";

/// The function for control of jobs, and of files where the server stages them.
const CONTROL_FUNCTION: &str = "PMIx_Job_control";

/// The word for every function in the value of a qualifier.
const ALL_FUNCTIONS: &str = "all";

impl Level {
    const ALL: [Self; 4] = [Self::Client, Self::Server, Self::Tool, Self::Host];

    /// The level that a qualifier names, and whether it asks for the list of functions.
    fn of(key: &str) -> Option<(Self, bool)> {
        let level = |level: Self| match key {
            key if key == level.attributes_key() => Some((level, false)),
            key if key == level.functions_key() => Some((level, true)),
            _ => None,
        };
        Self::ALL.into_iter().find_map(level)
    }

    const fn attributes_key(self) -> &'static str {
        match self {
            Self::Client => keys::CLIENT_ATTRIBUTES.name(),
            Self::Server => keys::SERVER_ATTRIBUTES.name(),
            Self::Tool => keys::TOOL_ATTRIBUTES.name(),
            Self::Host => keys::HOST_ATTRIBUTES.name(),
        }
    }

    const fn functions_key(self) -> &'static str {
        match self {
            Self::Client => keys::CLIENT_FUNCTIONS.name(),
            Self::Server => keys::SERVER_FUNCTIONS.name(),
            Self::Tool => keys::TOOL_FUNCTIONS.name(),
            Self::Host => keys::HOST_FUNCTIONS.name(),
        }
    }

    /// The functions with attributes at this level.
    fn functions(self, host: &HostAttributes) -> Vec<&str> {
        match self {
            Self::Host => host.by_function.keys().map(String::as_str).collect(),
            _ => OF_LIBRARY.iter().filter(|(level, ..)| *level == self).map(|(_, function, _)| *function).collect(),
        }
    }

    fn attributes<'a>(self, function: &str, host: &'a HostAttributes) -> Option<Vec<&'a str>> {
        if self == Self::Host {
            return Some(host.by_function.get(function)?.iter().map(String::as_str).collect());
        }
        let row = OF_LIBRARY.iter().find(|(level, name, _)| *level == self && *name == function);
        let of_storage: Vec<&str> = match function {
            _ if self != Self::Server => Vec::new(),
            QUERY_FUNCTION if host.has_storage => storage::qualifiers().collect(),
            CONTROL_FUNCTION if host.stages_files => storage::directives().collect(),
            _ => Vec::new(),
        };
        row.map(|(.., lists)| lists.concat().into_iter().chain(of_storage).collect())
    }
}

/// Descriptions of attributes, as an array.
fn described(attributes: &[&str]) -> Value {
    let elements = attributes.iter().map(|attribute| Value::Regattr(Box::new(description(attribute)))).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Regattr, elements }))
}

/// An attribute, found by its macro's name or its key string, with the data of our table.
fn description(attribute: &str) -> Regattr {
    let known = keys::by_macro(attribute).or_else(|| keys::by_name(attribute));
    let data_type = known.map_or(DataType::Undefined, |known| known.value_type.data_type());
    Regattr {
        name: Some(Text::from(known.map_or(attribute, |known| known.macro_name))),
        key: Text::from(known.map_or(attribute, |known| known.name)),
        data_type: data_type.to_raw(),
        // OpenPMIx's `pattrs` crashes at an attribute without a description.
        description: lines_of(known.map_or("no key of the standard", |known| known.meaning)),
    }
}

/// The lines of a description.
fn lines_of(text: &str) -> Vec<Text> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= LINE_BYTES_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| Text::from(line.as_str())).collect()
}

/// The column of descriptions in `pattrs`. Up to 6.1 a longer line makes it crash.
const LINE_BYTES_MAX: usize = 54;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn host() -> HostAttributes {
        let by_function = [("PMIx_Publish".to_owned(), vec!["PMIX_TIMEOUT".to_owned(), "host.own".to_owned()])].into();
        HostAttributes { by_function, has_storage: false, stages_files: false }
    }

    fn qualifier(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn answers(functions: &[Text], qualifiers: &[Info], host: &HostAttributes) -> Vec<Info> {
        let mut found = Vec::new();
        let all: Result<(), ()> = answer(functions, qualifiers, host, |info| {
            found.push(info);
            Ok(())
        });
        all.unwrap();
        found
    }

    fn names(infos: &[Info]) -> Vec<&str> {
        infos.iter().map(|info| info.key.as_str()).collect()
    }

    fn entries(info: &Info) -> Vec<Info> {
        let Value::DataArray(array) = &info.value else { panic!("{info:?}") };
        let entry = |value: &Value| match value {
            Value::Info(info) => (**info).clone(),
            other => panic!("{other:?}"),
        };
        array.elements.iter().map(entry).collect()
    }

    #[test]
    fn functions_behind_the_key_are_answered_by_level() {
        let [publish, get] = ["PMIx_Publish", "PMIx_Get"].map(Text::from);
        let found = answers(&[publish.clone(), Text::from("none"), get.clone()], &[], &host());
        assert_eq!(names(&found), ["PMIx_Publish", "PMIx_Get"]);
        assert_eq!(
            entries(&found[0]),
            [Info::new(Key::from_static(keys::HOST_ATTRIBUTES.name()), described(&["pmix.timeout", "host.own"]))]
        );
        assert_eq!(names(&entries(&found[1])), [keys::CLIENT_ATTRIBUTES.name(), keys::SERVER_ATTRIBUTES.name()]);
        let found = answers(&[publish, get], &[qualifier(keys::CLIENT_ATTRIBUTES.name(), true)], &host());
        assert_eq!(names(&found), ["PMIx_Get"]);
        assert_eq!(names(&entries(&found[0])), [keys::CLIENT_ATTRIBUTES.name()]);
    }

    #[test]
    fn functions_in_a_qualifier_are_answered_by_function() {
        for (level, function, key) in [
            (Level::Server, "PMIx_Group_construct", keys::GROUP_FT_COLLECTIVE.name()),
            (Level::Client, "PMIx_Group_invite", keys::GROUP_ASSIGN_CONTEXT_ID.name()),
        ] {
            assert!(level.attributes(function, &host()).unwrap().contains(&key), "{function}");
        }
        let one = [qualifier(keys::SERVER_ATTRIBUTES.name(), "PMIx_Fence, PMIx_Get")];
        let found = answers(&[], &one, &host());
        assert_eq!(
            (names(&found), names(&entries(&found[0]))),
            (vec![keys::QUERY_ATTRIBUTE_SUPPORT.name()], vec!["PMIx_Fence", "PMIx_Get"])
        );
        // `pattrs` accepts no other key than that of the query, and reads a list in an array.
        let all = [qualifier(keys::HOST_ATTRIBUTES.name(), "ALL"), qualifier(keys::HOST_FUNCTIONS.name(), true)];
        let found = answers(&[], &all, &host());
        assert_eq!(names(&entries(&found[0])), ["PMIx_Publish"]);
        assert_eq!(names(&found), [keys::QUERY_ATTRIBUTE_SUPPORT.name(); 2]);
        assert_eq!(entries(&found[1]), [qualifier(keys::HOST_FUNCTIONS.name(), "PMIx_Publish")]);
        assert_eq!(answers(&[], &[qualifier(keys::TOOL_ATTRIBUTES.name(), "PMIx_Get")], &host()), []);
        assert_eq!(answers(&[], &[], &host()), []);
    }

    #[test]
    fn qualifiers_of_storage_are_those_of_a_server_with_storage() {
        let is_known = |function, key| {
            [(false, false), (true, false), (true, true)].map(|(has_storage, stages_files)| {
                let host = HostAttributes { has_storage, stages_files, ..host() };
                Level::Server.attributes(function, &host).unwrap().contains(&key)
            })
        };
        assert_eq!(is_known("PMIx_Query_info", keys::STORAGE_ID.name()), [false, true, true]);
        assert_eq!(is_known("PMIx_Job_control", "modex.storage.stage"), [false, false, true]);
    }

    #[test]
    fn an_attribute_is_described_from_the_table_of_the_standard() {
        let [known, unknown] = ["pmix.timeout", "host.own"].map(description);
        assert_eq!((known.data_type, unknown.data_type), (DataType::Int.to_raw(), 0));
        assert_eq!((known.name, unknown.name), (Some(Text::from("PMIX_TIMEOUT")), Some(Text::from("host.own"))));
    }

    /// Regression: `pattrs --host` crashed at a long line, and at an attribute without a description.
    #[test]
    fn each_description_has_lines_for_the_column_of_pattrs() {
        let known = OF_LIBRARY.iter().flat_map(|(.., lists)| lists.concat());
        for attribute in known.chain(["host.own"]).chain(keys::attributes().map(|known| known.name)) {
            let lines: Vec<usize> =
                description(attribute).description.iter().map(|line| line.as_bytes().len()).collect();
            assert!(!lines.is_empty() && lines.iter().all(|bytes| (1..=LINE_BYTES_MAX).contains(bytes)), "{attribute}");
        }
    }

    fn sources(folder: &Path, text: &mut String) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_other = !path.ends_with(file!().rsplit('/').next().unwrap()) && !path.ends_with("src/keys");
            if path.is_dir() && is_other {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") && is_other {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }

    /// An attribute that nothing but this table names can't be honoured.
    #[test]
    fn every_attribute_is_named_by_the_code_that_honours_it() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut text = String::new();
        for folder in ["src", "libpmix/src"] {
            sources(&root.join(folder), &mut text);
        }
        let words: BTreeSet<&str> =
            text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_').collect();
        for (_, function, lists) in OF_LIBRARY {
            // The names of levels are honoured by this file itself.
            for attribute in lists.iter().copied().flatten().filter(|attribute| Level::of(attribute).is_none()) {
                // Infos of this library are constants of the code.
                let Some(row) = keys::by_name(attribute) else { continue };
                let name = row.macro_name.strip_prefix("PMIX_").unwrap();
                assert!(words.contains(name), "{function}: {name}");
            }
        }
    }
}
