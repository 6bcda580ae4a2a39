//! The MPI library of a program: the protocol by which its ranks join the job, and advice if they do not.
//!
//! The names of the libraries that a program needs show which MPI it uses. Some MPI libraries speak PMIx, others PMI-1,
//! and some of them PMIx only if the environment contains a setting. A library that finds nothing that it knows starts
//! each rank alone, and neither library nor server notices.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::apps::App;
use modex::storage::elf::Needs;

/// The user's choice of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PmiChoice {
    /// By the library that the program needs: PMI-1 or PMI-2 for MPICH, Intel MPI and Slurm's libpmi2, PMIx for all
    /// others
    Auto,
    /// PMIx
    Pmix,
    /// PMI-1, for programs whose MPI library the launcher can't see, such as Python with mpi4py on MPICH
    Pmi1,
    /// The same as pmi1: the rank's library chooses between PMI-1 and PMI-2
    Pmi2,
}

/// The protocol by which a rank joins its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Pmix,
    /// PMI-1 or PMI-2, as the rank's first line says.
    Pmi,
}

/// A family of MPI libraries that needs the same setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MpiLibrary {
    /// Open MPI 3 to 5. Releases before 5 need a setting.
    OpenMpi,
    /// MPICH under its own name, as in Debian.
    Mpich,
    /// The common binary interface of Intel MPI, MPICH and others.
    MpichAbi,
    /// Slurm's library of PMI-2, without an MPI library or below one.
    Pmi2,
}

impl MpiLibrary {
    /// The library with this file name or DT_NEEDED entry, such as `libmpi.so.40`.
    fn named(file_name: &[u8]) -> Option<Self> {
        let (name, release) = std::str::from_utf8(file_name).ok()?.split_once(".so.")?;
        let release = release.split('.').next().unwrap_or_default();
        match (name, release) {
            // Fortran programs may need only the library of their language, such as libmpi_mpifh.so.40.
            (name, "40") if name == "libmpi" || name.starts_with("libmpi_") => Some(Self::OpenMpi),
            (name, "12") if name.starts_with("libmpich") => Some(Self::Mpich),
            ("libmpi" | "libmpifort" | "libmpicxx", "12") => Some(Self::MpichAbi),
            ("libpmi2", "0") => Some(Self::Pmi2),
            _ => None,
        }
    }

    /// The name for people.
    const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::MpichAbi => "Intel MPI or MPICH",
            Self::Pmi2 => "PMI-2",
        }
    }

    /// The advice for a job that nobody joined by this protocol.
    const fn advice(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (Self::OpenMpi, Protocol::Pmix) => "for Open MPI 4.1 write modex run -x JSM_JSRUN_PORT=1 ...",
            (Self::OpenMpi, Protocol::Pmi) => "Open MPI speaks PMIx: write modex run --pmi pmix ...",
            (Self::Mpich | Self::MpichAbi | Self::Pmi2, Protocol::Pmix) => "write modex run --pmi pmi1 ...",
            (Self::Mpich | Self::MpichAbi | Self::Pmi2, Protocol::Pmi) => {
                "its library may be built for another launcher: try modex run --pmi pmix ..."
            }
        }
    }

    /// The variables by which the library finds a PMIx server. A user that has set one wants no other.
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["JSM_JSRUN_PORT", "FLUX_JOB_ID"],
            Self::Mpich | Self::Pmi2 => &[],
            Self::MpichAbi => &["I_MPI_PMI"],
        }
    }
}

/// How the ranks of a program join the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MpiSetup {
    pub(super) protocol: Protocol,
    /// Variables that make the MPI library ask a PMIx server.
    pub(super) settings: Vec<(&'static str, OsString)>,
}

