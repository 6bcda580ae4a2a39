//! The directives for a job's output, and their effect on a line.

use std::fmt::Write as _;

use modex::keys;
use modex::output::{FileDirectives, XmlElement};
use modex::runtime::understood::OF_OUTPUT_FORMS;
use modex::runtime::{TAG_OUTPUT, TIMESTAMP_OUTPUT, XML_OUTPUT, parameter_flag};
use modex::types::{Info, ProcId, Value};

use super::stream::Stream;
use crate::stand_in;

/// The form of a job's output, and its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputStyle {
    /// Whether this process writes it; `None` if no directive says so.
    pub(crate) is_local: Option<bool>,
    pub(super) label: Label,
    pub(super) has_time: bool,
    pub(super) is_xml: bool,
    /// Each piece is written as it comes, not line by line.
    pub(crate) is_raw: bool,
    /// Lines are written whole, but one whose end does not come is written without it.
    pub(super) shows_questions: bool,
    /// Standard error goes where standard output goes.
    pub(crate) is_merged: bool,
    pub(super) files: FileDirectives,
}

/// The source of a line, as its prefix names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Label {
    has_job: bool,
    has_full_name: bool,
    has_origin: bool,
    has_rank: bool,
}

/// Node and process number of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) host: String,
    pub(crate) pid: String,
}

impl OutputStyle {
    /// The style that the user's parameters ask for.
    pub(crate) fn of_parameters() -> Self {
        let mut style = Self::default();
        for (parameter, key) in [
            (TAG_OUTPUT, keys::IOF_TAG_OUTPUT),
            (TIMESTAMP_OUTPUT, keys::IOF_TIMESTAMP_OUTPUT),
            (XML_OUTPUT, keys::IOF_XML_OUTPUT),
        ] {
            if let (Some(is_wanted), Some(place)) = (parameter_flag(parameter), style.place_of(key.name())) {
                *place = is_wanted;
            }
        }
        style
    }

