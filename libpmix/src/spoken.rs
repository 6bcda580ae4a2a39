//! Messages of the library on the process's standard error.

use std::sync::Once;

use modex::runtime::{tell_of_parameters, verbose_areas};
use modex::stderr_log::{LevelFilter, Levels, VARIABLE, install};

/// Shows the reasons of failures from now on. Every function that initializes this process calls it first.
#[expect(clippy::disallowed_methods, reason = "a C process is an edge; it has no other configuration")]
pub(super) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let levels = Levels::of(std::env::var_os(VARIABLE).as_deref(), LevelFilter::ERROR);
        install(levels.with_verbose(&verbose_areas()));
        tell_of_parameters();
    });
}
