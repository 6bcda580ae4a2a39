//! What the library says on standard error of the process it is in.

use std::sync::Once;

use modex::notices::{Speaker, VARIABLE, install};

/// Has reasons of failures shown from now on; called by whatever initializes this process, before it can fail.
#[expect(clippy::disallowed_methods, reason = "a C process is an edge; it has no other configuration")]
pub(super) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| install(Speaker::Library, std::env::var_os(VARIABLE).as_deref()));
}
