//! Questions of a server for resources that it lacks.

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::bounded;

use crate::client::CallError;
use crate::keys;
use crate::proto::{Allocate, Request, Service};
use crate::runtime::{SharedTime, SystemServer, ToolDirections, ToolError, Unanswered, seconds_of};
use crate::types::codes::alloc_directive::ALLOC_EXTEND;
use crate::types::{AsStatus, Info, Key, Namespace, ProcId, Status};

use super::client::Client;
use super::round_trip::{ClientAnswer, RequestError};
use super::server::Server;

impl Server {
    /// Asks for an allocation: the scheduler at `PMIX_SERVER_URI`; without it the host, and if that has no function,
    /// the scheduler of the node.
    pub(super) fn ask_for(&self, setup: &[Info], question: Vec<Info>) -> Result<Vec<Info>, Unanswered> {
        let find = |key: &str| setup.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
        let seconds = seconds_of(setup);
        let time = SharedTime::begin(Duration::from_secs(seconds.into()));
        let address = find(keys::SERVER_URI.name()).and_then(|value| value.as_str()).map(str::to_owned);
        if address.is_none() {
            let request = Service::from(Allocate::new(ALLOC_EXTEND, question.clone()));
            match self.handle.own_process().exchange_within(Request::Service(request), time.left()) {
                Err(error) if error.status() == Status::ERR_NOT_SUPPORTED => {}
                Err(error) => return Err(unanswered(&error, seconds)),
                Ok(reply) => return Ok(Vec::<Info>::read(reply).map(|answered| answered.results).unwrap_or_default()),
            }
        }
        self.ask_scheduler(address, (seconds, time), question)
    }

    fn ask_scheduler(
        &self,
        address: Option<String>,
        (seconds, time): (u32, SharedTime),
        mut question: Vec<Info>,
    ) -> Result<Vec<Info>, Unanswered> {
        let connected = self.connect_for_question(address.clone(), SystemServer::Scheduler, &time);
        let client = connected.map_err(|error| match address {
            Some(address) => Unanswered::Unreached { address, error: Arc::new(error) },
            None => Unanswered::NoScheduler(Arc::new(error)),
        })?;
        // The client and the scheduler count whole seconds.
        let seconds_left = u32::try_from(time.left().as_secs()).unwrap_or(seconds).max(1);
        question.push(Info::new(Key::from_static(keys::TIMEOUT.name()), seconds_left));
        let (sender, answer) = bounded(1);
        let take = move |answer| drop(sender.send(answer));
        if let Err(error) = client.allocate(ALLOC_EXTEND, question).then(take) {
            return Err(Unanswered::Refused { status: error.status() });
        }
        match answer.recv_timeout(time.left()) {
            Ok(Ok(answered)) => {
                // The answer counts, and not the way in which the server is left.
                let _ = client.finalize();
                Ok(answered.results)
            }
            // A server that is too slow may be slow to say goodbye, too. The end of the connection has the same effect.
            Ok(Err(RequestError::Call(error))) => Err(unanswered(&error, seconds)),
            Ok(Err(error)) => Err(Unanswered::Refused { status: error.status() }),
            Err(_) => Err(Unanswered::TooSlow { seconds }),
        }
    }
}

impl Server {
    /// A connection to another server for one question: at an address, or of a kind on this node.
    pub(super) fn connect_for_question(
        &self,
        address: Option<String>,
        system: SystemServer,
        time: &SharedTime,
    ) -> Result<Client, ToolError> {
        let environment = self.handle.environment();
        Client::of_tool(&ToolDirections {
            name: self.name_of_question(),
            address,
            system,
            hostname: Some(environment.hostname.clone()),
            system_tmpdir: Some(environment.system_tmpdir.clone().into()),
            time_max: Some(time.left()),
            prover: self.handle.question_prover().cloned(),
            ..ToolDirections::default()
        })
    }

    /// The name of a connection for one question. The scheduler may know this process under its own name already.
    fn name_of_question(&self) -> Option<ProcId> {
        let ProcId { namespace, rank } = self.proc();
        // No dots: release 3.2 ends a namespace at the first dot.
        let name = format!("{namespace}-{}-setup-{}", rank.to_raw(), self.jobs().number_of_question());
        Namespace::new(&name.replace('.', "_")).ok().map(|namespace| ProcId::new(namespace, 0))
    }
}

fn unanswered(error: &CallError, seconds: u32) -> Unanswered {
    match error {
        CallError::TimedOut { .. } => Unanswered::TooSlow { seconds },
        error => Unanswered::Refused { status: error.status() },
    }
}
