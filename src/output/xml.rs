//! Lines of output as elements of XML, as OpenPMIx writes them: `<stdout nspace="job" rank="3">text</stdout>`.

/// The element of a stream, for all lines with the same attributes.
#[derive(Clone, Debug)]
pub struct XmlElement {
    name: String,
    /// The start of the element without its last bracket.
    start: Vec<u8>,
}

impl XmlElement {
    /// An element without attributes. `name` is that of the stream.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), start: format!("<{name}").into_bytes() }
    }

    /// The element with one more attribute.
    #[must_use]
    pub fn with(mut self, attribute: &str, value: &str) -> Self {
        self.start.extend_from_slice(format!(" {attribute}=\"").as_bytes());
        escape(value.as_bytes(), &mut self.start);
        self.start.push(b'"');
        self
    }

    /// Appends the element of a line. It is a line of its own.
    pub fn write(&self, line: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(&self.start);
        to.push(b'>');
        escape(line, to);
        to.extend_from_slice(format!("</{}>\n", self.name).as_bytes());
    }
}

/// Characters with a meaning in XML, and those that can't be printed, become references.
fn escape(bytes: &[u8], to: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'&' => to.extend_from_slice(b"&amp;"),
            b'<' => to.extend_from_slice(b"&lt;"),
            b'>' => to.extend_from_slice(b"&gt;"),
            b'"' => to.extend_from_slice(b"&quot;"),
            b' '..=b'~' => to.push(byte),
            byte => to.extend_from_slice(format!("&#{byte:03};").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_well_formed_whatever_the_line_holds() {
        let element = XmlElement::new("stdout").with("nspace", "a\"b&c").with("rank", "3");
        let mut written = Vec::new();
        element.write(b"<1>\n", &mut written);
        element.write(b"\x1b\xff", &mut written);
        let start = "<stdout nspace=\"a&quot;b&amp;c\" rank=\"3\">";
        let expected = format!("{start}&lt;1&gt;&#010;</stdout>\n{start}&#027;&#255;</stdout>\n");
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
