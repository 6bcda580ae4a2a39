//! Values: put, commit, get.

use std::hash::{Hash, Hasher};

use modex::GetError;
use modex::keys;
use modex::runtime::Fetched;
use modex::types::AsStatus;
use modex::types::{DataType, Info, Key, ProcId, Rank, Scope, Status, Value};
use rustc_hash::FxHasher;

use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::process::{self, Member, Membership};
use crate::server_role::Done;
use crate::to_c::{self, Single};
use crate::types::{
    PMIX_MAX_KEYLEN, PMIX_MAX_NSLEN, c_char, c_void, pmix_info_t, pmix_proc_t, pmix_scope_t, pmix_status_t,
    pmix_value_cbfunc_t, pmix_value_t,
};
use crate::{from_c, pointer};

/// Puts a value of this process; other processes see it after [`PMIx_Commit`]. Reserved keys are accepted: MPI libraries put some. See
/// the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `key` is NULL or NUL-terminated, `val` is NULL or points to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Put(scope: pmix_scope_t, key: *const c_char, val: *mut pmix_value_t) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        let scope = Scope::from_raw(scope).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // SAFETY: the caller's contract.
        let key = unsafe { from_c::key(key) }?;
        // SAFETY: the caller's contract.
        let value = unsafe { from_c::value_at(val) }?;
        match member {
            Member::Client(client) => Ok(client.put_any(scope, key, value)?),
            Member::Server(server) => Ok(server.put(scope, key, value)?),
        }
    })
}

/// Makes the values put since the last commit visible. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Commit() -> pmix_status_t {
    guard(|| match process::member()? {
        Member::Client(client) => Ok(client.commit()?),
        Member::Server(server) => Ok(server.commit()?),
    })
}

/// Stores a value about any process, known or not, for this process alone. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `proc`, `key` and `val` are NULL or point to a process, a NUL-terminated string, a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Store_internal(
    proc: *const pmix_proc_t,
    key: *const c_char,
    val: *mut pmix_value_t,
) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        // SAFETY: the caller's contract.
        let proc = unsafe { from_c::some_proc(proc, Some(&member.proc().namespace)) }?;
        // SAFETY: the caller's contract.
        let key = unsafe { from_c::key(key) }?;
        // SAFETY: the caller's contract.
        let value = unsafe { from_c::value_at(val) }?;
        match member {
            Member::Client(client) => Ok(client.store_internal(&proc, key, value)?),
            Member::Server(server) => Ok(server.store_internal(&proc, key, value)?),
        }
    })
}

/// Finds a value, and waits for a missing one unless the directives say otherwise. The caller releases the value. With
/// `PMIX_GET_STATIC_VALUES` the caller's storage in `*val` is filled. With `PMIX_GET_POINTER_VALUES` the library keeps the value, until
/// the last finalize. After a failure `*val` is NULL. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `proc` is NULL or points to a process, `key` is NULL or NUL-terminated, `info` has `ninfo` elements, `val` may be
/// written (and read, for static values).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    val: *mut *mut pmix_value_t,
) -> pmix_status_t {
    let status = guard(|| {
        // SAFETY: the caller's contract. What is found must have a place to go to.
        let found = if val.is_null() { None } else { unsafe { peek(proc, key, info, ninfo) } };
        if let Some(found) = found {
            // SAFETY: not null, and may be written (the caller's contract).
            unsafe { val.write(found) };
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { get(proc, key, info, ninfo, val) }
    });
    if status != Status::SUCCESS.to_raw() {
        // SAFETY: the caller's contract.
        unsafe { pointer::clear(val) };
    }
    status
}

/// As [`PMIx_Get`], with a callback. The value belongs to the library and is valid until the callback returns.
///
/// Support: implemented.
///
/// # Safety
/// `proc` is NULL or points to a process, `key` is NULL or NUL-terminated, `info` has `ninfo` elements. `cbfunc` may be
/// called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Get_nb(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_value_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        // SAFETY: the caller's contract.
        let Wanted { proc, key, directives, place } = unsafe { wanted(&member, proc, key, info, ninfo) }?;
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        if place == Place::Caller {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        let data = CallerData::new(cbdata);
        if is_version(key.as_ref()) {
            return Ok(member.defer(move || deliver(Ok(version()), callback, data))?);
        }
        match member {
            Member::Client(client) => Ok(client.pending_find(proc, key, &directives).then(move |result| {
                deliver(result.map_err(|error: GetError| error.status()), callback, data);
            })?),
            Member::Server(server) => {
                let done = Done::callback(move |result| deliver(result, callback, data));
                Ok(server.get(proc, key, directives, done)?)
            }
        }
    })
}

