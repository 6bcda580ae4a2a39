//! The command's own text on its outputs.

use std::io::{self, Write};

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

/// Writes a line for the user to standard error. An absent reader must not change the exit status.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "modex: {text}");
}
