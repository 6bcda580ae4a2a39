//! The structures of a segment: their bytes, how they are read, and how an image of them is made.

pub(super) mod block;
pub(super) mod cell;
pub(super) mod column;
pub(super) mod dictionary;
pub(super) mod format;
pub(super) mod image;
pub(super) mod segment_view;
pub(super) mod value_ref;
