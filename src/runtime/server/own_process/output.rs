//! Pulls of output by the server's own process.
//!
//! The host of the server delivers all output, so a pull needs nobody's consent. Pieces go to the handlers on the thread of the
//! host's functions, in the order of their delivery. A handler that does not keep up misses pieces beyond a bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::server::IofOutput;
use crate::types::codes::iof_channel;
use crate::types::{ProcId, Status};

/// Takes output.
pub(super) type OwnOutputHandler = Arc<dyn Fn(IofOutput) + Send + Sync>;

/// Limit of the pulls.
const PULLS_MAX: usize = 1024;

/// Limit of the output that waits for the handlers.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Share of a piece in that bound besides its bytes.
const PIECE_BYTES: usize = 256;

/// Channels of a process's output.
const OUTPUT_CHANNELS: u16 =
    iof_channel::FWD_STDOUT_CHANNEL | iof_channel::FWD_STDERR_CHANNEL | iof_channel::FWD_STDDIAG_CHANNEL;

/// The pulls.
#[derive(Default)]
pub(super) struct OwnPulls(Mutex<Pulls>);

#[derive(Default)]
struct Pulls {
    by_number: BTreeMap<u64, OwnPull>,
    last: u64,
    waiting_bytes: usize,
    /// Whether a line of the log says that output is lost.
    has_told_loss: bool,
}

struct OwnPull {
    procs: Vec<ProcId>,
    channels: u16,
    handler: OwnOutputHandler,
}

impl OwnPulls {
    /// Begins a pull of the output from now on.
    pub(super) fn begin(&self, procs: Vec<ProcId>, channels: u16, handler: OwnOutputHandler) -> Result<u64, Status> {
        if channels & iof_channel::FWD_STDIN_CHANNEL != 0 {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if procs.is_empty() || channels & OUTPUT_CHANNELS == 0 {
            return Err(Status::ERR_BAD_PARAM);
        }
        let mut pulls = self.0.lock();
        if pulls.by_number.len() >= PULLS_MAX {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        pulls.last += 1;
        let number = pulls.last;
        pulls.by_number.insert(number, OwnPull { procs, channels: channels & OUTPUT_CHANNELS, handler });
        Ok(number)
    }

    /// Ends a pull. Returns whether there was one.
    pub(super) fn end(&self, number: u64) -> bool {
        self.0.lock().by_number.remove(&number).is_some()
    }

    /// The numbers of the pulls that get a piece of output, if there is room for it.
    pub(super) fn admit(&self, output: &IofOutput) -> Vec<u64> {
        let mut pulls = self.0.lock();
        let wants = |pull: &OwnPull| {
            pull.channels & output.channel != 0 && pull.procs.iter().any(|proc| proc.covers(&output.source))
        };
        let takers: Vec<u64> =
            pulls.by_number.iter().filter(|(_, pull)| wants(pull)).map(|(number, _)| *number).collect();
        if takers.is_empty() {
            return takers;
        }
        // The end of a channel is not lost.
        let size = share_of(output);
        if pulls.waiting_bytes.saturating_add(size) > WAITING_BYTES_MAX && !output.bytes.is_empty() {
            if !std::mem::replace(&mut pulls.has_told_loss, true) {
                tracing::warn!("the handlers of this process do not keep up with pulled output; some of it is lost");
            }
            return Vec::new();
        }
        pulls.waiting_bytes = pulls.waiting_bytes.saturating_add(size);
        takers
    }

    /// Calls the handlers of pulls that have not ended since.
    pub(super) fn hand_over(&self, takers: &[u64], output: &IofOutput) {
        for number in takers {
            let handler = self.0.lock().by_number.get(number).map(|pull| Arc::clone(&pull.handler));
            if let Some(handler) = handler {
                handler(output.clone());
            }
        }
        let mut pulls = self.0.lock();
        pulls.waiting_bytes = pulls.waiting_bytes.saturating_sub(share_of(output));
    }
}

fn share_of(output: &IofOutput) -> usize {
    output.bytes.len().saturating_add(PIECE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Namespace, Rank};

    const OUT: u16 = iof_channel::FWD_STDOUT_CHANNEL;

    fn proc(rank: impl Into<Rank>) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn output(rank: u32, bytes: &[u8]) -> IofOutput {
        IofOutput { source: proc(rank), channel: OUT, bytes: bytes.to_vec(), info: Vec::new() }
    }

    /// Pulls, and the number of pieces that each handler has got.
    fn pulls(of: &[ProcId]) -> (OwnPulls, Vec<u64>, Arc<Mutex<Vec<usize>>>) {
        let (pulls, counts) = (OwnPulls::default(), Arc::new(Mutex::new(vec![0; of.len()])));
        let begin = |(at, proc): (usize, &ProcId)| {
            let counts = Arc::clone(&counts);
            pulls.begin(vec![proc.clone()], OUT, Arc::new(move |_| counts.lock()[at] += 1)).unwrap()
        };
        let numbers = of.iter().enumerate().map(begin).collect();
        (pulls, numbers, counts)
    }

    #[test]
    fn each_pull_gets_the_output_of_its_processes_until_its_end() {
        let (pulls, numbers, counts) = pulls(&[proc(0), proc(Rank::Wildcard), proc(1)]);
        let pass = |output: IofOutput| pulls.hand_over(&pulls.admit(&output), &output);
        pass(output(0, b"a"));
        pass(IofOutput { channel: iof_channel::FWD_STDERR_CHANNEL, ..output(0, b"a") });
        assert_eq!(*counts.lock(), [1, 1, 0]);
        assert_eq!([numbers[1], 99].map(|number| pulls.end(number)), [true, false]);
        pass(output(1, b"a"));
        assert_eq!(*counts.lock(), [1, 1, 1]);
        let refused = |procs, channels| pulls.begin(procs, channels, Arc::new(drop)).unwrap_err();
        assert_eq!(refused(vec![proc(0)], iof_channel::FWD_STDIN_CHANNEL), Status::ERR_NOT_SUPPORTED);
        assert_eq!([refused(vec![proc(0)], 0), refused(Vec::new(), OUT)], [Status::ERR_BAD_PARAM; 2]);
    }

    #[test]
    fn a_handler_that_does_not_keep_up_misses_output_but_no_end() {
        let (pulls, _, counts) = pulls(&[proc(0)]);
        let large = output(0, &vec![0; WAITING_BYTES_MAX - PIECE_BYTES]);
        let takers = pulls.admit(&large);
        assert_eq!((takers.len(), pulls.admit(&output(0, b"a")).len()), (1, 0));
        assert_eq!(pulls.admit(&output(0, b"")).len(), 1);
        pulls.hand_over(&takers, &large);
        assert_eq!(pulls.admit(&output(0, b"a")).len(), 1);
        assert_eq!(*counts.lock(), [1]);
    }
}
