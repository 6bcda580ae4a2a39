//! Gets of a group's members by their ranks in it (PMIx Standard, "Process Sets and Groups"). Under our own server that is the
//! one to ask who they are: members leave. What is found is kept under the member's own name, as any other value of its.

use std::sync::Weak;

use super::{FetchError, Session};
use crate::client::{CallError, GetRequest, Refusal};
use crate::keys;
use crate::proto::{Reply, Request};
use crate::runtime::exchange::{call, reply_of};
use crate::runtime::groups::{Members, of_rank};
use crate::types::{Info, Key, Namespace, ProcId, Query, Status, Text, Value};

impl Session {
    /// The request, about the member that it means.
    pub(super) fn of_member(&self, request: &GetRequest, members: Members) -> Result<GetRequest, FetchError> {
        let members = match members {
            Members::Noted(members) => members,
            Members::AskServer => {
                let (query, limit) = (who_is_in(&request.proc.namespace), request.directives.timeout);
                members_in(self.exchange(query, limit))?
            }
        };
        aimed(request, &members)
    }
}

/// As [`Session::of_member`], on the progress thread, without waiting.
pub(super) fn with_member(
    session: &Weak<Session>,
    request: GetRequest,
    members: Members,
    then: impl FnOnce(&Weak<Session>, Result<GetRequest, FetchError>) + Send + 'static,
) {
    let Some(held) = session.upgrade() else { return then(session, Err(FetchError::Dropped)) };
    match members {
        Members::Noted(members) => then(session, aimed(&request, &members)),
        Members::AskServer => {
            let (query, limit) = (who_is_in(&request.proc.namespace), request.directives.timeout);
            let session = Weak::clone(session);
            let done = move |result| {
                then(&session, members_in(reply_of(result)).and_then(|members| aimed(&request, &members)));
            };
            held.link.start_with(call(query, limit), Box::new(done));
        }
    }
}

fn who_is_in(group: &Namespace) -> Request {
    let keys = vec![Text::from(keys::QUERY_GROUP_MEMBERSHIP.name())];
    let qualifiers = vec![Info::new(Key::from_static(keys::GROUP_ID.name()), group.as_str())];
    Request::Query(vec![Query { keys, qualifiers }])
}

fn members_in(reply: Result<Reply, CallError>) -> Result<Vec<ProcId>, FetchError> {
    let infos = match reply? {
        Reply::Infos(infos) => infos,
        _ => Vec::new(),
    };
    let lists = infos.iter().filter(|info| info.key.as_str() == keys::QUERY_GROUP_MEMBERSHIP.name());
    let elements = lists.flat_map(|info| match &info.value {
        Value::DataArray(array) => array.elements.as_slice(),
        _ => &[],
    });
    let members = elements.filter_map(|element| if let Value::Proc(proc) = element { Some(&**proc) } else { None });
    Ok(members.cloned().collect())
}

/// The request, about the one process that its rank in the group stands for.
fn aimed(request: &GetRequest, members: &[ProcId]) -> Result<GetRequest, FetchError> {
    let rank = request.proc.rank;
    match of_rank(members, rank) {
        [] => Err(FetchError::NotFound { status: Status::ERR_NOT_FOUND }),
        [member] => Ok(GetRequest { proc: member.clone(), ..request.clone() }),
        several => Err(Refusal::SeveralMembers { rank, count: several.len() }.into()),
    }
}
