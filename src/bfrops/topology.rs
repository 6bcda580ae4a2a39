use super::wire::String;
use super::{DecodeError, EncodeError, Encoding, Reader, Writer};
use crate::types::DataType;

pub use crate::types::Topology;

/// The description is followed by the sender's hwloc support structures as they are in its memory, without a length.
/// Their size depends on the release of hwloc (31 to 33 bytes in hwloc 2). Every byte of them is a flag, and the next
/// pack operation or key begins with a greater byte. So the flags end at the first other byte. This is ambiguous only
/// in arrays of records that may begin with NULL, and no peer sends topologies there.
impl Encoding for Topology {
    type Value = Self;
    const TYPE: DataType = DataType::Topology;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        String::write(writer, &value.xml)?;
        if value.xml.is_some() {
            writer.raw(&value.support);
        }
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let xml = String::read(reader)?;
        if xml.is_none() {
            return Ok(Self { xml, support: Vec::new() });
        }
        let flag_count = reader.peek().iter().take(SUPPORT_BYTES_MAX).take_while(|&&byte| byte <= 1).count();
        Ok(Self { xml, support: reader.take(flag_count)?.to_vec() })
    }
}

/// Twice as many support flags as any release of hwloc has.
const SUPPORT_BYTES_MAX: usize = 64;
