//! Output that other processes wrote, for handlers of this process.

use super::Session;
use crate::runtime::client::forwarding::OutputHandler;

impl Session {
    /// Opens a pull before its request is sent, and starts the reading of the socket. Returns the number for the
    /// request.
    ///
    /// # Errors
    /// No thread to run the handler could be started.
    pub fn open_pull(&self, handler: OutputHandler) -> std::io::Result<u64> {
        self.progress.begin(&self.link, |link| link.change(|state| state.pulls.insert(handler)))
    }

    /// Sets the handler of output without a pull, and starts the reading of the socket.
    ///
    /// # Errors
    /// As [`Session::open_pull`].
    pub fn take_output(&self, handler: OutputHandler) -> std::io::Result<()> {
        self.progress.begin(&self.link, |link| link.change(|state| state.pulls.default = Some(handler)))
    }

    /// Keeps the server's number of a pull. Returns whether the pull is open.
    pub fn confirm_pull(&self, id: u64, reference: u64) -> bool {
        self.link().with(|state| match state.pulls.open.get_mut(&id) {
            Some(pull) => {
                pull.reference = Some(reference);
                true
            }
            None => false,
        })
    }

    /// The owner has the number of a pull: output for it is handled from now on, in its order.
    pub fn release_pull(&self, id: u64) {
        self.link.change(|state| state.pulls.release(id).into_iter().for_each(|job| state.results.push(job)));
    }

    /// The server's number of a pull; `None` if the pull is not open, or if the server has not granted it.
    #[must_use]
    pub fn pull_reference(&self, id: u64) -> Option<u64> {
        self.link().with(|state| state.pulls.open.get(&id)?.reference)
    }

    /// Closes a pull. Output that still comes for it is discarded.
    pub fn close_pull(&self, id: u64) {
        drop(self.link().with(|state| state.pulls.open.remove(&id)));
    }
}
