//! Any question about any registered job: no panic, no damage, and the same answer from three sources. They are the
//! segment, its copy behind another mapping, and a record that was read back and written again.
//!
//! Input: size of the jobs' description, the description (see `description`), then questions of six bytes: namespace
//! and rank, key, realm, node, number, scope.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::BackingKind;
use modex::gds::registration::{Context, DescriptionLimits};
use modex::gds::{
    Audience, Datastore, KeyRef, Lookup, NamespaceReader, ReadError, RealmName, RealmQualifiers, Store, StoreOptions,
};
use modex::types::{Namespace, Rank, Value};
use modex_fuzz::{description, sample};

fuzz_target!(|input: &[u8]| {
    let [size, rest @ ..] = input else { return };
    let (described, questions) = rest.split_at(usize::from(*size).min(rest.len()));
    let infos = description::from_short_form(described);
    let other = Namespace::new("other").expect("a valid name");
    let (mut store, mut copy) = (store(), store());
    store.register(&sample::namespace(), &sample::description()).expect("a valid description");
    if store.register(&other, &infos).is_err() {
        store.register(&other, &[]).expect("nothing said, nothing wrong");
    }
    for namespace in [sample::namespace(), other] {
        let attached = NamespaceReader::attach(store.handle(&namespace).expect("a handle")).expect("our own segment");
        let reader = store.reader(&namespace).expect("registered");
        let record = reader.job_record().expect("undamaged");
        copy.register_record(&namespace, &record).expect("a record that was read back");
        assert_eq!(
            format!("{:?}", copy.reader(&namespace).expect("registered").job_record().expect("undamaged")),
            format!("{record:?}"),
            "a record does not survive being written"
        );
        let mirrored = copy.reader(&namespace).expect("registered");
        for question in questions.as_chunks::<6>().0 {
            let answers = [ask(reader, question), ask(&attached, question), ask(mirrored, question)];
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{question:?}: {answers:?}");
        }
    }
});

fn store() -> Store {
    let limits =
        DescriptionLimits { ranks_max: 64, nodes_max: 16, aliases_max: 8, apps_max: 8, entries_max: 512, depth_max: 8 };
    Store::new(StoreOptions {
        backing: BackingKind::Memfd,
        span_bytes: 1 << 20,
        registration: Context { limits, ..Context::new("n1") },
        ..StoreOptions::new("server.0", "n1")
    })
}

fn ask(reader: &NamespaceReader, question: &[u8; 6]) -> String {
    let [rank, key, realm, node, number, scope] = *question;
    let rank = match rank {
        0xff => Rank::Wildcard,
        0xfe => Rank::Undefined,
        0xfd => Rank::LocalNode,
        0xfc => Rank::Invalid,
        0xfb => Rank::Process(Rank::PROCESS_MAX),
        rank => Rank::from(u32::from(rank)),
    };
    let names = ["n0", "n1", "n2", "", "nowhere"];
    let realms = [RealmName::Default, RealmName::Session, RealmName::Job, RealmName::App, RealmName::Node];
    let qualifiers = RealmQualifiers {
        realm: realms[usize::from(realm) % realms.len()],
        hostname: (node & 1 != 0).then(|| names[usize::from(node >> 1) % names.len()]),
        node_id: (realm & 0x40 != 0).then(|| u32::from(number)),
        app_number: (realm & 0x80 != 0).then(|| u32::from(number)),
        session_id: (realm & 0x20 != 0).then(|| u32::from(number)),
    };
    let audience = [None, Some(Audience::SameNode), Some(Audience::OtherNodes)][usize::from(scope) % 3];
    let key = description::key(key);
    let lookup = Lookup { rank, key: KeyRef::new(key), realm: qualifiers.request(), audience };
    match reader.get(&lookup) {
        Ok(value) => format!("{:?}", Value::clone(&value.to_value().expect("undamaged"))),
        Err(ReadError::Damaged(damage)) => panic!("{key} of {rank}: {damage}"),
        Err(error) => error.to_string(),
    }
}
