//! The host's functions, called from Rust: each request becomes the arguments of its entry.

use std::slice::from_ref;
use std::sync::Arc;

use modex::proto::exchange::ExchangeForm;
use modex::types::codes::fabric_op::{FABRIC_REQUEST_INFO, FABRIC_UPDATE_INFO};
use modex::types::{Info, Key, ProcId, Status, Text, Value};
use modex::{
    AbortUpcall, Allocate, Capabilities, ClientConnected, ClientFinalized, Connect, DirectModex, Event, FabricRegister,
    FabricUpdate, GetCredential, GroupRequest, HostFacts, IofPull, IofPush, JobControl, Log, Lookup, Monitor, Publish,
    QueryInfo, RegisterEvents, Requester, ResourceBlock, SessionControl, Spawn, ToolUpcall, Unpublish,
    ValidateCredential, keys,
};
use parking_lot::{RwLock, RwLockReadGuard};

use super::answers;
use super::due::{Due, Held, ask};
use super::flow::FlowControl;
use crate::error::CError;
use crate::form::{Form, Str};
use crate::to_c::{Array, Single};
use crate::types::{
    c_char, c_int, c_uint, c_void, pmix_byte_object_t, pmix_resource_unit_t, pmix_server_module_t, pmix_status_t,
};
use crate::{memory, to_c, turns};

/// A host's functions.
pub(in crate::server) struct Bridge {
    module: RwLock<pmix_server_module_t>,
    /// Format of data for other servers.
    pub(in crate::server) form: ExchangeForm,
    /// The host's process sets and attributes.
    pub(in crate::server) facts: HostFacts,
    /// Pauses of pushed input.
    pub(in crate::server) flow: Arc<FlowControl>,
    /// Whether this server logs for all servers of its job.
    pub(in crate::server) is_gateway: bool,
}

/// A fence as it goes to the other servers.
pub(in crate::server) struct OutgoingFence {
    pub(in crate::server) procs: Vec<ProcId>,
    pub(in crate::server) directives: Vec<Info>,
    pub(in crate::server) contribution: Vec<u8>,
}

