//! Keys, namespaces and processes in place: load, copy, compare.

use modex::types::Rank;

use crate::form::Form;
use crate::guard::guard_or;
use crate::pointer;
use crate::types::{PMIX_MAX_KEYLEN, PMIX_MAX_NSLEN, c_char, pmix_key_t, pmix_nspace_t, pmix_proc_t, pmix_rank_t};

/// Copies a key into place, cut at 511 bytes; NULL makes it empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `key` points to 512 bytes, `src` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Load_key(key: *mut c_char, src: *const c_char) {
    // SAFETY: the caller's contract.
    unsafe { load(key, PMIX_MAX_KEYLEN + 1, src) };
}

/// Copies a namespace into place, cut at 255 bytes; NULL makes it empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `nspace` points to 256 bytes, `str` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Load_nspace(nspace: *mut c_char, str: *const c_char) {
    // SAFETY: the caller's contract.
    unsafe { load(nspace, PMIX_MAX_NSLEN + 1, str) };
}

/// Sets namespace and rank of a process.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to a process, `ns` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Load_procid(p: *mut pmix_proc_t, ns: *const c_char, rk: pmix_rank_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(proc) = unsafe { pointer::unique(p, "process") } {
            pmix_proc_t::construct(proc);
            // SAFETY: the caller's contract.
            unsafe { load(proc.nspace.as_mut_ptr(), proc.nspace.len(), ns) };
            proc.rank = rk;
        }
    });
}

/// Sets namespace and rank of a process.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Load_procid`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_load(p: *mut pmix_proc_t, nspace: *const c_char, rank: pmix_rank_t) {
    // SAFETY: the caller's contract.
    unsafe { PMIx_Load_procid(p, nspace, rank) };
}

/// Copies a process.
///
/// Support: implemented.
///
/// # Safety
/// P1 for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Xfer_procid(dst: *mut pmix_proc_t, src: *const pmix_proc_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let Ok(from) = (unsafe { pointer::shared(src, "process") }) else { return };
        let copy = *from;
        // SAFETY: the caller's contract; source and target may be the same.
        if let Ok(to) = unsafe { pointer::unique(dst, "process") } {
            *to = copy;
        }
    });
}

/// Whether two keys are equal; NULL equals nothing.
///
/// Support: implemented.
///
/// # Safety
/// P1: each is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Check_key(key: *const c_char, str: *const c_char) -> bool {
    guard_or(false, || {
        // SAFETY: the caller's contract.
        let (one, other) = (unsafe { bounded(key, PMIX_MAX_KEYLEN) }, unsafe { bounded(str, PMIX_MAX_KEYLEN) });
        one.is_some() && one == other
    })
}

/// Whether two namespaces are equal; a NULL or empty one equals all.
///
/// Support: implemented.
///
/// # Safety
/// P1: each is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Check_nspace(key1: *const c_char, key2: *const c_char) -> bool {
    guard_or(false, || {
        // SAFETY: the caller's contract.
        let (one, other) = (unsafe { bounded(key1, PMIX_MAX_NSLEN) }, unsafe { bounded(key2, PMIX_MAX_NSLEN) });
        namespaces_agree(one.unwrap_or_default(), other.unwrap_or_default())
    })
}

/// Whether a namespace is NULL or empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Nspace_invalid(nspace: *const c_char) -> bool {
    // SAFETY: the caller's contract.
    guard_or(true, || unsafe { bounded(nspace, PMIX_MAX_NSLEN) }.is_none_or(<[u8]>::is_empty))
}

/// Whether two ranks are equal, or one of them is the wildcard.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Check_rank(a: pmix_rank_t, b: pmix_rank_t) -> bool {
    let wildcard = Rank::Wildcard.to_raw();
    a == b || a == wildcard || b == wildcard
}

/// Whether the number is the rank of a process.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Rank_valid(a: pmix_rank_t) -> bool {
    a <= Rank::PROCESS_MAX
}

/// Whether two processes agree in namespace and rank; empty namespaces and wildcard ranks agree with all.
///
/// Support: implemented.
///
/// # Safety
/// P1 for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Check_procid(a: *const pmix_proc_t, b: *const pmix_proc_t) -> bool {
    guard_or(false, || {
        // SAFETY: the caller's contract.
        let (Ok(a), Ok(b)) = (unsafe { pointer::shared(a, "process") }, unsafe { pointer::shared(b, "process") })
        else {
            return false;
        };
        let name = |proc| pointer::fixed_text(proc, "namespace").unwrap_or_default();
        namespaces_agree(name(&a.nspace), name(&b.nspace)) && PMIx_Check_rank(a.rank, b.rank)
    })
}

