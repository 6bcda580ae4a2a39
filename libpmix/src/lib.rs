//! The shared library `libpmix.so.2`. Everything in it is in `modex::capi`; this crate only makes it a library of its
//! own, so that it exports the functions of the C interface and nothing else, and is optimised as a whole.

extern crate modex;
