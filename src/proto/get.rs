//! Directives of a Get, for both ends.

use super::Get;
use crate::keys;
use crate::types::{Info, InfoFlags};

impl Get {
    /// Directives that the client alone honours.
    pub(crate) const OF_CLIENT: [&str; 4] = [
        keys::OPTIONAL.name(),
        keys::GET_POINTER_VALUES.name(),
        keys::GET_STATIC_VALUES.name(),
        // A Get waits for its one value anyway.
        keys::WAIT.name(),
    ];

    /// Directives that both the client and the server honour.
    pub(crate) const OF_BOTH: [&str; 13] = [
        keys::IMMEDIATE.name(),
        keys::GET_REFRESH_CACHE.name(),
        keys::DATA_SCOPE.name(),
        keys::TIMEOUT.name(),
        keys::SESSION_INFO.name(),
        keys::JOB_INFO.name(),
        keys::APP_INFO.name(),
        keys::NODE_INFO.name(),
        keys::HOSTNAME.name(),
        keys::NODEID.name(),
        keys::APPNUM.name(),
        keys::SESSION_ID.name(),
        keys::GROUP_ID.name(),
    ];

    /// Directives that name devices or planes of a fabric. The server honours them.
    pub(crate) const OF_HARDWARE: [&str; 10] = [
        keys::OF_COSTS[0],
        keys::OF_COSTS[1],
        keys::OF_COSTS[2],
        keys::DEVICE_ID.name(),
        keys::FABRIC_DEVICE_INDEX.name(),
        keys::FABRIC_DEVICE_NAME.name(),
        keys::FABRIC_IDENTIFIER.name(),
        keys::FABRIC_INDEX.name(),
        keys::FABRIC_PLANE.name(),
        keys::FABRIC_VENDOR.name(),
    ];

    /// The first required entry that this library does not know: a Get with one is not supported. Qualifiers of the
    /// value, with any key, are honoured by the search for a value that has them.
    ///
    /// Source: PMIx Standard, "Data Structures and Types" (`pmix_info_directives_t`).
    #[must_use]
    pub fn unmet(directives: &[Info]) -> Option<&Info> {
        directives.iter().find(|info| {
            let is_others = info.flags().intersects(InfoFlags::QUALIFIER | InfoFlags::PROCESSED);
            let lists = [&Self::OF_CLIENT[..], &Self::OF_BOTH, &Self::OF_HARDWARE];
            let is_understood = |key: &str| lists.iter().any(|list| list.contains(&key));
            !is_others && keys::is_unmet(info, is_understood)
        })
    }
}
