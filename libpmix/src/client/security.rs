//! Credentials.

use modex::types::AsStatus;
use modex::types::Status;
use modex::{Credential, GetCredential, ValidateCredential};

use super::asynchronous::{run_for_infos, start_with};
use crate::guard::{Failure, guard, guard_status};
use crate::operation::{Answer, Operation, Results};
use crate::pointer::CallerData;
use crate::to_c::{self, Array, Single};
use crate::types::{
    c_void, pmix_byte_object_t, pmix_credential_cbfunc_t, pmix_info_t, pmix_status_t, pmix_validation_cbfunc_t,
};
use crate::{call, from_c, pointer, process};

/// Asks for a credential. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// `info` has `ninfo` elements. `credential` is NULL or may be written; what it held is not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_credential(
    info: *const pmix_info_t,
    ninfo: usize,
    credential: *mut pmix_byte_object_t,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let place = unsafe { pointer::unique(credential, "place for the credential") }?;
        // SAFETY: the caller's contract.
        let directives = unsafe { from_c::infos(info, ninfo) }?;
        let found = credential_of(call::run(GetCredential::new(directives).into())?)?;
        *place = to_c::byte_object(&found.bytes)?.into_raw();
        Ok(())
    })
}

/// As [`PMIx_Get_credential`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// `info` has `ninfo` elements. `cbfunc` may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_credential_nb(
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_credential_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let directives = unsafe { from_c::infos(info, ninfo) }?;
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let data = CallerData::new(cbdata);
        start_with(GetCredential::new(directives).into(), move |result| deliver(result, callback, data))
    })
}

fn deliver(result: Result<Answer, Status>, callback: pmix_credential_cbfunc_t, data: CallerData) {
    let converted = result.and_then(credential_of).and_then(|found| {
        let bytes = to_c::byte_object(&found.bytes).map_err(|error| error.status())?;
        Ok((bytes, to_c::infos(&found.info).map_err(|error| error.status())?))
    });
    let status = converted.as_ref().map_or_else(|status| *status, |_| Status::SUCCESS);
    let (mut bytes, mut infos) = converted.unwrap_or_else(|_| (Single::constructed(), Array::empty()));
    let place = if status == Status::SUCCESS { bytes.as_mut_ptr() } else { std::ptr::null_mut() };
    // SAFETY: the caller gave the function for this, and its data with it; what it gets lives until it returns.
    unsafe { callback(status.to_raw(), place, infos.as_mut_ptr(), infos.len(), data.get()) };
}

fn credential_of(answer: Answer) -> Result<Credential, Status> {
    match answer.results {
        Results::Credential(credential) => Ok(credential),
        _ => Err(Status::ERROR),
    }
}

/// Validates a credential; the results say what it proves. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// `info` has `ninfo` elements, `cred` is NULL or holds bytes. `results` and `nresults` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Validate_credential(
    cred: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresults) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { validation(cred, info, ninfo) }?;
        // SAFETY: the caller's contract.
        unsafe { run_for_infos(operation, results, nresults) }
    })
}

/// As [`PMIx_Validate_credential`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// `info` has `ninfo` elements, `cred` is NULL or holds bytes. `cbfunc` may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Validate_credential_nb(
    cred: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_validation_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { validation(cred, info, ninfo) }?;
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let data = CallerData::new(cbdata);
        start_with(operation, move |result| {
            let converted = result.and_then(|answer| match answer.results {
                Results::Infos(infos) => Ok((answer.status, to_c::infos(&infos).map_err(|error| error.status())?)),
                _ => Ok((answer.status, Array::empty())),
            });
            let (status, mut infos) = converted.unwrap_or_else(|status| (status, Array::empty()));
            // SAFETY: the caller gave the function for this, and its data with it; the infos live until it returns.
            unsafe { callback(status.to_raw(), infos.as_mut_ptr(), infos.len(), data.get()) };
        })
    })
}

/// # Safety
/// `info` has `ninfo` elements, `cred` is NULL or holds bytes.
unsafe fn validation(
    cred: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    unsafe { pointer::shared(cred, "credential") }?;
    // SAFETY: the caller's contract.
    let credential = unsafe { from_c::byte_object(cred) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    Ok(ValidateCredential::new(credential, directives).into())
}
