//! `PMIx_Data_*`: packed buffers, and copies and descriptions of elements.
//!
//! A buffer holds pack operations one after another: unpack operations must match the pack operations. There are no
//! type descriptions, unless the peer's connection has them. The encoding is that of the process at the other end
//! (`peer`). Between processes of this library it is the one that every release since 4.1 reads. Types that are younger
//! than that encoding are packed as 6.1 does.
//!
//! A `pmix_data_buffer_t` is one block of libc's memory, filled up to `bytes_used` and read up to `unpack_ptr`. Callers
//! read and write the members themselves.
//!
//! Source: PMIx Standard, "Data Packing and Unpacking".

mod buffer;
pub mod buffers;
pub mod copy;
pub mod pack;
mod peer;
#[cfg(test)]
mod tests;
