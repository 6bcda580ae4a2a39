//! The source of a Get's value: the segment, this process's own values, or the server.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::member::with_member;
use super::stores::SessionStores;
use super::{Session, derived};
use crate::client::{Call, CallError, Decision, GetRequest, Outcome, Round, StagedValue, resolve};
use crate::gds::{KeyRef, Lookup, RealmRequest};
use crate::keys;
use crate::proto::{Command, RankData};
use crate::runtime::client::fetched::{FetchError, Fetched, ValueCallback};
use crate::runtime::client::group_info::Meant;
use crate::runtime::client::inflated::{inflated, inflated_entries};
use crate::runtime::client::results::CallResult;
use crate::types::{DataType, Info, ProcId, Rank, Time, Value};

impl Session {
    /// As [`Session::peek`], but only for values without any detour; `None`: use `peek`.
    #[must_use]
    #[inline(always)]
    pub fn quick(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        if self.may_be_staged(rank) { None } else { self.quick_published(rank, key) }
    }

    #[inline(always)]
    fn quick_published(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        self.own.as_ref()?.reader.quick(rank, key).map(Fetched::written)
    }

    /// Reads a value from the segment of the own namespace, after [`Session::quick`] has not found it. Takes no lock,
    /// makes no system call, and allocates only for a text that follows from a rule. `None` if the value is missing, or
    /// if a value that this process stored may hide it. Then use [`Session::get`].
    #[must_use]
    pub fn peek(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        if self.may_be_staged(rank) {
            return self.peek_behind_staging(rank, key);
        }
        self.peek_published(rank, key)
    }

    /// Own values hide published ones. Without a rank, only [`Session::get`] knows which process is meant.
    fn peek_behind_staging(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        rank.process()?;
        let proc = ProcId { namespace: self.proc.namespace.clone(), rank };
        match self.staging.lock().look(&proc, key.name, None) {
            Some(StagedValue::Put(value)) => return Some(Fetched::shared(Arc::clone(value))),
            Some(StagedValue::Removed) => return None,
            None => {}
        }
        self.quick_published(rank, key).or_else(|| self.peek_published(rank, key))
    }

    fn peek_published(&self, rank: Rank, key: KeyRef<'_>) -> Option<Fetched<'_>> {
        let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
        match self.own.as_ref()?.reader.search(&lookup) {
            // A compressed string must be unpacked first, which is too slow for here.
            Ok(value) if value.data_type() != DataType::CompressedString => Some(Fetched::published(value)),
            _ => None,
        }
    }

    /// Gets a value from its source; waits for it if the request allows that. A group of this process may replace the
    /// namespace; the rank is then one in the group.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn get(&self, request: &GetRequest) -> Result<Fetched<'_>, FetchError> {
        match self.group_meant(request) {
            None => self.get_of_process(request),
            Some(members) => self.get_of_process(&self.of_member(request, members)?),
        }
    }

