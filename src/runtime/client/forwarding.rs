//! Forwarded output of other processes, and the functions of this process that take it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::proto::notification::{self, OutputHead};
use crate::server::IofOutput;

/// Takes forwarded output, on the progress thread.
pub type OutputHandler = Arc<dyn Fn(IofOutput) + Send + Sync>;

/// The takers of forwarded output, by this process's own numbers. Servers use 0 for output without a request.
#[derive(Default)]
pub(super) struct Pulls {
    last: u64,
    /// Takes output without a pull.
    pub(super) default: Option<OutputHandler>,
    pub(super) open: BTreeMap<u64, OutputSubscription>,
}

pub(super) struct OutputSubscription {
    handler: OutputHandler,
    /// The server's number, once it has given one.
    pub(super) reference: Option<u64>,
    /// Output that came before the owner had its number. `None`: the owner has it.
    held: Option<HeldOutput>,
}

/// Output that waits for the owner of its pull.
#[derive(Default)]
struct HeldOutput {
    jobs: Vec<OutputJob>,
    size_bytes: usize,
}

/// Passes a piece of output to its handler.
type OutputJob = Box<dyn FnOnce() + Send>;

impl Pulls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.default.is_none()
    }

    /// The job that passes a piece of output to its handler; `None`: the pull is closed, or its owner does not have its
    /// number yet.
    pub(super) fn job_for(&mut self, output: notification::OutputNotice) -> Option<OutputJob> {
        let notification::OutputNotice { head: OutputHead { source, channels, reference, info }, bytes } = output;
        if reference == NO_PULL {
            let handler = Arc::clone(self.default.as_ref()?);
            return Some(Box::new(move || handler(IofOutput { source, channel: channels, bytes, info })));
        }
        let pull = self.open.get_mut(&reference)?;
        let (handler, size_bytes) = (Arc::clone(&pull.handler), bytes.len().saturating_add(PIECE_BYTES));
        let job = Box::new(move || handler(IofOutput { source, channel: channels, bytes, info }));
        let Some(held) = &mut pull.held else { return Some(job) };
        held.size_bytes = held.size_bytes.saturating_add(size_bytes);
        if held.size_bytes > HELD_BYTES_MAX {
            tracing::warn!("output came long before the answer to its request; some is lost");
        } else {
            held.jobs.push(job);
        }
        None
    }

    pub(super) fn insert(&mut self, handler: OutputHandler) -> u64 {
        self.last += 1;
        let held = Some(HeldOutput::default());
        self.open.insert(self.last, OutputSubscription { handler, reference: None, held });
        self.last
    }

    /// The owner has the number of a pull. Returns the output that waited for this.
    pub(super) fn release(&mut self, id: u64) -> Vec<OutputJob> {
        let held = self.open.get_mut(&id).and_then(|pull| pull.held.take());
        held.map(|held| held.jobs).unwrap_or_default()
    }
}

/// The number of output without a pull.
const NO_PULL: u64 = 0;
/// Bound of the output that waits for one owner, in bytes.
const HELD_BYTES_MAX: usize = 16 << 20;
/// Memory of a piece beside its bytes, at most.
const PIECE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::types::{Namespace, ProcId};

    fn notice(reference: u64, bytes: &[u8]) -> notification::OutputNotice {
        let source = ProcId::new(Namespace::new("job").unwrap(), 0);
        let head = OutputHead { source, channels: 2, reference, info: Vec::new() };
        notification::OutputNotice { head, bytes: bytes.to_vec() }
    }

    /// Regression: output that was kept reached the handler before the callback that tells the number of its pull.
    #[test]
    fn output_waits_until_the_owner_has_the_number() {
        let (mut pulls, (sender, receiver)) = (Pulls::default(), mpsc::channel());
        let id = pulls.insert(Arc::new(move |output: IofOutput| sender.send(output.bytes).unwrap()));
        assert!(pulls.job_for(notice(id, b"one")).is_none() && pulls.job_for(notice(id + 1, b"other's")).is_none());
        assert!(pulls.job_for(notice(id, &vec![0; HELD_BYTES_MAX])).is_none(), "too much");
        pulls.release(id).into_iter().for_each(|job| job());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [b"one"]);
        pulls.job_for(notice(id, b"two")).unwrap()();
        assert_eq!(receiver.recv().unwrap(), b"two");
        assert!(pulls.release(id).is_empty());
    }
}
