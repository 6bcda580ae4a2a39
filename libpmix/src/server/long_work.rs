//! Work that may wait for other servers or for the machine. It has a thread, so no thread of the host waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use modex::runtime::spawn_thread;
use modex::types::Status;

use super::open_work::OnceCallback;
use super::state::ServerProcess;
use crate::guard::Failure;

/// Runs `work` on a thread of its own. `callback` gets the result on the thread of the host's functions. If the server
/// ends before, `callback` gets an error inside `PMIx_server_finalize`.
pub(super) fn perform_apart<R: Send + 'static>(
    process: Arc<ServerProcess>,
    name: &str,
    work: impl FnOnce(&ServerProcess) -> Result<R, Failure> + Send + 'static,
    callback: impl FnOnce(Result<R, Status>) + Send + 'static,
) -> Result<(), Failure> {
    let callback = Arc::new(OnceCallback::new(callback));
    let open = Arc::clone(&process.open_work);
    let at_end = Arc::clone(&callback);
    let number = open.add(move |status| at_end.call(Err(status)))?;
    let perform = {
        let open = Arc::clone(&open);
        move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&process))).unwrap_or(Err(Failure(Status::ERROR)));
            let result = result.map_err(|Failure(status)| status);
            // A server that has ended runs the callback itself.
            let _ = process.server().defer(move || {
                callback.call(result);
                open.remove(number);
            });
        }
    };
    spawn_thread(name, perform).map(drop).map_err(|_| {
        open.remove(number);
        Failure(Status::ERR_OUT_OF_RESOURCE)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use modex::proto::exchange::ExchangeForm;
    use modex::{LocalHost, Server};

    use super::*;
    use crate::server::upcall::Bridge;
    use crate::topology::HostTopology;
    use crate::types::pmix_server_module_t;

    fn process_at(directory: &std::path::Path) -> Arc<ServerProcess> {
        let server = Server::builder().tmpdir(directory).start(LocalHost).unwrap();
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        Arc::new(ServerProcess::new(server, bridge, Arc::new(HostTopology::default())))
    }

    /// Regression: the callback ran behind `PMIx_server_finalize`, when its caller had freed its data.
    #[test]
    fn work_that_the_end_of_the_server_overtakes_has_its_callback_before() {
        let directory = tempfile::tempdir().unwrap();
        let process = process_at(directory.path());
        let (release, held) = mpsc::channel::<()>();
        let (sender, results) = mpsc::channel();
        let (others, late) = (sender.clone(), sender.clone());
        let at_once = |_: &ServerProcess| Ok(1);
        perform_apart(Arc::clone(&process), "test", at_once, move |result| others.send(result).unwrap()).unwrap();
        assert_eq!(results.recv(), Ok(Ok(1)));
        let work = move |_: &ServerProcess| {
            let _ = held.recv();
            Ok(2)
        };
        perform_apart(Arc::clone(&process), "test", work, move |result| sender.send(result).unwrap()).unwrap();
        process.server().close(std::time::Duration::from_secs(1));
        process.open_work.end();
        assert_eq!(results.try_recv(), Ok(Err(Status::ERR_UNREACH)));
        let refused = perform_apart(process, "test", at_once, move |result| late.send(result).unwrap());
        assert!(matches!(refused, Err(Failure(Status::ERR_INIT))));
        // Each callback runs once: the senders end without a further result.
        drop(release);
        assert_eq!(results.recv(), Err(mpsc::RecvError));
    }

    #[test]
    fn a_panic_of_the_work_is_an_error_for_the_callback() {
        let directory = tempfile::tempdir().unwrap();
        let process = process_at(directory.path());
        let (sender, results) = mpsc::channel();
        let work = |_: &ServerProcess| -> Result<u32, Failure> { panic!("a defect") };
        perform_apart(process, "test", work, move |result| sender.send(result).unwrap()).unwrap();
        assert_eq!(results.recv(), Ok(Err(Status::ERROR)));
    }
}
