//! The form of the lines of the ranks' output: their time (`--timestamp`), their source (`--tag-output`), and XML.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use modex::IofOutput;
use modex::output::XmlElement;
use modex::runtime::{TAG_OUTPUT, TIMESTAMP_OUTPUT, XML_OUTPUT, parameter_flag};
use modex::types::ProcId;

use super::super::universal_time::universal_time;
use super::children::Channel;
use super::lines::LineBuffer;
use super::ready_lines::ReadyLines;

/// The user's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineMarks {
    pub(super) has_time: bool,
    pub(super) has_tag: bool,
    /// Whether each line is an element of XML. The other marks are its attributes.
    pub(super) is_xml: bool,
}

impl LineMarks {
    /// The marks that the user's parameters of OpenPMIx ask for.
    pub(super) fn of_parameters() -> Self {
        let [has_time, has_tag, is_xml] =
            [TIMESTAMP_OUTPUT, TAG_OUTPUT, XML_OUTPUT].map(|name| parameter_flag(name).unwrap_or_default());
        Self { has_time, has_tag, is_xml }
    }

    /// The marks that one of two requests asks for.
    pub(super) const fn or(self, other: Self) -> Self {
        Self {
            has_time: self.has_time || other.has_time,
            has_tag: self.has_tag || other.has_tag,
            is_xml: self.is_xml || other.is_xml,
        }
    }
}

/// The form of the lines of one source.
#[derive(Clone, Debug)]
pub(super) struct LineForm {
    has_time: bool,
    kind: LineKind,
}

#[derive(Clone, Debug)]
enum LineKind {
    /// A line with this at its beginning, after the time.
    Tagged(String),
    /// An element of XML.
    Element(XmlElement),
}

impl LineForm {
    /// `2026-10-07T10:34:56.789012Z [tag,channel] ` before each line, or each line in an element with the source's
    /// name. The tag of a rank is its number, or `job:rank` for a spawned job.
    pub(super) fn new(marks: LineMarks, source: &ProcId, tag: &str, channel: Channel) -> Self {
        let LineMarks { has_time, has_tag, is_xml } = marks;
        let kind = if is_xml {
            let element = XmlElement::new(channel.name());
            let element = if has_tag { element.with("nspace", source.namespace.as_str()) } else { element };
            LineKind::Element(element.with("rank", &source.rank.to_raw().to_string()))
        } else if has_tag {
            LineKind::Tagged(format!("[{tag},{}] ", channel.name()))
        } else {
            LineKind::Tagged(String::new())
        };
        Self { has_time, kind }
    }

    /// Names the node and the process number in each element of XML. A tag has them already.
    pub(super) fn with_origin(self, node: &str, pid: u32) -> Self {
        let kind = match self.kind {
            LineKind::Element(element) => {
                LineKind::Element(element.with("hostname", node).with("pid", &pid.to_string()))
            }
            tagged @ LineKind::Tagged(_) => tagged,
        };
        Self { kind, ..self }
    }

    /// Appends a line of this time since 1970. `line` has no end.
    pub(super) fn write_at(&self, time: Duration, line: &[u8], to: &mut Vec<u8>) {
        match &self.kind {
            LineKind::Tagged(tag) => {
                to.extend_from_slice(&self.prefix(tag, time));
                to.extend_from_slice(line);
                to.push(b'\n');
            }
            LineKind::Element(element) => self.element(element, time).write(line, to),
        }
    }

    /// Whether lines stay as they are.
    const fn is_plain(&self) -> bool {
        matches!(&self.kind, LineKind::Tagged(tag) if tag.is_empty()) && !self.has_time
    }

    fn prefix<'a>(&self, tag: &'a str, time: Duration) -> Cow<'a, [u8]> {
        if self.has_time {
            format!("{} {tag}", universal_time(time)).into_bytes().into()
        } else {
            tag.as_bytes().into()
        }
    }

    fn element<'a>(&self, element: &'a XmlElement, time: Duration) -> Cow<'a, XmlElement> {
        if self.has_time {
            Cow::Owned(element.clone().with("timestamp", &universal_time(time)))
        } else {
            Cow::Borrowed(element)
        }
    }
}

/// A stream of bytes as lines in their form. The lines end now.
#[derive(Debug)]
pub(super) struct FormedLines {
    form: LineForm,
    lines: LineBuffer,
}

impl FormedLines {
    /// `is_alone`: nothing else is written to the same place, so that the last line can stay as it is.
    pub(super) fn new(form: LineForm, is_alone: bool) -> Self {
        let mut formed = Self { form, lines: LineBuffer::default() };
        formed.set_alone(is_alone);
        formed
    }

    /// The form.
    pub(super) const fn form(&self) -> &LineForm {
        &self.form
    }

