//! Directives for output that are marked as required: each is honoured or refused.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use modex::AsStatus;
use modex::output::{FileDirectives, Place, UnmetFile, check_file};
use modex::types::{Info, InfoFlags, Namespace, ProcId, Status};
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, statfs};
use nix::unistd::{AccessFlags, eaccess};

use super::files::JobOutput;
use super::style::OutputStyle;

/// Why a required directive is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnmetOutput {
    #[error(transparent)]
    Unmet(#[from] UnmetFile),
    #[error("output is required in {}, which can't be written: {reason}; name another place", .path.display())]
    Unwritable { path: PathBuf, reason: io::Error },
}

impl AsStatus for UnmetOutput {
    fn status(&self) -> Status {
        match self {
            Self::Unmet(unmet) => unmet.status(),
            Self::Unwritable { .. } => Status::ERR_FILE_OPEN_FAILURE,
        }
    }
}

impl OutputStyle {
    /// Refuses required directives among these infos that this style does not honour. It may have others in addition.
    /// Files come with the output, so only their directory is looked at, and those files that are there.
    ///
    /// # Errors
    /// The first one. A line of the log says it, too.
    pub(crate) fn refuse_unmet<'a>(&self, infos: impl IntoIterator<Item = &'a Info>) -> Result<(), UnmetOutput> {
        let mut required = infos.into_iter().filter(|info| info.flags().contains(InfoFlags::REQUIRED));
        required
            .try_for_each(|info| self.check_met(info))
            .inspect_err(|error| tracing::error!("output is not forwarded as asked: {error}"))
    }

    fn check_met(&self, info: &Info) -> Result<(), UnmetOutput> {
        let name = info.key.as_str();
        if FileDirectives::KEYS.contains(&name) {
            self.files.check(info)?;
        } else if Self::is_directive(name) && info.value.as_bool().is_none() {
            return Err(UnmetFile::NoFlag { key: name.to_owned() }.into());
        }
        match &self.files.place {
            Some(place) if FileDirectives::names_place(name) => self.check_place(name, place),
            _ => Ok(()),
        }
    }

    /// Checks that files can be made in a place.
    fn check_place(&self, directive: &str, place: &Place) -> Result<(), UnmetOutput> {
        // PMIX_IOF_LOCAL_OUTPUT = false: this process writes nothing.
        if self.is_local == Some(false) {
            return Err(UnmetFile::NoFile { key: directive.to_owned() }.into());
        }
        let unwritable = |path: PathBuf| |reason| UnmetOutput::Unwritable { path, reason };
        let directory = self.directory_of(place);
        check_directory(&directory).map_err(unwritable(directory))?;
        match place {
            Place::File(file) if self.files.is_pattern => {
                files_of_pattern(file).try_for_each(|path| check_existing(&path).map_err(unwritable(path)))
            }
            _ => Ok(()),
        }
    }

    /// The directory of the files, as far as it is the same for all processes.
    fn directory_of(&self, place: &Place) -> PathBuf {
        let varies = |part: &&std::path::Component<'_>| {
            self.files.is_pattern && part.as_os_str().to_string_lossy().contains('%')
        };
        match place {
            Place::Directory(directory) => directory.clone(),
            Place::File(file) => {
                let components: Vec<_> = file.parent().unwrap_or(Path::new("")).components().collect();
                components.iter().take_while(|part| !varies(part)).collect()
            }
        }
    }
}

impl JobOutput {
    /// Refuses a required destination among these infos if a file for a process of the job can't be written.
    ///
    /// # Errors
    /// The first such file. A line of the log says it, too.
    pub(crate) fn refuse_unwritable(&self, namespace: &Namespace, infos: &[Info]) -> Result<(), UnmetOutput> {
        let is_required =
            |info: &Info| info.flags().contains(InfoFlags::REQUIRED) && FileDirectives::names_place(info.key.as_str());
        if !infos.iter().any(is_required) {
            return Ok(());
        }
        let ranks = 0..self.process_count.min(LOOKED_AT_MAX);
        let mut paths = ranks.flat_map(|rank| self.paths(&ProcId::new(namespace.clone(), rank)));
        paths
            .try_for_each(|path| check_existing(&path).map_err(|reason| UnmetOutput::Unwritable { path, reason }))
            .inspect_err(|error| tracing::error!("output is not forwarded as asked: {error}"))
    }
}

/// The most processes whose files are looked at.
const LOOKED_AT_MAX: u32 = 1024;

