//! Captured servers and our client, which makes the calls of the captured client. Its requests have the same meaning as
//! the captured ones, and its callers get the values of the captured server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use modex::bfrops::DecodeLimits;
use modex::proto::frame::{self, FrameHeader};
use modex::proto::handshake::{CONNECT_HEADER_BYTES, Connect, Role, connect_body_size};
use modex::proto::{
    Collective, Commit, Dialect, Get, Lookup, Publish, Reply, Request, Service, Unpublish, Version, request,
};
use modex::types::AsStatus;
use modex::types::{Info, Kval, Scope, Status};
use modex::{Client, EventCall, FenceOptions, GetOptions};

use crate::support::proc;
use crate::vectors::{Session, Step, V3_2, V4_2, V5_0, V6_1, read_answer, take_apart};

/// Plays the captured server on a new connection: it answers requests with the same meaning as the captured ones.
fn act(mut stream: TcpStream, session: &Session, server: Version) {
    let mut header = [0; CONNECT_HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; connect_body_size(header).unwrap()];
    stream.read_exact(&mut body).unwrap();
    let connect = Connect::decode(&body).unwrap();
    assert_eq!(connect.codec, session.connect.codec);
    assert_eq!((&connect.role, connect.store.as_bytes()), (&session.connect.role, b"hash".as_slice()));
    stream.write_all(&session.welcome).unwrap();

    let dialect = Dialect { codec: connect.chosen_codec().unwrap(), peer: connect.peer_version() };
    let (mut committed, mut events_sent) = (Vec::new(), 0);
    for step in asked(session) {
        while events_sent < step.events_before {
            stream.write_all(&session.event_frames[events_sent]).unwrap();
            events_sent += 1;
        }
        let mut message = vec![0; FrameHeader::SIZE_BYTES];
        stream.read_exact(&mut message).unwrap();
        let size = u32::from_be_bytes(message[8..12].try_into().unwrap());
        message.resize(FrameHeader::SIZE_BYTES + usize::try_from(size).unwrap(), 0);
        stream.read_exact(&mut message[FrameHeader::SIZE_BYTES..]).unwrap();
        let (tag, payload) = take_apart(&message);
        let found = request::decode(&payload, dialect, &DecodeLimits::default()).unwrap();
        let expected = step.request.clone().unwrap();
        let (expected, found) = (meant(expected, &mut committed.clone()), meant(found, &mut committed));
        assert_eq!(found, expected, "asked of a server of {server}");
        if let Some(answer) = &step.answer {
            stream.write_all(&frame::encode(0, tag, answer).unwrap()).unwrap();
        }
    }
}

/// The messages that belong to a call of our client, which sends no heartbeats.
fn asked(session: &Session) -> impl Iterator<Item = &Step> {
    session.steps.iter().filter(|step| step.request.is_some())
}

/// A request without the parts that clients may choose. `committed`: the values committed before.
fn meant(request: Request, committed: &mut Vec<(Scope, Kval)>) -> Request {
    let without_posted = |mut collective: Collective| {
        // Clients of 6.1 also send the values that they have posted.
        collective.directives.retain(|info| info.key.as_str() != "pmix.pdata");
        collective
    };
    match request {
        // The server uses the kernel's user id.
        Request::Service(service) => Request::Service(match service {
            Service::Publish(publish) => Service::Publish(Publish { uid: 0, ..publish }),
            Service::Lookup(lookup) => Service::Lookup(Lookup { uid: 0, ..lookup }),
            Service::Unpublish(unpublish) => Service::Unpublish(Unpublish { uid: 0, ..unpublish }),
            service => service,
        }),
        Request::Connect(connect) => Request::Connect(without_posted(connect)),
        Request::GroupConstruct(mut group) => {
            group.directives.retain(|info| info.key.as_str() != "pmix.pdata");
            Request::GroupConstruct(group)
        }
        // The captured clients repeat all values each time.
        Request::Commit(Commit { parts }) => {
            for (scope, entries) in parts {
                for entry in entries {
                    committed.retain(|(of, older)| (*of, &older.key) != (scope, &entry.key));
                    committed.push((scope, entry));
                }
            }
            committed.sort_by(|(a, one), (b, other)| (a.to_raw(), &one.key).cmp(&(b.to_raw(), &other.key)));
            let parts = committed.iter().map(|(scope, entry)| (*scope, vec![entry.clone()])).collect();
            Request::Commit(Commit { parts })
        }
        other => other,
    }
}

/// A test without an event ends with an error instead of never. Nothing else depends on it.
const HANG: Duration = Duration::from_secs(60);