impl MpiSetup {
    /// Looks at a program's file, if there is one, and the libraries that it needs.
    pub(super) fn of(
        app: &App,
        file: Option<&Path>,
        choice: PmiChoice,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let directories = app.variable("LD_LIBRARY_PATH", &lookup).unwrap_or_default();
        let found = file.and_then(|path| NeededMpi::of(path, &directories));
        let setting = found.as_ref().and_then(|found| Some((*found.library.settings().first()?, found)));
        let is_set = |name: &&str| app.variable(name, &lookup).is_some();
        let is_chosen = found.as_ref().is_some_and(|found| found.library.settings().iter().any(is_set));
        let protocol = match (choice, found.as_ref().map(|found| found.library)) {
            (PmiChoice::Pmix, _) => Protocol::Pmix,
            (PmiChoice::Pmi1 | PmiChoice::Pmi2, _) => Protocol::Pmi,
            (PmiChoice::Auto, Some(MpiLibrary::Mpich | MpiLibrary::Pmi2)) => Protocol::Pmi,
            // A user that has set I_MPI_PMI wants PMIx.
            (PmiChoice::Auto, Some(MpiLibrary::MpichAbi)) if !is_chosen => Protocol::Pmi,
            (PmiChoice::Auto, _) => Protocol::Pmix,
        };
        let settings = match setting.filter(|_| protocol == Protocol::Pmix && !is_chosen) {
            Some((name, NeededMpi { library: MpiLibrary::OpenMpi, is_before_5: true })) => vec![(name, "1".into())],
            Some((name, NeededMpi { library: MpiLibrary::MpichAbi, .. })) => {
                let library = own_library().map(|path| ("I_MPI_PMI_LIBRARY", path.into_os_string()));
                library.map_or_else(Vec::new, |library| vec![(name, "pmix".into()), library])
            }
            _ => Vec::new(),
        };
        Self { protocol, settings }
    }
}

/// The C library of this installation, for MPI libraries that load a PMIx library by its path.
fn own_library() -> Option<PathBuf> {
    let command = std::env::current_exe().ok()?;
    let directory = command.parent()?;
    let places = [directory.join("../lib"), directory.to_owned()];
    places.iter().find_map(|place| place.join("libpmix.so.2").canonicalize().ok())
}

/// The MPI library that a program needs, by itself or through other libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NeededMpi {
    library: MpiLibrary,
    /// Whether it is Open MPI with the runtime that releases before 5 had.
    is_before_5: bool,
}

impl NeededMpi {
    /// `directories` is the rank's `LD_LIBRARY_PATH`.
    fn of(program: &Path, directories: &OsStr) -> Option<Self> {
        let mut files = VecDeque::from([program.to_owned()]);
        let mut known = BTreeSet::new();
        while let Some(path) = files.pop_front() {
            // The dynamic linker skips a library of another kind of machine, too.
            let Some(needs) = Needs::of(&path) else { continue };
            if let Some(library) = needs.libraries.iter().find_map(|name| MpiLibrary::named(name.as_bytes())) {
                let has_runtime = |path: PathBuf| {
                    let needed = Needs::of(&path).unwrap_or_default().libraries;
                    needed.iter().any(|name| name.as_bytes().starts_with(b"libopen-rte.so"))
                };
                // The libraries for Fortran and C++ do not need the runtime, but this one does.
                let main_library = needs.find(OsStr::new("libmpi.so.40"), directories);
                let is_before_5 = library == MpiLibrary::OpenMpi && main_library.is_some_and(has_runtime);
                return Some(Self { library, is_before_5 });
            }
            for name in needs.libraries.iter().filter(|name| !is_of_system(name)) {
                if known.len() < FILES_MAX && known.insert(name.clone()) {
                    files.extend(needs.find(name, directories));
                }
            }
        }
        None
    }
}

/// Whether a library belongs to the C library. It needs no MPI, and nearly every program needs it.
fn is_of_system(name: &OsStr) -> bool {
    let names = ["libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libgcc_s.so", "ld-linux"];
    names.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()))
}

/// The part of the list of a process's mappings that is read. A process chooses the length of the list.
const MAPS_BYTES_MAX: u64 = 4 << 20;

/// Most libraries of a program that the launcher looks at.
const FILES_MAX: usize = 64;

/// The search for an MPI library in the programs and processes of a job.
#[derive(Debug)]
pub(super) struct MpiSearch {
    /// Programs, and the protocol of each.
    apps: Vec<(App, Protocol)>,
    /// The library that a process has loaded, as an extension of Python does.
    loaded: Option<MpiLibrary>,
}

impl MpiSearch {
    pub(super) const fn new(apps: Vec<(App, Protocol)>) -> Self {
        Self { apps, loaded: None }
    }

