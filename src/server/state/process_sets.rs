//! Process sets of the host.

use std::collections::BTreeMap;

use crate::types::{Namespace, ProcId, Text};

/// The sets that the host has defined and not deleted.
#[derive(Debug, Default)]
pub(crate) struct ProcessSets(BTreeMap<Text, Vec<ProcId>>);

impl ProcessSets {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text, &[ProcId])> {
        self.0.iter().map(|(name, members)| (name, members.as_slice()))
    }

    pub(crate) fn members(&self, name: &Text) -> Option<&[ProcId]> {
        self.0.get(name).map(Vec::as_slice)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a set. It replaces a set of the same name.
    pub(crate) fn insert(&mut self, name: Text, members: Vec<ProcId>) {
        self.0.insert(name, members);
    }

    /// Removes a set, and returns its members.
    pub(crate) fn remove(&mut self, name: &Text) -> Option<Vec<ProcId>> {
        self.0.remove(name)
    }

    /// Drops the sets whose processes are all of a deregistered job.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.0.retain(|_, members| members.iter().any(|proc| proc.namespace != *namespace));
    }
}
