//! The OpenPMIx that this library stands in for.
//!
//! A launcher that needs internal functions of OpenPMIx has two PMIx libraries: ours, preloaded, and the OpenPMIx that
//! it was built with. The loader binds the public functions to ours. Such a launcher compares the version with that of
//! its build, so the library announces the version of the other one. PRRTE 3.0 reads `PMIX_VERSION_NUMERIC`. PRRTE 4.1
//! reads the second word of `PMIx_Get_version`.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use modex::proto::exchange::ExchangeForm;
use nix::libc;

use super::hwloc::symbol;
use super::types::c_char;

/// The release of the interface, as `PMIX_VERSION_NUMERIC`: that of the OpenPMIx behind this library, or that of our
/// headers.
pub(super) fn version_number() -> u32 {
    static NUMBER: OnceLock<u32> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        let text = version_text_behind();
        text.and_then(|text| number(&text.to_string_lossy())).unwrap_or(OWN_VERSION)
    })
}

/// `PMIX_NUMERIC_VERSION` of our headers: 4.2.9, the last release of 4.2. PRRTE 3.0 demands 4.2.4 or later and psmgmt
/// 4.2.3. Slurm has a plug-in for each major number, and Debian's has none above 4. Messages have a version of their
/// own, because peers choose their layouts by it (`modex::proto::Version::OWN`).
pub(super) const OWN_VERSION: u32 = 0x0004_0209;

/// The size of a host's table of functions in the release of the OpenPMIx behind this library, in bytes. A launcher has
/// been built for that release. `None` in most processes.
pub(super) fn module_size_bytes() -> Option<usize> {
    match version_number() {
        OWN_VERSION => None,
        number => Some(table_size_bytes(number)),
    }
}

/// The form of the data that servers exchange, if the release behind this library needs another one than ours. The
/// job's other servers may be of it.
pub(super) fn exchange_form() -> Option<ExchangeForm> {
    match version_number() {
        0..0x0004_0000 => Some(ExchangeForm::Release3),
        0x0006_0000.. => Some(ExchangeForm::Release6),
        _ => None,
    }
}

/// Whether the launcher is a PRRTE that gives one answer to all open requests for a process's data. The main line, for
/// release 7, does not.
pub(super) fn mixes_fetches_up() -> bool {
    let behind = version_text_behind().and_then(|text| number(&text.to_string_lossy()));
    behind.is_some_and(|number| number < 0x0007_0000)
}

/// Whether output for a file goes nowhere else unless a directive says so. OpenPMIx 5.0.11 and its main line do that.
/// Other releases copy it to the terminal, and so does this library.
pub(super) fn keeps_files_alone() -> bool {
    are_files_alone(version_number())
}

const fn are_files_alone(version_number: u32) -> bool {
    matches!(version_number, 0x0005_000b..0x0006_0000 | 0x0007_0000..)
}

const fn table_size_bytes(version_number: u32) -> usize {
    match version_number {
        0..0x0004_0000 => 200,
        0x0004_0000..0x0005_0000 => 224,
        0x0005_0000..0x0006_0000 => 232,
        0x0006_0000..0x0006_0100 => 240,
        0x0006_0100.. => 256,
    }
}

/// The text of `PMIx_Get_version`. Programs read its second word as the release of the interface.
pub(super) fn version_text() -> &'static CStr {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let [_, major, minor, release] = match version_number() {
        OWN_VERSION => return OWN_TEXT,
        number => number.to_be_bytes(),
    };
    let text = || format!(concat!(name!(), " {}.{}.{}", standard!()), major, minor, release);
    TEXT.get_or_init(|| CString::new(text()).unwrap_or_else(|_| OWN_TEXT.to_owned()))
}

macro_rules! name {
    () => {
        concat!("modex-", env!("CARGO_PKG_VERSION"))
    };
}

macro_rules! standard {
    () => {
        " (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)"
    };
}

use {name, standard};

/// scripts/install.sh knows our library by this text.
pub(super) const OWN_TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(name!(), " 4.2.9", standard!(), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the text ends with its only NUL"),
    };

/// The text of the next library that has the function, in the order in which the loader searches; `None` in most
/// processes.
fn version_text_behind() -> Option<&'static CStr> {
    // SAFETY: the function has this type in every release of the interface.
    let get_version: extern "C" fn() -> *const c_char = unsafe { symbol(libc::RTLD_NEXT, c"PMIx_Get_version") }?;
    let text = get_version();
    // SAFETY: the function's result is a constant text of its library, which stays loaded beside this one.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// `0x00050b0c` for a text such as `OpenPMIx 5.11.12rc1 (PMIx Standard: 5.1, ...)`.
fn number(text: &str) -> Option<u32> {
    let release = text.strip_prefix("OpenPMIx ")?;
    let mut parts = release.split('.').map(leading_number);
    let (major, minor, release) = (parts.next()??, parts.next()??, parts.next()??);
    Some(u32::from_be_bytes([0, major, minor, release]))
}

/// The number at the start of a part, which a word such as `rc1` may follow.
fn leading_number(part: &str) -> Option<u8> {
    let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
    part.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_openpmix_has_a_number() {
        assert_eq!(number("OpenPMIx 4.2.2rc2, repo rev: gd6f, PMIx Standard: 4.2"), Some(0x0004_0202));
        assert_eq!(number("OpenPMIx 5.0.11 (PMIx Standard: 5.1, Stable ABI: 5.0)"), Some(0x0005_000b));
        assert_eq!(number("OpenPMIx 6.1"), None);
        assert_eq!(number("OpenPMIx 5.0.300"), None);
        assert_eq!(number(&OWN_TEXT.to_string_lossy()), None);
    }

    #[test]
    fn each_release_has_a_size_of_its_table() {
        let releases = ["3.2.1", "4.2.9", "5.0.11", "6.0.2", "6.1.0", "7.0.0"];
        let sizes = releases.map(|release| table_size_bytes(number(&format!("OpenPMIx {release}")).unwrap()));
        assert_eq!(sizes, [200, 224, 232, 240, 256, 256]);
    }

    #[test]
    fn two_lines_of_releases_keep_files_alone() {
        let releases = ["4.2.9", "5.0.10", "5.0.11", "6.1.0", "7.0.0"];
        let alone = releases.map(|release| are_files_alone(number(&format!("OpenPMIx {release}")).unwrap()));
        assert_eq!(alone, [false, false, true, false, true]);
        assert!(!keeps_files_alone());
    }

    #[test]
    fn without_another_library_the_version_is_that_of_the_headers() {
        assert_eq!(module_size_bytes(), None);
        assert_eq!(version_number(), OWN_VERSION);
        assert_eq!(version_text(), OWN_TEXT);
    }

    /// PRRTE 4.1 reads the text in this way. Open MPI 4 compares the first character with a digit.
    #[test]
    fn the_second_word_of_the_text_is_the_release() {
        let text = OWN_TEXT.to_string_lossy();
        let release = text.split(' ').nth(1).unwrap();
        assert_eq!(number(&format!("OpenPMIx {release}")), Some(OWN_VERSION));
        assert!(text.as_bytes()[0] >= b'3');
    }
}
