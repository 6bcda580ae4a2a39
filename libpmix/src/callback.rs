//! Calls of the C caller's functions.
//!
//! A function with a callback takes a [`Callback`] and a [`CallerData`]. Together they are a [`Bound`], whose `call`
//! takes Rust values and lends them to C for as long as the standard says. So each kind of callback is called in one
//! place.
//!
//! - **B1** The function is NULL, or it may be called once on any thread with the data that came with it (rule of every
//!   contract with a callback). A [`Bound`] is used up by the call. A [`Callback`] is bound again only if its first [`Bound`]
//!   was dropped without a call.
//! - **B2** Arguments live until the callback returns, or until it calls the release function (`lent`).
//! - **B3** Handlers are the exception to B1. Functions for output ([`OutputFunction`]) and for events (`client::events`) may be
//!   called any number of times, and with other data than the caller's.

use modex::types::Status;

use super::guard::guard_or;
use super::lent;
use super::pointer::CallerData;
use super::to_c::{Array, Single};
use super::turns;
use super::types::{
    c_void, pmix_byte_object_t, pmix_credential_cbfunc_t, pmix_device_dist_cbfunc_t, pmix_device_distance_t,
    pmix_dmodex_response_fn_t, pmix_hdlr_reg_cbfunc_t, pmix_info_cbfunc_t, pmix_info_t, pmix_iof_cbfunc_t,
    pmix_iof_channel_t, pmix_lookup_cbfunc_t, pmix_nspace_t, pmix_op_cbfunc_t, pmix_pdata_t, pmix_proc_t,
    pmix_release_cbfunc_t, pmix_setup_application_cbfunc_t, pmix_spawn_cbfunc_t, pmix_status_t,
    pmix_validation_cbfunc_t, pmix_value_cbfunc_t, pmix_value_t,
};

/// A function of the caller, as an argument (B1). `C` is the type of the function.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Callback<C>(Option<C>);

impl<C> Callback<C> {
    #[cfg(test)]
    pub(crate) const fn of(function: Option<C>) -> Self {
        Self(function)
    }

    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The function with its data; `None` without a function.
    #[must_use]
    pub fn with(self, data: CallerData) -> Option<Bound<C>> {
        self.0.map(|function| Bound { function, data })
    }

    /// The function alone, for the calls of a handler (B3).
    #[must_use]
    pub fn function(self) -> Option<C> {
        self.0
    }
}

/// A function of the caller and its data (B1).
#[derive(Debug)]
pub struct Bound<C> {
    function: C,
    data: CallerData,
}

impl<C> Bound<C> {
    /// Asserts B1 for a function that is no argument of an exported function.
    ///
    /// # Safety
    /// B1: the function may be called once on any thread with this data.
    pub(crate) const unsafe fn new(function: C, data: CallerData) -> Self {
        Self { function, data }
    }
}

/// Calls a function of the program when it is its turn. A process that has finalized is called no more.
fn call_c(call: impl FnOnce()) {
    let _ = turns::in_turn(call);
}

/// Reports a status, for functions with no other result.
impl Bound<pmix_op_cbfunc_t> {
    pub(crate) fn call(self, status: Status) {
        // SAFETY: the function takes any status, and the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), self.data.get()) });
    }
}

/// Reports the number of a registration.
impl Bound<pmix_hdlr_reg_cbfunc_t> {
    pub(crate) fn call(self, id: Result<usize, Status>) {
        let status = id.map_or_else(|status| status, |_| Status::SUCCESS);
        // SAFETY: the function takes any numbers, and the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), id.unwrap_or(usize::MAX), self.data.get()) });
    }
}

/// Lends a value, until the callback returns.
impl Bound<pmix_value_cbfunc_t> {
    pub(crate) fn call(self, result: Result<Single<pmix_value_t>, Status>) {
        let status = result.as_ref().map_or_else(|status| *status, |_| Status::SUCCESS);
        let mut value = result.ok();
        let place = value.as_mut().map_or(std::ptr::null_mut(), Single::as_mut_ptr);
        // SAFETY: NULL or `value`, which lives until the function returns (B2); the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), place, self.data.get()) });
    }
}

/// Lends infos, until the callback calls the release function.
impl Bound<pmix_info_cbfunc_t> {
    /// An empty array needs no release.
    pub(crate) fn call(self, status: Status, infos: Array<pmix_info_t>) {
        let release: Option<pmix_release_cbfunc_t> = if infos.is_empty() { None } else { Some(release) };
        self.lend(status, infos, release);
    }

    /// The callback gets a release function in any case.
    pub(crate) fn call_with_release(self, status: Status, infos: Array<pmix_info_t>) {
        self.lend(status, infos, Some(release));
    }

    fn lend(self, status: Status, infos: Array<pmix_info_t>, release: Option<pmix_release_cbfunc_t>) {
        let (first, count) = (infos.as_ptr().cast_mut(), infos.len());
        let token = if infos.is_empty() { std::ptr::null_mut() } else { lent::lend(infos) };
        // SAFETY: the infos live until their release (B2); the data is the function's own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), first, count, self.data.get(), release, token) });
    }
}

