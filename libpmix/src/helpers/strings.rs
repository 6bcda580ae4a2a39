//! Names of codes. The returned strings live as long as the process.

use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, Ordering};

use modex::keys;
use modex::types::codes::alloc_inheritance;
use modex::types::{DataType, Status};

use super::{code_names, print};
use crate::argument::{CText, In, KeyText};
use crate::guard::guard_or;
use crate::types::*;
use crate::{from_c, memory, pointer};

/// The standard's name of a status.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Error_string(status: pmix_status_t) -> *const c_char {
    lasting(Status::from_raw(status).name().unwrap_or("PMIX_ERR_UNNAMED"))
}

/// The number of a status by its name; the smallest number for an unknown name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Error_code(errname: CText<'_>) -> pmix_status_t {
    guard_or(pmix_status_t::MIN, || {
        let Ok(Some(name)) = errname.get("name of a status") else { return pmix_status_t::MIN };
        name.to_str().ok().and_then(Status::from_name).map_or(pmix_status_t::MIN, Status::to_raw)
    })
}

/// The standard's name of a data type.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_type_string(type_: pmix_data_type_t) -> *const c_char {
    lasting(DataType::from_raw(type_).map_or(code_names::UNKNOWN, DataType::name))
}

/// The key string of an attribute by its macro's name; another text is returned unchanged.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_attribute_string(attribute: KeyText<'_>) -> *const c_char {
    let unchanged = attribute.as_ptr();
    guard_or(unchanged, || {
        let Ok(name) = from_c::key_text(attribute) else { return unchanged };
        keys::by_macro(name).map_or(unchanged, |row| lasting(row.name))
    })
}

/// The macro's name of an attribute by its key string; another text is returned unchanged.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_attribute_name(attrstring: KeyText<'_>) -> *const c_char {
    let unchanged = attrstring.as_ptr();
    guard_or(unchanged, || {
        let Ok(name) = from_c::key_text(attrstring) else { return unchanged };
        keys::by_name(name).map_or(unchanged, |row| lasting(row.macro_name))
    })
}

/// The names of an info's flags, for the caller to free.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_directives_string(directives: pmix_info_directives_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || memory::string(print::info_flags(directives).as_bytes()))
}

/// The standard's name of a directive for an allocation.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Alloc_directive_string(directive: pmix_alloc_directive_t) -> *const c_char {
    lasting(code_names::alloc_directive(directive))
}

/// OpenPMIx's name of a rule of inheritance of an allocation.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Alloc_inheritance_string(inheritance: u8) -> *const c_char {
    lasting(match inheritance {
        alloc_inheritance::ALLOC_INHERIT_NONE => "NONE",
        alloc_inheritance::ALLOC_INHERIT_CHILD => "CHILD",
        alloc_inheritance::ALLOC_INHERIT_DEFAULT => "DEFAULT",
        alloc_inheritance::ALLOC_INHERIT_CHILD_DEFAULT => "CHILD_DEFAULT",
        _ => "UNSPECIFIED",
    })
}

/// The standard's name of a range.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_range_string(range: pmix_data_range_t) -> *const c_char {
    lasting(code_names::data_range(range))
}

/// The standard's name of an operation on a group.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_operation_string(op: pmix_group_operation_t) -> *const c_char {
    lasting(code_names::group_operation(op))
}

/// The standard's name of a job's state.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Job_state_string(state: pmix_job_state_t) -> *const c_char {
    lasting(code_names::job_state(state))
}

/// The standard's name of a link's state.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Link_state_string(state: pmix_link_state_t) -> *const c_char {
    lasting(code_names::link_state(state))
}

/// The standard's name of a persistence of published data.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Persistence_string(persist: pmix_persistence_t) -> *const c_char {
    lasting(code_names::persistence(persist))
}

/// The standard's name of a process's state.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_state_string(state: pmix_proc_state_t) -> *const c_char {
    lasting(code_names::proc_state(state))
}

/// The standard's name of a directive for a resource block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_block_directive_string(
    directive: pmix_resource_block_directive_t,
) -> *const c_char {
    lasting(code_names::resource_block_directive(directive))
}

/// The standard's name of a scope.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Scope_string(scope: pmix_scope_t) -> *const c_char {
    lasting(code_names::scope(scope))
}

/// The standard's name of the outcome of a comparison.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_comparison_string(cmp: pmix_value_cmp_t) -> *const c_char {
    lasting(code_names::value_comparison(cmp))
}

/// The standard's name of a device type; of several, of the set.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Device_type_string(type_: pmix_device_type_t) -> *const c_char {
    lasting(code_names::device_type(type_))
}

/// The standard's name of a channel; of several, of the set.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_IOF_channel_string(channel: pmix_iof_channel_t) -> *const c_char {
    lasting(code_names::iof_channel(channel))
}

/// A description of an application, for the caller to free; NULL when the pointer is no application.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_string(app: In<'_, pmix_app_t>) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let apps = from_c::apps(app.as_counted());
        apps.map_or(std::ptr::null_mut(), |apps| {
            memory::string(apps.iter().map(print::app).collect::<String>().as_bytes())
        })
    })
}

/// Namespace and rank of a process, for the caller to free; NULL when the pointer is no process.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_string(proc: In<'_, pmix_proc_t>) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let Ok(proc) = proc.get("process") else { return std::ptr::null_mut() };
        let Ok(name) = pointer::fixed_text(&proc.nspace, "namespace") else { return std::ptr::null_mut() };
        let text = format!("{}:{}", String::from_utf8_lossy(name), print::rank(proc.rank));
        memory::string(text.as_bytes())
    })
}

/// A description of a number of devices, for the caller to free; NULL when the pointer is none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_unit_string(unit: In<'_, pmix_resource_unit_t>) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let Ok(unit) = unit.get("resource unit") else { return std::ptr::null_mut() };
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
        // SAFETY: null, or a node that was leaked below.
        let newest: Option<&'static Lasting> = unsafe { first.as_ref() };
        if let Some(known) = std::iter::successors(newest, |node| node.next).find(|node| node.text == text) {
            return known.string.as_ptr();
        }
        let node = Box::leak(Box::new(Lasting { text, string: CString::new(text).unwrap_or_default(), next: newest }));
        let (string, place) = (node.string.as_ptr(), std::ptr::from_mut(node));
        if LASTING.compare_exchange(first, place, Ordering::Release, Ordering::Relaxed).is_ok() {
            return string;
        }
        // SAFETY: leaked above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(place) });
        lasting(text)
    })
}

/// A text that callers may keep, and a link to the older ones.
struct Lasting {
    text: &'static str,
    string: CString,
    next: Option<&'static Lasting>,
}

static LASTING: AtomicPtr<Lasting> = AtomicPtr::new(std::ptr::null_mut());
