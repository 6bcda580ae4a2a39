//! Gets of a group's members by their ranks in it (PMIx Standard, "Process Sets and Groups").
//!
//! Members may leave, so a Get asks our own server for the current members; a host that answers queries decides. A Get
//! with `PMIX_OPTIONAL` uses the members that the server sent last. A found value is cached under the member's own
//! name, like any other value.
//!
//! A group should not have a job's name. If it has, the name means the job, as in the server's collectives.

use std::sync::Weak;
use std::time::Duration;

use super::Session;
use super::exchange::{call, reply_of};
use crate::client::{Call, CallError, GetRequest, GetRequestError};
use crate::keys;
use crate::proto::{Command, QueryInfo, Reply, Request, ResolvePeers};
use crate::runtime::client::fetched::FetchError;
use crate::runtime::client::groups::{Members, of_rank};
use crate::types::{Info, Key, Namespace, ProcId, Query, Status, Text, Time, Value};

impl Session {
    /// The members of the group that a name stands for, as far as this process knows. A known job of that name may have
    /// ended since, but in a Get that asks the server anyway, the server decides.
    pub(super) fn group_meant(&self, request: &GetRequest) -> Option<Members> {
        let namespace = &request.proc.namespace;
        let members = self.groups.named(namespace)?;
        let is_known_job = || known(request, &members).is_some() && self.foreign_source(namespace).is_some();
        let is_job = namespace.is(&self.proc.namespace) || is_known_job();
        if is_job { None } else { Some(members) }
    }

    /// The request, changed to the member that it means and to the rest of its time.
    pub(super) fn of_member(&self, request: &GetRequest, members: Members) -> Result<GetRequest, FetchError> {
        if let Some(members) = known(request, &members) {
            return aimed(request, members, Duration::ZERO);
        }
        let begun = self.link.now();
        let (name, limit) = (&request.proc.namespace, request.directives.timeout);
        let (job, group) =
            self.link.call_both(call(job_processes_request(name), limit), call(group_members_request(name), limit));
        let spent = self.link.now().since(begun);
        self.aimed_by_replies(request, is_job(&reply_of(job)), reply_of(group), spent)
    }

    fn aimed_by_replies(
        &self,
        request: &GetRequest,
        is_job: bool,
        group: Result<Reply, CallError>,
        spent: Duration,
    ) -> Result<GetRequest, FetchError> {
        if is_job {
            return in_time(request.clone(), spent);
        }
        let members = members_in(group)?;
        self.groups.note_members(&request.proc.namespace, &members);
        aimed(request, &members, spent)
    }
}

/// As [`Session::of_member`], on the progress thread, without waiting. The time of the request runs since it `begun`.
pub(super) fn with_member(
    session: &Weak<Session>,
    request: GetRequest,
    begun: Option<Time>,
    members: Members,
    then: impl FnOnce(&Weak<Session>, Result<GetRequest, FetchError>) + Send + 'static,
) {
    let Some(held) = session.upgrade() else { return then(session, Err(FetchError::Dropped)) };
    if let Some(members) = known(&request, &members) {
        return then(session, aimed(&request, members, Duration::ZERO));
    }
    let session = Weak::clone(session);
    let asked = call(job_processes_request(&request.proc.namespace), request.directives.timeout);
    let done = move |job| {
        let is_job = is_job(&reply_of(job));
        let Some(held) = session.upgrade() else { return then(&session, Err(FetchError::Dropped)) };
        let spent = begun.map_or(Duration::ZERO, |begun| held.link.now().since(begun));
        let group = match second_question(&request, spent) {
            Ok(group) => group,
            Err(error) => return then(&session, Err(error)),
        };
        let send_answer = move |result| {
            let aimed_by_replies =
                |held: &Session| held.aimed_by_replies(&request, is_job, reply_of(result), Duration::ZERO);
            let request = session.upgrade().map_or(Err(FetchError::Dropped), |held| aimed_by_replies(&held));
            then(&session, request);
        };
        held.link.start_with(group, Box::new(send_answer));
    };
    held.link.start_with(asked, Box::new(done));
}

/// The members of the group, if the server need not be asked.
fn known<'a>(request: &GetRequest, members: &'a Members) -> Option<&'a [ProcId]> {
    match members {
        Members::Noted { members, .. } => Some(members),
        Members::AskServer(members) => request.directives.optional.then_some(members),
    }
}

/// The server answers this without its host. It refuses names that are no jobs.
fn job_processes_request(name: &Namespace) -> Request {
    Request::ResolvePeers(ResolvePeers { node: None, namespace: Some(Text::from(name.as_str())) })
}