/// Makes the calls of a captured client.
struct Caller<'a> {
    client: Client,
    session: &'a Session,
    server: Version,
    handler: Option<usize>,
    events: Vec<(Status, Vec<Info>)>,
}

impl Caller<'_> {
    fn call(&mut self, step: &Step, news: &mpsc::Sender<(Status, Vec<Info>)>, heard: &Receiver<(Status, Vec<Info>)>) {
        while self.events.len() < step.events_before {
            self.events.push(heard.recv_timeout(HANG).unwrap());
        }
        let request = step.request.clone().unwrap();
        let answer = step.answer.as_ref();
        let answer = answer.map(|answer| read_answer(answer, request.command(), self.server, self.session.dialect()));
        let client = &self.client;
        match (request, answer) {
            (Request::Commit(commit), _) => {
                put(client, commit);
                client.commit().unwrap();
            }
            (Request::Fence(fence), _) => {
                let options = fence.directives.into_iter().fold(FenceOptions::new(), FenceOptions::info);
                client.fence(&options).wait().unwrap();
            }
            (Request::Get(get), Some(answer)) => check_get(client, get, answer),
            (Request::Service(service), answer) => use_service(client, service, answer),
            (Request::RegisterEvents(register), _) => {
                let news = news.clone();
                let handler = move |call: EventCall| {
                    news.send((call.status, call.info.clone())).unwrap();
                    call.complete(Status::SUCCESS, Vec::new());
                };
                self.handler = Some(client.register_event_handler(&register.codes, &[], handler).wait().unwrap());
            }
            (Request::DeregisterEvents(_), _) => {
                client.deregister_event_handler(self.handler.take().unwrap()).wait().unwrap()
            }
            (Request::Notify(notify), _) => {
                client.notify_event(notify.status, None, notify.range, &notify.info).wait().unwrap();
            }
            (Request::GroupConstruct(mut group), Some(Reply::Group { context_id, .. })) => {
                group.directives.retain(|info| info.key.as_str() != "pmix.pdata");
                let id = group.id.unwrap().to_string_lossy();
                let made = client.group_construct(&id, group.procs, group.directives).wait().unwrap().results;
                assert_eq!(made.context_id, context_id);
            }
            (Request::GroupDestruct(group), _) => {
                client.group_destruct(&group.id.unwrap().to_string_lossy(), group.directives).wait().unwrap();
            }
            (Request::Connect(mut connect), _) => {
                connect.directives.retain(|info| info.key.as_str() != "pmix.pdata");
                client.connect_processes(connect.procs, connect.directives).wait().unwrap();
            }
            (Request::Disconnect(connect), _) => {
                client.disconnect_processes(connect.procs, connect.directives).wait().unwrap();
            }
            (Request::Abort(abort), _) => {
                let message = abort.message.map(|text| text.to_string_lossy()).unwrap_or_default();
                client.abort(abort.status, &message, abort.procs).unwrap();
            }
            (request, answer) => panic!("{request:?} was answered by {answer:?}"),
        }
    }
}

/// An entry that is in both parts was posted for all processes.
fn put(client: &Client, commit: Commit) {
    let all: Vec<(Scope, Kval)> =
        commit.parts.into_iter().flat_map(|(scope, entries)| entries.into_iter().map(move |e| (scope, e))).collect();
    for (scope, entry) in &all {
        let in_other = all.iter().any(|(other, same)| other != scope && same.key == entry.key);
        match (scope, in_other) {
            (Scope::Remote, true) => {}
            (_, true) => client.put(Scope::Global, entry.key.as_str(), entry.value.clone()).unwrap(),
            (scope, false) => client.put(*scope, entry.key.as_str(), entry.value.clone()).unwrap(),
        }
    }
}

fn check_get(client: &Client, get: Get, answer: Reply) {
    let key = get.key.unwrap();
    let is_immediate = get.directives.iter().any(|info| info.key.as_str() == "pmix.immediate");
    let options = if is_immediate { GetOptions::new().immediate() } else { GetOptions::new() };
    let found = client.get_value(&get.proc, key.as_str(), &options);
    match answer {
        Reply::Data(data) => {
            let expected = data[0].entries.iter().find(|entry| entry.key == key).unwrap();
            assert_eq!(found.unwrap().into_value().unwrap(), expected.value);
        }
        Reply::Status(status) => {
            use modex::types::AsStatus;
            assert_eq!(found.unwrap_err().status(), status);
        }
        other => panic!("{other:?}"),
    }
}