    /// Says whether nothing else is written to the same place. An element ends its line in any case.
    pub(super) const fn set_alone(&mut self, is_alone: bool) {
        self.lines.set_alone(is_alone || matches!(self.form.kind, LineKind::Element(_)));
    }

    /// Says whether the beginning of a line is handed out before its end comes.
    pub(super) const fn set_raw(&mut self, is_raw: bool) {
        self.lines.set_raw(is_raw);
    }

    /// Appends the whole lines that these bytes complete to `ready`. A very long line is appended in pieces.
    pub(super) fn feed(&mut self, bytes: &[u8], ready: &mut Vec<u8>) {
        if !bytes.is_empty() {
            self.form_lines(ready, |lines, prefix, ready| lines.feed(bytes, prefix, ready));
        }
    }

    /// As [`FormedLines::feed`]. Lines without marks stay in the piece.
    pub(super) fn feed_piece(&mut self, piece: &Arc<IofOutput>, ready: &mut ReadyLines) {
        if self.form.is_plain() {
            let (earlier, lines) = self.lines.take_ready(&piece.bytes);
            ready.add(&earlier, piece, lines.len());
        } else {
            self.feed(&piece.bytes, ready.own_mut());
        }
    }

    /// Appends an unfinished line at the end of the stream.
    pub(super) fn finish(&mut self, ready: &mut Vec<u8>) {
        self.form_lines(ready, LineBuffer::finish);
    }

    fn form_lines(&mut self, ready: &mut Vec<u8>, take: impl FnOnce(&mut LineBuffer, &[u8], &mut Vec<u8>)) {
        let now = since_epoch();
        match &self.form.kind {
            LineKind::Tagged(tag) => take(&mut self.lines, &self.form.prefix(tag, now), ready),
            LineKind::Element(element) => {
                let mut whole = Vec::new();
                take(&mut self.lines, &[], &mut whole);
                // Each piece of a long line is an element of its own.
                let _ = self.lines.cut();
                let element = self.form.element(element, now);
                whole.split_inclusive(|&byte| byte == b'\n').for_each(|line| element.write(line, ready));
            }
        }
    }

    /// The end of a line whose beginning was handed out, if there is one. The rest is a line of its own.
    #[must_use]
    pub(super) fn cut(&mut self) -> &'static str {
        self.lines.cut()
    }

    /// Whether the beginning of an unfinished line was handed out.
    pub(super) const fn is_mid_line(&self) -> bool {
        self.lines.is_mid_line()
    }
}

/// The present, since 1970.
#[expect(clippy::disallowed_methods, reason = "lines, logs and records carry the wall-clock time")]
pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use modex::types::Namespace;

    use super::super::lines::LINE_BYTES_MAX;
    use super::*;

    fn form(has_time: bool, has_tag: bool, is_xml: bool) -> LineForm {
        let source = ProcId::new(Namespace::new("a&b").unwrap(), 3);
        LineForm::new(LineMarks { has_time, has_tag, is_xml }, &source, "2:3", Channel::Error)
    }

    #[test]
    fn the_time_stands_before_the_tag() {
        let line = |has_time, has_tag| {
            let mut line = Vec::new();
            form(has_time, has_tag, false).write_at(since_epoch(), b"x", &mut line);
            String::from_utf8(line).unwrap()
        };
        assert_eq!((line(false, false).as_str(), line(false, true).as_str()), ("x\n", "[2:3,stderr] x\n"));
        let both = line(true, true);
        assert_eq!((both.get(26..), both.len()), (Some("Z [2:3,stderr] x\n"), 43));
        assert_eq!(line(true, false).len(), 30);
    }

    /// The launcher ignored the directive.
    #[test]
    fn each_line_is_an_element_and_so_is_each_piece_of_a_long_one() {
        let mut lines = FormedLines::new(form(false, true, true), false);
        let (mut ready, start) = (Vec::new(), "<stderr nspace=\"a&amp;b\" rank=\"3\">");
        lines.feed(b"<1>\nla", &mut ready);
        lines.feed(b"st", &mut ready);
        lines.finish(&mut ready);
        let expected = format!("{start}&lt;1&gt;&#010;</stderr>\n{start}last</stderr>\n");
        assert_eq!(String::from_utf8(std::mem::take(&mut ready)).unwrap(), expected);
        lines.feed(&vec![b'x'; LINE_BYTES_MAX], &mut ready);
        assert!(ready.ends_with(b"x</stderr>\n") && !lines.is_mid_line() && lines.cut().is_empty());
        let mut timed = Vec::new();
        form(true, false, true).write_at(Duration::ZERO, b"", &mut timed);
        let expected = "<stderr rank=\"3\" timestamp=\"1970-01-01T00:00:00.000000Z\"></stderr>\n";
        assert_eq!(String::from_utf8(timed).unwrap(), expected);
    }
}
