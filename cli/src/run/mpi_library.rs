//! The MPI library of a job in which no rank called `PMIx_Init`.
//!
//! Some MPI libraries ask a PMIx server only if the environment contains a setting. Without it each rank runs alone, and
//! neither library nor server notices. The names of the libraries that a program needs show which setting is missing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::apps::App;

/// A family of MPI libraries that needs the same advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MpiLibrary {
    /// Open MPI 3 to 5. Releases before 5 need a setting.
    OpenMpi,
    /// MPICH under its own name, as in Debian.
    Mpich,
    /// The common binary interface of Intel MPI, MPICH and others.
    MpichAbi,
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
            _ => None,
        }
    }

    /// The name for people, and the advice.
    const fn advice(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenMpi => ("Open MPI", "for Open MPI 4.1 write modex run -x FLUX_JOB_ID=1 ..."),
            Self::Mpich => ("MPICH", "start it with MPICH's own mpiexec"),
            Self::MpichAbi => (
                "Intel MPI or MPICH",
                "for Intel MPI write modex run -x I_MPI_PMI=pmix -x I_MPI_PMI_LIBRARY=/path/libpmix.so.2 ...; \
                 start programs of MPICH with MPICH's own mpiexec",
            ),
        }
    }

    /// The variables by which the library finds a PMIx server. A user that has set one needs no advice.
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["FLUX_JOB_ID", "JSM_JSRUN_PORT"],
            Self::Mpich => &[],
            Self::MpichAbi => &["I_MPI_PMI"],
        }
    }
}

/// The search for an MPI library in the programs and processes of a job.
#[derive(Debug)]
pub(super) struct MpiSearch {
    apps: Vec<App>,
    /// The library that a process has loaded, as an extension of Python does.
    loaded: Option<MpiLibrary>,
}

impl MpiSearch {
    pub(super) const fn new(apps: Vec<App>) -> Self {
        Self { apps, loaded: None }
    }

    /// Looks at the libraries that a process has loaded. An ended process shows none.
    pub(super) fn look_at(&mut self, process: u32) {
        if self.loaded.is_none() {
            self.loaded =
                File::open(format!("/proc/{process}/maps")).ok().and_then(|maps| mapped(BufReader::new(maps)));
        }
    }

    /// The line for the user of a job that no rank joined, if it uses an MPI library.
    pub(super) fn advice(&self, lookup: impl Fn(&str) -> Option<OsString>) -> Option<String> {
        let paths = self.apps.iter().filter_map(|app| path_of(app, &lookup));
        let mut of_programs = paths.filter_map(|path| needed(&File::open(path).ok()?));
        let library = of_programs.next().or(self.loaded)?;
        let is_set = |name: &&str| {
            lookup(name).is_some() || self.apps.iter().any(|app| app.environment.iter().any(|(set, _)| set == name))
        };
        if library.settings().iter().any(is_set) {
            return None;
        }
        let (name, advice) = library.advice();
        Some(format!("modex: the program uses {name}, but no rank joined the job (PMIx_Init); {advice}\n"))
    }
}

/// The program's file, found as the start of a rank finds it.
fn path_of(app: &App, lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let directory = app.working_directory.clone().unwrap_or_default();
    if app.program.as_bytes().contains(&b'/') {
        return Some(directory.join(&app.program));
    }
    let of_app = app.environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let places = of_app.or_else(|| lookup("PATH"))?;
    let mut candidates = std::env::split_paths(&places).map(|place| directory.join(place).join(&app.program));
    candidates.find(|path| path.is_file())
}

/// The first MPI library in a process's list of mappings (proc(5)).
fn mapped(maps: impl BufRead) -> Option<MpiLibrary> {
    let lines = maps.split(b'\n').map_while(Result::ok);
    let mut names =
        lines.filter_map(|line| Some(line.get(line.iter().rposition(|byte| *byte == b'/')? + 1..)?.to_vec()));
    names.find_map(|name| MpiLibrary::named(&name))
}

