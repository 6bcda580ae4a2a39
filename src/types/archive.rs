//! Archived values are foreign data: their copies are checked.

use rkyv::rancor::Strategy;

/// The state of a copy.
pub(super) struct Copier {
    pub(super) is_valid: bool,
}

/// Checks the parts of a copy.
pub(super) trait Checking {
    /// The part, or if it is invalid, a placeholder. Then the whole copy is refused at its end: rkyv does not free the
    /// parts already copied when one of them fails.
    fn checked<T, E>(&mut self, part: Result<T, E>, placeholder: T) -> T;
}

impl<E> Checking for Strategy<Copier, E> {
    fn checked<T, Refusal>(&mut self, part: Result<T, Refusal>, placeholder: T) -> T {
        part.unwrap_or_else(|_| {
            self.is_valid = false;
            placeholder
        })
    }
}

/// Archives a type as a plain string. Shared ownership is meaningless inside a segment.
macro_rules! archived_as_string {
    ($name:ident, $read:path, $placeholder:expr) => {
        impl rkyv::Archive for $name {
            type Archived = rkyv::string::ArchivedString;
            type Resolver = rkyv::string::StringResolver;

            fn resolve(&self, resolver: Self::Resolver, out: rkyv::Place<Self::Archived>) {
                rkyv::string::ArchivedString::resolve_from_str(&self.0, resolver, out);
            }
        }

        impl<S> rkyv::Serialize<S> for $name
        where
            S: rkyv::rancor::Fallible + rkyv::ser::Writer + ?Sized,
            S::Error: rkyv::rancor::Source,
            str: rkyv::SerializeUnsized<S>,
        {
            fn serialize(&self, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
                rkyv::string::ArchivedString::serialize_from_str(&self.0, serializer)
            }
        }

        impl<D> rkyv::Deserialize<$name, D> for rkyv::string::ArchivedString
        where
            D: rkyv::rancor::Fallible + $crate::types::archive::Checking + ?Sized,
        {
            fn deserialize(&self, copier: &mut D) -> Result<$name, D::Error> {
                Ok(copier.checked($read(self.as_bytes()), $placeholder))
            }
        }
    };
}
pub(super) use archived_as_string;
