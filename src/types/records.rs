//! Composite values. Field order follows the wire (see `bfrops`), which follows the C structures.

use super::{Info, Key, ProcId, Text, Value};

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
}

/// A record that holds values again, which needs `omit_bounds` on the recursive field for rkyv.
macro_rules! recursive_record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
        #[rkyv(
            serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source),
            deserialize_bounds(__D::Error: rkyv::rancor::Source),
            bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source))
        )]
        pub struct $name {
            $($(#[$field_doc])* #[rkyv(omit_bounds)] pub $field: $type,)*
        }
    };
}

record! {
    /// Seconds and microseconds.
    Timeval {
        /// Whole seconds.
        seconds: i64,
        /// Microseconds.
        microseconds: i64,
    }
}
recursive_record! {
    /// One application of a spawn request.
    App {
        /// Program; `None` is a NULL pointer.
        command: Option<Text>,
        /// Arguments, with the program's name first.
        argv: Vec<Text>,
        /// Environment as `NAME=value`.
        environment: Vec<Text>,
        /// Working directory.
        working_directory: Option<Text>,
        /// Number of processes to start.
        processes_max: i32,
        /// Directives for this application.
        info: Vec<Info>,
    }
}
recursive_record! {
    /// A published value and its publisher.
    Pdata {
        /// Its publisher.
        proc: ProcId,
        /// Its key.
        key: Key,
        /// The value.
        value: Value,
    }
}
record! {
    /// A packed buffer inside another.
    Buffer {
        /// 1: values without type descriptions, 2: fully described.
        kind: u8,
        /// The packed bytes.
        bytes: Vec<u8>,
    }
}
record! {
    /// Data about a process. Exit code and process set are not part of the wire form.
    ProcInfo {
        /// The process.
        proc: ProcId,
        /// Node it runs on.
        hostname: Option<Text>,
        /// Its program.
        executable: Option<Text>,
        /// Operating system's process id.
        pid: u32,
        /// State code.
        state: u8,
    }
}
recursive_record! {
    /// A query: requested keys, and qualifiers that narrow it.
    Query {
        /// Requested keys.
        keys: Vec<Text>,
        /// Qualifiers.
        qualifiers: Vec<Info>,
    }
}
record! {
    /// An environment variable.
    Envar {
        /// Its name.
        name: Option<Text>,
        /// Its value.
        value: Option<Text>,
        /// Separator for prepending and appending.
        separator: u8,
    }
}
record! {
    /// A coordinate in a fabric.
    Coord {
        /// View code.
        view: u8,
        /// One position for each dimension.
        positions: Vec<u32>,
    }
}
record! {
    /// Description of a supported attribute.
    Regattr {
        /// Macro name.
        name: Option<Text>,
        /// Key string.
        key: Text,
        /// Type number.
        data_type: u16,
        /// Explanations, a line each.
        description: Vec<Text>,
    }
}
record! {
    /// Coordinates of a device in a fabric.
    Geometry {
        /// Fabric number.
        fabric: u64,
        /// Device's unique id.
        uuid: Option<Text>,
        /// Operating system's name of the device.
        os_name: Option<Text>,
        /// Coordinates.
        coordinates: Vec<Coord>,
    }
}
record! {
    /// Distance of a process from a device; 65535 means unknown.
    DeviceDistance {
        /// Device's unique id.
        uuid: Option<Text>,
        /// Operating system's name of the device.
        os_name: Option<Text>,
        /// Device type code.
        device_type: u64,
        /// Smallest distance.
        minimum: u16,
        /// Largest distance.
        maximum: u16,
    }
}
record! {
    /// A fabric endpoint.
    Endpoint {
        /// Device's unique id.
        uuid: Option<Text>,
        /// Operating system's name of the device.
        os_name: Option<Text>,
        /// Opaque address.
        bytes: Vec<u8>,
    }
}
record! {
    /// A hardware topology as the sender's hwloc exports it.
    Topology {
        /// XML text; `None` is a NULL topology.
        xml: Option<Text>,
        /// Support structures of the sender's hwloc build, opaque.
        support: Vec<u8>,
    }
}
record! {
    /// Process statistics (4.2 and 5.0 peers).
    ProcStats {
        /// Node name.
        node: Option<Text>,
        /// The process.
        proc: ProcId,
        /// Operating system's process id.
        pid: u32,
        /// Command.
        command: Option<Text>,
        /// State letter.
        state: u8,
        /// Processor time.
        time: Timeval,
        /// Priority.
        priority: i32,
        /// Number of threads.
        threads: i16,
        /// Proportional set size.
        pss: f32,
        /// Virtual size.
        vsize: f32,
        /// Resident set size.
        rss: f32,
        /// Its last processor.
        processor: i16,
        /// When this was sampled.
        sample_time: Timeval,
    }
}
record! {
    /// Disk statistics (4.2 and 5.0 peers): eleven counters of the kernel, in its order.
    DiskStats {
        /// Disk name.
        disk: Option<Text>,
        /// The counters.
        counters: [u64; 11],
    }
}
record! {
    /// Network statistics (4.2 and 5.0 peers): bytes, packets and errors received, then sent.
    NetStats {
        /// Interface name.
        interface: Option<Text>,
        /// The counters.
        counters: [u64; 6],
    }
}
record! {
    /// Node statistics (4.2 and 5.0 peers).
    NodeStats {
        /// Node name.
        node: Option<Text>,
        /// Load averages (3), then memory figures (8), in the wire's order.
        figures: [f32; 11],
        /// When this was sampled.
        sample_time: Timeval,
        /// Disks.
        disks: Vec<DiskStats>,
        /// Interfaces.
        interfaces: Vec<NetStats>,
    }
}
record! {
    /// A device.
    Device {
        /// Unique id.
        uuid: Option<Text>,
        /// Operating system's name.
        os_name: Option<Text>,
        /// Device type code.
        device_type: u64,
    }
}
record! {
    /// A number of devices of one type.
    ResourceUnit {
        /// Device type code.
        device_type: u64,
        /// Number of elements.
        count: u64,
    }
}
record! {
    /// A process known by where it runs.
    NodePid {
        /// Node name.
        hostname: Option<Text>,
        /// Node number.
        node_id: u32,
        /// Operating system's process id.
        pid: u32,
    }
}
record! {
    /// A map expression with the name of its encoding (6.1 peers).
    Regex2 {
        /// Encoding.
        encoding: Option<Text>,
        /// Encoded bytes.
        bytes: Vec<u8>,
    }
}
