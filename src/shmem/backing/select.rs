//! Makes the backing that a caller requests.

use super::{Backing, CreateError, file, heap, memfd};
use crate::shmem::options::{BackingKind, SegmentOptions};

#[cfg(feature = "posix-shm")]
use super::posix;

/// Makes the backing in `options`, with a span of at most `span_bytes` (a multiple of the page size).
pub(in crate::shmem) fn create(options: &SegmentOptions, span_bytes: u64) -> Result<Box<dyn Backing>, CreateError> {
    match options.backing {
        BackingKind::Memfd => Ok(Box::new(memfd::Memfd::create(&options.label, span_bytes)?)),
        BackingKind::Heap => Ok(Box::new(heap::Heap::create(span_bytes)?)),
        BackingKind::File => {
            let directory = options.directory.as_deref().ok_or(CreateError::NoDirectory)?;
            Ok(Box::new(file::FileBacking::create(directory, &options.label, span_bytes)?))
        }
        #[cfg(feature = "posix-shm")]
        BackingKind::Posix => Ok(Box::new(posix::Posix::create(&options.label, span_bytes)?)),
        #[cfg(not(feature = "posix-shm"))]
        BackingKind::Posix => Err(CreateError::Unavailable { backing: options.backing }),
    }
}
