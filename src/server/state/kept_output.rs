//! Output that nobody has pulled yet.

use std::collections::{BTreeMap, VecDeque};

use super::output_pull::{OutputPull, SourceChannel, size_bytes};
use crate::server::interface::{IofOutput, OutputSettings};
use crate::types::{Namespace, ProcId};

/// Kept output. Each source and channel has the bound that was asked for, and all together have another. If that is
/// reached, the user with the most gives way to users with less.
#[derive(Debug, Default)]
pub(crate) struct KeptOutput {
    channels: BTreeMap<SourceChannel, KeptChannel>,
    /// Memory of everything that is kept.
    size_bytes: usize,
    /// The same by the user of the job; `None`: unknown.
    of_user: BTreeMap<Option<u32>, usize>,
    /// Number of the last piece. Pieces of one source come out in their order.
    revision: u64,
}

/// Kept output of one source and channel.
#[derive(Debug, Default)]
struct KeptChannel {
    user: Option<u32>,
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

    /// Keeps output of a user's job. Returns whether any of it is kept, within `bytes_max` for all output together.
    /// Bytes beyond the bound of the settings are dropped as these say.
    pub(crate) fn keep(
        &mut self,
        mut output: IofOutput,
        user: Option<u32>,
        settings: &OutputSettings,
        bytes_max: usize,
    ) -> bool {
        let key = (output.source.clone(), output.channel);
        let mut channel = self.take_channel(&key).unwrap_or_default();
        channel.user = user;
        let drops_oldest = settings.drops_oldest == Some(true);
        let cache_bytes_max = settings.cache_bytes_max.unwrap_or(usize::MAX);
        let had_bytes = !output.bytes.is_empty();
        if drops_oldest {
            let surplus = output.bytes.len().saturating_sub(cache_bytes_max);
            output.bytes.drain(..surplus);
        } else {
            output.bytes.truncate(cache_bytes_max.saturating_sub(channel.output_bytes));
        }
        // A piece with infos may say that the channel is closed.
        let is_dropped = had_bytes && output.bytes.is_empty() && output.info.is_empty();
        let wanted_bytes = channel.size_bytes.saturating_add(size_bytes(&output)).min(bytes_max);
        if !is_dropped {
            self.make_room(user, wanted_bytes, bytes_max);
        }
        let room = bytes_max.checked_sub(self.size_bytes.saturating_add(size_bytes(&output)));
        // Nothing makes room for output that does not fit beside the other channels.
        if let Some(room) = room
            && drops_oldest
        {
            channel.keep_newest(cache_bytes_max.saturating_sub(output.bytes.len()));
            let surplus = channel.size_bytes.saturating_sub(room);
            channel.keep_newest(channel.output_bytes.saturating_sub(surplus));
        }
        let is_kept = !is_dropped && room.is_some_and(|room| channel.size_bytes <= room);
        if is_kept {
            self.revision = self.revision.saturating_add(1);
            let may_join = settings.cache_bytes_max.is_some() && channel.is_newest(self.channels_of(&output.source));
            channel.add(self.revision, output, may_join);
        }
        if !channel.pieces.is_empty() {
            self.put_channel(key, channel);
        }
        is_kept
    }

    fn take_channel(&mut self, key: &SourceChannel) -> Option<KeptChannel> {
        let channel = self.channels.remove(key)?;
        self.forget_size(&channel);
        Some(channel)
    }

    fn forget_size(&mut self, channel: &KeptChannel) {
        self.size_bytes = self.size_bytes.saturating_sub(channel.size_bytes);
        let of_user = self.of_user.entry(channel.user).or_default();
        *of_user = of_user.saturating_sub(channel.size_bytes);
        if *of_user == 0 {
            self.of_user.remove(&channel.user);
        }
    }

    fn put_channel(&mut self, key: SourceChannel, channel: KeptChannel) {
        self.size_bytes = self.size_bytes.saturating_add(channel.size_bytes);
        let of_user = self.of_user.entry(channel.user).or_default();
        *of_user = of_user.saturating_add(channel.size_bytes);
        self.channels.insert(key, channel);
    }

    /// Drops the newest output of users with more than this one, until there is room.
    fn make_room(&mut self, user: Option<u32>, wanted_bytes: usize, bytes_max: usize) {
        let own = self.of_user.get(&user).copied().unwrap_or_default().saturating_add(wanted_bytes);
        let surplus = |(other, size): (&Option<u32>, &usize)| if *other == user { 0 } else { size.saturating_sub(own) };
        let spare_bytes = self.of_user.iter().map(surplus).fold(0_usize, usize::saturating_add);
        if self.size_bytes.saturating_add(wanted_bytes) > bytes_max.saturating_add(spare_bytes) {
            return;
        }
        while self.size_bytes.saturating_add(wanted_bytes) > bytes_max {
            let others = self.of_user.iter().filter(|&(other, &size)| *other != user && size > own);
            let Some((&greedy, _)) = others.max_by_key(|&(_, &size)| size) else { return };
            let channels =
                self.channels.iter().filter(|(_, channel)| channel.user == greedy && channel.output_bytes > 0);
            let largest = channels.max_by_key(|(_, channel)| channel.output_bytes).map(|(key, _)| key.clone());
            let Some((key, mut channel)) = largest.and_then(|key| Some((key.clone(), self.take_channel(&key)?))) else {
                return;
            };
            tracing::info!(source = %key.0, "output that nobody has pulled is dropped, to keep another user's");
            channel.keep_oldest(channel.output_bytes / 2);
            if !channel.pieces.is_empty() {
                self.put_channel(key, channel);
            }
        }
    }

