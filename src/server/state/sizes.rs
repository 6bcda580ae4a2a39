//! The memory that parts of requests take.

use crate::types::{Info, ProcId, footprint};

/// Approximate memory of a list of participants in an operation and in the index, in bytes.
pub(crate) const fn size_of_procs(procs: &[ProcId]) -> usize {
    procs.len().saturating_mul(2 * size_of::<ProcId>())
}

/// Approximate memory of infos, in bytes.
pub(crate) fn size_of_infos(infos: &[Info]) -> usize {
    let size = |info: &Info| footprint(&info.value).unwrap_or(usize::MAX).saturating_add(size_of::<Info>());
    infos.iter().map(size).fold(0, usize::saturating_add)
}
