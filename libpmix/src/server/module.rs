//! Copy of the host's table of functions.
//!
//! The pointer comes without a length, and releases of the standard have made the table longer: 200 bytes in 3.x, 224
//! in 4.x, 232 in 5.0, 240 in 6.0, 256 in 6.1. Behind byte 200 there may be other data. An entry there counts only if
//!
//! - its bytes can be read (the kernel copies them, and reports a bad address instead of crashing),
//! - it points into memory that holds code (`/proc/self/maps`), and
//! - for `client_connected2`: `client_connected` is empty, as in every host that uses the newer entry, and unlike in
//!   tables of 3.x.
//!
//! In doubt the entry is empty. Another table of functions behind a short table can't be detected; no known host has
//! one.
//!
//! Bytes 224 to 240 have two meanings: `session_control` and `resource_block` in 5.0 and 6.0, `tool_connected2` and
//! `log2` since 6.1, which has the former two behind them. A call of the wrong one would crash. So they count only if
//!
//! - the host says the size of its table (the info `modex.module_size`), which tells the release,
//! - the library stands in for an OpenPMIx, whose release is that of the host, or
//! - the table has both entries, and `client_connected`, `tool_connected` and `log` are empty.
//!
//! Only a host of 6.1 fits the last rule. A host of 5.0 or 6.0 would have session control and resource blocks, but
//! neither tools nor a log. No known host is like that. PRRTE's main line has `tool_connected` and `log` beside the
//! newer entries. It runs with a library that stands in.
//!
//! The entry `listener` is never called: the library has listeners of its own.

use std::fs;
use std::io::IoSliceMut;
use std::marker::PhantomData;
use std::ops::Range;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::error::CError;
use crate::pointer;
use crate::types::{c_void, pmix_server_module_t};

/// Size of the part that every release has, in bytes.
pub(super) const COMMON_SIZE_BYTES: usize = 200;
/// Size of a table of 6.1, in bytes.
const SIZE_BYTES_OF_6_1: usize = 256;

/// A host's table as an argument: NULL or a table of release 3.0 or later.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct ModulePointer<'a>(*const pmix_server_module_t, PhantomData<&'a pmix_server_module_t>);

impl ModulePointer<'_> {
    /// Copies the table; NULL gives an empty one. The host may have said its size.
    ///
    /// # Errors
    /// When the pointer cannot be a table's.
    pub(crate) fn copy(self, size_bytes: Option<usize>) -> Result<pmix_server_module_t, CError> {
        let (module, mut copy) = (self.0, pmix_server_module_t::default());
        if module.is_null() {
            return Ok(copy);
        }
        pointer::check(module, "server module")?;
        // SAFETY: every release's table has so many bytes (the promise of this type); `copy` is longer, and elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(module.cast::<u8>(), (&raw mut copy).cast::<u8>(), COMMON_SIZE_BYTES);
        }
        let words = read_tail(module.cast(), size_bytes.unwrap_or(SIZE_BYTES_OF_6_1));
        if words.iter().all(|&address| address == 0) {
            return Ok(copy);
        }
        let code = executable_ranges();
        let [group, fabric, client_connected2, later @ ..] =
            words.map(|address| is_code(address, &code).then_some(address));
        // SAFETY: an address in executable memory where a table of release 4 or later has the entry `group`; see above.
        copy.group = unsafe { entry(group) };
        // SAFETY: the same for the entry `fabric`.
        copy.fabric = unsafe { entry(fabric) };
        if copy.client_connected.is_none() || size_bytes.is_some() {
            // SAFETY: the same for the entry `client_connected2`, which no table of 3.x with an empty older entry has.
            copy.client_connected2 = unsafe { entry(client_connected2) };
        }
        let has_older = copy.client_connected.is_some() || copy.tool_connected.is_some() || copy.log.is_some();
        let [first, second, third, fourth] = later;
        let looks_like_6_1 = !has_older && first.is_some() && second.is_some();
        let is_of_6_1 = size_bytes.map_or(looks_like_6_1, |size_bytes| size_bytes >= SIZE_BYTES_OF_6_1);
        if is_of_6_1 {
            // SAFETY: an address in executable memory where a table of 6.1 has this entry, and it is one; see above.
            copy.tool_connected2 = unsafe { entry(first) };
            // SAFETY: the same for the entry `log2`.
            copy.log2 = unsafe { entry(second) };
        }
        let [session_control, resource_block] = match (is_of_6_1, size_bytes) {
            (true, _) => [third, fourth],
            (false, Some(_)) => [first, second],
            (false, None) => [None; 2],
        };
        // SAFETY: an address in executable memory where a table of this release has the entry `session_control`.
        copy.session_control = unsafe { entry(session_control) };
        // SAFETY: the same for the entry `resource_block`.
        copy.resource_block = unsafe { entry(resource_block) };
        Ok(copy)
    }
}

