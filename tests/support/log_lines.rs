//! The warnings and errors of a test.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::{Level, Subscriber};

/// The lines of the log.
#[derive(Clone, Default)]
pub(crate) struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + 'static {
        let lines = self.clone();
        let fmt = tracing_subscriber::fmt().with_ansi(false).without_time().with_max_level(Level::WARN);
        fmt.with_writer(move || lines.clone()).finish()
    }

    /// The lines since the last call.
    pub(crate) fn taken(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(ToOwned::to_owned).collect()
    }
}

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
