//! The errors inside the errors of the interface: for programs that match on the cause.

pub use crate::bfrops::{DecodeError, DecodeProblem, EncodeError, InflateError};
pub use crate::client::{LossReason, Unsendable};
pub use crate::gds::{Damage, LookupError, ValueError};
pub use crate::proto::blob::BlobError;
pub use crate::ptl::rendezvous::RendezvousError;
pub use crate::ptl::{AddressError, EndpointError, EnvironmentError, ListenError, StreamError};
pub use crate::runtime::{FetchError, UnreachableReason};
pub use crate::shmem::{Corrupt, CreateError, GrowError, HandleError, SegmentError, WriteError};
pub use crate::topo::{CpuSetError, DigestError, MachineError, RowError, ShareError, TopologyError};
