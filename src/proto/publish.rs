//! Publishing, looking up and withdrawing.

use super::layout::{Each, Many, One, layout};
use super::{Lookup, Publish};
use crate::bfrops::wire::{CompulsoryString, Info, Uint32};

layout! {
    Publish { uid: One<Uint32>, info: Many<Info> }
    Lookup { uid: One<Uint32>, keys: Each<CompulsoryString>, directives: Many<Info> }
}
