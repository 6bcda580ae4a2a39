//! `modex attrs`: the attributes that client, server, tool and host support, for each function.

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use modex::keys;
use modex::stderr_log::printable;
use modex::types::{AsStatus, DataType, Info, Key, Query, Regattr, Status, Text, Value};
use serde::Serialize;
use serde_json::json;

use super::answer::FORMAT;
use super::target::{ANSWER_TIME, Target, answer_within};
use crate::Outcome;
use crate::printing::{complain, escaped_json, print};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct AttrsOptions {
    #[command(flatten)]
    target: Target,
    /// Functions such as PMIx_Spawn; without them all
    #[arg(value_name = "FUNCTION")]
    functions: Vec<String>,
    /// Only attributes that these honour, such as client,host
    #[arg(short, long = "level", value_name = "LEVEL", value_delimiter = ',')]
    levels: Vec<Level>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A party that honours attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// The library, in clients
    Client,
    /// The library, in the server
    Server,
    /// The library, in tools
    Tool,
    /// The host
    Host,
}

const HELP: &str = help!(
    "\
Examples:
  modex attrs
  modex attrs PMIx_Spawn PMIx_Job_control
  modex attrs --level host --pid 4711
  modex attrs --json | jq -r '.attributes[].name'

A row has the function, the level that honours the attribute, its name, the type of its value, and its
meaning. The server answers. `modex run` does, and so do servers of C programs.

JSON document (--json): format (1), and attributes[] of function, level, name, key, type (null if it is not
known) and meaning.

Exit status:
  0  There are attributes
  1  There are none, or the server can't be asked or does not tell
  2  The command line makes no sense"
);

/// An attribute that a level of a function supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    function: String,
    level: Level,
    name: String,
    key: String,
    #[serde(rename = "type")]
    data_type: Option<&'static str>,
    meaning: String,
}

