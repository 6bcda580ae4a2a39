//! Events.

use std::collections::BTreeMap;

use modex::keys;
use modex::types::AsStatus;
use modex::types::{DataType, Info, Key, LocalAddress, Status, Value};
use modex::{Client, Completion, EventCall};
use parking_lot::Mutex;

use super::asynchronous::start_or_wait;
use crate::argument::{Count, Counted, In, Items, Marked};
use crate::callback::{Bound, Callback};
use crate::client_request::ClientRequest;
use crate::error::CError;
use crate::form::Plain;
use crate::from_c;
use crate::guard::{Failure, guard_or, guard_status};
use crate::pointer::CallerData;
use crate::process::{self, Member};
use crate::to_c::{self, Array};
use crate::turns;
use crate::types::{
    c_void, pmix_data_range_t, pmix_hdlr_reg_cbfunc_t, pmix_info_t, pmix_notification_fn_t, pmix_op_cbfunc_t,
    pmix_proc_t, pmix_status_t,
};

/// Registers a handler for events with these codes (none: for all that are not marked otherwise). With `cbfunc` the
/// callback gets the handler's number. Without, the call waits and returns it. Handlers run one at a time on the
/// library's thread and may call any function. Each handler calls its completion function once, at any time.
///
/// A NULL handler takes no action, and the event goes on to the next handler. OpenPMIx registers it, too, and crashes
/// at the first event. Events of the host's environment need a request to the host. A function of the host can't wait
/// for it and gets `PMIX_ERR_WOULD_BLOCK`. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Register_event_handler<'a>(
    codes: Items<'a, Plain<pmix_status_t>>,
    ncodes: Count<'a, Plain<pmix_status_t>>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
    evhdlr: Callback<pmix_notification_fn_t>,
    cbfunc: Callback<pmix_hdlr_reg_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    let waits = cbfunc.is_none();
    let status = guard_status(|| {
        let member = process::member()?;
        let codes = from_c::statuses(codes.counted(ncodes))?;
        let directives = from_c::infos(info.counted(ninfo))?;
        let object = return_object(info.counted(ninfo))?;
        let handler: EventHandler = match evhdlr.function() {
            Some(callback) => Box::new(move |call| call_handler(callback, object, call)),
            None => Box::new(|call| call.completion.complete(Status::EVENT_NO_ACTION_TAKEN, Vec::new())),
        };
        let pending = match member {
            Member::Client(client) => client.register_event_handler(&codes, &directives, handler),
            Member::Server(role) => role.server().register_event_handler(&codes, &directives, handler),
        };
        let Some(registered) = cbfunc.with(cbdata) else { return id_as_status(pending.wait()?) };
        pending.then(|id| registered.call(id.map_err(|error| error.status())))?;
        Ok(Status::SUCCESS)
    });
    // The result of a call with a callback is unknown until the callback.
    if waits { info.mark_if(status, ninfo) } else { status }
}

/// The handler of an event.
type EventHandler = Box<dyn Fn(EventCall) + Send + Sync>;

/// A registration's number in the form of a status.
fn id_as_status(id: usize) -> Result<Status, Failure> {
    i32::try_from(id).map(Status::from_raw).map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE))
}

/// The object that the caller wants back in each call. It is never followed.
fn return_object(info: Counted<'_, pmix_info_t>) -> Result<Option<LocalAddress>, CError> {
    for info in info.list("array of infos")?.get() {
        let is_pointer = info.value.type_ == DataType::Pointer.to_raw();
        if is_pointer && from_c::key_in_place(&info.key)? == keys::EVENT_RETURN_OBJECT.name() {
            return Ok(Some(LocalAddress::new(info.value.data.ptr().expose_provenance())));
        }
    }
    Ok(None)
}

/// A call of a C handler. Its arguments live until it is completed, which may be long after the handler returned.
struct Running {
    source: Box<pmix_proc_t>,
    info: Array<pmix_info_t>,
    results: Array<pmix_info_t>,
    completion: Completion,
}

/// Uncompleted calls, by number. Handlers get the number as notification data, so that a second completion finds
/// nothing.
struct Calls {
    last: usize,
    running: BTreeMap<usize, Running>,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { last: 0, running: BTreeMap::new() });