/// Number of the entries that not every release has.
const TAIL: usize = (SIZE_BYTES_OF_6_1 - COMMON_SIZE_BYTES) / size_of::<usize>();

/// The pointers behind the common part, up to a table's size. Those that nobody can read are 0.
fn read_tail(module: *const u8, size_bytes: usize) -> [usize; TAIL] {
    let mut offset = COMMON_SIZE_BYTES;
    [(); TAIL].map(|()| {
        let at = module.wrapping_add(offset);
        offset += size_of::<usize>();
        if offset > size_bytes { 0 } else { read_carefully(at.cast()).unwrap_or(0) }
    })
}

/// A pointer; `None` if nothing can be read there.
fn read_carefully(from: *const c_void) -> Option<usize> {
    let mut pointer = 0_usize;
    let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut pointer);
    let there = RemoteIoVec { base: from.expose_provenance(), len: bytes.len() };
    let wanted = bytes.len();
    // Reading from this process is permitted to everyone, and a bad address causes an error, not a crash.
    let read = process_vm_readv(Pid::this(), &mut [IoSliceMut::new(bytes)], &[there]).ok()?;
    (read == wanted).then_some(pointer)
}

/// Address ranges of this process's code; empty if the kernel does not say.
fn executable_ranges() -> Vec<Range<usize>> {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    parse_maps(&maps)
}

