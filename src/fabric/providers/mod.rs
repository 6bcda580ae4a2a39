//! Descriptions of fabrics from texts of other programs.
//!
//! A text is untrusted. A provider reads it whole or refuses it with the line, switch or device; so the caller's
//! earlier fabric stays. Another source of fabrics is another implementation of [`Provider`].
//!
//! | file | owns |
//! |---|---|
//! | `provider` | the trait, and the reasons to refuse a text |
//! | `slurm` | Slurm's `topology.conf`: trees, dragonflies and blocks |
//! | `slurm_yaml` | Slurm's `topology.yaml`: several topologies |
//! | `yaml` | a YAML text as a bounded tree with lines |
//! | `hostlist` | Slurm's lists of names, `tux[0-3,12]` |
//! | `ibnetdiscover` | the output of `ibnetdiscover` |
//! | `inventories` | the network devices of delivered inventories |
//! | `sysfs` | files of `/sys/class/net` and `/sys/class/infiniband` of many nodes |
//! | `test_fabric` | the invented fabric of the PMIx tutorial, `nodes:5;plane:d:3` |

mod hostlist;
mod ibnetdiscover;
mod inventories;
mod provider;
mod slurm;
mod slurm_yaml;
mod sysfs;
mod test_fabric;
#[cfg(test)]
mod tests;
mod yaml;

pub use hostlist::HostlistError;
pub use ibnetdiscover::IbNetDiscover;
pub use inventories::{INVENTORIES, left_out};
pub use provider::{Fault, Provider, ProviderError, TEXT_BYTES_MAX};
pub use slurm::SlurmTopology;
pub use slurm_yaml::SlurmYaml;
pub use sysfs::SysListing;
pub use test_fabric::TestFabric;
