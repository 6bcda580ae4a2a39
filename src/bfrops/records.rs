//! The wire form of every composite type: its members in order, without counts or types of their own.

use std::marker::PhantomData;

use super::text::InfoKey;
use super::wire::{
    Byte, ByteObject, CompulsoryString, DataTypeNumber, Float, Int, Int16, Int32, Int64, Pid, Size, String, Uint16,
    Uint32, Uint64,
};
use super::{DecodeError, DecodeProblem, EncodeError, Encoding, Reader, Writer};
use crate::types::{
    App, Buffer, Coord, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, Key, Kval,
    Namespace, NetStats, NodePid, NodeStats, Pdata, ProcId, ProcInfo, ProcStats, Query, Rank, Regattr, Regex2,
    ResourceUnit, Timeval, Value,
};

macro_rules! records {
    ($($record:ident as $data_type:ident { $($field:ident: $encoding:ty),* $(,)? })*) => {
        $(impl Encoding for $record {
            type Value = Self;
            const TYPE: DataType = DataType::$data_type;

            fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
                $(<$encoding>::write(writer, &value.$field)?;)*
                Ok(())
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self {
                    $($field: {
                        reader.enter(concat!(stringify!($record), ".", stringify!($field)));
                        <$encoding>::read(reader)?
                    },)*
                })
            }
        })*
    };
}

records! {
    Timeval as Timeval { seconds: Int64, microseconds: Int64 }
    ProcId as Proc { namespace: Namespace, rank: Rank }
    App as App {
        command: String, argv: List<Int, CompulsoryString>, environment: List<Int32, CompulsoryString>,
        working_directory: String, processes_max: Int, info: List<Size, Info>,
    }
    Info as Info { key: InfoKey, flags: Uint32, value: Value }
    Pdata as Pdata { proc: ProcId, key: Key, value: Value }
    Buffer as Buffer { kind: Byte, bytes: ByteObject }
    Kval as Kval { key: Key, value: Value }
    ProcInfo as ProcInfo { proc: ProcId, hostname: String, executable: String, pid: Pid, state: Byte }
    Query as Query { keys: List<Int32, CompulsoryString>, qualifiers: List<Size, Info> }
    Envar as Envar { name: String, value: String, separator: Byte }
    Coord as Coord { view: Byte, positions: List<Size, Uint32> }
    Regattr as Regattr {
        name: String, key: CompulsoryString, data_type: DataTypeNumber, description: List<Int32, CompulsoryString>,
    }
    Geometry as Geometry { fabric: Size, uuid: String, os_name: String, coordinates: List<Size, Coord> }
    DeviceDistance as DeviceDistance {
        uuid: String, os_name: String, device_type: Uint64, minimum: Uint16, maximum: Uint16,
    }
    Endpoint as Endpoint { uuid: String, os_name: String, bytes: ByteObject }
    ProcStats as ProcStats {
        node: String, proc: ProcId, pid: Pid, command: String, state: Byte, time: Timeval, priority: Int32,
        threads: Int16, pss: Float, vsize: Float, rss: Float, processor: Int16, sample_time: Timeval,
    }
    DiskStats as DiskStats { disk: String, counters: Row<Uint64, 11> }
    NetStats as NetStats { interface: String, counters: Row<Uint64, 6> }
    NodeStats as NodeStats {
        node: String, figures: Row<Float, 11>, sample_time: Timeval, disks: List<Size, DiskStats>,
        interfaces: List<Size, NetStats>,
    }
    Device as Device { uuid: String, os_name: String, device_type: Uint64 }
    ResourceUnit as ResourceUnit { device_type: Uint64, count: Size }
    NodePid as NodePid { hostname: String, node_id: Uint32, pid: Pid }
    Regex2 as Regex2 { encoding: String, bytes: ByteObject }
}

/// A count of type `N`, then that many elements.
struct List<N, E>(PhantomData<(N, E)>);

impl<N: Encoding<Value: Copy + Into<i128> + TryFrom<usize>>, E: Encoding> Encoding for List<N, E> {
    type Value = Vec<E::Value>;
    const TYPE: DataType = E::TYPE;

    fn write(writer: &mut Writer, value: &Self::Value) -> Result<(), EncodeError> {
        let count = N::Value::try_from(value.len()).map_err(|_| EncodeError::CountTooLarge { count: value.len() })?;
        N::write(writer, &count)?;
        value.iter().try_for_each(|element| E::write(writer, element))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self::Value, DecodeError> {
        let count: i128 = N::read(reader)?.into();
        let declared = u64::try_from(count).map_err(|_| reader.error(DecodeProblem::ImpossibleCount { count }))?;
        let count = reader.count(declared)?;
        reader.list(count, E::read)
    }
}

/// A fixed number of elements without a count.
struct Row<E, const N: usize>(PhantomData<E>);

impl<E: Encoding<Value: Copy + Default>, const N: usize> Encoding for Row<E, N> {
    type Value = [E::Value; N];
    const TYPE: DataType = E::TYPE;

    fn write(writer: &mut Writer, value: &Self::Value) -> Result<(), EncodeError> {
        value.iter().try_for_each(|element| E::write(writer, element))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self::Value, DecodeError> {
        let mut row = [E::Value::default(); N];
        for element in &mut row {
            *element = E::read(reader)?;
        }
        Ok(row)
    }
}
