//! Groups by invitation, and the leaving of a group: the events that a process sends and hears, on its progress thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::fetched::FetchError;
use super::group_error::GroupError;
use super::groups::Members;
use super::session::Session;
use super::watch::{Ended, Watch};
use crate::client::{
    self, ANSWERS, Acceptance, CallError, Conclusion, Construction, DirectiveError, ENDINGS, GetDirectives, GetRequest,
    Invitation, addressed, time_limit,
};
use crate::events::Event;
use crate::keys;
use crate::proto::{Command, Group, JobControl, Reply, Request};
use crate::runtime::shared::event_error::EventError;
use crate::runtime::shared::events::EventCall;
use crate::runtime::shared::handler_calls::EventProcess;
use crate::types::codes::range;
use crate::types::{Info, InfoFlags, Key, ProcId, Rank, Status, Text, Value};

/// A group that was formed by invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formed {
    /// In the order of their ranks in the group.
    pub members: Vec<ProcId>,
    /// Invited processes that are not members: they declined, ended, or did not answer in time. Only the leader knows
    /// them.
    pub missing: Vec<ProcId>,
    /// The number from the host, if it was requested.
    pub context_id: Option<u64>,
}

/// Takes the result.
pub type GroupCallback<T> = Box<dyn FnOnce(Result<T, GroupError>) + Send>;

/// The duty to run a callback once. If it is dropped before it is armed, the caller has the error already. If it is
/// dropped later, the callback gets `Closed`.
struct Due<T> {
    callback: Option<GroupCallback<T>>,
    is_armed: Arc<AtomicBool>,
}

impl<T> Due<T> {
    fn new(callback: GroupCallback<T>) -> (Self, Arc<AtomicBool>) {
        let is_armed = Arc::new(AtomicBool::new(false));
        (Self { callback: Some(callback), is_armed: Arc::clone(&is_armed) }, is_armed)
    }

    fn give(mut self, result: Result<T, GroupError>) {
        if let Some(callback) = self.callback.take() {
            callback(result);
        }
    }
}

impl<T> Drop for Due<T> {
    fn drop(&mut self) {
        // Relaxed: the flag guards nothing but itself.
        if let Some(callback) = self.callback.take().filter(|_| self.is_armed.load(Ordering::Relaxed)) {
            callback(Err(GroupError::Closed));
        }
    }
}

/// The leader's directives.
struct Wishes {
    is_optional: bool,
    wants_context_id: bool,
    requires_context_id: bool,
    time_limit: Option<Duration>,
}

