//! Requests that consist of one message and one reply.

use std::sync::Arc;
use std::time::Duration;

use super::Session;
use super::query_cache::{Moment, QueryCache};
use crate::client::{Call, CallError, Outcome};
use crate::proto::{Reply, Request};
use crate::runtime::client::results::CallResult;
use crate::types::Status;

impl Session {
    /// Sends a request and waits for its reply; gives up some time after the limit. A status reply other than success
    /// is an error.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn exchange(&self, request: Request, time_limit: Option<Duration>) -> Result<Reply, CallError> {
        if let Some(answer) = self.answer_here(&request) {
            return answer;
        }
        let now = self.moment();
        if let Some(known) = now.and_then(|now| self.query_cache.answer(&request, now)) {
            return Ok(known);
        }
        let asked = now.and_then(|now| QueryCache::ask(&request, now));
        let mut request = self.with_endpoints(request);
        let step = self.groups().prepare(&mut request, self.proc(), self.peer_profile());
        let answer = self.groups().conclude(step, reply_of(self.link().call(call(request, time_limit))));
        self.query_cache.keep_answer(asked, &answer);
        answer
    }

    /// As [`Session::exchange`]; the reply goes to `callback`, on the progress thread. Starts that thread if needed.
    ///
    /// # Errors
    /// The thread could not be started, and nothing was sent.
    pub fn exchange_with(
        &self,
        request: Request,
        time_limit: Option<Duration>,
        callback: impl FnOnce(Result<Reply, CallError>) + Send + 'static,
    ) -> std::io::Result<()> {
        if let Some(answer) = self.answer_here(&request) {
            return self.progress.begin(&self.link, |link| link.defer(|| callback(answer)));
        }
        let now = self.moment();
        if let Some(known) = now.and_then(|now| self.query_cache.answer(&request, now)) {
            return self.progress.begin(&self.link, |link| link.defer(|| callback(Ok(known))));
        }
        let asked = now.and_then(|now| QueryCache::ask(&request, now));
        let mut request = self.with_endpoints(request);
        let (groups, cache) = (Arc::clone(self.groups()), Arc::clone(&self.query_cache));
        let step = groups.prepare(&mut request, self.proc(), self.peer_profile());
        let call = call(request, time_limit);
        let done = move |result| {
            let answer = groups.conclude(step, reply_of(result));
            cache.keep_answer(asked, &answer);
            callback(answer);
        };
        self.progress.begin(&self.link, |link| link.start_with(call, Box::new(done))).map(|_| ())
    }
}

impl Session {
    /// Adds the values for the other members to a request to form a group, as clients of OpenPMIx do since 6.0. Our own
    /// server adds the committed values itself, and only if the group has members on other nodes.
    fn with_endpoints(&self, mut request: Request) -> Request {
        let profile = self.peer_profile();
        if let Request::GroupConstruct(group) = &mut request
            && !profile.is_ours
            && profile.dialect.peer.major >= 6
        {
            group.directives.extend(self.own_endpoints().filter(|endpoints| profile.takes(&endpoints.value)));
        }
        request
    }

    /// The present moment for kept answers. `None` in a forked copy and without a server, where a call fails.
    fn moment(&self) -> Option<Moment> {
        if !self.link().is_of_this_process() {
            return None;
        }
        let time = self.link().now();
        self.link().with(|state| (!state.is_lost()).then(|| Moment { time, activity: state.activity() }))
    }
}

/// A request of one message, with its time limit if it has one.
pub(super) fn call(request: Request, time_limit: Option<Duration>) -> Call {
    match time_limit {
        Some(time_limit) => Call::ExchangeWithin(request, time_limit),
        None => Call::Exchange(request),
    }
}

pub(super) fn reply_of(result: CallResult) -> Result<Reply, CallError> {
    match result? {
        Outcome::Reply(reply) => Ok(reply),
        Outcome::Complete | Outcome::Answered(_) | Outcome::LookAgain => Ok(Reply::Status(Status::SUCCESS)),
    }
}
