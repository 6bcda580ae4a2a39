//! `PMIx_Data_*`: packed buffers, and copies and descriptions of anything.
//!
//! A buffer holds pack operations one after another, in the encoding that every release since 4.1 reads and without
//! type descriptions: what is unpacked must be what was packed. Which peer a buffer is for makes no difference; types
//! that are younger than that encoding are packed as 6.1 does.
//!
//! A `pmix_data_buffer_t` is one block of libc's, `bytes_used` bytes of it filled, read up to `unpack_ptr`; callers read
//! and fill in the members themselves.
//!
//! Source: PMIx Standard, "Data Packing and Unpacking".

mod buffer;
pub mod buffers;
pub mod copy;
pub mod pack;
#[cfg(test)]
mod tests;