    fn get_of_process(&self, request: &GetRequest) -> Result<Fetched<'_>, FetchError> {
        match self.look_up(request) {
            Err(error) if error.is_not_found() => self.derived(request).map(Fetched::owned).ok_or(error),
            outcome => outcome,
        }
    }

    /// As [`Session::get`], without derived values.
    pub(in crate::runtime) fn look_up(&self, request: &GetRequest) -> Result<Fetched<'_>, FetchError> {
        let begun = request.directives.timeout.map(|_| self.link.now());
        let mut answer: Option<Arc<[RankData]>> = None;
        let mut looks = 0_u32;
        loop {
            let ask = match self.look(request, begun, answer.as_deref()) {
                ControlFlow::Break(outcome) => return outcome,
                ControlFlow::Continue(ask) => ask,
            };
            answer = match self.link.call(Call::Get(GetRequest { looks, ..ask }))? {
                Outcome::Answered(data) => Some(data),
                Outcome::LookAgain | Outcome::Complete | Outcome::Reply(_) => None,
            };
            looks = looks.saturating_add(1);
        }
    }

    /// One round of a Get: its result, or the request for the server before the next round.
    fn look(
        &self,
        request: &GetRequest,
        begun: Option<Time>,
        answer: Option<&[RankData]>,
    ) -> ControlFlow<Result<Fetched<'_>, FetchError>, GetRequest> {
        let decision = resolve(request, &self.proc, answer.map_or(Round::First, Round::Answered), &SessionStores(self));
        // The owner may have put another value since it gave its group one.
        let asks_anew = request.directives.refresh && matches!(decision, Decision::Ask(_));
        if matches!(decision, Decision::Ask(_) | Decision::NotFound(_))
            && let Some(value) = self.given(request).filter(|_| !asks_anew).or_else(|| self.about_server(request))
        {
            return ControlFlow::Break(as_put(Fetched::owned(value), request));
        }
        match decision {
            Decision::Found(value) => ControlFlow::Break(as_put(value, request)),
            Decision::Known(value) => ControlFlow::Break(as_put(Fetched::owned(value), request)),
            Decision::NotFound(status) => ControlFlow::Break(Err(FetchError::of(status))),
            Decision::Ask(ask) => match self.in_time(ask, begun) {
                Ok(ask) => ControlFlow::Continue(ask),
                Err(error) => ControlFlow::Break(Err(FetchError::Call(error))),
            },
        }
    }

    /// As [`Session::get`]; a copy of the value goes to `callback`, always on the progress thread.
    ///
    /// # Errors
    /// The thread could not be started, and the callback will not run.
    pub fn get_with(
        self: &Arc<Self>,
        request: GetRequest,
        callback: impl FnOnce(Result<Value, FetchError>) + Send + 'static,
    ) -> std::io::Result<()> {
        let session = Arc::downgrade(self);
        let begun = request.directives.timeout.map(|_| self.link.now());
        let members = self.group_meant(&request);
        self.later(move || match members {
            None => begin_get(&session, request, begun, Box::new(callback)),
            Some(members) => with_member(&session, request, begun, members, move |session, request| match request {
                Ok(request) => begin_get(session, request, begun, Box::new(callback)),
                Err(error) => callback(Err(error)),
            }),
        })
    }

    /// The contribution of the requested process to a group of this process, current or ended. The name and context
    /// number of the group may be qualifiers or plain directives. Other qualifiers are only for posted values.
    fn given(&self, request: &GetRequest) -> Option<Value> {
        let (key, directives) = (request.key.as_ref()?, &request.directives);
        let of_group = [keys::GROUP_ID.name(), keys::GROUP_CONTEXT_ID.name()];
        let [id, number] = of_group
            .map(|wanted| directives.upward.iter().find(|info| info.key.as_str() == wanted).map(|info| &info.value));
        let is_about_group = |info: &Info| of_group.contains(&info.key.as_str());
        let is_plain = match (id, number) {
            (None, None) => directives.is_unqualified(),
            _ => directives.qualifiers.iter().all(is_about_group),
        };
        let group = match id {
            Some(Value::String(id)) => Some(id.as_bytes()),
            Some(_) => return None,
            None => None,
        };
        let context_id = match number {
            Some(number) => Some(number.as_u64()?),
            None => None,
        };
        self.groups.group_info.find(Meant { group, context_id }, &request.proc, key).filter(|_| is_plain)
    }

    /// Facts about the server that this process has, if the host has registered none. As in other libraries, they are
    /// values of this process. A Get without a rank, or for the job, finds them too.
    fn about_server(&self, request: &GetRequest) -> Option<Value> {
        let (key, address) = (request.key.as_ref()?.as_str(), self.address.as_ref()?);
        let is_own_rank = [self.proc.rank, Rank::Undefined, Rank::Wildcard].contains(&request.proc.rank);
        if request.proc.namespace != self.proc.namespace || !is_own_rank || !request.directives.qualifiers.is_empty() {
            return None;
        }
        match key {
            key if key == keys::SERVER_NSPACE.name() => Some(Value::from(self.server.namespace.as_str())),
            key if key == keys::SERVER_RANK.name() => Some(Value::ProcRank(self.server.rank)),
            key if key == keys::SERVER_URI.name() => Some(Value::from(address.to_string())),
            _ => None,
        }
    }

    /// The request with the rest of its time. All rounds of a Get share the time limit.
    fn in_time(&self, mut request: GetRequest, begun: Option<Time>) -> Result<GetRequest, CallError> {
        let spent = begun.map_or(Duration::ZERO, |begun| self.link.now().since(begun));
        if request.directives.spend(spent) { Ok(request) } else { Err(CallError::TimedOut { command: Command::Get }) }
    }
}

/// A Get with callback.
struct Asked {
    request: GetRequest,
    /// The start of its time limit, if it has one.
    begun: Option<Time>,
    /// The number of requests to the server.
    looks: u32,
}

/// The first round of a Get with callback.
fn begin_get(session: &Weak<Session>, request: GetRequest, begun: Option<Time>, callback: ValueCallback) {
    let callback = match derived::may_follow(&request) {
        true => derived::or_derived(session, &request, callback),
        false => callback,
    };
    continue_get(session, Asked { request, begun, looks: 0 }, None, callback);
}

/// One round of a Get with callback. Holds the session only during the round. If the session was dropped meanwhile, its
/// calls have ended.
fn continue_get(session: &Weak<Session>, mut asked: Asked, answer: Option<Arc<[RankData]>>, callback: ValueCallback) {
    let Some(held) = session.upgrade() else {
        return callback(Err(FetchError::Dropped));
    };
    let ask = match held.look(&asked.request, asked.begun, answer.as_deref()) {
        ControlFlow::Break(outcome) => return callback(outcome.and_then(owned)),
        ControlFlow::Continue(ask) => ask,
    };
    let session = Weak::clone(session);
    let ask = GetRequest { looks: asked.looks, ..ask };
    asked.looks = asked.looks.saturating_add(1);
    let go_on = Box::new(move |result: CallResult| match result {
        Ok(Outcome::Answered(data)) => continue_get(&session, asked, Some(data), callback),
        Ok(_) => continue_get(&session, asked, None, callback),
        Err(error) => callback(Err(FetchError::Call(error))),
    });
    held.link.start_with(Call::Get(ask), go_on);
}

/// The value, or all values of a process, without compression.
fn as_put<'a>(found: Fetched<'a>, request: &GetRequest) -> Result<Fetched<'a>, FetchError> {
    match request.key {
        Some(_) => inflated(found),
        None => Ok(Fetched::owned(inflated_entries(found.into_value().map_err(|_| FetchError::Damaged)?))),
    }
}

fn owned(value: Fetched<'_>) -> Result<Value, FetchError> {
    value.into_value().map_err(|_| FetchError::Damaged)
}
