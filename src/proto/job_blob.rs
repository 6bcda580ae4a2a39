//! Packed parts of job information, byte objects within a reply: information about a process, and the ranks on each
//! node.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1, "REQ reply (job info)".

use super::Dialect;
use crate::bfrops::wire::{self, Size};
use crate::bfrops::{DecodeError, DecodeLimits, Reader};
use crate::types::{Kval, Rank, RankError, Text, Value};

/// A process and its entries (`pmix.pblob`).
///
/// # Errors
/// [`DecodeError`] if the bytes are invalid, or are about no process.
pub fn decode_process(blob: &[u8], dialect: Dialect) -> Result<(u32, Vec<Kval>), DecodeError> {
    let mut reader = Reader::new(blob, dialect.codec, &DecodeLimits::default())?;
    match reader.unpack::<Rank>("process blob rank")? {
        Rank::Process(rank) => Ok((rank, reader.unpack_rest::<wire::Kval>("process blob entry")?)),
        special => Err(reader.error(RankError { raw: special.to_raw() })),
    }
}

/// The nodes, and the ranks of each as a list with commas (`pmix.mblob`).
///
/// # Errors
/// [`DecodeError`] if the bytes are invalid.
pub fn decode_map(blob: &[u8], dialect: Dialect) -> Result<Vec<(Text, Text)>, DecodeError> {
    let mut reader = Reader::new(blob, dialect.codec, &DecodeLimits::default())?;
    let count = reader.unpack::<Size>("map blob node count")?;
    let nodes = reader.unpack_each::<wire::Kval>("map blob node", count)?;
    let pair = |node: Kval| match node.value {
        Value::String(ranks) => Some((Text::until_nul(node.key.as_str().as_bytes()), ranks)),
        _ => None,
    };
    Ok(nodes.into_iter().filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::Writer;
    use crate::types::Key;

    fn kval(key: &'static str, value: impl Into<Value>) -> Kval {
        Kval { key: Key::from_static(key), value: value.into() }
    }

    #[test]
    fn a_process_blob_of_4_2_2_is_read() {
        // From v4.2.2_full_init_to_finalize: rank 1.
        let blob = [
            &[0x02, 0x01][..],
            b"\x02\x16pmix.lrank\0\x0d\x01",
            b"\x02\x16pmix.grank\0\x28\x01",
            b"\x02\x16pmix.hname\0\x03\x0cnode0\0",
        ]
        .concat();
        let (rank, entries) = decode_process(&blob, Dialect::OWN).unwrap();
        let expected = [kval("pmix.lrank", 1_u16), kval("pmix.grank", Rank::Process(1)), kval("pmix.hname", "node0")];
        assert_eq!((rank, entries), (1, expected.to_vec()));
        assert!(decode_process(&blob[..blob.len() - 1], Dialect::OWN).is_err());
    }

    #[test]
    fn a_map_blob_names_the_ranks_of_each_node() {
        let mut writer = Writer::new(Dialect::OWN.codec);
        writer.pack::<Size>(&2).unwrap();
        for node in [kval("n0", "0,1"), kval("n1", "2")] {
            writer.pack::<wire::Kval>(&node).unwrap();
        }
        let nodes = decode_map(&writer.into_bytes(), Dialect::OWN).unwrap();
        assert_eq!(nodes, [("n0".into(), "0,1".into()), ("n1".into(), "2".into())]);
    }
}