pub(crate) fn run(options: &AttrsOptions) -> Outcome {
    let functions = if options.functions.is_empty() { ALL.to_owned() } else { options.functions.join(",") };
    let is_wanted = |level: &Level| options.levels.is_empty() || options.levels.contains(level);
    let tool = options.target.connect(None, Some(ANSWER_TIME))?;
    let mut rows: Vec<Row> = Vec::new();
    // An answer does not tell its level, so each level is a question of its own.
    for level in Level::value_variants().iter().copied().filter(is_wanted) {
        let qualifiers = vec![Info::new(Key::from_static(level.key()), functions.as_str())];
        let keys = vec![Text::from(keys::QUERY_ATTRIBUTE_SUPPORT.name())];
        match answer_within(ANSWER_TIME, tool.client()?.query(vec![Query { keys, qualifiers }]))? {
            Ok(answered) => rows.extend(answered.results.iter().flat_map(|info| rows_of(level, info))),
            Err(error) if [Status::ERR_NOT_FOUND, Status::ERR_NOT_SUPPORTED].contains(&error.status()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The end of the connection has the same effect.
    let _ = tool.finalize();
    if options.json {
        print(&escaped_json(&format!("{:#}\n", json!({ "format": FORMAT, "attributes": rows }))))?;
    } else if !rows.is_empty() {
        print(&table(&rows))?;
    }
    if rows.is_empty() {
        complain("the server names no such attributes");
    }
    Ok(u8::from(rows.is_empty()))
}

/// The word for all functions.
const ALL: &str = "all";

/// The rows of one answer to a question about a level. It has functions under the key of the query, or of the level for
/// servers of earlier releases. Or it is about a function and has levels.
fn rows_of(asked: Level, info: &Info) -> Vec<Row> {
    let mut rows = Vec::new();
    let is_of_level = info.key.as_str() == keys::QUERY_ATTRIBUTE_SUPPORT.name() || Level::of(&info.key) == Some(asked);
    for inner in infos(&info.value) {
        let (level, function) = match Level::of(&inner.key) {
            _ if is_of_level => (asked, &inner.key),
            Some(level) if level == asked => (level, &info.key),
            _ => continue,
        };
        rows.extend(elements(&inner.value).iter().filter_map(|value| match value {
            Value::Regattr(attribute) => Some(row(function, level, attribute)),
            _ => None,
        }));
    }
    rows
}

impl Level {
    /// The level that a key of an answer means.
    fn of(key: &Key) -> Option<Self> {
        Self::value_variants().iter().find(|level| level.key() == key.as_str()).copied()
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Client => keys::CLIENT_ATTRIBUTES.name(),
            Self::Server => keys::SERVER_ATTRIBUTES.name(),
            Self::Tool => keys::TOOL_ATTRIBUTES.name(),
            Self::Host => keys::HOST_ATTRIBUTES.name(),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Host => "host",
        }
    }
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::DataArray(array) => &array.elements,
        _ => &[],
    }
}

fn infos(value: &Value) -> impl Iterator<Item = &Info> {
    elements(value).iter().filter_map(|value| match value {
        Value::Info(info) => Some(&**info),
        _ => None,
    })
}

fn row(function: &Key, level: Level, attribute: &Regattr) -> Row {
    let meaning: Vec<_> = attribute.description.iter().map(Text::to_string_lossy).collect();
    let data_type = DataType::from_raw(attribute.data_type).filter(|kind| *kind != DataType::Undefined);
    Row {
        function: function.as_str().to_owned(),
        level,
        name: attribute.name.as_ref().unwrap_or(&attribute.key).to_string_lossy(),
        key: attribute.key.to_string_lossy(),
        data_type: data_type.map(DataType::name),
        meaning: meaning.join(" "),
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    table.set_header(["function", "level", "attribute", "type", "meaning"]);
    table.add_rows(rows.iter().map(|row| {
        let texts = [&row.function, row.level.name(), &row.name, row.data_type.unwrap_or("-"), &row.meaning];
        texts.map(printable)
    }));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use modex::types::DataArray;

    use super::*;

    fn info(key: &'static str, value: Value) -> Info {
        Info::new(Key::from_static(key), value)
    }

    #[test]
    fn answers_by_level_and_by_function_mean_the_same() {
        let attribute = Regattr {
            name: Some(Text::from("PMIX_HOST")),
            key: Text::from("pmix.host"),
            data_type: DataType::String.to_raw(),
            description: vec![Text::from("names")],
        };
        let elements = vec![Value::Regattr(Box::new(attribute)), Value::Undefined];
        let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Regattr, elements }));
        let (level, function) = (keys::HOST_ATTRIBUTES.name(), "PMIx_Spawn");
        let by_level = info(level, Value::info_array(vec![info(function, array.clone())]));
        let by_query = info(keys::QUERY_ATTRIBUTE_SUPPORT.name(), by_level.value.clone());
        let by_function = info(function, Value::info_array(vec![info(level, array.clone())]));
        let expected = [Row {
            function: function.to_owned(),
            level: Level::Host,
            name: "PMIX_HOST".to_owned(),
            key: "pmix.host".to_owned(),
            data_type: Some("PMIX_STRING"),
            meaning: "names".to_owned(),
        }];
        let rows_of = |info: &Info| rows_of(Level::Host, info);
        assert_eq!(rows_of(&by_query), expected);
        assert_eq!(rows_of(&by_level), expected);
        assert_eq!(rows_of(&by_function), expected);
        // Regression: an answer with all levels gave each row once for each level that was asked.
        let of_server = info(function, Value::info_array(vec![info(keys::SERVER_ATTRIBUTES.name(), array.clone())]));
        assert_eq!(rows_of(&of_server), []);
        assert_eq!(rows_of(&info("a", Value::info_array(vec![info("b", array)]))), []);
        assert_eq!(rows_of(&info(level, Value::from("text"))), []);
    }
}