/// Lends distances, until the callback calls the release function.
impl Bound<pmix_device_dist_cbfunc_t> {
    pub(crate) fn call(self, status: Status, distances: Array<pmix_device_distance_t>) {
        let (first, count) = (distances.as_ptr().cast_mut(), distances.len());
        let token = lent::lend(distances);
        // SAFETY: the distances live until their release (B2); the data is the function's own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), first, count, self.data.get(), Some(release), token) });
    }
}

/// Lends published values, until the callback returns.
impl Bound<pmix_lookup_cbfunc_t> {
    pub(crate) fn call(self, status: Status, mut found: Array<pmix_pdata_t>) {
        // SAFETY: `found` lives until the function returns (B2); the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), found.as_mut_ptr(), found.len(), self.data.get()) });
    }
}

/// Lends infos, until the callback returns.
impl Bound<pmix_validation_cbfunc_t> {
    pub(crate) fn call(self, status: Status, mut infos: Array<pmix_info_t>) {
        // SAFETY: `infos` lives until the function returns (B2); the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), infos.as_mut_ptr(), infos.len(), self.data.get()) });
    }
}

/// Lends a credential, until the callback returns.
impl Bound<pmix_credential_cbfunc_t> {
    pub(crate) fn call(self, result: Result<(Single<pmix_byte_object_t>, Array<pmix_info_t>), Status>) {
        let status = result.as_ref().map_or_else(|status| *status, |_| Status::SUCCESS);
        let (mut bytes, mut infos) = match result {
            Ok((bytes, infos)) => (Some(bytes), infos),
            Err(_) => (None, Array::empty()),
        };
        let place = bytes.as_mut().map_or(std::ptr::null_mut(), Single::as_mut_ptr);
        // SAFETY: `bytes` and `infos` live until the function returns (B2); the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), place, infos.as_mut_ptr(), infos.len(), self.data.get()) });
    }
}

/// Lends the namespace of a new job, until the callback returns.
impl Bound<pmix_spawn_cbfunc_t> {
    pub(crate) fn call(self, result: Result<pmix_nspace_t, Status>) {
        let status = result.as_ref().map_or_else(|status| *status, |_| Status::SUCCESS);
        let mut name = result.ok();
        let place = name.as_mut().map_or(std::ptr::null_mut(), |name| name.as_mut_ptr());
        // SAFETY: NULL or `name`, which lives until the function returns (B2); the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), place, self.data.get()) });
    }
}

/// Lends infos, until the callback calls the release function, which it gets even without infos.
impl Bound<pmix_setup_application_cbfunc_t> {
    pub(crate) fn call(self, result: Result<Array<pmix_info_t>, Status>) {
        let status = result.as_ref().map_or_else(|status| *status, |_| Status::SUCCESS);
        let infos = result.unwrap_or_else(|_| Array::empty());
        let (first, count) = (infos.as_ptr().cast_mut(), infos.len());
        let (release, token) = (Some(release_with_status as pmix_op_cbfunc_t), lent::lend(infos));
        // SAFETY: the infos live until their release (B2); the data is the function's own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), first, count, self.data.get(), release, token) });
    }
}

/// Lends packed data, until the callback returns.
impl Bound<pmix_dmodex_response_fn_t> {
    pub(crate) fn call(self, result: Result<Vec<u8>, Status>) {
        let status = result.as_ref().map_or_else(|status| *status, |_| Status::SUCCESS);
        let mut bytes = result.unwrap_or_default();
        let first = if bytes.is_empty() { std::ptr::null_mut() } else { bytes.as_mut_ptr().cast() };
        // SAFETY: NULL or `bytes`, which live until the function returns (B2); the data is its own (B1).
        call_c(|| unsafe { (self.function)(status.to_raw(), first, bytes.len(), self.data.get()) });
    }
}

/// A function for output, which is called for every piece (B3).
#[derive(Debug)]
pub struct OutputFunction(pmix_iof_cbfunc_t);

impl Callback<pmix_iof_cbfunc_t> {
    /// The function; it has no data.
    pub(crate) fn for_output(self) -> Option<OutputFunction> {
        self.0.map(OutputFunction)
    }
}

impl OutputFunction {
    /// Lends a piece of output, until the callback returns.
    pub(crate) fn call(
        &self,
        id: usize,
        channel: pmix_iof_channel_t,
        mut source: pmix_proc_t,
        mut bytes: Single<pmix_byte_object_t>,
        mut infos: Array<pmix_info_t>,
    ) {
        let (first, count) = (infos.as_mut_ptr(), infos.len());
        // SAFETY: the arguments live until the function returns (B2); it may be called for every piece (B3).
        call_c(|| unsafe { (self.0)(id, channel, &raw mut source, bytes.as_mut_ptr(), first, count) });
    }
}

/// The release function. A token that names nothing is ignored.
extern "C" fn release(token: *mut c_void) {
    guard_or((), || lent::take_back(token));
}

/// As [`release`], in the form that `PMIx_server_setup_application` uses.
extern "C" fn release_with_status(_: pmix_status_t, token: *mut c_void) {
    release(token);
}
