//! Pulls of output by the server's own process.
//!
//! The host of the server delivers all output, so a pull needs nobody's consent. Pieces go to the handlers on the
//! thread of the host's functions, in the order of their delivery. A handler that does not keep up misses pieces beyond
//! a bound.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::server::{IofOutput, OUTPUT_CHANNELS, check_output};
use crate::types::codes::iof_channel;
use crate::types::{Namespace, ProcId, Status, footprint};

/// Takes output.
pub(super) type OwnOutputHandler = Arc<dyn Fn(IofOutput) + Send + Sync>;

/// Limit of the pulls.
const PULLS_MAX: usize = 1024;

/// Limit of the output that waits for the handlers.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Share of a piece in that bound besides its bytes and infos.
const PIECE_BYTES: usize = 256;

/// The pulls.
#[derive(Default)]
pub(super) struct OwnPulls(Mutex<Pulls>);

#[derive(Default)]
struct Pulls {
    by_number: BTreeMap<u64, OwnPull>,
    last: u64,
    waiting_bytes: usize,
    /// Whether a line of the log says that output is lost.
    has_logged_loss: bool,
}

struct OwnPull {
    procs: Vec<ProcId>,
    channels: u16,
    handler: OwnOutputHandler,
    /// Whether it gets output. A reserved pull has only its number.
    is_active: bool,
    /// The channels whose end it has got.
    ended: BTreeSet<(ProcId, u16)>,
}

impl OwnPull {
    fn wants(&self, output: &IofOutput) -> bool {
        self.is_active
            && self.channels & output.channel != 0
            && self.procs.iter().any(|proc| proc.covers(&output.source))
    }

    /// Remembers whether the channel of this output has ended. Returns whether the output only repeats the end.
    fn repeats_end(&mut self, output: &IofOutput) -> bool {
        let channel = (output.source.clone(), output.channel);
        if output.is_end() {
            return !self.ended.insert(channel) && output.bytes.is_empty();
        }
        // The process may have been started again.
        self.ended.remove(&channel);
        false
    }
}

/// A piece of output for the handlers.
#[derive(Debug)]
pub(super) struct Admitted {
    takers: Vec<u64>,
    output: Arc<IofOutput>,
    /// Its share in the bound.
    size: usize,
}

impl OwnPulls {
    /// Reserves the number of a pull. It gets no output yet.
    pub(super) fn reserve(&self, procs: Vec<ProcId>, channels: u16, handler: OwnOutputHandler) -> Result<u64, Status> {
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
        let channels = channels & OUTPUT_CHANNELS;
        pulls.by_number.insert(number, OwnPull { procs, channels, handler, is_active: false, ended: BTreeSet::new() });
        Ok(number)
    }

    /// Begins a reserved pull of the output from now on, unless it has ended.
    pub(super) fn begin(&self, number: u64) {
        if let Some(pull) = self.0.lock().by_number.get_mut(&number) {
            pull.is_active = true;
        }
    }

    /// Ends a pull. Returns whether there was one.
    pub(super) fn end(&self, number: u64) -> bool {
        self.0.lock().by_number.remove(&number).is_some()
    }

    /// Forgets the ends of an earlier job of this name.
    pub(super) fn begin_job(&self, namespace: &Namespace) {
        for pull in self.0.lock().by_number.values_mut() {
            pull.ended.retain(|(source, _)| source.namespace != *namespace);
        }
    }

