//! The libraries that a program asks the dynamic linker for, and the files that the linker takes for them (elf(5),
//! ld.so(8)).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags};

use super::local_files::open_regular;

/// The needs of a program or library of this machine's kind.
#[derive(Debug, Default)]
pub struct Needs {
    /// Names of libraries, in order.
    pub libraries: Vec<OsString>,
    /// Directories to search before those of the environment.
    first: Vec<PathBuf>,
    /// Directories to search after them.
    then: Vec<PathBuf>,
}

impl Needs {
    /// Reads them (ELF-64); `None` for files of another form. A static program needs nothing.
    pub fn of(path: &Path) -> Option<Self> {
        let file = open(path)?;
        let head = bytes_at(&file, 0, 64)?;
        let is_program = [ET_EXEC, ET_DYN].contains(&u16_at(&head, 16)?);
        if !is_program || !head.starts_with(b"\x7fELF\x02\x01") || u16_at(&head, 18) != MACHINE {
            return None;
        }
        let table = bytes_at(&file, u64_at(&head, 32)?, usize::from(u16_at(&head, 56)?) * PART_BYTES)?;
        let parts: Vec<Part> = table.chunks_exact(PART_BYTES).filter_map(Part::read).collect();
        let Some(dynamic) = parts.iter().find(|part| part.kind == PT_DYNAMIC) else { return Some(Self::default()) };
        let dynamic = bytes_at(&file, dynamic.offset, usize::try_from(dynamic.size_bytes).ok()?)?;
        let entries: Vec<(u64, u64)> =
            dynamic.chunks_exact(16).map_while(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?))).collect();
        let values = |tag| entries.iter().filter(move |(found, _)| *found == tag).map(|(_, value)| *value);
        let names = values(DT_STRTAB).next()?;
        let place = parts.iter().find_map(|part| part.place_of(names))?;
        let name_at = |at: u64| text_at(&file, place.checked_add(at)?);
        let directories = |tag| -> Vec<PathBuf> {
            let origin = path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned())).unwrap_or_default();
            // The dynamic linker reads one list, too.
            let list = values(tag).next().and_then(name_at).unwrap_or_default();
            std::env::split_paths(&list).take(DIRECTORIES_MAX).map(|path| at_origin(&path, &origin)).collect()
        };
        let libraries = values(DT_NEEDED).take(NAMES_MAX).filter_map(name_at).collect();
        let then = directories(DT_RUNPATH);
        let first = if then.is_empty() { directories(DT_RPATH) } else { Vec::new() };
        Some(Self { libraries, first, then })
    }

    /// The file of a library. `environment` is the rank's `LD_LIBRARY_PATH`.
    pub fn find(&self, library: &OsStr, environment: &OsStr) -> Option<PathBuf> {
        let of_environment = std::env::split_paths(environment).filter(|path| !path.as_os_str().is_empty());
        let of_environment = of_environment.take(DIRECTORIES_MAX);
        let places = self.first.iter().cloned().chain(of_environment).chain(self.then.iter().cloned());
        let arch = std::env::consts::ARCH;
        let of_system = ["/lib", "/usr/lib"].map(|place| PathBuf::from(format!("{place}/{arch}-linux-gnu")));
        let of_system = of_system.into_iter().chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
        places.chain(of_system).map(|place| place.join(library)).find(|path| path.is_file())
    }
}

/// A directory whose name may begin with that of the file that names it.
fn at_origin(path: &Path, origin: &Path) -> PathBuf {
    let rest = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|start| path.strip_prefix(start).ok());
    rest.map_or_else(|| path.to_owned(), |rest| origin.join(rest))
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

/// Opens a regular file. Others are not opened: a FIFO may block the reader, and a device may act.
pub(super) fn open(path: &Path) -> Option<File> {
    open_regular(CWD, path, OFlags::empty()).ok()
}

