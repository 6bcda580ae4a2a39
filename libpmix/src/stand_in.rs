//! The OpenPMIx that this library stands in for.
//!
//! A launcher that needs internal functions of OpenPMIx has two PMIx libraries: ours, preloaded, and the OpenPMIx that it was
//! built with. The loader binds the public functions to ours. Such a launcher compares the version with that of its build, so the
//! library announces the version of the other one.

use std::ffi::CStr;
use std::sync::OnceLock;

use nix::libc;

use super::hwloc::symbol;
use super::types::c_char;

/// The release of the interface, as `PMIX_VERSION_NUMERIC`: that of the OpenPMIx behind this library, or that of our headers.
pub(super) fn version_number() -> u32 {
    static NUMBER: OnceLock<u32> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        let text = version_text_behind();
        text.and_then(|text| number(&text.to_string_lossy())).unwrap_or(OWN_VERSION)
    })
}

/// `PMIX_NUMERIC_VERSION` of our headers: 4.2.2.
pub(super) const OWN_VERSION: u32 = 0x0004_0202;

/// The text of the next library that has the function, in the order in which the loader searches; `None` in most processes.
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
        assert_eq!(number("modex 0.1.0 (PMIx Standard: 4.2, Stable ABI: 0.0)"), None);
    }

    #[test]
    fn without_another_library_the_version_is_that_of_the_headers() {
        assert_eq!(version_number(), OWN_VERSION);
    }
}
