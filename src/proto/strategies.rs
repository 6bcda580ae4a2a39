//! Random messages for property tests, in the form that survives the wire of a given dialect.

use std::fmt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::layout::{Each, Layout, Many, Newer, One, SinceRelease3};
use super::notification::{EventNotice, OutputHead, OutputNotice};
use super::services::with_services;
use super::*;
use crate::bfrops::{Codec, Encoding, strategies as values, wire};
use crate::types::{DataType, Info, Kval, Pdata, ProcId, Rank, Scope, Status, Text};

/// Every encoding with peers of every release.
pub(super) fn dialect() -> impl Strategy<Value = Dialect> {
    let releases = [(2, 1), (3, 2), (4, 2), (5, 0), (6, 1)].map(|(major, minor)| Version::new(major, minor, 0));
    (values::codec(), prop::sample::select(releases.to_vec())).prop_map(|(codec, peer)| Dialect { codec, peer })
}

fn name() -> BoxedStrategy<Option<Text>> {
    option::of(values::text()).boxed()
}

fn procs() -> BoxedStrategy<Vec<ProcId>> {
    vec(values::proc_id(), 0..4).boxed()
}

fn infos(codec: Codec) -> BoxedStrategy<Vec<Info>> {
    vec(values::info(codec), 0..4).boxed()
}

fn entries(codec: Codec) -> BoxedStrategy<Vec<Kval>> {
    vec(values::kval(codec), 0..4).boxed()
}

fn status() -> impl Strategy<Value = Status> {
    any::<i32>().prop_map(Status::from_raw)
}

fn group(command: Command, procs: BoxedStrategy<Vec<ProcId>>, codec: Codec) -> impl Strategy<Value = Group> {
    (name(), procs, infos(codec)).prop_map(move |(id, procs, directives)| Group {
        command: command.to_raw(),
        id,
        procs,
        directives,
    })
}

fn group_request(dialect: Dialect) -> BoxedStrategy<Request> {
    let Dialect { codec, peer } = dialect;
    let members_of_destruct = if peer.major >= 5 { procs() } else { Just(Vec::new()).boxed() };
    let others = [Command::GroupJoin, Command::GroupInvite, Command::GroupLeave];
    let other = move |command| group(command, Just(Vec::new()).boxed(), codec);
    prop_oneof![
        group(Command::GroupConstruct, procs(), codec).prop_map(Request::GroupConstruct),
        group(Command::GroupDestruct, members_of_destruct, codec).prop_map(Request::GroupDestruct),
        prop::sample::select(others.to_vec()).prop_flat_map(other).prop_map(Request::GroupOther),
    ]
    .boxed()
}

fn data_request(codec: Codec) -> BoxedStrategy<Request> {
    let scope = prop::sample::select(vec![Scope::Local, Scope::Remote, Scope::Global]);
    let commit = vec((scope, entries(codec)), 0..3).prop_map(|parts| Request::Commit(Commit { parts }));
    let get = (values::proc_id(), infos(codec), option::of(values::key()))
        .prop_map(|(proc, directives, key)| Request::Get(Get { proc, directives, key }));
    prop_oneof![
        Just(Request::JobInfo),
        Just(Request::Finalize),
        commit,
        get,
        values::proc_id().prop_map(Request::RefreshCache),
        name().prop_map(Request::StoreFallback),
        name().prop_map(Request::ResolveNode),
        (name(), name()).prop_map(|(node, namespace)| Request::ResolvePeers(ResolvePeers { node, namespace })),
    ]
    .boxed()
}

fn collective_request(codec: Codec) -> BoxedStrategy<Request> {
    let variants = [Request::Fence as fn(Collective) -> Request, Request::Connect, Request::Disconnect];
    (prop::sample::select(variants.to_vec()), procs(), infos(codec))
        .prop_map(|(variant, procs, directives)| variant(Collective { procs, directives }))
        .boxed()
}

/// Random values of a part of a message.
trait Drawn: Layout {
    fn drawn(dialect: Dialect) -> BoxedStrategy<Self::Value>;
}

/// Random values of an encoding.
trait DrawnValue: Encoding {
    fn drawn_value(codec: Codec) -> BoxedStrategy<Self::Value>;
}

macro_rules! drawn {
    ($($encoding:ty: |$codec:pat_param| $values:expr;)*) => {
        $(impl DrawnValue for $encoding {
            fn drawn_value($codec: Codec) -> BoxedStrategy<Self::Value> {
                $values.boxed()
            }
        })*
    };
}

