use super::{Codec, DecodeError, DecodeLimits, DecodeProblem};
use crate::types::{BARE_NESTING_MAX, DataType, Namespace, descend};

/// Takes pack operations from a message. Only this type compares a foreign length with the bytes available.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    /// The remaining bytes.
    bytes: &'a [u8],
    /// Bytes taken, counted from the start of the outermost message.
    position: usize,
    codec: Codec,
    limits: DecodeLimits,
    elements_left: usize,
    /// Memory of the entries of all lists, in bytes, without what they hold.
    listed_bytes: usize,
    /// Longest list that the message itself may have; lists inside its values count as elements alone.
    listed_max: usize,
    depth: u32,
    /// The innermost levels without an array between them.
    bare: u32,
    field: &'static str,
    /// The namespace read last: lists of processes repeat it, and copies of one name are cheap to make and compare.
    last_namespace: Option<Namespace>,
}

impl<'a> Reader<'a> {
    /// Begins to read a message.
    ///
    /// # Errors
    /// If the message is longer than the limit.
    pub fn new(message: &'a [u8], codec: Codec, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let reader = Self {
            bytes: message,
            position: 0,
            codec,
            limits: *limits,
            elements_left: limits.element_count_max,
            listed_bytes: 0,
            listed_max: usize::MAX,
            depth: 0,
            bare: 0,
            field: "message",
            last_namespace: None,
        };
        if message.len() > limits.message_bytes_max {
            let (size_bytes, limit) = (message.len(), limits.message_bytes_max);
            return Err(reader.error(DecodeProblem::MessageTooLong { size_bytes, limit }));
        }
        Ok(reader)
    }

    /// Bounds each list that follows.
    pub(crate) const fn bound_lists(&mut self, listed_max: usize) {
        self.listed_max = listed_max;
    }

    /// The encoding in use.
    #[must_use]
    #[inline]
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// The limits in use.
    #[must_use]
    pub const fn limits(&self) -> &DecodeLimits {
        &self.limits
    }

    /// Continues in another encoding: one message may hold data written by several servers.
    pub(crate) const fn switch_to(&mut self, codec: Codec) {
        self.codec = codec;
    }

    /// Bytes not yet read.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Whether everything has been read.
    #[must_use]
    #[inline]
    pub const fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads the bytes just taken as a message of their own. Its content counts against the same limits.
    ///
    /// # Errors
    /// The errors of `read`.
    #[inline]
    pub fn inside<'o, T>(
        &mut self,
        object: &'o [u8],
        codec: Codec,
        read: impl FnOnce(&mut Reader<'o>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let position = self.position.saturating_sub(object.len());
        let Self { limits, elements_left, listed_bytes, listed_max, depth, bare, field, .. } = *self;
        let bytes = object;
        let last_namespace = None;
        let mut inner = Reader {
            bytes,
            position,
            codec,
            limits,
            elements_left,
            listed_bytes,
            listed_max,
            depth,
            bare,
            field,
            last_namespace,
        };
        let outcome = read(&mut inner);
        (self.elements_left, self.listed_bytes) = (inner.elements_left, inner.listed_bytes);
        outcome
    }

    /// As [`Reader::inside`], with bytes of the message itself in its encoding: no new reader is set up.
    ///
    /// # Errors
    /// The errors of `read`.
    #[inline]
    pub fn within<T>(
        &mut self,
        object: &'a [u8],
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let (rest, end) = (std::mem::replace(&mut self.bytes, object), self.position);
        self.position = end.saturating_sub(object.len());
        let outcome = read(self);
        (self.bytes, self.position) = (rest, end);
        outcome
    }

    /// An error at this place.
    #[must_use]
    #[cold]
    pub fn error(&self, problem: impl Into<DecodeProblem>) -> DecodeError {
        DecodeError::new(self.field, self.position, problem.into())
    }

    /// A namespace by its name; reuses the last one if it is the same.
    pub(super) fn namespace(&mut self, name: &[u8]) -> Result<Namespace, DecodeError> {
        if let Some(last) = self.last_namespace.as_ref().filter(|last| last.as_str().as_bytes() == name)
            && !name.is_empty()
        {
            return Ok(last.clone());
        }
        let namespace = if self.is_in_value() { Namespace::in_value(name) } else { Namespace::from_bytes(name) };
        let namespace = namespace.map_err(|e| self.error(e))?;
        self.last_namespace = Some(namespace.clone());
        Ok(namespace)
    }

    /// Names the next field, for errors.
    #[inline]
    pub(crate) const fn enter(&mut self, field: &'static str) {
        self.field = field;
    }

    #[inline]
    pub(crate) fn take(&mut self, size_bytes: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(size_bytes) else {
            return Err(self.error(DecodeProblem::EndOfMessage { needed: size_bytes, left: self.bytes.len() }));
        };
        self.bytes = rest;
        self.position += size_bytes;
        Ok(taken)
    }

    /// Skips bytes already examined.
    #[inline(always)]
    pub(super) fn skip(&mut self, size_bytes: usize) {
        self.bytes = self.bytes.get(size_bytes..).unwrap_or_default();
        self.position += size_bytes;
    }

    #[inline]
    pub(crate) fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(self.error(DecodeProblem::EndOfMessage { needed: N, left: self.bytes.len() }));
        };
        self.bytes = rest;
        self.position += N;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.take_array::<1>().map(|[byte]| byte)
    }

    /// The bytes before the next NUL; takes the NUL, too.
    pub(crate) fn c_string(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        self.enter(field);
        let length = self.bytes.iter().position(|&byte| byte == 0);
        let text = self.take(length.ok_or_else(|| self.error(DecodeProblem::Unterminated))?)?;
        self.take(1)?;
        Ok(text)
    }

    /// The remaining bytes, without taking them.
    #[inline]
    pub(crate) const fn peek(&self) -> &'a [u8] {
        self.bytes
    }

    /// A length in bytes, at most the remaining ones.
    #[inline]
    pub(super) fn length(&self, declared: u64) -> Result<usize, DecodeError> {
        let left = self.bytes.len();
        match usize::try_from(declared) {
            Ok(length) if length <= left => Ok(length),
            Ok(needed) => Err(self.error(DecodeProblem::EndOfMessage { needed, left })),
            Err(_) => Err(self.error(DecodeProblem::ImpossibleCount { count: declared.into() })),
        }
    }

    /// The bound for strings.
    pub(super) fn string_length(&self, declared: u64) -> Result<usize, DecodeError> {
        let size_bytes = self.length(declared)?;
        let limit = self.limits.string_bytes_max;
        // The declared length counts the terminating NUL.
        if size_bytes > limit.saturating_add(1) {
            return Err(self.error(DecodeProblem::StringTooLong { size_bytes: size_bytes - 1, limit }));
        }
        Ok(size_bytes)
    }

    /// A number of elements of at least one byte each.
    pub(super) fn count(&self, declared: u64) -> Result<usize, DecodeError> {
        self.length(declared)
    }

    /// Reads `count` elements, which [`Reader::count`] has admitted. Memory follows the elements actually read: the
    /// first allocation is at most as large as the remaining bytes.
    pub(super) fn list<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.spend_elements(count)?;
        self.note_listed(count, size_of::<T>());
        let affordable = self.bytes.len() / size_of::<T>().max(1);
        let mut elements = Vec::with_capacity(count.min(affordable));
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    /// Whether the next field is part of a value.
    #[inline]
    pub(super) const fn is_in_value(&self) -> bool {
        self.depth > 0
    }

    /// Runs `read` one level deeper, for a value of this type.
    pub(super) fn deeper<T>(
        &mut self,
        data_type: DataType,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let bare = if data_type == DataType::DataArray { 0 } else { self.bare + 1 };
        for (found, limit) in [(self.depth + 1, self.limits.nesting_max), (bare, BARE_NESTING_MAX)] {
            if found > limit {
                return Err(self.error(DecodeProblem::TooDeep { limit }));
            }
        }
        let outer = (self.depth, std::mem::replace(&mut self.bare, bare));
        self.depth += 1;
        let outcome = descend(|| read(self));
        (self.depth, self.bare) = outer;
        outcome
    }

    pub(super) fn check_listed(&self, count: usize) -> Result<(), DecodeError> {
        let limit = self.listed_max;
        if count > limit { Err(self.error(DecodeProblem::ListTooLong { count, limit })) } else { Ok(()) }
    }

    pub(super) fn spend_elements(&mut self, count: usize) -> Result<(), DecodeError> {
        let limit = self.limits.element_count_max;
        self.elements_left = self
            .elements_left
            .checked_sub(count)
            .ok_or_else(|| self.error(DecodeProblem::TooManyElements { count, limit }))?;
        Ok(())
    }

    /// Notes the memory of `count` entries of this size.
    pub(super) const fn note_listed(&mut self, count: usize, size_bytes: usize) {
        self.listed_bytes = self.listed_bytes.saturating_add(count.saturating_mul(size_bytes));
    }

    /// Memory of the entries of all lists so far, in bytes, without what they hold.
    pub(crate) const fn listed_bytes(&self) -> usize {
        self.listed_bytes
    }

    #[inline]
    pub(super) fn require(&self, data_type: DataType) -> Result<(), DecodeError> {
        let generation = self.codec.generation;
        if self.codec.registers(data_type) {
            return Ok(());
        }
        Err(self.error(DecodeProblem::UnregisteredType { data_type, generation }))
    }
}