fn deliver(result: Result<Value, Status>, callback: pmix_value_cbfunc_t, data: CallerData) {
    let converted = result.and_then(|value| Single::<pmix_value_t>::new(&value).map_err(|error| error.status()));
    match converted {
        // SAFETY: the caller gave the function for this, and its data with it; the value lives until it returns.
        Ok(mut value) => unsafe { callback(Status::SUCCESS.to_raw(), value.as_mut_ptr(), data.get()) },
        // SAFETY: as above.
        Err(status) => unsafe { callback(status.to_raw(), std::ptr::null_mut(), data.get()) },
    }
}

/// The fast path of most Gets: a value of the caller's own job that can be read in place. It copies no argument. It allocates only the
/// caller's value and the memory that the value points to.
///
/// # Safety
/// As [`PMIx_Get`], without `val`.
#[inline]
unsafe fn peek(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Option<*mut pmix_value_t> {
    if ninfo > PEEKED_DIRECTIVES_MAX {
        return None;
    }
    // SAFETY: P1, by the caller's contract.
    let proc = unsafe { pointer::shared(proc, "process") }.ok()?;
    // SAFETY: P1, by the caller's contract.
    let infos = unsafe { pointer::slice(info, ninfo, "array of infos") }.ok()?;
    let mut is_kept = false;
    for info in infos {
        match effect_on_found(info) {
            Effect::None => {}
            Effect::Kept => is_kept = true,
            Effect::Other => return None,
        }
    }
    // SAFETY: P1, by the caller's contract.
    let key = unsafe { pointer::text_within(key, PMIX_MAX_KEYLEN + 1, "key") }.ok()??;
    let key = text_of(key).filter(|key| !key.is_empty())?;
    let rank = Rank::from_raw(proc.rank).ok()?;
    process::peek_client(|membership| {
        if !is_namespace(proc, membership.proc().namespace.as_str()) {
            return None;
        }
        let found = membership.peek_value(rank, key)?;
        if is_kept {
            return membership.kept.pointer_to(kept_number(proc.rank, Some(key)), &found).ok();
        }
        to_c::new_fetched(&found).ok()
    })
}

/// Keys of the standard are ASCII, which is checked faster than UTF-8.
#[inline]
fn text_of(bytes: &[u8]) -> Option<&str> {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return Some(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes).ok()
}

/// More directives than callers give; longer lists go through the path that reads all directives.
const PEEKED_DIRECTIVES_MAX: usize = 4;

/// Meaning of a directive for a value that exists.
enum Effect {
    /// None: it applies to missing values only.
    None,
    /// The caller wants a pointer to the library's value.
    Kept,
    /// Unknown here: the path that reads all directives decides.
    Other,
}

fn effect_on_found(info: &pmix_info_t) -> Effect {
    let key = pointer::fixed_text(&info.key, "key").unwrap_or_default();
    let is = |name: &str| name.as_bytes() == key;
    if is(keys::OPTIONAL.name()) || is(keys::IMMEDIATE.name()) || is(keys::TIMEOUT.name()) {
        Effect::None
    } else if is(keys::GET_POINTER_VALUES.name()) && is_true(&info.value) {
        Effect::Kept
    } else {
        Effect::Other
    }
}

/// Whether a flag is set; a flag without a value is set.
fn is_true(value: &pmix_value_t) -> bool {
    if value.type_ == DataType::Undefined.to_raw() {
        return true;
    }
    // SAFETY: the type says so (P1).
    value.type_ == DataType::Bool.to_raw() && unsafe { value.data.flag } != 0
}

/// Whether the process is in the namespace `own`. An empty name means the caller's own namespace.
#[inline]
fn is_namespace(proc: &pmix_proc_t, own: &str) -> bool {
    let name: &[u8; PMIX_MAX_NSLEN + 1] = zerocopy::transmute_ref!(&proc.nspace);
    name.first() == Some(&0) || (name.get(own.len()) == Some(&0) && name.get(..own.len()) == Some(own.as_bytes()))
}

/// The number under which a value is found again; see [`KeptValues`](super::KeptValues).
fn kept_number(rank: u32, key: Option<&str>) -> u64 {
    let mut hasher = FxHasher::default();
    (rank, key).hash(&mut hasher);
    hasher.finish()
}

/// Arguments of a Get.
struct Wanted {
    proc: Option<ProcId>,
    key: Option<Key>,
    directives: Vec<Info>,
    place: Place,
}

/// Destination of the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Into new memory.
    New,
    /// Into the caller's storage.
    Caller,
    /// None: the caller gets a pointer to the library's value.
    Library,
}

