//! The requester of a service, and requests of many processes.
//!
//! The ids of a [`Requester`] come from the kernel. `PMIX_USERID` and `PMIX_GRPID` among the directives of a request
//! hold the same ids. A client's own claims are removed.
//!
//! Source: PMIx Standard, "Server-Specific Interfaces" (server module).

use super::connection::Credentials;
use crate::keys::{self, TypedKey};
use crate::types::{Info, InfoFlags, Key, ProcId, Query, Text, Value};

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }
        )*
    };
}

requests! {
    /// The process behind a request.
    Requester {
        /// The process.
        proc: ProcId,
        /// The object of its registration.
        object: u64,
        /// Effective user id of its connection, according to the kernel.
        uid: u32,
        /// Effective group id of its connection, according to the kernel. [`Credentials::GROUP_UNKNOWN`] for some tools
        /// over TCP.
        gid: u32,
    }
    /// Processes to connect or disconnect. Every local one has sent the request.
    Connect {
        /// The processes, sorted, each entry once.
        procs: Vec<ProcId>,
        /// Directives of the first arrival, then `PMIX_LOCAL_COLLECTIVE_STATUS` if local participants are missing.
        directives: Vec<Info>,
    }
    /// A group to form or to dissolve. Every local member has sent the request.
    GroupRequest {
        /// The operation.
        operation: GroupOperation,
        /// The group's name.
        id: Text,
        /// The members, sorted, each entry once. Of a process that does not know the others: those that it names.
        procs: Vec<ProcId>,
        /// Directives of all local members, each once, then `PMIX_LOCAL_COLLECTIVE_STATUS` if some are missing. In a
        /// construct also the values of each for other nodes (`PMIX_PROC_INFO_ARRAY`).
        directives: Vec<Info>,
    }
    /// Output of a process.
    IofOutput {
        /// The source.
        source: ProcId,
        /// The channel, one bit of [`crate::types::codes::iof_channel`].
        channel: u16,
        /// The bytes; none: the source has closed the channel.
        bytes: Vec<u8>,
        /// Details.
        info: Vec<Info>,
    }
}

/// Operations on a group. The numbers are those of the server module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum GroupOperation {
    /// Form it.
    Construct = 0,
    /// Dissolve it.
    Destruct = 1,
}

impl Requester {
    /// Directives with the ids of the requester; earlier claims are removed.
    pub(crate) fn signed(&self, mut directives: Vec<Info>) -> Vec<Info> {
        directives.retain(|info| !SIGNATURE.contains(&info.key.as_str()));
        directives.extend(self.ids());
        directives
    }

    /// The ids as infos: `PMIX_USERID`, and `PMIX_GRPID` if the group is known.
    #[must_use]
    pub fn ids(&self) -> Vec<Info> {
        Credentials { uid: self.uid, gid: self.gid }.infos()
    }
}

/// Facts about a requester that the server adds to its request, in place of any claims.
pub(crate) const SIGNATURE: [&str; 2] = [keys::USERID.name(), keys::GRPID.name()];

/// Directives that carry the ids of their requester.
pub(crate) trait Signed {
    fn sign(&mut self, requester: &Requester);
}

impl Signed for Vec<Info> {
    fn sign(&mut self, requester: &Requester) {
        *self = requester.signed(std::mem::take(self));
    }
}

/// Each query has qualifiers of its own.
impl Signed for Vec<Query> {
    fn sign(&mut self, requester: &Requester) {
        self.iter_mut().for_each(|query| query.qualifiers.sign(requester));
    }
}

/// Sets the server's value, in place of any earlier one.
pub(crate) fn set<T: ?Sized>(directives: &mut Vec<Info>, key: TypedKey<T>, value: Value) {
    directives.retain(|info| info.key.as_str() != key.name());
    directives.push(Info { key: Key::from_static(key.name()), flags: InfoFlags::empty().bits(), value });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    /// A host got the number 4294967295 as the group of another user's tool over TCP. `setresgid` keeps the caller's
    /// group for it.
    #[test]
    fn an_unknown_group_is_no_id_of_a_request() {
        let ids = |gid: u32| {
            let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
            let claim = Info::new(Key::from_static(keys::GRPID.name()), 0_u32);
            Requester { proc, object: 0, uid: 7, gid }.signed(vec![claim])
        };
        let [user, group] =
            [(keys::USERID, 7_u32), (keys::GRPID, 8)].map(|(key, id)| Info::new(Key::from_static(key.name()), id));
        assert_eq!(ids(8), [user.clone(), group]);
        assert_eq!(ids(Credentials::GROUP_UNKNOWN), [user]);
    }
}