fn call_handler(callback: pmix_notification_fn_t, object: Option<LocalAddress>, call: EventCall) {
    let (handler, status) = (call.handler, call.status);
    let mut running = match prepare(object, call) {
        Ok(running) => running,
        Err(error) => return tracing::error!(handler, %status, %error, "an event can't be shown to its handler"),
    };
    let source: *const pmix_proc_t = &raw const *running.source;
    let (info, ninfo) = (running.info.as_mut_ptr(), running.info.len());
    let (results, nresults) = (running.results.as_mut_ptr(), running.results.len());
    let number = {
        let mut calls = CALLS.lock();
        calls.last += 1;
        let number = calls.last;
        calls.running.insert(number, running);
        number
    };
    let data = std::ptr::without_provenance_mut(number);
    // SAFETY: the function is a handler (B3 of `callback`); what it gets lives until it completes the call.
    let called = turns::in_turn(|| unsafe {
        callback(handler, status.to_raw(), source, info, ninfo, results, nresults, Some(complete), data);
    });
    if called.is_none() {
        // Nobody completes the call any more.
        drop(CALLS.lock().running.remove(&number));
    }
}

fn prepare(object: Option<LocalAddress>, mut call: EventCall) -> Result<Running, CError> {
    if let Some(object) = object {
        let entries = call.info.iter_mut().filter(|info| info.key.as_str() == keys::EVENT_RETURN_OBJECT.name());
        entries.for_each(|entry| entry.value = Value::Pointer(object));
    }
    Ok(Running {
        source: Box::new(to_c::optional_proc(call.source.as_ref())),
        info: to_c::infos(&call.info)?,
        results: to_c::infos(&call.results)?,
        completion: call.completion,
    })
}

/// The completion function of every C handler. `results` are copied; the call of `cbfunc` permits their release.
unsafe extern "C" fn complete(
    status: pmix_status_t,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    thiscbdata: *mut c_void,
    notification_cbdata: *mut c_void,
) {
    guard_or((), || {
        // SAFETY: the handler passes so many infos, alive until this returns (the standard's rule for this function).
        let copied = from_c::infos(unsafe { Counted::new(results, nresults) });
        let running = CALLS.lock().running.remove(&notification_cbdata.addr());
        match running {
            Some(running) => {
                let results = copied.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the results of an event handler can't be read; the next one gets none");
                    Vec::new()
                });
                running.completion.complete(Status::from_raw(status), results);
            }
            None => tracing::warn!("an event handler has completed a call twice, or one that never was"),
        }
        let (Some(function), data) = (cbfunc, CallerData::of(thiscbdata)) else { return };
        // SAFETY: the handler passes the function with its data, for one call on any thread (the standard's rule for
        // this function). The copy of this closure runs only if the first one does not.
        let release = move || unsafe { Bound::new(function, data) }.call(Status::SUCCESS);
        // Without a thread of the library, the caller's thread may run it.
        if process::member().and_then(|member| member.defer(release)).is_err() {
            release();
        }
    });
}

/// Ends a registration. A number that no handler has counts as ended: the call succeeds and the callback runs.
/// Without a callback the call waits until the handler runs nowhere, unless it is called from a handler. It waits at
/// most one second, because the handler may wait for what the caller holds. See the standard's function of the same
/// name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Deregister_event_handler(
    evhdlr_ref: usize,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let pending = match process::member()? {
            Member::Client(client) => client.deregister_event_handler(evhdlr_ref),
            Member::Server(role) => role.server().deregister_event_handler(evhdlr_ref),
        };
        match cbfunc.with(cbdata) {
            Some(callback) => pending
                .then(move |result| callback.call(result.map_or_else(|error| error.status(), |()| Status::SUCCESS)))?,
            None => pending.wait()?,
        }
        Ok(Status::SUCCESS)
    })
}

/// Notifies processes in range of an event. The callback permits the release of the arguments; without a callback the
/// call waits. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Notify_event<'a>(
    status: pmix_status_t,
    source: In<'a, pmix_proc_t>,
    range: pmix_data_range_t,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let own = process::member()?.proc().namespace;
        let source = from_c::proc(source, Some(&own))?;
        let info = from_c::infos(info.counted(ninfo))?;
        start_or_wait(ClientRequest::Notify { status: Status::from_raw(status), source, range, info }, cbfunc, cbdata)
    })
}

/// Delivers the declaration of a programming model to the handlers of this process, before it returns. Other processes
/// are not concerned, and the declaring code wants the handlers informed before it goes on.
pub(super) fn declare_model(client: &Client, infos: &[Info]) {
    if !infos.iter().any(|info| info.key.as_str() == keys::PROGRAMMING_MODEL.name()) {
        return;
    }
    let mut declared: Vec<Info> = infos.to_vec();
    declared.push(Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true));
    client.deliver_locally(Status::MODEL_DECLARED, None, &declared);
}
