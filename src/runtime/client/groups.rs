//! Facts about this process's groups that a foreign server does not send, or needs again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::group_info::GroupInfo;
use crate::client::CallError;
use crate::keys;
use crate::proto::{Reply, Request, info_signed_by};
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::types::{Info, Key, Kval, Namespace, ProcId, Rank, Text};

/// The groups of this process. Servers before release 5.0 don't send the members. Later ones need the list when a group
/// ends.
#[derive(Debug, Default)]
pub(super) struct Groups {
    noted: Mutex<BTreeMap<Vec<u8>, Members>>,
    /// Whether there are groups: most processes need no lock.
    is_any: AtomicBool,
    /// Contributions of the members, under servers of every library.
    pub(super) group_info: GroupInfo,
}

/// The members of a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Members {
    /// Our own server knows the current members. This list is the last one that it sent, in the order of their ranks.
    AskServer(Vec<ProcId>),
    /// The list of a group at a foreign server, kept here.
    Noted {
        /// In the order of their ranks in the group.
        members: Vec<ProcId>,
        /// Whether the members want to hear of deaths. OpenPMIx's servers forget the directive when the group is
        /// formed.
        notifies_termination: bool,
    },
}

/// The members that a rank of this group stands for.
pub(super) fn of_rank(members: &[ProcId], rank: Rank) -> &[ProcId] {
    match rank.process().map(usize::try_from) {
        Some(Ok(position)) => members.get(position).map(std::slice::from_ref).unwrap_or_default(),
        _ => members,
    }
}

/// The effect of a request on the groups.
#[derive(Debug)]
pub(super) enum Step {
    /// A group of this name forms. Other members in the answer replace these.
    Forms(Vec<u8>, Members),
    /// Our server forms a group; it knows the members itself.
    Learns(Vec<u8>),
    /// This group ends.
    Ends(Vec<u8>),
    Other,
}

impl Groups {
    /// Completes a request of `own` to a server.
    pub(super) fn prepare(&self, request: &mut Request, own: &ProcId, peer_profile: &PeerProfile) -> Step {
        let name = |id: &Option<Text>| id.as_ref().map(|id| id.as_bytes().to_vec()).unwrap_or_default();
        if let Request::GroupConstruct(group) = request {
            let directives = std::mem::take(&mut group.directives);
            group.directives = directives.into_iter().map(|info| info_signed_by(own, info)).collect();
        }
        match request {
            Request::GroupConstruct(group) if peer_profile.is_ours => Step::Learns(name(&group.id)),
            Request::GroupDestruct(group) if peer_profile.is_ours => Step::Ends(name(&group.id)),
            _ if peer_profile.is_ours => Step::Other,
            Request::Connect(collective) | Request::Disconnect(collective) => {
                collective.procs = self.spell_out(std::mem::take(&mut collective.procs));
                Step::Other
            }
            Request::GroupConstruct(group) => {
                group.procs = self.spell_out(std::mem::take(&mut group.procs));
                let notifies_termination = group.directives.iter().any(wants_terminations);
                Step::Forms(name(&group.id), Members::Noted { members: group.procs.clone(), notifies_termination })
            }
            Request::GroupDestruct(group) => {
                let name = name(&group.id);
                if let Some(Members::Noted { members, notifies_termination }) = self.noted.lock().get(&name) {
                    if group.procs.is_empty() {
                        group.procs.clone_from(members);
                    }
                    if *notifies_termination && !group.directives.iter().any(|info| info.key.as_str() == TERMINATIONS) {
                        group.directives.push(Info::new(Key::from_static(TERMINATIONS), true));
                    }
                }
                Step::Ends(name)
            }
            _ => Step::Other,
        }
    }

    /// Whether a request opens or joins an operation in which this process does not take part. OpenPMIx's clients check
    /// that. Its servers count this process as a participant, and wait for ever.
    pub(super) fn is_for_others(&self, request: &Request, own: &ProcId) -> bool {
        let procs = match request {
            Request::Connect(collective) | Request::Disconnect(collective) => &collective.procs,
            // The other members join later, and name this process.
            Request::GroupConstruct(group) if !group.directives.iter().any(adds_members) => &group.procs,
            _ => return false,
        };
        let is_own =
            |proc: &ProcId| proc.namespace == own.namespace && (proc.rank == own.rank || proc.rank.process().is_none());
        !procs.is_empty() && !self.spell_out(procs.clone()).iter().any(is_own)
    }

    /// Replaces names of groups by their members, as clients of OpenPMIx do since 5.0. Names for our own server stay:
    /// it knows the current members better.
    pub(super) fn spell_out(&self, procs: Vec<ProcId>) -> Vec<ProcId> {
        let groups = self.noted.lock();
        if groups.is_empty() {
            return procs;
        }
        let members = |proc: ProcId| match (groups.get(proc.namespace.as_str().as_bytes()), proc.rank) {
            (Some(Members::Noted { members, .. }), Rank::Wildcard) => members.clone(),
            (Some(Members::Noted { members, .. }), rank @ Rank::Process(_)) => {
                vec![of_rank(members, rank).first().cloned().unwrap_or(proc)]
            }
            _ => vec![proc],
        };
        procs.into_iter().flat_map(members).collect()
    }

