//! The table of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::leavers::Leavers;
use crate::keys;
use crate::server::interface::Limits;
use crate::server::state::registry::Registry;
use crate::server::state::shares::UserShares;
use crate::types::{Info, Key, Namespace, ProcId, Text, Value};

/// Groups with local members. Disjoint sets of processes may use one name at the same time, for example for groups of
/// one process each.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<Text, Vec<Group>>,
    count: usize,
    /// Total number of members.
    member_count: usize,
    /// Number of groups with local members of each user.
    of_users: UserShares,
    /// Number of their members.
    members_of_users: UserShares,
    /// The groups of each local process.
    of_process: GroupsOfProcesses,
    /// The number of the last entry of a process into a group.
    last_entry: u64,
    /// The last context number that this server has assigned.
    last_number: u64,
    /// Processes that have left groups with remote members.
    leavers: Leavers,
}

/// The names of the groups that each local process is in, one of a name at most, with the number of its entry.
type GroupsOfProcesses = BTreeMap<ProcId, BTreeMap<Text, u64>>;

/// The meaning of group names for one caller. Each name is looked up once.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    groups: &'a Groups,
    registry: &'a Registry,
    caller: &'a ProcId,
    known: BTreeMap<Namespace, Option<&'a Group>>,
}

impl Names<'_> {
    /// The processes that an entry means: none if the group has no such rank. `None`: it does not name a group.
    pub(crate) fn members(&mut self, named: &ProcId) -> Option<&[ProcId]> {
        if self.groups.groups.is_empty() {
            return None;
        }
        let group = match self.known.get(&named.namespace) {
            Some(known) => *known,
            None => {
                let found = self.find(&named.namespace);
                self.known.insert(named.namespace.clone(), found);
                found
            }
        }?;
        Some(match named.rank.process().map(usize::try_from) {
            Some(Ok(position)) => group.members.get(position).map(std::slice::from_ref).unwrap_or_default(),
            _ => &group.members,
        })
    }
}

impl<'a> Names<'a> {
    fn find(&self, namespace: &Namespace) -> Option<&'a Group> {
        if self.registry.job(namespace).is_some() {
            return None;
        }
        let id = Text::from(namespace.as_str());
        let user = self.registry.client(self.caller).map(|client| client.credentials().uid);
        let is_of_user = |group: &&Group| user.is_some_and(|user| group.users.contains(&user));
        let groups: &'a Groups = self.groups;
        groups.of_member(&id, self.caller).or_else(|| groups.groups.get(&id)?.iter().find(is_of_user))
    }
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    /// In the order of their ranks in the group.
    pub(crate) members: Arc<Vec<ProcId>>,
    /// The users of its local members. Other users never mean this group.
    pub(crate) users: BTreeSet<u32>,
    /// The local processes that formed it or joined it. Other local processes are not in it, even if they are named as
    /// members.
    pub(crate) here: BTreeSet<ProcId>,
    /// The number from the host, or from this server.
    pub(crate) context_id: Option<u64>,
    /// Processes that left a group of this name while this one was formed: perhaps this one.
    pub(crate) doubtful: BTreeSet<ProcId>,
    /// Members were promised an event for each death, so a death does not spoil the end of the group.
    pub(crate) survives_deaths: bool,
}

impl Groups {
    /// Replaces groups among the participants by their members. A group's name stands in place of a namespace, and the
    /// rank is the rank in the group. A job of that name takes precedence over any group. Otherwise the caller's own
    /// group of that name is meant, or else one of its user.
    pub(crate) fn translate(
        &self,
        registry: &Registry,
        procs: Vec<ProcId>,
        caller: &ProcId,
        procs_max: usize,
    ) -> Vec<ProcId> {
        let mut names = self.names(registry, caller);
        if procs.len() <= procs_max && !procs.iter().any(|proc| names.members(proc).is_some()) {
            return procs;
        }
        let members_of = |proc: ProcId| match names.members(&proc) {
            Some(members) => members.to_vec(),
            None => vec![proc],
        };
        procs.into_iter().flat_map(members_of).take(procs_max).collect()
    }

