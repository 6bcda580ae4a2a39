//! Contradictions between values of the job and of its parts, or of an earlier description.

use super::*;

fn rank(key: &'static str, rank: u32) -> Info {
    info(key, Rank::from(rank))
}

/// The refusal of a later description of a known job.
fn later(description: &[Info], earlier: &[Info]) -> RegisterError {
    parse(&namespace(), &context(), description, Some(&record(earlier))).unwrap_err()
}

fn peers(list: &str) -> Info {
    info("pmix.lpeers", list)
}

#[test]
fn a_size_that_leaves_processes_without_a_place_in_the_earlier_map_is_refused() {
    let earlier = maps("n0,n1", "0;1");
    let told = |size: u32| {
        let alone = vec![info("pmix.job.size", size)];
        [vec![info("pmix.nmap", "n2,n3"), alone[0].clone()], alone]
    };
    for told in told(3) {
        let refused = later(&told, &earlier);
        assert!(refused.to_string().starts_with("\"pmix.job.size\": "), "{refused}");
    }
    // Regression: a smaller size was refused, too. OpenPMIx accepts it.
    for told in told(1) {
        let record = parse(&namespace(), &context(), &told, Some(&record(&earlier))).unwrap();
        assert_eq!((record.rank_count, job_value(&record, "pmix.job.size")), (2, Some(Value::Uint32(1))));
    }
    let refused = later(&[job(vec![info("pmix.job.size", 3_u32)])], &earlier);
    assert_eq!(refused.cause(), &RegisterError::JobSize { job_size: 3, in_map: 2 });
    let same = parse(&namespace(), &context(), &[info("pmix.job.size", 2_u32)], Some(&record(&earlier)));
    assert_eq!(same.unwrap().rank_count, 2);
}

#[test]
fn local_peers_and_leaders_are_processes_of_the_job() {
    let outside = |place, rank| RegisterError::RankOutsideJob { rank, place, job_size: 2 };
    let in_app = |entries: Vec<Info>| app(0, entries);
    for (told, place, cause) in [
        (node("n0", vec![peers("0,1,9")]), "node.arr[2] \"pmix.lpeers\"", outside("list of local peers", 9)),
        (node("n0", vec![peers("0-2")]), "node.arr[2] \"pmix.lpeers\"", outside("list of local peers", 2)),
        (node("n0", vec![rank("pmix.lldr", 9)]), "node.arr[2] \"pmix.lldr\"", outside("node's leader", 9)),
        (in_app(vec![rank("pmix.aldr", 7)]), "app.arr[2] \"pmix.aldr\"", outside("application's leader", 7)),
        (rank("pmix.aldr", 2), "\"pmix.aldr\"", outside("application's leader", 2)),
        (peers("5"), "\"pmix.lpeers\"", outside("list of local peers", 5)),
        (
            in_app(vec![node("n0", vec![peers("3")])]),
            "app.arr[2].node.arr[1] \"pmix.lpeers\"",
            outside("list of local peers", 3),
        ),
        (
            session(vec![info("pmix.session.id", 1_u32), node("n0", vec![peers("x;;y")])]),
            "ssn.arr[2].node.arr[1] \"pmix.lpeers\"",
            RegisterError::NoRankList { part: "x;;y".to_owned() },
        ),
    ] {
        let refused = register(&[maps("n0,n1", "0;1"), vec![told.clone()]].concat()).unwrap_err();
        assert_eq!((refused.cause(), refused.status()), (&cause, Status::ERR_BAD_PARAM));
        assert!(refused.to_string().starts_with(&format!("{place}: ")), "{refused}");
        let refused = later(std::slice::from_ref(&told), &maps("n0,n1", "0;1"));
        assert_eq!(refused.cause(), &cause);
    }
    // Without a known size, ranks are accepted, but garbage is not.
    assert!(matches!(refusal(&[node("n0", vec![peers("0,,1")])]), RegisterError::NoRankList { .. }));
    record(&[node("n0", vec![peers("0,1,9"), rank("pmix.lldr", 9)])]);
}

#[test]
fn usual_peer_lists_of_hosts_are_accepted() {
    for list in ["0,1", "0-1", "0, 1", "1", ""] {
        let told =
            [maps("n0,n1", "0;1"), vec![node("n0", vec![peers(list), info("pmix.lldr", Rank::Invalid)])]].concat();
        assert_eq!(node_value(&record(&told), 0, "pmix.lpeers"), Some(Value::from(list)));
    }
}

#[test]
fn more_applications_than_the_job_has_are_refused() {
    let two = || vec![app(0, vec![]), app(1, vec![])];
    let counted = |count: u32| info("pmix.job.napps", count);
    let refused = register(&[two(), vec![counted(1)]].concat()).unwrap_err();
    assert_eq!(refused.cause(), &RegisterError::AppCount { declared: 1, described: 2 });
    assert!(refused.to_string().starts_with("\"pmix.job.napps\": "), "{refused}");
    assert_eq!(later(&[counted(1)], &two()).cause(), refused.cause());
    record(&[two(), vec![counted(2)]].concat());
    record(&[two(), vec![counted(3)]].concat());
}
