//! A process's invitations: the groups that it leads, has accepted, or is in.

use std::collections::{BTreeMap, BTreeSet};

use modex::client::{Acceptance, CallError, CallId, Conclusion, Construction, Invitation, Outcome};
use modex::types::{Info, ProcId, Status, Text, Time};

use super::invited_groups::{Group, InvitationId};
use super::program::Invite;

/// The invitations of a process in its present life.
#[derive(Debug, Default)]
pub(super) struct Invitations {
    pub(super) leads: BTreeMap<Text, LedInvitation>,
    pub(super) joins: BTreeMap<InvitationId, AcceptedInvitation>,
    /// Groups to which it was invited, answered or not.
    pub(super) asked: BTreeSet<Text>,
    /// Groups that it is in, with the members that it knows.
    pub(super) inside: BTreeMap<Text, (ProcId, Vec<ProcId>)>,
}

#[derive(Debug)]
pub(super) struct LedInvitation {
    pub(super) invitation: Invitation,
    pub(super) leader: ProcId,
    pub(super) wishes: Invite,
    pub(super) wait: CallId,
    pub(super) is_awaited: bool,
    pub(super) has_failed: bool,
}

#[derive(Debug)]
pub(super) struct AcceptedInvitation {
    pub(super) acceptance: Acceptance,
    pub(super) wait: CallId,
    pub(super) since: Time,
    pub(super) heard: Option<Construction>,
    pub(super) has_failed: bool,
}

/// The purpose of a call about an invitation.
#[derive(Debug)]
pub(super) enum InvitationCall {
    /// It will hear of invitations.
    Listens,
    LeaderListens(Text),
    Invites(Text),
    Leads(Text),
    Numbers(Text, Conclusion),
    /// It also carries the message for the case that it fails.
    Announces(InvitationId, Group, bool, Withdrawal),
    /// It tells the processes that are not in the group.
    Tells(InvitationId),
    GuestListens(InvitationId),
    Accepts(InvitationId),
    Waits(InvitationId),
    Enters(InvitationId, Group, bool),
    Leaves(InvitationId),
    Looks(InvitationId),
    Other,
}

pub(super) type Withdrawal = Option<(Status, Vec<Info>)>;
pub(super) type Outcomes = Result<Outcome, CallError>;

impl Invitations {
    /// Whether an invitation of the process is not settled.
    pub(super) fn is_busy(&self) -> bool {
        !self.joins.is_empty()
    }
}