    /// The meaning of group names for a caller.
    pub(crate) const fn names<'a>(&'a self, registry: &'a Registry, caller: &'a ProcId) -> Names<'a> {
        Names { groups: self, registry, caller, known: BTreeMap::new() }
    }

    /// A context number for a group without one from a host: unique among the numbers of this server.
    pub(crate) fn next_number(&mut self) -> Info {
        self.last_number = self.last_number.saturating_add(1);
        Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), Value::Size(self.last_number))
    }

    pub(crate) fn len(&self) -> usize {
        self.count.max(self.of_process.len()).saturating_add(self.leavers.len())
    }

    /// Number of all groups, and of a process's groups.
    pub(crate) fn counts(&self, proc: &ProcId) -> (usize, usize) {
        (self.count, self.of_process.get(proc).map_or(0, BTreeMap::len))
    }

    /// Total number of members.
    pub(crate) const fn member_count(&self) -> usize {
        self.member_count
    }

    /// Number of groups with local members of a user, and of all their members.
    pub(crate) fn counts_of_user(&self, uid: u32) -> (usize, usize) {
        (self.of_users.of(uid), self.members_of_users.of(uid))
    }

    /// The number of the last entry of a process into a group.
    pub(crate) const fn last_entry(&self) -> u64 {
        self.last_entry
    }

    /// The name of the next group of a local process, behind one, that it has entered up to a number.
    pub(crate) fn next_of(&self, proc: &ProcId, after: Option<&Text>, until: u64) -> Option<&Text> {
        let ids = self.of_process.get(proc)?;
        let mut next = ids.range((after.map_or(Unbounded, Excluded), Unbounded));
        next.find(|(_, entry)| **entry <= until).map(|(id, _)| id)
    }

    /// All groups, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text, &Group)> {
        self.groups.iter().flat_map(|(id, groups)| groups.iter().map(move |group| (id, group)))
    }

    /// Checks the counts. For tests and simulations.
    pub(crate) fn assert_consistent(&self) {
        let (mut groups, mut members) = (UserShares::default(), UserShares::default());
        for (_, group) in self.iter() {
            for uid in &group.users {
                groups.take(*uid, 1);
                members.take(*uid, group.members.len());
            }
        }
        assert_eq!(groups, self.of_users, "groups are counted for their users");
        assert_eq!(members, self.members_of_users, "members of groups are counted for their users");
    }

    /// Groups with this name.
    pub(crate) fn named(&self, id: &Text) -> impl Iterator<Item = &Group> {
        self.groups.get(id).into_iter().flatten()
    }

    /// Groups with this name and exactly these members, which are sorted.
    pub(crate) fn of<'a>(&'a self, id: &Text, members: &'a [ProcId]) -> impl Iterator<Item = &'a Group> {
        self.named(id).filter(move |group| group.consists_of(members))
    }

    /// Groups with this name that any of these local processes is in.
    pub(crate) fn of_procs<'a>(&'a self, id: &Text, procs: &'a BTreeSet<ProcId>) -> impl Iterator<Item = &'a Group> {
        let groups = self.groups.get(id).into_iter().flatten();
        groups.filter(move |group| !group.here.is_disjoint(procs))
    }

    /// The group of this name that a local process is in.
    pub(crate) fn of_member(&self, id: &Text, proc: &ProcId) -> Option<&Group> {
        self.groups.get(id)?.iter().find(|group| group.here.contains(proc))
    }

    /// Adds a group. A process that forms a group again has left the earlier one of that name.
    pub(crate) fn insert(&mut self, id: &Text, group: Group) {
        group.here.iter().for_each(|proc| self.leavers.forget(proc, id));
        let entry = self.next_entry();
        self.revise(id, |groups, of_process| {
            for proc in &group.here {
                abandon(groups, of_process, proc, id);
                enter(of_process, proc, id, entry);
            }
            groups.push(group);
        });
    }

    /// Adds a local process of this user to the group of these members.
    pub(crate) fn join(
        &mut self,
        id: &Text,
        proc: &ProcId,
        user: u32,
        (members, context_id): (Vec<ProcId>, Option<u64>),
    ) {
        self.leavers.forget(proc, id);
        let entry = self.next_entry();
        self.revise(id, |groups, of_process| {
            abandon(groups, of_process, proc, id);
            groups.retain(|group| !group.here.is_empty());
            enter(of_process, proc, id, entry);
            match groups.iter_mut().find(|group| *group.members == members && group.users.contains(&user)) {
                Some(group) => drop(group.here.insert(proc.clone())),
                None => groups.push(Group {
                    members: Arc::new(members),
                    users: BTreeSet::from([user]),
                    here: BTreeSet::from([proc.clone()]),
                    context_id,
                    doubtful: BTreeSet::new(),
                    survives_deaths: false,
                }),
            }
        });
    }

    /// Removes a local process from its group of this name. Returns the remaining members. `None`: it is in no such
    /// group.
    pub(crate) fn leave(&mut self, id: &Text, proc: &ProcId) -> Option<Vec<ProcId>> {
        self.of_member(id, proc)?;
        self.revise(id, |groups, of_process| {
            let group = groups.iter_mut().find(|group| group.here.contains(proc))?;
            Arc::make_mut(&mut group.members).retain(|member| member != proc);
            let members = group.members.to_vec();
            abandon(groups, of_process, proc, id);
            Some(members)
        })
    }

    /// A remote process has left its group of this name.
    pub(crate) fn note_left(&mut self, id: &Text, proc: &ProcId) {
        self.revise(id, |groups, _| {
            let losing = groups.iter_mut().filter(|group| group.members.contains(proc));
            losing.for_each(|group| Arc::make_mut(&mut group.members).retain(|member| member != proc));
        });
    }

    /// A local process has left a group with remote members.
    pub(crate) fn note_leaver(&mut self, proc: &ProcId, id: &Text, survives_deaths: bool, limits: &Limits) {
        self.leavers.note(proc, id, survives_deaths, limits);
    }

    /// Whether the group that a local process has left survives deaths. `None`: it has left no group of that name.
    pub(crate) fn left_by(&self, proc: &ProcId, id: &Text) -> Option<bool> {
        self.leavers.of(proc, id)
    }

    /// This server has taken its part for a process that has left.
    pub(crate) fn forget_leaver(&mut self, proc: &ProcId, id: &Text) {
        self.leavers.forget(proc, id);
    }

    /// Ends the group of these members.
    pub(crate) fn remove(&mut self, id: &Text, members: &[ProcId]) {
        self.revise(id, |groups, of_process| retain(groups, of_process, id, |group| !group.consists_of(members)));
    }

    /// Drops groups that a removed job was part of.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.leavers.forget_namespace(namespace);
        let is_elsewhere = |group: &Group| group.members.iter().all(|proc| proc.namespace != *namespace);
        for id in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.revise(&id, |groups, of_process| retain(groups, of_process, &id, is_elsewhere));
        }
    }

    /// Changes the groups of one name, and their counts. Other groups are not visited, because another user may have
    /// many. A group without local processes is dropped.
    fn revise<T>(&mut self, id: &Text, change: impl FnOnce(&mut Vec<Group>, &mut GroupsOfProcesses) -> T) -> T {
        let mut groups = self.groups.remove(id).unwrap_or_default();
        self.account(&groups, Account::Remove);
        let result = change(&mut groups, &mut self.of_process);
        groups.retain(|group| !group.here.is_empty());
        self.account(&groups, Account::Add);
        if !groups.is_empty() {
            self.groups.insert(id.clone(), groups);
        }
        result
    }

    fn account(&mut self, groups: &[Group], change: Account) {
        for group in groups {
            let member_count = group.members.len();
            let of_users = [(&mut self.of_users, 1), (&mut self.members_of_users, member_count)];
            let sums = [(&mut self.count, 1), (&mut self.member_count, member_count)];
            for (shares, piece) in of_users {
                group.users.iter().for_each(|uid| match change {
                    Account::Add => shares.take(*uid, piece),
                    Account::Remove => shares.give_back(*uid, piece),
                });
            }
            for (sum, piece) in sums {
                *sum = match change {
                    Account::Add => sum.saturating_add(piece),
                    Account::Remove => sum.saturating_sub(piece),
                };
            }
        }
    }

    const fn next_entry(&mut self) -> u64 {
        self.last_entry = self.last_entry.saturating_add(1);
        self.last_entry
    }
}

