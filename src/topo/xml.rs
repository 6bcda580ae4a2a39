//! The part of XML that hwloc writes: elements, attributes, five kinds of references. It reads no external data and
//! expands only references to characters.

use std::borrow::Cow;

/// Why a text is not XML of hwloc.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// Longer than [`XML_BYTES_MAX`].
    #[error("the topology is {found} bytes of XML; at most {XML_BYTES_MAX} are read")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// A part has no end.
    #[error("the topology's XML has {what} at byte {offset} that does not end")]
    Unterminated {
        /// The unfinished part.
        what: &'static str,
        /// Its start.
        offset: usize,
    },
    /// An element is not written as one.
    #[error("the topology's XML has no element where one should be, at byte {offset}")]
    Element {
        /// Its position.
        offset: usize,
    },
    /// An attribute is not written as one.
    #[error("the topology's XML has no attribute where one should be, at byte {offset}")]
    Attribute {
        /// Its position.
        offset: usize,
    },
}

/// Limit of the XML; the largest machines have a few MiB.
pub const XML_BYTES_MAX: usize = 16 << 20;

/// A piece of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    Open { name: &'a str, attributes: Attributes<'a>, is_closed: bool },
    Close,
}

/// The tokens of a text.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Result<Self, XmlError> {
        if text.len() > XML_BYTES_MAX {
            return Err(XmlError::TooLong { found: text.len() });
        }
        Ok(Self { text, at: 0 })
    }

    /// Position of the next piece.
    pub(super) const fn offset(&self) -> usize {
        self.at
    }

    /// The next token; `None` at the end. Skips text between elements, declarations and comments.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, XmlError> {
        loop {
            let rest = self.rest();
            let Some(start) = rest.find('<') else { return Ok(None) };
            self.at += start;
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.skip_past("-->", "a comment")?;
            } else if rest.starts_with("<?") || rest.starts_with("<!") {
                self.skip_past(">", "a declaration")?;
            } else if rest.starts_with("</") {
                self.skip_past(">", "an element's end")?;
                return Ok(Some(Token::Close));
            } else {
                return self.open().map(Some);
            }
        }
    }

    fn open(&mut self) -> Result<Token<'a>, XmlError> {
        let start = self.at;
        let inner = self.skip_past(">", "an element")?;
        let inner = inner.get(1..).unwrap_or_default();
        let (inner, is_closed) = inner.strip_suffix('/').map_or((inner, false), |inner| (inner, true));
        let end = inner.find(|c: char| c.is_ascii_whitespace()).unwrap_or(inner.len());
        let (name, attributes) = inner.split_at_checked(end).unwrap_or((inner, ""));
        if name.is_empty() {
            return Err(XmlError::Element { offset: start });
        }
        Ok(Token::Open { name, attributes: Attributes { text: attributes, offset: start }, is_closed })
    }

    /// The text before `end`. Attribute values cannot hold `end`: hwloc writes it as a reference there.
    fn skip_past(&mut self, end: &str, what: &'static str) -> Result<&'a str, XmlError> {
        let rest = self.rest();
        let length = rest.find(end).ok_or(XmlError::Unterminated { what, offset: self.at })?;
        self.at += length + end.len();
        Ok(rest.get(..length).unwrap_or_default())
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

/// The attributes of an element, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attributes<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(&'a str, Cow<'a, str>), XmlError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.text.trim_ascii_start();
        if text.is_empty() {
            return None;
        }
        let parsed = attribute(text);
        // An unreadable attribute ends the list.
        self.text = parsed.as_ref().map_or("", |(_, _, rest)| rest);
        Some(parsed.map(|(name, value, _)| (name, value)).ok_or(XmlError::Attribute { offset: self.offset }))
    }
}

fn attribute(text: &str) -> Option<(&str, Cow<'_, str>, &str)> {
    let (name, rest) = text.split_once('=')?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (value, rest) = rest.get(1..)?.split_once(quote)?;
    let name = name.trim_ascii();
    (!name.is_empty() && !name.contains(|c: char| c.is_ascii_whitespace())).then_some((name, unescaped(value), rest))
}

/// Replaces references to characters; other text stays as it is.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once('&') {
        plain.push_str(before);
        let named = reference.split_once(';').and_then(|(name, behind)| Some((character(name)?, behind)));
        rest = match named {
            Some((character, behind)) => {
                plain.push(character);
                behind
            }
            None => {
                plain.push('&');
                reference
            }
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        name => {
            let digits = name.strip_prefix('#')?;
            let number = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            number.ok().and_then(char::from_u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and attributes.
    type Element = (String, Vec<(String, String)>);

    fn opened(text: &str) -> Result<Vec<Element>, XmlError> {
        let mut tokens = Tokens::of(text)?;
        let mut found = Vec::new();
        while let Some(token) = tokens.next()? {
            let Token::Open { name, attributes, .. } = token else { continue };
            let attributes: Result<Vec<_>, XmlError> =
                attributes.map(|read| read.map(|(name, value)| (name.to_owned(), value.into_owned()))).collect();
            found.push((name.to_owned(), attributes?));
        }
        Ok(found)
    }

    #[test]
    fn elements_and_attributes_are_found_and_the_rest_is_passed_over() {
        let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE t SYSTEM \"t.dtd\">\n<!-- <no/> -->\
                    <a x=\"1 &amp; &#10;2\" y='&lt;&quot;&gt;'>text<b/></a>";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let a = ("a".to_owned(), vec![pair("x", "1 & \n2"), pair("y", "<\">")]);
        assert_eq!(opened(text), Ok(vec![a, ("b".to_owned(), Vec::new())]));
        assert_eq!(unescaped("&&nothing;&#x41;&#99999999;"), "&&nothing;A&#99999999;");
    }

    #[test]
    fn what_does_not_end_or_is_no_attribute_is_refused_with_its_place() {
        assert_eq!(opened("<a/><b"), Err(XmlError::Unterminated { what: "an element", offset: 4 }));
        assert_eq!(opened("<!-- <a>"), Err(XmlError::Unterminated { what: "a comment", offset: 0 }));
        assert_eq!(opened(" < a='1'>"), Err(XmlError::Element { offset: 1 }));
        for text in ["<a b>", "<a b=c>", "<a b=\"c>", "<a =\"1\">", "<a b c=\"1\">"] {
            assert_eq!(opened(text), Err(XmlError::Attribute { offset: 0 }), "{text}");
        }
    }
}
