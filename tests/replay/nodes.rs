//! Captured servers of a job's other nodes. Our server gets from its host the data that they gave to theirs. Ranks 0
//! and 1 of three run there, rank 2 at ours.

use modex::proto::Version;
use modex::types::{Kval, ProcId, Scope, Value};
use modex::{
    Capabilities, Client, DirectModex, ExchangeForm, FenceOptions, FenceReply, FenceUpcall, GetOptions, Host,
    Responder, unpack_direct_modex, unpack_fence,
};

use crate::support::{TestServer, description, namespace, proc};
use crate::vectors::{V3_2, V4_2, V5_0, V6_1, hex};

const JOB: &str = "testns";

/// Carries data between our server and a captured one.
struct Between {
    /// Only one of them, so that the other can't make up for a loss.
    carries: Capabilities,
    /// The form of our server's data.
    form: ExchangeForm,
    fence_blob: Vec<u8>,
    direct_modex_blob: Vec<u8>,
}

impl Host for Between {
    fn capabilities(&self) -> Capabilities {
        self.carries
    }

    fn fence(&self, request: FenceUpcall, reply: Responder<FenceReply>) {
        let namespaces = [(namespace(JOB), Some(3))];
        let own = self.form.pack_fence(request.data.blocks, &namespaces).unwrap();
        // Hosts may join the parts in any order.
        let parts = [[own.as_slice(), &self.fence_blob].concat(), [self.fence_blob.as_slice(), &own].concat()];
        let [one, other] = parts.map(|bytes| unpack_fence(&bytes, &namespaces).unwrap());
        let of = |blocks: &[(ProcId, Vec<Kval>)], rank| blocks.iter().find(|(of, _)| *of == proc(JOB, rank)).cloned();
        assert!((0..3).all(|rank| of(&one, rank) == of(&other, rank) && of(&one, rank).is_some()));
        reply.succeed(FenceReply { blocks: one });
    }

    fn direct_modex(&self, request: DirectModex, reply: Responder<Vec<Kval>>) {
        assert_eq!(request.proc, proc(JOB, 1));
        reply.succeed(unpack_direct_modex(&self.direct_modex_blob).unwrap());
    }
}

/// Our server with its process, beside the captured server of each release.
fn beside_every_release(carries: Capabilities, check: impl Fn(Version, &Client)) {
    let path = format!("{}/tests/vectors/server_blobs.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let blob = |release: Version, kind: &str| {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| Version::parse(words[0].as_bytes()) == release && words[1] == kind);
        hex(line.unwrap()[2])
    };
    for release in [V3_2, V4_2, V5_0, V6_1] {
        let host = Between {
            carries,
            form: release.to_string().parse().unwrap(),
            fence_blob: blob(release, "fence_blob"),
            direct_modex_blob: blob(release, "dmodex_blob"),
        };
        let server = TestServer::start("node1", host);
        let facts = description(3, &[("node0", "0,1"), ("node1", "2")]);
        server.server.register_namespace(&namespace(JOB), 1, facts).wait().unwrap();
        server.register_client(JOB, 2);
        let client = server.connect(JOB, 2);
        client.put(Scope::Global, "own", "of rank 2").unwrap();
        client.commit().unwrap();
        check(release, &client);
        client.finalize().unwrap();
    }
}

fn value(client: &Client, rank: u32, key: &str) -> Value {
    client.get_value(&proc(JOB, rank), key, &GetOptions::new()).unwrap().into_value().unwrap()
}

#[test]
fn fence_data_of_servers_of_every_release_reach_our_processes() {
    beside_every_release(Capabilities::FENCE, |release, client| {
        client.fence(&FenceOptions::new().collect(true)).wait().unwrap();
        for rank in 0..2 {
            let found = ["k.remote", "k.global"].map(|key| value(client, rank, key));
            assert_eq!(found, [Value::from("hello-remote"), Value::Uint32(0xdead_beef)], "{release}, rank {rank}");
        }
        assert_eq!(value(client, 2, "own"), Value::from("of rank 2"), "{release}");
    });
}

#[test]
fn direct_modex_answers_of_servers_of_every_release_reach_our_processes() {
    beside_every_release(Capabilities::DIRECT_MODEX, |release, client| {
        let found = ["k.remote", "k.global"].map(|key| value(client, 1, key));
        assert_eq!(found, [Value::from("hello-remote"), Value::Uint32(0xdead_beef)], "{release}");
    });
}