/// A change of the counts of groups.
#[derive(Clone, Copy, Debug)]
enum Account {
    Add,
    Remove,
}

/// Takes a local process out of its group of this name. The other members still see it.
fn abandon(groups: &mut [Group], of_process: &mut GroupsOfProcesses, proc: &ProcId, id: &Text) {
    for group in groups {
        if group.here.remove(proc) {
            forget(of_process, proc, id);
        }
    }
}

/// Notes one more group of a process.
fn enter(of_process: &mut GroupsOfProcesses, proc: &ProcId, id: &Text, entry: u64) {
    of_process.entry(proc.clone()).or_default().insert(id.clone(), entry);
}

/// Notes that a process is in a group no more.
fn forget(of_process: &mut GroupsOfProcesses, proc: &ProcId, id: &Text) {
    if let Some(ids) = of_process.get_mut(proc) {
        ids.remove(id);
        if ids.is_empty() {
            of_process.remove(proc);
        }
    }
}

/// Drops groups, and updates the counts of their processes.
fn retain(groups: &mut Vec<Group>, of_process: &mut GroupsOfProcesses, id: &Text, is_kept: impl Fn(&Group) -> bool) {
    for group in groups.extract_if(.., |group| !is_kept(group)) {
        group.here.iter().for_each(|proc| forget(of_process, proc, id));
    }
}

impl Group {
    /// Whether these sorted processes are its members.
    fn consists_of(&self, procs: &[ProcId]) -> bool {
        self.members.len() == procs.len() && self.members.iter().all(|proc| procs.binary_search(proc).is_ok())
    }
}
