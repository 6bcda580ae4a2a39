//! The library's own text, mapped before a host waits for it.

use std::ffi::c_int;
use std::ptr;

use nix::libc::{self, PF_W, PT_LOAD, dl_phdr_info};

use crate::types::c_void;

/// Maps the functions of servers. They lie at the front of the text (`scripts/link-in-order.sh`). The kernel maps 64
/// KiB at each first touch, so a host's first calls took twice as long as later ones.
pub(super) fn map_ahead() {
    // SAFETY: the function is of the form that is called, needs no data, and does not outlive the call.
    unsafe { libc::dl_iterate_phdr(Some(map_if_own), ptr::null_mut()) };
}

/// Lies in the library.
static ANCHOR: u8 = 1;

/// # Safety
/// `info` describes an object that is loaded.
unsafe extern "C" fn map_if_own(info: *mut dl_phdr_info, _size: usize, _data: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes the description of a loaded object.
    let info = unsafe { &*info };
    // SAFETY: a loaded object has its headers in memory, in this number.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = headers.iter().filter(|header| header.p_type == PT_LOAD).filter_map(|header| {
        let start = usize::try_from(info.dlpi_addr.checked_add(header.p_vaddr)?).ok()?;
        Some((start, usize::try_from(header.p_memsz).ok()?, header.p_flags & PF_W != 0))
    });
    let anchor = ptr::from_ref(&ANCHOR).addr();
    if !loaded.clone().any(|(start, size, _)| anchor.checked_sub(start).is_some_and(|offset| offset < size)) {
        return 0;
    }
    for (start, size, _) in loaded.filter(|(_, _, is_writable)| !is_writable) {
        let page = ptr::without_provenance_mut(start & !(PAGE_BYTES - 1));
        // Older kernels can't, and then it is mapped when it is touched.
        // SAFETY: the advice changes nothing of what is there, and is no access of ours.
        let _ = unsafe { libc::madvise(page, size.min(AHEAD_BYTES_MAX), libc::MADV_POPULATE_READ) };
    }
    1
}

/// The smallest there are: the start of what is loaded is a multiple of the real ones.
const PAGE_BYTES: usize = 4096;

/// Bytes to map ahead: the functions of the list, and about as many bytes of others.
const AHEAD_BYTES_MAX: usize = 1 << 20;
