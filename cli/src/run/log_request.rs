//! A process's request to log (`PMIx_Log`), read into texts for channels. Nothing is written here.
//!
//! Source: PMIx Standard, chapter on logging.

use std::time::Duration;

use modex::keys;
use modex::syslog::Priority;
use modex::types::{Info, InfoFlags, ProcId, Status, Value};
use modex::{Log, stderr_log};

use super::children::Channel;
use super::line_form::{LineForm, LineMarks, since_epoch};

/// Bytes of all texts of a request. Marks make each line longer.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The most lines of one request.
const LINES_MAX: usize = 16_384;

/// Why a request is refused as a whole.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LogRefusal {
    /// A channel or directive that must be honoured, and can't.
    #[error("it requires {key}, which modex run does not support")]
    Required {
        /// Its key.
        key: String,
    },
    /// A value of the wrong type, or out of range.
    #[error("the value of {key} is not valid")]
    Invalid {
        /// Its key.
        key: &'static str,
    },
    /// Too much text.
    #[error("its texts have more than {TEXT_BYTES_MAX} bytes")]
    TooLong,
    /// Lines get marks, which take room.
    #[error("its texts have more than {LINES_MAX} lines")]
    TooManyLines,
}

impl LogRefusal {
    /// The answer for the requester.
    pub(super) const fn status(&self) -> Status {
        match self {
            Self::Required { .. } => Status::ERR_NOT_SUPPORTED,
            Self::Invalid { .. } => Status::ERR_BAD_PARAM,
            Self::TooLong | Self::TooManyLines => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// A request that the launcher can serve.
#[derive(Debug, PartialEq)]
pub(super) struct LogRequest {
    /// The channels in the given order.
    pub(super) entries: Vec<LogEntry>,
    /// Whether the first channel that works is enough.
    pub(super) is_once: bool,
    /// The time of the entries, since 1970.
    time: Option<Duration>,
    /// The marks that the requester wants.
    marks: LineMarks,
    pub(super) priority: Priority,
}

/// One text and its channel.
#[derive(Debug, PartialEq)]
pub(super) enum LogEntry {
    /// Whole lines for one of the launcher's outputs.
    Lines(Channel, Vec<u8>),
    /// Text for the system's log.
    Syslog(String),
    /// Texts for the job's record; none if they are those of the other channels.
    Record(Option<String>),
    /// A channel that the launcher does not have.
    Unsupported,
}

/// Directives that are honoured, and facts that the server adds.
pub(super) const KNOWN: [&str; 7] = [
    keys::LOG_SOURCE.name(),
    keys::LOG_TIMESTAMP.name(),
    keys::LOG_SYSLOG_PRI.name(),
    keys::LOG_ONCE.name(),
    keys::LOG_TAG_OUTPUT.name(),
    keys::LOG_TIMESTAMP_OUTPUT.name(),
    keys::LOG_XML_OUTPUT.name(),
];

/// The channels.
pub(super) const CHANNELS: [&str; 7] = [
    keys::LOG_STDOUT.name(),
    keys::LOG_STDERR.name(),
    keys::LOG_SYSLOG.name(),
    keys::LOG_LOCAL_SYSLOG.name(),
    keys::LOG_GLOBAL_SYSLOG.name(),
    keys::LOG_JOB_RECORD.name(),
    keys::LOG_GLOBAL_DATASTORE.name(),
];

/// The channels for the job's record. One machine has no other store for them.
const RECORDS: [&str; 2] = [keys::LOG_JOB_RECORD.name(), keys::LOG_GLOBAL_DATASTORE.name()];

/// Whether a directive is known, or is a fact that the server adds.
fn is_known(key: &str) -> bool {
    KNOWN.contains(&key) || [keys::USERID.name(), keys::GRPID.name()].contains(&key)
}

impl LogRequest {
    /// Reads a request.
    pub(super) fn read(log: &Log, has_record: bool) -> Result<Self, LogRefusal> {
        let is_required = |info: &Info| info.flags().contains(InfoFlags::REQUIRED);
        let refused = log.directives.iter().find(|info| keys::is_unmet(info, is_known));
        if let Some(info) = refused {
            return Err(LogRefusal::Required { key: info.key.to_string() });
        }
        let mut room = TEXT_BYTES_MAX;
        let mut entries = Vec::new();
        for info in &log.data {
            let entry = LogEntry::read(info, &mut room, has_record)?;
            if entry == LogEntry::Unsupported && is_required(info) {
                return Err(LogRefusal::Required { key: info.key.to_string() });
            }
            entries.push(entry);
        }
        // All records are one file, and the texts of a request stand in it once.
        let mut has_all = false;
        entries.retain(|entry| *entry != LogEntry::Record(None) || !std::mem::replace(&mut has_all, true));
        let line_count: usize = entries.iter().map(LogEntry::line_count).sum();
        if line_count > LINES_MAX {
            return Err(LogRefusal::TooManyLines);
        }
        let marks = LineMarks {
            has_time: flag(log, keys::LOG_TIMESTAMP_OUTPUT.name())?,
            has_tag: flag(log, keys::LOG_TAG_OUTPUT.name())?,
            is_xml: flag(log, keys::LOG_XML_OUTPUT.name())?,
        };
        let priority = match find(log, keys::LOG_SYSLOG_PRI.name()) {
            None => Priority::default(),
            Some(value) => value
                .as_u64()
                .and_then(Priority::new)
                .ok_or(LogRefusal::Invalid { key: keys::LOG_SYSLOG_PRI.name() })?,
        };
        let time = match find(log, keys::LOG_TIMESTAMP.name()) {
            None => None,
            Some(value) => {
                let seconds = value.as_u64().filter(|seconds| *seconds <= LAST_SECOND);
                let seconds = seconds.ok_or(LogRefusal::Invalid { key: keys::LOG_TIMESTAMP.name() })?;
                Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero())
            }
        };
        Ok(Self { entries, is_once: flag(log, keys::LOG_ONCE.name())?, time, marks, priority })
    }

    /// The texts for the job's record, and their time if the requester gave one.
    pub(super) fn recorded(&self, own: Option<&String>) -> (Vec<String>, Option<Duration>) {
        let text = |entry: &LogEntry| match entry {
            LogEntry::Lines(_, text) => Some(String::from_utf8_lossy(text).into_owned()),
            LogEntry::Syslog(text) => Some(text.clone()),
            LogEntry::Record(_) | LogEntry::Unsupported => None,
        };
        let texts = own.map_or_else(|| self.entries.iter().filter_map(text).collect(), |own| vec![own.clone()]);
        (texts, self.time)
    }

    /// A text with the marks at the beginning of each line, or in each element of XML. `ours`: the marks that the
    /// launcher's user wants. `tag`: the short name of the source.
    pub(super) fn lines(
        &self,
        text: &[u8],
        ours: LineMarks,
        (source, tag): (&ProcId, &str),
        channel: Channel,
    ) -> Vec<u8> {
        let form = LineForm::new(self.marks.or(ours), source, &stderr_log::printable(tag), channel);
        let time = self.time.unwrap_or_else(since_epoch);
        let mut lines = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            form.write_at(time, line.strip_suffix(b"\n").unwrap_or(line), &mut lines);
        }
        lines
    }
}

/// The end of the year 9999. Later years have no place in a time stamp.
const LAST_SECOND: u64 = 253_402_300_799;

impl LogEntry {
    fn line_count(&self) -> usize {
        match self {
            // A text that does not end with a line's end gets one.
            Self::Lines(_, text) => text.split_inclusive(|byte| *byte == b'\n').count(),
            Self::Syslog(_) | Self::Record(_) | Self::Unsupported => 0,
        }
    }

