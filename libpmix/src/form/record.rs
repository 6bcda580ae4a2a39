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

            fn read(
                from: $crate::form::Whole<'_, Self>,
                depth: $crate::form::Depth,
            ) -> Result<$owned, $crate::error::CError> {
                let depth = depth.deeper()?;
                Ok($owned {
                    $($field: <$form as $crate::form::Form>::read(
                        // SAFETY: P1 holds for the structure, so for every member; the table names its form.
                        unsafe { $crate::form::Whole::new(&from.get().$member) },
                        depth,
                    )?,)*
                    $($($list: {
                        let what = concat!(stringify!($c), ".", stringify!($array));
                        // SAFETY: P1 holds for the list; the table names its count and the form of its elements.
                        let list = unsafe { $crate::form::Counted::<$element>::new(from.$array, from.$count) };
                        $crate::form::read_list(list, what, depth)?
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

            fn copy(
                from: $crate::form::Whole<'_, Self>,
                to: &mut Self,
                depth: $crate::form::Depth,
            ) -> Result<(), $crate::error::CError> {
                let depth = depth.deeper()?;
                $(<$form as $crate::form::Form>::copy(
                    // SAFETY: P1 holds for the structure, so for every member; the table names its form.
                    unsafe { $crate::form::Whole::new(&from.get().$member) },
                    &mut to.$member,
                    depth,
                )?;)*
                $($(
                    // SAFETY: P1 holds for the list; the table names its count and the form of its elements.
                    let list = unsafe { $crate::form::Counted::<$element>::new(from.$array, from.$count) };
                    $crate::form::copy_list(list, &mut to.$array, &mut to.$count, depth)?;
                )*)?
                $($($(to.$cell = from.$cell;)*)*)?
                $($(to.$kept = from.$kept;)*)?
                let _ = depth;
                Ok(())
            }

            fn destruct(member: $crate::form::Own<'_, Self>) {
                let member = member.into_place();
                $(<$form as $crate::form::Form>::destruct(
                    // SAFETY: F1 holds for the structure, so for every member; the table names its form.
                    unsafe { $crate::form::Own::new(&mut member.$member) },
                );)*
                $($(
                    // SAFETY: F1 holds for the list; the table names its count and the form of its elements.
                    unsafe { $crate::form::destruct_list::<$element>(&mut member.$array, &mut member.$count) };
                )*)?
                <Self as $crate::form::Form>::construct(member);
            }

            fn construct(to: &mut Self) {
                *to = $crate::form::zeroed::<Self>();
                $($(to.$set = $empty;)*)?
            }
        })*
    };
}
pub(super) use record;
