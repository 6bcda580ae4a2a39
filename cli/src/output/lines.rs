//! The output of each rank as whole lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use modex::types::ProcId;
use modex::types::codes::iof_channel;
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
    lines: BTreeMap<(ProcId, u16), LineBuffer>,
    /// The outputs that have not ended; `None`: unknown.
    open: Option<BTreeSet<(ProcId, u16)>>,
}

/// The channels of each rank.
const CHANNELS: [u16; 2] = [iof_channel::FWD_STDOUT_CHANNEL, iof_channel::FWD_STDERR_CHANNEL];

impl Outputs {
    /// The outputs of these ranks.
    pub(super) fn new(shown: Shown, sources: Option<Vec<ProcId>>) -> Self {
        let both = |proc: ProcId| CHANNELS.map(|channel| (proc.clone(), channel));
        let open = sources.map(|sources| sources.into_iter().flat_map(both).collect());
        Self { shown, lines: BTreeMap::new(), open }
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
        } else if self.shown.is_whole || self.shown.is_tagged {
            self.lines.entry(source).or_default().feed(&output.bytes, &prefix, &mut ready);
        } else {
            ready.extend_from_slice(&output.bytes);
        }
        write(output.channel, &ready)
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
        let rank = source.rank.process().unwrap_or_default();
        format!("[{rank},{}] ", channel_name(*channel)).into_bytes()
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
    if bytes.is_empty() {
        return Ok(());
    }
    if channel == iof_channel::FWD_STDOUT_CHANNEL {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    } else {
        io::stderr().lock().write_all(bytes)
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
        let mut outputs = Outputs::new(shown, Some(vec![proc(0), proc(1)]));
        for (rank, channel) in [(0, 2), (0, 4), (1, 2), (1, 2), (7, 4), (1, 4)] {
            assert!(!outputs.have_ended());
            let end = IofOutput { source: proc(rank), channel, bytes: Vec::new(), info: Vec::new() };
            outputs.show(&end).unwrap();
        }
        assert!(outputs.have_ended());
        assert_eq!(outputs.prefix(&(proc(1), 4)), b"[1,stderr] ");
        assert!(!Outputs::new(shown, None).have_ended());
    }
}
