//! The few numbers in the sender's byte order. Mostly both ends run on one node.

#[expect(clippy::host_endian_bytes, reason = "the wire form is the sender's memory")]
pub(super) const fn to_bytes(number: u32) -> [u8; 4] {
    number.to_ne_bytes()
}

#[expect(clippy::host_endian_bytes, reason = "the wire form is the sender's memory")]
pub(super) const fn from_bytes(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}
