//! The PMIx attributes: every reserved key with its value type, realm and history.
//!
//! The tables come from `spec/attributes.tsv`. `tests/vocabulary` generates the files whose names end in `_table.rs`
//! and fails when they and the TSV disagree; `MODEX_BLESS=1 cargo test --test vocabulary` rewrites them.
//!
//! There are two ways to a row. Code that knows its key at compile time uses a constant, which carries the type of the
//! value and the hash of the name. Code that gets a key at run time asks [`by_name`] or [`by_macro`].
//!
//! ```
//! use modex::keys;
//!
//! assert_eq!(keys::JOB_SIZE.name(), "pmix.job.size");
//! let attribute = keys::by_name("pmix.job.size").expect("a key of the standard");
//! assert_eq!(attribute.macro_name, "PMIX_JOB_SIZE");
//! assert_eq!(attribute.value_type, keys::ValueKind::Uint32);
//! ```

mod alternate;
mod attribute;
// One row per line keeps the table greppable; rustfmt would spread each row over nine lines.
#[rustfmt::skip]
mod attributes_table;
mod conversion;
mod default_realm;
pub mod marker;
mod names;
mod packed;
mod typed_key;

pub use alternate::by_alternate;
pub use attribute::{Attribute, Realm, Standing, ValueKind};
pub(crate) use conversion::{Misfit, convert, data_type};
pub use conversion::{first_unmet, is_unmet};
pub use default_realm::{DefaultRealm, default_realm};
pub use names::*;
pub use packed::{Attributes, attributes, by_macro, by_name, rows_with_name};
pub use typed_key::TypedKey;

/// Keys of this library: the rows and columns of a block of a fabric's costs, and the number of the cheapest devices.
pub(crate) const OF_COSTS: [&str; 3] = ["modex.fabric.rows", "modex.fabric.columns", "modex.fabric.count"];
