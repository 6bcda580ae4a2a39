//! Security keys of jobs.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::types::Namespace;

/// Keys that are kept.
const SECRETS_MAX: usize = 1024;
/// Bytes of a key: two 64-bit numbers, as OpenPMIx makes it and programs read it.
const KEY_BYTES: usize = 16;

/// The keys of the newest jobs. The applications of a job have the same.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<VecDeque<(Namespace, Vec<u8>)>>);

/// The kernel gives no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system has no random bytes for a key")]
pub struct NoRandomBytes;

impl Secrets {
    pub(super) fn of(&self, namespace: &Namespace) -> Result<Vec<u8>, NoRandomBytes> {
        let mut kept = self.0.lock();
        if let Some((_, secret)) = kept.iter().find(|(job, _)| job == namespace) {
            return Ok(secret.clone());
        }
        let made = secret()?;
        kept.truncate(SECRETS_MAX - 1);
        kept.push_front((namespace.clone(), made.clone()));
        Ok(made)
    }

    pub(super) fn forget(&self, namespace: &Namespace) {
        self.0.lock().retain(|(job, _)| job != namespace);
    }
}

/// A random key.
pub(super) fn secret() -> Result<Vec<u8>, NoRandomBytes> {
    let mut bytes = vec![0; KEY_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled == Ok(KEY_BYTES) { Ok(bytes) } else { Err(NoRandomBytes) }
}
