//! Processor sets and localities as strings.

use modex::topo::{CpuSet, relative_locality};

use super::binding::binding;
use super::*;
use crate::argument::{CText, Filled, In, InOut, Out};
use crate::hwloc::Bitmap;

/// The hardware that two processes of a node share, from their locality strings.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_relative_locality(
    locality1: CText<'_>,
    locality2: CText<'_>,
    mut locality: Out<'_, pmix_locality_t>,
) -> pmix_status_t {
    guard(|| {
        let one = locality1.get("locality")?;
        let other = locality2.get("locality")?;
        let shared = locality.place("place for the locality")?;
        // A process without a locality is not bound: it shares only the node.
        let one = one.map_or(String::new(), |text| text.to_string_lossy().into_owned());
        let other = other.map_or(String::new(), |text| text.to_string_lossy().into_owned());
        *shared = relative_locality(&one, &other).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        Ok(())
    })
}

/// The locality string of a set of processors, for the caller to free; NULL for a process that is not bound.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_generate_locality_string(
    cpuset: In<'_, pmix_cpuset_t>,
    mut locality: Out<'_, *mut c_char>,
) -> pmix_status_t {
    guard(|| {
        let text = locality.place("place for the locality")?;
        *text = std::ptr::null_mut();
        let Some(bitmap) = bitmap(cpuset)? else { return Ok(()) };
        let set = set_of(bitmap)?;
        if let Some(locality) = source::machine()?.locality(&set) {
            *text = memory::new_string(locality.as_bytes())?;
        }
        Ok(())
    })
}

/// The set of processors as a string (`hwloc:0-3,8`), for the caller to free.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_generate_cpuset_string(
    cpuset: In<'_, pmix_cpuset_t>,
    mut cpuset_string: Out<'_, *mut c_char>,
) -> pmix_status_t {
    guard(|| {
        let text = cpuset_string.place("place for the string")?;
        *text = std::ptr::null_mut();
        let Some(bitmap) = bitmap(cpuset)? else { return Ok(()) };
        let list = hwloc::list_of(bitmap)?;
        *text = memory::new_string(&[SOURCE, b":", list.as_bytes()].concat())?;
        Ok(())
    })
}

/// The set of processors that a string names. `cpuset` holds no set yet, but is constructed: a source is kept. The
/// caller destructs it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Parse_cpuset_string(
    cpuset_string: CText<'_>,
    mut cpuset: Filled<'_, pmix_cpuset_t>,
) -> pmix_status_t {
    guard(|| {
        let text = cpuset_string.get("string")?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let set = cpuset.place("place for the set")?;
        let list = text.to_bytes().strip_prefix(b"hwloc:").ok_or(Failure(Status::ERR_NOT_SUPPORTED))?;
        put_set(set, &Text::until_nul(list))
    })
}

/// As [`PMIx_Parse_cpuset_string`], for hosts.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_generate_cpuset(
    cpuset_string: CText<'_>,
    cpuset: Filled<'_, pmix_cpuset_t>,
) -> pmix_status_t {
    PMIx_Parse_cpuset_string(cpuset_string, cpuset)
}

/// The processors this process (`ref` 0) or thread (1) may run on. The caller destructs the set. Its source is NULL or
/// names the wanted provider.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_cpuset(
    cpuset: InOut<'_, pmix_cpuset_t>,
    r#ref: pmix_bind_envelope_t,
) -> pmix_status_t {
    guard(|| {
        let set = cpuset.own("place for the set")?;
        is_ours(set.whole().source(), "processor set")?;
        let of_thread = match r#ref {
            0 => false,
            1 => true,
            _ => return Err(Failure(Status::ERR_BAD_PARAM)),
        };
        put_set(set.into_place(), &Text::from(binding(of_thread)?.to_string()))
    })
}

/// The bitmap of a set; `None` when there is none.
pub(super) fn bitmap(cpuset: In<'_, pmix_cpuset_t>) -> Result<Option<&Bitmap>, Failure> {
    if cpuset.is_null() {
        return Ok(None);
    }
    let set = cpuset.get("processor set")?;
    is_ours(set.source(), "processor set")?;
    Ok(set.bitmap()?)
}

/// The set of a bitmap. An infinite bitmap means every possible processor, because its list has no end.
pub(super) fn set_of(bitmap: &Bitmap) -> Result<CpuSet, Failure> {
    let list = hwloc::list_of(bitmap)?.to_string_lossy();
    let last = modex::topo::PROCESSORS_MAX - 1;
    let list = if list.ends_with('-') { format!("{list}{last}") } else { list };
    list.parse().map_err(|_| Failure(Status::ERR_BAD_PARAM))
}

/// Puts the processors of a list into a set without any.
fn put_set(set: &mut pmix_cpuset_t, list: &Text) -> Result<(), Failure> {
    let bitmap = hwloc::bitmap_of(list)?;
    if set.source.is_null() {
        set.source = memory::new_string(SOURCE).inspect_err(|_| {
            // SAFETY: the bitmap was made above for this set alone.
            unsafe { hwloc::free_bitmap(bitmap) };
        })?;
    }
    set.bitmap = bitmap;
    Ok(())
}
