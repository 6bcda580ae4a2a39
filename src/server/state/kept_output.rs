//! Output that nobody has pulled yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::output_pull::{OutputPull, SourceChannel, size_bytes};
use crate::server::interface::{IofOutput, OutputSettings};
use crate::types::Namespace;

/// Kept output. Each source and channel has the bound that was asked for, and all together have another.
#[derive(Debug, Default)]
pub(crate) struct KeptOutput {
    channels: BTreeMap<SourceChannel, KeptChannel>,
    /// Memory of everything that is kept.
    size_bytes: usize,
    /// Number of the last piece. Pieces of several channels come out in their order.
    revision: u64,
}

/// Kept output of one source and channel.
#[derive(Debug, Default)]
struct KeptChannel {
    pieces: VecDeque<KeptPiece>,
    /// Bytes of output, without records.
    output_bytes: usize,
    /// Memory of the pieces.
    size_bytes: usize,
}

#[derive(Debug)]
struct KeptPiece {
    revision: u64,
    output: IofOutput,
}

impl KeptOutput {
    pub(crate) fn len(&self) -> usize {
        self.channels.values().map(|channel| channel.pieces.len()).sum()
    }

    /// Keeps output. Returns whether there was room, within `bytes_max` for all output together. Bytes beyond the bound of
    /// the settings are dropped as these say.
    pub(crate) fn keep(&mut self, mut output: IofOutput, settings: &OutputSettings, bytes_max: usize) -> bool {
        let key = (output.source.clone(), output.channel);
        let mut channel = self.channels.remove(&key).unwrap_or_default();
        self.size_bytes = self.size_bytes.saturating_sub(channel.size_bytes);
        let drops_oldest = settings.drops_oldest == Some(true);
        let mut is_dropped = false;
        if let Some(cache_bytes_max) = settings.cache_bytes_max {
            let had_bytes = !output.bytes.is_empty();
            if drops_oldest {
                let surplus = output.bytes.len().saturating_sub(cache_bytes_max);
                output.bytes.drain(..surplus);
                channel.keep_newest(cache_bytes_max.saturating_sub(output.bytes.len()));
            } else {
                output.bytes.truncate(cache_bytes_max.saturating_sub(channel.output_bytes));
            }
            // A piece with infos may say that the channel is closed.
            is_dropped = had_bytes && output.bytes.is_empty() && output.info.is_empty();
        }
        let room = bytes_max.checked_sub(self.size_bytes.saturating_add(size_bytes(&output)));
        if let Some(surplus) = room.and_then(|room| channel.size_bytes.checked_sub(room))
            && drops_oldest
        {
            channel.keep_newest(channel.output_bytes.saturating_sub(surplus));
        }
        let has_room = room.is_some_and(|room| channel.size_bytes <= room);
        if has_room && !is_dropped {
            self.revision = self.revision.saturating_add(1);
            channel.add(self.revision, output, settings.cache_bytes_max.is_some());
        }
        if !channel.pieces.is_empty() {
            self.size_bytes = self.size_bytes.saturating_add(channel.size_bytes);
            self.channels.insert(key, channel);
        }
        has_room
    }

    /// Takes the output that a pull wants, in its order. The pull may want less of each channel than was kept.
    pub(crate) fn take(&mut self, pull: &OutputPull) -> Vec<IofOutput> {
        let is_wanted = |(source, channel): &SourceChannel, _: &mut KeptChannel| pull.wants(source, *channel);
        let mut taken: Vec<KeptPiece> = Vec::new();
        for (_, mut channel) in self.channels.extract_if(.., is_wanted) {
            self.size_bytes = self.size_bytes.saturating_sub(channel.size_bytes);
            match (pull.settings.cache_bytes_max, pull.settings.drops_oldest) {
                (Some(bytes_max), Some(true)) => channel.keep_newest(bytes_max),
                (Some(bytes_max), _) => channel.keep_oldest(bytes_max),
                (None, _) => {}
            }
            taken.extend(channel.pieces);
        }
        taken.sort_by_key(|piece| piece.revision);
        taken.into_iter().map(|piece| piece.output).collect()
    }

    /// Drops the output of a deregistered job.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.channels.retain(|(source, _), _| source.namespace != *namespace);
        self.size_bytes = self.channels.values().map(|channel| channel.size_bytes).fold(0, usize::saturating_add);
    }
}

impl KeptChannel {
    /// Adds output. A small piece may join the last one, so that small pieces take no more memory than was asked for.
    fn add(&mut self, revision: u64, output: IofOutput, may_join: bool) {
        self.output_bytes = self.output_bytes.saturating_add(output.bytes.len());
        if let Some(KeptPiece { output: last, .. }) = self.pieces.back_mut()
            && may_join
            && last.info.is_empty()
            && output.info.is_empty()
            && last.bytes.is_empty() == output.bytes.is_empty()
            && last.bytes.len().saturating_add(output.bytes.len()) <= JOINED_BYTES_MAX
        {
            self.size_bytes = self.size_bytes.saturating_add(output.bytes.len());
            last.bytes.extend(output.bytes);
        } else {
            self.size_bytes = self.size_bytes.saturating_add(size_bytes(&output));
            self.pieces.push_back(KeptPiece { revision, output });
        }
    }

    /// Drops the oldest bytes beyond a bound. Ends of the channel stay.
    fn keep_newest(&mut self, bytes_max: usize) {
        self.drop_bytes(bytes_max, |bytes, count| drop(bytes.drain(..count)), |pieces| Box::new(pieces.iter_mut()));
    }

    /// As above, with the newest bytes.
    fn keep_oldest(&mut self, bytes_max: usize) {
        let cut = |bytes: &mut Vec<u8>, count| bytes.truncate(bytes.len().saturating_sub(count));
        self.drop_bytes(bytes_max, cut, |pieces| Box::new(pieces.iter_mut().rev()));
    }

    fn drop_bytes(
        &mut self,
        bytes_max: usize,
        cut: impl Fn(&mut Vec<u8>, usize),
        in_order: impl for<'a> Fn(&'a mut VecDeque<KeptPiece>) -> Box<dyn Iterator<Item = &'a mut KeptPiece> + 'a>,
    ) {
        let mut surplus = self.output_bytes.saturating_sub(bytes_max);
        if surplus == 0 {
            return;
        }
        self.output_bytes = self.output_bytes.saturating_sub(surplus);
        self.size_bytes = self.size_bytes.saturating_sub(surplus);
        let mut emptied = BTreeSet::new();
        for piece in in_order(&mut self.pieces) {
            let count = surplus.min(piece.output.bytes.len());
            cut(&mut piece.output.bytes, count);
            surplus = surplus.saturating_sub(count);
            if count > 0 && piece.output.bytes.is_empty() && piece.output.info.is_empty() {
                emptied.insert(piece.revision);
            }
            if surplus == 0 {
                break;
            }
        }
        self.size_bytes = self.size_bytes.saturating_sub(emptied.len().saturating_mul(size_of::<IofOutput>()));
        if !emptied.is_empty() {
            self.pieces.retain(|piece| !emptied.contains(&piece.revision));
        }
    }
}

/// Size up to which small pieces are joined.
const JOINED_BYTES_MAX: usize = 4096;
