//! An event as a line for people, and as JSON.

use std::time::Duration;

use modex::keys;
use modex::stderr_log::printable;
use modex::types::{Info, ProcId, Status, Value};
use serde_json::{Value as Json, json};

use crate::ask::answer::{self, FORMAT};
use crate::inspect::to_json;
use crate::printing::escaped_json;
use crate::ps::state_in_words;
use crate::universal_time::universal_time;

/// An event as it was delivered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Time of the delivery since 1970.
    pub(super) time: Duration,
    pub(super) status: Status,
    pub(super) source: Option<ProcId>,
    pub(super) infos: Vec<Info>,
}

/// Processes of an event that a line names.
const AFFECTED_SHOWN_MAX: usize = 8;

impl Report {
    /// The processes that the event is about.
    pub(super) fn affected(&self) -> Vec<&ProcId> {
        self.infos.iter().filter(|info| is_about(info)).flat_map(processes).collect()
    }

    /// A line without its end.
    pub(super) fn line(&self) -> String {
        let mut words = vec![universal_time(self.time), self.status.to_string()];
        words.extend(self.source.as_ref().map(|source| format!("source={source}")));
        let affected = self.affected();
        let shown: Vec<String> = affected.iter().take(AFFECTED_SHOWN_MAX).map(ToString::to_string).collect();
        if !shown.is_empty() {
            let more = if affected.len() > shown.len() { ",..." } else { "" };
            words.push(format!("affected={}{more}", shown.join(",")));
        }
        let others = self.infos.iter().filter(|info| !is_about(info));
        words.extend(others.map(|info| format!("{}={}", info.key.as_str(), in_words(&info.value))));
        printable(&words.join(" "))
    }

    /// An object in one line.
    pub(super) fn json(&self) -> String {
        let proc = |proc: &ProcId| to_json(&Value::from(proc.clone()));
        let affected: Vec<Json> = self.affected().into_iter().map(proc).collect();
        let others = self.infos.iter().filter(|info| !is_about(info));
        let document = json!({
            "format": FORMAT,
            "time": universal_time(self.time),
            "status": self.status.name(),
            "code": self.status.to_raw(),
            "source": self.source.as_ref().map(proc),
            "affected": affected,
            "info": others.map(answer::json_of).collect::<Vec<_>>(),
        });
        escaped_json(&document.to_string())
    }
}

fn is_about(info: &Info) -> bool {
    [keys::EVENT_AFFECTED_PROC.name(), keys::EVENT_AFFECTED_PROCS.name()].contains(&info.key.as_str())
}

fn processes(info: &Info) -> Vec<&ProcId> {
    let elements = match &info.value {
        Value::DataArray(array) => array.elements.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut processes = Vec::new();
    for value in elements {
        if let Value::Proc(proc) = value {
            processes.push(&**proc);
        }
    }
    processes
}

/// A value as one word, in quotes if it has a space.
fn in_words(value: &Value) -> String {
    let text = match value {
        Value::Status(code) => Status::from_raw(*code).name().map_or_else(|| code.to_string(), str::to_owned),
        Value::ProcState(state) => state_in_words(*state).to_owned(),
        Value::Proc(proc) => proc.to_string(),
        other => answer::text_of(other),
    };
    let is_one_word = !text.is_empty() && !text.contains([' ', '"', '=']);
    if is_one_word { text } else { format!("\"{}\"", text.replace('"', "\\\"")) }
}

#[cfg(test)]
mod tests {
    use modex::types::{Key, Namespace};

    use super::*;

    fn report() -> Report {
        let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
        let proc = |rank| ProcId::new(Namespace::new("job").unwrap(), rank);
        let infos = vec![
            info(keys::EVENT_AFFECTED_PROC.name(), proc(1).into()),
            info(keys::PROC_TERM_STATUS.name(), Value::Status(-402)),
            info(keys::PROC_STATE_STATUS.name(), Value::ProcState(54)),
            info(keys::EVENT_TEXT_MESSAGE.name(), "was \"killed\"\u{1b}\u{9b}\u{202e}".into()),
        ];
        Report {
            time: Duration::from_millis(1500),
            status: Status::EVENT_PROC_TERMINATED,
            source: Some(proc(0)),
            infos,
        }
    }

    #[test]
    fn a_line_has_words_and_no_control_characters() {
        assert_eq!(
            report().line(),
            "1970-01-01T00:00:01.500000Z PMIX_EVENT_PROC_TERMINATED (-201) source=job:0 affected=job:1 \
             pmix.proc.term.status=PMIX_ERR_PROC_ABORTED_BY_SIG pmix.proc.state=\"killed by signal\" \
             pmix.evtext=\"was \\\"killed\\\"\\u{1b}\\u{9b}\\u{202e}\""
        );
    }

    #[test]
    fn json_is_one_line_with_types() {
        let text = report().json();
        let document: Json = serde_json::from_str(&text).unwrap();
        assert!(!text.contains(['\n', '\u{9b}', '\u{202e}']), "{text}");
        assert_eq!(document["status"], "PMIX_EVENT_PROC_TERMINATED");
        assert_eq!((&document["code"], &document["affected"][0]["rank"]), (&json!(-201), &json!(1)));
        assert_eq!(document["info"][0]["type"], "PMIX_STATUS");
        let unknown = Report { status: Status::from_raw(4711), source: None, ..report() };
        let document: Json = serde_json::from_str(&unknown.json()).unwrap();
        assert_eq!((&document["status"], &document["source"]), (&Json::Null, &Json::Null));
    }
}