/// # Safety
/// As [`PMIx_Get`], without `val`.
unsafe fn wanted(
    member: &Member,
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Wanted, Failure> {
    // SAFETY: the caller's contract.
    let proc = unsafe { from_c::proc(proc, Some(&member.proc().namespace)) }?;
    // SAFETY: the caller's contract.
    let key = if key.is_null() { None } else { Some(unsafe { from_c::key(key) }?) };
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    let says =
        |name: &str| directives.iter().any(|info| info.key.as_str() == name && info.value.as_bool() == Some(true));
    let place = if says(keys::GET_STATIC_VALUES.name()) {
        Place::Caller
    } else if says(keys::GET_POINTER_VALUES.name()) {
        Place::Library
    } else {
        Place::New
    };
    Ok(Wanted { proc, key, directives, place })
}

/// # Safety
/// As [`PMIx_Get`].
unsafe fn get(
    proc: *const pmix_proc_t,
    key: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    val: *mut *mut pmix_value_t,
) -> Result<(), Failure> {
    let member = process::member()?;
    // SAFETY: the caller's contract.
    let val = unsafe { pointer::unique(val, "place for the value") }?;
    // SAFETY: the caller's contract.
    let wanted = unsafe { wanted(&member, proc, key, info, ninfo) }?;
    let storage = match wanted.place {
        // SAFETY: the caller's contract: it gives its storage.
        Place::Caller => Some(unsafe { pointer::unique(*val, "storage for the value") }?),
        Place::New | Place::Library => None,
    };
    if is_version(wanted.key.as_ref()) {
        return Ok(place_value(&version(), val, storage)?);
    }
    match member {
        Member::Client(membership) => {
            let Wanted { proc, key, directives, place } = wanted;
            let fetched = membership.find(proc.clone(), key.clone(), &directives)?;
            match (place, storage) {
                (Place::Library, _) => *val = keep(&membership, proc, key, &fetched)?,
                (_, Some(storage)) => to_c::fetched(&fetched, storage)?,
                (_, None) => *val = to_c::new_fetched(&fetched)?,
            }
            Ok(())
        }
        Member::Server(server) => {
            let (done, answer) = Done::waiter();
            let number = number_of(wanted.proc.as_ref(), wanted.key.as_ref());
            server.get(wanted.proc, wanted.key, wanted.directives, done)?;
            let value = answer.wait()?;
            if wanted.place == Place::Library {
                *val = server.kept().pointer_to_value(number, value)?;
                return Ok(());
            }
            Ok(place_value(&value, val, storage)?)
        }
    }
}

fn place_value(
    value: &Value,
    val: &mut *mut pmix_value_t,
    storage: Option<&mut pmix_value_t>,
) -> Result<(), crate::error::CError> {
    match storage {
        Some(storage) => to_c::value(value, storage),
        None => {
            *val = to_c::new_value(value)?;
            Ok(())
        }
    }
}

fn keep(
    membership: &Membership,
    proc: Option<ProcId>,
    key: Option<Key>,
    fetched: &Fetched<'_>,
) -> Result<*mut pmix_value_t, Failure> {
    membership.kept.pointer_to(number_of(proc.as_ref(), key.as_ref()), fetched)
}

fn number_of(proc: Option<&ProcId>, key: Option<&Key>) -> u64 {
    let rank = proc.map_or(Rank::Undefined, |proc| proc.rank);
    kept_number(rank.to_raw(), key.map(Key::as_str))
}

/// Whether the key asks for the library's version, which no process stores.
fn is_version(key: Option<&Key>) -> bool {
    key.is_some_and(|key| key.as_str() == keys::VERSION_NUMERIC.name())
}

fn version() -> Value {
    Value::Uint32(super::lifecycle::VERSION_NUMBER)
}
