//! The few functions of libhwloc that members of C structures need, looked up at the first use of such a member.
//!
//! Bitmaps and topologies cross the border as libhwloc's own objects. Callers pass them to their libhwloc.so.15, which
//! is the library found here: the loader has one library of that name in a process. A process that never uses such a
//! member never loads it.
//!
//! - **H1** References to the opaque types are references to live objects of some libhwloc. The functions below take such
//!   references, so a call with one needs no further promise. Only functions that end an object or follow a bare pointer are
//!   `unsafe`.

use std::ffi::CStr;
use std::marker::{PhantomData, PhantomPinned};
use std::sync::OnceLock;

use modex::runtime::{has_more_rights_than_its_starter, has_variable_with_prefix};
use modex::types::{Text, Topology};
use nix::libc;
use parking_lot::Mutex;

use super::error::CError;
use super::types::{c_char, c_int, c_void};

/// Content that only libhwloc knows.
type Opaque = PhantomData<(*mut u8, PhantomPinned)>;

/// A set of processors of libhwloc.
#[derive(Debug)]
#[repr(C)]
pub struct Bitmap {
    bytes: [u8; 0],
    opaque: Opaque,
}

/// A topology of libhwloc.
#[derive(Debug)]
#[repr(C)]
pub struct RawTopology {
    bytes: [u8; 0],
    opaque: Opaque,
}

// SAFETY: any number of threads may read a loaded topology while nobody changes it (hwloc's documentation, "Thread
// Safety"). The library changes none. Callers must not change one either: those that they get here are read-only (the
// standard's `PMIx_Load_topology`), and those that they pass stay as they are during the call (P1).
unsafe impl Sync for RawTopology {}

/// Declares functions of a library, which are looked up together.
macro_rules! dynamic_functions {
    ($(#[$doc:meta])* $visibility:vis struct $name:ident { $($field:ident = $symbol:literal: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        $visibility struct $name {
            $($field: $type,)*
        }

        impl $name {
            /// Looks the functions up; `None` if one is missing.
            fn look_up(library: *mut $crate::types::c_void) -> Option<Self> {
                Some(Self {
                    // SAFETY: the symbols have these types in every release of the library.
                    $($field: unsafe { $crate::hwloc::symbol(library, $symbol) }?,)*
                })
            }
        }
    };
}
pub(crate) use dynamic_functions;

dynamic_functions! {
    /// The functions used (H1).
    struct Functions {
        bitmap_alloc = c"hwloc_bitmap_alloc": extern "C" fn() -> *mut Bitmap,
        bitmap_free = c"hwloc_bitmap_free": unsafe extern "C" fn(*mut Bitmap),
        bitmap_dup = c"hwloc_bitmap_dup": extern "C" fn(&Bitmap) -> *mut Bitmap,
        bitmap_list_snprintf = c"hwloc_bitmap_list_snprintf":
            unsafe extern "C" fn(*mut c_char, usize, &Bitmap) -> c_int,
        bitmap_list_sscanf = c"hwloc_bitmap_list_sscanf": unsafe extern "C" fn(*mut Bitmap, *const c_char) -> c_int,
        topology_init = c"hwloc_topology_init": extern "C" fn(&mut *mut RawTopology) -> c_int,
        topology_set_xmlbuffer = c"hwloc_topology_set_xmlbuffer":
            unsafe extern "C" fn(&mut RawTopology, *const c_char, c_int) -> c_int,
        topology_set_io_types_filter = c"hwloc_topology_set_io_types_filter":
            extern "C" fn(&mut RawTopology, c_int) -> c_int,
        topology_set_flags = c"hwloc_topology_set_flags": extern "C" fn(&mut RawTopology, libc::c_ulong) -> c_int,
        topology_load = c"hwloc_topology_load": extern "C" fn(&mut RawTopology) -> c_int,
        topology_destroy = c"hwloc_topology_destroy": unsafe extern "C" fn(*mut RawTopology),
        topology_dup = c"hwloc_topology_dup": extern "C" fn(&mut *mut RawTopology, &RawTopology) -> c_int,
        topology_export_xmlbuffer = c"hwloc_topology_export_xmlbuffer":
            extern "C" fn(&RawTopology, &mut *mut c_char, &mut c_int, libc::c_ulong) -> c_int,
        free_xmlbuffer = c"hwloc_free_xmlbuffer": unsafe extern "C" fn(&RawTopology, *mut c_char),
        topology_get_support = c"hwloc_topology_get_support": for<'a> extern "C" fn(&'a RawTopology) -> &'a Support<'a>,
        topology_abi_check = c"hwloc_topology_abi_check": extern "C" fn(&RawTopology) -> c_int,
    }
}

