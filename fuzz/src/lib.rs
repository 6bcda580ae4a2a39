//! Common parts of the fuzz targets. A target reads its choices from the first bytes of its input, one byte each. So
//! seeds can be written by hand, and a mutation of one byte changes one choice.

pub mod description;
pub mod sample;

use modex::bfrops::{Codec, Generation};
use modex::proto::{Dialect, Version};

/// The encoding for a byte.
#[must_use]
pub fn codec(choice: u8) -> Codec {
    let generations = Generation::ALL;
    let generation = generations[usize::from(choice & 0x7f) % generations.len()];
    Codec { generation, described: choice & 0x80 != 0 }
}

/// The byte for an encoding; inverse of [`codec`].
#[must_use]
pub fn codec_choice(codec: Codec) -> u8 {
    let position = (0..5).find(|&choice| self::codec(choice).generation == codec.generation).unwrap_or_default();
    position | if codec.described { 0x80 } else { 0 }
}

/// Releases before and after every change of a layout.
pub const PEERS: [Version; 5] =
    [Version::new(2, 1, 0), Version::new(3, 2, 5), Version::new(4, 2, 2), Version::new(5, 0, 0), Version::new(6, 1, 1)];

/// Encoding and release for two bytes.
#[must_use]
pub fn dialect(codec_choice: u8, peer_choice: u8) -> Dialect {
    Dialect { codec: codec(codec_choice), peer: PEERS[usize::from(peer_choice) % PEERS.len()] }
}

/// An inventory with these records, and a matching header and checksum.
#[must_use]
pub fn signed_inventory(records: &[u8]) -> Vec<u8> {
    let length = u32::try_from(records.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut blob = [b"MDXI", &[1, 0, 0, 0][..], &length, records].concat();
    blob.extend(xxhash_rust::xxh3::xxh3_64(&blob).to_le_bytes());
    blob
}
