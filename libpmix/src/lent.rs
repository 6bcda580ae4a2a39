//! Arrays lent to callers until they call the release function.

use parking_lot::Mutex;

use super::form::Form;
use super::slots::{Slots, Token};
use super::to_c::Array;
use super::types::c_void;

static LENT: Mutex<Slots<Box<dyn Send>>> = Mutex::new(Slots::new());

/// Keeps an array for a caller. Returns the token that its release function passes to [`take_back`].
pub(super) fn lend<F: Form + 'static>(array: Array<F>) -> *mut c_void {
    let array: Box<dyn Send> = Box::new(array);
    LENT.lock().insert(array).to_pointer()
}

/// Releases an array; the second time does nothing.
pub(super) fn take_back(token: *mut c_void) {
    let lent = Token::from_pointer(token).and_then(|token| LENT.lock().take(token));
    drop(lent);
}
