//! Names of codes. The returned strings live as long as the process.

use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, Ordering};

use modex::keys;
use modex::types::{DataType, Status};

use super::{code_names, print};
use crate::guard::guard_or;
use crate::types::*;
use crate::{from_c, memory, pointer};

/// The standard's name of a status.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Error_string(status: pmix_status_t) -> *const c_char {
    lasting(Status::from_raw(status).name().unwrap_or("PMIX_ERR_UNNAMED"))
}

/// The number of a status by its name; the smallest number for an unknown name.
///
/// Support: implemented.
///
/// # Safety
/// P1: `errname` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Error_code(errname: *const c_char) -> pmix_status_t {
    guard_or(pmix_status_t::MIN, || {
        // SAFETY: the caller's contract.
        let Ok(Some(name)) = (unsafe { pointer::text(errname, "name of a status") }) else {
            return pmix_status_t::MIN;
        };
        name.to_str().ok().and_then(Status::from_name).map_or(pmix_status_t::MIN, Status::to_raw)
    })
}

/// The standard's name of a data type.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Data_type_string(type_: pmix_data_type_t) -> *const c_char {
    lasting(DataType::from_raw(type_).map_or(code_names::UNKNOWN, DataType::name))
}

/// The key string of an attribute by its macro's name; another text is returned unchanged.
///
/// Support: implemented.
///
/// # Safety
/// P1: `attribute` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_attribute_string(attribute: *const c_char) -> *const c_char {
    guard_or(attribute, || {
        // SAFETY: the caller's contract.
        let Ok(name) = (unsafe { from_c::key_text(attribute) }) else { return attribute };
        keys::by_macro(name).map_or(attribute, |row| lasting(row.name))
    })
}

/// The macro's name of an attribute by its key string; another text is returned unchanged.
///
/// Support: implemented.
///
/// # Safety
/// P1: `attrstring` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_attribute_name(attrstring: *const c_char) -> *const c_char {
    guard_or(attrstring, || {
        // SAFETY: the caller's contract.
        let Ok(name) = (unsafe { from_c::key_text(attrstring) }) else { return attrstring };
        keys::by_name(name).map_or(attrstring, |row| lasting(row.macro_name))
    })
}

/// The names of an info's flags, for the caller to free.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Info_directives_string(directives: pmix_info_directives_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || memory::string(print::info_flags(directives).as_bytes()))
}

/// The standard's name of a directive for an allocation.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Alloc_directive_string(directive: pmix_alloc_directive_t) -> *const c_char {
    lasting(code_names::alloc_directive(directive))
}

/// The standard's name of a range.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Data_range_string(range: pmix_data_range_t) -> *const c_char {
    lasting(code_names::data_range(range))
}

/// The standard's name of an operation on a group.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Group_operation_string(op: pmix_group_operation_t) -> *const c_char {
    lasting(code_names::group_operation(op))
}

/// The standard's name of a job's state.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Job_state_string(state: pmix_job_state_t) -> *const c_char {
    lasting(code_names::job_state(state))
}

/// The standard's name of a link's state.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Link_state_string(state: pmix_link_state_t) -> *const c_char {
    lasting(code_names::link_state(state))
}

/// The standard's name of a persistence of published data.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Persistence_string(persist: pmix_persistence_t) -> *const c_char {
    lasting(code_names::persistence(persist))
}

/// The standard's name of a process's state.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Proc_state_string(state: pmix_proc_state_t) -> *const c_char {
    lasting(code_names::proc_state(state))
}

/// The standard's name of a directive for a resource block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Resource_block_directive_string(directive: pmix_resource_block_directive_t) -> *const c_char {
    lasting(code_names::resource_block_directive(directive))
}

/// The standard's name of a scope.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Scope_string(scope: pmix_scope_t) -> *const c_char {
    lasting(code_names::scope(scope))
}

/// The standard's name of the outcome of a comparison.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Value_comparison_string(cmp: pmix_value_cmp_t) -> *const c_char {
    lasting(code_names::value_comparison(cmp))
}

/// The standard's name of a device type; of several, of the set.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Device_type_string(type_: pmix_device_type_t) -> *const c_char {
    lasting(code_names::device_type(type_))
}

/// The standard's name of a channel; of several, of the set.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_IOF_channel_string(channel: pmix_iof_channel_t) -> *const c_char {
    lasting(code_names::iof_channel(channel))
}

/// A description of an application, for the caller to free; NULL when the pointer is no application.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_App_string(app: *const pmix_app_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let apps = unsafe { from_c::apps(app, 1) };
        apps.map_or(std::ptr::null_mut(), |apps| {
            memory::string(apps.iter().map(print::app).collect::<String>().as_bytes())
        })
    })
}

/// Namespace and rank of a process, for the caller to free; NULL when the pointer is no process.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Proc_string(proc: *const pmix_proc_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let Ok(proc) = (unsafe { pointer::shared(proc, "process") }) else { return std::ptr::null_mut() };
        let Ok(name) = pointer::fixed_text(&proc.nspace, "namespace") else { return std::ptr::null_mut() };
        let text = format!("{}:{}", String::from_utf8_lossy(name), print::rank(proc.rank));
        memory::string(text.as_bytes())
    })
}

/// A description of a number of devices, for the caller to free; NULL when the pointer is none.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Resource_unit_string(unit: *const pmix_resource_unit_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let Ok(unit) = (unsafe { pointer::shared(unit, "resource unit") }) else { return std::ptr::null_mut() };
        let text = format!("{} x {}", unit.count, code_names::device_type(unit.type_));
        memory::string(text.as_bytes())
    })
}

/// The text with a NUL behind it. It lives as long as the process; there are as many as the library has names. It takes
/// no lock: a forked child would wait for ever for a thread of its parent.
fn lasting(text: &'static str) -> *const c_char {
    guard_or(c"".as_ptr(), || {
        // Acquire pairs with the Release below.
        let first = LASTING.load(Ordering::Acquire);
        // SAFETY: null, or a node that was leaked below, and so is each that it leads to.
        let nodes = std::iter::successors(unsafe { first.as_ref() }, |node| node.next);
        if let Some(known) = nodes.into_iter().find(|node| node.text == text) {
            return known.string.as_ptr();
        }
        let string = CString::new(text).unwrap_or_default();
        // SAFETY: as above.
        let place = Box::into_raw(Box::new(Lasting { text, string, next: unsafe { first.as_ref() } }));
        if LASTING.compare_exchange(first, place, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: made above, and nobody has seen it.
            drop(unsafe { Box::from_raw(place) });
            return lasting(text);
        }
        // SAFETY: made above, and never freed from here on.
        unsafe { &*place }.string.as_ptr()
    })
}

/// A text that callers may keep, and a link to the older ones.
struct Lasting {
    text: &'static str,
    string: CString,
    next: Option<&'static Lasting>,
}

static LASTING: AtomicPtr<Lasting> = AtomicPtr::new(std::ptr::null_mut());
