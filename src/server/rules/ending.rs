//! The results of an operation for its participants.

use std::sync::Arc;

use crate::keys;
use crate::proto::{RankData, Reply};
use crate::types::{Info, Kval, ProcId, Status, Text, Value};

/// The result of an operation for its participants.
pub(super) struct Ending {
    pub(super) status: Status,
    pub(super) results: Results,
    /// Namespaces that took part, with their data here.
    pub(super) jobs: Vec<RankData>,
}

/// The results besides the status.
pub(super) enum Results {
    Nothing,
    /// Participants that left before they arrived.
    Missing(Vec<ProcId>),
    Jobs,
    Group(GroupData),
}

/// The data about a group for its members.
pub(super) struct GroupData {
    pub(super) members: Arc<Vec<ProcId>>,
    pub(super) context_id: Option<u64>,
    pub(super) info: Vec<Info>,
}

impl GroupData {
    /// All results of the host for our clients. OpenPMIx clients read infos only beside a context number. They do not
    /// check the type, and crash if an info is not a member's contribution.
    pub(super) fn reply<'a>(&self, jobs: impl Iterator<Item = &'a RankData>, is_own_client: bool) -> Reply {
        let named = |job: &RankData| (Text::from(job.proc.namespace.as_str()), job.entries.clone());
        let is_understood = |info: &&Info| is_own_client || self.context_id.is_some() && is_from_members(info);
        // The layout of our own release has no place for infos. No job of OpenPMIx has an empty name. An info of the
        // host with an empty key can't travel so, and nobody could find it.
        let infos: Vec<Kval> = match is_own_client {
            true => self
                .info
                .iter()
                .filter(|info| !info.key.as_str().is_empty())
                .map(|Info { key, value, .. }| Kval { key: key.clone(), value: value.clone() })
                .collect(),
            false => Vec::new(),
        };
        let nameless = (!infos.is_empty()).then(|| (Text::from(""), infos));
        Reply::Group {
            members: self.members.to_vec(),
            context_id: self.context_id,
            info: self.info.iter().filter(is_understood).cloned().collect(),
            jobs: jobs.map(named).chain(nameless).collect(),
        }
    }
}

/// Whether this is one member's contribution, or a list of several: infos whose first names the process.
fn is_from_members(info: &Info) -> bool {
    let infos_of = |value: &Value| match value {
        Value::DataArray(array) => {
            let info = |element: &Value| if let Value::Info(info) = element { Some((**info).clone()) } else { None };
            array.elements.iter().map(info).collect::<Option<Vec<Info>>>()
        }
        _ => None,
    };
    let is_bundle = |value: &Value| {
        let first = infos_of(value).and_then(|infos| infos.into_iter().next());
        first.is_some_and(|info| info.key.as_str() == keys::PROCID.name() && matches!(info.value, Value::Proc(_)))
    };
    match info.key.as_str() {
        key if key == keys::GROUP_INFO.name() => is_bundle(&info.value),
        key if key == keys::GROUP_INFO_ARRAY.name() => {
            infos_of(&info.value).is_some_and(|bundles| bundles.iter().all(|bundle| is_bundle(&bundle.value)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Key;

    /// Regression: our client could not read such an entry, and closed its connection.
    #[test]
    fn a_hosts_info_without_a_key_is_no_entry_for_our_client() {
        let info = [b"".as_slice(), b"key"].map(|key| Info::new(Key::of_info(key).unwrap(), 1u32));
        let formed = GroupData { members: Arc::default(), context_id: None, info: info.to_vec() };
        let Reply::Group { jobs, .. } = formed.reply(std::iter::empty(), true) else { panic!("no group") };
        let keys: Vec<&str> = jobs.iter().flat_map(|(_, entries)| entries).map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["key"]);
    }
}
