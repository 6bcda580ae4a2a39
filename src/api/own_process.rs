//! Values and collective operations of the server's own process.

use std::sync::Arc;

use crate::keys;
use crate::proto::{Abort, Collective, Request};
use crate::runtime::{FindRequest, OwnProcess};
use crate::server::{HostCall, ProcessFacts};
use crate::types::{Info, Key, ProcId, Status, Text, Value};

use super::options::FenceOptions;
use super::pending::sealed::Sealed;
use super::pending::{Operation, Pending};
use super::round_trip::{RoundTrip, done};
use super::server::Server;
use super::server_call::{ServerError, refused};

impl Server {
    /// Stores a value about any process, for the server's own process alone. A server has no `put`: no other process
    /// can ask for values of a server.
    ///
    /// ```
    /// use modex::types::{Key, Value};
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let port = Key::new("site.port")?;
    /// server.store_internal(server.proc(), port.clone(), 4711_u32)?;
    /// let found = server.find(Some(server.proc().clone()), Some(port), Vec::new()).wait()?;
    /// assert_eq!(found, Value::from(4711_u32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Refused`] with `BAD_PARAM` for a damaged qualified value.
    pub fn store_internal(&self, proc: &ProcId, key: Key, value: impl Into<Value>) -> Result<(), ServerError> {
        let value = value.into();
        if let Value::Pid(pid) = value
            && key.as_str() == keys::PROC_PID.name()
        {
            // Tools ask the server for it. PRRTE says it nowhere else.
            let facts = ProcessFacts { proc: proc.clone(), pid, executable: None };
            // A server that has stopped has no tools.
            let _ = self.call("describe the process", HostCall::DescribeProcess(facts)).then(drop);
        }
        let stored = self.handle.own_process().values().store(proc, key, value);
        stored.map_err(|status| ServerError::Refused {
            doing: "store the value",
            status,
            reason: "a qualified value is no array of the value and its qualifiers".to_owned(),
        })
    }

    /// Removes a value that this process has stored about itself.
    pub fn remove(&self, key: &Key) {
        self.handle.own_process().values().remove(key);
    }

    /// A Get of the server's own process: a value that it stored, a fact about it (`PMIX_PROCID`, `PMIX_HOSTNAME`,
    /// `PMIX_SERVER_URI`), or a value that a local client would find. Without a process it means the server's
    /// namespace. Without a key it means all values of the process, as an array. An unknown value fails at once.
    ///
    /// Fails with [`ServerError`].
    pub fn find(&self, proc: Option<ProcId>, key: Option<Key>, directives: Vec<Info>) -> Pending<Find> {
        Pending(Find { own: Arc::clone(self.handle.own_process()), request: FindRequest { proc, key, directives } })
    }

    /// Whether the server's own process has stored a value under a key.
    #[doc(hidden)]
    #[must_use]
    pub fn has_stored(&self, proc: &ProcId, key: &Key) -> bool {
        self.handle.own_process().values().has(proc, key)
    }

    /// A fence of the server's own process. Alone it succeeds at once. Other processes are in other jobs, so a fence
    /// with them is refused.
    ///
    /// Fails with [`RequestError`](crate::RequestError).
    pub fn fence(&self, options: &FenceOptions) -> Pending<RoundTrip<()>> {
        let FenceOptions { procs, directives } = options.clone();
        Pending(RoundTrip::new(self.target(), Request::Fence(Collective { procs, directives }), Ok(None), done))
    }

    /// Asks the host to end processes, on behalf of the server's own process.
    ///
    /// Fails with [`RequestError`](crate::RequestError).
    pub fn abort(&self, status: Status, message: &str, procs: Vec<ProcId>) -> Pending<RoundTrip<()>> {
        let message = Some(Text::from(message));
        Pending(RoundTrip::new(self.target(), Request::Abort(Abort { status, message, procs }), Ok(None), done))
    }
}

/// A Get of the server's own process, as an operation.
pub struct Find {
    own: Arc<OwnProcess>,
    request: FindRequest,
}

impl Sealed for Find {}

impl Operation for Find {
    type Output = Value;
    type Error = ServerError;

    fn run(self) -> Result<Value, ServerError> {
        self.own.find(self.request)?.map_err(|failure| refused(FINDING, failure))
    }

    fn run_with(self, callback: impl FnOnce(Result<Value, ServerError>) + Send + 'static) -> Result<(), ServerError> {
        let answer = |result: Result<Value, _>| callback(result.map_err(|failure| refused(FINDING, failure)));
        Ok(self.own.find_with(self.request, answer)?)
    }
}

