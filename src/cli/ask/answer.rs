//! What is printed.

use std::io::{self, Write};

use serde_json::{Value as Json, json};

use crate::cli::inspect::{printable, to_json};
use crate::types::{Info, Value};

/// Version of the JSON documents.
pub(super) const FORMAT: u32 = 1;

/// A value for people: text as it is, whatever is made of parts as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match to_json(value) {
        Json::String(text) => printable(&text),
        other => printable(&other.to_string()),
    }
}

/// A named value for programs.
pub(super) fn json_of(info: &Info) -> Json {
    json!({ "key": info.key.as_str(), "type": info.value.data_type().name(), "value": to_json(&info.value) })
}

/// One line for each named value.
pub(super) fn lines(infos: &[Info]) -> String {
    infos.iter().map(|info| format!("{}: {}\n", printable(info.key.as_str()), text_of(&info.value))).collect()
}

/// Writes to standard output. That nobody reads on is no error.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