drawn! {
    wire::Uint32: |_| any::<u32>();
    wire::Size: |_| any::<u64>();
    wire::AllocDirective: |_| any::<u8>();
    wire::ResblockDirective: |_| any::<u8>();
    wire::ResourceUnit: |_| values::resource_unit();
    wire::String: |_| name();
    wire::Time: |_| any::<u64>();
    wire::Key: |_| values::key();
    wire::Proc: |_| values::proc_id();
    wire::Status: |_| status();
    wire::ByteObject: |_| values::bytes();
    wire::Info: |codec| values::info(codec);
    wire::App: |codec| values::app(codec);
    wire::Query: |codec| values::query(codec);
}

impl<E: DrawnValue> Drawn for One<E> {
    fn drawn(dialect: Dialect) -> BoxedStrategy<E::Value> {
        E::drawn_value(dialect.codec)
    }
}

impl<E: DrawnValue<Value: fmt::Debug + 'static>> Drawn for Many<E> {
    fn drawn(dialect: Dialect) -> BoxedStrategy<Vec<E::Value>> {
        vec(E::drawn_value(dialect.codec), 0..4).boxed()
    }
}

impl<E: DrawnValue<Value: fmt::Debug + 'static>> Drawn for Each<E> {
    fn drawn(dialect: Dialect) -> BoxedStrategy<Vec<E::Value>> {
        vec(E::drawn_value(dialect.codec), 0..4).boxed()
    }
}

impl<L: Drawn> Drawn for Newer<L> {
    fn drawn(dialect: Dialect) -> BoxedStrategy<L::Value> {
        L::drawn(dialect)
    }
}

impl<E: DrawnValue<Value: Copy + Default + fmt::Debug + 'static>> Drawn for SinceRelease3<E> {
    fn drawn(dialect: Dialect) -> BoxedStrategy<Option<E::Value>> {
        let exists = dialect.peer.major >= 3;
        E::drawn_value(dialect.codec).prop_map(move |value| exists.then_some(value)).boxed()
    }
}

