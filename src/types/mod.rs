//! The types of all other modules: namespace, rank, process, key, value, data type, scope and time.
//!
//! A value of one of these types is valid by construction. A [`Namespace`] is never empty or longer than the standard
//! allows. A [`Rank`] is never a number whose meaning must be looked up. A [`Text`] never holds a NUL.
//! Numbers and raw bytes become these types once, at the border (`bfrops`, `libpmix`), and are not checked again.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types".

mod archive;
pub mod codes;
mod data_type;
mod deep;
mod footprint;
mod key;
mod lent;
mod local_address;
mod namespace;
mod rank;
mod rank_list;
mod scope;
mod status;
mod text;
mod time;
mod value;

pub use data_type::DataType;
pub use deep::{BARE_NESTING_MAX, NESTING_MAX, descend, with_stack};
pub use footprint::{IntoValue, footprint};
pub(crate) use footprint::{exceeds, footprint_up_to, has_more_parts, process_footprint};
pub use key::{Key, KeyError};
pub use lent::{LentEntry, LentKey, LentText, LentValue};
pub use local_address::LocalAddress;
pub use namespace::{Namespace, NamespaceError};
pub use rank::{ProcId, Rank, RankError};
pub use rank_list::{RANKS_MAX, ranks_in};
pub use scope::Scope;
pub use status::{AsStatus, Status};
pub use text::{Text, TextError};
pub use time::Time;
pub use value::{
    App, ArchivedValue, Buffer, Coord, DataArray, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info,
    InfoFlags, Kval, NetStats, NodePid, NodeStats, Pdata, ProcInfo, ProcStats, Query, Regattr, Regex2, ResourceUnit,
    Timeval, Topology, Value,
};
