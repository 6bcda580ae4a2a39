/// Limits of a process's memory while it decodes a peer's bytes.
///
/// A count is accepted only if at least as many bytes are left, and memory grows with the elements actually read. The
/// smallest element takes one byte on the wire and up to some dozens in memory. So the number of elements of one
/// message has its own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest message in bytes, without its header. Release 6.1 accepts 32 MiB.
    pub message_bytes_max: usize,
    /// Longest string in bytes, without the terminating NUL.
    pub string_bytes_max: usize,
    /// Elements of all arrays of one message together.
    pub element_count_max: usize,
    /// Nesting depth of values. An array of infos takes two levels.
    pub nesting_max: u32,
}

impl DecodeLimits {
    /// Longest message in bytes unless configured otherwise.
    pub const MESSAGE_BYTES_MAX: usize = 32 << 20;
    /// Deepest value written, and deepest value read by default.
    pub const NESTING_MAX: u32 = crate::types::NESTING_MAX;

    /// For data that servers exchange through their hosts: 1 GiB of modex data of any number of processes. Hosts are
    /// trusted not to flood.
    pub const EXCHANGE: Self = Self {
        message_bytes_max: 1 << 30,
        string_bytes_max: Self::STRING_BYTES_MAX,
        element_count_max: usize::MAX,
        nesting_max: Self::NESTING_MAX,
    };

    /// The same for borrowed data, whose length needs no limit.
    pub const IN_PLACE: Self = Self { message_bytes_max: usize::MAX, ..Self::EXCHANGE };

    /// Longest string in bytes unless configured otherwise: a hardware topology of the largest machines takes a few
    /// MiB.
    const STRING_BYTES_MAX: usize = 16 << 20;
    /// Default limit of elements in a message. A message of the largest size fits fewer if each is a record and not a
    /// mere number.
    const ELEMENT_COUNT_MAX: usize = 2 << 20;
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: Self::MESSAGE_BYTES_MAX,
            string_bytes_max: Self::STRING_BYTES_MAX,
            element_count_max: Self::ELEMENT_COUNT_MAX,
            nesting_max: Self::NESTING_MAX,
        }
    }
}
