//! The log of the command on standard error: lines for people, or JSON for programs.
//!
//! - Without a wish of the user, a line is a message: `modex: warning: ...`.
//! - A user who sets `MODEX_LOG` asks for a log. Its lines have time and level: `modex: 2026-10-07T10:34:56.789012Z info: ...`.
//! - `MODEX_LOG_FORMAT=json` makes each line an object, in the form of `tracing-subscriber`.
//!
//! The rules of [`modex::stderr_log`] hold for all of them: no line holds up or ends the command, and a peer's text
//! can't steer a terminal.

use std::ffi::OsStr;
use std::io;

use modex::runtime::{tell_of_parameters, verbose_areas};
use modex::stderr_log::{LINE_BYTES_MAX, Levels, Lines, text_of, text_of_unsaid};
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::printing::escaped_json;

/// The variable with the form of the lines: `text` or `json`.
pub(super) const FORMAT_VARIABLE: &str = "MODEX_LOG_FORMAT";

/// Shows events from now on. `wanted` and `format` are the values of [`modex::stderr_log::VARIABLE`] and
/// [`FORMAT_VARIABLE`].
pub(super) fn install(wanted: Option<&OsStr>, format: Option<&OsStr>) {
    let [wanted, format] = [wanted, format].map(|text| text.filter(|text| !text.is_empty()));
    let levels = Levels::of(wanted, LevelFilter::WARN).with_verbose(&verbose_areas());
    let known_format = format.map(LogFormat::of);
    let lines = Lines::on_stderr(!levels.is_wish());
    let complaints = levels.complaints();
    let has_time = wanted.is_some() || levels.is_wish();
    if !subscribe(known_format.flatten(), has_time, levels, lines) {
        return;
    }
    for complaint in complaints {
        tracing::error!("{complaint}");
    }
    tell_of_parameters();
    if let (Some(format), Some(None)) = (format, known_format) {
        tracing::error!("{FORMAT_VARIABLE} is {format:?}; say \"text\" or \"json\"");
    }
}

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl LogFormat {
    fn of(text: &OsStr) -> Option<Self> {
        let formats = [("text", Self::Text), ("json", Self::Json)];
        formats.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, format)| format)
    }
}

/// Makes it the subscriber of the process. Returns whether there was none before.
fn subscribe<W>(format: Option<LogFormat>, has_time: bool, levels: Levels, lines: Lines<W>) -> bool
where
    W: Fn(&str) -> bool + Send + Sync + 'static,
{
    let global = tracing::subscriber::set_global_default::<Box<dyn Subscriber + Send + Sync>>;
    global(subscriber(format, has_time, levels, lines)).is_ok()
}

fn subscriber<W>(
    format: Option<LogFormat>,
    has_time: bool,
    levels: Levels,
    lines: Lines<W>,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: Fn(&str) -> bool + Send + Sync + 'static,
{
    match format {
        Some(LogFormat::Json) => {
            // The crate reports a failed write with a macro that panics without a standard error.
            let builder = tracing_subscriber::fmt().with_max_level(levels.most()).log_internal_errors(false);
            Box::new(builder.json().with_writer(JsonLog(lines)).finish().with(Shown(levels)))
        }
        Some(LogFormat::Text) | None => {
            Box::new(tracing_subscriber::registry().with(Shown(levels)).with(TextLog { has_time, lines }))
        }
    }
}

/// The filter of all forms.
struct Shown(Levels);

impl<S: Subscriber> Layer<S> for Shown {
    /// `tracing` keeps the answer for each place of an event.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.enables(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.enables(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.most())
    }
}

/// Lines for people. A line that is dropped costs no words.
struct TextLog<W> {
    has_time: bool,
    lines: Lines<W>,
}

impl<S: Subscriber, W: Fn(&str) -> bool + 'static> Layer<S> for TextLog<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.lines.put(|unsaid| match unsaid {
            0 => self.line(event),
            _ => format!("modex: {}\n{}", text_of_unsaid(unsaid), self.line(event)),
        });
    }
}

