//! Structures from the forms of their members.

/// Builds the [`Form`](super::Form) of a structure. Each line names a Rust field, its member and its form. `lists` have
/// a pointer and a count; `rows` gather members of one type. `kept` members stay in this process: they are copied, not
/// read. `empty` members are not zero in an empty structure.
macro_rules! record {
    ($($owned:ident as $c:ident {
        $($field:ident = $member:ident: $form:ty,)*
        $(; lists { $($list:ident = $array:ident[$count:ident]: $element:ty,)* })?
        $(; rows { $($row:ident = [$($cell:ident),*],)* })?
        $(; kept { $($kept:ident,)* })?
        $(; empty { $($set:ident = $empty:expr,)* })?
    })*) => {
        $(impl $crate::form::Form for $c {
            type C = Self;
            type Owned = $owned;

            unsafe fn read(
                from: &Self,
                depth: $crate::form::Depth,
            ) -> Result<$owned, $crate::error::CError> {
                let depth = depth.deeper()?;
                Ok($owned {
                    $($field: {
                        // SAFETY: the caller's contract holds for every member.
                        unsafe { <$form as $crate::form::Form>::read(&from.$member, depth) }?
                    },)*
                    $($($list: {
                        let what = concat!(stringify!($c), ".", stringify!($array));
                        // SAFETY: the caller's contract holds for every member.
                        unsafe { $crate::form::read_list::<$element>(from.$array, from.$count, what, depth) }?
                    },)*)?
                    $($($row: [$(from.$cell),*],)*)?
                })
            }

            fn write(owned: &$owned, to: &mut Self) -> Result<(), $crate::error::CError> {
                $(<$form as $crate::form::Form>::write(&owned.$field, &mut to.$member)?;)*
                $($($crate::form::write_list::<$element>(&owned.$list, &mut to.$array, &mut to.$count)?;)*)?
                $($([$(to.$cell),*] = owned.$row;)*)?
                Ok(())
            }

            unsafe fn copy(
                from: &Self,
                to: &mut Self,
                depth: $crate::form::Depth,
            ) -> Result<(), $crate::error::CError> {
                let depth = depth.deeper()?;
                $(
                    // SAFETY: the caller's contract holds for every member.
                    unsafe { <$form as $crate::form::Form>::copy(&from.$member, &mut to.$member, depth) }?;
                )*
                $($(
                    let (array, count) = (&mut to.$array, &mut to.$count);
                    // SAFETY: the caller's contract holds for every member.
                    unsafe {
                        $crate::form::copy_list::<$element>(from.$array, from.$count, array, count, depth)
                    }?;
                )*)?
                $($($(to.$cell = from.$cell;)*)*)?
                $($(to.$kept = from.$kept;)*)?
                let _ = depth;
                Ok(())
            }

            unsafe fn destruct(member: &mut Self) {
                $(
                    // SAFETY: F1 holds for every member.
                    unsafe { <$form as $crate::form::Form>::destruct(&mut member.$member) };
                )*
                $($(
                    // SAFETY: F1 holds for every member.
                    unsafe { $crate::form::destruct_list::<$element>(&mut member.$array, &mut member.$count) };
                )*)?
                <Self as $crate::form::Form>::construct(member);
            }

            fn construct(to: &mut Self) {
                // SAFETY: the structure has numbers, pointers and arrays of them, which may be all zero.
                *to = unsafe { std::mem::zeroed() };
                $($(to.$set = $empty;)*)?
            }
        })*
    };
}
pub(super) use record;
