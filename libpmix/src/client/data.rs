//! Values: put, commit, get.

use std::hash::{Hash, Hasher};

use modex::GetError;
use modex::keys;
use modex::runtime::Fetched;
use modex::types::AsStatus;
use modex::types::{DataType, Info, Key, ProcId, Rank, Scope, Status, Value};
use rustc_hash::FxHasher;

use crate::argument::{Count, Counted, In, Items, KeyText, ValueOut};
use crate::callback::{Bound, Callback};
use crate::client::KeptValues;
use crate::error::CError;
use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::process::{self, Member, Membership};
use crate::to_c::{self, Single};
use crate::types::{
    PMIX_MAX_NSLEN, pmix_info_t, pmix_proc_t, pmix_scope_t, pmix_status_t, pmix_value_cbfunc_t, pmix_value_t,
};
use crate::{from_c, pointer};

/// Puts a value of this process; other processes see it after [`PMIx_Commit`]. Reserved keys are accepted, because MPI
/// libraries put some: Open MPI the name of its node and its binding. Keys of the server, such as `PMIX_JOB_SIZE`, are
/// refused. See the standard's function of the same name.
///
/// The scopes `PMIX_DEL_LOCAL`, `PMIX_DEL_REMOTE`, `PMIX_DEL_GLOBAL` and `PMIX_DEL_INTERNAL` of OpenPMIx 7.0 remove the
/// value; `val` is ignored. A value of type `PMIX_UNDEF` removes, too. Under an OpenPMIx server before 7.0 only
/// `PMIX_DEL_INTERNAL` works; the others are `PMIX_ERR_NOT_SUPPORTED`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Put(scope: pmix_scope_t, key: KeyText<'_>, val: In<'_, pmix_value_t>) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        let key = from_c::key(key)?;
        if let Some(scope) = Scope::of_removal(scope) {
            return match member {
                Member::Client(client) => Ok(client.remove(scope, key)?),
                Member::Server(role) => {
                    role.server().remove(&key);
                    Ok(())
                }
            };
        }
        let scope = Scope::from_raw(scope).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let value = from_c::value_at(val)?;
        match member {
            Member::Client(client) => Ok(client.put_any(scope, key, value)?),
            // No other process can ask for values of a server, so the scope has no effect.
            Member::Server(role) => Ok(role.server().store_internal(role.server().proc(), key, value)?),
        }
    })
}

/// Makes the values put since the last commit visible. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Commit() -> pmix_status_t {
    guard(|| match process::member()? {
        Member::Client(client) => Ok(client.commit()?),
        Member::Server(_) => Ok(()),
    })
}

/// Stores a value about any process, known or not, for this process alone. See the standard's function of the same
/// name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Store_internal(
    proc: In<'_, pmix_proc_t>,
    key: KeyText<'_>,
    val: In<'_, pmix_value_t>,
) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        let proc = from_c::some_proc(proc, Some(&member.proc().namespace))?;
        let key = from_c::key(key)?;
        let value = from_c::value_at(val)?;
        match member {
            Member::Client(client) => Ok(client.store_internal(&proc, key, value)?),
            Member::Server(role) => Ok(role.server().store_internal(&proc, key, value)?),
        }
    })
}

/// Finds a value, and waits for a missing one unless the directives say otherwise. The caller releases the value. With
/// `PMIX_GET_STATIC_VALUES` the caller's storage in `*val` is filled. With `PMIX_GET_POINTER_VALUES` the library keeps
/// the value, until the last finalize. After a failure `*val` is NULL. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get<'a>(
    proc: In<'a, pmix_proc_t>,
    key: KeyText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    mut val: ValueOut<'a>,
) -> pmix_status_t {
    let infos = info.counted(ninfo);
    let status = guard(|| {
        // A value that is found needs a place to go to.
        let found = if val.is_possible() { peek(proc, key, infos) } else { None };
        if let Some(found) = found {
            val.put(found);
            return Ok(());
        }
        get(proc, key, infos, &mut val)
    });
    if status != Status::SUCCESS.to_raw() {
        val.clear();
    }
    status
}

/// As [`PMIx_Get`], with a callback. The value belongs to the library and is valid until the callback returns.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_nb<'a>(
    proc: In<'a, pmix_proc_t>,
    key: KeyText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_value_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let member = process::member()?;
        let Wanted { proc, key, directives } = wanted(&member, proc, key, info.counted(ninfo))?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        if says(&directives, keys::GET_STATIC_VALUES.name()) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        if let Some(value) = known_here(&member, proc.as_ref(), key.as_ref()) {
            return Ok(member.defer(move || deliver(Ok(value), callback))?);
        }
        match member {
            Member::Client(client) => Ok(client.pending_find(proc, key, &directives).then(move |result| {
                deliver(result.map_err(|error: GetError| error.status()), callback);
            })?),
            Member::Server(role) => {
                if let Some(value) = role.topology_value(proc.as_ref(), key.as_ref(), &directives) {
                    return Ok(role.server().defer(move || deliver(Ok(value), callback))?);
                }
                Ok(role.server().find(proc, key, directives).then(move |result| {
                    deliver(result.map_err(|error| error.status()), callback);
                })?)
            }
        }
    })
}

