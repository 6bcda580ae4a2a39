//! libmunge, looked up when a process has to prove its identity with it, or to check such proofs.
//!
//! Other processes never load it. Nothing is linked: a machine without munge needs no libmunge.

use std::ffi::{CStr, CString};
use std::sync::{Arc, OnceLock};

use modex::{ProofError, Prover};
use nix::libc;

use super::hwloc::dynamic_functions;
use super::types::{c_char, c_int, c_void};

dynamic_functions! {
    /// The functions used.
    struct Functions {
        encode = c"munge_encode": unsafe extern "C" fn(&mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int,
        decode = c"munge_decode": unsafe extern "C" fn(
            *const c_char,
            *mut c_void,
            &mut *mut c_void,
            &mut c_int,
            &mut libc::uid_t,
            &mut libc::gid_t,
        ) -> c_int,
        strerror = c"munge_strerror": extern "C" fn(c_int) -> *const c_char,
    }
}

/// Proofs by the munge daemon of this node, with its default socket and options.
#[derive(Debug)]
struct Munge;

/// The library's prover, which loads libmunge at its first use.
pub fn prover() -> Arc<dyn Prover> {
    Arc::new(Munge)
}

impl Prover for Munge {
    fn credential(&self) -> Result<Vec<u8>, ProofError> {
        let munge = functions()?;
        let mut text: *mut c_char = std::ptr::null_mut();
        // SAFETY: the result is ours; no options and no payload.
        let outcome = unsafe { (munge.encode)(&mut text, std::ptr::null_mut(), std::ptr::null(), 0) };
        if outcome != SUCCESS || text.is_null() {
            return Err(munge.refused("make a credential", outcome));
        }
        // SAFETY: libmunge ends the text with a NUL.
        let credential = unsafe { CStr::from_ptr(text) }.to_bytes_with_nul().to_vec();
        // SAFETY: libmunge's result, from malloc, used by nobody else.
        unsafe { libc::free(text.cast()) };
        Ok(credential)
    }

    fn check(&self, credential: &[u8]) -> Result<(u32, u32), ProofError> {
        let munge = functions()?;
        let garbled = |_| ProofError::Garbled { size_bytes: credential.len() };
        let text = CString::from(CStr::from_bytes_with_nul(credential).map_err(garbled)?);
        let (mut uid, mut gid) = (libc::uid_t::MAX, libc::gid_t::MAX);
        let (mut payload, mut size): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
        let no_options = std::ptr::null_mut();
        // SAFETY: a text with its NUL, and no options.
        let outcome = unsafe { (munge.decode)(text.as_ptr(), no_options, &mut payload, &mut size, &mut uid, &mut gid) };
        // SAFETY: NULL or libmunge's result, from malloc; it may be there in spite of an error.
        unsafe { libc::free(payload) };
        if outcome == SUCCESS { Ok((uid, gid)) } else { Err(munge.refused("check the credential", outcome)) }
    }
}

impl Functions {
    fn refused(&self, doing: &'static str, outcome: c_int) -> ProofError {
        let text = (self.strerror)(outcome);
        if text.is_null() {
            return ProofError::Refused { doing, reason: format!("error {outcome}") };
        }
        // SAFETY: libmunge's own texts end with a NUL and stay.
        let reason = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        ProofError::Refused { doing, reason }
    }
}

/// `EMUNGE_SUCCESS`
const SUCCESS: c_int = 0;

fn functions() -> Result<&'static Functions, ProofError> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| Functions::look_up(open()?)).as_ref().ok_or(ProofError::Absent)
}

fn open() -> Option<*mut c_void> {
    // SAFETY: a library that other programs load by this name, too; it stays loaded.
    let library = unsafe { libc::dlopen(c"libmunge.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}