    /// Looks at the libraries that a process has loaded. An ended process shows none.
    pub(super) fn look_at(&mut self, process: u32) {
        if self.loaded.is_none() {
            self.loaded = File::open(format!("/proc/{process}/maps"))
                .ok()
                .and_then(|maps| mapped(BufReader::new(maps.take(MAPS_BYTES_MAX))));
        }
    }

    /// The line for the user of a job that no rank joined, if it uses an MPI library.
    pub(super) fn advice(&self, lookup: impl Fn(&str) -> Option<OsString>) -> Option<String> {
        let needed = self.apps.iter().find_map(|(app, protocol)| {
            let directories = app.variable("LD_LIBRARY_PATH", &lookup).unwrap_or_default();
            Some((NeededMpi::of(&app.program_path(&lookup)?, &directories)?.library, *protocol))
        });
        let of_first = self.apps.first().map_or(Protocol::Pmix, |(_, protocol)| *protocol);
        let (library, protocol) = needed.or_else(|| Some((self.loaded?, of_first)))?;
        let is_set = |name: &&str| self.apps.iter().any(|(app, _)| app.variable(name, &lookup).is_some());
        if protocol == Protocol::Pmix && library.settings().iter().any(is_set) {
            return None;
        }
        let (name, advice) = (library.name(), library.advice(protocol));
        let way = match protocol {
            Protocol::Pmix => "PMIx_Init",
            Protocol::Pmi => "PMI",
        };
        Some(format!("modex: the program uses {name}, but no rank joined the job ({way}); {advice}\n"))
    }
}

/// The first MPI library in a process's list of mappings (proc(5)).
fn mapped(maps: impl BufRead) -> Option<MpiLibrary> {
    let lines = maps.split(b'\n').map_while(Result::ok);
    let mut names =
        lines.filter_map(|line| Some(line.get(line.iter().rposition(|byte| *byte == b'/')? + 1..)?.to_vec()));
    names.find_map(|name| MpiLibrary::named(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_go_by_the_names_of_their_files() {
        for (name, expected) in [
            ("libmpi.so.40", Some(MpiLibrary::OpenMpi)),
            ("libmpi.so.40.30.4", Some(MpiLibrary::OpenMpi)),
            ("libmpi_usempif08.so.40", Some(MpiLibrary::OpenMpi)),
            ("libmpich.so.12", Some(MpiLibrary::Mpich)),
            ("libmpichfort.so.12.2.0", Some(MpiLibrary::Mpich)),
            ("libmpi.so.12", Some(MpiLibrary::MpichAbi)),
            ("libmpifort.so.12.0.0", Some(MpiLibrary::MpichAbi)),
            ("libpmi2.so.0", Some(MpiLibrary::Pmi2)),
            ("libpmi.so.0", None),
            ("libmpi.so", None),
            ("libmpi.so.400", None),
            ("libmpi4.so.40", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(MpiLibrary::named(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn a_process_shows_its_libraries_in_its_mappings() {
        let maps = "55d0-55d1 r--p 0000 fe:00 12 /usr/bin/python3\n\
                    7f00-7f01 rw-p 0000 00:00 0 \n\
                    7f02-7f03 r-xp 0000 fe:00 17 /opt/open mpi/lib/libmpi.so.40.30.4\n";
        assert_eq!(mapped(maps.as_bytes()), Some(MpiLibrary::OpenMpi));
        assert_eq!(mapped(&b"55d0-55d1 r--p 0000 fe:00 12 /bin/libmpi/true\n"[..]), None);
    }

    fn app(environment: &[(&str, &str)]) -> App {
        App {
            count: 2,
            program: "/none".into(),
            environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            ..App::default()
        }
    }

    #[test]
    fn a_program_without_a_known_library_joins_by_pmix_unless_the_user_says_otherwise() {
        for (choice, protocol) in
            [(PmiChoice::Auto, Protocol::Pmix), (PmiChoice::Pmix, Protocol::Pmix), (PmiChoice::Pmi1, Protocol::Pmi)]
        {
            assert_eq!(MpiSetup::of(&app(&[]), None, choice, |_| None), MpiSetup { protocol, settings: Vec::new() });
        }
    }
}
