//! Wire format: bytes and the types they represent.
//!
//! A message is a sequence of *pack operations*. One operation is a count, in fully described buffers also the type of
//! the values, and then the values:
//!
//! ```text
//! non-described   count, value ...
//! described       type of the count, count, type of the values, value ...
//! ```
//!
//! Each data type has one implementation of [`Encoding`], which writes and reads; so the two directions cannot drift
//! apart. [`wire`] lists them. [`Writer`] and [`Reader`] hold the bytes: only [`Reader`] evaluates a length from a
//! peer. It allocates for a count only after the announced bytes are known to be there (see [`DecodeLimits`]).
//!
//! [`Codec`] is the generation of the encoding and the described flag, both chosen by the client for its connection.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1, "Packing".

mod annotated;
mod array;
mod codec;
mod encoding;
mod error;
mod inflate;
mod integer;
mod limits;
mod operations;
mod reader;
mod records;
#[cfg(test)]
#[path = "../../tests/support/values.rs"]
pub(crate) mod strategies;
#[cfg(test)]
mod tests;
mod text;
mod topology;
mod value;
pub mod wire;
mod writer;

pub use codec::{Codec, Generation};
pub use encoding::Encoding;
pub use error::{DecodeError, DecodeProblem, EncodeError};
#[cfg(test)]
pub(crate) use inflate::deflated;
pub use inflate::{InflateError, InflatedPieces, declared_bytes, deflate, inflate};
pub use limits::DecodeLimits;
pub use reader::Reader;
pub use writer::Writer;
