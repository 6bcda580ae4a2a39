//! The files for a job's output, as its directives name them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::keys;
use crate::types::{Info, InfoFlags, ProcId, Status, Value};

/// The directives of a job for files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDirectives {
    /// The place of the files; `None` if no file gets the output.
    pub place: Option<Place>,
    /// Whether the output goes nowhere else; `None` if no directive says so.
    pub is_alone: Option<bool>,
    /// Whether the name of the file is a pattern: `%n` stands for the namespace, `%r` for the rank, `%R` for the rank
    /// with zeros in front, `%h` for the node, and `%%` for `%`.
    pub is_pattern: bool,
}

/// A place for output beside the outputs of the process that writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file for each rank and stream, with this beginning of its name.
    File(PathBuf),
    /// A directory for each rank, in this one.
    Directory(PathBuf),
}

/// A stream of a process, and the other facts in the name of its file.
#[derive(Clone, Copy, Debug)]
pub struct NamedStream<'a> {
    /// The process.
    pub proc: &'a ProcId,
    /// Whether this is its standard output.
    pub is_stdout: bool,
    /// The number of processes of its job, or 0.
    pub process_count: u32,
    /// The node.
    pub host: &'a str,
}

/// Why a required directive is not honoured.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnmetFile {
    /// A directive for files without a file.
    #[error("{key} is required, but no file gets the output; add PMIX_IOF_OUTPUT_TO_FILE or leave the directive out")]
    NoFile {
        /// The directive.
        key: String,
    },
    /// Two places.
    #[error("{key} is required, but another directive names another place; leave one of them out")]
    OtherPlace {
        /// The directive.
        key: String,
    },
    /// A place that is no path.
    #[error("the value of {key} is no path")]
    NoPath {
        /// The directive.
        key: String,
    },
    /// A flag that is none.
    #[error("the value of the required {key} is neither true nor false")]
    NoFlag {
        /// The directive.
        key: String,
    },
}

impl UnmetFile {
    /// The answer for the requester.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::NoFile { .. } | Self::OtherPlace { .. } => Status::ERR_NOT_SUPPORTED,
            Self::NoPath { .. } | Self::NoFlag { .. } => Status::ERR_BAD_PARAM,
        }
    }
}

impl FileDirectives {
    /// Every directive for files.
    pub const KEYS: [&str; 7] = [FILES[0], FILES[1], DIRECTORIES[0], DIRECTORIES[1], ALONE[0], ALONE[1], PATTERN];

    /// The directives among these infos. The last one of a kind counts.
    pub fn of<'a>(infos: impl IntoIterator<Item = &'a Info>) -> Self {
        let mut directives = Self::default();
        for info in infos {
            directives.take(info.key.as_str(), &info.value);
        }
        directives
    }

    /// Takes a directive. Returns false for another key, and for a place that is no path.
    pub fn take(&mut self, key: &str, value: &Value) -> bool {
        let is_true = value.as_bool() == Some(true);
        match (key, value) {
            (key, Value::String(path)) if Self::names_place(key) => {
                let path = PathBuf::from(OsString::from_vec(path.as_bytes().to_vec()));
                let is_file = FILES.contains(&key);
                self.place = Some(if is_file { Place::File(path) } else { Place::Directory(path) });
            }
            (key, _) if ALONE.contains(&key) => self.is_alone = Some(is_true),
            (PATTERN, _) => self.is_pattern = is_true,
            _ => return false,
        }
        true
    }

    /// Whether files get the output and nothing else does.
    #[must_use]
    pub fn are_alone(&self) -> bool {
        self.place.is_some() && self.is_alone == Some(true)
    }

    /// Whether a directive names the place of the files.
    #[must_use]
    pub fn names_place(key: &str) -> bool {
        FILES.contains(&key) || DIRECTORIES.contains(&key)
    }

    /// Checks a required directive for files.
    ///
    /// # Errors
    /// If these directives do not honour it.
    pub fn check(&self, info: &Info) -> Result<(), UnmetFile> {
        let name = info.key.as_str();
        let key = || name.to_owned();
        if Self::names_place(name) {
            let named = Self::of([info]).place.ok_or_else(|| UnmetFile::NoPath { key: key() })?;
            let is_met = self.place.as_ref() == Some(&named);
            return if is_met { Ok(()) } else { Err(UnmetFile::OtherPlace { key: key() }) };
        }
        let is_set = info.value.as_bool().ok_or_else(|| UnmetFile::NoFlag { key: key() })?;
        let is_met = match name {
            PATTERN => matches!(self.place, Some(Place::File(_))),
            _ => self.place.is_some(),
        };
        if is_met || !is_set { Ok(()) } else { Err(UnmetFile::NoFile { key: key() }) }
    }

    /// Checks all required directives for files among these infos, and the types of all places.
    ///
    /// # Errors
    /// The first directive that is not honoured.
    pub fn check_all(&self, infos: &[Info]) -> Result<(), UnmetFile> {
        let is_no_path = |info: &Info| Self::names_place(info.key.as_str()) && !matches!(info.value, Value::String(_));
        let is_checked = |info: &&Info| info.flags().contains(InfoFlags::REQUIRED) || is_no_path(info);
        let of_files = infos.iter().filter(|info| Self::KEYS.contains(&info.key.as_str()));
        of_files.filter(is_checked).try_for_each(|info| self.check(info))
    }

    /// The file of a stream, if files get the output. Names are those of OpenPMIx: the rank has as many digits as the
    /// job's size.
    #[must_use]
    pub fn path(&self, stream: &NamedStream<'_>) -> Option<PathBuf> {
        let NamedStream { proc, is_stdout, process_count, host } = *stream;
        let digits = process_count.to_string().len();
        let (namespace, rank) = (as_component(proc.namespace.as_str()), proc.rank.to_raw());
        let padded = format!("{rank:0digits$}");
        Some(match self.place.as_ref()? {
            Place::Directory(directory) => {
                let name = if is_stdout { "stdout" } else { "stderr" };
                directory.join(namespace).join(format!("rank.{padded}")).join(name)
            }
            Place::File(file) => {
                let mut name = match self.is_pattern {
                    true => filled_pattern(file, [&namespace, &rank.to_string(), &padded, &as_component(host)]),
                    false => OsString::from_iter([file.as_os_str(), format!(".{namespace}.{padded}").as_ref()]),
                };
                name.push(if is_stdout { ".out" } else { ".err" });
                name.into()
            }
        })
    }
}

