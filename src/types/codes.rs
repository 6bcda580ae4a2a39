//! The numbers of the standard's other constants, one module per group.
//!
//! They serve the border: the wire, the C interface, and tests. Inside the crate the enums of [`crate::types`] are
//! used; a test compares them with these tables, which come from `spec/constants.tsv`. Status codes are constants of
//! [`super::Status`]. A name is the C macro without the prefix `PMIX_`, and the type is the width of the C type.

mod codes_table;

pub use codes_table::*;
