use std::sync::mpsc;

use modex::Server;
use modex::proto::exchange::ExchangeForm;

use super::*;
use crate::server::upcall::{Bridge, ModuleHost};
use crate::types::{pmix_info_cbfunc_t, pmix_proc_t, pmix_query_t, pmix_server_module_t, pmix_status_t};

/// A host that answers every query at once with nothing.
unsafe extern "C" fn query(
    _: *mut pmix_proc_t,
    _: *mut pmix_query_t,
    _: usize,
    answer: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    // SAFETY: no infos, and the `cbdata` that came with the function.
    unsafe { answer.unwrap()(0, std::ptr::null_mut(), 0, cbdata, None, std::ptr::null_mut()) };
    0
}

fn own(directory: &std::path::Path) -> Own {
    let module = pmix_server_module_t { query: Some(query), ..Default::default() };
    let bridge = Arc::new(Bridge::new(module, ExchangeForm::default()));
    let server = Server::builder().tmpdir(directory).start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
    Own::new(Arc::new(ServerProcess::new(server, bridge, Arc::default())))
}

/// Regression: a host's function that looked for a value, or notified an event, and waited never returned. Its answer
/// was queued on its own thread. The rule: the thread that has an answer gives it to a waiting caller.
#[test]
fn functions_that_wait_may_be_called_where_the_hosts_functions_run() {
    let directory = tempfile::tempdir().unwrap();
    let own = Arc::new(own(directory.path()));
    let (sender, receiver) = mpsc::channel();
    let there = Arc::clone(&own);
    let job = move || {
        let mut statuses = Vec::new();
        for key in [keys::PROCID.name(), "not.there"] {
            let (done, value) = Done::waiter();
            there.get(None, Some(Key::from_static(key)), Vec::new(), done).unwrap();
            statuses.push(value.wait().map_or_else(|status| status, |_| Status::SUCCESS));
        }
        let (done, number) = Done::waiter();
        there.register_event_handler(&[Status::MODEL_DECLARED], &[], Box::new(drop), done).unwrap();
        let id = number.wait().unwrap();
        let (done, ended) = Done::waiter();
        there.deregister_event_handler(id, done).unwrap();
        ended.wait().unwrap();
        let notify = Operation::Notify { status: Status::MODEL_DECLARED, source: None, range: 2, info: Vec::new() };
        let query = Operation::from(modex::QueryInfo::new(Vec::new()));
        for operation in [notify, query, Operation::Fence { procs: Vec::new(), directives: Vec::new() }] {
            let (done, answer) = Done::waiter();
            there.perform(operation, done).unwrap();
            statuses.push(answer.wait().unwrap().status);
        }
        sender.send(statuses).unwrap();
    };
    own.defer(Box::new(job)).unwrap();
    let success = Status::SUCCESS;
    assert_eq!(receiver.recv().unwrap(), [success, Status::ERR_NOT_FOUND, success, success, success]);
}