    /// Takes a piece of output for the pulls that want it, if there is room. `None`: no handler gets it.
    pub(super) fn admit(&self, output: &Arc<IofOutput>) -> Option<Admitted> {
        // The core refuses it.
        if check_output(output).is_err() {
            return None;
        }
        let mut pulls = self.0.lock();
        let wanting = pulls.by_number.iter_mut().filter(|(_, pull)| pull.wants(output));
        let takers: Vec<u64> =
            wanting.filter_map(|(number, pull)| (!pull.repeats_end(output)).then_some(*number)).collect();
        if takers.is_empty() {
            return None;
        }
        let size = share_of(output);
        let waiting_bytes = pulls.waiting_bytes.saturating_add(size);
        if waiting_bytes <= WAITING_BYTES_MAX {
            pulls.waiting_bytes = waiting_bytes;
            return Some(Admitted { takers, output: Arc::clone(output).with_end(), size });
        }
        if !output.bytes.is_empty() && !std::mem::replace(&mut pulls.has_logged_loss, true) {
            tracing::warn!("the handlers of this process do not keep up with pulled output; some of it is lost");
        }
        // The end of a channel is not lost.
        output.is_end().then(|| {
            let end = Arc::new(IofOutput::end(output.source.clone(), output.channel));
            pulls.waiting_bytes = pulls.waiting_bytes.saturating_add(PIECE_BYTES);
            Admitted { takers, output: end, size: PIECE_BYTES }
        })
    }

