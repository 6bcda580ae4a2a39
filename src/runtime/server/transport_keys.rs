//! Keys that tell the processes of one user from those of others on a shared fabric. Open MPI's `mtl/psm2` needs one
//! and takes it in the form of [`TransportKeys::key`]. Without it, its endpoint does not open.

use std::hash::{BuildHasher, RandomState};

/// The variable with which processes get their key, as from OpenPMIx's module `pnet/opa`.
pub const TRANSPORT_KEY_VARIABLE: &str = "OMPI_MCA_orte_precondition_transports";

/// Bits that are set in each half of a key: an adapter takes no part of 32 bits that is zero.
const NONZERO: u64 = 0x0000_0001_0000_0001;

/// The keys of users at this server. Without the random numbers of this server nobody computes them.
#[derive(Debug, Default)]
pub(super) struct TransportKeys([RandomState; 2]);

impl TransportKeys {
    /// The key of a user: two hexadecimal numbers of 64 bits with a dash between them. It is the same one each time: a
    /// job and those that it spawns talk to each other.
    pub(super) fn key(&self, uid: u32) -> String {
        let [high, low] = self.0.each_ref().map(|numbers| numbers.hash_one(uid) | NONZERO);
        format!("{high:016x}-{low:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_that_of_one_user_at_one_server() {
        let (here, there) = (TransportKeys::default(), TransportKeys::default());
        assert_eq!(here.key(7), here.key(7));
        assert_ne!(here.key(7), here.key(8));
        assert_ne!(here.key(7), there.key(7));
    }

    #[test]
    fn each_quarter_of_a_key_is_a_number_other_than_zero() {
        let keys = TransportKeys::default();
        for uid in 0..100 {
            let key = keys.key(uid);
            let halves: Vec<&str> = key.split('-').collect();
            assert_eq!(halves.iter().map(|half| half.len()).collect::<Vec<_>>(), [16, 16], "{key}");
            let quarters = halves.iter().flat_map(|half| [&half[..8], &half[8..]]);
            assert!(quarters.map(|quarter| u32::from_str_radix(quarter, 16).unwrap()).all(|it| it != 0), "{key}");
        }
    }
}
