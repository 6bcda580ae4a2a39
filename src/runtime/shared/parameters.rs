//! Parameters in the way of OpenPMIx (MCA): variables `PMIX_MCA_<name>`, and files with lines `name = value`.
//!
//! ```text
//! PMIX_MCA_<name>  ──> $HOME/.pmix/mca-params.conf  ──> /etc/pmix-mca-params.conf
//! (the first that sets a name counts)
//! ```
//!
//! - [`PARAMETERS`] lists the names that have an effect. Another name is told once, at the level debug.
//! - A file is untrusted: its size and lines are bounded, and a broken line is told and skipped.
//! - The files are read once in a process. The environment is read at each question, as a C program changes it.
//! - A process with more rights than its starter reads the system's file alone, and no variable.
//! - A file that another user may write names no servers ([`named_server`]).

mod servers;
mod table;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use super::local::{environment, has_more_rights_than_its_starter, trusted_variable};
use super::regular_file;
use crate::ptl::{Ports, PortsError};
pub use servers::{NamedServer, named_servers};
pub(in crate::runtime) use servers::{is_server_name, named_server};
pub use table::{
    DISABLE_IPV4, DISABLE_IPV6, IF_EXCLUDE, IF_INCLUDE, IPV4_PORTS, IPV6_PORTS, NAMED_SERVERS, PARAMETERS, Parameter,
    ParameterEffect, ParameterForm, REPORT_URI, SECURITY_MODULES, TAG_OUTPUT, TIMESTAMP_OUTPUT, XML_OUTPUT,
};
pub(in crate::runtime) use table::{
    FORWARD_ENVARS, LOSS_WINDOW, PNET, PNET_TCP_STATIC_PORTS, PNET_TEST_NODES, PNET_TEST_NVERTS, PNET_TEST_PLANES,
    parameter,
};

/// The beginning of the variables.
pub(in crate::runtime) const PREFIX: &str = "PMIX_MCA_";
/// The user's file, below the home directory.
const USER_FILE: &str = ".pmix/mca-params.conf";
/// The system's file.
const SYSTEM_FILE: &str = "/etc/pmix-mca-params.conf";
/// The word for no files.
const NO_FILES: &str = "none";

/// Limit of files that a list names.
const FILES_MAX: usize = 16;
/// Largest file.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Longest line.
const LINE_BYTES_MAX: usize = 4096;
/// Longest name.
const NAME_BYTES_MAX: usize = 255;
/// Complaints about one file that are kept.
const COMPLAINTS_MAX: usize = 16;
/// Names without an effect that are told.
const TOLD_MAX: usize = 64;

/// The parameters of the files.
#[derive(Debug, Default)]
pub(in crate::runtime) struct ParameterFiles {
    values: BTreeMap<String, FileValue>,
    complaints: Vec<String>,
}

#[derive(Debug)]
struct FileValue {
    value: String,
    file: PathBuf,
    line: usize,
}

/// Whether the parameter `pnet` names a module, and is no list of exceptions.
pub(in crate::runtime) fn is_pnet_module_named(module: &str) -> bool {
    parameter_value(PNET).is_some_and(|modules| names_module(&modules.to_string_lossy(), module))
}

/// Whether a list of modules has a name, and is no list of exceptions.
#[must_use]
pub fn names_module(modules: &str, module: &str) -> bool {
    !modules.starts_with('^') && modules.split(',').any(|name| name.trim() == module)
}