impl Session {
    /// Runs an operation with a callback and waits for its result.
    ///
    /// # Errors
    /// [`GroupError`]; `WouldBlock` on the thread of the callbacks, and in an event handler.
    pub fn wait_for_group<T: Send + 'static>(
        &self,
        begin: impl FnOnce(GroupCallback<T>) -> Result<(), GroupError>,
    ) -> Result<T, GroupError> {
        if self.progress.is_current() || self.events().is_handling() {
            return Err(GroupError::WouldBlock);
        }
        let (give, take) = mpsc::sync_channel(1);
        // The receiver lives as long as this thread waits.
        begin(Box::new(move |result| drop(give.send(result))))?;
        take.recv().unwrap_or(Err(GroupError::Closed))
    }

    /// Invites processes into a group. This process forms it when all have answered.
    ///
    /// # Errors
    /// [`GroupError`]: no process was invited, and the callback will not run.
    pub fn invite(
        self: &Arc<Self>,
        id: &str,
        procs: Vec<ProcId>,
        directives: &[Info],
        callback: GroupCallback<Formed>,
    ) -> Result<(), GroupError> {
        client::refuse_required(directives, &client::UNDERSTOOD_OF_INVITATIONS)?;
        let wishes = Wishes {
            is_optional: flag(directives, keys::GROUP_OPTIONAL.name()),
            wants_context_id: flag(directives, ASSIGNS),
            requires_context_id: flag(directives, ASSIGNS) && directives.iter().any(requires_context_id),
            time_limit: time_limit(directives)?,
        };
        let invited = self.one_by_one(procs)?;
        if invited.is_empty() || invited.iter().any(|proc| proc.namespace.is_nobodys()) {
            return Err(GroupError::NobodyInvited { id: id.to_owned() });
        }
        let servers = self.server().namespace.clone();
        let mut invitation = Invitation::new(Text::from(id), self.proc().clone(), servers, invited);
        invitation.add_own_endpoints(self.own_endpoints().as_slice());
        let hear = |invitation: &mut Invitation, call: &EventCall| {
            invitation.hear(call.status, call.source.as_ref(), &call.info);
            invitation.is_answered()
        };
        let what = (Command::GroupInvite, wishes.time_limit);
        let (callback, is_armed) = Due::new(callback);
        Watch::begin(self, what, &ANSWERS, invitation, hear, send_invitation, move |session, ended| {
            conclude(session, ended, &wishes, callback);
        })?;
        is_armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Answers an invitation. After an acceptance, the callback runs when the group is formed or given up.
    ///
    /// # Errors
    /// [`GroupError`]: no answer was sent, and the callback will not run.
    pub fn join(
        self: &Arc<Self>,
        id: &str,
        leader: Option<ProcId>,
        is_accepted: bool,
        directives: &[Info],
        callback: GroupCallback<Option<Formed>>,
    ) -> Result<(), GroupError> {
        client::refuse_required(directives, &client::UNDERSTOOD_OF_ACCEPTANCES)?;
        let limit = time_limit(directives)?;
        if leader.as_ref().is_some_and(|leader| leader.namespace.is_nobodys()) {
            return Err(GroupError::NobodyLeads { id: id.to_owned() });
        }
        let id = Text::from(id);
        if !is_accepted {
            let event = self.answer_event(&id, leader.as_ref(), Status::GROUP_INVITE_DECLINED);
            self.notify_event_with(event, |result| callback(result.map(|()| None).map_err(GroupError::from)))?;
            return Ok(());
        }
        let mut answer = self.answer_event(&id, leader.as_ref(), Status::GROUP_INVITE_ACCEPTED);
        // Without a leader, all processes of the session get the answer.
        answer.info.extend(leader.as_ref().and_then(|_| self.own_endpoints()));
        let groups = Arc::clone(self.groups());
        let hear = move |(acceptance, heard): &mut (Acceptance, Option<Construction>), call: &EventCall| {
            if heard.is_none() {
                *heard = acceptance.hear(call.status, call.source.as_ref(), &call.info);
                // Before the handlers run: they may read the members' endpoint data.
                if let Some(Construction::Formed { context_id, endpoints, .. }) = heard {
                    groups.group_info.take(acceptance.id.as_bytes(), *context_id, endpoints);
                }
            }
            heard.is_some()
        };
        let accept = move |session: &Arc<Self>, watch: &Watch<_>| tell(session, watch, answer);
        let (own, servers) = (self.proc().clone(), self.server().namespace.clone());
        let state = (Acceptance { id, own, servers, leader }, None);
        let (callback, is_armed) = Due::new(Box::new(|result: Result<Formed, _>| callback(result.map(Some))));
        Watch::begin(self, (Command::GroupJoin, limit), &ENDINGS, state, hear, accept, |session, ended| {
            enter(session, ended, callback);
        })?;
        is_armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Leaves a group. The other members get an event; the caller does not wait for them.
    ///
    /// # Errors
    /// [`GroupError`]: no event was sent, and the callback will not run.
    pub fn leave_group(
        self: &Arc<Self>,
        id: &str,
        directives: Vec<Info>,
        callback: GroupCallback<()>,
    ) -> Result<(), GroupError> {
        client::refuse_required(&directives, &[])?;
        let name = Text::from(id);
        if self.peer_profile().is_ours {
            let id = id.to_owned();
            let request = request(Command::GroupLeave, name, directives);
            let groups = Arc::clone(self.groups());
            let left = move |result| match result {
                Err(CallError::Refused { status: Status::ERR_NOT_FOUND, .. }) => Err(GroupError::NotAMember { id }),
                Err(error) => Err(GroupError::from(error)),
                Ok(_) => {
                    groups.forget(&Text::from(id.as_str()));
                    Ok(())
                }
            };
            let begun = self.exchange_with(request, None, move |result| callback(left(result)));
            return begun.map_err(|error| GroupError::Event(EventError::Thread(error.kind())));
        }
        let members = self.groups().forget(&name).ok_or_else(|| GroupError::NotAMember { id: id.to_owned() })?;
        if members.iter().all(|member| member == self.proc()) {
            return self.later(|| callback(Ok(()))).map_err(|error| EventError::Thread(error.kind()).into());
        }
        let event = self.departure(&name, &members, directives);
        Ok(self.notify_event_with(event, |result| callback(result.map_err(GroupError::from)))?)
    }

    /// The event for the other members that this process has left.
    fn departure(&self, id: &Text, members: &[ProcId], directives: Vec<Info>) -> Event {
        let others: Vec<ProcId> = members.iter().filter(|member| *member != self.proc()).cloned().collect();
        let mut info = addressed(id, &others);
        info.push(Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), self.proc().clone()));
        info.extend(directives);
        self.own_event(Status::GROUP_LEFT, range::RANGE_CUSTOM, info)
    }

    fn own_event(&self, status: Status, range: u8, info: Vec<Info>) -> Event {
        Event { status, source: Some(self.proc().clone()), range, info }
    }

    /// The answer to the leader; without a leader, to every inviter of this session.
    fn answer_event(&self, id: &Text, leader: Option<&ProcId>, status: Status) -> Event {
        let named = Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id.clone()));
        let target = |leader: &ProcId| Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), leader.clone());
        let range = if leader.is_some() { range::RANGE_CUSTOM } else { range::RANGE_SESSION };
        self.own_event(status, range, leader.map(target).into_iter().chain([named]).collect())
    }

    /// The values that this process gives the other members of a group.
    pub(super) fn own_endpoints(&self) -> Option<Info> {
        client::own_endpoints(self.proc(), &self.staging())
    }

    /// The processes, with a wildcard replaced by all ranks of its job.
    fn one_by_one(self: &Arc<Self>, procs: Vec<ProcId>) -> Result<Vec<ProcId>, GroupError> {
        let mut all = Vec::new();
        for proc in procs {
            if proc.rank != Rank::Wildcard {
                all.push(proc);
                continue;
            }
            let namespace = proc.namespace.clone();
            let size = self.job_size(proc);
            let size = size.map_err(|error| GroupError::UnknownJob { namespace: namespace.clone(), error })?;
            all.extend((0..size).map(|rank| ProcId::new(namespace.clone(), rank)));
        }
        Ok(all)
    }

    fn job_size(self: &Arc<Self>, job: ProcId) -> Result<u32, FetchError> {
        let directives = GetDirectives { optional: true, ..GetDirectives::default() };
        let key = Some(Key::from_static(keys::JOB_SIZE.name()));
        let request = GetRequest { proc: job, key, directives, looks: 0 };
        let size = self.get(&request)?.into_value().map_err(|_| FetchError::Damaged)?;
        size.as_u32().ok_or(FetchError::Damaged)
    }
}

