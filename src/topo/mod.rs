//! The node's hardware as hwloc sees it. Nothing outside this module names a type of the binding.
//!
//! ```no_run
//! let cores = modex::topo::cores()?;
//! println!("{} cores, the first has processors {:?}", cores.len(), cores.first());
//! # Ok::<(), modex::topo::TopologyError>(())
//! ```

#[cfg(feature = "topology")]
mod detect;
mod error;
mod locality;

pub use error::TopologyError;
pub use locality::{LocalityError, locality_string, relative_locality};

/// The operating system's processor numbers of each core this process may run on, in hwloc's logical order.
///
/// # Errors
/// [`TopologyError`] when the topology can't be read, or the crate was built without feature `topology`.
pub fn cores() -> Result<Vec<Vec<usize>>, TopologyError> {
    #[cfg(feature = "topology")]
    return detect::cores();
    #[cfg(not(feature = "topology"))]
    Err(TopologyError::NotBuilt)
}
