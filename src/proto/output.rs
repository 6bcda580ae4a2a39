//! Requests for output; forwarded output itself is in `notification`.

use super::layout::{IfPresent, Many, One, layout};
use super::{IofDeregister, IofPull};
use crate::bfrops::wire::{Info, IofChannel, Proc, Size};

// Clients older than 4.0 do not number their requests, but a server of 3.2 refuses one without number.
layout! {
    IofPull {
        procs: Many<Proc>, directives: Many<Info>, channels: One<IofChannel>, local_id: IfPresent<Size>,
    }
    IofDeregister { directives: Many<Info>, reference: One<Size> }
}
