//! Writes the seeds of the corpora: captured messages, descriptions of jobs, maps, and short sessions.
//!
//! Run in `fuzz/`: `cargo run --example seeds`.

use std::fs;
use std::path::Path;

use modex::bfrops::Codec;
use modex::proto::handshake::{CONNECT_HEADER_BYTES, Connect, Role};
use modex::proto::{Command, Version};
use modex::regex::{MapLimits, NodeList, RankMap, generate_nodes, generate_ranks};
use modex::topo::{Inventory, Machine};
use modex::types::{Namespace, ProcId};
use modex_fuzz::{PEERS, codec_choice, description, sample};

fn main() {
    for entry in fs::read_dir("../tests/vectors").expect("run in fuzz/").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().replace(".hex", ""));
        if path.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a vector");
        match name.as_str() {
            "server_blobs" => blobs(&text),
            "tool_connect" => streams(&name, &text),
            _ => {
                conversation(&name, &text);
                job(&name, &text);
            }
        }
    }
    maps();
    registrations();
    retrievals();
    segments();
    sessions();
    machines();
}

/// A made-up machine: as text, as an inventory, and as an inventory without header and checksum.
fn machines() {
    let xml = r#"<topology version="2.0"><object type="Machine" cpuset="0x3"><info name="CPUModel" value="made &amp; up"/>
      <object type="Package" cpuset="0x1"><object type="NUMANode" os_index="0" cpuset="0x1" local_memory="1024"/>
        <object type="L2Cache" cpuset="0x1" cache_size="512"><object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object></object>
        <object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0200 [8086:1572] [8086:0000] 02"><object type="OSDev" name="eth0" osdev_type="2">
          <info name="Address" value="02:00:00:00:00:01"/></object></object></object>
      <object type="Group" cpuset="0x2" kind="1" subkind="2"><object type="PU" os_index="1" cpuset="0x2"/></object></object>
      <distances2 nbobjs="2"><indexes length="4">0 1 </indexes></distances2></topology>"#;
    seed("topology", "machine", &[], xml.as_bytes());
    let machine = Machine::of_xml(xml).expect("a machine");
    let blob = Inventory::of("node0", &machine).encode().expect("a small machine");
    seed("inventory", "blob", &[], &blob);
    seed("inventory", "records", &[], &blob[12..blob.len() - 8]);
    seed("fabric", "inventory", &[5], &blob[12..blob.len() - 8]);
}

fn seed(target: &str, name: &str, choices: &[u8], bytes: &[u8]) {
    let directory = Path::new("corpus").join(target);
    fs::create_dir_all(&directory).expect("a corpus");
    fs::write(directory.join(name), [choices, bytes].concat()).expect("a seed");
}

fn messages(text: &str) -> impl Iterator<Item = (bool, Vec<u8>)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with("EOF"));
    lines.filter_map(|line| Some((line.starts_with('>'), hex(line.split_whitespace().nth(1)?))))
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

/// Both directions as streams. The first message, the handshake, is a seed of its own.
fn streams(name: &str, text: &str) {
    for (is_client, label) in [(true, "client"), (false, "server")] {
        let chunks: Vec<Vec<u8>> = messages(text).filter(|(from, _)| *from == is_client).map(|(_, b)| b).collect();
        let Some((first, rest)) = chunks.split_first() else { continue };
        seed("frame", &format!("{name}-{label}-handshake"), &[7, 255], first);
        seed("frame", &format!("{name}-{label}-frames"), &[7, 255], &rest.concat());
    }
}

