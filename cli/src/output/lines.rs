//! The output of each rank as whole lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;

use modex::output::write_whole;
use modex::types::codes::iof_channel;
use modex::types::{Namespace, ProcId};
use modex::{Client, IofOutput};

use crate::printing;
use crate::run::LineBuffer;

/// The form of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Whether each line names its source.
    pub(super) is_tagged: bool,
    /// Whether lines of several sources must not mix.
    pub(super) is_whole: bool,
}

/// The outputs of all ranks.
#[derive(Debug)]
pub(super) struct Outputs {
    shown: Shown,
    /// The jobs that this command was started for. Other output is of jobs that they have spawned.
    jobs: BTreeSet<Namespace>,
    lines: BTreeMap<(ProcId, u16), LineBuffer>,
    /// The outputs that have not ended; `None`: unknown.
    open: Option<BTreeSet<(ProcId, u16)>>,
}

/// The channels of each rank.
const CHANNELS: [u16; 2] = [iof_channel::FWD_STDOUT_CHANNEL, iof_channel::FWD_STDERR_CHANNEL];

impl Outputs {
    /// The outputs of these jobs, or of these ranks of them if they are known.
    pub(super) fn new(shown: Shown, jobs: BTreeSet<Namespace>, sources: Option<Vec<ProcId>>) -> Self {
        let both = |proc: ProcId| CHANNELS.map(|channel| (proc.clone(), channel));
        let open = sources.map(|sources| sources.into_iter().flat_map(both).collect());
        Self { shown, jobs, lines: BTreeMap::new(), open }
    }

    /// Whether nothing more can come.
    pub(super) fn have_ended(&self) -> bool {
        self.open.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Shows a piece of output, or the end of one.
    pub(super) fn show(&mut self, output: &IofOutput) -> io::Result<()> {
        let source = (output.source.clone(), output.channel);
        let mut ready = Vec::new();
        let prefix = self.prefix(&source);
        if let Some(count) = missed_bytes(output) {
            if let Some(lines) = self.lines.get_mut(&source) {
                lines.finish(&prefix, &mut ready);
            }
            write(output.channel, &std::mem::take(&mut ready))?;
            let source = format!("{} of {}", channel_name(output.channel), output.source);
            printing::complain(&format!("{count} bytes of {source} are missing: they were not read in time"));
        }
        if output.bytes.is_empty() {
            if let Some(mut lines) = self.lines.remove(&source) {
                lines.finish(&prefix, &mut ready);
            }
            if let Some(open) = &mut self.open {
                open.remove(&source);
            }
            return write(output.channel, &ready);
        }
        let is_spawned = !self.jobs.contains(&output.source.namespace);
        if let Some(open) = self.open.as_mut().filter(|_| is_spawned) {
            open.insert(source.clone());
        }
        if self.shown.is_whole || self.shown.is_tagged || is_spawned {
            let lines = self.lines.entry(source).or_default();
            if prefix.is_empty() {
                let (earlier, lines) = lines.take_ready(&output.bytes);
                return write_parts(output.channel, [&earlier, lines]);
            }
            lines.feed(&output.bytes, &prefix, &mut ready);
            return write(output.channel, &ready);
        }
        write(output.channel, &output.bytes)
    }

    /// Shows lines that have no end.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        for (source, mut lines) in std::mem::take(&mut self.lines) {
            let mut ready = Vec::new();
            lines.finish(&self.prefix(&source), &mut ready);
            write(source.1, &ready)?;
        }
        Ok(())
    }

    fn prefix(&self, (source, channel): &(ProcId, u16)) -> Vec<u8> {
        if !self.shown.is_tagged {
            return Vec::new();
        }
        let (rank, channel) = (source.rank.process().unwrap_or_default(), channel_name(*channel));
        match self.jobs.contains(&source.namespace) {
            true => format!("[{rank},{channel}] ").into_bytes(),
            false => format!("[{} {rank},{channel}] ", source.namespace).into_bytes(),
        }
    }
}

/// The number of bytes that are missing before this piece.
fn missed_bytes(output: &IofOutput) -> Option<u64> {
    output.info.iter().find(|info| info.key.as_str() == Client::MISSED_OUTPUT)?.value.as_u64()
}

fn channel_name(channel: u16) -> &'static str {
    if channel == iof_channel::FWD_STDOUT_CHANNEL { "stdout" } else { "stderr" }
}

fn write(channel: u16, bytes: &[u8]) -> io::Result<()> {
    write_parts(channel, [bytes, &[]])
}

fn write_parts(channel: u16, parts: [&[u8]; 2]) -> io::Result<()> {
    if channel == iof_channel::FWD_STDOUT_CHANNEL {
        write_whole(io::stdout().as_fd(), parts)
    } else {
        write_whole(io::stderr().as_fd(), parts)
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Namespace;

    use super::*;

    #[test]
    fn the_end_comes_when_both_outputs_of_all_ranks_have_ended() {
        let proc = |rank: u32| ProcId::new(Namespace::new("a").unwrap(), rank);
        let shown = Shown { is_tagged: true, is_whole: true };
        let jobs = || BTreeSet::from([proc(0).namespace]);
        let mut outputs = Outputs::new(shown, jobs(), Some(vec![proc(0), proc(1)]));
        for (rank, channel) in [(0, 2), (0, 4), (1, 2), (1, 2), (7, 4), (1, 4)] {
            assert!(!outputs.have_ended());
            let end = IofOutput { source: proc(rank), channel, bytes: Vec::new(), info: Vec::new() };
            outputs.show(&end).unwrap();
        }
        assert!(outputs.have_ended());
        assert_eq!(outputs.prefix(&(proc(1), 4)), b"[1,stderr] ");
        assert!(!Outputs::new(shown, jobs(), None).have_ended());
    }

    /// A spawned job counts from its first output on.
    #[test]
    fn the_output_of_a_spawned_job_is_awaited_and_names_it() {
        let proc = |job: &str| ProcId::new(Namespace::new(job).unwrap(), 0);
        let shown = Shown { is_tagged: true, is_whole: false };
        let jobs = BTreeSet::from([proc("a").namespace]);
        let mut outputs = Outputs::new(shown, jobs, Some(vec![proc("a")]));
        let piece = |job: &str, channel, bytes: &[u8]| IofOutput {
            source: proc(job),
            channel,
            bytes: bytes.to_vec(),
            info: Vec::new(),
        };
        for (job, channel, bytes) in [("a-1", 2, b"x".as_slice()), ("a", 2, b""), ("a", 4, b""), ("a-1", 2, b"")] {
            assert!(!outputs.have_ended());
            outputs.show(&piece(job, channel, bytes)).unwrap();
        }
        assert!(outputs.have_ended());
        assert_eq!(outputs.prefix(&(proc("a-1"), 2)), b"[a-1 0,stdout] ");
    }
}
