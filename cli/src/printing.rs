//! The command's own text on its outputs.

use std::io::{self, Write};

use modex::stderr_log::is_format;

/// Writes to standard output. A reader that closes the pipe early, as in `modex inspect | head`, is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// The same for text that another crate made.
pub(crate) fn print_bytes(text: &[u8]) -> io::Result<()> {
    write(text).map(|_| ())
}

/// As [`print`], for a command that goes on printing. Returns whether the reader is still there.
pub(crate) fn print_on(text: &str) -> io::Result<bool> {
    write(text.as_bytes())
}

fn write(text: &[u8]) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// The same JSON without characters that could steer a terminal, apart from ends of lines. They occur within strings
/// alone, and `serde_json` escapes only some of them.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && c.is_control() || is_format(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Writes a line for the user to standard error. An absent reader must not change the exit status.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "modex: {text}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_no_characters_that_steer_a_terminal() {
        let document = json!({ "a": "\u{9b}2J\u{202e}\u{7f}\n\u{1b}\u{e9}" });
        for text in [document.to_string(), format!("{document:#}\n")] {
            let shown = escaped_json(&text);
            assert!(shown.contains("\\u009b2J\\u202e\\u007f\\n\\u001b\u{e9}"), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), document);
            assert_eq!(shown.lines().count(), text.lines().count());
        }
    }
}
