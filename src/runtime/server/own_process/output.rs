//! The handlers of the server's own process for output that it pulls.
//!
//! The core decides about pulls and kept output, as for tools. Pieces go to the handlers on the thread of the host's
//! functions, in the order of their delivery. A handler that does not keep up misses pieces beyond a bound.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::server::{Forwarded, IofOutput};
use crate::types::footprint;

/// Takes output.
pub(super) type OwnOutputHandler = Arc<dyn Fn(IofOutput) + Send + Sync>;

/// Limit of the output that waits for the handlers.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Share of a piece in that bound besides its bytes and infos.
const PIECE_BYTES: usize = 256;

/// The handlers of the pulls.
#[derive(Default)]
pub(in crate::runtime::server) struct OwnPulls(Mutex<Pulls>);

#[derive(Default)]
struct Pulls {
    handlers: BTreeMap<u64, OwnOutputHandler>,
    last: u64,
    waiting_bytes: usize,
    /// Whether a line of the log says that output is lost.
    has_logged_loss: bool,
}

/// A piece of output for a handler.
#[derive(Debug)]
pub(in crate::runtime::server) struct Admitted {
    piece: Forwarded,
    /// Its share in the bound.
    size: usize,
}

impl OwnPulls {
    /// Adds the handler of a pull. Returns the number of the pull.
    pub(super) fn add(&self, handler: OwnOutputHandler) -> u64 {
        let mut pulls = self.0.lock();
        pulls.last += 1;
        let number = pulls.last;
        pulls.handlers.insert(number, handler);
        number
    }

    /// Drops the handler of a pull.
    pub(super) fn remove(&self, number: u64) {
        let handler = self.0.lock().handlers.remove(&number);
        // The handler's own code may run now, so the lock is not held.
        drop(handler);
    }

    /// Takes a piece of output for its handler, if there is room. `None`: the handler does not get it.
    pub(in crate::runtime::server) fn admit(&self, piece: Forwarded) -> Option<Admitted> {
        let mut pulls = self.0.lock();
        let size = share_of(&piece.output);
        let waiting_bytes = pulls.waiting_bytes.saturating_add(size);
        if waiting_bytes <= WAITING_BYTES_MAX {
            pulls.waiting_bytes = waiting_bytes;
            return Some(Admitted { piece, size });
        }
        let Forwarded { reference, output } = piece;
        if !output.bytes.is_empty() && !std::mem::replace(&mut pulls.has_logged_loss, true) {
            tracing::warn!("the handlers of this process do not keep up with pulled output; some of it is lost");
        }
        // The end of a channel is not lost.
        output.is_end().then(|| {
            let output = Arc::new(IofOutput::end(output.source.clone(), output.channel));
            pulls.waiting_bytes = pulls.waiting_bytes.saturating_add(PIECE_BYTES);
            Admitted { piece: Forwarded { reference, output }, size: PIECE_BYTES }
        })
    }

    /// Calls the handler, unless its pull has ended since. The panic hook reports the panic of a handler.
    pub(in crate::runtime::server) fn hand_over(&self, Admitted { piece, size }: Admitted) {
        let Forwarded { reference, output } = piece;
        let handler = self.0.lock().handlers.get(&reference).map(Arc::clone);
        if let Some(handler) = handler {
            let _ = catch_unwind(AssertUnwindSafe(|| handler(Arc::unwrap_or_clone(output))));
        }
        let mut pulls = self.0.lock();
        pulls.waiting_bytes = pulls.waiting_bytes.saturating_sub(size);
    }
}

fn share_of(output: &IofOutput) -> usize {
    let of_infos = output.info.iter().map(|info| footprint(&info.value).unwrap_or(usize::MAX));
    of_infos.fold(output.bytes.len().saturating_add(PIECE_BYTES), usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::codes::iof_channel;
    use crate::types::{Info, Key, Namespace, ProcId, Value};

    const OUT: u16 = iof_channel::FWD_STDOUT_CHANNEL;

    fn source() -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), 0)
    }

    fn output(bytes: &[u8]) -> IofOutput {
        IofOutput { source: source(), channel: OUT, bytes: bytes.to_vec(), info: Vec::new() }
    }

    /// Pulls, the number of one, and the number of pieces that its handler has got.
    fn pulls() -> (OwnPulls, u64, Arc<Mutex<usize>>) {
        let (pulls, count) = (OwnPulls::default(), Arc::new(Mutex::new(0)));
        let counted = Arc::clone(&count);
        let number = pulls.add(Arc::new(move |_| *counted.lock() += 1));
        (pulls, number, count)
    }

    fn admit(pulls: &OwnPulls, reference: u64, output: IofOutput) -> Option<Admitted> {
        pulls.admit(Forwarded { reference, output: Arc::new(output) })
    }

    #[test]
    fn a_handler_that_does_not_keep_up_misses_output_but_no_end() {
        let (pulls, number, count) = pulls();
        let large = admit(&pulls, number, output(&vec![0; WAITING_BYTES_MAX - PIECE_BYTES])).unwrap();
        assert!(admit(&pulls, number, output(b"a")).is_none());
        let end = Arc::new(IofOutput::end(source(), OUT));
        let late = IofOutput { info: end.info.clone(), ..output(b"a") };
        assert_eq!(admit(&pulls, number, late).unwrap().piece.output, end, "without its bytes");
        pulls.hand_over(large);
        assert!(admit(&pulls, number, output(b"a")).is_some());
        assert_eq!(*count.lock(), 1);
    }

    #[test]
    fn infos_have_their_share_in_the_bound() {
        let (pulls, number, _) = pulls();
        let info = vec![Info::new(Key::from_static("a"), Value::ByteObject(vec![0; WAITING_BYTES_MAX]))];
        assert!(admit(&pulls, number, IofOutput { info, ..output(b"a") }).is_none());
        assert!(admit(&pulls, number, output(b"a")).is_some());
    }

    /// Regression: the output for a handler that panics stayed in the bound, and later handlers missed it.
    #[test]
    fn a_handler_that_panics_holds_up_nobody() {
        let (pulls, number, count) = pulls();
        let panicking = pulls.add(Arc::new(|_| panic!("a test of a panic")));
        for number in [panicking, number] {
            let admitted = admit(&pulls, number, output(b"a")).unwrap();
            pulls.hand_over(admitted);
        }
        assert_eq!((*count.lock(), pulls.0.lock().waiting_bytes), (1, 0));
    }
}
