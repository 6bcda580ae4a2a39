//! Keys with a value type known at compile time.

use std::fmt;
use std::marker::PhantomData;

use xxhash_rust::const_xxh3::xxh3_64;

/// A key string with the type of its value and its hash, made at compile time.
///
/// `T` is the Rust type of the value (`u32`, `bool`, `str`). For a PMIx type without a plain Rust type it is a type of
/// [`super::marker`].
///
/// ```
/// use modex::keys::TypedKey;
///
/// const ENDPOINT: TypedKey<str> = TypedKey::new("my.endpoint");
/// assert_eq!(ENDPOINT.name(), "my.endpoint");
/// ```
pub struct TypedKey<T: ?Sized> {
    name: &'static str,
    hash: u64,
    // A function pointer, so that the key is `Send`, `Sync` and `Copy` whatever `T` is.
    value: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> TypedKey<T> {
    /// A key with values of type `T`. In a constant the hash costs nothing at run time.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, hash: xxh3_64(name.as_bytes()), value: PhantomData }
    }

    /// The key string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// XXH3-64 of the bytes of the key string, with seed 0.
    #[must_use]
    pub const fn hash(self) -> u64 {
        self.hash
    }
}

// Manual, because a derive would demand the trait of `T`, which is never stored.
impl<T: ?Sized> Clone for TypedKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for TypedKey<T> {}

impl<T: ?Sized> fmt::Debug for TypedKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedKey").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{JOB_SIZE, LOCAL_PEERS, NODEID, attributes};

    #[test]
    fn the_constant_hash_equals_the_hash_computed_at_run_time() {
        for attribute in attributes() {
            let key = TypedKey::<str>::new(attribute.name);
            assert_eq!(key.hash(), xxhash_rust::xxh3::xxh3_64(attribute.name.as_bytes()));
        }
    }

    #[test]
    fn constants_carry_the_type_of_their_value() {
        let size: TypedKey<u32> = JOB_SIZE;
        let peers: TypedKey<str> = LOCAL_PEERS;
        assert_eq!((size.name(), peers.name()), ("pmix.job.size", "pmix.lpeers"));
    }

    #[test]
    fn a_key_is_copied_sent_and_printed_whatever_its_value_type_is() {
        struct Opaque(#[expect(dead_code, reason = "the raw pointer makes the type neither Send nor Sync")] *const u8);
        fn assert_shareable<T: Copy + Send + Sync + fmt::Debug>(_: T) {}
        assert_shareable(TypedKey::<Opaque>::new("k"));
        assert_shareable(TypedKey::<[Opaque]>::new("k"));
        assert_eq!(format!("{NODEID:?}"), "TypedKey(\"pmix.nodeid\")");
    }

    #[test]
    fn two_keys_of_the_standard_never_share_a_hash() {
        let mut hashes: Vec<(u64, &str)> =
            attributes().map(|attribute| (TypedKey::<str>::new(attribute.name).hash(), attribute.name)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        for pair in hashes.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "{} and {}", pair[0].1, pair[1].1);
        }
    }
}