fn conversation(name: &str, text: &str) {
    streams(name, text);
    let all: Vec<(bool, Vec<u8>)> = messages(text).collect();
    let Some((_, connect)) = all.first() else { return };
    let connect = Connect::decode(connect.get(CONNECT_HEADER_BYTES..).unwrap_or_default()).expect("a vector");
    let codec = connect.chosen_codec().expect("a known encoding");
    let peer = peer_choice(connect.peer_version());
    let server = name.strip_prefix("srv").and_then(|rest| rest.split('_').next()).unwrap_or(name);
    let server = peer_choice(Version::parse(server.as_bytes()));
    let mut commands = std::collections::BTreeMap::new();
    for (number, (is_client, bytes)) in all.iter().enumerate().skip(2) {
        let (Some(tag), Some(payload)) = (bytes.get(4..8), bytes.get(16..)) else { continue };
        let name = format!("{name}-{number}");
        if *is_client {
            let place = if codec.described {
                7
            } else if codec.generation.has_fixed_integers() {
                4
            } else {
                1
            };
            commands.insert(tag.to_vec(), payload.get(place).copied().unwrap_or(0));
            seed("bfrops", &name, &[4, codec_choice(codec), peer, 0], payload);
        } else if tag == [0, 0, 0, 0] {
            seed("bfrops", &name, &[6, codec_choice(codec), server, 0], payload);
        } else if let Some(command) = commands.get(tag) {
            let command = Command::ALL.iter().position(|known| known.to_raw() == *command).unwrap_or(0);
            let command = u8::try_from(command).unwrap_or(0);
            seed("bfrops", &name, &[5, codec_choice(codec), server, command], payload);
        }
    }
}

/// Two processes of one job that send the same captured messages in turn.
fn job(name: &str, text: &str) {
    let sent: Vec<Vec<u8>> = messages(text).filter(|(from, _)| *from).map(|(_, bytes)| bytes).collect();
    let Some((first, requests)) = sent.split_first() else { return };
    let mut connect = Connect::decode(first.get(CONNECT_HEADER_BYTES..).unwrap_or_default()).expect("a vector");
    let record = |of: u8, bytes: &[u8]| {
        let size = u16::try_from(bytes.len()).expect("a short message");
        [&[of], size.to_be_bytes().as_slice(), bytes].concat()
    };
    let mut records = Vec::new();
    for rank in 0..2_u8 {
        connect.role = Role::Client(ProcId::new(Namespace::new("testns").expect("a name"), u32::from(rank)));
        records.extend(record(rank, &connect.encode().expect("a vector")));
    }
    for request in requests {
        (0..2).for_each(|rank| records.extend(record(rank, request)));
    }
    records.extend(record(0x82, &[]));
    for (label, capabilities) in [("alone", 0), ("hosted", 0xff)] {
        seed("conversation", &format!("{name}-{label}"), &[capabilities], &records);
    }
}

fn peer_choice(version: Version) -> u8 {
    let position = PEERS.iter().rposition(|known| *known <= version).unwrap_or(0);
    u8::try_from(position).unwrap_or(0)
}

fn blobs(text: &str) {
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let [version, kind, blob] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let codec = if version.starts_with('3') {
            Codec { generation: modex::bfrops::Generation::V3, described: false }
        } else {
            Codec::V41
        };
        let shape = if kind == "fence_blob" { 9 } else { 10 };
        seed("bfrops", &format!("{version}-{kind}"), &[shape, codec_choice(codec), 0, 0], &hex(blob));
    }
}

fn maps() {
    let texts: [&[u8]; 14] = [
        b"raw:n1,n2,n3\0",
        b"raw:\0n1,n2\0",
        b"pmix[n[1:1-3]]\0",
        b"n1,n2,n3",
        b"pmix[odin[3:9-11],thor,x[2:1,3-4]y]\0",
        b"raw:0,1;2,3;4\0",
        b"pmix[0-3;4-7,9;]\0",
        b"0-3;4",
        b"raw:\0",
        b"pmix:n0\0",
        b"pmix:[n[1:0-1]]\0",
        b";;",
        b"0",
        b"pmix[n[9:0-999999999]]\0",
    ];
    for (number, text) in texts.iter().enumerate() {
        map(&format!("text-{number}"), text);
    }
    let limits = MapLimits::default();
    let names = NodeList::from_names((0..900).map(|i| format!("node{i:03}")), &limits).expect("valid names");
    map("blob-nodes", &generate_nodes(&names));
    let ranks = RankMap::from_ranks((0..900).map(|i| [i * 2, i * 2 + 1]), &limits).expect("valid ranks");
    map("blob-ranks", &generate_ranks(&ranks));
}

