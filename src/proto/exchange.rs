//! Bytes that a host carries between the servers of a job, which servers of other libraries read, too.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use super::blob::{self, BlobError, Contributor, FenceBlock, LentBlock};
use crate::bfrops::{Codec, DecodeError, DecodeLimits, EncodeError, Generation};
use crate::types::{Kval, LentEntry, Namespace, ProcId, Rank, Status};

/// Readers of the data that servers exchange. All servers of a job write the same form, and read every form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExchangeForm {
    /// Servers of release 3.2: numbers of fixed width.
    Release3,
    /// Servers of the releases 4.0 to 5.0.
    #[default]
    Release4,
    /// Servers of the releases 6.0 and 6.1: another layout of fence data.
    Release6,
}

/// The requested exchange form does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no servers exchange data in the form of release {asked:?}; say 3, 4, 5 or 6, as the other servers of the job")]
pub struct ExchangeFormError {
    /// The requested form.
    pub asked: String,
}

/// Reason why a server's part of a fence can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A process's number counts from the sizes of the namespaces before its own. One of them is unknown.
    #[error("{proc} can't be numbered: the size of a namespace of the fence is not known; register it with its size")]
    Size {
        /// The process.
        proc: ProcId,
    },
    /// A value that the form can't carry.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl ExchangeError {
    /// The status for the participants of the fence.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Size { .. } => Status::ERR_BAD_PARAM,
            Self::Encode(_) => Status::ERR_PACK_FAILURE,
        }
    }
}

/// Data of one process.
pub type ProcessData = (ProcId, Vec<Kval>);

impl FromStr for ExchangeForm {
    type Err = ExchangeFormError;

    /// Reads the release of the other servers: its major number, with or without further numbers.
    fn from_str(asked: &str) -> Result<Self, ExchangeFormError> {
        match asked.split('.').next() {
            Some("3") => Ok(Self::Release3),
            Some("4" | "5") => Ok(Self::Release4),
            Some("6") => Ok(Self::Release6),
            _ => Err(ExchangeFormError { asked: asked.to_owned() }),
        }
    }
}

impl ExchangeForm {
    /// One server's part of a fence over these namespaces, given in the order and with the sizes of the upcall.
    ///
    /// # Errors
    /// [`ExchangeError`]
    pub fn pack_fence(
        self,
        data: Vec<ProcessData>,
        namespaces: &[(Namespace, Option<u32>)],
    ) -> Result<Vec<u8>, ExchangeError> {
        if self == Self::Release6 {
            return Ok(blob::encode_fence_of_release_6(&data, self.codec())?);
        }
        let number = |(proc, entries): ProcessData| match number_of(&proc, namespaces) {
            Some(number) => Ok((number, entries)),
            None => Err(ExchangeError::Size { proc }),
        };
        let blocks = data.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
        Ok(blob::encode_fence(&blocks, self.codec())?)
    }

    /// The answer to a request for a process's data.
    ///
    /// # Errors
    /// If the form can't carry a value.
    pub fn pack_direct_modex(self, entries: &[Kval]) -> Result<Vec<u8>, EncodeError> {
        blob::encode_direct_modex(entries, self.codec())
    }

    const fn codec(self) -> Codec {
        let generation = match self {
            Self::Release3 => Generation::V3,
            Self::Release4 => Generation::V41,
            Self::Release6 => Generation::V61,
        };
        Codec { generation, described: false }
    }
}

/// All servers' contributions to a fence over these namespaces, in any form. Data of other processes is left out.
///
/// # Errors
/// [`BlobError`] if a part is in no form.
pub fn unpack_fence(bytes: &[u8], namespaces: &[(Namespace, Option<u32>)]) -> Result<Vec<ProcessData>, BlobError> {
    let blocks = blob::decode_fence(bytes, &DecodeLimits::EXCHANGE)?;
    Ok(blocks.into_iter().filter_map(|block| named(block, namespaces)).collect())
}

/// Data of one process that another server has packed, in any form.
///
/// # Errors
/// [`DecodeError`] if the bytes are none.
pub fn unpack_direct_modex(bytes: &[u8]) -> Result<Vec<Kval>, DecodeError> {
    blob::decode_direct_modex(bytes, &DecodeLimits::EXCHANGE)
}

/// The process that data in a fence's result belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceSource<'a> {
    /// The job.
    pub namespace: &'a Namespace,
    /// The process.
    pub rank: u32,
    /// The last of its commits in the data, if its server sent it.
    pub commit: Option<u64>,
}

