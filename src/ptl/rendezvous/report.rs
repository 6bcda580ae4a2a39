use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::files::random_name;
use super::search::failed;
use super::{Contents, RendezvousError};

/// A further place where a server reports its address, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressReport {
    /// A line on standard output.
    Output,
    /// A line on standard error.
    Error,
    /// A file that tools can be given: the address, then the release. It replaces an existing file, and stays when the
    /// server ends, as the reference's does. A symbolic link is replaced, not followed.
    File(PathBuf),
}

impl AddressReport {
    /// Reads a host's choice: `-` and `+` for the outputs of the process, or the path of a file.
    #[must_use]
    pub fn parse(place: &str) -> Self {
        match place {
            "-" | "/dev/stdout" => Self::Output,
            "+" | "/dev/stderr" => Self::Error,
            path => Self::File(path.into()),
        }
    }

    /// Writes the report.
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
                let version = contents.version.as_ref().map_or_else(String::new, |version| format!("v{version}\n"));
                replace(path, &(line + &version))
            }
        }
    }
}

/// Writes a new file under a temporary name and renames it. It follows no link and writes into no existing file: the
/// path may lead through another user's directory. Pipes and devices are written to.
fn replace(path: &Path, text: &str) -> Result<(), RendezvousError> {
    let is_kept = |kind: fs::FileType| kind.is_fifo() || kind.is_char_device();
    if path.symlink_metadata().is_ok_and(|found| is_kept(found.file_type())) {
        let opened = OpenOptions::new().write(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path);
        let file = opened.map_err(|source| failed("open", path, source))?;
        return tell(file, text).map_err(|source| failed("write", path, source));
    }
    let name = random_name().map_err(|source| failed("draw a random name for", path, source))?;
    let draft = path.with_file_name(format!(".modex-{name}.new"));
    let opened = OpenOptions::new().write(true).create_new(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(&draft);
    let file = opened.map_err(|source| failed("make", &draft, source))?;
    let written = tell(file, text).and_then(|()| fs::rename(&draft, path));
    written.map_err(|source| {
        // No reader knows this file.
        let _ = fs::remove_file(&draft);
        failed("write", path, source)
    })
}

fn tell(mut place: impl Write, text: &str) -> io::Result<()> {
    place.write_all(text.as_bytes())?;
    place.flush()
}
