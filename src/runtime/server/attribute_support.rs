//! Answers to `PMIX_QUERY_ATTRIBUTE_SUPPORT`: the attributes that client, server, tool and host honour, for each
//! function.
//!
//! There are two forms of the question. The standard's lists functions behind the first key, and its qualifiers choose
//! levels. OpenPMIx and its tool `pattrs` list functions in the value of each qualifier, where `all` means every
//! function. They expect one answer for each qualifier. Its key is that of the query, and its value is an array.
//!
//! Source: PMIx Standard, "Querying Attribute Support".

use std::collections::{BTreeMap, BTreeSet};

use super::understood::{Level, OF_LIBRARY, OF_SERVICES, ServerService};
use crate::keys;
use crate::types::{DataArray, DataType, Info, Key, Regattr, Text, Value};

/// The attributes that a host has registered, and the services of its server.
#[derive(Debug, Default)]
pub(super) struct HostAttributes {
    pub(super) by_function: BTreeMap<String, Vec<String>>,
    pub(super) services: BTreeSet<ServerService>,
}

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

/// The word for every function in the value of a qualifier.
const ALL_FUNCTIONS: &str = "all";

impl Level {
    /// The functions with attributes at this level.
    fn functions(self, host: &HostAttributes) -> Vec<&str> {
        let of_library = OF_LIBRARY.iter().filter(|(level, ..)| *level == self).map(|(_, function, _)| *function);
        let of_host = host.by_function.keys().map(String::as_str);
        match self {
            Self::Host => {
                of_host.chain(host.rows().map(|(function, _)| function)).collect::<BTreeSet<_>>().into_iter().collect()
            }
            _ => of_library.collect(),
        }
    }

    fn attributes<'a>(self, function: &str, host: &'a HostAttributes) -> Option<Vec<&'a str>> {
        let known: Vec<&str> = if self == Self::Host {
            let of_services = host.rows().filter(|(name, _)| *name == function).flat_map(|(_, lists)| lists.concat());
            let registered = host.by_function.get(function).into_iter().flatten().map(String::as_str);
            let mut seen = BTreeSet::new();
            registered.chain(of_services).filter(|attribute| seen.insert(key_of(attribute))).collect()
        } else {
            let rows = OF_LIBRARY.iter().filter(|(level, name, _)| *level == self && *name == function);
            rows.flat_map(|(.., lists)| lists.concat()).collect()
        };
        (!known.is_empty()).then_some(known)
    }
}

impl HostAttributes {
    /// Functions that the server offers in the place of its host, with their lists.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &'static [&'static [&'static str]])> {
        let is_on = |(service, ..): &&(ServerService, &str, &[&[&str]])| self.services.contains(service);
        OF_SERVICES.iter().filter(is_on).map(|(_, function, lists)| (*function, *lists))
    }
}

/// The key of an attribute that its macro or its key names.
pub(super) fn key_of(attribute: &str) -> &str {
    keys::by_macro(attribute).map_or(attribute, |row| row.name)
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
    use super::*;

    fn host() -> HostAttributes {
        let by_function = [("PMIx_Abort".to_owned(), vec!["PMIX_TIMEOUT".to_owned(), "host.own".to_owned()])].into();
        HostAttributes { by_function, ..HostAttributes::default() }
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
        let [publish, get] = ["PMIx_Abort", "PMIx_Get"].map(Text::from);
        let found = answers(&[publish.clone(), Text::from("none"), get.clone()], &[], &host());
        assert_eq!(names(&found), ["PMIx_Abort", "PMIx_Get"]);
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
        assert_eq!(names(&entries(&found[0])), ["PMIx_Abort"]);
        assert_eq!(names(&found), [keys::QUERY_ATTRIBUTE_SUPPORT.name(); 2]);
        assert_eq!(entries(&found[1]), [qualifier(keys::HOST_FUNCTIONS.name(), "PMIx_Abort")]);
        assert_eq!(answers(&[], &[qualifier(keys::TOOL_ATTRIBUTES.name(), "PMIx_Get")], &host()), []);
        assert_eq!(answers(&[], &[], &host()), []);
    }

    #[test]
    fn a_service_of_the_server_is_the_hosts() {
        let is_known = |services: &[ServerService], function, key| {
            let host = HostAttributes { services: services.iter().copied().collect(), ..host() };
            let listed = Level::Host.functions(&host).contains(&function);
            listed && Level::Host.attributes(function, &host).unwrap().contains(&key)
        };
        let (storage, query) = ([ServerService::Storage], "PMIx_Query_info");
        let id = keys::STORAGE_ID.name();
        assert_eq!([&storage[..], &[ServerService::FileStaging]].map(|on| is_known(on, query, id)), [true, false]);
        assert!(is_known(&[ServerService::FileStaging], "PMIx_Job_control", "modex.storage.stage"));
        // The host's own registration stays.
        let registered = vec!["PMIX_TIMEOUT".to_owned(), "host.own".to_owned()];
        let by_function = [("PMIx_Publish".to_owned(), registered)].into();
        let names = HostAttributes { services: [ServerService::Names].into(), by_function };
        let known = Level::Host.attributes("PMIx_Publish", &names).unwrap();
        assert!(known.contains(&"host.own") && known.contains(&keys::PERSISTENCE.name()), "{known:?}");
        assert_eq!(known.iter().filter(|name| key_of(name) == keys::TIMEOUT.name()).count(), 1);
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
        let of_services = OF_SERVICES.iter().flat_map(|(.., lists)| lists.concat());
        let known = OF_LIBRARY.iter().flat_map(|(.., lists)| lists.concat()).chain(of_services);
        for attribute in known.chain(["host.own"]).chain(keys::attributes().map(|known| known.name)) {
            let lines: Vec<usize> =
                description(attribute).description.iter().map(|line| line.as_bytes().len()).collect();
            assert!(!lines.is_empty() && lines.iter().all(|bytes| (1..=LINE_BYTES_MAX).contains(bytes)), "{attribute}");
        }
    }
}
