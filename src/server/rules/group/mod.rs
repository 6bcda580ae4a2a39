//! Groups: named sets of processes with an order. Groups of this node alone are formed here. The host is asked if a
//! group has remote members, or needs a context number.

mod bootstrap;
mod construct;
mod directives;
mod end_notices;
mod endpoints;
mod life;
mod naming;
mod verdicts;

pub(crate) use life::UNDERSTOOD_OF_NUMBERS;