impl ParameterFiles {
    /// Those of this process.
    pub(in crate::runtime) fn of_process() -> &'static Self {
        static FOUND: OnceLock<ParameterFiles> = OnceLock::new();
        FOUND.get_or_init(|| match listed_paths() {
            Some(named) => Self::read(&named, Choice::Named),
            None => Self::read(&usual_paths(), Choice::Usual),
        })
    }

    #[cfg(test)]
    pub(in crate::runtime) fn of_text(text: &str) -> Self {
        let mut found = Self::default();
        found.take(Path::new("file"), &Contents { bytes: text.into(), is_trusted: true });
        found
    }

    /// Reads files. The first that sets a name counts; in one file, the last line with the name.
    fn read(paths: &[PathBuf], choice: Choice) -> Self {
        let mut found = Self::default();
        for path in paths {
            match contents(path, choice) {
                Ok(Some(text)) => found.take(path, &text),
                Ok(None) => {}
                Err(error) => found.complaints.push(format!("{} is not read: {error}", path.display())),
            }
        }
        found
    }

    fn take(&mut self, path: &Path, contents: &Contents) {
        let mut of_file = BTreeMap::new();
        let mut broken = 0_usize;
        for (line, text) in (1_usize..).zip(contents.bytes.split(|byte| *byte == b'\n')) {
            match contents.setting(text) {
                Ok(None) => {}
                Ok(Some((name, value))) => {
                    let value = FileValue { value: value.to_owned(), file: path.to_owned(), line };
                    of_file.insert(name.to_owned(), value);
                }
                Err(reason) => {
                    broken = broken.saturating_add(1);
                    if broken <= COMPLAINTS_MAX {
                        self.complaints.push(format!("{}, line {line} is ignored: {reason}", path.display()));
                    }
                }
            }
        }
        if broken > COMPLAINTS_MAX {
            let more = broken.saturating_sub(COMPLAINTS_MAX);
            self.complaints.push(format!("{}: {more} more lines are ignored", path.display()));
        }
        for (name, value) in of_file {
            self.values.entry(name).or_insert(value);
        }
    }

    /// The value of a parameter in the files. An empty value counts as not set.
    pub(in crate::runtime) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|found| found.value.as_str()).filter(|value| !value.is_empty())
    }

    fn file(&self, name: &str) -> Option<&Path> {
        self.values.get(name).map(|found| found.file.as_path())
    }
}

/// The value of a parameter: of the environment, else of the files.
#[must_use]
pub fn parameter_value(name: &str) -> Option<OsString> {
    trusted_variable(&format!("{PREFIX}{name}"))
        .or_else(|| ParameterFiles::of_process().value(name).map(OsString::from))
}

/// The ports of a parameter, such as [`IPV4_PORTS`]; the kernel's choice if it is not set.
///
/// # Errors
/// [`ParameterPortsError`].
pub fn parameter_ports(name: &'static str) -> Result<Ports, ParameterPortsError> {
    let value = parameter_value(name).unwrap_or_default();
    value.to_string_lossy().parse().map_err(|source| ParameterPortsError { name, source })
}

/// A parameter has no list of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parameter {name} can't be used: {source}")]
pub struct ParameterPortsError {
    name: &'static str,
    source: PortsError,
}

/// The value of a parameter that is true or false. Another value is told and ignored.
#[must_use]
pub fn parameter_flag(name: &str) -> Option<bool> {
    let value = parameter_value(name)?;
    let flag = value.to_str().and_then(flag);
    if flag.is_none() {
        tracing::warn!("the parameter {name} is {value:?} and is ignored; say true or false");
    }
    flag
}

fn flag(text: &str) -> Option<bool> {
    let words = [("true", true), ("yes", true), ("t", true), ("y", true), ("1", true)];
    let others = [("false", false), ("no", false), ("f", false), ("n", false), ("0", false)];
    words.iter().chain(&others).find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, flag)| *flag)
}

/// The value of a parameter that is a number of seconds. Another value is told and ignored.
pub(in crate::runtime) fn parameter_seconds(name: &str) -> Option<Duration> {
    let value = parameter_value(name)?;
    let seconds = value.to_str().and_then(seconds);
    if seconds.is_none() {
        tracing::warn!("the parameter {name} is {value:?} and is ignored; say a number of seconds");
    }
    seconds
}

fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()))
}

impl Parameter {
    /// Why the value that is set now has no effect. `None` if it has one, or if there is no value.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let value = parameter_value(self.name)?;
        let text = value.to_string_lossy();
        match self.form {
            ParameterForm::Flag if flag(&text).is_none() => Some("say true or false".to_owned()),
            ParameterForm::Seconds if seconds(&text).is_none() => Some("say a number of seconds".to_owned()),
            ParameterForm::Ports => text.parse::<Ports>().err().map(|error| error.to_string()),
            ParameterForm::Text | ParameterForm::Flag | ParameterForm::Seconds => None,
        }
    }
}