/// Gives the host's functions to a macro. An entry has the capability, the request, the answer, the arguments, and the
/// entry of the module with the callback for the answer. The entries under `own` need more than the call: see
/// [`ModuleHost`](super::host::ModuleHost).
macro_rules! with_entries {
    ($macro:ident) => {
        $macro! {
            passed {
                CLIENT_FINALIZED: fn client_finalized(client: ClientFinalized) -> () {
                    let proc = one(&client.proc);
                    => client_finalized(proc.first, object(client.object); status)
                }

                ABORT: fn abort(request: AbortUpcall) -> () {
                    let proc = one(&request.requester);
                    let message = Single::<Str>::new(&request.message);
                    let procs = to_c::procs(&request.procs);
                    => abort(
                        proc.first, object(request.object), request.status.to_raw(), message, procs.first, procs.count; status
                    )
                }

                PUBLISH: fn publish(requester: Requester, request: Publish) -> () {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&request.info);
                    => publish(proc.first, infos.first, infos.count; status)
                }

                LOOKUP: fn lookup(requester: Requester, request: Lookup) -> Vec<Pdata> {
                    let proc = one(&requester.proc);
                    let keys = key_texts(&request.keys);
                    let infos = to_c::infos(&request.directives);
                    => lookup(proc.first, keys, infos.first, infos.count; found)
                }

                UNPUBLISH: fn unpublish(requester: Requester, request: Unpublish) -> () {
                    let proc = one(&requester.proc);
                    let keys = key_texts(&request.keys);
                    let infos = to_c::infos(&request.directives);
                    => unpublish(proc.first, keys, infos.first, infos.count; status)
                }

                SPAWN: fn spawn(requester: Requester, request: Spawn) -> Namespace {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&request.job);
                    let apps = to_c::apps(&request.apps);
                    => spawn(proc.first, infos.first, infos.count, apps.first, apps.count; namespace)
                }

                CONNECT: fn connect(request: Connect) -> () {
                    let procs = to_c::procs(&request.procs);
                    let infos = to_c::infos(&request.directives);
                    => connect(procs.first, procs.count, infos.first, infos.count; status)
                }

                DISCONNECT: fn disconnect(request: Connect) -> () {
                    let procs = to_c::procs(&request.procs);
                    let infos = to_c::infos(&request.directives);
                    => disconnect(procs.first, procs.count, infos.first, infos.count; status)
                }

                REGISTER_EVENTS: fn register_events(request: RegisterEvents) -> () {
                    let codes = codes(&request.codes);
                    let infos = to_c::infos(&request.directives);
                    => register_events(codes.first, codes.count, infos.first, infos.count; status)
                }

                DEREGISTER_EVENTS: fn deregister_events(request: Vec<Status>) -> () {
                    let codes = codes(&request);
                    => deregister_events(codes.first, codes.count; status)
                }

                NOTIFY_EVENT: fn notify_event(event: Event) -> () {
                    let source = Ok::<_, CError>(vec![to_c::optional_proc(event.source.as_ref())]);
                    let infos = to_c::infos(&event.info);
                    => notify_event(event.status.to_raw(), source.first, event.range, infos.first, infos.count; status)
                }

                ALLOCATE: fn allocate(requester: Requester, request: Allocate) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&request.info);
                    => allocate(proc.first, request.directive, infos.first, infos.count; infos)
                }

                JOB_CONTROL: fn job_control(requester: Requester, request: JobControl) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let targets = to_c::procs(&request.targets);
                    let infos = to_c::infos(&request.directives);
                    => job_control(proc.first, targets.first, targets.count, infos.first, infos.count; infos)
                }

                MONITOR: fn monitor(requester: Requester, request: Monitor) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let monitor = to_c::infos(from_ref(&request.monitor));
                    let infos = to_c::infos(&request.directives);
                    => monitor(proc.first, monitor.first, request.error.to_raw(), infos.first, infos.count; infos)
                }

                GET_CREDENTIAL: fn get_credential(requester: Requester, request: GetCredential) -> Credential {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&request.directives);
                    => get_credential(proc.first, infos.first, infos.count; credential)
                }

                VALIDATE_CREDENTIAL: fn validate_credential(requester: Requester, request: ValidateCredential) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let credential = Array::<pmix_byte_object_t>::new(from_ref(&request.credential));
                    let infos = to_c::infos(&request.directives);
                    => validate_credential(proc.first, credential.first, infos.first, infos.count; validated)
                }

                FABRIC_REGISTER: fn fabric_register(requester: Requester, request: FabricRegister) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&request.directives);
                    => fabric(proc.first, FABRIC_REQUEST_INFO, infos.first, infos.count; infos)
                }

                FABRIC_UPDATE: fn fabric_update(requester: Requester, request: FabricUpdate) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&directives_of_update(&requester, &request));
                    => fabric(proc.first, FABRIC_UPDATE_INFO, infos.first, infos.count; infos)
                }

                RESOURCE_BLOCK: fn resource_block(requester: Requester, request: ResourceBlock) -> () {
                    let proc = one(&requester.proc);
                    let name = Single::<Str>::new(&request.name);
                    let units = Array::<pmix_resource_unit_t>::new(&request.units);
                    let infos = to_c::infos(&request.directives);
                    => resource_block(
                        proc.first, request.directive, name, units.first, units.count, infos.first, infos.count; status
                    )
                }

                SESSION_CONTROL: fn session_control(requester: Requester, request: SessionControl) -> Vec<Info> {
                    let proc = one(&requester.proc);
                    let infos = to_c::infos(&request.directives);
                    => session_control(proc.first, request.session, infos.first, infos.count; infos)
                }

                IOF_PULL: fn iof_pull(_requester: Requester, request: IofPull) -> () {
                    let procs = to_c::procs(&request.procs);
                    let infos = to_c::infos(&request.directives);
                    => iof_pull(procs.first, procs.count, infos.first, infos.count, request.channels; status)
                }

                GROUP: fn group(request: GroupRequest) -> Vec<Info> {
                    let id = Single::<Str>::new(&Some(request.id.clone()));
                    let procs = to_c::procs(&request.procs);
                    let infos = to_c::infos(&with_local_status(&request.directives));
                    => group(c_uint::from(request.operation as u8), id, procs.first, procs.count, infos.first, infos.count; infos)
                }
            }
            own {
                CLIENT_CONNECTED: fn client_connected2(client: ClientConnected) {
                    let proc = one(&client.proc);
                    let infos = to_c::infos(&client.directives);
                    => client_connected2(proc.first, object(client.object), infos.first, infos.count; status)
                }

                TOOL_CONNECTED: fn tool_connected(tool: ToolUpcall) {
                    let infos = to_c::infos(&tool.directives);
                    => tool_connected(infos.first, infos.count; tool)
                }

                TOOL_CONNECTED: fn tool_connected2(tool: ToolUpcall) {
                    let infos = to_c::infos(&tool.directives);
                    => tool_connected2(infos.first, infos.count; tool)
                }

                LOG: fn log(requester: Requester, request: Log) {
                    let proc = one(&requester.proc);
                    let data = to_c::infos(&request.data);
                    let directives = to_c::infos(&request.directives);
                    => log(proc.first, data.first, data.count, directives.first, directives.count; status)
                }

                LOG: fn log2(requester: Requester, request: Log) {
                    let proc = one(&requester.proc);
                    let data = to_c::infos(&request.data);
                    let directives = to_c::infos(&request.directives);
                    => log2(proc.first, data.first, data.count, directives.first, directives.count; status)
                }

                IOF_PUSH: fn iof_push(requester: Requester, request: IofPush) {
                    let proc = one(&requester.proc);
                    let targets = to_c::procs(&request.targets);
                    let infos = to_c::infos(&request.directives);
                    let bytes = Array::<pmix_byte_object_t>::new(from_ref(&request.bytes));
                    => push_stdin(proc.first, targets.first, targets.count, infos.first, infos.count, bytes.first; status)
                }

                FENCE: fn fence(request: OutgoingFence) {
                    let procs = to_c::procs(&request.procs);
                    let infos = to_c::infos(&request.directives);
                    let data = Given::new(&request.contribution);
                    => fence_nb(procs.first, procs.count, infos.first, infos.count, data.first, data.count; blob)
                }

                DIRECT_MODEX: fn direct_modex(request: DirectModex) {
                    let proc = one(&request.proc);
                    let infos = to_c::infos(&request.directives);
                    => direct_modex(proc.first, infos.first, infos.count; blob)
                }

                QUERY: fn query(requester: Requester, request: QueryInfo) {
                    let proc = one(&requester.proc);
                    let queries = to_c::queries(&request.queries);
                    => query(proc.first, queries.first, queries.count; infos)
                }
            }
        }
    };
}
pub(super) use with_entries;