/// A map alone, and under the strictest and the most generous limits.
fn map(name: &str, text: &[u8]) {
    seed("regex", name, &[], text);
    seed("maps", &format!("{name}-strict"), &[0], text);
    seed("maps", &format!("{name}-generous"), &[7], text);
}

fn registrations() {
    let infos = sample::description();
    for codec in [2, 4] {
        let wire = description::to_wire(&infos, modex_fuzz::codec(codec));
        for cut in [0, 3, 255] {
            seed("registration", &format!("job-{codec}-{cut}"), &[4 + codec * 8, cut], &wire);
        }
    }
    for (number, bytes) in SHORT_FORMS.iter().enumerate() {
        seed("registration", &format!("short-{number}"), &[0, 2], bytes);
    }
}

/// Jobs in the short form, and questions about them: two for each key, with other ranks, realms and nodes.
fn retrievals() {
    for (number, bytes) in SHORT_FORMS.iter().enumerate() {
        let size = u8::try_from(bytes.len()).expect("a short form");
        let questions: Vec<u8> = (0..30_u8)
            .flat_map(|key| {
                [[key % 4, key, key % 5, key, key % 3, key % 3], [0xff - key % 6, key, 0xe0 | key, key, 1, 0]]
            })
            .flatten()
            .collect();
        seed("retrieval", &format!("short-{number}"), &[size], &[bytes, questions.as_slice()].concat());
    }
}

/// Key, kind, parameter: see `description`.
const SHORT_FORMS: [&[u8]; 5] = [
    &[12, 6, 4, 13, 6, 6, 14, 0, 3],
    &[3, 12, 3, 7, 4, 1, 17, 11, 2, 28, 6, 0, 14, 0, 4],
    &[4, 12, 3, 10, 6, 1, 9, 0, 5, 18, 6, 5, 0, 12, 2, 5, 0, 1, 21, 0, 9],
    &[1, 12, 2, 12, 6, 8, 13, 6, 9, 2, 12, 3, 6, 0, 1, 20, 6, 10, 16, 0, 2],
    &[3, 12, 2, 7, 4, 0, 28, 0, 1, 3, 12, 2, 7, 4, 9, 28, 6, 2, 10, 6, 0],
];

/// Each kind of change, in all parts of the segment and in one.
fn segments() {
    seed("segment", "whole", &[], &[]);
    let size = u32::try_from(sample::segment().len()).expect("a small segment");
    for kind in 0..8 {
        let change = |place: u32| {
            let [_, a, b, c] = (size / 12 * place).to_be_bytes();
            [kind, a, b, c, 0, 1]
        };
        let all: Vec<u8> = (1..12).flat_map(change).collect();
        seed("segment", &format!("kind-{kind}"), &[], &all);
        seed("segment", &format!("kind-{kind}-once"), &[], all.get(24..30).unwrap_or_default());
    }
}

/// Complete sessions of a job: described, connected, working, ended.
fn sessions() {
    let start: [[u8; 4]; 7] =
        [[0, 0, 4, 0], [2, 0, 1, 0], [2, 2, 2, 0], [3, 0, 0, 0], [13, 0, 7, 0], [3, 2, 1, 0], [13, 0, 7, 0]];
    let exchange: [[u8; 4]; 9] = [
        [5, 0, 2, 1],
        [5, 1, 2, 2],
        [7, 0, 0, 2],
        [7, 1, 0, 2],
        [13, 0, 2, 4],
        [9, 0, 4, 0],
        [9, 1, 4, 34],
        [13, 0, 4, 0],
        [12, 2, 0, 0],
    ];
    let end: [[u8; 4]; 5] = [[4, 0, 0, 0], [13, 0, 7, 0], [4, 1, 200, 0], [15, 9, 0, 0], [1, 0, 0, 200]];
    for (name, choices) in
        [("segments", [0x1f, 0]), ("plain", [0, 0xff]), ("model", [0x9f, 0x80]), ("full", [0x9f, 0x7f])]
    {
        seed(
            "server_ops",
            name,
            &choices,
            [start.as_flattened(), exchange.as_flattened(), end.as_flattened()].concat().as_slice(),
        );
    }
}
