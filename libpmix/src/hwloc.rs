//! The few functions of libhwloc that members of C structures need, looked up at the first use of such a member.
//!
//! Bitmaps and topologies cross the border as libhwloc's own objects. Callers pass them to their libhwloc.so.15, which is the
//! library found here: the loader has one library of that name in a process. A process that never uses such a member never
//! loads it.

use std::ffi::CStr;
use std::sync::OnceLock;

use modex::runtime::{has_more_rights_than_its_starter, has_variable_with_prefix};
use modex::types::{Text, Topology};
use nix::libc;
use parking_lot::Mutex;

use super::error::CError;
use super::types::{c_char, c_int, c_void};

/// The functions used.
struct Functions {
    bitmap_alloc: unsafe extern "C" fn() -> *mut c_void,
    bitmap_free: unsafe extern "C" fn(*mut c_void),
    bitmap_dup: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    bitmap_list_snprintf: unsafe extern "C" fn(*mut c_char, usize, *const c_void) -> c_int,
    bitmap_list_sscanf: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    topology_init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    topology_set_xmlbuffer: unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> c_int,
    topology_set_io_types_filter: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    topology_set_flags: unsafe extern "C" fn(*mut c_void, libc::c_ulong) -> c_int,
    topology_load: unsafe extern "C" fn(*mut c_void) -> c_int,
    topology_destroy: unsafe extern "C" fn(*mut c_void),
    topology_dup: unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> c_int,
    topology_export_xmlbuffer: unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *mut c_int, libc::c_ulong) -> c_int,
    free_xmlbuffer: unsafe extern "C" fn(*mut c_void, *mut c_char),
    topology_get_support: unsafe extern "C" fn(*mut c_void) -> *const Support,
    topology_abi_check: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// `struct hwloc_topology_support`, whose first three members are sent.
#[repr(C)]
struct Support {
    discovery: *const [u8; 6],
    cpubind: *const [u8; 11],
    membind: *const [u8; 15],
}

/// Devices of the kinds that matter (`HWLOC_TYPE_FILTER_KEEP_IMPORTANT`).
const KEEP_IMPORTANT: c_int = hwlocality_sys::HWLOC_TYPE_FILTER_KEEP_IMPORTANT;
/// `HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM`.
const IS_THIS_SYSTEM: libc::c_ulong = 1 << 1;

/// Topologies that the library handed out and keeps.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Marks a topology as the library's own: structures that refer to it don't destroy it.
pub fn keep_topology(topology: *mut c_void) {
    KEPT.lock().push(topology.addr());
}

/// Whether a topology is one that the library keeps.
pub fn is_kept(topology: *mut c_void) -> bool {
    KEPT.lock().contains(&topology.addr())
}

/// The machine that a text describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Any machine.
    SomeMachine,
    /// The machine of this process: it answers questions about bindings. Devices are kept.
    ThisMachine,
}

/// The set in list form (`0-3,8`).
///
/// # Safety
/// `bitmap` is a bitmap of libhwloc.
pub unsafe fn list_of(bitmap: *const c_void) -> Result<Text, CError> {
    let print = functions("print a set of processors")?.bitmap_list_snprintf;
    // SAFETY: no buffer of no size; the bitmap is one (the caller's contract).
    let length = unsafe { print(std::ptr::null_mut(), 0, bitmap) };
    let length = usize::try_from(length).map_err(|_| CError::Hwloc { what: "print a set of processors" })?;
    let mut text = vec![0u8; length.saturating_add(1)];
    // SAFETY: the buffer is as long as announced; the bitmap is one (the caller's contract).
    unsafe { print(text.as_mut_ptr().cast(), text.len(), bitmap) };
    Ok(Text::until_nul(&text))
}

