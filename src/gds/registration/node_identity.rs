//! The node that an array describes, by its own values.

use crate::keys;
use crate::types::{Info, Value};

use super::coerce::{ValueRule, text_of};
use super::collect::u32_of;
use super::entry_path::Anchor;
use super::error::RegisterError;
use super::table::NodeArray;

/// The values of a node array that identify its node.
#[derive(Debug, Default)]
pub(super) struct NodeIdentity {
    /// The place of these values.
    pub(super) anchor: Option<Anchor>,
    pub(super) hostname: Option<String>,
    pub(super) id: Option<u32>,
    pub(super) aliases: Vec<String>,
}

impl NodeIdentity {
    /// The identity in a node array; an array without name and number has none and is refused.
    pub(super) fn of(array: &NodeArray<'_>) -> Result<Self, RegisterError> {
        let mut identity = Self::of_infos(array.infos.iter()).map_err(|error| error.anchored(array.anchor()))?;
        identity.anchor = Some(array.anchor());
        if identity.hostname.is_none() && identity.id.is_none() {
            let error = RegisterError::Unidentified {
                container: "PMIX_NODE_INFO_ARRAY",
                position: array.position,
                missing: "PMIX_HOSTNAME or PMIX_NODEID",
            };
            return Err(error.anchored(array.anchor()));
        }
        Ok(identity)
    }

    pub(super) fn of_infos<'b>(infos: impl Iterator<Item = &'b Info>) -> Result<Self, RegisterError> {
        const HOSTNAME: &str = keys::HOSTNAME.name();
        const NODEID: &str = keys::NODEID.name();
        const ALIASES: &str = keys::HOSTNAME_ALIASES.name();
        let mut identity = Self::default();
        for info in infos {
            match info.key.as_str() {
                HOSTNAME => {
                    ValueRule::of(HOSTNAME).check(HOSTNAME, &info.value)?;
                    identity.hostname = text_of(&info.value).or(identity.hostname);
                }
                NODEID => identity.id = Some(u32_of(info)?),
                ALIASES => {
                    ValueRule::of(ALIASES).check(ALIASES, &info.value)?;
                    identity.aliases.extend(names_in(&info.value));
                }
                _ => {}
            }
        }
        Ok(identity)
    }
}

/// The names in a comma list or an array of strings.
pub(super) fn names_in(value: &Value) -> Vec<String> {
    let list = match value {
        Value::DataArray(array) => array.elements.iter().filter_map(text_of).collect::<Vec<_>>().join(","),
        _ => text_of(value).unwrap_or_default(),
    };
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
