//! The questions about a case.

use modex::types::{Info, Rank, Scope, Value};

use super::{ASKED, Job, OF_APP, OF_JOB, OF_NODE, OF_PROCESS, OF_SESSION, PUT, info};
use crate::infos::Question;

/// Every key of every process and job with all qualifiers.
pub(super) fn questions(job: &Job, other: &Job) -> Vec<Question> {
    let lists = [&OF_SESSION[..], &OF_JOB, &OF_APP, &OF_NODE, &OF_PROCESS, &PUT];
    let mut keys: Vec<&str> = lists.iter().flat_map(|list| list.iter().map(|(key, _)| *key)).chain(ASKED).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut procs = vec![None];
    let job_ranks = [
        Rank::from(0),
        Rank::from(1),
        Rank::from(job.size() - 1),
        Rank::from(job.size()),
        Rank::Wildcard,
        Rank::Undefined,
    ];
    procs.extend(job_ranks.map(|rank| Some(("job".to_owned(), rank))));
    let other_ranks = [Rank::from(0), Rank::from(other.size() - 1), Rank::Wildcard];
    procs.extend(other_ranks.map(|rank| Some(("other".to_owned(), rank))));
    let mut questions = Vec::new();
    for proc in &procs {
        for key in &keys {
            for qualifiers in qualifiers() {
                // A process may still post a key of its own that is not reserved, so such a Get waits.
                let waits = !key.starts_with("pmix.");
                let names_realm =
                    || qualifiers.iter().any(|info| !["pmix.scope", "pmix.immediate"].contains(&info.key.as_str()));
                let is_of_process = matches!(proc, Some((_, rank)) if rank.process().is_some());
                if *key == "-" && (!is_of_process || names_realm()) {
                    continue;
                }
                let mut qualifiers = qualifiers;
                if waits {
                    qualifiers.push(info("pmix.immediate", true));
                }
                questions.push(Question { proc: proc.clone(), key: (*key).to_owned(), qualifiers });
            }
        }
    }
    questions
}

fn qualifiers() -> Vec<Vec<Info>> {
    let (ssn, job) = (|| info("pmix.ssn.info", true), || info("pmix.job.info", true));
    let (app, node) = (|| info("pmix.app.info", true), || info("pmix.node.info", true));
    let (name, id) = (|name: &'static str| info("pmix.hname", name), |id: u32| info("pmix.nodeid", id));
    let scope = |scope: Scope| info("pmix.scope", Value::Scope(scope.to_raw()));
    vec![
        vec![],
        vec![ssn()],
        vec![ssn(), info("pmix.session.id", 7_u32)],
        vec![ssn(), info("pmix.session.id", 8_u32)],
        vec![ssn(), info("pmix.session.id", 20_u32)],
        vec![ssn(), name("n1")],
        vec![job()],
        vec![app()],
        vec![app(), info("pmix.appnum", 2_u32)],
        vec![info("pmix.appnum", 0_u32)],
        vec![app(), name("n1")],
        vec![app(), info("pmix.appnum", 1_u32), id(0)],
        vec![node()],
        vec![node(), name("n1")],
        vec![node(), name("alias1")],
        vec![node(), name("nowhere")],
        vec![node(), id(1)],
        vec![node(), id(11)],
        vec![name("n2")],
        vec![id(0)],
        vec![info("pmix.immediate", true)],
        vec![scope(Scope::Local)],
        vec![scope(Scope::Remote)],
        vec![scope(Scope::Global)],
        vec![scope(Scope::Internal)],
    ]
}
