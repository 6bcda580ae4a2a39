//! Credentials.

use modex::types::AsStatus;
use modex::types::Status;
use modex::{Credential, GetCredential, ValidateCredential};

use super::asynchronous::{run_for_infos, start_with};
use crate::argument::{Count, Counted, In, Items, Out, OutArray};
use crate::call;
use crate::callback::{Bound, Callback};
use crate::client_request::{Answer, ClientRequest, Results};
use crate::guard::{Failure, guard, guard_status};
use crate::pointer::CallerData;
use crate::to_c::{self, Array};
use crate::types::{
    pmix_byte_object_t, pmix_credential_cbfunc_t, pmix_info_t, pmix_status_t, pmix_validation_cbfunc_t,
};
use crate::{from_c, process};

/// Asks for a credential. See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_credential<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    mut credential: Out<'a, pmix_byte_object_t>,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        let place = credential.place("place for the credential")?;
        let directives = from_c::infos(info.counted(ninfo))?;
        let found = credential_of(call::run(GetCredential::new(directives).into())?)?;
        *place = to_c::byte_object(&found.bytes)?.into_raw();
        Ok(())
    })
}

/// As [`PMIx_Get_credential`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_credential_nb<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_credential_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        let directives = from_c::infos(info.counted(ninfo))?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        start_with(GetCredential::new(directives).into(), move |result| deliver(result, callback))
    })
}

fn deliver(result: Result<Answer, Status>, callback: Bound<pmix_credential_cbfunc_t>) {
    callback.call(result.and_then(credential_of).and_then(|found| {
        let bytes = to_c::byte_object(&found.bytes).map_err(|error| error.status())?;
        Ok((bytes, to_c::infos(&found.info).map_err(|error| error.status())?))
    }));
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
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Validate_credential<'a>(
    cred: In<'a, pmix_byte_object_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresults: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresults);
    guard_status(|| {
        let request = validation(cred, info.counted(ninfo))?;
        run_for_infos(request, &mut results)
    })
}

/// As [`PMIx_Validate_credential`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Validate_credential_nb<'a>(
    cred: In<'a, pmix_byte_object_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_validation_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = validation(cred, info.counted(ninfo))?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        start_with(request, move |result| {
            let converted = result.and_then(|answer| match answer.results {
                Results::Infos(infos) => Ok((answer.status, to_c::infos(&infos).map_err(|error| error.status())?)),
                _ => Ok((answer.status, Array::empty())),
            });
            let (status, infos) = converted.unwrap_or_else(|status| (status, Array::empty()));
            callback.call(status, infos);
        })
    })
}

fn validation(cred: In<'_, pmix_byte_object_t>, info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    cred.get("credential")?;
    let credential = from_c::byte_object(cred)?;
    let directives = from_c::infos(info)?;
    Ok(ValidateCredential::new(credential, directives).into())
}
