//! Events in requests; their delivery is in `notification`.

use super::layout::{Many, One, layout};
use super::{Notify, RegisterEvents};
use crate::bfrops::wire::{DataRange, Info, Status};

layout! {
    Notify { status: One<Status>, range: One<DataRange>, info: Many<Info> }
    RegisterEvents { codes: Many<Status>, directives: Many<Info> }
}