/// Areas of the log that parameters set to `debug`.
#[must_use]
pub fn verbose_areas() -> Vec<&'static str> {
    let is_verbose = |name: &str| {
        let value = parameter_value(name)?;
        value.to_str()?.parse::<i64>().ok().filter(|level| *level > 0)
    };
    let area = |parameter: &Parameter| match parameter.effect {
        ParameterEffect::LogArea(area) => is_verbose(parameter.name).map(|_| area),
        ParameterEffect::Setting(_) => None,
    };
    PARAMETERS.iter().filter_map(area).collect()
}

/// The place that sets a parameter now: a variable or a file.
#[must_use]
pub fn parameter_origin(name: &str) -> Option<String> {
    parameter_value(name)?;
    let variable = format!("{PREFIX}{name}");
    if trusted_variable(&variable).is_some() {
        return Some(variable);
    }
    ParameterFiles::of_process().file(name).map(|file| file.display().to_string())
}

/// Tells broken lines, and names that have no effect, once in a process.
pub fn tell_of_parameters() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let files = ParameterFiles::of_process();
        for complaint in &files.complaints {
            tracing::warn!("{complaint}");
        }
        if !tracing::event_enabled!(tracing::Level::DEBUG) {
            return;
        }
        for (name, place) in without_effect(files, &environment()).into_iter().take(TOLD_MAX) {
            tracing::debug!("the parameter {name} has no effect here ({place})");
        }
    });
}

/// Names that have no effect, and the places that set them.
fn without_effect(files: &ParameterFiles, variables: &[(OsString, OsString)]) -> BTreeMap<String, String> {
    let of_files = files.values.iter().map(|(name, found)| (name.clone(), found.file.display().to_string()));
    let of_variables = variables.iter().filter_map(|(variable, _)| {
        let name = variable.as_bytes().strip_prefix(PREFIX.as_bytes())?;
        Some((String::from_utf8_lossy(name).into_owned(), "environment".to_owned()))
    });
    // A file that names further files has no effect: these are found before any file is read.
    let has_effect =
        |name: &str, place: &str| parameter(name).is_some() && (name != table::FILES || place == "environment");
    of_files.chain(of_variables).filter(|(name, place)| !has_effect(name, place)).collect()
}

/// The files that the user names, in the order of precedence.
fn listed_paths() -> Option<Vec<PathBuf>> {
    trusted_variable(&format!("{PREFIX}{}", table::FILES)).map(|list| listed(&list))
}

/// The files without such a list, in the order of precedence.
fn usual_paths() -> Vec<PathBuf> {
    let home = if has_more_rights_than_its_starter() { None } else { trusted_variable("HOME") };
    let of_user = home.map(PathBuf::from).filter(|home| home.is_absolute()).map(|home| home.join(USER_FILE));
    of_user.into_iter().chain([PathBuf::from(SYSTEM_FILE)]).collect()
}

/// The choice of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A list has them, so their owners do not matter.
    Named,
    /// They have the usual names, at which another user may have put them.
    Usual,
}

/// The files of a list with commas or colons.
fn listed(list: &OsStr) -> Vec<PathBuf> {
    if list == NO_FILES {
        return Vec::new();
    }
    let parts = list.as_bytes().split(|byte| matches!(byte, b',' | b':')).filter(|part| !part.is_empty());
    parts.take(FILES_MAX).map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("it has more than {FILE_BYTES_MAX} bytes")]
    Size,
    #[error("another user may have written it; make it yours, and chmod o-w")]
    Untrusted,
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The content of a file.
struct Contents {
    bytes: Vec<u8>,
    /// Whether the file belongs to this user or root, and no other user may write it.
    is_trusted: bool,
}

impl Contents {
    /// As [`setting`]. A file that is not trusted names no servers: a user could lead a tool of root to a false server.
    fn setting<'a>(&self, line: &'a [u8]) -> Result<Option<(&'a str, &'a str)>, LineError> {
        match setting(line)? {
            Some((name, _)) if !self.is_trusted && name.starts_with(servers::PREFIX) => Err(LineError::Untrusted),
            found => Ok(found),
        }
    }
}

