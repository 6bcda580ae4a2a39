//! The parts of messages.
//!
//! A message type names its parts once, with [`layout!`]; packing and unpacking follow from that.

use std::marker::PhantomData;

use super::Version;
use super::fitting::pack_entry;
use crate::bfrops::wire::{ByteObject, Kval, Size};
use crate::bfrops::{Codec, DecodeError, EncodeError, Encoding, Generation, Reader, Writer};

/// One or more pack operations that form one part.
pub(super) trait Layout {
    type Value;

    fn pack(value: &Self::Value, writer: &mut Writer, peer: Version) -> Result<(), EncodeError>;

    /// Errors name the part `field`.
    fn unpack(reader: &mut Reader<'_>, field: &'static str, peer: Version) -> Result<Self::Value, DecodeError>;
}

/// One value.
pub(super) struct One<E>(PhantomData<E>);

/// One value, or the end of the message.
pub(super) struct IfPresent<E>(PhantomData<E>);

/// A count, then one operation with so many values, unless the count is 0.
pub(super) struct Many<E>(PhantomData<E>);

/// A count, then so many operations with one value each.
pub(super) struct Each<E>(PhantomData<E>);

/// Operations with one value each up to the end of the message.
pub(super) struct Rest<E>(PhantomData<E>);

/// One value; peers older than release 3.0 have none.
pub(super) struct SinceRelease3<E>(PhantomData<E>);

/// A part with types that older encodings lack. Our own servers read it in any encoding. A foreign server with an older
/// encoding refuses the request, because it lacks the request or the types.
pub(super) struct Newer<L>(PhantomData<L>);

/// Implements [`Layout`] for a message type: its fields in the order of the wire.
macro_rules! layout {
    ($($message:ident { $($field:ident: $part:ty),* $(,)? })*) => {
        $(impl $crate::proto::layout::Layout for $message {
            type Value = Self;

            fn pack(
                value: &Self,
                writer: &mut $crate::bfrops::Writer,
                peer: $crate::proto::Version,
            ) -> Result<(), $crate::bfrops::EncodeError> {
                $(<$part as $crate::proto::layout::Layout>::pack(&value.$field, writer, peer)?;)*
                Ok(())
            }

            fn unpack(
                reader: &mut $crate::bfrops::Reader<'_>,
                _field: &'static str,
                peer: $crate::proto::Version,
            ) -> Result<Self, $crate::bfrops::DecodeError> {
                Ok(Self {
                    $($field: {
                        let name = concat!(stringify!($message), ".", stringify!($field));
                        <$part as $crate::proto::layout::Layout>::unpack(reader, name, peer)?
                    },)*
                })
            }
        })*
    };
}
pub(super) use layout;

impl<E: Encoding> Layout for One<E> {
    type Value = E::Value;

    fn pack(value: &E::Value, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.pack::<E>(value)
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<E::Value, DecodeError> {
        reader.unpack::<E>(field)
    }
}

impl<E: Encoding> Layout for IfPresent<E> {
    type Value = Option<E::Value>;

    fn pack(value: &Option<E::Value>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        value.as_ref().map_or(Ok(()), |value| writer.pack::<E>(value))
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Option<E::Value>, DecodeError> {
        if reader.is_at_end() { Ok(None) } else { reader.unpack::<E>(field).map(Some) }
    }
}

impl<E: Encoding<Value: Copy + Default>> Layout for SinceRelease3<E> {
    type Value = Option<E::Value>;

    fn pack(value: &Option<E::Value>, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        if peer.major >= 3 { writer.pack::<E>(&value.unwrap_or_default()) } else { Ok(()) }
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, peer: Version) -> Result<Option<E::Value>, DecodeError> {
        if peer.major >= 3 { reader.unpack::<E>(field).map(Some) } else { Ok(None) }
    }
}

impl<L: Layout> Layout for Newer<L> {
    type Value = L::Value;

    fn pack(value: &L::Value, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        let codec = writer.codec();
        writer.switch_to(Codec { generation: Generation::V61, ..codec });
        let packed = L::pack(value, writer, peer);
        writer.switch_to(codec);
        packed
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, peer: Version) -> Result<L::Value, DecodeError> {
        let codec = reader.codec();
        reader.switch_to(Codec { generation: Generation::V61, ..codec });
        let unpacked = L::unpack(reader, field, peer);
        reader.switch_to(codec);
        unpacked
    }
}

impl<E: Encoding> Layout for Many<E> {
    type Value = Vec<E::Value>;

    fn pack(value: &Vec<E::Value>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.pack::<Size>(&count(value)?)?;
        if value.is_empty() { Ok(()) } else { writer.pack_all::<E>(value) }
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Vec<E::Value>, DecodeError> {
        match reader.unpack::<Size>(field)? {
            0 => Ok(Vec::new()),
            count => reader.unpack_all::<E>(field, count),
        }
    }
}

impl<E: Encoding> Layout for Each<E> {
    type Value = Vec<E::Value>;

    fn pack(value: &Vec<E::Value>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.pack::<Size>(&count(value)?)?;
        value.iter().try_for_each(|value| writer.pack::<E>(value))
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Vec<E::Value>, DecodeError> {
        let count = reader.unpack::<Size>(field)?;
        reader.unpack_each::<E>(field, count)
    }
}

impl<E: Encoding> Layout for Rest<E> {
    type Value = Vec<E::Value>;

    fn pack(value: &Vec<E::Value>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        value.iter().try_for_each(|value| writer.pack::<E>(value))
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Vec<E::Value>, DecodeError> {
        reader.unpack_rest::<E>(field)
    }
}

/// A byte object with a process's or job's name and then all entries about it, the usual form of bulk data.
pub(super) fn pack_entries_of<E: Encoding>(
    writer: &mut Writer,
    owner: &E::Value,
    entries: &[Kval],
) -> Result<(), EncodeError> {
    let mut object = Writer::new(writer.codec());
    object.pack::<E>(owner)?;
    entries.iter().try_for_each(|entry| pack_entry(&mut object, entry))?;
    writer.pack::<ByteObject>(&object.into_bytes())
}

/// A name and the entries about it.
pub(super) type EntriesOf<E> = (<E as Encoding>::Value, Vec<Kval>);

/// All such byte objects up to the end of the message.
pub(super) fn unpack_entries<E: Encoding>(
    reader: &mut Reader<'_>,
    field: &'static str,
) -> Result<Vec<EntriesOf<E>>, DecodeError> {
    let mut objects = Vec::new();
    while !reader.is_at_end() {
        let object = reader.unpack_object(field)?;
        let codec = reader.codec();
        objects.push(reader.inside(object, codec, |reader| {
            let owner = reader.unpack::<E>(field)?;
            Ok((owner, reader.unpack_rest::<Kval>(field)?))
        })?);
    }
    Ok(objects)
}

fn count<T>(values: &[T]) -> Result<u64, EncodeError> {
    u64::try_from(values.len()).map_err(|_| EncodeError::CountTooLarge { count: values.len() })
}
