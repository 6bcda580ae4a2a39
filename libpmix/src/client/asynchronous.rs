//! Results on their way to C callbacks.

use modex::types::AsStatus;
use modex::types::{Info, Status};

use crate::argument::OutArray;
use crate::call;
use crate::callback::{Bound, Callback};
use crate::client_request::{Answer, ClientRequest, Results};
use crate::error::CError;
use crate::guard::Failure;
use crate::pointer::CallerData;
use crate::to_c::{self, Array};
use crate::types::{pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t};

/// Makes a request and waits, for functions whose result is a status alone.
pub(super) fn run(request: ClientRequest) -> Result<(), Failure> {
    match call::run(request) {
        Ok(answer) if answer.status.is_success() => Ok(()),
        Ok(answer) => Err(Failure(answer.status)),
        Err(status) => Err(Failure(status)),
    }
}

/// Starts a request; its status goes to the callback.
pub(super) fn start(
    request: ClientRequest,
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
) -> Result<(), Failure> {
    let callback = callback.with(data);
    start_with(request, move |result| {
        if let Some(callback) = callback {
            callback.call(result.map_or_else(|status| status, |answer| answer.status));
        }
    })
}

/// As [`start`]. With a NULL callback the caller waits and gets the result; success is then `PMIX_SUCCESS`, as in the
/// reference.
pub(super) fn start_or_wait(
    request: ClientRequest,
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
) -> Result<Status, Failure> {
    if callback.is_none() {
        return run(request).map(|()| Status::SUCCESS);
    }
    start(request, callback, data).map(|()| Status::SUCCESS)
}

/// Starts a request; `deliver` gets the result on the library's thread.
pub(super) fn start_with(
    request: ClientRequest,
    deliver: impl FnOnce(Result<Answer, Status>) + Send + 'static,
) -> Result<(), Failure> {
    call::start(request, deliver).map_err(Failure)
}

/// Makes a request, waits, and stores the resulting infos in the caller's places.
pub(super) fn run_for_infos(
    request: ClientRequest,
    results: &mut OutArray<'_, pmix_info_t>,
) -> Result<Status, Failure> {
    let answer = call::run(request).map_err(Failure)?;
    results.put(to_c::infos(&infos_of(answer.results))?)?;
    Ok(answer.status)
}

/// Starts a request; `callback` gets the resulting infos, which belong to the library until it calls the release
/// function.
pub(super) fn start_for_infos(
    request: ClientRequest,
    callback: Callback<pmix_info_cbfunc_t>,
    data: CallerData,
) -> Result<(), Failure> {
    let callback = callback.with(data);
    start_with(request, move |result| deliver_infos(result, callback))
}

/// Gives infos to a callback.
pub(super) fn deliver_infos(result: Result<Answer, Status>, callback: Option<Bound<pmix_info_cbfunc_t>>) {
    let Some(callback) = callback else { return };
    let converted = result.and_then(|answer| {
        let array = to_c::infos(&infos_of(answer.results)).map_err(|error: CError| error.status())?;
        Ok((answer.status, array))
    });
    let (status, array) = converted.unwrap_or_else(|status| (status, Array::empty()));
    callback.call(status, array);
}

pub(super) fn infos_of(results: Results) -> Vec<Info> {
    match results {
        Results::Infos(infos) => infos,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;
    use crate::types::{c_void, pmix_release_cbfunc_t, pmix_status_t};

    unsafe extern "C" fn releases_twice(
        status: pmix_status_t,
        first: *mut pmix_info_t,
        count: usize,
        _: *mut c_void,
        release: Option<pmix_release_cbfunc_t>,
        token: *mut c_void,
    ) {
        assert_eq!((status, count, first.is_null()), (0, 1, false));
        let release = release.unwrap();
        for _ in 0..2 {
            // SAFETY: the release function takes any token, also one that names nothing any more.
            unsafe { release(token) };
        }
    }

    /// Regression: an array that was given back twice was freed twice.
    #[test]
    fn infos_that_are_released_twice_are_freed_once() {
        let infos = Results::Infos(vec![Info::new(Key::from_static("k"), "text")]);
        let callback = Callback::<pmix_info_cbfunc_t>::of(Some(releases_twice));
        deliver_infos(Ok(Answer::complete(infos)), callback.with(CallerData::of(std::ptr::null_mut())));
    }
}
