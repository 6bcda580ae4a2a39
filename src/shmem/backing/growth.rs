//! Common parts of the backings: mapping a span, reserving memory for it, and making names.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process;

use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate, posix_fallocate};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::shmem::error::{CreateError, GrowError};
use crate::shmem::memory::Memory;
use crate::shmem::options::Location;
use crate::shmem::sync::Ordering;

/// Unit of reservations. On systems with larger pages the last page is used in part.
pub(in crate::shmem) const PAGE_BYTES: u64 = 4096;
/// Smallest step of a segment's growth, so that small segments need few system calls.
const STEP_BYTES_MIN: u64 = 64 << 10;
/// A segment grows by this part of its size, so that large ones need few system calls and waste at most that part.
const STEP_DIVISOR: u64 = 8;
/// Largest step, unless more is needed at once. The kernel takes about a millisecond for it, and others wait meanwhile.
const STEP_BYTES_MAX: u64 = 1 << 20;
/// Smallest span tried when larger ones are refused.
const SPAN_FALLBACK_BYTES_MIN: u64 = 1 << 20;
/// Names tried for an object before giving up.
const NAME_ATTEMPTS: u32 = 64;

/// Bytes to reserve: `need` bytes are needed, `have` are reserved and `span` is the maximum.
pub(in crate::shmem) fn next_reservation(have: u64, need: u64, span: u64) -> u64 {
    let step = (have / STEP_DIVISOR).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
    let wish = need.max(have.saturating_add(step));
    wish.checked_next_multiple_of(PAGE_BYTES).unwrap_or(span).min(span)
}

/// Tries `map` with `span_bytes`, then with ever smaller spans; returns the first mapping granted.
pub(super) fn largest_span<M>(span_bytes: u64, mut map: impl FnMut(usize) -> io::Result<M>) -> Result<M, CreateError> {
    let floor = span_bytes.min(SPAN_FALLBACK_BYTES_MIN);
    let mut span = span_bytes;
    loop {
        let attempt = usize::try_from(span).map_err(io::Error::other).and_then(&mut map);
        match attempt {
            Ok(mapping) => return Ok(mapping),
            Err(source) if span <= floor => {
                return Err(CreateError::Map { span_bytes: span, source });
            }
            Err(_) => span = (span / 2 / PAGE_BYTES * PAGE_BYTES).max(floor),
        }
    }
}

/// Maps a file or memory object writable, shared, for the largest span granted.
pub(super) fn map_writable(object: &File, span_bytes: u64) -> Result<Memory, CreateError> {
    largest_span(span_bytes, |span| {
        let map = MmapOptions::new().len(span).no_reserve_swap().map_raw(object)?;
        into_memory(map)
    })
}

/// Wraps a mapping of a file or memory object.
pub(super) fn into_memory(map: MmapRaw) -> io::Result<Memory> {
    // Otherwise each core file of an application process would contain the job's data, at an apparent size of the whole
    // span. On kernels without this advice core files are merely larger.
    let _ = map.advise(Advice::DontDump);
    Memory::from_map(map).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Allocates the bytes of `object` from `have` to `to`, growing it.
pub(super) fn allocate(object: impl AsFd, have: u64, to: u64, location: &Location) -> Result<(), GrowError> {
    if to <= have {
        return Ok(());
    }
    within_file_size_limit(to)?;
    let out_of_memory = |errno: Errno| GrowError::OutOfMemory {
        need_bytes: to,
        have_bytes: have,
        location: location.clone(),
        source: errno.into(),
    };
    let (Ok(start), Ok(len)) = (i64::try_from(have), i64::try_from(to - have)) else {
        return Err(out_of_memory(Errno::EFBIG));
    };
    loop {
        let result = match fallocate(&object, FallocateFlags::empty(), start, len) {
            // Some network file systems have no allocation; the C library then writes zeros.
            Err(Errno::EOPNOTSUPP) => posix_fallocate(&object, start, len),
            other => other,
        };
        match result {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(out_of_memory(errno)),
        }
    }
}

/// Refuses a size beyond `RLIMIT_FSIZE`. The kernel would refuse it with a signal that ends the process.
pub(super) fn within_file_size_limit(need_bytes: u64) -> Result<(), GrowError> {
    match getrlimit(Resource::RLIMIT_FSIZE) {
        Ok((limit_bytes, _)) if limit_bytes != RLIM_INFINITY && need_bytes > limit_bytes => {
            Err(GrowError::FileSizeLimit { need_bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// Tries names for a new object until `make` finds a free one. `make` returns `None` for a taken name.
pub(super) fn with_free_name<T>(
    label: &str,
    mut make: impl FnMut(&str) -> Result<Option<T>, CreateError>,
) -> Result<T, CreateError> {
    let label = plain(label, LABEL_IN_NAME_MAX);
    let mut last = String::new();
    for _ in 0..NAME_ATTEMPTS {
        // Relaxed: only uniqueness matters. The counter is not part of the protocol, so it is not loom's.
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("modex-{}-{serial}-{label}", process::id());
        if let Some(made) = make(&name)? {
            return Ok(made);
        }
        last = name;
    }
    Err(CreateError::NamesTaken { attempts: NAME_ATTEMPTS, last })
}

/// Longest part of a label in a name; the whole stays far below the 255 bytes a file name may have.
const LABEL_IN_NAME_MAX: usize = 128;

/// Makes the names of one process differ.
static SERIAL: crate::shmem::sync::memory::AtomicU64 = crate::shmem::sync::memory::AtomicU64::new(0);

/// `label` with everything but plain characters replaced, at most `bytes_max` bytes long.
pub(super) fn plain(label: &str, bytes_max: usize) -> String {
    label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.@".contains(c) { c } else { '_' })
        .take(bytes_max)
        .collect()
}