/// The first MPI library that a program of this machine's kind asks the dynamic linker for (elf(5): ELF-64, DT_NEEDED).
/// Files of another form need none.
fn needed(program: &File) -> Option<MpiLibrary> {
    let head = bytes_at(program, 0, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = bytes_at(program, u64_at(&head, 32)?, usize::from(u16_at(&head, 56)?) * PART_BYTES)?;
    let parts: Vec<Part> = table.chunks_exact(PART_BYTES).filter_map(Part::read).collect();
    let dynamic = parts.iter().find(|part| part.kind == PT_DYNAMIC)?;
    let dynamic = bytes_at(program, dynamic.offset, usize::try_from(dynamic.size_bytes).ok()?)?;
    let entries: Vec<(u64, u64)> =
        dynamic.chunks_exact(16).map_while(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?))).collect();
    let value_of = |tag| entries.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value);
    let (names, names_bytes) = (value_of(DT_STRTAB)?, value_of(DT_STRSZ)?);
    let names = bytes_at(program, parts.iter().find_map(|part| part.place_of(names))?, names_bytes.try_into().ok()?)?;
    let mut wanted = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    wanted.find_map(|(_, at)| {
        MpiLibrary::named(names.get(usize::try_from(*at).ok()?..)?.split(|byte| *byte == 0).next()?)
    })
}

/// A part of a program: a program header.
struct Part {
    kind: u32,
    offset: u64,
    address: u64,
    size_bytes: u64,
}

impl Part {
    fn read(entry: &[u8]) -> Option<Self> {
        let kind = u32::from_le_bytes(*entry.first_chunk()?);
        Some(Self { kind, offset: u64_at(entry, 8)?, address: u64_at(entry, 16)?, size_bytes: u64_at(entry, 32)? })
    }

    /// The place in the file of an address in this part.
    fn place_of(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.address).filter(|at| self.kind == PT_LOAD && *at < self.size_bytes)?;
        self.offset.checked_add(at)
    }
}

/// A bounded part of a file.
fn bytes_at(file: &File, offset: u64, size_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; Some(size_bytes).filter(|size_bytes| *size_bytes <= TABLE_BYTES_MAX)?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

/// Longest table read from a program. Names of symbols are in the same table as names of libraries.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// The size of a program header.
const PART_BYTES: usize = 56;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;

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

    #[test]
    fn a_file_that_is_no_program_or_a_damaged_one_needs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let head = bytes_at(&File::open("/proc/self/exe").unwrap(), 0, 4096).unwrap();
        let damaged = (0..64).map(|at| {
            let mut damaged = head.clone();
            damaged[at] ^= 0xFF;
            damaged
        });
        for contents in [Vec::new(), b"#!/bin/sh\n".to_vec(), head[..63].to_vec()].into_iter().chain(damaged) {
            std::fs::write(&path, contents).unwrap();
            assert_eq!(needed(&File::open(&path).unwrap()), None);
        }
    }

    #[test]
    fn the_program_is_found_in_the_places_that_the_rank_searches() {
        let app = |program: &str, path: Option<&str>, directory: Option<&str>| App {
            count: 1,
            program: program.into(),
            arguments: Vec::new(),
            environment: path.into_iter().map(|path| ("PATH".into(), path.into())).collect(),
            working_directory: directory.map(PathBuf::from),
        };
        let found = |app: App| path_of(&app, |_| Some("/bin".into()));
        assert_eq!(found(app("./a", None, Some("/tmp"))), Some("/tmp/./a".into()));
        assert_eq!(found(app("sh", None, None)), Some("/bin/sh".into()));
        assert_eq!(found(app("sh", Some("/nowhere:/usr/bin"), None)), Some("/usr/bin/sh".into()));
        assert_eq!(found(app("sh", Some("/nowhere"), None)), None);
    }
}
