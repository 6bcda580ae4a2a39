//! Memory of this process, for tests and simulation: no descriptor, no name, no system call to grow.

use std::io;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use super::Backing;
use super::growth::largest_span;
use super::handle::{HeapObject, ReaderHandle};
use crate::shmem::error::{CreateError, GrowError, HandleError};
use crate::shmem::memory::Memory;
use crate::shmem::options::{Location, Protection};

/// Zeroed anonymous memory; pages are taken when they are first touched.
#[derive(Debug)]
pub(super) struct Heap {
    memory: Memory,
    object: Arc<HeapObject>,
}

impl Heap {
    /// Makes an empty segment.
    pub(super) fn create(span_bytes: u64) -> Result<Self, CreateError> {
        largest_span(span_bytes, |span| {
            let map = MmapRaw::from(MmapOptions::new().len(span).no_reserve_swap().map_anon()?);
            let object = Arc::new(HeapObject::new(map));
            let memory = object.memory().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            Ok(Self { memory, object })
        })
    }
}

impl Backing for Heap {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn reserved_bytes(&self) -> u64 {
        self.object.size_bytes()
    }

    fn reserve(&mut self, to: u64) -> Result<(), GrowError> {
        self.object.reserve(to);
        Ok(())
    }

    fn handle(&self) -> Result<ReaderHandle, HandleError> {
        Ok(ReaderHandle::from_heap(Arc::clone(&self.object)))
    }

    fn protection(&self) -> Protection {
        Protection::ProcessLocal
    }

    fn location(&self) -> Location {
        Location::Process
    }
}