/// A text of a bounded length, up to its NUL.
fn text_at(file: &File, offset: u64) -> Option<OsString> {
    let mut bytes = vec![0; TEXT_BYTES_MAX];
    let read = file.read_at(&mut bytes, offset).ok()?;
    bytes.truncate(read);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    // A copy is no larger than the name.
    Some(OsStr::from_bytes(bytes.get(..end)?).to_owned())
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

/// Longest table read from a program: its parts, or its entries for the dynamic linker.
const TABLE_BYTES_MAX: usize = 1 << 20;

/// Longest name of a library, or list of directories, with its NUL.
const TEXT_BYTES_MAX: usize = 1 << 14;

/// Most names of libraries of a program that are looked at.
const NAMES_MAX: usize = 1024;

/// Most directories of a variable or program in which the launcher looks for a file. A process that spawns programs
/// chooses them.
pub const DIRECTORIES_MAX: usize = 1024;

/// The size of a program header.
const PART_BYTES: usize = 56;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// The number of this machine's kind; `None`: unknown.
const MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "riscv64") {
    Some(243)
} else if cfg!(target_arch = "powerpc64") {
    Some(21)
} else {
    None
};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(Needs::of(&path).is_none_or(|needs| needs.libraries.is_empty()));
        }
    }

    /// The start of a rank waited for a writer of the FIFO, and no signal ended it.
    #[test]
    fn a_fifo_is_no_program() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Needs::of(&path).is_none());
    }

    /// The first half of a head.
    fn head_of(form: u16, machine: u16) -> Vec<u8> {
        let numbers = [form, machine].map(u16::to_le_bytes).concat();
        [&b"\x7fELF\x02\x01"[..], &[0; 10], &numbers, &[0; 12]].concat()
    }

    /// A static program got no answer, and one of another machine got one.
    #[test]
    fn a_static_program_of_this_machine_needs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let of = |form, machine| {
            std::fs::write(&path, [head_of(form, machine), vec![0; 32]].concat()).unwrap();
            Needs::of(&path).map(|needs| needs.libraries)
        };
        let machine = MACHINE.unwrap();
        assert_eq!([of(ET_EXEC, machine), of(ET_DYN, machine)], [Some(Vec::new()), Some(Vec::new())]);
        assert_eq!([of(1, machine), of(ET_EXEC, machine ^ 1)], [None, None], "an object file, another machine");
    }

    /// A program of 33 MB with a table of names without an end took gigabytes and minutes of the launcher.
    #[test]
    fn a_name_without_an_end_is_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let write = |names: &[u8]| {
            let le = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
            let head = [head_of(ET_DYN, MACHINE.unwrap()), le(&[64, 0]), vec![0; 8], vec![2, 0], vec![0; 6]].concat();
            let part = |kind: u64, size: u64| le(&[kind, PLACE, PLACE, 0, size, size, 0]);
            let entries = le(&[DT_STRTAB, PLACE + 64, DT_NEEDED, 0, DT_NEEDED, 0]);
            const PLACE: u64 = 64 + 2 * 56;
            let parts = [part(PT_LOAD.into(), 1 << 20), part(PT_DYNAMIC.into(), entries.len() as u64)].concat();
            let padding = vec![0; 64 - entries.len()];
            std::fs::write(&path, [head, parts, entries, padding, names.to_vec()].concat()).unwrap();
            Needs::of(&path).unwrap().libraries
        };
        assert_eq!(write(b"libx.so.1\0"), ["libx.so.1", "libx.so.1"]);
        assert!(write(&vec![b'x'; TEXT_BYTES_MAX]).is_empty());
    }

    #[test]
    fn this_program_needs_a_libc_that_the_linker_finds() {
        let needs = Needs::of(Path::new("/proc/self/exe")).unwrap();
        let libc = needs.libraries.iter().find(|name| name.as_bytes().starts_with(b"libc.so")).unwrap();
        assert!(needs.find(libc, OsStr::new("")).is_some_and(|path| path.is_file()));
        assert_eq!(needs.find(OsStr::new("libnone.so.1"), OsStr::new("/tmp:")), None);
    }

    #[test]
    fn the_place_of_the_file_stands_for_origin() {
        let at = |path: &str| at_origin(Path::new(path), Path::new("/opt/bin"));
        assert_eq!(at("$ORIGIN/../lib"), Path::new("/opt/bin/../lib"));
        assert_eq!(at("${ORIGIN}"), Path::new("/opt/bin"));
        assert_eq!(at("/usr/lib"), Path::new("/usr/lib"));
    }
}