/// Makes methods that call one entry each, and the capabilities of the entries that are there.
macro_rules! methods {
    ($($kind:ident { $(
        $capability:ident: fn $name:ident($($argument:ident: $type:ty),+) $(-> $answer:ty)? {
            $(let $made:ident = $make:expr;)*
            => $entry:ident($($passed:expr),*; $callback:ident)
        }
    )* })*) => {
        impl Bridge {
            $($(
                pub(in crate::server) fn $name(&self, $($argument: $type,)+ due: Due) {
                    let Some(entry) = self.module().$entry else { return due.fail(Status::ERR_NOT_SUPPORTED) };
                    ask(due, || {
                        $(let $made = $make?;)*
                        let call = {
                            $(let $made = $made.shown();)*
                            move |cbdata: *mut c_void| -> pmix_status_t {
                                // SAFETY: the entry has this type in every release; what the arguments point to is
                                // alive until the host has answered (U1); `cbdata` is a slot's number.
                                unsafe { entry($($passed,)* Some(answers::$callback), cbdata) }.into_status()
                            }
                        };
                        Ok((Box::new(($($made,)*)) as Held, call))
                    });
                }
            )*)*

            /// The capabilities of the host's entries.
            pub(in crate::server) fn capabilities(&self) -> Capabilities {
                let module = self.module();
                // A capability may have two entries, an older and a younger.
                let mut capabilities = Capabilities::empty();
                $($(if module.$entry.is_some() {
                    capabilities.insert(Capabilities::$capability);
                })*)*
                capabilities
            }
        }
    };
}

with_entries!(methods);

impl Bridge {
    pub(in crate::server) fn new(module: pmix_server_module_t, form: ExchangeForm) -> Self {
        let facts = if module.query.is_some() { HostFacts::of_host_with_queries() } else { HostFacts::default() };
        let flow = Arc::default();
        Self { module: RwLock::new(module), form, facts, flow, is_gateway: false }
    }

    pub(in crate::server) fn with_gateway(self, is_gateway: bool) -> Self {
        Self { is_gateway, ..self }
    }