/// Sends the invitation. The leader's handlers are active now, so it hears every answer.
fn send_invitation(session: &Arc<Session>, watch: &Watch<Invitation>) {
    let asked = watch.look(|invitation| (invitation.others().is_empty(), invitation.question()));
    let Some((is_alone, question)) = asked else { return };
    if is_alone {
        return watch.settle();
    }
    let event = session.own_event(Status::GROUP_INVITED, range::RANGE_CUSTOM, question);
    tell(session, watch, event);
}

/// Sends an event that the operation depends on: without it the operation fails.
fn tell<T: Send + 'static>(session: &Arc<Session>, watch: &Watch<T>, event: Event) {
    let failed = watch.clone();
    let sent = session.notify_event_with(event, move |result| {
        if let Err(error) = result {
            failed.fail(error.into());
        }
    });
    if let Err(error) = sent {
        watch.fail(error);
    }
}

/// Withdraws an invitation that failed. Otherwise processes that have accepted would wait.
fn take_back(session: &Session, withdrawal: Option<(Status, Vec<Info>)>) {
    if let Some((status, info)) = withdrawal {
        // A leader without a connection can't send it. Its server then sends the end of the leader.
        let _ = session.notify_event_with(session.own_event(status, range::RANGE_CUSTOM, info), |_| {});
    }
}