    fn channels_of(&self, source: &ProcId) -> impl Iterator<Item = &KeptChannel> {
        let keys = (source.clone(), u16::MIN)..=(source.clone(), u16::MAX);
        self.channels.range(keys).map(|(_, channel)| channel)
    }

    /// Takes the output that a pull wants, in its order. The settings for a job may allow less than was kept.
    pub(crate) fn take(
        &mut self,
        pull: &OutputPull,
        settings_of: impl Fn(&Namespace) -> OutputSettings,
    ) -> Vec<IofOutput> {
        let is_wanted = |(source, channel): &SourceChannel, _: &mut KeptChannel| pull.wants(source, *channel);
        let mut taken: Vec<KeptPiece> = Vec::new();
        let channels: Vec<(SourceChannel, KeptChannel)> = self.channels.extract_if(.., is_wanted).collect();
        for ((source, _), mut channel) in channels {
            self.forget_size(&channel);
            let settings = settings_of(&source.namespace);
            match (settings.cache_bytes_max, settings.drops_oldest) {
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
        let is_of_job = |(source, _): &SourceChannel, _: &mut KeptChannel| source.namespace == *namespace;
        let ended: Vec<(SourceChannel, KeptChannel)> = self.channels.extract_if(.., is_of_job).collect();
        ended.iter().for_each(|(_, channel)| self.forget_size(channel));
    }
}

impl KeptChannel {
    /// Whether other channels have no newer piece.
    fn is_newest<'a>(&self, mut others: impl Iterator<Item = &'a Self>) -> bool {
        let newest = |channel: &Self| channel.pieces.back().map(|piece| piece.revision);
        others.all(|other| newest(other) < newest(self))
    }

    /// Adds output. A small piece may join the last one, so that small pieces take no more memory than was asked for.
    fn add(&mut self, revision: u64, mut output: IofOutput, may_join: bool) {
        // A cut piece would hold the memory of the whole one.
        output.bytes.shrink_to_fit();
        self.output_bytes = self.output_bytes.saturating_add(output.bytes.len());
        if let Some(KeptPiece { output: last, revision: newest }) = self.pieces.back_mut()
            && may_join
            && last.info.is_empty()
            && output.info.is_empty()
            && last.bytes.is_empty() == output.bytes.is_empty()
            && last.bytes.len().saturating_add(output.bytes.len()) <= JOINED_BYTES_MAX
        {
            self.size_bytes = self.size_bytes.saturating_add(output.bytes.len());
            last.bytes.extend(output.bytes);
            *newest = revision;
        } else {
            self.size_bytes = self.size_bytes.saturating_add(size_bytes(&output));
            self.pieces.push_back(KeptPiece { revision, output });
        }
    }

    /// Drops the oldest bytes beyond a bound. Ends of the channel stay.
    fn keep_newest(&mut self, bytes_max: usize) {
        let surplus = self.output_bytes.saturating_sub(bytes_max);
        let mut rest = surplus;
        for KeptPiece { output, .. } in &mut self.pieces {
            let count = rest.min(output.bytes.len());
            output.bytes.drain(..count);
            output.bytes.shrink_to_fit();
            rest = rest.saturating_sub(count);
            if rest == 0 {
                break;
            }
        }
        self.count_dropped(surplus);
    }

    /// Drops the newest bytes beyond a bound. Ends of the channel stay.
    fn keep_oldest(&mut self, bytes_max: usize) {
        let surplus = self.output_bytes.saturating_sub(bytes_max);
        let mut rest = surplus;
        for KeptPiece { output, .. } in self.pieces.iter_mut().rev() {
            let count = rest.min(output.bytes.len());
            output.bytes.truncate(output.bytes.len().saturating_sub(count));
            output.bytes.shrink_to_fit();
            rest = rest.saturating_sub(count);
            if rest == 0 {
                break;
            }
        }
        self.count_dropped(surplus);
    }

    /// Counts dropped bytes, and removes the pieces that they left empty.
    fn count_dropped(&mut self, byte_count: usize) {
        if byte_count == 0 {
            return;
        }
        let piece_count = self.pieces.len();
        self.pieces.retain(|piece| !piece.output.bytes.is_empty() || !piece.output.info.is_empty());
        let records = piece_count.saturating_sub(self.pieces.len()).saturating_mul(size_of::<IofOutput>());
        self.output_bytes = self.output_bytes.saturating_sub(byte_count);
        self.size_bytes = self.size_bytes.saturating_sub(byte_count.saturating_add(records));
    }
}

/// Size up to which small pieces are joined.
const JOINED_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a cut piece held the memory of the whole one, so 1,000 sources with a bound of 100 bytes took 65 MB.
    #[test]
    fn a_cut_piece_takes_the_memory_of_its_rest() {
        let source = ProcId::new(Namespace::new("job").unwrap(), 0);
        for drops_oldest in [Some(true), None] {
            let settings = OutputSettings { cache_bytes_max: Some(5000), drops_oldest, ..OutputSettings::default() };
            let mut kept = KeptOutput::default();
            for _ in 0..3 {
                let output =
                    IofOutput { source: source.clone(), channel: 1, bytes: vec![b'x'; 60_000], info: Vec::new() };
                kept.keep(output, None, &settings, usize::MAX);
            }
            let pieces = kept.channels.values().flat_map(|channel| &channel.pieces);
            let (used, held) = pieces.fold((0, 0), |(used, held), KeptPiece { output, .. }| {
                (used + output.bytes.len(), held + output.bytes.capacity())
            });
            assert_eq!((used, held), (5000, 5000));
        }
    }
}
