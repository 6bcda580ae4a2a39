//! Resources, which a server adds to every description.

use super::*;

/// The record of a job on `n0` and `n1` with ranks 0 and 1 and the values `own`, with these resources.
fn with(resources: &[Info], own: Vec<Info>) -> Result<JobRecord, RegisterError> {
    let mut description = Description::from([maps("n0,n1", "0;1"), own].concat());
    let added = resources_for(&namespace(), &description, resources);
    description.prepend(added);
    parse_description(&namespace(), &context(), &description, None)
}

fn kept(resources: Vec<Info>) -> Vec<Info> {
    assert_eq!(check_resources(&[], &resources), Ok(()));
    resources
}

fn text(text: &str) -> Option<Value> {
    Some(Value::from(text))
}

fn id(job: &str, rank: u32) -> Info {
    info("pmix.procid", ProcId { namespace: Namespace::new(job).unwrap(), rank: Rank::from(rank) })
}

/// Regression: all later registrations of other jobs were refused: "contains data of job".
#[test]
fn a_resource_that_names_a_job_holds_for_that_job_alone() {
    let px = |value: &str| info("px", value);
    let name = |job: &str| info("pmix.nspace", job);
    for job_of in ["job", "other"] {
        let rank = info("pmix.rank", Rank::from(0));
        let processes = [vec![id(job_of, 0)], vec![rank.clone(), name(job_of)], vec![name(job_of), rank]];
        for identity in processes {
            let resources = kept(vec![array("pmix.pdata", [identity, vec![px("a")]].concat())]);
            let found = proc_value(&with(&resources, vec![]).unwrap(), 0, "px");
            assert_eq!(found, text("a").filter(|_| job_of == "job"), "{resources:?}");
        }
        let resources = kept(vec![
            job(vec![name(job_of), px("of the job")]),
            array("pmix.app.arr", vec![name(job_of), info("pmix.appnum", 0_u32), px("of the app")]),
            session(vec![info("pmix.session.id", 3_u32), job(vec![info("pmix.jobid", job_of), info("py", "y")])]),
        ]);
        let record = with(&resources, vec![]).unwrap();
        let found = [job_value(&record, "px"), app_value(&record, 0, "px"), job_value(&record, "py")];
        let all = [text("of the job"), text("of the app"), text("y")];
        assert_eq!(found, all.map(|value| value.filter(|_| job_of == "job")));
    }
    let of_number = [job(vec![info("pmix.jobid", "77"), px("a")])];
    assert_eq!(job_value(&with(&of_number, vec![info("pmix.jobid", "77")]).unwrap(), "px"), text("a"));
    assert_eq!(job_value(&with(&of_number, vec![info("pmix.jobid", "78")]).unwrap(), "px"), None);
}

#[test]
fn a_resource_for_all_jobs_names_no_job() {
    let refused = check_resources(&[], &[info("a", 1_u8), info("pmix.nspace", "zzz")]).unwrap_err();
    assert_eq!((refused.cause(), refused.status()), (&RegisterError::NamesEveryJob, Status::ERR_BAD_PARAM));
    assert!(refused.to_string().starts_with("\"pmix.nspace\": names one job"), "{refused}");
    let in_kept = vec![job(vec![info("pmix.nspace", "zzz"), info("pmix.nmap", "n0,n1")])];
    let denied = job(vec![info("pmix.nspace", "zzz"), info("pmix.pmap", "0;1;2")]);
    let refused = check_resources(&in_kept, &[info("a", 1_u8), denied.clone()]).unwrap_err();
    assert!(matches!(refused.cause(), RegisterError::MapLengths { .. }), "{refused}");
    assert_eq!(check_resources(&[], &[denied]), Ok(()));
    let wrong = job(vec![info("pmix.nspace", "zzz"), info("pmix.job.size", "two")]);
    let refused = check_resources(&[], &[job(vec![info("pmix.nspace", "a")]), wrong]).unwrap_err();
    assert!(refused.to_string().starts_with("job.arr[1] \"pmix.job.size\": "), "{refused}");
}

/// Regression: they were accepted, and then every job that they contradict was refused.
#[test]
fn a_job_is_not_refused_for_a_resource() {
    let alone = with(&[], vec![]).unwrap();
    let unfit = [
        process(4, vec![info("px", "of rank 4")]),
        info("pmix.job.size", 5_u32),
        job(vec![info("pmix.job.size", 5_u32)]),
        job(vec![info("pmix.nmap", "na"), info("pmix.pmap", "0,1,2,3,4")]),
        node("n0", vec![info("pmix.nodeid", 9_u32)]),
    ];
    let own = || vec![node("n1", vec![info("pmix.nodeid", 9_u32)])];
    for resource in &unfit[..4] {
        assert_eq!(with(&kept(vec![resource.clone()]), vec![]), Ok(alone.clone()), "{resource:?}");
    }
    assert_eq!(with(&kept(unfit[4..].to_vec()), own()), with(&[], own()));
    // A suitable resource is kept at any position among unsuitable ones.
    for at in 0..=unfit.len() {
        let mut resources = unfit.to_vec();
        resources.insert(at, node("n0", vec![info("dev", "gpu")]));
        let record = with(&kept(resources), own()).unwrap();
        assert_eq!(node_value(&record, 0, "dev"), text("gpu"), "{at}");
        assert_eq!(job_value(&record, "pmix.job.size"), Some(Value::Uint32(2)));
    }
    // A contradiction of the job's own values is refused with the same error as without resources.
    let refused = with(&unfit, vec![info("pmix.job.size", 4_u32)]).unwrap_err();
    assert!(matches!(refused.cause(), RegisterError::JobSize { job_size: 4, in_map: 2 }), "{refused}");
}

