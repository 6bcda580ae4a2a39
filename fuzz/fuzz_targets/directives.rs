//! Directives: attributes with values of any type, optional or required, for functions of a client and of a server.
//! Each call ends, and both work afterwards. The launch blob of a job may also have changed bytes.
//!
//! Input: a function, then records of six bytes: attribute (2, most significant first), kind of the value, flags, and a
//! number (2). For the blob a record gives the value, a place in its bytes (2) and the new byte.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use modex::keys::{self, Attribute};
use modex::types::codes::{alloc_directive, iof_channel, range};
use modex::types::{
    App, DataArray, DataType, Info, InfoFlags, Key, Namespace, ProcId, Query, Rank, Scope, Status, Text, Value,
};
use modex::{Client, FabricSource, FenceOptions, GetOptions, IofOutput, LocalHost, Server};
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
const AWAIT_OTHERS: [&str; 3] = [keys::GROUP_BOOTSTRAP.name(), keys::GROUP_ADD_MEMBERS.name(), keys::WAIT.name()];
/// Infos of one call.
const INFOS_MAX: usize = 8;
const GROUP: &str = "group";
/// The nodes of a job, and a fabric that knows them.
const FABRIC: &str = "names:n0,n1;plane:d:2:4";

static WORLD: LazyLock<World> = LazyLock::new(World::new);
static ATTRIBUTES: LazyLock<Vec<Attribute>> = LazyLock::new(|| keys::attributes().collect());

/// A server, and a process that is alone in its job.
struct World {
    server: Server,
    client: Client,
    _directory: tempfile::TempDir,
}

type Function = fn(&World, Vec<Info>);

const FUNCTIONS: [Function; 30] = [
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
    |world, infos| {
        let app = App {
            command: Some(Text::from("true")),
            argv: Vec::new(),
            environment: Vec::new(),
            working_directory: None,
            processes_max: 1,
            info: infos.clone(),
        };
        let _ = world.client.spawn(infos, vec![app]).wait();
    },
    |world, infos| {
        let channel = iof_channel::FWD_STDOUT_CHANNEL;
        if let Ok(number) = world.client.iof_pull(world.own(), infos.clone(), channel, |_| ()).wait()
            && world.client.iof_deregister(number, infos).wait().is_err()
        {
            world.client.iof_deregister(number, Vec::new()).wait().expect("a pull ends without directives");
        }
    },
    |world, infos| {
        let _ = world.client.iof_push(world.own(), infos, b"line".to_vec()).wait();
    },
    |world, infos| {
        let _ = world.client.log(vec![Info::new(Key::from_static("own"), "line")], infos).wait();
    },
    |world, data| {
        let _ = world.client.log(data, Vec::new()).wait();
    },
    |world, infos| {
        let _ = world.client.job_control(world.own(), infos).wait();
    },
    |world, infos| {
        for key in [keys::MONITOR_PROC_RESOURCE_USAGE, keys::MONITOR_NODE_RESOURCE_USAGE] {
            let monitor = Info::new(Key::from_static(key.name()), Value::Undefined);
            let _ = world.client.monitor(monitor, Status::SUCCESS, infos.clone()).wait();
        }
        let all = Info::new(Key::from_static(keys::MONITOR_CANCEL.name()), Value::Undefined);
        world.client.monitor(all, Status::SUCCESS, Vec::new()).wait().expect("all monitors end");
    },
    |world, infos| {
        let mut infos = infos;
        if let Some(monitor) = infos.pop() {
            let _ = world.client.monitor(monitor, Status::SUCCESS, infos).wait();
        }
    },
    |world, infos| {
        if let Ok(made) = world.client.get_credential(infos.clone()).wait() {
            let _ = world.client.validate_credential(made.bytes, infos).wait();
        }
    },
    |world, infos| {
        for directive in [alloc_directive::ALLOC_NEW, alloc_directive::ALLOC_EXTEND] {
            let _ = world.client.allocate(directive, infos.clone()).wait();
        }
    },
    |world, infos| {
        let _ = world.client.fabric_register(infos).wait();
    },
    |world, infos| {
        let _ = world.client.lookup(vec![Key::from_static("own")], infos).wait();
    },
    |world, infos| {
        let _ = world.client.session_control(1, infos).wait();
    },
    |world, infos| {
        let _ = world.client.resource_block(1, Some(Text::from("own")), Vec::new(), infos).wait();
    },
    |world, infos| {
        let _ = world.server.register_resources(infos.clone());
        world.server.deregister_resources(&infos);
    },
    |world, infos| {
        let _ = world.server.notify_event(Status::from_raw(-1001), None, range::RANGE_LOCAL, &infos).wait();
    },
];

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let fabric = FabricSource::parse(&format!("test:{FABRIC}")).expect("a fabric");
        let builder = Server::builder().hostname("n0").tmpdir(directory.path()).fabric(fabric);
        let builder = builder.name_service().resource_monitor().file_monitor().credentials(None);
        let server = builder.start(LocalHost).expect("a server");
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
        let set = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
        let job = [
            set(keys::SETUP_APP_ALL.name(), true.into()),
            set(keys::PROGRAMMING_MODEL.name(), "ompi".into()),
            set(keys::NODE_MAP.name(), "n0,n1".into()),
            set(keys::PROC_MAP.name(), "0,1;2".into()),
        ];
        let mut infos = self.server.setup_application(&other(), &job).expect("a setup without changes");
        for [leaf, high, low, new, ..] in records {
            let mut leaves = Vec::new();
            infos.iter_mut().for_each(|info| add_leaves(&mut info.value, &mut leaves));
            assert!(leaves.len() > 8, "the blob has a mark, a key and the endpoints of the processes");
            let index = usize::from(*leaf) % leaves.len();
            change(leaves.swap_remove(index), u16::from_be_bytes([*high, *low]), *new);
        }
        let size = set(keys::JOB_SIZE.name(), 3_u32.into());
        let description: Vec<Info> = [size].into_iter().chain(job.into_iter().skip(2)).collect();
        let _ = self.server.setup_local_support(&other(), &infos);
        let _ = self.server.register_namespace(&other(), 2, description).wait();
        let _ = self.server.deregister_namespace(&other()).wait();
    }

    fn is_alive(&self) {
        self.client.fence(&FenceOptions::new()).wait().expect("a process alone in its job passes its fence");
        let found = self.client.get_value(self.client.proc(), "own", &GetOptions::new());
        assert_eq!(found.ok().and_then(|value| value.into_value().ok()), Some(Value::Uint32(1)));
    }
}

/// The values that have no parts.
fn add_leaves<'v>(value: &'v mut Value, leaves: &mut Vec<&'v mut Value>) {
    match value {
        Value::DataArray(array) => array.elements.iter_mut().for_each(|element| add_leaves(element, leaves)),
        Value::Info(info) => add_leaves(&mut info.value, leaves),
        leaf => leaves.push(leaf),
    }
}

/// Changes a byte of a text or of bytes, and the type of any other value.
fn change(leaf: &mut Value, place: u16, new: u8) {
    let set = |bytes: &mut [u8]| {
        let place = usize::from(place) % bytes.len().max(1);
        bytes.get_mut(place).into_iter().for_each(|byte| *byte = new);
    };
    match leaf {
        Value::ByteObject(bytes) => set(bytes),
        Value::String(text) => {
            let mut bytes = text.as_bytes().to_vec();
            set(&mut bytes);
            *text = Text::until_nul(&bytes);
        }
        other => *other = value(new, place),
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
