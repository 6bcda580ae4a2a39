//! The realm a `Get` searches when the caller gives no realm directive.

use super::names as key;

/// The realm of a key's lookup without a realm directive.
///
/// A realm directive (`PMIX_SESSION_INFO`, `PMIX_JOB_INFO`, `PMIX_APP_INFO`, `PMIX_NODE_INFO`, `PMIX_PROC_INFO`)
/// overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefaultRealm {
    /// The session of the caller.
    Session,
    /// The application of the process asked about.
    Application,
    /// The node of the caller.
    Node,
    /// The rank in the request decides: the job for the wildcard, the process otherwise.
    ///
    /// Not two variants, because the key does not determine which of the two is meant. Data of the job would be a wrong
    /// answer to a request for one rank.
    ByRank,
}

/// The default realm of a key; `ByRank` for every key that is not classified, reserved or not.
///
/// The standard's text (chapter on data realms) and the reference library disagree on `PMIX_LOCAL_PEERS`,
/// `PMIX_LOCAL_SIZE`, `PMIX_LOCALLDR` and `PMIX_LOCAL_CPUSETS`, which the text calls job data. This follows the
/// reference, because hosts register them per node and the text also defines them per node.
#[must_use]
pub fn default_realm(key: &str) -> DefaultRealm {
    if NODE.contains(&key) {
        DefaultRealm::Node
    } else if APPLICATION.contains(&key) {
        DefaultRealm::Application
    } else if SESSION.contains(&key) {
        DefaultRealm::Session
    } else {
        DefaultRealm::ByRank
    }
}

const NODE: &[&str] = &[
    key::HOSTNAME.name(),
    key::HOSTNAME_ALIASES.name(),
    key::NODEID.name(),
    key::AVAIL_PHYS_MEMORY.name(),
    key::LOCAL_PEERS.name(),
    key::LOCAL_PROCS.name(),
    key::LOCAL_CPUSETS.name(),
    key::LOCAL_SIZE.name(),
    key::NODE_SIZE.name(),
    key::LOCALLDR.name(),
    key::NODE_OVERSUBSCRIBED.name(),
    key::FABRIC_DEVICES.name(),
    // Also the string of FABRIC_DEVICE_COORDINATES, a detail of a device.
    key::FABRIC_COORDINATES.name(),
    key::FABRIC_DEVICE.name(),
    key::FABRIC_DEVICE_ADDRESS.name(),
    key::FABRIC_DEVICE_BUS_TYPE.name(),
    key::FABRIC_DEVICE_DRIVER.name(),
    key::FABRIC_DEVICE_FIRMWARE.name(),
    key::FABRIC_DEVICE_INDEX.name(),
    key::FABRIC_DEVICE_MTU.name(),
    key::FABRIC_DEVICE_NAME.name(),
    key::FABRIC_DEVICE_PCI_DEVID.name(),
    key::FABRIC_DEVICE_SPEED.name(),
    key::FABRIC_DEVICE_STATE.name(),
    key::FABRIC_DEVICE_TYPE.name(),
    key::FABRIC_DEVICE_VENDOR.name(),
    key::FABRIC_DEVICE_VENDORID.name(),
];

const APPLICATION: &[&str] = &[
    key::APP_SIZE.name(),
    key::APPLDR.name(),
    key::APP_ARGV.name(),
    key::WDIR.name(),
    key::PSET_NAME.name(),
    key::PSET_MEMBERS.name(),
    key::APP_MAP_TYPE.name(),
    key::APP_MAP_REGEX.name(),
];

const SESSION: &[&str] = &[
    key::SESSION_ID.name(),
    key::CLUSTER_ID.name(),
    key::UNIV_SIZE.name(),
    key::TMPDIR.name(),
    key::TDIR_RMCLEAN.name(),
    key::HOSTNAME_KEEP_FQDN.name(),
    key::RM_NAME.name(),
    key::RM_VERSION.name(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::attributes;
    use std::collections::BTreeSet;

    /// Key strings of all attributes with this default realm.
    fn classified(realm: DefaultRealm) -> BTreeSet<&'static str> {
        let names = attributes().map(|attribute| attribute.name);
        names.filter(|name| default_realm(name) == realm).collect()
    }

    #[test]
    fn the_session_keys_are_these() {
        let expected = "pmix.session.id pmix.clid pmix.univ.size pmix.tmpdir pmix.tdir.rmclean pmix.fqdn \
                        pmix.rm.name pmix.rm.version";
        assert_eq!(classified(DefaultRealm::Session), expected.split(' ').collect());
    }

    #[test]
    fn the_application_keys_are_these() {
        let expected = "pmix.app.size pmix.aldr pmix.app.argv pmix.wdir pmix.pset.nm pmix.pset.mems \
                        pmix.apmap.type pmix.apmap.regex";
        assert_eq!(classified(DefaultRealm::Application), expected.split(' ').collect());
    }

    #[test]
    fn the_node_keys_are_these_and_all_details_of_fabric_devices() {
        let listed = "pmix.hname pmix.alias pmix.nodeid pmix.pmem pmix.lpeers pmix.lprocs pmix.lcpus pmix.local.size \
                      pmix.node.size pmix.lldr pmix.ndosub pmix.fab.devs pmix.fab.coord";
        let details = attributes().map(|attribute| attribute.name);
        let details = details.filter(|name| name.starts_with("pmix.fabdev"));
        assert_eq!(classified(DefaultRealm::Node), listed.split(' ').chain(details).collect());
    }

    #[test]
    fn job_process_and_foreign_keys_go_by_rank() {
        for key in ["pmix.job.size", "pmix.max.size", "pmix.rank", "pmix.lrank", "my.key", ""] {
            assert_eq!(default_realm(key), DefaultRealm::ByRank, "{key}");
        }
    }
}
