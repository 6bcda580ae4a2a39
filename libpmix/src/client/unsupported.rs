//! Functions of a client that are not supported.

use crate::types::pmix_info_t;

/// Would stop the library's thread. Does nothing, because the thread ends by itself with the last finalization. See the
/// reference implementation's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Progress_thread_stop(_info: *const pmix_info_t, _ninfo: usize) {}
