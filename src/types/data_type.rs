/// Declares the enum, the border conversions and the standard's names from one table.
macro_rules! data_types {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        /// The type of a value, with the standard's number.
        ///
        /// Source: PMIx Standard, "Data Structures and Types" (`pmix_data_type_t`); all OpenPMIx releases use the same
        /// numbers.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
        )]
        #[repr(u16)]
        pub enum DataType {
            $($(#[$doc])* $variant = $code,)*
        }

        impl DataType {
            /// Every type, in the order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Reads the standard's number; `None` for an unknown one.
            #[must_use]
            #[inline]
            pub const fn from_raw(raw: u16) -> Option<Self> {
                match raw {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The standard's number.
            #[must_use]
            pub const fn to_raw(self) -> u16 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// The standard's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

data_types! {
    /// No value.
    Undefined = 0, "PMIX_UNDEF";
    /// True or false.
    Bool = 1, "PMIX_BOOL";
    /// One byte.
    Byte = 2, "PMIX_BYTE";
    /// A NUL-terminated string.
    String = 3, "PMIX_STRING";
    /// `size_t`.
    Size = 4, "PMIX_SIZE";
    /// `pid_t`.
    Pid = 5, "PMIX_PID";
    /// `int`.
    Int = 6, "PMIX_INT";
    /// `int8_t`.
    Int8 = 7, "PMIX_INT8";
    /// `int16_t`.
    Int16 = 8, "PMIX_INT16";
    /// `int32_t`.
    Int32 = 9, "PMIX_INT32";
    /// `int64_t`.
    Int64 = 10, "PMIX_INT64";
    /// `unsigned int`.
    Uint = 11, "PMIX_UINT";
    /// `uint8_t`.
    Uint8 = 12, "PMIX_UINT8";
    /// `uint16_t`.
    Uint16 = 13, "PMIX_UINT16";
    /// `uint32_t`.
    Uint32 = 14, "PMIX_UINT32";
    /// `uint64_t`.
    Uint64 = 15, "PMIX_UINT64";
    /// `float`.
    Float = 16, "PMIX_FLOAT";
    /// `double`.
    Double = 17, "PMIX_DOUBLE";
    /// `struct timeval`.
    Timeval = 18, "PMIX_TIMEVAL";
    /// `time_t`.
    Time = 19, "PMIX_TIME";
    /// A status code.
    Status = 20, "PMIX_STATUS";
    /// A value with its type.
    Value = 21, "PMIX_VALUE";
    /// Namespace and rank.
    Proc = 22, "PMIX_PROC";
    /// One application of a spawn request.
    App = 23, "PMIX_APP";
    /// Key, flags and value.
    Info = 24, "PMIX_INFO";
    /// Published data: process, key and value.
    Pdata = 25, "PMIX_PDATA";
    /// A packed buffer.
    Buffer = 26, "PMIX_BUFFER";
    /// Opaque bytes with a length.
    ByteObject = 27, "PMIX_BYTE_OBJECT";
    /// Key and value.
    Kval = 28, "PMIX_KVAL";
    /// Lifetime of published data.
    Persistence = 30, "PMIX_PERSIST";
    /// A pointer: meaningful in its own process only.
    Pointer = 31, "PMIX_POINTER";
    /// Visibility of a put value.
    Scope = 32, "PMIX_SCOPE";
    /// Audience of an operation.
    DataRange = 33, "PMIX_DATA_RANGE";
    /// A command of the wire protocol.
    Command = 34, "PMIX_COMMAND";
    /// Flags of an info entry.
    InfoDirectives = 35, "PMIX_INFO_DIRECTIVES";
    /// A type's number.
    DataType = 36, "PMIX_DATA_TYPE";
    /// State of a process.
    ProcState = 37, "PMIX_PROC_STATE";
    /// Description of a process.
    ProcInfo = 38, "PMIX_PROC_INFO";
    /// An array of values of one type.
    DataArray = 39, "PMIX_DATA_ARRAY";
    /// A rank.
    ProcRank = 40, "PMIX_PROC_RANK";
    /// A query: keys and qualifiers.
    Query = 41, "PMIX_QUERY";
    /// A string, deflated.
    CompressedString = 42, "PMIX_COMPRESSED_STRING";
    /// Action on an allocation.
    AllocDirective = 43, "PMIX_ALLOC_DIRECTIVE";
    /// Set of forwarded channels.
    IofChannel = 45, "PMIX_IOF_CHANNEL";
    /// Environment variable with its separator.
    Envar = 46, "PMIX_ENVAR";
    /// Fabric coordinate.
    Coord = 47, "PMIX_COORD";
    /// Description of a supported attribute.
    Regattr = 48, "PMIX_REGATTR";
    /// Node or process map expression.
    Regex = 49, "PMIX_REGEX";
    /// State of a job.
    JobState = 50, "PMIX_JOB_STATE";
    /// State of a link.
    LinkState = 51, "PMIX_LINK_STATE";
    /// Set of processors.
    ProcCpuset = 52, "PMIX_PROC_CPUSET";
    /// Fabric geometry.
    Geometry = 53, "PMIX_GEOMETRY";
    /// Distance to a device.
    DeviceDistance = 54, "PMIX_DEVICE_DIST";
    /// Fabric endpoint.
    Endpoint = 55, "PMIX_ENDPOINT";
    /// Hardware topology.
    Topology = 56, "PMIX_TOPO";
    /// Set of device types.
    DeviceType = 57, "PMIX_DEVTYPE";
    /// Set of shared localities.
    LocalityType = 58, "PMIX_LOCTYPE";
    /// Bytes, deflated.
    CompressedByteObject = 59, "PMIX_COMPRESSED_BYTE_OBJECT";
    /// A namespace.
    ProcNamespace = 60, "PMIX_PROC_NSPACE";
    /// Process statistics.
    ProcStats = 61, "PMIX_PROC_STATS";
    /// Disk statistics.
    DiskStats = 62, "PMIX_DISK_STATS";
    /// Network statistics.
    NetStats = 63, "PMIX_NET_STATS";
    /// Node statistics.
    NodeStats = 64, "PMIX_NODE_STATS";
    /// A packed data buffer.
    DataBuffer = 65, "PMIX_DATA_BUFFER";
    /// Storage medium set.
    StorageMedium = 66, "PMIX_STOR_MEDIUM";
    /// Storage accessibility set.
    StorageAccess = 67, "PMIX_STOR_ACCESS";
    /// Storage persistence set.
    StoragePersistence = 68, "PMIX_STOR_PERSIST";
    /// Storage access type set.
    StorageAccessType = 69, "PMIX_STOR_ACCESS_TYPE";
    /// A device.
    Device = 70, "PMIX_DEVICE";
    /// Action on a resource block.
    ResblockDirective = 71, "PMIX_RESBLOCK_DIRECTIVE";
    /// A number of devices of a type.
    ResourceUnit = 72, "PMIX_RESOURCE_UNIT";
    /// A process by host and pid.
    NodePid = 73, "PMIX_NODE_PID";
    /// Typed map expression.
    Regex2 = 74, "PMIX_REGEX2";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_back() {
        for &data_type in DataType::ALL {
            assert_eq!(DataType::from_raw(data_type.to_raw()), Some(data_type));
        }
        assert_eq!(DataType::from_raw(29), None);
    }
}
