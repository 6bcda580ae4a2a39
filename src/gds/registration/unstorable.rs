//! The place of values that cannot be stored. The writer knows only the name of the value. The place is searched after
//! the failure, so that storable values cost nothing.

use crate::gds::StoreError;
use crate::types::Info;

use super::description::{Description, Part, parts_of};
use super::error::RegisterError;
use super::place::Anchor;

/// Adds the place in the description to a writer's error.
pub(in crate::gds) fn located_in(error: StoreError, description: &Description, value_bytes_max: u32) -> StoreError {
    located(error, || description.parts(), value_bytes_max)
}

/// As [`located_in`], for a description without tables.
pub(in crate::gds) fn located_in_infos(error: StoreError, infos: &[Info], value_bytes_max: u32) -> StoreError {
    located(error, || parts_of(infos), value_bytes_max)
}

fn located<'a, P: Iterator<Item = Part<'a>>>(
    error: StoreError,
    parts: impl Fn() -> P,
    value_bytes_max: u32,
) -> StoreError {
    let (name, limit, error) = match error {
        StoreError::Value { key, reason } => {
            (key.as_str().to_owned(), Some(value_bytes_max), RegisterError::Value(reason))
        }
        StoreError::TooManyKeys { key, keys_max } => (key, None, RegisterError::TooManyKeys { keys_max }),
        other => return other,
    };
    let error = error.anchored(Anchor::Stored(name, limit)).located(parts());
    error.into()
}