/// `struct hwloc_topology_support`, whose first three members are sent.
#[repr(C)]
struct Support<'a> {
    discovery: &'a [u8; 6],
    cpubind: &'a [u8; 11],
    membind: &'a [u8; 15],
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
/// # Errors
/// When libhwloc is missing, or can't print the set.
pub fn list_of(bitmap: &Bitmap) -> Result<Text, CError> {
    let what = "print a set of processors";
    let hwloc = functions(what)?;
    let print = |buffer: &mut [u8]| {
        // SAFETY: the buffer is as long as announced; libhwloc writes nothing to an empty one.
        let length = unsafe { (hwloc.bitmap_list_snprintf)(buffer.as_mut_ptr().cast(), buffer.len(), bitmap) };
        usize::try_from(length).map_err(|_| CError::Hwloc { what })
    };
    let mut text = vec![0u8; print(&mut [])?.saturating_add(1)];
    print(&mut text)?;
    Ok(Text::until_nul(&text))
}

/// A new bitmap from the list form, to be freed with [`free_bitmap`].
///
/// # Errors
/// When libhwloc is missing, or the text is no list.
pub fn bitmap_of(list: &Text) -> Result<*mut c_void, CError> {
    let what = "read a set of processors";
    let hwloc = functions(what)?;
    if !is_list(list.as_bytes()) {
        return Err(CError::Hwloc { what });
    }
    let text = std::ffi::CString::new(list.as_bytes()).map_err(|_| CError::Hwloc { what })?;
    let bitmap = (hwloc.bitmap_alloc)();
    if bitmap.is_null() {
        return Err(CError::NoMemory { size_bytes: list.as_bytes().len() });
    }
    // SAFETY: a bitmap made just now and a text that ends with NUL.
    let outcome = unsafe { (hwloc.bitmap_list_sscanf)(bitmap, text.as_ptr()) };
    if outcome == 0 {
        return Ok(bitmap.cast());
    }
    // SAFETY: made just now, used by nobody.
    unsafe { (hwloc.bitmap_free)(bitmap) };
    Err(CError::Hwloc { what })
}

/// Whether a text is a list of numbers and ranges that libhwloc may read. libhwloc takes some other texts for empty
/// lists. It also allocates a bit for each number up to the largest: ten bytes of a peer could take half a gigabyte.
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

/// A copy of a bitmap, to be freed with [`free_bitmap`].
///
/// # Errors
/// When libhwloc is missing, or there is no memory.
pub fn duplicate_bitmap(bitmap: &Bitmap) -> Result<*mut c_void, CError> {
    let hwloc = functions("copy a set of processors")?;
    let copy = (hwloc.bitmap_dup)(bitmap);
    if copy.is_null() { Err(CError::NoMemory { size_bytes: 0 }) } else { Ok(copy.cast()) }
}

/// # Safety
/// `bitmap` is a bitmap of libhwloc and not used afterwards.
pub unsafe fn free_bitmap(bitmap: *mut c_void) {
    if let Ok(hwloc) = functions("free a set of processors") {
        // SAFETY: a bitmap that nobody uses afterwards (the contract of this function).
        unsafe { (hwloc.bitmap_free)(bitmap.cast()) };
    }
}

/// The topology as XML, with the support flags of its libhwloc. The topology may be of another release than the
/// libhwloc found here.
///
/// # Errors
/// When libhwloc is missing, or can't read the topology.
pub fn exported(topology: &RawTopology) -> Result<Topology, CError> {
    let what = "export a topology";
    let hwloc = functions(what)?;
    hwloc.expect_own_layout(topology, what)?;
    let (mut buffer, mut length): (*mut c_char, c_int) = (std::ptr::null_mut(), 0);
    let outcome = (hwloc.topology_export_xmlbuffer)(topology, &mut buffer, &mut length, 0);
    if outcome != 0 || buffer.is_null() {
        return Err(CError::Hwloc { what });
    }
    // SAFETY: libhwloc ends the text with a NUL.
    let xml = Text::from(unsafe { CStr::from_ptr(buffer) });
    // SAFETY: the buffer came from this topology just now.
    unsafe { (hwloc.free_xmlbuffer)(topology, buffer) };
    let support = (hwloc.topology_get_support)(topology);
    let flags = [&support.discovery[..], support.cpubind, support.membind].concat();
    Ok(Topology { xml: Some(xml), support: flags })
}

