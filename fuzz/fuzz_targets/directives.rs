//! Directives: attributes with values of any type, optional or required, for functions of a client and of a server.
//! Each call ends, and both work afterwards. The launch blob of a job may also have changed bytes.
//!
//! Input: a function, then records of six bytes: attribute (2, most significant first), kind of the value, flags, and a
//! number (2). For the blob a record gives the info, a place in its bytes (2) and the new byte.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use modex::keys::{self, Attribute};
use modex::types::codes::{iof_channel, range};
use modex::types::{
    DataArray, DataType, Info, InfoFlags, Key, Namespace, ProcId, Query, Rank, Scope, Status, Text, Value,
};
use modex::{Client, FenceOptions, GetOptions, IofOutput, LocalHost, Server};
use modex_fuzz::sample;

fuzz_target!(|input: &[u8]| {
    let [function, records @ ..] = input else { return };
    let records = records.as_chunks::<6>().0;
    let world = &*WORLD;
    match FUNCTIONS.get(usize::from(*function)) {
        Some(function) => {
            let infos = records.iter().take(INFOS_MAX).map(directive);
            function(world, infos.filter(|info| !AWAIT_OTHERS.contains(&info.key.as_str())).collect());
        }
        None => world.launch(records),
    }
    world.is_alive();
});

/// Attributes with which a process rightly waits for others.
const AWAIT_OTHERS: [&str; 2] = [keys::GROUP_BOOTSTRAP.name(), keys::GROUP_ADD_MEMBERS.name()];
/// Infos of one call.
const INFOS_MAX: usize = 8;
const GROUP: &str = "group";

static WORLD: LazyLock<World> = LazyLock::new(World::new);
static ATTRIBUTES: LazyLock<Vec<Attribute>> = LazyLock::new(|| keys::attributes().collect());

/// A server, and a process that is alone in its job.
struct World {
    server: Server,
    client: Client,
    _directory: tempfile::TempDir,
}

type Function = fn(&World, Vec<Info>);

const FUNCTIONS: [Function; 14] = [
    |world, infos| {
        let options = infos.into_iter().fold(GetOptions::new().immediate(), GetOptions::info);
        let _ = world.client.get_value(world.client.proc(), "own", &options);
    },
    |world, infos| {
        let _ = world.client.fence(&infos.into_iter().fold(FenceOptions::new(), FenceOptions::info)).wait();
    },
    |world, infos| {
        let _ = world.client.notify_event(Status::from_raw(-1001), None, range::RANGE_LOCAL, &infos).wait();
    },
    |world, infos| {
        let registered = world.client.register_event_handler(&[Status::from_raw(-1001)], &infos, |call| {
            call.complete(Status::SUCCESS, Vec::new());
        });
        if let Ok(id) = registered.wait() {
            let _ = world.client.deregister_event_handler(id).wait();
        }
    },
    |world, infos| {
        if world.client.connect_processes(world.own(), infos.clone()).wait().is_ok() {
            let _ = world.client.disconnect_processes(world.own(), infos).wait();
        }
    },
    |world, infos| {
        if world.client.group_construct(GROUP, world.own(), infos.clone()).wait().is_ok()
            && world.client.group_destruct(GROUP, infos).wait().is_err()
        {
            world.client.group_destruct(GROUP, Vec::new()).wait().expect("a group ends without directives");
        }
    },
    |world, infos| {
        if world.client.group_invite(GROUP, world.own(), infos.clone()).wait().is_ok()
            && world.client.group_leave(GROUP, infos).wait().is_err()
        {
            world.client.group_leave(GROUP, Vec::new()).wait().expect("a member leaves without directives");
        }
    },
    |world, qualifiers| {
        for key in [keys::QUERY_NAMESPACES.name(), keys::QUERY_ATTRIBUTE_SUPPORT.name(), "own"] {
            let query = Query { keys: vec![Text::from(key)], qualifiers: qualifiers.clone() };
            let _ = world.client.query(vec![query]).wait();
        }
    },
    |world, infos| {
        let _ = world.client.publish(infos).wait();
        let _ = world.client.unpublish(Vec::new(), Vec::new()).wait();
    },
    |world, infos| {
        let _ = world.server.setup_application(&other(), &infos);
    },
    |world, infos| {
        let _ = world.server.setup_local_support(&other(), &infos);
        let _ = world.server.deregister_namespace(&other()).wait();
    },
    |world, infos| {
        let (source, channel) = (world.client.proc().clone(), iof_channel::FWD_STDOUT_CHANNEL);
        let _ = world.server.iof_deliver(IofOutput { source, channel, bytes: b"line".to_vec(), info: infos }).wait();
    },
    |world, infos| {
        let _ = world.server.find(Some(world.client.proc().clone()), Some(Key::from_static("own")), infos).wait();
    },
    |world, infos| {
        if world.server.register_namespace(&other(), 0, infos).wait().is_ok() {
            world.server.deregister_namespace(&other()).wait().expect("a registered job is deregistered");
        }
    },
];

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::builder().hostname("n0").tmpdir(directory.path()).name_service().start(LocalHost);
        let server = server.expect("a server");
        let size = Info::new(Key::from_static(keys::JOB_SIZE.name()), 1_u32);
        server.register_namespace(&sample::namespace(), 1, vec![size]).wait().expect("a job of one process");
        let proc = ProcId::new(sample::namespace(), 0);
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        server.register_client(&proc, uid, gid).wait().expect("a process");
        let variables = server.setup_fork(&proc).expect("the variables of a process");
        let client = Client::builder().env(variables).connect().expect("a client");
        client.put(Scope::Global, "own", 1_u32).expect("a value");
        client.commit().expect("a commit");
        Self { server, client, _directory: directory }
    }

    fn own(&self) -> Vec<ProcId> {
        vec![self.client.proc().clone()]
    }

    /// The setup of a job whose infos have changed bytes.
    fn launch(&self, records: &[[u8; 6]]) {
        let all = Info::new(Key::from_static(keys::SETUP_APP_ALL.name()), true);
        let set = Info::new(Key::from_static(keys::PROGRAMMING_MODEL.name()), "ompi");
        let mut infos = self.server.setup_application(&other(), &[all, set]).expect("a setup without changes");
        for [info, high, low, new, ..] in records {
            let index = usize::from(*info) % infos.len().max(1);
            let Some(Info { value: Value::ByteObject(bytes), .. }) = infos.get_mut(index) else { continue };
            let place = usize::from(u16::from_be_bytes([*high, *low])) % bytes.len().max(1);
            bytes.get_mut(place).into_iter().for_each(|byte| *byte = *new);
        }
        let _ = self.server.setup_local_support(&other(), &infos);
        let _ = self.server.deregister_namespace(&other()).wait();
    }

    fn is_alive(&self) {
        self.client.fence(&FenceOptions::new()).wait().expect("a process alone in its job passes its fence");
        let found = self.client.get_value(self.client.proc(), "own", &GetOptions::new());
        assert_eq!(found.ok().and_then(|value| value.into_value().ok()), Some(Value::Uint32(1)));
    }
}