const FINDING: &str = "find the value";

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::types::{AsStatus, Namespace};
    use crate::{Capabilities, Connect, GroupOperation, GroupRequest, Host, QueryInfo, Requester, Responder, keys};

    /// A host that answers every query at once with nothing, and gives each group the number 0.
    struct Answering;

    impl Host for Answering {
        fn capabilities(&self) -> Capabilities {
            Capabilities::QUERY | Capabilities::CONNECT | Capabilities::GROUP
        }

        fn query(&self, _: Requester, _: QueryInfo, reply: Responder<Vec<Info>>) {
            reply.succeed(Vec::new());
        }

        fn connect(&self, request: Connect, reply: Responder<()>) {
            if request.procs.is_empty() { reply.fail(Status::ERR_NOT_FOUND) } else { reply.succeed(()) }
        }

        fn group(&self, request: GroupRequest, reply: Responder<Vec<Info>>) {
            let number = Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), 0_u32);
            match request.operation {
                GroupOperation::Construct => reply.succeed(vec![number]),
                GroupOperation::Destruct => reply.succeed(Vec::new()),
            }
        }
    }

    fn server(directory: &std::path::Path) -> Server {
        Server::builder().hostname("n0").tmpdir(directory).start(Answering).unwrap()
    }

    fn outcome<T, E: AsStatus>(result: Result<T, E>) -> Status {
        result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
    }

    /// Regression: a host's function that looked for a value, or notified an event, and waited never returned. Its
    /// answer was queued on its own thread. The rule: the thread that has an answer gives it to a waiting caller.
    #[test]
    fn functions_that_wait_may_be_called_where_the_hosts_functions_run() {
        let directory = tempfile::tempdir().unwrap();
        let server = Arc::new(server(directory.path()));
        let (sender, receiver) = mpsc::channel();
        let there = Arc::clone(&server);
        let job = move || {
            let find = |key: &'static str| there.find(None, Some(Key::from_static(key)), Vec::new()).wait();
            let mut statuses = vec![outcome(find(keys::PROCID.name())), outcome(find("not.there"))];
            let id = there.register_event_handler(&[Status::MODEL_DECLARED], &[], drop).wait().unwrap();
            there.deregister_event_handler(id).wait().unwrap();
            statuses.push(outcome(there.notify_event(Status::MODEL_DECLARED, None, 2, &[]).wait()));
            statuses.push(outcome(there.query(Vec::new()).wait()));
            statuses.push(outcome(there.fence(&FenceOptions::new()).wait()));
            let job = Namespace::new("job").unwrap();
            assert!(there.resolve_peers(None, Some(&job)).wait().is_err(), "there is no such job");
            sender.send(statuses).unwrap();
        };
        server.defer(job).unwrap();
        let success = Status::SUCCESS;
        assert_eq!(receiver.recv().unwrap(), [success, Status::ERR_NOT_FOUND, success, success, success]);
    }

    #[test]
    fn groups_and_connections_of_the_servers_own_process_are_the_hosts() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path());
        let me = vec![server.proc().clone()];
        let formed = server.group_construct("g", me.clone(), Vec::new()).wait().unwrap();
        assert_eq!((formed.status, formed.results.members), (Status::SUCCESS, me.clone()));
        assert_eq!((formed.results.context_id, formed.results.info.len()), (Some(0), 1));
        assert_eq!(outcome(server.group_destruct("g", Vec::new()).wait()), Status::SUCCESS);
        assert_eq!(outcome(server.connect_processes(me.clone(), Vec::new()).wait()), Status::SUCCESS);
        assert_eq!(outcome(server.connect_processes(Vec::new(), Vec::new()).wait()), Status::ERR_NOT_FOUND);
        assert_eq!(outcome(server.disconnect_processes(me, Vec::new()).wait()), Status::ERR_NOT_SUPPORTED);
        assert_eq!(outcome(server.abort(Status::ERROR, "", Vec::new()).wait()), Status::ERR_NOT_SUPPORTED);
        let other = ProcId::new(Namespace::new("job").unwrap(), 0);
        let refused = server.fence(&FenceOptions::new().procs(vec![other])).wait();
        assert_eq!(outcome(refused), Status::ERR_NOT_SUPPORTED);
        assert_eq!(outcome(server.resolve_nodes(None).wait()), Status::ERR_NOT_SUPPORTED);
    }

    /// Regression: after the end of the server, callbacks ran inside `then`. The rule: `then` fails instead.
    #[test]
    fn an_ended_server_begins_no_request_of_its_own_process() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path());
        let fence = server.fence(&FenceOptions::new());
        let job = Namespace::new("job").unwrap();
        let nodes = server.resolve_nodes(Some(&job));
        server.shutdown();
        let refusal = |begun: Result<(), crate::RequestError>| begun.unwrap_err().status();
        assert_eq!(refusal(fence.then(|_| panic!("there is no thread for callbacks"))), Status::ERR_INIT);
        assert_eq!(refusal(nodes.then(|_| panic!("there is no thread for callbacks"))), Status::ERR_INIT);
    }

    #[test]
    fn own_values_come_first_and_answer_a_get_of_all_values() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path());
        let me = server.proc().clone();
        let find = |key: &'static str| server.find(None, Some(Key::from_static(key)), Vec::new()).wait();
        assert_eq!(find(keys::HOSTNAME.name()).unwrap(), Value::from("n0"));
        server.store_internal(&me, Key::from_static(keys::HOSTNAME.name()), "other").unwrap();
        assert_eq!(find(keys::HOSTNAME.name()).unwrap(), Value::from("other"));
        let all = server.find(Some(me.clone()), None, Vec::new()).wait().unwrap();
        assert_eq!(all, Value::info_array(vec![Info::new(Key::from_static(keys::HOSTNAME.name()), "other")]));
        let damaged = server.store_internal(&me, Key::from_static(keys::QUALIFIED_VALUE.name()), 1_u32);
        assert_eq!(damaged.unwrap_err().status(), Status::ERR_BAD_PARAM);
        let (sender, receiver) = mpsc::channel();
        let found = server.find(Some(me), Some(Key::from_static("not.there")), Vec::new());
        found.then(move |result| sender.send(outcome(result)).unwrap()).unwrap();
        assert_eq!(receiver.recv().unwrap(), Status::ERR_NOT_FOUND);
    }
}
