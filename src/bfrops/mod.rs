//! Bytes of the wire and the types they stand for.
//!
//! A message is a sequence of *pack operations*. One operation is a count, in fully described buffers also the type
//! of what follows, and then the values:
//!
//! ```text
//! non-described   count, value ...
//! described       type of the count, count, type of the values, value ...
//! ```
//!
//! What a single value looks like is said by one implementation of [`Encoding`] for each data type, which writes and
//! reads; so the two directions cannot drift apart. [`wire`] lists them. [`Writer`] and [`Reader`] hold the bytes:
//! nothing outside [`Reader`] looks at a length that a peer sent, and nothing is allocated for a count before the
//! bytes that it announces are known to be there (see [`DecodeLimits`]).
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