impl<W> TextLog<W> {
    fn line(&self, event: &Event<'_>) -> String {
        let text = text_of(event);
        if !self.has_time {
            return format!("modex: {text}\n");
        }
        let level = match *event.metadata().level() {
            Level::INFO => "info: ",
            Level::DEBUG => "debug: ",
            _ => "",
        };
        format!("modex: {} {level}{text}\n", time())
    }
}

/// The time of a line.
fn time() -> String {
    let mut time = String::new();
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

/// Objects of JSON.
struct JsonLog<W>(Lines<W>);

/// The end of the log that takes whole lines.
struct LineEnd<'a, W>(&'a Lines<W>);

impl<W: Fn(&str) -> bool> io::Write for LineEnd<'_, W> {
    /// The formatter writes each line at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(|unsaid| {
            let line = fitted(&String::from_utf8_lossy(line));
            if unsaid == 0 {
                return line;
            }
            let fields = json!({ "message": text_of_unsaid(unsaid), "count": unsaid });
            let dropped = json!({ "timestamp": time(), "level": "WARN", "fields": fields, "target": "modex" });
            format!("{dropped}\n{line}")
        });
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a, W: Fn(&str) -> bool + 'a> MakeWriter<'a> for JsonLog<W> {
    type Writer = LineEnd<'a, W>;

    fn make_writer(&'a self) -> LineEnd<'a, W> {
        LineEnd(&self.0)
    }
}

/// The line as it is written: escaped, and shortened if it is too long then.
fn fitted(line: &str) -> String {
    let shown = escaped(line);
    if shown.len() > JSON_BYTES_MAX { escaped(&shortened(line)) } else { shown }
}

/// The same object in one line that steers no terminal.
fn escaped(line: &str) -> String {
    escaped_json(line.trim_end_matches('\n')) + "\n"
}

/// The object of a long line with the beginning of each text. If that is too long, it has its message alone.
fn shortened(line: &str) -> String {
    let Ok(mut object) = serde_json::from_str::<Value>(line) else { return String::new() };
    if let Some(Value::Object(fields)) = object.get_mut("fields") {
        for value in fields.values_mut() {
            if let Value::String(text) = value
                && let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX)
            {
                text.truncate(end);
                text.push_str("...");
            }
        }
        if escaped(&Value::Object(fields.clone()).to_string()).len() > JSON_BYTES_MAX - FRAME_BYTES_MAX {
            fields.retain(|name, _| name == "message");
        }
    }
    object.to_string()
}