/// The packed contributions of all servers to a fence, for reading in place. Cheap to clone.
#[derive(Clone)]
pub struct PackedFence {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
}

impl PackedFence {
    /// Checks that all parts are complete. The bytes are dropped with the last clone.
    ///
    /// # Errors
    /// [`BlobError`] if there is anything but parts.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self, BlobError> {
        blob::check_frames(bytes.as_ref(), &DecodeLimits::IN_PLACE)?;
        Ok(Self { bytes: Arc::new(bytes) })
    }

    /// Gives out the data of processes of these namespaces, process by process, with borrowed values. `take` returns
    /// whether to go on.
    ///
    /// # Errors
    /// [`BlobError`] if a part is in no form. The parts before it were given out, and nothing of it, unless its bytes
    /// have changed during the read.
    pub fn read(
        &self,
        namespaces: &[(Namespace, Option<u32>)],
        take: &mut dyn FnMut(&FenceSource<'_>, &[LentEntry<'_>]) -> ControlFlow<()>,
    ) -> Result<(), BlobError> {
        blob::read_fence((*self.bytes).as_ref(), &DecodeLimits::IN_PLACE, &mut |block| {
            let LentBlock { contributor, commit, entries } = block;
            let (namespace, rank) = match contributor {
                Contributor::Relative(number) => match place_of(*number, namespaces) {
                    Some(place) => place,
                    None => return ControlFlow::Continue(()),
                },
                Contributor::Process(ProcId { namespace, rank: Rank::Process(rank) }) => (namespace, *rank),
                Contributor::Process(_) => return ControlFlow::Continue(()),
            };
            take(&FenceSource { namespace, rank, commit }, entries)
        })
    }
}

impl fmt::Debug for PackedFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedFence({} bytes)", (*self.bytes).as_ref().len())
    }
}

impl PartialEq for PackedFence {
    fn eq(&self, other: &Self) -> bool {
        (*self.bytes).as_ref() == (*other.bytes).as_ref()
    }
}

fn named(block: FenceBlock, namespaces: &[(Namespace, Option<u32>)]) -> Option<ProcessData> {
    let proc = match block.contributor {
        Contributor::Relative(number) => proc_of(number, namespaces)?,
        Contributor::Process(proc) => proc,
    };
    Some((proc, block.entries))
}

/// The sizes of the namespaces before a process's, plus its rank.
fn number_of(proc: &ProcId, namespaces: &[(Namespace, Option<u32>)]) -> Option<u32> {
    let mut first = 0_u32;
    for (namespace, size) in namespaces {
        if *namespace == proc.namespace {
            return first.checked_add(proc.rank.process()?);
        }
        first = first.checked_add((*size)?)?;
    }
    None
}

fn proc_of(number: u32, namespaces: &[(Namespace, Option<u32>)]) -> Option<ProcId> {
    place_of(number, namespaces).map(|(namespace, rank)| ProcId::new(namespace.clone(), rank))
}