    fn read(info: &Info, room: &mut usize, has_record: bool) -> Result<Self, LogRefusal> {
        let Some(key) = CHANNELS.into_iter().find(|key| *key == info.key.as_str()) else {
            return Ok(Self::Unsupported);
        };
        let is_record = RECORDS.contains(&key);
        if is_record && (!has_record || info.value.as_bool() == Some(false)) {
            return Ok(Self::Unsupported);
        }
        if is_record && info.value.as_bool() == Some(true) {
            return Ok(Self::Record(None));
        }
        let Value::String(text) = &info.value else { return Err(LogRefusal::Invalid { key }) };
        *room = room.checked_sub(text.as_bytes().len()).ok_or(LogRefusal::TooLong)?;
        Ok(match key {
            key if key == keys::LOG_STDOUT.name() => Self::Lines(Channel::Out, text.as_bytes().to_vec()),
            key if key == keys::LOG_STDERR.name() => Self::Lines(Channel::Error, text.as_bytes().to_vec()),
            _ if is_record => Self::Record(Some(text.to_string_lossy())),
            _ => Self::Syslog(text.to_string_lossy()),
        })
    }
}

fn find<'a>(log: &'a Log, key: &str) -> Option<&'a Value> {
    log.directives.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

fn flag(log: &Log, key: &'static str) -> Result<bool, LogRefusal> {
    find(log, key).map_or(Ok(false), |value| value.as_bool().ok_or(LogRefusal::Invalid { key }))
}

