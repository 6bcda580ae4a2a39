//! Results on their way to C callbacks.

use modex::types::AsStatus;
use modex::types::{Info, Status};

use crate::error::CError;
use crate::guard::{Failure, guard_or};
use crate::operation::{Answer, Operation, Results};
use crate::pointer::CallerData;
use crate::server_role::Done;
use crate::to_c::{self, Array};
use crate::types::{c_void, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_release_cbfunc_t};
use crate::{call, lent, memory};

/// Runs an operation and waits, for functions whose result is a status alone.
pub(super) fn run(operation: Operation) -> Result<(), Failure> {
    match call::run(operation) {
        Ok(answer) if answer.status.is_success() => Ok(()),
        Ok(answer) => Err(Failure(answer.status)),
        Err(status) => Err(Failure(status)),
    }
}

/// Starts an operation; its status goes to `callback`.
pub(super) fn start(
    operation: Operation,
    callback: Option<pmix_op_cbfunc_t>,
    data: *mut c_void,
) -> Result<(), Failure> {
    let data = CallerData::new(data);
    start_with(operation, move |result| {
        let status = match &result {
            Ok(answer) => answer.status.to_raw(),
            Err(status) => status.to_raw(),
        };
        if let Some(callback) = callback {
            // SAFETY: the caller gave the function for this, and its data with it.
            unsafe { callback(status, data.get()) };
        }
    })
}

/// As [`start`]. With a NULL callback the caller waits and gets the result; success is then `PMIX_SUCCESS`, as in the
/// reference.
pub(super) fn start_or_wait(
    operation: Operation,
    callback: Option<pmix_op_cbfunc_t>,
    data: *mut c_void,
) -> Result<Status, Failure> {
    if callback.is_none() {
        return run(operation).map(|()| Status::SUCCESS);
    }
    start(operation, callback, data).map(|()| Status::SUCCESS)
}

/// Starts an operation; `deliver` gets the result on the library's thread.
pub(super) fn start_with(
    operation: Operation,
    deliver: impl FnOnce(Result<Answer, Status>) + Send + 'static,
) -> Result<(), Failure> {
    call::start(operation, Done::callback(deliver)).map_err(Failure)
}

/// Runs an operation, waits, and stores the resulting infos in the caller's places. The caller has cleared the places.
///
/// # Safety
/// `results` and `count` are NULL or may be written.
pub(super) unsafe fn run_for_infos(
    operation: Operation,
    results: *mut *mut pmix_info_t,
    count: *mut usize,
) -> Result<Status, Failure> {
    let answer = call::run(operation).map_err(Failure)?;
    let array = to_c::infos(&infos_of(answer.results))?;
    // SAFETY: the caller's contract.
    unsafe { store_infos(array, results, count) };
    Ok(answer.status)
}

/// Hands an array over. A caller without a place for it does not want it.
///
/// # Safety
/// `results` and `count` are NULL or may be written.
pub(super) unsafe fn store_infos(array: Array<pmix_info_t>, results: *mut *mut pmix_info_t, count: *mut usize) {
    if results.is_null() || count.is_null() {
        return;
    }
    let (first, length) = array.into_raw();
    // SAFETY: not null, and may be written (the caller's contract).
    unsafe { results.write(first) };
    // SAFETY: as above.
    unsafe { count.write(length) };
}

/// Starts an operation; `callback` gets the resulting infos, which belong to the library until it calls the release
/// function.
pub(super) fn start_for_infos(
    operation: Operation,
    callback: Option<pmix_info_cbfunc_t>,
    data: *mut c_void,
) -> Result<(), Failure> {
    let data = CallerData::new(data);
    start_with(operation, move |result| deliver_infos(result, callback, data))
}

/// Gives infos to a callback.
pub(super) fn deliver_infos(result: Result<Answer, Status>, callback: Option<pmix_info_cbfunc_t>, data: CallerData) {
    let Some(callback) = callback else { return };
    let converted = result.and_then(|answer| {
        let array = to_c::infos(&infos_of(answer.results)).map_err(|error: CError| error.status())?;
        Ok((answer.status, array))
    });
    let (status, array) = converted.unwrap_or_else(|status| (status, Array::empty()));
    let (first, count) = (array.as_ptr().cast_mut(), array.len());
    // An empty array needs no release.
    let (release, token): (Option<pmix_release_cbfunc_t>, _) = match array.is_empty() {
        true => (None, std::ptr::null_mut()),
        false => (Some(release_infos), lent::lend(array)),
    };
    // SAFETY: the caller gave the function for this, and its data with it. The array lives until it is released.
    unsafe { callback(status.to_raw(), first, count, data.get(), release, token) };
}

/// The release function for infos of a callback.
unsafe extern "C" fn release_infos(token: *mut c_void) {
    guard_or((), || lent::take_back(token));
}

pub(super) fn infos_of(results: Results) -> Vec<Info> {
    match results {
        Results::Infos(infos) => infos,
        _ => Vec::new(),
    }
}

/// Stores a string at `place`, for the caller to release.
///
/// # Safety
/// `place` may be written.
pub(super) unsafe fn store_string(text: &[u8], place: *mut *mut crate::types::c_char) -> Result<(), CError> {
    let copy = memory::new_string(text)?;
    // SAFETY: the caller's contract.
    unsafe { place.write(copy) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;
    use crate::types::pmix_status_t;

    unsafe extern "C" fn releases_twice(
        status: pmix_status_t,
        first: *mut pmix_info_t,
        count: usize,
        _: *mut c_void,
        release: Option<pmix_release_cbfunc_t>,
        token: *mut c_void,
    ) {
        assert_eq!((status, count, first.is_null()), (0, 1, false));
        for _ in 0..2 {
            // SAFETY: the function takes any number.
            unsafe { release.unwrap()(token) };
        }
    }

    /// Regression: an array that was given back twice was freed twice.
    #[test]
    fn infos_that_are_released_twice_are_freed_once() {
        let infos = Results::Infos(vec![Info::new(Key::from_static("k"), "text")]);
        deliver_infos(Ok(Answer::complete(infos)), Some(releases_twice), CallerData::new(std::ptr::null_mut()));
    }
}