fn place_of(number: u32, namespaces: &[(Namespace, Option<u32>)]) -> Option<(&Namespace, u32)> {
    let mut rest = number;
    let last = namespaces.len().checked_sub(1)?;
    for (index, (namespace, size)) in namespaces.iter().enumerate() {
        // No namespace follows the last, so its size does not matter.
        if index == last || size.is_some_and(|size| rest < size) {
            return Some((namespace, rest));
        }
        rest = rest.checked_sub((*size)?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::wire::ByteObject;
    use crate::bfrops::{Reader, Writer};
    use crate::types::{Key, Value};

    const FORMS: [ExchangeForm; 3] = [ExchangeForm::Release3, ExchangeForm::Release4, ExchangeForm::Release6];

    fn namespaces(sizes: &[(&str, Option<u32>)]) -> Vec<(Namespace, Option<u32>)> {
        sizes.iter().map(|(name, size)| (Namespace::new(name).unwrap(), *size)).collect()
    }

    fn proc(name: &str, rank: u32) -> ProcId {
        ProcId::new(Namespace::new(name).unwrap(), rank)
    }

    fn data(proc: ProcId, commit: u64) -> ProcessData {
        let entry = |key, value: Value| Kval { key: Key::from_static(key), value };
        (proc, vec![entry("k", "v".into()), entry("l", 1_u32.into()), entry("pmix.modex.commit", commit.into())])
    }

    #[test]
    fn numbers_go_on_where_the_namespace_before_ends() {
        let namespaces = namespaces(&[("a", Some(4)), ("b", None)]);
        for (proc, number) in [(proc("a", 3), 3), (proc("b", 0), 4), (proc("b", 9), 13)] {
            assert_eq!(number_of(&proc, &namespaces), Some(number));
            assert_eq!(proc_of(number, &namespaces), Some(proc));
        }
    }

    #[test]
    fn a_process_without_a_number_is_refused_unless_the_form_has_names() {
        let namespaces = namespaces(&[("a", None), ("b", None)]);
        for of in [proc("b", 0), proc("c", 0)] {
            for form in [ExchangeForm::Release3, ExchangeForm::Release4] {
                let packed = form.pack_fence(vec![data(of.clone(), 1)], &namespaces);
                assert_eq!(packed, Err(ExchangeError::Size { proc: of.clone() }));
            }
            let packed = ExchangeForm::Release6.pack_fence(vec![data(of.clone(), 1)], &namespaces).unwrap();
            assert_eq!(unpack_fence(&packed, &namespaces), Ok(vec![data(of, 1)]));
        }
        let unnumbered = ExchangeForm::Release4.pack_fence(vec![data(proc("a", 7), 1)], &namespaces).unwrap();
        assert_eq!(unpack_fence(&unnumbered, &namespaces), Ok(Vec::new()));
    }

    #[test]
    fn servers_of_all_releases_may_contribute_to_one_fence() {
        let namespaces = namespaces(&[("a", Some(2)), ("b", Some(9))]);
        let contributed = [data(proc("a", 1), 7), data(proc("b", 4), 8), data(proc("b", 5), 9)];
        let parts = FORMS
            .iter()
            .zip(&contributed)
            .map(|(form, data)| form.pack_fence(vec![data.clone()], &namespaces).unwrap());
        assert_eq!(unpack_fence(&parts.collect::<Vec<_>>().concat(), &namespaces), Ok(contributed.to_vec()));
    }

    /// Regression: servers of 4.2 and 5.0 failed the whole fence for a reserved key outside their dictionary. Clients
    /// would have seen any other key among their values. So a commit number is no entry on the wire.
    #[test]
    fn the_number_of_a_commit_is_read_by_us_and_no_entry_for_others() {
        let namespaces = namespaces(&[("a", Some(4))]);
        let both = vec![data(proc("a", 0), 3), data(proc("a", 1), 4)];
        for form in FORMS {
            for data in [both.clone(), both[..1].to_vec()] {
                let packed = form.pack_fence(data.clone(), &namespaces).unwrap();
                assert!(!packed.windows(10).any(|bytes| bytes == b"pmix.modex"), "{form:?}");
                assert_eq!(unpack_fence(&packed, &namespaces), Ok(data), "{form:?}");
            }
            let packed = form.pack_direct_modex(&both[0].1).unwrap();
            assert!(!packed.windows(10).any(|bytes| bytes == b"pmix.modex"), "{form:?}");
            assert_eq!(unpack_direct_modex(&packed), Ok(both[0].1.clone()), "{form:?}");
        }
    }

    /// Regression: a part of release 6 without processes was read in the older form, with data of rank 1. Its false
    /// flag passed for "nothing collected", its object for that of a process.
    #[test]
    fn a_server_that_contributes_nothing_contributes_nothing_in_any_form() {
        let namespaces = namespaces(&[("a", Some(4))]);
        for form in FORMS {
            let packed = form.pack_fence(Vec::new(), &namespaces).unwrap();
            assert_eq!(unpack_fence(&packed, &namespaces), Ok(Vec::new()), "{form:?}");
        }
    }

    #[test]
    fn of_damaged_data_nothing_is_given_out() {
        let namespaces = namespaces(&[("a", Some(64))]);
        for form in FORMS {
            let part = |rank: u32| form.pack_fence(vec![data(proc("a", rank), 1)], &namespaces).unwrap();
            let whole = [part(1), part(2), part(3)].concat();
            let mut found = Vec::new();
            let packed = PackedFence::new(whole.clone()).unwrap();
            let read = packed.read(&namespaces, &mut |source, entries| {
                let mut entries: Vec<Kval> = entries.iter().map(LentEntry::to_kval).collect();
                entries.push(Kval { key: Key::from_static("pmix.modex.commit"), value: source.commit.unwrap().into() });
                found.push((ProcId::new(source.namespace.clone(), source.rank), entries));
                ControlFlow::Continue(())
            });
            read.unwrap();
            assert_eq!(found, unpack_fence(&whole, &namespaces).unwrap(), "{form:?}");
            assert_eq!(found.len(), 3, "{form:?}");
            assert!(PackedFence::new(whole[..whole.len() - 1].to_vec()).is_err(), "{form:?}");
        }
    }

    /// Small parts are kept until their end was read; large ones are read twice.
    #[test]
    fn a_part_is_given_out_whole_or_not_at_all() {
        let namespaces = namespaces(&[("a", Some(64))]);
        for (form, size_bytes) in FORMS.into_iter().flat_map(|form| [(form, 9), (form, 3 << 20)]) {
            let large = Kval { key: Key::from_static("k"), value: Value::ByteObject(vec![7; size_bytes]) };
            let of = |rank| (proc("a", rank), vec![large.clone()]);
            let part = |ranks: &[u32]| form.pack_fence(ranks.iter().copied().map(of).collect(), &namespaces).unwrap();
            let read = |bytes: Vec<u8>| {
                let mut found = Vec::new();
                let outcome = PackedFence::new(bytes).unwrap().read(&namespaces, &mut |source, entries| {
                    let entries: Vec<Kval> = entries.iter().map(LentEntry::to_kval).collect();
                    assert_eq!(entries, std::slice::from_ref(&large), "{form:?}");
                    found.push(source.rank);
                    ControlFlow::Continue(())
                });
                (found, outcome.is_ok())
            };
            let parts = [part(&[1]), part(&[2, 3]), part(&[4])];
            assert_eq!(read(parts.concat()), (vec![1, 2, 3, 4], true), "{form:?}");
            let damaged = [part(&[1]), without_its_last_byte(&part(&[2, 3]), form.codec()), part(&[4])];
            assert_eq!(read(damaged.concat()), (vec![1], false), "{form:?}");
        }
    }

    /// A part with a complete frame and truncated content.
    fn without_its_last_byte(part: &[u8], codec: Codec) -> Vec<u8> {
        let content = Reader::new(part, codec, &DecodeLimits::IN_PLACE).unwrap().unpack_object("part").unwrap();
        let mut writer = Writer::new(codec);
        writer.pack::<ByteObject>(&content[..content.len() - 1].to_vec()).unwrap();
        writer.into_bytes()
    }

    /// As servers of 6.0 and 6.1 do; the earlier form has no place for it.
    #[test]
    fn data_that_shrinks_is_compressed_for_servers_of_release_6() {
        let namespaces = namespaces(&[("a", Some(64))]);
        let noise = |rank: u32| {
            let mut state = u64::from(rank) + 1;
            let bytes = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            });
            Value::ByteObject(bytes.take(1000).collect())
        };
        let of = |value: &dyn Fn(u32) -> Value| -> Vec<ProcessData> {
            let entry = |rank| Kval { key: Key::from_static("k"), value: value(rank) };
            (0..20).map(|rank| (proc("a", rank), vec![entry(rank)])).collect()
        };
        let plain = of(&|rank| Value::ByteObject(vec![rank.to_le_bytes()[0]; 1000]));
        for (data, shrinks) in [(plain, true), (of(&noise), false)] {
            for form in FORMS {
                let packed = form.pack_fence(data.clone(), &namespaces).unwrap();
                assert_eq!(packed.len() < 10_000, shrinks && form == ExchangeForm::Release6, "{form:?}");
                assert_eq!(unpack_fence(&packed, &namespaces), Ok(data.clone()), "{form:?}");
            }
        }
        let small = ExchangeForm::Release6.pack_fence(of(&|_| Value::from("same"))[..2].to_vec(), &namespaces).unwrap();
        assert_eq!(small.get(2..4), Some(&[2, 0][..]), "not compressed");
    }

    #[test]
    fn forms_are_named_by_releases() {
        let forms = ["3.2.5", "4", "5.0", "6"].map(|name| name.parse::<ExchangeForm>().unwrap());
        assert_eq!(forms, [FORMS[0], FORMS[1], FORMS[1], FORMS[2]]);
        for other in ["", "2", "v6", "7.0"] {
            assert_eq!(other.parse::<ExchangeForm>(), Err(ExchangeFormError { asked: other.to_owned() }));
        }
    }
}