/// Whether a process has no namespace, or the invalid rank.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Procid_invalid(p: *const pmix_proc_t) -> bool {
    guard_or(true, || {
        // SAFETY: the caller's contract.
        let Ok(proc) = (unsafe { pointer::shared(p, "process") }) else { return true };
        let name = pointer::fixed_text(&proc.nspace, "namespace").unwrap_or_default();
        name.is_empty() || proc.rank == Rank::Invalid.to_raw()
    })
}

/// Whether a key belongs to host and library: it begins with `pmix`.
///
/// Support: implemented.
///
/// # Safety
/// P1: a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Check_reserved_key(key: *const c_char) -> bool {
    // SAFETY: the caller's contract.
    guard_or(false, || unsafe { bounded(key, PMIX_MAX_KEYLEN) }.is_some_and(|key| key.starts_with(b"pmix")))
}

/// Joins a cluster and a namespace into `cluster:namespace`, cut at 255 bytes.
///
/// Support: implemented.
///
/// # Safety
/// P1: each points to a namespace of 256 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Multicluster_nspace_construct(
    target: *mut c_char,
    cluster: *mut c_char,
    nspace: *mut c_char,
) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let cluster = unsafe { bounded(cluster, PMIX_MAX_NSLEN) }.unwrap_or_default();
        // SAFETY: the caller's contract.
        let nspace = unsafe { bounded(nspace, PMIX_MAX_NSLEN) }.unwrap_or_default();
        let joined = [cluster, b":", nspace].concat();
        // SAFETY: the caller's contract.
        unsafe { put(target, PMIX_MAX_NSLEN + 1, &joined) };
    });
}

/// Takes `cluster:namespace` apart; without a colon there is no cluster.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Multicluster_nspace_construct`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Multicluster_nspace_parse(
    target: *mut c_char,
    cluster: *mut c_char,
    nspace: *mut c_char,
) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let joined = unsafe { bounded(target, PMIX_MAX_NSLEN) }.unwrap_or_default().to_vec();
        let (before, after) = match joined.iter().position(|byte| *byte == b':') {
            Some(colon) => (joined.get(..colon), joined.get(colon + 1..)),
            None => (None, Some(joined.as_slice())),
        };
        // SAFETY: the caller's contract.
        unsafe { put(cluster, PMIX_MAX_NSLEN + 1, before.unwrap_or_default()) };
        // SAFETY: the caller's contract.
        unsafe { put(nspace, PMIX_MAX_NSLEN + 1, after.unwrap_or_default()) };
    });
}

const _: () = assert!(size_of::<pmix_key_t>() == PMIX_MAX_KEYLEN + 1);
const _: () = assert!(size_of::<pmix_nspace_t>() == PMIX_MAX_NSLEN + 1);

fn namespaces_agree(one: &[u8], other: &[u8]) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

/// # Safety
/// P1: `to` points to `size_bytes` bytes, `from` is a string or NULL.
unsafe fn load(to: *mut c_char, size_bytes: usize, from: *const c_char) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let text = unsafe { bounded(from, size_bytes.saturating_sub(1)) }.unwrap_or_default();
        // SAFETY: the caller's contract.
        unsafe { put(to, size_bytes, text) };
    });
}

/// Writes a text, cut if it does not fit, and zeros behind it.
///
/// # Safety
/// P1: `to` points to `size_bytes` bytes.
unsafe fn put(to: *mut c_char, size_bytes: usize, text: &[u8]) {
    // SAFETY: the caller's contract.
    let Ok(place) = (unsafe { pointer::slice_mut(to, size_bytes, "text in place") }) else { return };
    let fitting = text.get(..size_bytes.saturating_sub(1)).unwrap_or(text);
    if pointer::put_fixed_text(fitting, place, "text in place").is_err() {
        place.fill(0);
    }
}

/// The text up to its NUL, or to the limit: a text without NUL is read no further.
///
/// # Safety
/// P1: a string, or as many bytes as the limit says, or NULL.
unsafe fn bounded<'a>(text: *const c_char, limit: usize) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: strnlen looks no further than the NUL or the limit.
    let length = unsafe { nix::libc::strnlen(text, limit) };
    // SAFETY: so many bytes are there.
    unsafe { pointer::slice(text.cast::<u8>(), length, "text") }.ok()
}
