use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::search::failed;
use super::{Contents, RendezvousError};

/// Where a server tells its address besides, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressReport {
    /// A line on standard output.
    Output,
    /// A line on standard error.
    Error,
    /// A file that tools can be given: the address, then the release. It is written over, and stays when the server ends,
    /// as that of a server of the reference does.
    File(PathBuf),
}

impl AddressReport {
    /// Reads what hosts say: `-`, `+`, or the path of a file.
    #[must_use]
    pub fn parse(place: &str) -> Self {
        match place {
            "-" => Self::Output,
            "+" => Self::Error,
            path => Self::File(path.into()),
        }
    }

    /// Tells it.
    ///
    /// # Errors
    /// [`RendezvousError::Io`].
    pub fn write(&self, contents: &Contents) -> Result<(), RendezvousError> {
        let line = format!("{}\n", contents.address);
        match self {
            Self::Output => {
                tell(io::stdout().lock(), &line).map_err(|source| failed("write", Path::new("stdout"), source))
            }
            Self::Error => {
                tell(io::stderr().lock(), &line).map_err(|source| failed("write", Path::new("stderr"), source))
            }
            Self::File(path) => {
                let opened = OpenOptions::new().write(true).create(true).truncate(true).open(path);
                let file = opened.map_err(|source| failed("make", path, source))?;
                let version = contents.version.as_ref().map_or_else(String::new, |version| format!("v{version}\n"));
                tell(file, &(line + &version)).map_err(|source| failed("write", path, source))
            }
        }
    }
}

fn tell(mut place: impl Write, text: &str) -> io::Result<()> {
    place.write_all(text.as_bytes())?;
    place.flush()
}