/// The content of a file; `None` if there is none.
fn contents(path: &Path, choice: Choice) -> Result<Option<Contents>, FileError> {
    let file = match regular_file::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    // A group may share a file. In a directory that everybody may write, anybody may put one. Only root writes in /etc,
    // and a user namespace may show root as another user.
    let is_in_home = choice == Choice::Usual && path != Path::new(SYSTEM_FILE);
    if is_in_home && !is_safe(&metadata, OTHERS_WRITE) {
        return Err(FileError::Untrusted);
    }
    let is_trusted = is_safe(&metadata, GROUP_WRITES | OTHERS_WRITE);
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX { Err(FileError::Size) } else { Ok(Some(Contents { bytes, is_trusted })) }
}

/// Whether a file belongs to this user or root, and nobody may write it by these bits of its mode.
fn is_safe(file: &Metadata, writers: u32) -> bool {
    file.mode() & writers == 0 && [0, nix::unistd::geteuid().as_raw()].contains(&file.uid())
}

/// Bits of a mode: all members of the group may write, and all users.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Why a line is ignored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum LineError {
    #[error("it has no \"=\"")]
    NoValue,
    #[error("a name has letters, digits, \"_\", \"-\" and \".\", {NAME_BYTES_MAX} of them at most")]
    Name,
    #[error("it is not text, or it has control characters")]
    Text,
    #[error("it has more than {LINE_BYTES_MAX} bytes")]
    Length,
    #[error("another user may have written this file, so it names no server; chmod go-w makes it yours alone")]
    Untrusted,
}