fn deliver(result: Result<Value, Status>, callback: Bound<pmix_value_cbfunc_t>) {
    callback.call(result.and_then(|value| Single::new(&value).map_err(|error| error.status())));
}

/// The fast path of most Gets: a value of the caller's own job that can be read in place. It copies no argument. It
/// allocates only the caller's value and the memory that the value points to.
#[inline]
fn peek(proc: In<'_, pmix_proc_t>, key: KeyText<'_>, infos: Counted<'_, pmix_info_t>) -> Option<*mut pmix_value_t> {
    if infos.count() > PEEKED_DIRECTIVES_MAX {
        return None;
    }
    let proc = proc.get("process").ok()?.get();
    let mut is_kept = false;
    for info in infos.list("array of infos").ok()?.get() {
        match effect_on_found(info) {
            Effect::None => {}
            Effect::Kept => is_kept = true,
            Effect::Other => return None,
        }
    }
    let key = text_of(key.get("key").ok()??).filter(|key| !key.is_empty())?;
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
    value.type_ == DataType::Bool.to_raw() && value.data.flag() != 0
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
}

fn wanted(
    member: &Member,
    proc: In<'_, pmix_proc_t>,
    key: KeyText<'_>,
    infos: Counted<'_, pmix_info_t>,
) -> Result<Wanted, Failure> {
    let proc = from_c::proc(proc, Some(&member.proc().namespace))?;
    let key = if key.is_null() { None } else { Some(from_c::key(key)?) };
    Ok(Wanted { proc, key, directives: from_c::infos(infos)? })
}

/// Whether a flag is among the directives, and set.
fn says(directives: &[Info], name: &str) -> bool {
    directives.iter().any(|info| info.key.as_str() == name && info.value.as_bool() == Some(true))
}

fn get(
    proc: In<'_, pmix_proc_t>,
    key: KeyText<'_>,
    infos: Counted<'_, pmix_info_t>,
    val: &mut ValueOut<'_>,
) -> Result<(), Failure> {
    let member = process::member()?;
    val.place()?;
    let Wanted { proc, key, directives } = wanted(&member, proc, key, infos)?;
    let place = Place::of(val, &directives)?;
    if let Some(value) = known_here(&member, proc.as_ref(), key.as_ref()) {
        return place.take(member.kept(), number_of(proc.as_ref(), key.as_ref()), value);
    }
    match member {
        Member::Client(membership) => {
            let fetched = membership.find(proc.clone(), key.clone(), &directives)?;
            match place {
                Place::New(val) => *val = to_c::new_fetched(&fetched)?,
                Place::Kept(val) => *val = keep(&membership, proc, key, &fetched)?,
                Place::Static(storage) => to_c::fetched(&fetched, storage)?,
            }
            Ok(())
        }
        Member::Server(role) => {
            let number = number_of(proc.as_ref(), key.as_ref());
            let value = match role.topology_value(proc.as_ref(), key.as_ref(), &directives) {
                Some(value) => value,
                None => role.server().find(proc, key, directives).wait()?,
            };
            place.take(role.kept(), number, value)
        }
    }
}

/// Destination of the value.
enum Place<'a> {
    /// New memory. The caller gets the pointer to it.
    New(&'a mut *mut pmix_value_t),
    /// Memory of the library, which keeps the value. The caller gets the pointer to it.
    Kept(&'a mut *mut pmix_value_t),
    /// The caller's storage.
    Static(&'a mut pmix_value_t),
}

impl<'a> Place<'a> {
    /// The destination that the directives name.
    fn of(val: &'a mut ValueOut<'_>, directives: &[Info]) -> Result<Self, CError> {
        if says(directives, keys::GET_STATIC_VALUES.name()) {
            // SAFETY: the directives of this call ask for a static value.
            return unsafe { val.storage() }.map(Self::Static);
        }
        let is_kept = says(directives, keys::GET_POINTER_VALUES.name());
        val.place().map(if is_kept { Self::Kept } else { Self::New })
    }

    /// Takes a value that lies in no segment. `number` finds it again among the kept ones.
    fn take(self, kept: &KeptValues, number: u64, value: Value) -> Result<(), Failure> {
        match self {
            Self::New(val) => *val = to_c::new_value(&value)?,
            Self::Kept(val) => *val = kept.pointer_to_value(number, value)?,
            Self::Static(storage) => to_c::value(&value, storage)?,
        }
        Ok(())
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

/// A value that the library knows itself: its release, and the address of the server inside a tool.
fn known_here(member: &Member, proc: Option<&ProcId>, key: Option<&Key>) -> Option<Value> {
    match key?.as_str() {
        key if key == keys::VERSION_NUMERIC.name() => Some(Value::Uint32(crate::stand_in::version_number())),
        key if key == keys::MYSERVER_URI.name() => {
            let role = process::read(|state| state.server.clone())?;
            let server = role.server();
            let is_own = *proc.unwrap_or(&member.proc()) == *server.proc();
            is_own.then(|| Value::from(server.uri().as_str()))
        }
        _ => None,
    }
}