macro_rules! services {
    ($(
        $(#[$doc:meta])*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty {
            $([$wire_field:ident: $wire_type:ty = $wire_value:expr => $wire_layout:ty],)?
            $($(#[$field_doc:meta])* $field:ident: $type:ty => $layout:ty,)*
        }
    )*) => {
        fn service_request(dialect: Dialect) -> BoxedStrategy<Request> {
            Union::new([$(
                ($(<$wire_layout as Drawn>::drawn(dialect),)? $(<$layout as Drawn>::drawn(dialect),)*)
                    .prop_map(|($($wire_field,)? $($field,)*)| {
                        Request::from($service { $($wire_field,)? $($field),* })
                    })
                    .boxed(),
            )*])
            .boxed()
        }
    };
}

with_services!(services);

fn event_request(codec: Codec) -> BoxedStrategy<Request> {
    let codes = || vec(status(), 0..4);
    prop_oneof![
        (status(), any::<u8>(), infos(codec)).prop_map(|(status, range, info)| Request::Notify(Notify {
            status,
            range,
            info
        })),
        (codes(), infos(codec))
            .prop_map(|(codes, directives)| Request::RegisterEvents(RegisterEvents { codes, directives })),
        codes().prop_map(Request::DeregisterEvents),
    ]
    .boxed()
}

fn process_request(codec: Codec) -> BoxedStrategy<Request> {
    let abort = (status(), name(), procs())
        .prop_map(|(status, message, procs)| Request::Abort(Abort { status, message, procs }));
    if !codec.registers(DataType::Topology) {
        return abort.boxed();
    }
    let distances = (values::topology(), name(), infos(codec)).prop_map(|(topology, cpuset, directives)| {
        Request::ComputeDistances(ComputeDistances { topology, cpuset, directives })
    });
    prop_oneof![4 => abort, 1 => distances].boxed()
}

fn output_request(codec: Codec) -> BoxedStrategy<Request> {
    let pull = (procs(), infos(codec), any::<u16>(), any::<Option<u64>>()).prop_map(
        |(procs, directives, channels, local_id)| Request::IofPull(IofPull { procs, directives, channels, local_id }),
    );
    let deregister = (infos(codec), any::<u64>())
        .prop_map(|(directives, reference)| Request::IofDeregister(IofDeregister { directives, reference }));
    prop_oneof![pull, deregister].boxed()
}

/// Every request.
pub(super) fn request(dialect: Dialect) -> impl Strategy<Value = Request> {
    let codec = dialect.codec;
    Union::new([
        data_request(codec),
        collective_request(codec),
        service_request(dialect),
        event_request(codec),
        process_request(codec),
        output_request(codec),
        group_request(dialect),
    ])
}

fn group_reply(dialect: Dialect) -> BoxedStrategy<(Command, Reply)> {
    let context = || option::of(any::<u64>()).boxed();
    let reply = match dialect.peer.major {
        ..5 => context()
            .prop_map(|context_id| Reply::Group { members: vec![], context_id, info: vec![], jobs: vec![] })
            .boxed(),
        5 => (procs(), any::<u64>(), vec((values::text(), entries(dialect.codec)), 0..3))
            .prop_map(|(members, id, jobs)| Reply::Group { members, context_id: Some(id), info: vec![], jobs })
            .boxed(),
        _ => (procs(), context(), infos(dialect.codec))
            .prop_map(|(members, context_id, info)| Reply::Group { members, context_id, info, jobs: vec![] })
            .boxed(),
    };
    reply.prop_map(|reply| (Command::GroupConstruct, reply)).boxed()
}

fn data_reply(codec: Codec) -> BoxedStrategy<(Command, Reply)> {
    // Maps of a job are never sent.
    let sent = |entries: Vec<Kval>| entries.into_iter().filter(is_for_peers).collect();
    let job = || (values::text(), entries(codec).prop_map(sent));
    let rank_data = |proc: BoxedStrategy<ProcId>| {
        let data = (proc, entries(codec)).prop_map(|(proc, entries)| RankData { proc, entries });
        vec(data, 0..3).prop_map(Reply::Data)
    };
    let whole_job = values::namespace().prop_map(|namespace| ProcId::new(namespace, Rank::Wildcard)).boxed();
    let found =
        (values::proc_id(), values::kval(codec)).prop_map(|(proc, Kval { key, value })| Pdata { proc, key, value });
    prop_oneof![
        job().prop_map(|(namespace, entries)| (Command::JobInfo, Reply::JobInfo { namespace, entries })),
        job().prop_map(|(namespace, entries)| (Command::Spawn, Reply::Spawned { namespace, entries })),
        rank_data(values::proc_id().boxed()).prop_map(|reply| (Command::Get, reply)),
        rank_data(whole_job).prop_map(|reply| (Command::Connect, reply)),
        vec(found, 0..3).prop_map(|found| (Command::Lookup, Reply::Lookup(found))),
        entries(codec).prop_map(|entries| (Command::RefreshCache, Reply::Entries(entries))),
    ]
    .boxed()
}

/// Every reply, with a command that has such a reply.
pub(super) fn reply(dialect: Dialect) -> BoxedStrategy<(Command, Reply)> {
    let codec = dialect.codec;
    let with_infos = [Command::QueryInfo, Command::Allocate, Command::JobControl, Command::FabricUpdate];
    let failed = (prop::sample::select(Command::ALL), i32::MIN..0)
        .prop_map(|(command, code)| (command, Reply::Status(Status::from_raw(code))));
    let credential = (values::bytes(), infos(codec))
        .prop_map(|(bytes, info)| (Command::GetCredential, Reply::Credential(Credential { bytes, info })));
    let partial = vec(values::info(codec), 1..4).prop_map(|infos| {
        let results = Box::new(Reply::Infos(infos));
        (Command::QueryInfo, Reply::Partial { status: Status::QUERY_PARTIAL_SUCCESS, results })
    });
    let always = prop_oneof![
        data_reply(codec),
        group_reply(dialect),
        failed,
        credential,
        partial,
        Just((Command::Fence, Reply::Status(Status::SUCCESS))),
        (prop::sample::select(with_infos.to_vec()), infos(codec))
            .prop_map(|(command, infos)| (command, Reply::Infos(infos))),
        any::<u64>().prop_map(|reference| (Command::IofPull, Reply::IofPulled(reference))),
        procs().prop_map(|procs| (Command::ResolvePeers, Reply::Procs(procs))),
        values::text().prop_map(|names| (Command::ResolveNode, Reply::Nodes(names))),
    ];
    if !codec.registers(DataType::DeviceDistance) {
        return always.boxed();
    }
    let distances = vec(values::device_distance(), 0..3)
        .prop_map(|distances| (Command::ComputeDistances, Reply::Distances(distances)));
    prop_oneof![10 => always, 1 => distances].boxed()
}

pub(super) fn event(codec: Codec) -> impl Strategy<Value = EventNotice> {
    (status(), option::of(values::proc_id()), infos(codec), option::of(any::<u8>()))
        .prop_map(|(status, source, info, range)| EventNotice { status, source, info, range })
}

pub(super) fn output(codec: Codec) -> impl Strategy<Value = OutputNotice> {
    (values::proc_id(), any::<u16>(), any::<u64>(), infos(codec), values::bytes()).prop_map(
        |(source, channels, reference, info, bytes)| OutputNotice {
            head: OutputHead { source, channels, reference, info },
            bytes,
        },
    )
}

/// A server's part of a fence.
pub(super) fn fence(codec: Codec) -> impl Strategy<Value = Vec<(u32, Vec<Kval>)>> {
    vec((0..=Rank::PROCESS_MAX, entries(codec)), 0..5)
}