/// All have answered, or the time is over.
fn conclude(session: &Arc<Session>, ended: Ended<Invitation>, wishes: &Wishes, callback: Due<Formed>) {
    let is_late = ended.is_late();
    let Ended { state: invitation, result } = ended;
    if let Err(error) = result
        && !is_late
    {
        take_back(session, invitation.withdrawal());
        return callback.give(Err(error.into()));
    }
    let id = invitation.id().clone();
    let conclusion = invitation.conclude(wishes.is_optional);
    for proc in &conclusion.refused {
        let affected = Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), proc.clone());
        let group = Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id.clone()));
        let info = vec![affected, group];
        session.events().raise(session.own_event(Status::GROUP_INVITE_FAILED, range::RANGE_PROC_LOCAL, info));
    }
    if conclusion.members.is_empty() || !wishes.wants_context_id {
        return announce(session, &invitation, conclusion, None, callback);
    }
    // If the host does not know this directive, the group gets no number, or a required one fails.
    let wish = [
        Info::new(Key::from_static(ASSIGNS), true),
        Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id)),
    ];
    let control = Request::from(JobControl::new(Vec::new(), wish.into()));
    let (weak, is_required) = (Arc::downgrade(session), wishes.requires_context_id);
    // If the request can't be sent, dropping the callback reports `Closed`.
    let _ = session.exchange_with(control, wishes.time_limit, move |reply| {
        let context_id = reply.ok().and_then(context_id_in);
        let Some(session) = weak.upgrade() else { return };
        if is_required && context_id.is_none() {
            take_back(&session, invitation.withdrawal());
            return callback.give(Err(DirectiveError::NotSupported { key: Key::from_static(ASSIGNS) }.into()));
        }
        announce(&session, &invitation, conclusion, context_id, callback);
    });
}

/// The directive by which a leader wants a number for its group.
const ASSIGNS: &str = keys::GROUP_ASSIGN_CONTEXT_ID.name();

fn requires_context_id(info: &Info) -> bool {
    info.key.as_str() == ASSIGNS && info.flags().contains(InfoFlags::REQUIRED)
}

/// Sends the result to all invited processes. A leader who is a member takes part.
fn announce(
    session: &Arc<Session>,
    invitation: &Invitation,
    conclusion: Conclusion,
    context_id: Option<u64>,
    callback: Due<Formed>,
) {
    let mut announcements =
        invitation.announcements(&conclusion, context_id, session.peer_profile().is_ours).into_iter();
    let Some((status, info)) = announcements.next() else { return };
    if conclusion.members.contains(session.proc()) {
        session.groups().group_info.take(invitation.id().as_bytes(), context_id, &info);
    }
    let event = session.own_event(status, range::RANGE_CUSTOM, info);
    let (weak, id, withdrawal) = (Arc::downgrade(session), invitation.id().clone(), invitation.withdrawal());
    let Conclusion { members, refused } = conclusion;
    let _ = session.notify_event_with(event, move |result| {
        if members.is_empty() {
            // The group is aborted, even if the event could not be sent.
            return callback.give(Err(GroupError::Aborted { id: id.to_string_lossy(), refused }));
        }
        match (result, weak.upgrade()) {
            (Err(error), session) => {
                // Processes that have heard of the group are in it, so withdraw it.
                session.into_iter().for_each(|session| take_back(&session, withdrawal.clone()));
                callback.give(Err(error.into()));
            }
            (Ok(()), Some(session)) => {
                settle_in(&session, &id, Formed { members, missing: refused, context_id }, callback);
            }
            (Ok(()), None) => {}
        }
    });
    for (status, info) in announcements {
        // These processes are not in the group, so a lost event changes nothing.
        let _ = session.notify_event_with(session.own_event(status, range::RANGE_CUSTOM, info), |_| {});
    }
}

