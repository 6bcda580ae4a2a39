//! Bytes that belong to the host until they have been read.

use crate::guard::guard_or;
use crate::types::{c_void, pmix_release_cbfunc_t};

/// Bytes of the host, given back by [`Drop`]; or a copy.
pub(in crate::server) struct HostBytes {
    place: Place,
}

enum Place {
    Host { bytes: &'static [u8], release: Release },
    Copy(Vec<u8>),
}

/// The host's function that releases its bytes.
struct Release {
    function: pmix_release_cbfunc_t,
    cbdata: *mut c_void,
}

// SAFETY: the host gave a function that a library may call from any thread of its own, with a pointer that is the
// host's own and that nothing here follows.
unsafe impl Send for Release {}
// SAFETY: a shared reference to it gives access to nothing.
unsafe impl Sync for Release {}

impl HostBytes {
    /// Takes bytes that are the host's until `function` is called with `cbdata`.
    ///
    /// # Safety
    /// The bytes stay as they are until then.
    pub(super) unsafe fn lent(bytes: &'static [u8], function: pmix_release_cbfunc_t, cbdata: *mut c_void) -> Self {
        Self { place: Place::Host { bytes, release: Release { function, cbdata } } }
    }

    /// Copies bytes of a host that doesn't say how long they stay.
    pub(super) fn copied(bytes: &[u8]) -> Self {
        Self { place: Place::Copy(bytes.to_vec()) }
    }
}

impl AsRef<[u8]> for HostBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.place {
            Place::Host { bytes, .. } => bytes,
            Place::Copy(bytes) => bytes,
        }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        if let Place::Host { release: Release { function, cbdata }, .. } = &self.place {
            // SAFETY: the host gave it to be called with this, once, when its data is no longer used.
            guard_or((), || unsafe { function(*cbdata) });
        }
    }
}