#[cfg(test)]
mod tests {
    use modex::types::{Key, Namespace};

    use super::*;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn required(info: Info) -> Info {
        Info { flags: InfoFlags::REQUIRED.bits(), ..info }
    }

    fn read(data: Vec<Info>, directives: Vec<Info>) -> Result<LogRequest, LogRefusal> {
        LogRequest::read(&Log::new(data, directives), false)
    }

    #[test]
    fn channels_keep_their_order_and_unknown_ones_are_left_out() {
        let email = || info(keys::LOG_EMAIL.name(), "a");
        let data = vec![email(), info(keys::LOG_SYSLOG.name(), "b"), info(keys::LOG_STDERR.name(), "c")];
        let request = read(data, Vec::new()).unwrap();
        let lines = LogEntry::Lines(Channel::Error, b"c".to_vec());
        assert_eq!(request.entries, [LogEntry::Unsupported, LogEntry::Syslog("b".to_owned()), lines]);
        let refused = Err(LogRefusal::Required { key: keys::LOG_EMAIL.name().to_owned() });
        assert_eq!(read(vec![required(email())], Vec::new()), refused);
    }

    #[test]
    fn a_record_has_its_own_text_or_those_of_the_other_channels() {
        let record = |value: Value| info(keys::LOG_JOB_RECORD.name(), value);
        let with = |data: Vec<Info>, has_record| LogRequest::read(&Log::new(data, Vec::new()), has_record).unwrap();
        let text = || info(keys::LOG_STDOUT.name(), "a");
        let request = with(vec![record(true.into()), text(), record("b".into())], true);
        let of = |entry: &LogEntry| match entry {
            LogEntry::Record(own) => Some(request.recorded(own.as_ref()).0),
            _ => None,
        };
        let texts: Vec<Vec<String>> = request.entries.iter().filter_map(of).collect();
        assert_eq!(texts, [["a"], ["b"]]);
        let twice = with(vec![record(true.into()), text(), record(true.into())], true);
        assert_eq!(twice.entries.iter().filter(|entry| **entry == LogEntry::Record(None)).count(), 1);
        assert_eq!(with(vec![record(true.into())], false).entries, [LogEntry::Unsupported]);
    }