    /// Calls the handlers of pulls that have not ended since. The panic hook reports the panic of a handler; the others
    /// get the output.
    pub(super) fn hand_over(&self, admitted: Admitted) {
        let Admitted { takers, output, size } = admitted;
        for number in takers {
            let handler = self.0.lock().by_number.get(&number).map(|pull| Arc::clone(&pull.handler));
            if let Some(handler) = handler {
                let _ = catch_unwind(AssertUnwindSafe(|| handler(IofOutput::clone(&output))));
            }
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
    use crate::types::{Info, InfoFlags, Key, Rank, Value};

    const OUT: u16 = iof_channel::FWD_STDOUT_CHANNEL;

    fn proc(rank: impl Into<Rank>) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn output(rank: u32, bytes: &[u8]) -> IofOutput {
        IofOutput { source: proc(rank), channel: OUT, bytes: bytes.to_vec(), info: Vec::new() }
    }

    fn begun(pulls: &OwnPulls, proc: &ProcId, handler: impl Fn(IofOutput) + Send + Sync + 'static) -> u64 {
        let number = pulls.reserve(vec![proc.clone()], OUT, Arc::new(handler)).unwrap();
        pulls.begin(number);
        number
    }

    fn admit(pulls: &OwnPulls, output: &IofOutput) -> Option<Admitted> {
        pulls.admit(&Arc::new(output.clone()))
    }

    fn pass(pulls: &OwnPulls, output: &IofOutput) {
        if let Some(admitted) = admit(pulls, output) {
            pulls.hand_over(admitted);
        }
    }

    /// Pulls, and the number of pieces that each handler has got.
    fn pulls(of: &[ProcId]) -> (OwnPulls, Vec<u64>, Arc<Mutex<Vec<usize>>>) {
        let (pulls, counts) = (OwnPulls::default(), Arc::new(Mutex::new(vec![0; of.len()])));
        let begin = |(at, proc): (usize, &ProcId)| {
            let counts = Arc::clone(&counts);
            begun(&pulls, proc, move |_| counts.lock()[at] += 1)
        };
        let numbers = of.iter().enumerate().map(begin).collect();
        (pulls, numbers, counts)
    }

    #[test]
    fn each_pull_gets_the_output_of_its_processes_until_its_end() {
        let (pulls, numbers, counts) = pulls(&[proc(0), proc(Rank::Wildcard), proc(1)]);
        let pass = |output: IofOutput| pass(&pulls, &output);
        pass(output(0, b"a"));
        pass(IofOutput { channel: iof_channel::FWD_STDERR_CHANNEL, ..output(0, b"a") });
        assert_eq!(*counts.lock(), [1, 1, 0]);
        assert_eq!([numbers[1], 99].map(|number| pulls.end(number)), [true, false]);
        pass(output(1, b"a"));
        assert_eq!(*counts.lock(), [1, 1, 1]);
        let refused = |procs, channels| pulls.reserve(procs, channels, Arc::new(drop)).unwrap_err();
        assert_eq!(refused(vec![proc(0)], iof_channel::FWD_STDIN_CHANNEL), Status::ERR_NOT_SUPPORTED);
        assert_eq!([refused(vec![proc(0)], 0), refused(Vec::new(), OUT)], [Status::ERR_BAD_PARAM; 2]);
    }

    #[test]
    fn a_handler_that_does_not_keep_up_misses_output_but_no_end() {
        let (pulls, _, counts) = pulls(&[proc(0)]);
        let large = admit(&pulls, &output(0, &vec![0; WAITING_BYTES_MAX - PIECE_BYTES])).unwrap();
        assert!(admit(&pulls, &output(0, b"a")).is_none());
        let ends = |output: IofOutput| admit(&pulls, &output).map(|admitted| admitted.output);
        let end = Arc::new(IofOutput::end(proc(0), OUT));
        assert_eq!(ends(output(0, b"")), Some(end.clone()));
        assert_eq!(ends(IofOutput { info: end.info.clone(), ..output(0, b"a") }), Some(end), "without its bytes");
        pulls.hand_over(large);
        assert!(admit(&pulls, &output(0, b"a")).is_some());
        assert_eq!(*counts.lock(), [1]);
    }

    #[test]
    fn infos_have_their_share_in_the_bound() {
        let (pulls, _, _) = pulls(&[proc(0)]);
        let info = vec![Info::new(Key::from_static("a"), Value::ByteObject(vec![0; WAITING_BYTES_MAX]))];
        assert!(admit(&pulls, &IofOutput { info, ..output(0, b"a") }).is_none());
        assert!(admit(&pulls, &output(0, b"a")).is_some());
    }

    /// Regression: the output for a handler that panics stayed in the bound, and later handlers missed it.
    #[test]
    fn a_handler_that_panics_holds_up_nobody() {
        let (pulls, counts) = (OwnPulls::default(), Arc::new(Mutex::new(0)));
        let count = Arc::clone(&counts);
        begun(&pulls, &proc(0), |_| panic!("a test of a panic"));
        begun(&pulls, &proc(0), move |_| *count.lock() += 1);
        pass(&pulls, &output(0, b"a"));
        assert_eq!((*counts.lock(), pulls.0.lock().waiting_bytes), (1, 0));
    }

    #[test]
    fn a_reserved_pull_gets_output_from_its_begin_on() {
        let pulls = OwnPulls::default();
        let number = pulls.reserve(vec![proc(0)], OUT, Arc::new(drop)).unwrap();
        assert!(admit(&pulls, &output(0, b"a")).is_none());
        pulls.begin(number);
        assert!(admit(&pulls, &output(0, b"a")).is_some());
        assert!(pulls.end(number));
        pulls.begin(number);
        assert!(admit(&pulls, &output(0, b"a")).is_none(), "it has ended");
    }

    /// Regression: the handlers got output that the core refused, and each repeated end.
    #[test]
    fn handlers_get_valid_output_and_each_end_once() {
        let (pulls, _, counts) = pulls(&[proc(Rank::Wildcard)]);
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static("a"), true) };
        pass(&pulls, &IofOutput { channel: OUT | iof_channel::FWD_STDERR_CHANNEL, ..output(0, b"a") });
        pass(&pulls, &IofOutput { info: vec![required], ..output(0, b"a") });
        assert_eq!(*counts.lock(), [0]);
        for (piece, count) in [(output(0, b""), 1), (output(0, b""), 1), (output(1, b""), 2), (output(0, b"a"), 3)] {
            pass(&pulls, &piece);
            assert_eq!(*counts.lock(), [count]);
        }
        pass(&pulls, &output(0, b""));
        assert_eq!(*counts.lock(), [4], "the process was started again");
        pulls.begin_job(&proc(0).namespace);
        pass(&pulls, &output(0, b""));
        assert_eq!(*counts.lock(), [5], "it is another job");
    }
}
