//! Node maps and process maps: the nodes of a namespace, and the ranks on each node.
//!
//! A host passes both as opaque bytes made by "generate_regex" and "generate_ppn" (PMIx Standard, chapter "Process
//! management: server", server setup). This module turns the bytes into compact tables and back.
//!
//! ```text
//! raw:n1,n2,n3 NUL                                    a plain list behind an identifier
//! blob: NUL component=zlib: NUL size=N: NUL + N bytes the same list, deflated
//! pmix[n[1:1-3]] NUL                                  runs of numbered names, runs of ranks
//! n1,n2,n3                                            a plain list alone
//! ```
//!
//! OpenPMIx 6.1 carries the name of the encoding beside the bytes (`pmix_regex2_t`): [`TypedList`].
//!
//! Promises:
//! - No input panics, and no input costs more than [`MapLimits`] allows, even if it inflates or counts.
//! - Expanding is linear in the input plus the output.
//! - Order survives, in both maps and both directions: field *i* of the process map belongs to node *i*.
//! - An empty field of a process map is a node without ranks; it is never dropped.
//! - Text that looks framed but is in no known framing is an error, never taken for node names.
//!
//! ```
//! use modex::regex::{MapLimits, expand_nodes, expand_ranks, generate_nodes};
//!
//! let limits = MapLimits::default();
//! let nodes = expand_nodes(b"pmix[odin[3:9-11]]\0", &limits)?;
//! assert_eq!(nodes.iter().collect::<Vec<_>>(), ["odin009", "odin010", "odin011"]);
//! assert_eq!(generate_nodes(&nodes), b"raw:odin009,odin010,odin011\0");
//!
//! let ranks = expand_ranks(b"raw:0,1;2,3;4\0", &limits)?;
//! assert_eq!(ranks.node_count(), nodes.len());
//! assert_eq!(ranks.ranks_of(1).collect::<Vec<_>>(), [2, 3]);
//! # Ok::<(), modex::regex::MapError>(())
//! ```

mod blob;
mod dealt;
mod decimal;
mod error;
mod expand;
mod framing;
mod generate;
mod limits;
mod nodes;
mod ranks;
mod typed;

#[cfg(test)]
mod tests;

pub(crate) use blob::inflater;
pub use dealt::{DEALT_RANKS_MAX, DealtRanks};
pub use error::{Excerpt, MapError};
pub use expand::{expand_nodes, expand_ranks};
pub use framing::framed_length;
pub use generate::{generate_nodes, generate_nodes_pmix, generate_ranks, generate_ranks_pmix};
pub use limits::{MapLimits, RANK_END};
pub use nodes::NodeList;
pub use ranks::{RankMap, RankRun};
pub use typed::{TypedList, framed, list_of};