/// Name and value of a line; `None` for an empty line and a comment.
fn setting(line: &[u8]) -> Result<Option<(&str, &str)>, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::Length);
    }
    let line = std::str::from_utf8(line).map_err(|_| LineError::Text)?.trim();
    if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
        return Ok(None);
    }
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err(LineError::Text);
    }
    let (name, value) = line.split_once('=').ok_or(LineError::NoValue)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_of_name) {
        return Err(LineError::Name);
    }
    let quoted = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    Ok(Some((name, quoted('"').or_else(|| quoted('\'')).unwrap_or(value))))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[&[u8]]) -> ParameterFiles {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..files.len()).map(|number| directory.path().join(number.to_string())).collect();
        for (path, bytes) in paths.iter().zip(files) {
            std::fs::write(path, bytes).unwrap();
        }
        ParameterFiles::read(&paths, Choice::Named)
    }

    #[test]
    fn the_first_file_with_a_name_counts_and_in_it_the_last_line() {
        let user =
            b"# a comment\n// another\n\n psec = \"munge\" \nforward_envars=A\nforward_envars = B=C, D\nempty =\n";
        let system = b"psec = native\nptl_base_report_uri = '-'\nempty = 7\n";
        let found = read(&[user, system]);
        assert_eq!(found.complaints, [""; 0]);
        let values = ["psec", "forward_envars", "ptl_base_report_uri", "empty", "none"].map(|name| found.value(name));
        assert_eq!(values, [Some("munge"), Some("B=C, D"), Some("-"), None, None]);
    }

    #[test]
    fn a_broken_line_is_told_and_skipped() {
        let long = [b"a = ".as_slice(), &vec![b'x'; LINE_BYTES_MAX]].concat();
        let lines: [&[u8]; 6] = [b"psec", b"a b = c", b"= c", b"a = \xff", b"a = \x1b[2J", &long];
        let expected =
            [LineError::NoValue, LineError::Name, LineError::Name, LineError::Text, LineError::Text, LineError::Length];
        for (line, reason) in lines.iter().zip(expected) {
            assert_eq!(setting(line), Err(reason));
        }
        let found = read(&[&[lines.join(b"\n".as_slice()).as_slice(), b"\r\npsec = munge\r\n"].concat()]);
        assert_eq!((found.complaints.len(), found.value("psec")), (6, Some("munge")));
        assert!(found.complaints[1].contains("line 2 is ignored: a name has"), "{:?}", found.complaints);
        let many = read(&[&b"broken\n".repeat(100)]);
        assert_eq!(many.complaints.len(), COMPLAINTS_MAX + 1);
        assert!(many.complaints[COMPLAINTS_MAX].ends_with("84 more lines are ignored"), "{:?}", many.complaints);
    }

    /// A pipe without a writer must not hold up the process.
    #[test]
    fn only_a_regular_file_of_a_bounded_size_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let [pipe, large, absent] = ["pipe", "large", "absent"].map(|name| directory.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(&large, b"# \n".repeat(FILE_BYTES_MAX)).unwrap();
        let found =
            ParameterFiles::read(&[directory.path().into(), pipe, large, absent, "/dev/zero".into()], Choice::Named);
        let reasons = ["not a regular file", "not a regular file", "more than 65536 bytes", "not a regular file"];
        assert_eq!(found.complaints.len(), reasons.len(), "{:?}", found.complaints);
        for (complaint, reason) in found.complaints.iter().zip(reasons) {
            assert!(complaint.ends_with(reason), "{complaint}");
        }
    }

    /// Regression: in a `~/.pmix` that everybody may write, another user could choose files that a server writes.
    #[test]
    fn the_file_of_the_home_is_read_only_if_no_stranger_can_have_written_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "psec = munge\n").unwrap();
        let read_with = |mode, choice| {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let found = ParameterFiles::read(std::slice::from_ref(&path), choice);
            (found.value("psec").is_some(), found.complaints.len())
        };
        for (mode, choice, expected) in [
            (0o644, Choice::Usual, (true, 0)),
            (0o664, Choice::Usual, (true, 0)),
            (0o646, Choice::Usual, (false, 1)),
            (0o646, Choice::Named, (true, 0)),
        ] {
            assert_eq!(read_with(mode, choice), expected, "{mode:o}");
        }
        // Only root may give a file away.
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(read_with(0o644, Choice::Usual), (false, 1));
            assert_eq!(read_with(0o644, Choice::Named), (true, 0));
        }
    }

    /// A user's file could lead a tool of root to a false server.
    #[test]
    fn a_file_that_others_may_write_names_no_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "psec = munge\nmodex_server_one = a.0;tcp4://1.2.3.4:5\n").unwrap();
        let read_with = |mode| {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            ParameterFiles::read(std::slice::from_ref(&path), Choice::Named)
        };
        for mode in [0o666, 0o620, 0o602] {
            let found = read_with(mode);
            assert_eq!((found.value("psec"), found.value("modex_server_one")), (Some("munge"), None), "{mode:o}");
            assert!(found.complaints[0].contains("line 2 is ignored: another user may have"), "{:?}", found.complaints);
        }
        let found = read_with(0o644);
        assert_eq!((found.value("modex_server_one"), found.complaints.len()), (Some("a.0;tcp4://1.2.3.4:5"), 0));
    }

    #[test]
    fn a_list_names_files_or_none() {
        assert_eq!(listed("a,/b:c".as_ref()), ["a", "/b", "c"].map(PathBuf::from));
        assert!(listed("none".as_ref()).is_empty());
        assert_eq!(listed(&OsString::from("a,".repeat(100))).len(), FILES_MAX);
    }

    #[test]
    fn a_name_without_effect_is_found_in_files_and_environment() {
        let files = read(&[b"gds = hash\npsec = munge\nmca_base_param_files = other\n"]);
        let variables = [("PMIX_MCA_ptl", "usock"), ("PMIX_MCA_modex_server_one", "a"), ("PMIX_RANK", "0")];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let told = without_effect(&files, &variables);
        assert_eq!(told.keys().collect::<Vec<_>>(), ["gds", "mca_base_param_files", "ptl"]);
    }

    #[test]
    fn the_table_is_in_order_and_knows_truth() {
        assert!(PARAMETERS.is_sorted_by(|one, other| one.name < other.name));
        assert_eq!(["TRUE", "1", "no", "0", "2"].map(flag), [Some(true), Some(true), Some(false), Some(false), None]);
    }
}