/// Longest object. The rest of the bytes that a pipe takes at once is for the line about dropped lines.
const JSON_BYTES_MAX: usize = LINE_BYTES_MAX - 256;
/// Room for time, level and target of an object.
const FRAME_BYTES_MAX: usize = 256;
/// Characters of a text in a shortened object. Escaped, each has at most six bytes.
const TEXT_CHARS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    type Written = Arc<Mutex<Vec<String>>>;

    fn written(format: LogFormat, has_time: bool, log: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let copy = Arc::clone(&written);
        let write = move |line: &str| {
            let mut lines = copy.lock().unwrap();
            let is_lost = lines.is_empty() && line.contains("lost");
            if !is_lost {
                lines.push(line.to_owned());
            }
            !is_lost
        };
        let subscriber =
            subscriber(Some(format), has_time, Levels::of(None, LevelFilter::INFO), Lines::new(false, write));
        tracing::subscriber::with_default(subscriber, log);
        let lines = written.lock().unwrap();
        lines.clone()
    }

    fn events() {
        tracing::warn!(peer = 4, refusal = "not registered", "connection refused");
        tracing::info!(count = 2, "namespace registered");
        tracing::debug!("not shown");
    }

    #[test]
    fn a_message_has_no_time() {
        let lines = written(LogFormat::Text, false, events);
        let expected = [
            "modex: warning: connection refused: not registered (peer 4)\n",
            "modex: namespace registered (count 2)\n",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_line_of_the_log_has_time_and_level() {
        let lines = written(LogFormat::Text, true, events);
        let rests: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once('Z')?.1)).collect();
        let expected =
            [" warning: connection refused: not registered (peer 4)\n", " info: namespace registered (count 2)\n"];
        assert_eq!(rests, expected);
        assert!(lines.iter().all(|line| line.starts_with("modex: 2")), "{lines:?}");
    }

    #[test]
    fn an_object_has_time_level_and_fields() {
        let lines = written(LogFormat::Json, true, events);
        let [warning, info]: [Value; 2] = [0, 1].map(|at| serde_json::from_str(&lines[at]).unwrap());
        assert_eq!((&warning["level"], &warning["fields"]["peer"]), (&json!("WARN"), &json!(4)));
        assert_eq!(warning["fields"]["refusal"], "not registered");
        assert_eq!((&info["level"], &info["fields"]["message"]), (&json!("INFO"), &json!("namespace registered")));
        assert!(info["timestamp"].as_str().unwrap().ends_with('Z') && info["target"].is_string(), "{info}");
    }

    #[test]
    fn lost_lines_are_counted_in_each_form() {
        for (format, words) in [(LogFormat::Text, "modex: (2 messages before"), (LogFormat::Json, "\"count\":2")] {
            let log = || ["lost", "lost", "kept"].iter().for_each(|text| tracing::warn!("{text}"));
            let lines = written(format, false, log);
            assert!(lines.len() == 1 && lines[0].lines().count() == 2, "{lines:?}");
            let first = lines[0].lines().next().unwrap();
            assert!(first.contains(words), "{lines:?}");
            let has_time = serde_json::from_str(first).is_ok_and(|object: Value| object["timestamp"].is_string());
            assert_eq!(has_time, format == LogFormat::Json, "{lines:?}");
        }
    }

    /// A peer chooses the text of some fields.
    #[test]
    fn foreign_text_stays_one_short_line_that_steers_no_terminal() {
        let foreign = "\u{202e}\u{9b}2J\n\u{1b}[2J".repeat(1000);
        let log = || {
            tracing::warn!(error = %foreign, name = %foreign, "refused");
            tracing::warn!(error = %"\u{9b}2J\n", "refused");
        };
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = written(format, true, log);
            for line in &lines {
                assert!(line.len() <= LINE_BYTES_MAX && line.ends_with('\n'), "{}: {line}", line.len());
                let text = line.trim_end_matches('\n');
                assert!(!text.chars().any(|c| c.is_control() || modex::stderr_log::is_format(c)), "{line:?}");
            }
            if format == LogFormat::Json {
                let all: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
                assert_eq!(
                    (&all[0]["fields"]["message"], all[1]["fields"]["error"].as_str()),
                    (&json!("refused"), Some("\u{9b}2J\n"))
                );
            }
        }
    }

    /// Some characters are longer when they are escaped, and the line was cut within a text.
    #[test]
    fn a_text_of_any_length_leaves_an_object() {
        for foreign in ["\u{7f}", "\u{9b}", "x"] {
            let log =
                || (500..4000).step_by(50).for_each(|count| tracing::warn!(error = %foreign.repeat(count), "refused"));
            let lines = written(LogFormat::Json, true, log);
            assert_eq!(lines.len(), 70);
            for line in lines {
                let object = serde_json::from_str::<Value>(&line);
                assert!(
                    line.len() <= LINE_BYTES_MAX && object.is_ok_and(|o| o["fields"]["message"] == "refused"),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn a_dropped_line_costs_no_words() {
        struct Costly<'a>(&'a AtomicUsize);
        impl std::fmt::Display for Costly<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fetch_add(1, Ordering::Relaxed);
                f.write_str("costly")
            }
        }
        let (formatted, taken) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let copy = Arc::clone(&taken);
        let write = move |_: &str| copy.fetch_add(1, Ordering::Relaxed) < usize::MAX;
        let subscriber = subscriber(None, true, Levels::of(None, LevelFilter::WARN), Lines::new(true, write));
        tracing::subscriber::with_default(subscriber, || {
            (0..1000).for_each(|_| tracing::warn!(error = %Costly(&formatted), "refused"));
        });
        let [formatted, taken] = [&formatted, &*taken].map(|count| count.load(Ordering::Relaxed));
        assert!(formatted == taken && taken < 1000, "{formatted} of {taken}");
    }

    #[test]
    fn the_forms_have_names() {
        let names = ["text", "JSON", "xml"].map(|name| LogFormat::of(OsStr::new(name)));
        assert_eq!(names, [Some(LogFormat::Text), Some(LogFormat::Json), None]);
    }
}
