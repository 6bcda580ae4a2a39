use super::*;

fn description() -> JobDescription {
    JobDescription::new(&namespace())
        .nodes(["n0", "n1"])
        .ranks_by_node([vec![0, 2], vec![1]])
        .app(2, ["a", "-x"], "/w")
        .app(1, ["b"], "/v")
        .server(ProcId { namespace: Namespace::new("launcher").unwrap(), rank: Rank::Process(0) })
        .session_id(7)
        .global_rank_first(100)
        .own_node(1, "/tmp/s", "/tmp/s/j")
        .node_value(0, Key::from_static("pmix.alias"), "zero")
        .process_value(1, Key::from_static("pmix.locstr"), "hw:0")
}

#[test]
fn a_description_has_every_key_a_host_must_give() {
    let record = record(&description().build().unwrap());
    for key in ["pmix.session.id", "pmix.univ.size"] {
        assert!(session_value(&record, key).is_some(), "{key}");
    }
    let of_job = "pmix.srv.nspace pmix.srv.rank pmix.nspace pmix.jobid pmix.job.size pmix.max.size pmix.nmap \
                  pmix.pmap pmix.job.napps";
    for key in of_job.split(' ') {
        assert!(job_value(&record, key).is_some(), "{key}");
    }
    for key in "pmix.app.size pmix.max.size pmix.aldr pmix.wdir pmix.app.argv".split(' ') {
        assert!((0..2).all(|number| app_value(&record, number, key).is_some()), "{key}");
    }
    let of_node = "pmix.nodeid pmix.hname pmix.local.size pmix.node.size pmix.lldr pmix.lpeers pmix.ndosub";
    for key in of_node.split(' ') {
        assert!((0..2).all(|index| node_value(&record, index, key).is_some()), "{key}");
    }
    for key in "pmix.tmpdir pmix.nsdir pmix.lprocs".split(' ') {
        assert!(node_value(&record, 0, key).is_none() && node_value(&record, 1, key).is_some(), "{key}");
    }
    let of_process = "pmix.appnum pmix.apprank pmix.grank pmix.lrank pmix.nrank pmix.nodeid pmix.reinc pmix.spawned";
    for key in of_process.split(' ') {
        assert!((0..3).all(|rank| proc_value(&record, rank, key).is_some()), "{key}");
    }
}

#[test]
fn the_applications_share_the_ranks_in_order() {
    let record = record(&description().build().unwrap());
    let of = |rank, key| proc_value(&record, rank, key).unwrap();
    assert_eq!([0, 1, 2].map(|rank| of(rank, "pmix.appnum")), [0_u32, 0, 1].map(Value::Uint32));
    assert_eq!(of(2, "pmix.apprank"), Value::from(Rank::Process(0)));
    assert_eq!(of(2, "pmix.grank"), Value::from(Rank::Process(102)));
    assert_eq!(of(2, "pmix.hname"), Value::from("n0"));
    assert_eq!(app_value(&record, 1, "pmix.aldr"), Some(Value::from(Rank::Process(2))));
    assert_eq!(app_value(&record, 0, "pmix.app.argv"), Some(Value::from("a -x")));
    assert_eq!(node_value(&record, 0, "pmix.alias"), Some(Value::from("zero")));
    assert_eq!(proc_value(&record, 1, "pmix.locstr"), Some(Value::from("hw:0")));
}

#[test]
fn a_spawned_job_says_who_spawned_it() {
    let parent = ProcId { namespace: Namespace::new("parent").unwrap(), rank: Rank::Process(3) };
    let description = JobDescription::new(&namespace()).nodes(["n0"]).ranks_by_node([[0]]).spawned_by(parent.clone());
    let record = record(&description.build().unwrap());
    assert_eq!(job_value(&record, "pmix.parent"), Some(Value::from(parent.clone())));
    assert_eq!(proc_value(&record, 0, "pmix.parent"), Some(Value::from(parent)));
    assert_eq!(proc_value(&record, 0, "pmix.spawned"), Some(Value::Bool(true)));
}

#[test]
fn contradictions_are_found_before_registration() {
    let job = || JobDescription::new(&namespace()).nodes(["n0", "n1"]);
    let error = job().ranks_by_node([[0]]).build().unwrap_err();
    assert_eq!(error, RegisterError::MapLengths { nodes: 2, fields: 1 });
    let error = job().ranks_by_node([[0], [0]]).build().unwrap_err();
    assert!(matches!(error, RegisterError::ProcMap(_)), "{error}");
    let error = job().ranks_by_node([[0], [1]]).app(1, ["a"], "/").build().unwrap_err();
    assert_eq!(error, RegisterError::AppSizes { in_apps: 1, job_size: 2 });
    let error = JobDescription::new(&namespace()).nodes(["a,b"]).ranks_by_node([[0]]).build().unwrap_err();
    assert!(matches!(error, RegisterError::NodeMap(_)), "{error}");
}

#[test]
fn a_job_without_nodes_is_described_by_what_there_is() {
    let record = record(&JobDescription::new(&namespace()).build().unwrap());
    assert_eq!((record.rank_count, record.session_id), (0, Some(0)));
    assert_eq!(job_value(&record, "pmix.jobid"), Some(Value::from("job")));
}
