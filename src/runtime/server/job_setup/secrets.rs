//! Security keys of jobs.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use crate::types::Namespace;

/// Keys that are kept.
const SECRETS_MAX: usize = 1024;
/// Bytes of a key: two 64-bit numbers, as OpenPMIx makes it and programs read it.
const KEY_BYTES: usize = 16;

/// The keys of the newest jobs. The applications of a job have the same. Users that name the same job get different ones.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    owner: u32,
    job: Namespace,
    /// Whether the host has set up the job, and so tells its end.
    is_hosts: bool,
    secret: Vec<u8>,
}

/// The kernel gives no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system has no random bytes for a key")]
pub struct NoRandomBytes;

impl Secrets {
    /// The key of a user's job. `is_hosts` is true for a job that the host sets up.
    pub(super) fn of(&self, owner: u32, job: &Namespace, is_hosts: bool) -> Result<Vec<u8>, NoRandomBytes> {
        let mut kept = self.0.lock();
        if let Some(found) = kept.iter_mut().find(|kept| kept.owner == owner && kept.job == *job) {
            found.is_hosts |= is_hosts;
            return Ok(found.secret.clone());
        }
        let secret = secret()?;
        if kept.len() >= SECRETS_MAX {
            remove_one(&mut kept);
        }
        kept.push_front(Kept { owner, job: job.clone(), is_hosts, secret: secret.clone() });
        Ok(secret)
    }

    /// Forgets the key of a job of the host. Jobs of that name at other servers keep theirs: their end is not known here.
    pub(super) fn forget(&self, job: &Namespace) {
        self.0.lock().retain(|kept| !kept.is_hosts || kept.job != *job);
    }
}

/// Removes the oldest key of the user with the most, so that no user takes the keys of others.
fn remove_one(kept: &mut VecDeque<Kept>) {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for Kept { owner, .. } in kept.iter() {
        *counts.entry(*owner).or_default() += 1;
    }
    let largest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner);
    if let Some(place) = kept.iter().rposition(|kept| Some(kept.owner) == largest) {
        kept.remove(place);
    }
}

/// A random key.
pub(super) fn secret() -> Result<Vec<u8>, NoRandomBytes> {
    let mut bytes = vec![0; KEY_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled == Ok(KEY_BYTES) { Ok(bytes) } else { Err(NoRandomBytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a job's key went to each process that named the job in a question to the scheduler's host.
    #[test]
    fn a_key_is_for_a_user_and_a_job() {
        let secrets = Secrets::default();
        let job = |name: &str| Namespace::new(name).unwrap();
        let first = secrets.of(7, &job("job"), true).unwrap();
        assert_eq!(secrets.of(7, &job("job"), true).unwrap(), first, "for each application");
        assert_ne!(secrets.of(8, &job("job"), false).unwrap(), first, "another user");
        assert_ne!(secrets.of(7, &job("other"), true).unwrap(), first);
        secrets.forget(&job("job"));
        assert_ne!(secrets.of(7, &job("job"), true).unwrap(), first);
    }

    #[test]
    fn a_user_with_many_jobs_loses_the_oldest_keys_of_its_own() {
        let secrets = Secrets::default();
        let job = |number: usize| Namespace::new(&format!("job{number}")).unwrap();
        let (of_other, oldest) = (secrets.of(7, &job(0), false).unwrap(), secrets.of(8, &job(0), false).unwrap());
        for number in 1..SECRETS_MAX {
            secrets.of(8, &job(number), false).unwrap();
        }
        assert_eq!(secrets.0.lock().len(), SECRETS_MAX);
        assert_eq!(secrets.of(7, &job(0), false).unwrap(), of_other);
        assert_ne!(secrets.of(8, &job(0), false).unwrap(), oldest);
    }
}