/// The files of a pattern that is the same for all processes.
fn files_of_pattern(pattern: &Path) -> impl Iterator<Item = PathBuf> {
    let is_fixed = !pattern.to_string_lossy().contains('%');
    let named = move |end: &str| OsString::from_iter([pattern.as_os_str(), OsStr::new(end)]).into();
    [".out", ".err"].into_iter().filter(move |_| is_fixed).map(named)
}

/// Checks that this process can write a file if it exists.
fn check_existing(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    check_file(path, &found)?;
    Ok(eaccess(path, AccessFlags::W_OK)?)
}

/// Checks that files can be made in a file system at all.
fn check_file_system(directory: &Path) -> io::Result<()> {
    let of_kernel = [PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC];
    if of_kernel.contains(&statfs(directory)?.filesystem_type()) {
        return Err(io::Error::other("its file system takes no files"));
    }
    Ok(())
}

/// Checks that this process can make files in a directory, or the directory.
fn check_directory(path: &Path) -> io::Result<()> {
    for ancestor in path.ancestors() {
        let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        match fs::metadata(ancestor) {
            // A link that leads nowhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound && ancestor.is_symlink() => return Err(error),
            Ok(found) if !found.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
            Ok(_) => {
                eaccess(ancestor, AccessFlags::W_OK | AccessFlags::X_OK)?;
                return check_file_system(ancestor);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use modex::keys;
    use modex::types::{Key, Value};

    use super::*;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static(key), value) }
    }

    fn refusal(infos: &[Info]) -> Option<Status> {
        OutputStyle::of(infos).refuse_unmet(infos).err().map(|unmet| unmet.status())
    }

    /// Regression: all of these succeeded, and nothing was written.
    #[test]
    fn a_required_file_is_written_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        fs::write(&plain, "").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let taken = directory.path().join("taken");
        std::os::unix::fs::symlink("nowhere", directory.path().join("taken.err")).unwrap();
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (file, into) = (keys::IOF_OUTPUT_TO_FILE.name(), keys::IOF_OUTPUT_TO_DIRECTORY.name());
        let only = || info(keys::IOF_FILE_ONLY.name(), true);
        let pattern = || info(keys::IOF_FILE_PATTERN.name(), true);
        let text = |text: String| Value::String(text.as_str().into());
        let fine = || info(file, text(path(directory.path().join("a/b"))));
        let below = || text(path(plain.join("x/f")));
        for (infos, expected) in [
            (vec![only()], Some(Status::ERR_NOT_SUPPORTED)),
            (vec![info(keys::OUTPUT_NOCOPY.name(), true)], Some(Status::ERR_NOT_SUPPORTED)),
            (vec![info(keys::IOF_FILE_ONLY.name(), false)], None),
            (vec![fine(), only(), pattern()], None),
            (vec![info(into, text(path(directory.path().join("c")))), only()], None),
            (vec![info(into, text(path(directory.path().join("c")))), pattern()], Some(Status::ERR_NOT_SUPPORTED)),
            (vec![fine(), info(into, "d")], Some(Status::ERR_NOT_SUPPORTED)),
            (vec![info(file, below())], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(into, below())], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(into, text(path(plain.clone())))], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(file, text(path(plain.join("%n/f")))), pattern()], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(file, text(path(directory.path().join("%n/%r/f")))), pattern()], None),
            (vec![info(file, "relative")], None),
            (vec![info(file, true)], Some(Status::ERR_BAD_PARAM)),
            (vec![info(keys::IOF_FILE_ONLY.name(), 1_u32)], Some(Status::ERR_BAD_PARAM)),
            (vec![fine(), info(keys::IOF_LOCAL_OUTPUT.name(), false)], Some(Status::ERR_NOT_SUPPORTED)),
            (vec![info(into, text(path(link.clone())))], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(into, "/proc/nope")], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(file, "/sys/nope/f")], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(file, text(path(taken.clone()))), pattern()], Some(Status::ERR_FILE_OPEN_FAILURE)),
            (vec![info(file, text(path(taken.clone())))], None),
        ] {
            assert_eq!(refusal(&infos), expected, "{infos:?}");
        }
        let job = |process_count| {
            let style = OutputStyle::of(&[fine()]);
            JobOutput { style, process_count, ..JobOutput::default() }
        };
        let namespace = Namespace::new("job").unwrap();
        fs::create_dir_all(directory.path().join("a/b.job.3.err")).unwrap();
        let refused = |count, infos: &[Info]| job(count).refuse_unwritable(&namespace, infos).is_err();
        assert!(refused(4, &[fine()]) && !refused(3, &[fine()]) && !refused(4, &[Info { flags: 0, ..fine() }]));
        let unmarked = Info { flags: 0, ..only() };
        assert_eq!(refusal(&[unmarked]), None);
    }
}