    /// Notes that this process is in a group.
    pub(super) fn note(&self, id: &Text, members: Members) {
        self.insert(id.as_bytes().to_vec(), members);
    }

    fn insert(&self, name: Vec<u8>, members: Members) {
        let mut noted = self.noted.lock();
        noted.insert(name, members);
        // Release pairs with the Acquire in `named`.
        self.is_any.store(true, Ordering::Release);
    }

    /// Notes the current members of a group, as our server sent them.
    pub(super) fn note_members(&self, namespace: &Namespace, members: &[ProcId]) {
        if let Some(Members::AskServer(known)) = self.noted.lock().get_mut(namespace.as_str().as_bytes()) {
            *known = members.to_vec();
        }
    }

    /// The members of a group, if this process is in it.
    pub(super) fn named(&self, namespace: &Namespace) -> Option<Members> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        self.noted.lock().get(namespace.as_str().as_bytes()).cloned()
    }

    fn remove(&self, name: &[u8]) -> Option<Vec<ProcId>> {
        let mut noted = self.noted.lock();
        let members = noted.remove(name);
        // Stored under the lock, like the store in `insert`: otherwise a late `false` could hide a new group.
        self.is_any.store(!noted.is_empty(), Ordering::Release);
        known(members)
    }

    /// Notes that this process has left a group; returns the members that were noted.
    pub(super) fn forget(&self, id: &Text) -> Option<Vec<ProcId>> {
        self.group_info.end(id.as_bytes());
        self.remove(id.as_bytes())
    }

    /// Completes the answer.
    pub(super) fn conclude(&self, step: Step, mut answer: Result<Reply, CallError>) -> Result<Reply, CallError> {
        if let Ok(reply) = &mut answer {
            gather_infos(reply);
        }
        match (step, &mut answer) {
            (Step::Learns(name), Ok(reply)) => {
                self.group_info.take_of_reply(&name, reply);
                let members = members_in(reply).cloned().unwrap_or_default();
                self.insert(name, Members::AskServer(members));
            }
            (Step::Forms(name, mut noted), Ok(reply)) => {
                self.group_info.take_of_reply(&name, reply);
                if let (Some(formed), Members::Noted { members, .. }) = (members_in(reply), &mut noted) {
                    if formed.is_empty() {
                        formed.clone_from(members);
                    } else {
                        members.clone_from(formed);
                    }
                    self.insert(name, noted);
                }
            }
            (Step::Ends(name), Ok(_)) => {
                self.group_info.end(&name);
                self.remove(&name);
            }
            _ => {}
        }
        answer
    }
}

/// The directive by which members hear of deaths.
const TERMINATIONS: &str = keys::GROUP_NOTIFY_TERMINATION.name();

fn wants_terminations(info: &Info) -> bool {
    info.key.as_str() == TERMINATIONS && info.value.as_bool() == Some(true)
}

fn adds_members(info: &Info) -> bool {
    [keys::GROUP_ADD_MEMBERS.name(), keys::GROUP_BOOTSTRAP.name()].contains(&info.key.as_str())
}

fn known(members: Option<Members>) -> Option<Vec<ProcId>> {
    match members? {
        Members::Noted { members, .. } => Some(members),
        Members::AskServer(_) => None,
    }
}

/// Moves the entries of the nameless job into the group's infos: our own server sends its facts about a group there.
fn gather_infos(reply: &mut Reply) {
    match reply {
        Reply::Group { info, jobs, .. } => {
            for (_, entries) in jobs.extract_if(.., |(name, _)| name.as_bytes().is_empty()) {
                let said = entries.into_iter().map(|Kval { key, value }| Info { key, flags: 0, value });
                info.extend(said);
            }
        }
        Reply::Partial { results, .. } => gather_infos(results),
        _ => {}
    }
}

