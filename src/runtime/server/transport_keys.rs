//! Keys that tell the processes of one job from those of others on a shared fabric. Open MPI's `mtl/psm2` needs one
//! (`PMIX_CREDENTIAL` of the job) and takes it in the form of [`TransportKeys::key`]. Without it, its endpoint does not open.

use std::hash::{BuildHasher, RandomState};

use crate::types::Namespace;

/// Bits that are set in each half of a key: an adapter takes no part of 32 bits that is zero.
const NONZERO: u64 = 0x0000_0001_0000_0001;

/// The keys of this server's jobs. Without the random numbers of this server nobody computes them.
#[derive(Debug, Default)]
pub(super) struct TransportKeys([RandomState; 2]);

impl TransportKeys {
    /// The key of a job: two hexadecimal numbers of 64 bits with a dash between them. It is the same one each time.
    pub(super) fn key(&self, namespace: &Namespace) -> String {
        let [high, low] = self.0.each_ref().map(|numbers| numbers.hash_one(namespace.as_str()) | NONZERO);
        format!("{high:016x}-{low:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_that_of_one_job_of_one_server() {
        let job = |name| Namespace::new(name).unwrap();
        let (here, there) = (TransportKeys::default(), TransportKeys::default());
        assert_eq!(here.key(&job("a")), here.key(&job("a")));
        assert_ne!(here.key(&job("a")), here.key(&job("b")));
        assert_ne!(here.key(&job("a")), there.key(&job("a")));
    }

    #[test]
    fn each_quarter_of_a_key_is_a_number_other_than_zero() {
        let keys = TransportKeys::default();
        for number in 0..100 {
            let key = keys.key(&Namespace::new(&format!("job-{number}")).unwrap());
            let halves: Vec<&str> = key.split('-').collect();
            assert_eq!(halves.iter().map(|half| half.len()).collect::<Vec<_>>(), [16, 16], "{key}");
            let quarters = halves.iter().flat_map(|half| [&half[..8], &half[8..]]);
            assert!(quarters.map(|quarter| u32::from_str_radix(quarter, 16).unwrap()).all(|it| it != 0), "{key}");
        }
    }
}
