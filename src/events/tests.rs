//! The dispatcher by example; against a plain model in `model`.

mod model;