    #[test]
    fn directives_are_checked() {
        let once = |value: Value| read(Vec::new(), vec![info(keys::LOG_ONCE.name(), value)]).map(|log| log.is_once);
        assert_eq!((once(true.into()), once(Value::Undefined), once(false.into())), (Ok(true), Ok(true), Ok(false)));
        let invalid = |key| Err(LogRefusal::Invalid { key });
        assert_eq!(once("yes".into()), invalid(keys::LOG_ONCE.name()).map(|log: LogRequest| log.is_once));
        for (key, value) in [
            (keys::LOG_SYSLOG_PRI.name(), Value::Int(192)),
            (keys::LOG_SYSLOG_PRI.name(), Value::Int(-1)),
            (keys::LOG_TIMESTAMP.name(), Value::Time(u64::MAX)),
        ] {
            assert_eq!(read(Vec::new(), vec![info(key, value)]), invalid(key));
        }
        assert_eq!(read(vec![info(keys::LOG_STDOUT.name(), 1_u32)], Vec::new()), invalid(keys::LOG_STDOUT.name()));
        let unknown = || info(keys::LOG_AGG.name(), true);
        assert!(read(Vec::new(), vec![unknown()]).is_ok());
        let refused = Err(LogRefusal::Required { key: keys::LOG_AGG.name().to_owned() });
        assert_eq!(read(Vec::new(), vec![required(unknown())]), refused);
        assert!(read(Vec::new(), vec![required(info(keys::LOG_ONCE.name(), true))]).is_ok());
    }

    #[test]
    fn the_texts_of_a_request_have_a_bound_together() {
        let text = |size| info(keys::LOG_STDOUT.name(), "x".repeat(size).as_str());
        assert!(read(vec![text(TEXT_BYTES_MAX - 1), text(1)], Vec::new()).is_ok());
        assert_eq!(read(vec![text(TEXT_BYTES_MAX), text(1)], Vec::new()), Err(LogRefusal::TooLong));
        let lines = info(keys::LOG_STDOUT.name(), "\n".repeat(LINES_MAX + 1).as_str());
        assert_eq!(read(vec![lines], Vec::new()), Err(LogRefusal::TooManyLines));
        // Each of them gets its marks or becomes an element of XML.
        let short = |count| read((0..count).map(|_| text(1)).collect(), Vec::new());
        assert_eq!((short(LINES_MAX).is_ok(), short(LINES_MAX + 1)), (true, Err(LogRefusal::TooManyLines)));
    }

    #[test]
    fn each_line_has_the_marks_and_an_end() {
        let marks = |has_time, has_tag| LineMarks { has_time, has_tag, is_xml: false };
        let lines = |directives: Vec<Info>, text: &[u8], ours| {
            let request = read(Vec::new(), directives).unwrap();
            let source = ProcId::new(Namespace::new("a&b").unwrap(), 3);
            String::from_utf8(request.lines(text, ours, (&source, "3"), Channel::Error)).unwrap()
        };
        assert_eq!(lines(vec![], b"\x1b[1ma\nb", marks(false, false)), "\u{1b}[1ma\nb\n");
        assert_eq!(lines(vec![], b"a\nb\n", marks(false, true)), "[3,stderr] a\n[3,stderr] b\n");
        assert_eq!(lines(vec![], b"", marks(false, true)), "");
        let at = info(keys::LOG_TIMESTAMP.name(), Value::Time(951_782_399));
        let stamped = info(keys::LOG_TIMESTAMP_OUTPUT.name(), true);
        assert_eq!(lines(vec![at.clone(), stamped], b"a", marks(false, false)), "2000-02-28T23:59:59.000000Z a\n");
        let tagged = info(keys::LOG_TAG_OUTPUT.name(), true);
        assert_eq!(lines(vec![tagged], b"a", marks(false, false)), "[3,stderr] a\n");
        let xml = || required(info(keys::LOG_XML_OUTPUT.name(), true));
        let plain = "<stderr rank=\"3\">&lt;a&gt;</stderr>\n<stderr rank=\"3\">&#027;</stderr>\n";
        assert_eq!(lines(vec![xml()], b"<a>\n\x1b", marks(false, false)), plain);
        let marked = "<stderr nspace=\"a&amp;b\" rank=\"3\" timestamp=\"2000-02-28T23:59:59.000000Z\">a</stderr>\n";
        assert_eq!(lines(vec![xml(), at], b"a\n", marks(true, true)), marked);
    }
}
