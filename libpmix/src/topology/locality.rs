//! Processor sets and localities as strings.

use modex::topo::{CpuSet, relative_locality};

use super::binding::binding;
use super::*;

/// The hardware that two processes of a node share, from their locality strings.
///
/// Support: implemented.
///
/// # Safety
/// The strings are NULL or end with NUL; `locality` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_relative_locality(
    locality1: *const c_char,
    locality2: *const c_char,
    locality: *mut pmix_locality_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let one = unsafe { pointer::text(locality1, "locality") }?;
        // SAFETY: the caller's contract.
        let other = unsafe { pointer::text(locality2, "locality") }?;
        // SAFETY: the caller's contract.
        let shared = unsafe { pointer::unique(locality, "place for the locality") }?;
        // A process without a locality is not bound: it shares only the node.
        let one = one.map_or(String::new(), |text| text.to_string_lossy().into_owned());
        let other = other.map_or(String::new(), |text| text.to_string_lossy().into_owned());
        *shared = relative_locality(&one, &other).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        Ok(())
    })
}

/// The locality string of a set of processors; NULL for a process that is not bound.
///
/// Support: implemented.
///
/// # Safety
/// `cpuset` is NULL or points to a set; `locality` is writable. The caller frees the string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_generate_locality_string(
    cpuset: *const pmix_cpuset_t,
    locality: *mut *mut c_char,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let text = unsafe { pointer::unique(locality, "place for the locality") }?;
        *text = std::ptr::null_mut();
        // SAFETY: the caller's contract.
        let Some(bitmap) = (unsafe { bitmap(cpuset) })? else { return Ok(()) };
        // SAFETY: a bitmap.
        let set = unsafe { set_of(bitmap) }?;
        if let Some(locality) = source::machine()?.locality(&set) {
            *text = memory::new_string(locality.as_bytes())?;
        }
        Ok(())
    })
}

/// The set of processors as a string (`hwloc:0-3,8`).
///
/// Support: implemented.
///
/// # Safety
/// `cpuset` is NULL or points to a set; `cpuset_string` is writable. The caller frees the string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_generate_cpuset_string(
    cpuset: *const pmix_cpuset_t,
    cpuset_string: *mut *mut c_char,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let text = unsafe { pointer::unique(cpuset_string, "place for the string") }?;
        *text = std::ptr::null_mut();
        // SAFETY: the caller's contract.
        let Some(bitmap) = (unsafe { bitmap(cpuset) })? else { return Ok(()) };
        // SAFETY: a bitmap.
        let list = unsafe { hwloc::list_of(bitmap) }?;
        *text = memory::new_string(&[SOURCE, b":", list.as_bytes()].concat())?;
        Ok(())
    })
}

/// The set of processors that a string names.
///
/// Support: implemented.
///
/// # Safety
/// `cpuset_string` ends with NUL; `cpuset` is writable and holds no set yet. The caller destructs it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Parse_cpuset_string(
    cpuset_string: *const c_char,
    cpuset: *mut pmix_cpuset_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let text = unsafe { pointer::text(cpuset_string, "string") }?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // SAFETY: the caller's contract.
        let set = unsafe { pointer::unique(cpuset, "place for the set") }?;
        let list = text.to_bytes().strip_prefix(b"hwloc:").ok_or(Failure(Status::ERR_NOT_SUPPORTED))?;
        let bitmap = hwloc::bitmap_of(&Text::until_nul(list))?;
        put_set(set, bitmap)
    })
}

/// As [`PMIx_Parse_cpuset_string`], for hosts.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Parse_cpuset_string`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_generate_cpuset(
    cpuset_string: *const c_char,
    cpuset: *mut pmix_cpuset_t,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { PMIx_Parse_cpuset_string(cpuset_string, cpuset) }
}

/// The processors this process (`ref` 0) or thread (1) may run on.
///
/// Support: implemented.
///
/// # Safety
/// `cpuset` is writable; its source is NULL or names the provider wanted. The caller destructs it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_cpuset(cpuset: *mut pmix_cpuset_t, r#ref: pmix_bind_envelope_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let set = unsafe { pointer::unique(cpuset, "place for the set") }?;
        // SAFETY: the caller's contract.
        unsafe { is_ours(set.source, "processor set") }?;
        let of_thread = match r#ref {
            0 => false,
            1 => true,
            _ => return Err(Failure(Status::ERR_BAD_PARAM)),
        };
        let bitmap = hwloc::bitmap_of(&Text::from(binding(of_thread)?.to_string()))?;
        put_set(set, bitmap)
    })
}

/// The bitmap of a set; `None` when there is none.
///
/// # Safety
/// `cpuset` is NULL or points to a set.
pub(super) unsafe fn bitmap(cpuset: *const pmix_cpuset_t) -> Result<Option<*const c_void>, Failure> {
    if cpuset.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    let set = unsafe { pointer::shared(cpuset, "processor set") }?;
    // SAFETY: a member that is NULL or ends with NUL.
    unsafe { is_ours(set.source, "processor set") }?;
    Ok((!set.bitmap.is_null()).then_some(set.bitmap.cast_const()))
}

/// The set of a bitmap. An infinite bitmap means every possible processor, because its list has no end.
///
/// # Safety
/// `bitmap` is a bitmap of libhwloc.
pub(super) unsafe fn set_of(bitmap: *const c_void) -> Result<CpuSet, Failure> {
    // SAFETY: the caller's contract.
    let list = unsafe { hwloc::list_of(bitmap) }?.to_string_lossy();
    let last = modex::topo::PROCESSORS_MAX - 1;
    let list = if list.ends_with('-') { format!("{list}{last}") } else { list };
    list.parse().map_err(|_| Failure(Status::ERR_BAD_PARAM))
}

/// Puts a bitmap made here into a set.
fn put_set(set: &mut pmix_cpuset_t, bitmap: *mut c_void) -> Result<(), Failure> {
    if set.source.is_null() {
        let source = memory::new_string(SOURCE).inspect_err(|_| {
            // SAFETY: the caller made the bitmap for this set alone.
            unsafe { hwloc::free_bitmap(bitmap) };
        })?;
        set.source = source;
    }
    set.bitmap = bitmap;
    Ok(())
}