/// The end of the construction at an invited process.
fn enter(session: &Arc<Session>, ended: Ended<(Acceptance, Option<Construction>)>, callback: Due<Formed>) {
    let Ended { state: (acceptance, heard), result } = ended;
    let Acceptance { id, leader, .. } = acceptance;
    let name = || id.to_string_lossy();
    match (heard, result) {
        (Some(Construction::Formed { members, context_id, .. }), _) => {
            settle_in(session, &id, Formed { members, missing: Vec::new(), context_id }, callback);
        }
        (Some(Construction::Aborted), _) => {
            callback.give(Err(GroupError::Aborted { id: name(), refused: Vec::new() }));
        }
        (Some(Construction::LeaderLost), _) => {
            let leader = leader.unwrap_or_else(|| session.proc().clone());
            let affected = Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), leader.clone());
            let group = Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id.clone()));
            let info = vec![affected, group];
            session.events().raise(session.own_event(Status::GROUP_LEADER_FAILED, range::RANGE_PROC_LOCAL, info));
            callback.give(Err(GroupError::LeaderLost { id: name(), leader }));
        }
        (None, Err(error)) => callback.give(Err(error.into())),
        // The watch is settled only by an event.
        (None, Ok(())) => callback.give(Err(GroupError::Closed)),
    }
}

/// Makes the group's name stand for its members from now on. Our own server resolves the name for this process. Under a
/// foreign server the process resolves it.
fn settle_in(session: &Arc<Session>, id: &Text, formed: Formed, callback: Due<Formed>) {
    if !formed.members.contains(session.proc()) {
        return callback.give(Ok(formed));
    }
    if !session.peer_profile().is_ours {
        session.groups().note(id, Members::Noted { members: formed.members.clone(), notifies_termination: false });
        return callback.give(Ok(formed));
    }
    let request = request(Command::GroupJoin, id.clone(), client::description(&formed.members, formed.context_id));
    let (weak, id) = (Arc::downgrade(session), id.clone());
    let _ = session.exchange_with(request, None, move |result| {
        match (&result, weak.upgrade()) {
            (Ok(_), Some(session)) => session.groups().note(&id, Members::AskServer(formed.members.clone())),
            (Err(_), Some(session)) => {
                // Otherwise the other members would wait for this process.
                let left = session.departure(&id, &formed.members, Vec::new());
                let _ = session.notify_event_with(left, |_| {});
            }
            (_, None) => {}
        }
        callback.give(result.map(|_| formed).map_err(GroupError::from));
    });
}

fn request(command: Command, id: Text, directives: Vec<Info>) -> Request {
    Request::GroupOther(Group { command: command.to_raw(), id: Some(id), procs: Vec::new(), directives })
}

fn context_id_in(reply: Reply) -> Option<u64> {
    let Reply::Infos(infos) = reply else { return None };
    infos.iter().find(|info| info.key.as_str() == keys::GROUP_CONTEXT_ID.name())?.value.as_u64()
}

fn flag(directives: &[Info], key: &str) -> bool {
    let info = directives.iter().find(|info| info.key.as_str() == key);
    info.is_some_and(|info| info.value.as_bool().unwrap_or(false))
}