/// Regression: the job was in the session of the resources, with its values.
#[test]
fn the_jobs_own_session_wins() {
    let values = |id: u32, size: u32, text: &str| {
        vec![info("pmix.session.id", id), info("pmix.univ.size", size), info("sx", text)]
    };
    let own = || vec![session(values(6, 2, "job"))];
    let has_own = |record: &JobRecord| {
        assert_eq!(record.session_id, Some(6));
        let found = ["pmix.univ.size", "sx"].map(|key| session_value(record, key));
        assert_eq!(found, [Some(Value::Uint32(2)), text("job")]);
    };
    for resources in [
        vec![session(values(5, 44, "resource"))],
        vec![job(vec![info("pmix.session.id", 5_u32)]), session(values(5, 44, "resource"))],
        vec![session([values(5, 44, "resource"), vec![job(vec![info("a", 1_u8)])]].concat())],
        values(5, 44, "resource").into_iter().take(2).chain([session(values(5, 44, "resource"))]).collect(),
    ] {
        let record = with(&kept(resources.clone()), own()).unwrap();
        has_own(&record);
        let [other] = record.other_sessions.as_slice() else { panic!("{:?}", record.other_sessions) };
        assert_eq!((other.id, table_value(&other.entries, "sx")), (5, text("resource")));
        assert_eq!(table_value(&other.entries, "pmix.univ.size"), Some(Value::Uint32(44)));
        assert_eq!(with(&resources, vec![]).unwrap().session_id, Some(5));
    }
    // Session values for every job give way to the job's own, and fill missing ones.
    let record = with(&kept(vec![info("pmix.univ.size", 44_u32), info("pmix.tmpdir", "/t")]), own()).unwrap();
    has_own(&record);
    assert_eq!(session_value(&record, "pmix.tmpdir"), text("/t"));
}

/// The record of a job with the values `own`, after its resources changed.
fn changed(job: &JobRecord, before: &[Info], after: &[Info]) -> JobRecord {
    let change = ResourceChange { before: before.into(), after: after.into() };
    with_resources(&namespace(), &context(), job, &change).unwrap().unwrap_or_else(|| job.clone())
}

/// A job gets the same values from resources before its registration and after it, and the same are left without them.
#[test]
fn a_registered_job_gets_and_loses_resources_as_a_new_one_does() {
    let own = || {
        vec![
            info("vendor.a", 2_u32),
            node("n1", vec![info("pmix.pmem", 6_u64)]),
            process(1, vec![info("px", "own")]),
            array("pmix.app.arr", vec![info("pmix.appnum", 0_u32), info("ax", "own")]),
        ]
    };
    let without = with(&[], own()).unwrap();
    for resource in [
        info("vendor.b", 1_u32),
        info("vendor.a", 1_u32),
        info("pmix.univ.size", 8_u32),
        job(vec![info("vendor.b", 1_u32)]),
        job(vec![info("pmix.nspace", "other"), info("vendor.b", 1_u32)]),
        node("n0", vec![info("pmix.pmem", 5_u64), info("dev", "gpu")]),
        node("n1", vec![info("pmix.pmem", 5_u64), info("dev", "gpu")]),
        array("pmix.node.arr", vec![info("pmix.nodeid", 1_u32), info("dev", "gpu")]),
        process(0, vec![info("px", "of a resource")]),
        process(1, vec![info("px", "of a resource"), info("py", "of a resource")]),
        process(7, vec![info("px", "of nobody")]),
        array("pmix.app.arr", vec![info("pmix.appnum", 0_u32), info("ax", "resource"), info("ay", "resource")]),
    ] {
        let resources = kept(vec![resource]);
        let later = changed(&without, &[], &resources);
        let before = with(&resources, own()).unwrap();
        let values = |record: &JobRecord| {
            let of_job = ["vendor.a", "vendor.b", "pmix.job.size"].map(|key| job_value(record, key));
            let of_nodes =
                [0, 1].map(|at| ["pmix.pmem", "dev", "pmix.local.size"].map(|key| node_value(record, at, key)));
            let of_ranks = [0, 1].map(|rank| ["px", "py"].map(|key| proc_value(record, rank, key)));
            let of_app = ["ax", "ay"].map(|key| app_value(record, 0, key));
            (of_job, of_nodes, of_ranks, of_app, session_value(record, "pmix.univ.size"))
        };
        assert_eq!(values(&later), values(&before), "{resources:?}");
        assert_eq!(values(&changed(&later, &resources, &[])), values(&without), "{resources:?}");
        assert_eq!(values(&changed(&before, &resources, &[])), values(&without), "{resources:?}");
    }
}

#[test]
fn a_resource_replaces_the_older_one_of_its_key_and_unknown_nodes_are_added() {
    let job = with(&[], vec![]).unwrap();
    let (old, new) = ([info("vendor.b", 1_u8)], [info("vendor.b", 1_u8), info("vendor.b", 2_u8)]);
    let later = changed(&changed(&job, &[], &old), &old, &new);
    assert_eq!(job_value(&later, "vendor.b"), Some(Value::Uint8(2)));
    let change = ResourceChange { before: new.as_slice().into(), after: new.as_slice().into() };
    assert_eq!(with_resources(&namespace(), &context(), &later, &change), Ok(None), "nothing is written again");
    let elsewhere = [node("n9", vec![info("dev", "gpu")])];
    let later = changed(&job, &[], &elsewhere);
    assert_eq!((later.node_count, node_value(&later, 2, "dev")), (3, text("gpu")));
}
