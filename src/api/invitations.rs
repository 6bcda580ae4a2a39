//! Groups by invitation.

use super::asks::Group;
use super::client::Client;
use crate::client::processes;
use crate::keys;
use crate::runtime::{Formed, GroupCallback, GroupError};
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
    /// # Errors
    /// [`GroupError`]. A handler or callback can't wait for this.
    pub fn group_invite(&self, id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> Result<Group, GroupError> {
        let session = self.session();
        let formed = session.wait_for_group(|callback| session.invite(id, procs, &directives, callback))?;
        Ok(group(id, formed))
    }

    /// As [`Client::group_invite`], without waiting: the result goes to `callback`, on the thread of the callbacks.
    ///
    /// # Errors
    /// [`GroupError`]: the callback will not run.
    pub fn group_invite_with(
        &self,
        id: &str,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        callback: impl FnOnce(Result<Group, GroupError>) + Send + 'static,
    ) -> Result<(), GroupError> {
        let name = id.to_owned();
        let callback: GroupCallback<Formed> =
            Box::new(move |formed| callback(formed.map(|formed| group(&name, formed))));
        self.session().invite(id, procs, &directives, callback)
    }

    /// Answers an invitation. Accepting waits until the leader has formed the group; the result is `None` after a
    /// refusal. `leader` is the source of the invitation; without it every process of the session is notified.
    /// `PMIX_TIMEOUT` limits the wait: leaders that use OpenPMIx up to 6.1 report the group's end only through a server
    /// of this library.
    ///
    /// # Errors
    /// [`GroupError`]. A handler or callback can't wait for this, and answers with [`Client::group_join_with`].
    pub fn group_join(
        &self,
        id: &str,
        leader: Option<&ProcId>,
        is_accepted: bool,
        directives: Vec<Info>,
    ) -> Result<Option<Group>, GroupError> {
        let session = self.session();
        let leader = leader.cloned();
        let begin = |callback| session.join(id, leader, is_accepted, &directives, callback);
        let formed = session.wait_for_group(begin)?;
        Ok(formed.map(|formed| group(id, formed)))
    }

    /// As [`Client::group_join`], without waiting: the result goes to `callback`, on the thread of the callbacks.
    ///
    /// # Errors
    /// [`GroupError`]: no notification was sent, and the callback will not run.
    pub fn group_join_with(
        &self,
        id: &str,
        leader: Option<&ProcId>,
        is_accepted: bool,
        directives: Vec<Info>,
        callback: impl FnOnce(Result<Option<Group>, GroupError>) + Send + 'static,
    ) -> Result<(), GroupError> {
        let name = id.to_owned();
        let callback: GroupCallback<Option<Formed>> = Box::new(move |formed| {
            callback(formed.map(|formed| formed.map(|formed| group(&name, formed))));
        });
        self.session().join(id, leader.cloned(), is_accepted, &directives, callback)
    }

    /// Leaves a group. The other members are notified (`GROUP_LEFT`); this does not wait for them.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn group_leave(&self, id: &str, directives: Vec<Info>) -> Result<(), GroupError> {
        let session = self.session();
        session.wait_for_group(|callback| session.leave_group(id, directives, callback))
    }

    /// As [`Client::group_leave`], without waiting.
    ///
    /// # Errors
    /// [`GroupError`]: the callback will not run.
    pub fn group_leave_with(
        &self,
        id: &str,
        directives: Vec<Info>,
        callback: impl FnOnce(Result<(), GroupError>) + Send + 'static,
    ) -> Result<(), GroupError> {
        self.session().leave_group(id, directives, Box::new(callback))
    }
}

fn group(id: &str, formed: Formed) -> Group {
    let Formed { members, missing, context_id } = formed;
    let absence = || Info::new(Key::from_static(keys::EVENT_AFFECTED_PROCS.name()), processes(&missing));
    let info = (!missing.is_empty()).then(absence).into_iter().collect();
    Group { id: Text::from(id), members, context_id, info }
}
