//! Archived values are foreign data: their copies are checked.

use rkyv::rancor::Strategy;

/// The state of a copy.
pub(super) struct Copier {
    pub(super) is_valid: bool,
}

/// Checks the parts of a copy.
pub(super) trait Checking {
    /// The part, or the substitute if the part is invalid. No caller sees the substitute: the whole copy is refused at
    /// its end. An error here would leak: rkyv does not free the parts that it has copied.
    fn checked<T, E>(&mut self, part: Result<T, E>, substitute: T) -> T;
}

impl<E> Checking for Strategy<Copier, E> {
    fn checked<T, Refusal>(&mut self, part: Result<T, Refusal>, substitute: T) -> T {
        part.unwrap_or_else(|_| {
            self.is_valid = false;
            substitute
        })
    }
}

/// Archives a type as a plain string. Shared ownership is meaningless inside a segment.
macro_rules! archived_as_string {
    ($name:ident, $read:path, $substitute:expr) => {
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
                Ok(copier.checked($read(self.as_bytes()), $substitute))
            }
        }
    };
}
pub(super) use archived_as_string;