fn is_job(reply: &Result<Reply, CallError>) -> bool {
    let is_none = |status: Status| status == Status::ERR_INVALID_NAMESPACE;
    !matches!(reply, Err(CallError::Refused { command: Command::ResolvePeers, status }) if is_none(*status))
}

fn group_members_request(group: &Namespace) -> Request {
    let keys = vec![Text::from(keys::QUERY_GROUP_MEMBERSHIP.name())];
    let qualifiers = vec![Info::new(Key::from_static(keys::GROUP_ID.name()), group.as_str())];
    Request::from(QueryInfo::new(vec![Query { keys, qualifiers }]))
}

/// The request for the members, with the time that the first request has left.
fn second_question(request: &GetRequest, spent: Duration) -> Result<Call, FetchError> {
    let left = in_time(request.clone(), spent)?;
    Ok(call(group_members_request(&request.proc.namespace), left.directives.timeout))
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

/// The request, changed to the process that its rank in the group stands for, and to the rest of its time.
fn aimed(request: &GetRequest, members: &[ProcId], spent: Duration) -> Result<GetRequest, FetchError> {
    let rank = request.proc.rank;
    match of_rank(members, rank) {
        [] => Err(FetchError::NotFound { status: Status::ERR_NOT_FOUND }),
        // An empty place in a host's list of members.
        [member] if member.namespace.is_nobodys() => Err(FetchError::NotFound { status: Status::ERR_NOT_FOUND }),
        [member] => in_time(GetRequest { proc: member.clone(), ..request.clone() }, spent),
        several => Err(GetRequestError::SeveralMembers { rank, count: several.len() }.into()),
    }
}

fn in_time(mut request: GetRequest, spent: Duration) -> Result<GetRequest, FetchError> {
    let is_left = request.directives.spend(spent);
    if is_left { Ok(request) } else { Err(CallError::TimedOut { command: Command::Get }.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::GetDirectives;
    use crate::types::{DataArray, DataType};

    fn proc(namespace: &str, rank: u32) -> ProcId {
        ProcId::new(Namespace::new(namespace).unwrap(), rank)
    }

    #[test]
    fn the_question_who_a_member_is_takes_from_the_time_of_the_get() {
        // A Get of a member with a limit of five seconds waited up to ten: five for the members, and five for the
        // value.
        let limit = Info::new(Key::from_static(keys::TIMEOUT.name()), 5);
        let directives = GetDirectives::parse(std::slice::from_ref(&limit)).unwrap();
        let key = Some(Key::from_static("k"));
        let request = GetRequest { proc: proc("group", 1), key, directives, looks: 0 };
        let members = [proc("job", 3), proc("job", 7)];
        let aimed = |spent| aimed(&request, &members, Duration::from_millis(spent));
        let told = aimed(1_500).unwrap();
        assert_eq!(told.proc, members[1]);
        assert_eq!(told.directives.timeout, Some(Duration::from_millis(3_500)));
        assert_eq!(told.directives.upward, [Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(4))]);
        let late = aimed(5_000).unwrap_err();
        assert!(matches!(late, FetchError::Call(CallError::TimedOut { .. })), "{late}");
        // Two requests in a row each waited for the whole time, and the second one even after its end.
        let second = |spent| second_question(&request, Duration::from_millis(spent));
        let within = second(1_500).unwrap();
        assert!(matches!(within, Call::ExchangeWithin(_, left) if left == Duration::from_millis(3_500)), "{within:?}");
        let late = second(5_000).unwrap_err();
        assert!(matches!(late, FetchError::Call(CallError::TimedOut { .. })), "{late}");
    }

    #[test]
    fn a_rank_that_stands_for_nobody_is_not_asked_about() {
        // An empty place in the host's list was taken for a process of a job with an empty name. The server was asked
        // for its values.
        let nobody = ProcId { namespace: Namespace::in_value(b"").unwrap(), ..proc("job", 0) };
        let elements = [nobody, proc("job", 1)].map(Value::from).to_vec();
        let list = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
        let told = Info::new(Key::from_static(keys::QUERY_GROUP_MEMBERSHIP.name()), list);
        let members = members_in(Ok(Reply::Infos(vec![told]))).unwrap();
        let of_rank =
            |rank| GetRequest { proc: proc("group", rank), key: None, directives: GetDirectives::default(), looks: 0 };
        let missing = aimed(&of_rank(0), &members, Duration::ZERO).unwrap_err();
        assert!(missing.is_not_found(), "{missing}");
        assert_eq!(aimed(&of_rank(1), &members, Duration::ZERO).unwrap().proc, proc("job", 1));
    }
}
