//! Groups by invitation.

use std::sync::Arc;

use super::client::Client;
use super::pending::sealed::Sealed;
use super::pending::{Operation, Pending};
use super::round_trip::Group;
use crate::client::processes;
use crate::keys;
use crate::runtime::{Formed, GroupCallback, GroupError, Session};
use crate::types::{Info, Key, ProcId, Text};

impl Client {
    /// Invites processes into a group and waits until all have answered. This process is a member if `procs` names it.
    /// The order of `procs` is the order of the ranks in the group.
    ///
    /// Each process gets an event ([`Status::GROUP_INVITED`](crate::types::Status::GROUP_INVITED), with `PMIX_GROUP_ID`
    /// and this process as its source) and answers with [`Client::group_join`]. A process that declines, ends, or does
    /// not answer within `PMIX_TIMEOUT` is reported to this process's handlers (`GROUP_INVITE_FAILED`) and ends the
    /// construction. With `PMIX_GROUP_OPTIONAL` the others form the group. This is a success, whose results name the
    /// missing processes (`PMIX_EVENT_AFFECTED_PROCS`). `PMIX_GROUP_ASSIGN_CONTEXT_ID` asks for a number.
    ///
    /// Fails with [`GroupError`]. A handler or callback can't wait for this.
    pub fn group_invite(&self, id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> Pending<GroupStep<Group>> {
        let (session, id) = (Arc::clone(self.session()), id.to_owned());
        GroupStep::pending(self, move |callback: GroupCallback<Group>| {
            let name = id.clone();
            let formed = Box::new(move |formed: Result<_, _>| callback(formed.map(|formed| group(&name, formed))));
            session.invite(&id, procs, &directives, formed)
        })
    }

    /// Answers an invitation. Accepting waits until the leader has formed the group; the result is `None` after a
    /// refusal. `leader` is the source of the invitation; without it every process of the session is notified.
    /// `PMIX_TIMEOUT` limits the wait: leaders that use OpenPMIx up to 6.1 report the group's end only through a server
    /// of this library.
    ///
    /// Fails with [`GroupError`]. A handler or callback can't wait for this, and answers with [`Pending::then`].
    pub fn group_join(
        &self,
        id: &str,
        leader: Option<&ProcId>,
        is_accepted: bool,
        directives: Vec<Info>,
    ) -> Pending<GroupStep<Option<Group>>> {
        let (session, id, leader) = (Arc::clone(self.session()), id.to_owned(), leader.cloned());
        GroupStep::pending(self, move |callback: GroupCallback<Option<Group>>| {
            let name = id.clone();
            let formed = Box::new(move |formed: Result<Option<_>, _>| {
                callback(formed.map(|formed| formed.map(|formed| group(&name, formed))));
            });
            session.join(&id, leader, is_accepted, &directives, formed)
        })
    }

    /// Leaves a group. The other members are notified (`GROUP_LEFT`); this does not wait for them.
    ///
    /// Fails with [`GroupError`].
    pub fn group_leave(&self, id: &str, directives: Vec<Info>) -> Pending<GroupStep<()>> {
        let (session, id) = (Arc::clone(self.session()), id.to_owned());
        GroupStep::pending(self, move |callback| session.leave_group(&id, directives, callback))
    }
}

/// A step in a group's life, as an operation whose result is a `T`.
pub struct GroupStep<T> {
    session: Arc<Session>,
    begin: Box<dyn FnOnce(GroupCallback<T>) -> Result<(), GroupError> + Send>,
}

impl<T> GroupStep<T> {
    fn pending(
        client: &Client,
        begin: impl FnOnce(GroupCallback<T>) -> Result<(), GroupError> + Send + 'static,
    ) -> Pending<Self> {
        Pending(Self { session: Arc::clone(client.session()), begin: Box::new(begin) })
    }
}

impl<T> Sealed for GroupStep<T> {}

impl<T: Send + 'static> Operation for GroupStep<T> {
    type Output = T;
    type Error = GroupError;

    fn run(self) -> Result<T, GroupError> {
        self.session.wait_for_group(self.begin)
    }

    fn run_with(self, callback: impl FnOnce(Result<T, GroupError>) + Send + 'static) -> Result<(), GroupError> {
        (self.begin)(Box::new(callback))
    }
}

fn group(id: &str, formed: Formed) -> Group {
    let Formed { members, missing, context_id } = formed;
    let absence = || Info::new(Key::from_static(keys::EVENT_AFFECTED_PROCS.name()), processes(&missing));
    let info = (!missing.is_empty()).then(absence).into_iter().collect();
    Group { id: Text::from(id), members, context_id, info }
}