/// A new bitmap from the list form, to be freed with [`free_bitmap`].
pub fn bitmap_of(list: &Text) -> Result<*mut c_void, CError> {
    let what = "read a set of processors";
    let hwloc = functions(what)?;
    if !is_list(list.as_bytes()) {
        return Err(CError::Hwloc { what });
    }
    let text = std::ffi::CString::new(list.as_bytes()).map_err(|_| CError::Hwloc { what })?;
    // SAFETY: takes nothing.
    let bitmap = unsafe { (hwloc.bitmap_alloc)() };
    if bitmap.is_null() {
        return Err(CError::NoMemory { size_bytes: list.as_bytes().len() });
    }
    // SAFETY: a bitmap made just now and a text that ends with NUL.
    let outcome = unsafe { (hwloc.bitmap_list_sscanf)(bitmap, text.as_ptr()) };
    if outcome == 0 {
        return Ok(bitmap);
    }
    // SAFETY: made just now, used by nobody.
    unsafe { (hwloc.bitmap_free)(bitmap) };
    Err(CError::Hwloc { what })
}

/// Whether a text is a list of numbers and ranges that libhwloc may read. libhwloc takes some other texts for empty lists. It
/// also allocates a bit for each number up to the largest: ten bytes of a peer could take half a gigabyte.
fn is_list(text: &[u8]) -> bool {
    let is_number = |text: &[u8]| {
        let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|number| number <= PROCESSOR_MAX)
    };
    text.split(|byte| *byte == b',').all(|entry| {
        let mut ends = entry.splitn(2, |byte| *byte == b'-');
        let (first, last) = (ends.next().unwrap_or_default(), ends.next());
        // A range without a last number has no end, and takes no memory.
        entry.is_empty() || is_number(first) && last.is_none_or(|last| last.is_empty() || is_number(last))
    })
}

/// Four times the number of processors that Linux can be built for.
const PROCESSOR_MAX: u32 = 1 << 15;

/// # Safety
/// `bitmap` is a bitmap of libhwloc.
pub unsafe fn duplicate_bitmap(bitmap: *const c_void) -> Result<*mut c_void, CError> {
    let hwloc = functions("copy a set of processors")?;
    // SAFETY: the caller's contract.
    let copy = unsafe { (hwloc.bitmap_dup)(bitmap) };
    if copy.is_null() { Err(CError::NoMemory { size_bytes: 0 }) } else { Ok(copy) }
}

/// # Safety
/// `bitmap` is a bitmap of libhwloc and not used afterwards.
pub unsafe fn free_bitmap(bitmap: *mut c_void) {
    if let Ok(hwloc) = functions("free a set of processors") {
        // SAFETY: the caller's contract.
        unsafe { (hwloc.bitmap_free)(bitmap) };
    }
}

/// The topology as XML, with the support flags of its libhwloc.
///
/// # Safety
/// `topology` is a loaded topology of some libhwloc, which may be of another release than the one found here.
pub unsafe fn export(topology: *mut c_void) -> Result<Topology, CError> {
    let what = "export a topology";
    let hwloc = functions(what)?;
    // SAFETY: the caller's contract.
    unsafe { hwloc.expect_own_layout(topology, what) }?;
    let (mut buffer, mut length): (*mut c_char, c_int) = (std::ptr::null_mut(), 0);
    // SAFETY: the topology is one (the caller's contract); the results are ours.
    let outcome = unsafe { (hwloc.topology_export_xmlbuffer)(topology, &raw mut buffer, &raw mut length, 0) };
    if outcome != 0 || buffer.is_null() {
        return Err(CError::Hwloc { what });
    }
    // SAFETY: libhwloc ends the text with a NUL.
    let xml = Text::from(unsafe { CStr::from_ptr(buffer) });
    // SAFETY: the buffer came from this topology just now.
    unsafe { (hwloc.free_xmlbuffer)(topology, buffer) };
    // SAFETY: the topology is one (the caller's contract).
    let support = unsafe { (hwloc.topology_get_support)(topology) };
    // SAFETY: libhwloc returns its own structure, which lives as long as the topology.
    let support = unsafe { &*support };
    let mut flags = Vec::with_capacity(32);
    // SAFETY: as above.
    flags.extend_from_slice(unsafe { &*support.discovery });
    // SAFETY: as above.
    flags.extend_from_slice(unsafe { &*support.cpubind });
    // SAFETY: as above.
    flags.extend_from_slice(unsafe { &*support.membind });
    Ok(Topology { xml: Some(xml), support: flags })
}