    /// The style that these directives ask for; other infos are ignored.
    pub(crate) fn of<'a>(infos: impl IntoIterator<Item = &'a Info>) -> Self {
        Self::default().and(infos)
    }

    /// This style, with these directives in addition.
    pub(crate) fn and<'a>(self, infos: impl IntoIterator<Item = &'a Info>) -> Self {
        let mut style = self;
        for info in infos {
            style.take(info.key.as_str(), &info.value);
        }
        style
    }

    /// Whether any directive was given. Those about a file mean nothing without one.
    pub(crate) fn is_set(&self) -> bool {
        self.files.place.is_some() || Self { files: FileDirectives::default(), ..self.clone() } != Self::default()
    }

    /// The style of output that this process asked for. Without directives questions appear.
    pub(crate) fn of_request(self) -> Self {
        Self { shows_questions: self.shows_questions || !self.is_set(), ..self }
    }

    /// The style of output that this process shows while another process writes the files.
    pub(crate) fn for_own_output(self) -> Self {
        let files = FileDirectives { place: None, ..self.files.clone() };
        Self { files, ..self.of_request() }
    }

    /// Whether the output goes to its file alone.
    pub(crate) fn is_file_only(&self) -> bool {
        self.files.is_alone.unwrap_or_else(|| self.files.place.is_some() && stand_in::keeps_files_alone())
    }

    /// Whether a directive needs the node and process number of a source. Only servers know them.
    pub(crate) fn is_of_origin(key: &str) -> bool {
        key == keys::IOF_TAG_DETAILED_OUTPUT.name()
    }

    /// Whether a key is a directive for the form of lines, which every process can honour. Directives for files are
    /// not.
    pub(crate) fn is_form(key: &str) -> bool {
        OF_OUTPUT_FORMS.contains(&key)
    }

    /// Whether a key is one of these directives.
    pub(crate) fn is_directive(key: &str) -> bool {
        Self::is_form(key) || Self::is_of_origin(key) || FileDirectives::KEYS.contains(&key)
    }

    /// Takes a directive. Other keys are ignored.
    pub(crate) fn take(&mut self, key: &str, value: &Value) {
        if self.files.take(key, value) {
            if FileDirectives::names_place(key) {
                self.is_local = Some(true);
            }
        } else if key == keys::IOF_LOCAL_OUTPUT.name() {
            self.is_local = Some(is_true(value));
        } else if let Some(flag) = self.place_of(key) {
            *flag = is_true(value);
        }
    }

    fn place_of(&mut self, key: &str) -> Option<&mut bool> {
        let flags = [
            (keys::IOF_TAG_OUTPUT, &mut self.label.has_job),
            (keys::IOF_TAG_DETAILED_OUTPUT, &mut self.label.has_origin),
            (keys::IOF_TAG_FULLNAME_OUTPUT, &mut self.label.has_full_name),
            (keys::IOF_RANK_OUTPUT, &mut self.label.has_rank),
            (keys::IOF_TIMESTAMP_OUTPUT, &mut self.has_time),
            (keys::IOF_XML_OUTPUT, &mut self.is_xml),
            (keys::IOF_OUTPUT_RAW, &mut self.is_raw),
            (keys::IOF_MERGE_STDERR_STDOUT, &mut self.is_merged),
        ];
        let name = OLD_NAMES.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
        flags.into_iter().find(|(key, _)| key.name() == name).map(|(_, flag)| flag)
    }

    /// Whether a line differs from the bytes that came.
    pub(crate) fn changes_lines(&self) -> bool {
        self.is_xml || self.has_time || self.label != Label::default()
    }

    /// Whether a prefix names node and process number.
    pub(crate) const fn needs_origin(&self) -> bool {
        self.label.has_origin && !self.label.has_job
    }

    /// Whether a line names the time.
    pub(crate) const fn needs_time(&self) -> bool {
        self.has_time
    }

    /// A line, with its prefix or as XML. The forms are those of OpenPMIx 4.2 and 5.0, and XML is well-formed. With a
    /// prefix the last line ends with a newline, too, so that the next source begins a line.
    pub(crate) fn line(
        &self,
        source: &ProcId,
        stream: Stream,
        origin: Option<&Origin>,
        time: &str,
        bytes: &[u8],
    ) -> Vec<u8> {
        if self.is_xml {
            return self.xml(source, stream, origin, time, bytes);
        }
        let label = self.label(source, origin);
        let mut line = String::new();
        if self.has_time {
            // Writing to a String can't fail.
            let _ = write!(line, "[{time}]");
        }
        match label {
            Some(label) => {
                let _ = write!(line, "[{label}<{stream}>: ");
            }
            None if self.has_time => {
                let _ = write!(line, "<{stream}>: ");
            }
            None => {}
        }
        let mut line = line.into_bytes();
        line.extend_from_slice(bytes);
        if self.changes_lines() && !self.is_raw && !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        line
    }

    /// The prefix behind its first bracket.
    fn label(&self, source: &ProcId, origin: Option<&Origin>) -> Option<String> {
        let (whole, rank) = (source.namespace.as_str(), source.rank.to_raw());
        let Label { has_job, has_full_name, has_origin, has_rank } = self.label;
        let short = whole.rsplit_once('@').map_or(whole, |(_, job)| job);
        if has_job {
            Some(format!("{short},{rank}]"))
        } else if has_origin {
            let job = if has_full_name { whole } else { short };
            let (host, pid) = origin.map_or((UNKNOWN, UNKNOWN), |origin| (&origin.host, &origin.pid));
            Some(format!("{job},{rank}][{host}:{pid}]"))
        } else if has_full_name {
            Some(format!("{whole},{rank}]"))
        } else {
            has_rank.then(|| format!("{rank}]"))
        }
    }

    fn xml(&self, source: &ProcId, stream: Stream, origin: Option<&Origin>, time: &str, bytes: &[u8]) -> Vec<u8> {
        let whole = source.namespace.as_str();
        let mut element = XmlElement::new(&stream.to_string());
        element = match whole.rsplit_once('@') {
            Some((_, job)) if self.label.has_job => element.with("jobid", job),
            _ if self.label.has_job || self.label.has_full_name || self.label.has_origin => {
                element.with("nspace", whole)
            }
            _ => element,
        };
        element = element.with("rank", &source.rank.to_raw().to_string());
        if self.needs_origin() {
            element = element.with("host", origin.map_or(UNKNOWN, |origin| &origin.host));
            element = element.with("pid", origin.map_or(UNKNOWN, |origin| &origin.pid));
        }
        if self.has_time {
            element = element.with("timestamp", time);
        }
        let mut line = Vec::new();
        element.write(bytes, &mut line);
        line
    }
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

/// Names of 2.1 to 4.1, and their successors.
const OLD_NAMES: [(&str, &str); 3] = [
    (keys::TAG_OUTPUT.name(), keys::IOF_TAG_OUTPUT.name()),
    (keys::TIMESTAMP_OUTPUT.name(), keys::IOF_TIMESTAMP_OUTPUT.name()),
    (keys::MERGE_STDERR_STDOUT.name(), keys::IOF_MERGE_STDERR_STDOUT.name()),
];