/// A pattern with the names of a process in it, as OpenPMIx 7 fills it. Other signs `%` stay.
fn filled_pattern(pattern: &Path, [namespace, rank, padded_rank, host]: [&str; 4]) -> OsString {
    let mut name = Vec::new();
    let mut rest = pattern.as_os_str().as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let filled = match (byte, after.first()) {
            (b'%', Some(b'n')) => Some(namespace),
            (b'%', Some(b'r')) => Some(rank),
            (b'%', Some(b'R')) => Some(padded_rank),
            (b'%', Some(b'h')) => Some(host),
            (b'%', Some(b'%')) => Some("%"),
            _ => None,
        };
        name.extend_from_slice(filled.map_or(std::slice::from_ref(&byte), str::as_bytes));
        rest = after.get(usize::from(filled.is_some())..).unwrap_or_default();
    }
    OsString::from_vec(name)
}

/// A name of a job as one component of a path, which does not leave its directory.
fn as_component(name: &str) -> String {
    match name {
        "." | ".." => name.replace('.', "%2E"),
        name => name.replace('/', "%2F"),
    }
}

const FILES: [&str; 2] = [keys::IOF_OUTPUT_TO_FILE.name(), keys::OUTPUT_TO_FILE.name()];
const DIRECTORIES: [&str; 2] = [keys::IOF_OUTPUT_TO_DIRECTORY.name(), keys::OUTPUT_TO_DIRECTORY.name()];
const ALONE: [&str; 2] = [keys::IOF_FILE_ONLY.name(), keys::OUTPUT_NOCOPY.name()];
const PATTERN: &str = keys::IOF_FILE_PATTERN.name();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Key, Namespace};

    fn path(directives: &FileDirectives, namespace: &str, is_stdout: bool) -> PathBuf {
        let proc = ProcId::new(Namespace::new(namespace).unwrap(), 3);
        directives.path(&NamedStream { proc: &proc, is_stdout, process_count: 16, host: "n7" }).unwrap()
    }

    fn at(place: Place) -> FileDirectives {
        FileDirectives { place: Some(place), ..FileDirectives::default() }
    }

    #[test]
    fn files_have_the_names_of_the_reference() {
        let directory = at(Place::Directory("/d".into()));
        assert_eq!(path(&directory, "job", true), Path::new("/d/job/rank.03/stdout"));
        assert_eq!(path(&at(Place::File("/d/f".into())), "job", false), Path::new("/d/f.job.03.err"));
        for (pattern, expected) in [
            ("/d/f", "/d/f.err"),
            ("/d/%n/100%-%r%", "/d/job/100%-3%.err"),
            ("/d/%R%%r", "/d/03%r.err"),
            ("/d/%h", "/d/n7.err"),
        ] {
            let file = FileDirectives { is_pattern: true, ..at(Place::File(pattern.into())) };
            assert_eq!(path(&file, "job", false), Path::new(expected));
        }
    }

    #[test]
    fn names_of_jobs_do_not_leave_the_directory() {
        for (name, expected) in [
            ("../x/y", "/d/..%2Fx%2Fy/rank.03/stdout"),
            ("..", "/d/%2E%2E/rank.03/stdout"),
            (".", "/d/%2E/rank.03/stdout"),
            ("/etc", "/d/%2Fetc/rank.03/stdout"),
        ] {
            assert_eq!(path(&at(Place::Directory("/d".into())), name, true), Path::new(expected));
        }
    }

    #[test]
    fn the_last_place_counts_and_a_required_directive_without_it_is_unmet() {
        let info = |name: &'static str, value: Value| Info::new(Key::from_static(name), value);
        let required = |info: Info| Info { flags: InfoFlags::REQUIRED.bits(), ..info };
        let text = |text: &str| Value::String(text.into());
        let (file, directory) = (info(FILES[0], text("/f")), info(DIRECTORIES[1], text("/d")));
        let [alone, pattern] = [ALONE[1], PATTERN].map(|key| required(info(key, true.into())));
        let check = |infos: &[Info]| FileDirectives::of(infos).check_all(infos).map_err(|unmet| unmet.status());
        let refused = Err(Status::ERR_NOT_SUPPORTED);
        assert_eq!(check(&[file.clone(), required(directory.clone()), alone.clone()]), Ok(()));
        assert_eq!(check(&[required(file.clone()), directory.clone()]), refused);
        assert_eq!((check(&[alone]), check(&[directory, pattern.clone()])), (refused, refused));
        assert_eq!(check(&[file, pattern]), Ok(()));
        assert_eq!(check(&[required(info(ALONE[0], false.into()))]), Ok(()));
        for wrong in [info(FILES[1], 1_u32.into()), required(info(ALONE[0], 1_u32.into()))] {
            assert_eq!(check(&[wrong]), Err(Status::ERR_BAD_PARAM));
        }
        assert!(!FileDirectives::default().take(keys::IOF_TAG_OUTPUT.name(), &true.into()));
    }
}