/// Lines begin with `start-end permissions `; file names in them may hold any bytes.
fn parse_maps(maps: &[u8]) -> Vec<Range<usize>> {
    let line = |line: &[u8]| {
        let mut words = line.split(|&byte| byte == b' ');
        let (range, permissions) = (std::str::from_utf8(words.next()?).ok()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        permissions.contains(&b'x').then_some(range)
    };
    maps.split(|&byte| byte == b'\n').filter_map(line).collect()
}

fn is_code(address: usize, code: &[Range<usize>]) -> bool {
    code.iter().any(|range| range.contains(&address))
}

/// An address as a function pointer.
///
/// # Safety
/// `F` is an `Option` of a function pointer, and the address is that of such a function.
unsafe fn entry<F: Copy + Default>(address: Option<usize>) -> F {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    match address {
        // SAFETY: the address is that of such a function (the contract of this function); the sizes are equal
        // (checked).
        Some(address) => unsafe { std::mem::transmute_copy::<usize, F>(&address) },
        None => F::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_server_client_connected_fn_t, pmix_status_t};

    unsafe extern "C" fn connected(
        _: *const pmix_proc_t,
        _: *mut c_void,
        _: Option<pmix_op_cbfunc_t>,
        _: *mut c_void,
    ) -> pmix_status_t {
        0
    }

    unsafe extern "C" fn connected2(
        _: *const pmix_proc_t,
        _: *mut c_void,
        _: *mut pmix_info_t,
        _: usize,
        _: Option<pmix_op_cbfunc_t>,
        _: *mut c_void,
    ) -> pmix_status_t {
        0
    }

    fn copied(module: &pmix_server_module_t) -> pmix_server_module_t {
        ModulePointer(module, PhantomData).copy(None).unwrap()
    }

    #[test]
    fn no_table_is_an_empty_one() {
        let module = ModulePointer(std::ptr::null(), PhantomData).copy(None).unwrap();
        assert!(module.abort.is_none() && module.client_connected2.is_none());
    }

    #[test]
    fn an_impossible_address_of_a_module_table_is_refused() {
        for address in [8, 4097] {
            let refused = ModulePointer(std::ptr::without_provenance(address), PhantomData).copy(None);
            assert!(matches!(refused, Err(CError::BadPointer { address: named, .. }) if named == address));
        }
    }

    #[test]
    fn a_newer_table_is_copied_whole() {
        let module = pmix_server_module_t { client_connected2: Some(connected2), ..Default::default() };
        assert!(copied(&module).client_connected2.is_some());
        let both = pmix_server_module_t { client_connected: Some(connected), ..module };
        let both = copied(&both);
        assert!(both.client_connected.is_some() && both.client_connected2.is_none());
    }

    unsafe extern "C" fn tool(
        _: *mut pmix_info_t,
        _: usize,
        _: Option<crate::types::pmix_tool_connection_cbfunc_t>,
        _: *mut c_void,
    ) -> pmix_status_t {
        0
    }

    unsafe extern "C" fn log(
        _: *const pmix_proc_t,
        _: *const pmix_info_t,
        _: usize,
        _: *const pmix_info_t,
        _: usize,
        _: Option<pmix_op_cbfunc_t>,
        _: *mut c_void,
    ) -> pmix_status_t {
        0
    }

    #[test]
    fn entries_of_6_1_are_read_where_they_can_be_no_others() {
        let has = |module: &pmix_server_module_t, size_bytes| {
            let copied = ModulePointer(module, PhantomData).copy(size_bytes).unwrap();
            (copied.tool_connected2.is_some(), copied.log2.is_some())
        };
        let both = pmix_server_module_t { tool_connected2: Some(tool), log2: Some(log), ..Default::default() };
        assert_eq!(has(&both, None), (true, true));
        // One alone could be the session control of 5.0, unless the host says the size of its table.
        let one = pmix_server_module_t { log2: None, ..both };
        assert_eq!((has(&one, None), has(&one, Some(256))), ((false, false), (true, false)));
        // So could both in a host with an older entry.
        let older = pmix_server_module_t { client_connected: Some(connected), ..both };
        assert_eq!((has(&older, None), has(&older, Some(256))), ((false, false), (true, true)));
        for size_bytes in [200, 224, 232, 240] {
            assert_eq!(has(&both, Some(size_bytes)), (false, false));
        }
    }

    unsafe extern "C" fn session(
        _: *const pmix_proc_t,
        _: u32,
        _: *const pmix_info_t,
        _: usize,
        _: Option<crate::types::pmix_info_cbfunc_t>,
        _: *mut c_void,
    ) -> pmix_status_t {
        0
    }

    #[test]
    fn session_control_is_where_the_release_of_the_table_has_it() {
        let address = session as *const () as usize;
        for (word, size_bytes, is_read) in [
            (28, Some(232), true),
            (28, Some(240), true),
            (28, Some(224), false),
            (28, Some(256), false),
            (28, None, false),
            (30, Some(256), true),
            (30, Some(240), false),
            // A table of 6.1 would have two more entries before it.
            (30, None, false),
        ] {
            let mut table = [0_usize; 32];
            table[word] = address;
            let copied = ModulePointer(table.as_ptr().cast(), PhantomData).copy(size_bytes).unwrap();
            assert_eq!(copied.session_control.is_some(), is_read, "word {word}, {size_bytes:?}");
            assert!(copied.resource_block.is_none());
        }
        let two = pmix_server_module_t { tool_connected2: Some(tool), log2: Some(log), ..Default::default() };
        assert!(copied(&pmix_server_module_t { session_control: Some(session), ..two }).session_control.is_some());
    }

    #[test]
    fn data_behind_a_short_module_table_are_no_functions() {
        // The table of 3.x, and data behind it.
        let mut room = [0_usize; 32];
        room[0] = connected as pmix_server_client_connected_fn_t as usize;
        room[25..].fill(0x1234);
        let module = ModulePointer(room.as_ptr().cast(), PhantomData).copy(None).unwrap();
        assert!(module.client_connected.is_some());
        assert!(module.group.is_none() && module.fabric.is_none() && module.client_connected2.is_none());
        // Addresses of data are no functions either.
        let address = room.as_ptr().addr();
        room[25..].fill(address);
        assert!(ModulePointer(room.as_ptr().cast(), PhantomData).copy(None).unwrap().group.is_none());
    }

    #[test]
    fn a_table_at_the_end_of_its_memory_is_not_read_beyond() {
        let page = 4096;
        let pages = std::num::NonZeroUsize::new(2 * page).unwrap();
        let protection = nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE;
        let flags = nix::sys::mman::MapFlags::MAP_PRIVATE;
        // SAFETY: a new mapping, used by this test alone.
        let start = unsafe { nix::sys::mman::mmap_anonymous(None, pages, protection, flags) }.unwrap();
        let end = start.as_ptr().cast::<u8>().wrapping_add(page);
        let second = std::ptr::NonNull::new(end.cast()).unwrap();
        // SAFETY: the second page of the mapping above.
        unsafe { nix::sys::mman::mprotect(second, page, nix::sys::mman::ProtFlags::PROT_NONE) }.unwrap();
        let module = ModulePointer(end.wrapping_sub(COMMON_SIZE_BYTES).cast(), PhantomData).copy(None).unwrap();
        assert!(module.client_connected.is_none() && module.group.is_none());
        // SAFETY: the mapping above, no longer used.
        unsafe { nix::sys::mman::munmap(start, 2 * page) }.unwrap();
    }

    #[test]
    fn maps_are_read_whatever_the_file_names_hold() {
        let maps = b"00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a b\n\
            7f00-7fff rw-p 0 0 0\n\xff\xfe garbage\n1000-2000 r-xs 0 0 0 /x\xff\n";
        assert_eq!(parse_maps(maps), [0x40_0000..0x45_2000, 0x1000..0x2000]);
    }
}