/// A new topology from XML, to be destroyed with [`destroy_topology`].
pub fn import(xml: &Text, of: Of) -> Result<*mut c_void, CError> {
    let what = "load a topology from XML";
    let hwloc = functions(what)?;
    let text = std::ffi::CString::new(xml.as_bytes()).map_err(|_| CError::Hwloc { what })?;
    let length = c_int::try_from(text.as_bytes_with_nul().len()).map_err(|_| CError::Hwloc { what })?;
    let mut topology = std::ptr::null_mut();
    // SAFETY: the result is ours.
    if unsafe { (hwloc.topology_init)(&raw mut topology) } != 0 {
        return Err(CError::Hwloc { what });
    }
    // SAFETY: a topology made just now.
    let mut outcome = unsafe { (hwloc.topology_set_io_types_filter)(topology, KEEP_IMPORTANT) };
    if of == Of::ThisMachine && outcome == 0 {
        // SAFETY: a topology made just now.
        outcome = unsafe { (hwloc.topology_set_flags)(topology, IS_THIS_SYSTEM) };
    }
    if outcome == 0 {
        // SAFETY: a topology made just now, and a text of this length with its NUL.
        outcome = unsafe { (hwloc.topology_set_xmlbuffer)(topology, text.as_ptr(), length) };
    }
    if outcome == 0 {
        // SAFETY: a topology made just now.
        outcome = unsafe { (hwloc.topology_load)(topology) };
    }
    if outcome == 0 {
        return Ok(topology);
    }
    // SAFETY: made just now, used by nobody.
    unsafe { (hwloc.topology_destroy)(topology) };
    Err(CError::Hwloc { what })
}

/// # Safety
/// As [`export`].
pub unsafe fn duplicate_topology(topology: *mut c_void) -> Result<*mut c_void, CError> {
    let what = "copy a topology";
    let hwloc = functions(what)?;
    // SAFETY: the caller's contract.
    unsafe { hwloc.expect_own_layout(topology, what) }?;
    let mut copy = std::ptr::null_mut();
    // SAFETY: the caller's contract; the result is ours.
    let outcome = unsafe { (hwloc.topology_dup)(&raw mut copy, topology) };
    if outcome == 0 { Ok(copy) } else { Err(CError::Hwloc { what }) }
}

/// Destroys a topology, unless it is the library's own ([`keep_topology`]).
///
/// # Safety
/// `topology` is a topology of libhwloc and not used afterwards.
pub unsafe fn destroy_topology(topology: *mut c_void) {
    if is_kept(topology) {
        return;
    }
    let what = "destroy a topology";
    let Ok(hwloc) = functions(what) else { return };
    // SAFETY: the caller's contract.
    if let Err(error) = unsafe { hwloc.expect_own_layout(topology, what) } {
        tracing::warn!("{error}; its memory is not freed");
        return;
    }
    // SAFETY: the caller's contract.
    unsafe { (hwloc.topology_destroy)(topology) };
}

impl Functions {
    /// Refuses a topology of another libhwloc, such as a program's own or one of another release. Its structures may have
    /// another layout, and this libhwloc would read wrong memory.
    ///
    /// # Safety
    /// `topology` is a topology of some libhwloc: the number of its layout comes first in all of them.
    unsafe fn expect_own_layout(&self, topology: *mut c_void, what: &'static str) -> Result<(), CError> {
        // SAFETY: looks at that number alone (the caller's contract).
        let outcome = unsafe { (self.topology_abi_check)(topology) };
        if outcome == 0 { Ok(()) } else { Err(CError::HwlocLayout { what }) }
    }
}

fn functions(what: &'static str) -> Result<&'static Functions, CError> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(look_up).as_ref().ok_or(CError::Hwloc { what })
}