/// A job without processes here.
fn other() -> Namespace {
    Namespace::new("other").expect("a valid name")
}

fn directive(&[high, low, kind, flags, first, second]: &[u8; 6]) -> Info {
    let attributes = &*ATTRIBUTES;
    let attribute = attributes[usize::from(u16::from_be_bytes([high, low])) % attributes.len()];
    let flags = u32::from(flags & 7) & (InfoFlags::REQUIRED | InfoFlags::PROCESSED | InfoFlags::QUALIFIER).bits();
    Info { flags, ..Info::new(Key::from_static(attribute.name), value(kind, u16::from_be_bytes([first, second]))) }
}

fn value(kind: u8, number: u16) -> Value {
    const WORDS: [&str; 8] = ["", "own", "job", "n0,n1", "0-3;4", "pmix.timeout", "*", "a=b"];
    let word = WORDS[usize::from(number) % WORDS.len()];
    let proc = || Value::from(ProcId::new(sample::namespace(), u32::from(number)));
    let array = |element_type, elements| Value::DataArray(Box::new(DataArray { element_type, elements }));
    match kind % 16 {
        0 => Value::Bool(number & 1 == 1),
        1 => Value::Undefined,
        2 => Value::Uint32(number.into()),
        3 => Value::Int(-i32::from(number)),
        4 => Value::Uint64(u64::MAX - u64::from(number)),
        5 => Value::from(word),
        6 => Value::NullString,
        7 => Value::ByteObject(number.to_be_bytes().to_vec()),
        8 => proc(),
        9 => Value::ProcRank(Rank::from_raw(u32::MAX - u32::from(number)).unwrap_or(Rank::Wildcard)),
        10 => Value::ProcNamespace(sample::namespace()),
        11 => Value::Double(f64::from(number) / 7.0),
        12 => array(DataType::Proc, vec![proc(), proc()]),
        13 => Value::info_array(vec![Info::new(Key::from_static("own"), word)]),
        14 => array(DataType::String, vec![Value::from(word)]),
        _ => Value::Scope(number.to_be_bytes()[1]),
    }
}
