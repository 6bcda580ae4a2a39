//! Members without pointers: numbers and codes.

use std::marker::PhantomData;

use modex::types::{LocalAddress, Rank, Timeval};

use super::{Depth, Form, Own, Whole};
use crate::error::CError;
use crate::types::{c_char, c_void, pid_t, time_t, timeval};

/// A number that is the same on both sides.
#[derive(Debug)]
pub struct Plain<T>(PhantomData<T>);

impl<T: Copy + 'static> Form for Plain<T> {
    type C = T;
    type Owned = T;

    fn read(from: Whole<'_, Self>, _: Depth) -> Result<T, CError> {
        Ok(*from)
    }

    fn write(owned: &T, to: &mut T) -> Result<(), CError> {
        *to = *owned;
        Ok(())
    }

    fn copy(from: Whole<'_, Self>, to: &mut T, _: Depth) -> Result<(), CError> {
        *to = *from;
        Ok(())
    }

    fn destruct(_: Own<'_, Self>) {}
}

/// Declares members that are numbers of another type: conversion from C and back.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $c:ty => $owned:ty, $read:expr, $write:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl Form for $name {
                type C = $c;
                type Owned = $owned;

                fn read(from: Whole<'_, Self>, _: Depth) -> Result<$owned, CError> {
                    let read: fn($c) -> Result<$owned, CError> = $read;
                    read(*from)
                }

                fn write(owned: &$owned, to: &mut $c) -> Result<(), CError> {
                    let write: fn(&$owned) -> Result<$c, CError> = $write;
                    *to = write(owned)?;
                    Ok(())
                }

                fn copy(from: Whole<'_, Self>, to: &mut $c, _: Depth) -> Result<(), CError> {
                    *to = *from;
                    Ok(())
                }

                fn destruct(_: Own<'_, Self>) {}
            }
        )*
    };
}

numbers! {
    /// `bool`: any byte but zero is true.
    Bool: u8 => bool, |c| Ok(c != 0), |&owned| Ok(u8::from(owned));
    /// `size_t`.
    Size: usize => u64,
        |c| u64::try_from(c).map_err(|_| out_of_range("size", c)),
        |&owned| usize::try_from(owned).map_err(|_| out_of_range("size", owned));
    /// `pid_t`, kept unsigned as on the wire.
    Pid: pid_t => u32, |c| Ok(c.cast_unsigned()), |&owned| Ok(owned.cast_signed());
    /// `time_t`, kept unsigned as on the wire.
    Time: time_t => u64, |c| Ok(c.cast_unsigned()), |&owned| Ok(owned.cast_signed());
    /// A `char` that is a letter or a separator.
    Letter: c_char => u8, |c| Ok(c.cast_unsigned()), |&owned| Ok(owned.cast_signed());
    /// A count that is a signed number on the wire.
    Count16: u16 => i16, |c| Ok(c.cast_signed()), |&owned| Ok(owned.cast_unsigned());
    /// A rank.
    RankNumber: u32 => Rank, |c| Ok(Rank::from_raw(c)?), |owned| Ok(owned.to_raw());
    /// Seconds and microseconds.
    Moment: timeval => Timeval,
        |c| Ok(Timeval { seconds: c.tv_sec, microseconds: c.tv_usec }),
        |owned| Ok(timeval { tv_sec: owned.seconds, tv_usec: owned.microseconds });
    /// A pointer, which has a meaning in this process alone.
    Address: *mut c_void => LocalAddress,
        |c| Ok(LocalAddress::new(c.expose_provenance())),
        |owned| Ok(std::ptr::with_exposed_provenance_mut(owned.get()));
}

fn out_of_range<N: TryInto<i128>>(what: &'static str, number: N) -> CError {
    CError::OutOfRange { what, number: number.try_into().unwrap_or(i128::MAX) }
}