/// Loads libhwloc; `None` on a machine without it. Its variables select files that it reads and plugins that it loads. So a
/// process with more rights than its starter does not load it if one of them is set.
pub(super) fn open() -> Option<*mut c_void> {
    if has_more_rights_than_its_starter() && has_variable_with_prefix("HWLOC_") {
        tracing::warn!(
            "libhwloc is not loaded: a variable HWLOC_* is set, and this process has more rights than the user that \
             started it"
        );
        return None;
    }
    // SAFETY: a library that other programs load by this name, too; it stays loaded.
    let library = unsafe { libc::dlopen(c"libhwloc.so.15".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}

fn look_up() -> Option<Functions> {
    let library = open()?;
    Some(Functions {
        // SAFETY: the symbol has this type in every libhwloc.so.15; so has each below.
        bitmap_alloc: unsafe { symbol(library, c"hwloc_bitmap_alloc") }?,
        // SAFETY: as above.
        bitmap_free: unsafe { symbol(library, c"hwloc_bitmap_free") }?,
        // SAFETY: as above.
        bitmap_dup: unsafe { symbol(library, c"hwloc_bitmap_dup") }?,
        // SAFETY: as above.
        bitmap_list_snprintf: unsafe { symbol(library, c"hwloc_bitmap_list_snprintf") }?,
        // SAFETY: as above.
        bitmap_list_sscanf: unsafe { symbol(library, c"hwloc_bitmap_list_sscanf") }?,
        // SAFETY: as above.
        topology_init: unsafe { symbol(library, c"hwloc_topology_init") }?,
        // SAFETY: as above.
        topology_set_xmlbuffer: unsafe { symbol(library, c"hwloc_topology_set_xmlbuffer") }?,
        // SAFETY: as above.
        topology_set_io_types_filter: unsafe { symbol(library, c"hwloc_topology_set_io_types_filter") }?,
        // SAFETY: as above.
        topology_set_flags: unsafe { symbol(library, c"hwloc_topology_set_flags") }?,
        // SAFETY: as above.
        topology_load: unsafe { symbol(library, c"hwloc_topology_load") }?,
        // SAFETY: as above.
        topology_destroy: unsafe { symbol(library, c"hwloc_topology_destroy") }?,
        // SAFETY: as above.
        topology_dup: unsafe { symbol(library, c"hwloc_topology_dup") }?,
        // SAFETY: as above.
        topology_export_xmlbuffer: unsafe { symbol(library, c"hwloc_topology_export_xmlbuffer") }?,
        // SAFETY: as above.
        free_xmlbuffer: unsafe { symbol(library, c"hwloc_free_xmlbuffer") }?,
        // SAFETY: as above.
        topology_get_support: unsafe { symbol(library, c"hwloc_topology_get_support") }?,
        // SAFETY: as above.
        topology_abi_check: unsafe { symbol(library, c"hwloc_topology_abi_check") }?,
    })
}

/// # Safety
/// `F` is a function pointer type, that of the symbol.
pub(super) unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a library that is loaded, and a name that ends with NUL.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: function pointers are addresses; the type is the symbol's (the caller's contract).
    Some(unsafe { std::mem::transmute_copy(&address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a value of ten bytes, "4000000000", allocated half a gigabyte in every receiving program. A request with
    /// several such values ended the server for lack of memory.
    #[test]
    fn a_set_of_processors_is_a_list_of_numbers_that_machines_have() {
        for list in ["", "0", "0-3,8", "7-", "32768", "1,", "0-32768"] {
            assert!(is_list(list.as_bytes()), "{list}");
        }
        for other in [
            "4000000000",
            "0-4000000000",
            "32769",
            "18446744073709551616",
            "-1",
            "-",
            "1-2-3",
            "a",
            "0x1",
            " 1",
            "+1",
            "1--2",
        ] {
            assert!(!is_list(other.as_bytes()), "{other}");
        }
    }
}