/// A new topology from XML, to be destroyed with [`destroy_topology`].
///
/// # Errors
/// When libhwloc is missing, or refuses the text.
pub fn import(xml: &Text, of: Of) -> Result<*mut c_void, CError> {
    let what = "load a topology from XML";
    let hwloc = functions(what)?;
    let text = std::ffi::CString::new(xml.as_bytes()).map_err(|_| CError::Hwloc { what })?;
    let length = c_int::try_from(text.as_bytes_with_nul().len()).map_err(|_| CError::Hwloc { what })?;
    let mut made = std::ptr::null_mut();
    if (hwloc.topology_init)(&mut made) != 0 {
        return Err(CError::Hwloc { what });
    }
    // SAFETY: libhwloc made the topology just now, and nobody else knows it.
    let topology = unsafe { &mut *made };
    let mut outcome = (hwloc.topology_set_io_types_filter)(topology, KEEP_IMPORTANT);
    if of == Of::ThisMachine && outcome == 0 {
        outcome = (hwloc.topology_set_flags)(topology, IS_THIS_SYSTEM);
    }
    if outcome == 0 {
        // SAFETY: a text of this length with its NUL.
        outcome = unsafe { (hwloc.topology_set_xmlbuffer)(topology, text.as_ptr(), length) };
    }
    if outcome == 0 {
        outcome = (hwloc.topology_load)(topology);
    }
    if outcome == 0 {
        return Ok(made.cast());
    }
    // SAFETY: made just now, used by nobody.
    unsafe { (hwloc.topology_destroy)(made) };
    Err(CError::Hwloc { what })
}

/// A copy of a topology, to be destroyed with [`destroy_topology`].
///
/// # Errors
/// As [`exported`].
pub fn duplicate_topology(topology: &RawTopology) -> Result<*mut c_void, CError> {
    let what = "copy a topology";
    let hwloc = functions(what)?;
    hwloc.expect_own_layout(topology, what)?;
    let mut copy = std::ptr::null_mut();
    let outcome = (hwloc.topology_dup)(&mut copy, topology);
    if outcome == 0 { Ok(copy.cast()) } else { Err(CError::Hwloc { what }) }
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
    let topology = topology.cast::<RawTopology>();
    // SAFETY: a live topology (the contract of this function).
    if let Err(error) = hwloc.expect_own_layout(unsafe { &*topology }, what) {
        tracing::warn!("{error}; its memory is not freed");
        return;
    }
    // SAFETY: a topology of this libhwloc that nobody uses afterwards (the contract of this function).
    unsafe { (hwloc.topology_destroy)(topology) };
}

impl Functions {
    /// Refuses a topology of another libhwloc, such as a program's own or one of another release. Its structures may
    /// have another layout, and this libhwloc would read wrong memory. The number of the layout comes first in all of
    /// them.
    fn expect_own_layout(&self, topology: &RawTopology, what: &'static str) -> Result<(), CError> {
        if (self.topology_abi_check)(topology) == 0 { Ok(()) } else { Err(CError::HwlocLayout { what }) }
    }
}

fn functions(what: &'static str) -> Result<&'static Functions, CError> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| Functions::look_up(open()?)).as_ref().ok_or(CError::Hwloc { what })
}

/// Loads libhwloc; `None` on a machine without it. Its variables select files that it reads and plugins that it loads.
/// So a process with more rights than its starter does not load it if one of them is set.
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

/// # Safety
/// `F` is a function pointer type, that of the symbol.
pub(super) unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a library that is loaded, and a name that ends with NUL.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: function pointers are addresses, and `F` is the type of this symbol (the contract of this function).
    Some(unsafe { std::mem::transmute_copy(&address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a value of ten bytes, "4000000000", allocated half a gigabyte in every receiving program. A request
    /// with several such values ended the server for lack of memory.
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