fn converse(name: &str, release: Version, uri: &str) {
    let session = Session::read(name, release);
    let Role::Client(own) = session.connect.role.clone() else { panic!("{name}") };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("srvns.0;tcp4://{}", listener.local_addr().unwrap());
    let environment = [
        ("PMIX_NAMESPACE", own.namespace.to_string()),
        ("PMIX_RANK", own.rank.to_raw().to_string()),
        (uri, address),
        ("PMIX_VERSION", release.to_string()),
        ("PMIX_SECURITY_MODE", "native".to_owned()),
        ("PMIX_GDS_MODULE", "hash".to_owned()),
        ("PMIX_HOSTNAME", "node0".to_owned()),
    ];
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let stream = listener.accept().unwrap().0;
            stream.set_read_timeout(Some(HANG)).unwrap();
            act(stream, &session, release);
        });
        let client = Client::builder().env(environment).timeout(HANG).connect().unwrap();
        let mut caller = Caller { client, session: &session, server: release, handler: None, events: Vec::new() };
        let (news, heard) = mpsc::channel();
        let mut steps: Vec<&Step> = asked(&session).collect();
        // These two are sent while it connects and when it ends.
        assert!(matches!(steps.remove(0).request, Some(Request::JobInfo)), "{name}");
        assert!(matches!(steps.pop().unwrap().request, Some(Request::Finalize)), "{name}");
        for step in steps {
            caller.call(step, &news, &heard);
        }
        assert_eq!(caller.client.proc(), &proc("testns", own.rank.process().unwrap()));
        for (expected, (status, info)) in session.events.iter().zip(&caller.events) {
            assert_eq!(*status, expected.status, "{name}");
            assert_eq!(info.first(), expected.info.first(), "{name}");
        }
        assert_eq!(caller.events.len(), session.events.len(), "{name}");
        caller.client.finalize().unwrap();
        server.join().unwrap();
    });
}

const URI41: &str = "PMIX_SERVER_URI41";
const URI61: &str = "PMIX_SERVER_URI61";

#[test]
fn our_client_lives_its_life_on_servers_of_every_release() {
    for (name, release, uri) in [
        ("v3.2_full_init_to_finalize", V3_2, "PMIX_SERVER_URI3"),
        ("v4.2.2_full_init_to_finalize", V4_2, URI41),
        ("v6.1_full_init_to_finalize", V6_1, URI61),
        ("srv4.2.2_cli6.1", V4_2, URI41),
        ("srv5.0_cli6.1", V5_0, URI41),
        ("srv6.1_cli3.2", V6_1, "PMIX_SERVER_URI3"),
        ("srv6.1_cli4.2.2", V6_1, URI41),
    ] {
        converse(name, release, uri);
    }
}

#[test]
fn our_client_makes_every_captured_call_on_servers_of_every_release() {
    for (name, release, uri) in [
        ("v4.2.2_commands", V4_2, URI41),
        ("v5.0_commands", V5_0, URI41),
        ("v6.1_commands", V6_1, URI61),
        ("v4.2.2_types_and_misc", V4_2, URI41),
    ] {
        converse(name, release, uri);
    }
}

#[test]
fn our_client_hears_of_events_from_servers_of_every_release() {
    converse("v4.2.2_event_delivery", V4_2, URI41);
    converse("v6.1_event_delivery", V6_1, URI61);
}

/// Asks for a service as the captured client did, and compares the answer.
fn use_service(client: &Client, service: Service, answer: Option<Reply>) {
    match (service, answer) {
        (Service::Publish(publish), _) => client.publish(publish.info).wait().unwrap(),
        (Service::Lookup(lookup), Some(Reply::Lookup(expected))) => {
            assert_eq!(client.lookup(lookup.keys, lookup.directives).wait().unwrap().results, expected);
        }
        (Service::Unpublish(lookup), _) => client.unpublish(lookup.keys, lookup.directives).wait().unwrap(),
        (Service::QueryInfo(request), Some(Reply::Infos(expected))) => {
            assert_eq!(client.query(request.queries).wait().unwrap().results, expected);
        }
        (Service::Spawn(spawn), Some(Reply::Spawned { namespace, .. })) => {
            assert_eq!(client.spawn(spawn.job, spawn.apps).wait().unwrap().as_str().as_bytes(), namespace.as_bytes());
        }
        (Service::JobControl(control), Some(Reply::Infos(expected))) => {
            assert_eq!(client.job_control(control.targets, control.directives).wait().unwrap().results, expected);
        }
        (Service::Allocate(allocate), Some(Reply::Infos(expected))) => {
            assert_eq!(client.allocate(allocate.directive, allocate.info).wait().unwrap().results, expected);
        }
        (Service::GetCredential(request), Some(Reply::Status(status))) => {
            assert_eq!(client.get_credential(request.directives).wait().unwrap_err().status(), status);
        }
        (service, answer) => panic!("{service:?} was answered with {answer:?}"),
    }
}