const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use modex::output::Place;
    use modex::types::{Key, Namespace};

    use super::*;

    fn style(names: &[&'static str]) -> OutputStyle {
        let infos: Vec<Info> = names.iter().map(|name| Info::new(Key::from_static(name), true)).collect();
        OutputStyle::of(&infos)
    }

    fn line(style: &OutputStyle, namespace: &str, bytes: &[u8]) -> String {
        let source = ProcId::new(Namespace::new(namespace).unwrap(), 3);
        let origin = Origin { host: "n7".to_owned(), pid: "99".to_owned() };
        String::from_utf8(style.line(&source, Stream::Stdout, Some(&origin), "NOW", bytes)).unwrap()
    }

    #[test]
    fn prefixes_are_those_of_the_reference() {
        let (tag, rank, time) = ("pmix.iof.tag", "pmix.iof.rank", "pmix.iof.ts");
        for (names, expected) in [
            (&[][..], "x\n"),
            (&[tag], "[1,3]<stdout>: x\n"),
            (&["pmix.tagout"], "[1,3]<stdout>: x\n"),
            (&["pmix.iof.tagfull"], "[host@1,3]<stdout>: x\n"),
            (&["pmix.iof.tagdet"], "[1,3][n7:99]<stdout>: x\n"),
            (&["pmix.iof.tagdet", "pmix.iof.tagfull"], "[host@1,3][n7:99]<stdout>: x\n"),
            (&[rank], "[3]<stdout>: x\n"),
            (&[time], "[NOW]<stdout>: x\n"),
            (&[time, rank], "[NOW][3]<stdout>: x\n"),
            (&["pmix.tsout", tag], "[NOW][1,3]<stdout>: x\n"),
        ] {
            assert_eq!(line(&style(names), "host@1", b"x\n"), expected, "{names:?}");
        }
        assert_eq!(line(&style(&[tag, "pmix.iof.raw"]), "job", b"x"), "[job,3]<stdout>: x");
    }

    /// Regression: the next source's line followed on the same line.
    #[test]
    fn a_line_with_a_prefix_ends_with_a_newline() {
        for (names, expected) in [
            (&["pmix.iof.tag"][..], "[job,3]<stdout>: x\n"),
            (&["pmix.iof.rank"], "[3]<stdout>: x\n"),
            (&["pmix.iof.ts"], "[NOW]<stdout>: x\n"),
            (&[], "x"),
        ] {
            assert_eq!(line(&style(names), "job", b"x"), expected, "{names:?}");
        }
    }

    #[test]
    fn xml_is_well_formed_whatever_the_line_holds() {
        let xml = style(&["pmix.iof.xml", "pmix.iof.tag", "pmix.iof.ts"]);
        let expected =
            "<stdout jobid=\"1\" rank=\"3\" timestamp=\"NOW\">a &lt;b&gt; &amp; &quot;c&quot;&#010;</stdout>\n";
        assert_eq!(line(&xml, "host@1", b"a <b> & \"c\"\n"), expected);
        let detailed = style(&["pmix.iof.xml", "pmix.iof.tagdet"]);
        assert_eq!(line(&detailed, "j", b"x"), "<stdout nspace=\"j\" rank=\"3\" host=\"n7\" pid=\"99\">x</stdout>\n");
        assert_eq!(line(&style(&["pmix.iof.xml"]), "j", b"x"), "<stdout rank=\"3\">x</stdout>\n");
    }

    #[test]
    fn a_place_makes_the_output_local_and_other_keys_say_nothing() {
        let infos =
            [Info::new(Key::from_static("pmix.outdir"), "/tmp/d"), Info::new(Key::from_static("pmix.nocopy"), true)];
        let style = OutputStyle::of(&infos);
        assert_eq!(style.files.place, Some(Place::Directory("/tmp/d".into())));
        assert!(style.is_local == Some(true) && style.is_file_only() && style.is_set() && !style.changes_lines());
        assert!(!OutputStyle::of(&[Info::new(Key::from_static("pmix.job.size"), 4_u32)]).is_set());
        // Regression: a pull with this alone wrote line by line.
        assert!(!OutputStyle::of(&[Info::new(Key::from_static("pmix.nocopy"), false)]).is_set());
        assert!(OutputStyle::is_form("pmix.tagout") && !OutputStyle::is_form("pmix.iof.fonly"));
        assert!(
            !OutputStyle::is_form("pmix.iof.tagdet")
                && !OutputStyle::is_form("pmix.outdir")
                && !OutputStyle::is_form("pmix.job.size")
        );
        assert!(OutputStyle::is_directive("pmix.tagout") && !OutputStyle::is_directive("pmix.job.size"));
    }
}