fn members_in(reply: &mut Reply) -> Option<&mut Vec<ProcId>> {
    match reply {
        Reply::Group { members, .. } => Some(members),
        Reply::Partial { results, .. } => members_in(results),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::Generation;
    use crate::proto::{Collective, Command, Group, Version};
    use crate::types::{Namespace, Status};

    fn group(command: Command, procs: Vec<ProcId>) -> Group {
        Group { command: command.to_raw(), id: Some(Text::from("g")), procs, directives: Vec::new() }
    }

    #[test]
    fn the_members_are_told_where_a_server_forgets_them_and_does_not_tell() {
        let peer_profile = PeerProfile::of_reference(Generation::V41, Some(Version::new(5, 0, 0)));
        let members: Vec<_> = [0, 1].map(|rank| ProcId::new(Namespace::new("job").unwrap(), rank)).to_vec();
        let groups = Groups::default();
        let own = members[0].clone();
        let mut beginning = Request::GroupConstruct(group(Command::GroupConstruct, members.clone()));
        let step = groups.prepare(&mut beginning, &own, &peer_profile);
        let told = Reply::Group { members: Vec::new(), context_id: None, info: Vec::new(), jobs: Vec::new() };
        let Ok(Reply::Group { members: completed, .. }) = groups.conclude(step, Ok(told)) else { panic!("no group") };
        assert_eq!(completed, members);
        let of_group = |rank: Rank| ProcId { namespace: Namespace::new("g").unwrap(), rank };
        let other = ProcId::new(Namespace::new("other").unwrap(), 1);
        assert_eq!(groups.spell_out(vec![of_group(Rank::Wildcard)]), members);
        assert_eq!(groups.spell_out(vec![other.clone(), of_group(Rank::Process(1))]), [other, members[1].clone()]);
        let mut end = Request::GroupDestruct(group(Command::GroupDestruct, Vec::new()));
        let step = groups.prepare(&mut end, &own, &peer_profile);
        assert_eq!(end, Request::GroupDestruct(group(Command::GroupDestruct, members)));
        groups.conclude(step, Ok(Reply::Status(Status::SUCCESS))).unwrap();
        let mut again = Request::GroupDestruct(group(Command::GroupDestruct, Vec::new()));
        groups.prepare(&mut again, &own, &peer_profile);
        assert_eq!(again, Request::GroupDestruct(group(Command::GroupDestruct, Vec::new())), "it is forgotten");
    }

    /// OpenPMIx's main line has this rule. A member that died before the destruct was not reported.
    #[test]
    fn a_foreign_server_learns_again_that_members_want_to_hear_of_deaths() {
        let peer_profile = PeerProfile::of_reference(Generation::V41, Some(Version::new(5, 0, 0)));
        let members: Vec<_> = [0, 1].map(|rank| ProcId::new(Namespace::new("job").unwrap(), rank)).to_vec();
        let wish = |is_on: bool| vec![Info::new(Key::from_static(TERMINATIONS), is_on)];
        let told = Reply::Group { members: Vec::new(), context_id: None, info: Vec::new(), jobs: Vec::new() };
        for (first, last, sent) in [
            (wish(true), Vec::new(), wish(true)),
            (wish(true), wish(false), wish(false)),
            (wish(false), Vec::new(), Vec::new()),
            (Vec::new(), Vec::new(), Vec::new()),
        ] {
            let groups = Groups::default();
            let request = |command, directives| Group { directives, ..group(command, members.clone()) };
            let mut beginning = Request::GroupConstruct(request(Command::GroupConstruct, first));
            let step = groups.prepare(&mut beginning, &members[0], &peer_profile);
            groups.conclude(step, Ok(told.clone())).unwrap();
            let mut end = Request::GroupDestruct(request(Command::GroupDestruct, last));
            groups.prepare(&mut end, &members[0], &peer_profile);
            assert_eq!(end, Request::GroupDestruct(request(Command::GroupDestruct, sent)));
        }
    }

    #[test]
    fn a_process_opens_no_operation_of_others_at_a_foreign_server() {
        let name = |text: &str| Namespace::new(text).unwrap();
        let (own, other) = (ProcId::new(name("job"), 0), ProcId::new(name("job"), 1));
        let whole = ProcId { namespace: name("job"), rank: Rank::Wildcard };
        let groups = Groups::default();
        let construct = |procs: &[&ProcId], directives: Vec<Info>| {
            let procs = procs.iter().map(|proc| (*proc).clone()).collect();
            Request::GroupConstruct(Group { directives, ..group(Command::GroupConstruct, procs) })
        };
        let connect = |procs: Vec<ProcId>| Request::Connect(Collective { procs, directives: Vec::new() });
        assert!(groups.is_for_others(&construct(&[&other], Vec::new()), &own));
        assert!(groups.is_for_others(&connect(vec![other.clone()]), &own));
        assert!(!groups.is_for_others(&construct(&[&other, &own], Vec::new()), &own));
        assert!(!groups.is_for_others(&construct(&[&whole], Vec::new()), &own));
        assert!(!groups.is_for_others(&construct(&[], Vec::new()), &own), "the empty list is the whole job");
        let joins = Info::new(Key::from_static(keys::GROUP_BOOTSTRAP.name()), 2_u64);
        assert!(!groups.is_for_others(&construct(&[&other], vec![joins]), &own));
        let members = vec![other.clone(), own.clone()];
        groups.note(&Text::from("g"), Members::Noted { members, notifies_termination: false });
        let of_group = |rank| ProcId { namespace: name("g"), rank };
        assert!(!groups.is_for_others(&connect(vec![of_group(Rank::Wildcard)]), &own));
        assert!(groups.is_for_others(&connect(vec![of_group(Rank::Process(0))]), &own));
    }
}