    pub(in crate::server) fn module(&self) -> RwLockReadGuard<'_, pmix_server_module_t> {
        self.module.read()
    }

    /// Replaces the host's functions.
    pub(in crate::server) fn set_module(&self, module: pmix_server_module_t) {
        *self.module.write() = module;
    }

    /// Whether the host admits a client. The host gets no callback: hosts of older releases never call one, and success
    /// means the same in both cases.
    pub(in crate::server) fn client_connected(&self, client: &ClientConnected) -> Status {
        let Some(entry) = self.module().client_connected else { return Status::SUCCESS };
        let proc = to_c::proc(&client.proc);
        // SAFETY: the entry has this type in every release; the process is alive during the call.
        let call = || unsafe { entry(&raw const proc, object(client.object), None, std::ptr::null_mut()) };
        let status = turns::in_turn(call).unwrap_or(Status::ERR_UNREACH.to_raw());
        match Status::from_raw(status) {
            Status::OPERATION_SUCCEEDED => Status::SUCCESS,
            status => status,
        }
    }
}

/// Return value of an entry.
trait IntoStatus {
    fn into_status(self) -> pmix_status_t;
}

impl IntoStatus for pmix_status_t {
    fn into_status(self) -> pmix_status_t {
        self
    }
}

/// The entry that returns nothing always calls back.
impl IntoStatus for () {
    fn into_status(self) -> pmix_status_t {
        Status::SUCCESS.to_raw()
    }
}

/// An argument that C can point to. Its memory stays in place when its owner moves.
trait Show {
    type Shown;
    fn shown(&self) -> Self::Shown;
}

/// An array, as C sees it.
struct Shown<T> {
    first: *mut T,
    count: usize,
}

impl<F: Form> Show for Array<F> {
    type Shown = Shown<F::C>;

    fn shown(&self) -> Shown<F::C> {
        Shown { first: self.as_ptr().cast_mut(), count: self.len() }
    }
}

/// A structure with one pointer: C gets the pointer itself, not its address.
impl<F: Form> Show for Single<F> {
    type Shown = F::C;

    fn shown(&self) -> F::C {
        *self.get()
    }
}

impl<T> Show for Vec<T> {
    type Shown = Shown<T>;

    fn shown(&self) -> Shown<T> {
        let first = if self.is_empty() { std::ptr::null_mut() } else { self.as_ptr().cast_mut() };
        Shown { first, count: self.len() }
    }
}

/// Bytes that the host owns from now on and frees.
struct Given {
    first: *mut c_char,
    count: usize,
}

// SAFETY: a block of libc's; any thread may have it.
unsafe impl Send for Given {}

impl Given {
    /// NULL for no bytes.
    fn new(bytes: &[u8]) -> Result<Self, CError> {
        Ok(Self { first: memory::new_bytes(bytes)?, count: bytes.len() })
    }
}

impl Show for Given {
    type Shown = Shown<c_char>;

    fn shown(&self) -> Shown<c_char> {
        Shown { first: self.first, count: self.count }
    }
}

fn one(proc: &ProcId) -> Result<Array<crate::types::pmix_proc_t>, CError> {
    to_c::procs(from_ref(proc))
}

fn codes(codes: &[Status]) -> Result<Vec<c_int>, CError> {
    Ok(codes.iter().map(|code| code.to_raw()).collect())
}

fn key_texts(keys: &[Key]) -> Result<Single<crate::form::Argv>, CError> {
    let texts: Vec<Text> = keys.iter().map(|key| Text::from(key.as_str())).collect();
    to_c::argv(&texts)
}

/// The directives of an update: the fabric and, as in other requests, the ids of the requester.
fn directives_of_update(requester: &Requester, request: &FabricUpdate) -> Vec<Info> {
    let index = Info::new(Key::from_static(keys::FABRIC_INDEX.name()), Value::Size(request.index));
    [index].into_iter().chain(requester.ids()).collect()
}

/// The directives of a group. Hosts of OpenPMIx get the status of the local part with each, also if it is a success.
fn with_local_status(directives: &[Info]) -> Vec<Info> {
    let key = Key::from_static(keys::LOCAL_COLLECTIVE_STATUS.name());
    let is_there = directives.iter().any(|info| info.key == key);
    let success = (!is_there).then(|| Info::new(key, Value::Status(Status::SUCCESS.to_raw())));
    directives.iter().cloned().chain(success).collect()
}

/// The host's own pointer for a client.
fn object(number: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(number).unwrap_or(0))
}
