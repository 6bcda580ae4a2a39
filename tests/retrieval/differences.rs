//! The reasons for answers of OpenPMIx 4.2.2 that differ from the standard.

use std::collections::BTreeMap;
use std::fmt::Write;

use modex::types::Rank;

use crate::infos::Question;

/// An explanation and its differences. The first explanation that fits counts.
struct Reason {
    title: &'static str,
    why: &'static str,
    fits: fn(&Difference<'_>) -> bool,
}

struct Difference<'a> {
    question: &'a Question,
    /// The standard's answer and 4.2.2's; `None`: not found.
    expected: Option<&'a str>,
    found: Option<&'a str>,
}

impl Difference<'_> {
    fn key(&self) -> &str {
        &self.question.key
    }

    fn says(&self, keys: &[&str]) -> bool {
        self.question.qualifiers.iter().any(|info| keys.contains(&info.key.as_str()))
    }

    /// Whether processes put values under this key.
    fn is_put(&self) -> bool {
        self.key().starts_with("put.") || self.key() == "vendor.process"
    }

    fn is_of_job(&self) -> bool {
        matches!(self.question.proc, Some((_, Rank::Wildcard)))
    }

    fn is_missing(&self) -> bool {
        self.expected.is_some() && self.found.is_none()
    }

    fn is_extra(&self) -> bool {
        self.expected.is_none() && self.found.is_some()
    }

    fn names_realm(&self) -> bool {
        self.says(&["pmix.ssn.info", "pmix.job.info", "pmix.app.info", "pmix.node.info"]) || self.narrows()
    }

    fn narrows(&self) -> bool {
        self.says(&["pmix.hname", "pmix.nodeid", "pmix.appnum"])
    }
}

const REASONS: [Reason; 14] = [
    Reason {
        title: "Everything of a process",
        why: "A Get without a key gives all that the process put, as far as the caller may see it, all that the \
              host registered for it, and all that follows. 4.2.2 leaves out the rank and the values that follow \
              from the maps. For the own process it adds the address of the server. For a process that put \
              nothing it may succeed without a value.",
        fits: |d| d.key() == "-",
    },
    Reason {
        title: "A named scope is binding",
        why: "With `PMIX_DATA_SCOPE` only values that were put with that scope count. 4.2.2 ignores the scope of \
              values that came from the server.",
        fits: |d| d.says(&["pmix.scope"]) && d.is_put(),
    },
    Reason {
        title: "A key may have a value for each of its readers",
        why: "If a process puts a key several times with different scopes, it sees its last value itself. Its \
              neighbours see the last value for the node. 4.2.2 keeps a table for each scope and answers from \
              the first table with the key.",
        fits: |d| d.is_put() && d.found.is_some() && !d.names_realm(),
    },
    Reason {
        title: "Values for other nodes exist, but neighbours may not see them",
        why: "A Get of a value that was put for other nodes alone ends at a neighbour with \
              `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`, so the neighbour need not wait. 4.2.2 does not find it.",
        fits: |d| d.expected == Some("-62") && d.found.is_none(),
    },
    Reason {
        title: "An identity belongs to no realm",
        why: "`PMIX_PROCID`, `PMIX_NSPACE` and `PMIX_RANK` are the caller's own identity. Our library answers \
              them under every realm and node that a directive names, and knows the rank of any process of the \
              job. 4.2.2 searches the named realm, which has no such value.",
        fits: |d| ["pmix.procid", "pmix.nspace", "pmix.rank"].contains(&d.key()),
    },
    Reason {
        title: "A node's value from the host wins over a value from the maps",
        why: "The standard lets a library derive values that a host leaves out. 4.2.2 derives the leader and the \
              peers of each node from the maps even if the host gave them, and its values replace the host's.",
        fits: |d| {
            ["pmix.lldr", "pmix.lpeers", "pmix.local.size"].contains(&d.key())
                && d.expected.is_some()
                && d.found.is_some()
        },
    },
    Reason {
        title: "A session is found from any process, and by its number",
        why: "With `PMIX_SESSION_INFO` the process is ignored: the Get means the caller's session, or the \
              session of `PMIX_SESSION_ID`. 4.2.2 searches under the named process. It finds a session only in \
              some of these cases, and answers others with the job's value of the same key.",
        fits: |d| d.says(&["pmix.ssn.info"]) && !d.is_extra(),
    },
    Reason {
        title: "Only the named realm is searched",
        why: "A directive overrides the realm of a key. A host name, node number or application number alone \
              also names its realm. 4.2.2 ignores numbers and names without a directive. If the realm lacks the \
              key, it forgets the directive and answers with a value of the process or of the job, which \
              describes another object.",
        fits: |d| d.found.is_some() && d.names_realm(),
    },
    Reason {
        title: "A process leads to its job",
        why: "With `PMIX_JOB_INFO` the Get means the job of the process, for every rank. 4.2.2 answers for the \
              wildcard alone.",
        fits: |d| d.is_missing() && d.says(&["pmix.job.info"]),
    },
    Reason {
        title: "A process leads to its application",
        why: "With `PMIX_APP_INFO` and no number the Get means the application of the process. 4.2.2 answers \
              this for the wildcard, or not at all if the number is not zero.",
        fits: |d| d.is_missing() && d.says(&["pmix.app.info", "pmix.appnum"]),
    },
    Reason {
        title: "A node has a name and a number, and a process leads to its node",
        why: "The host name and the node number are values of the node like all others. In 4.2.2 they only \
              identify an array, and a Get does not find them among its values. 4.2.2 also does not go from a \
              named process to that process's node.",
        fits: |d| d.is_missing() && (d.says(&["pmix.node.info"]) || d.narrows()),
    },
    Reason {
        title: "A process leads to its application, node and session for keys of these realms",
        why: "The standard defines the realm of a key, and the process selects the application, node or session. \
              Without a directive 4.2.2 searches only the values of the process. If the host describes \
              processes, it leaves out keys that follow from others (`PMIX_LOCAL_RANK`, `PMIX_APP_RANK`, ...).",
        fits: |d| d.is_missing() && !d.is_of_job(),
    },
    Reason {
        title: "With the wildcard, a key of a node or session means the own node or session",
        why: "A key of the node realm has the local node's value, and a key of the session realm has the value \
              of the caller's session. 4.2.2 finds the node's name only under a process, and values of the \
              session's array only with a directive.",
        fits: |d| d.is_missing(),
    },
    Reason {
        title: "Values in a node array are not the job's",
        why: "Values in a node array under keys without a realm belong to that node. 4.2.2 answers a Get for the \
              job with the values of the local node.",
        fits: |d| d.is_extra(),
    },
];

pub(crate) fn reason(question: &Question, expected: &str, found: &str) -> Option<&'static str> {
    let value = |answer| if answer == "-46" { None } else { Some(answer) };
    let difference = Difference { question, expected: value(expected), found: value(found) };
    REASONS.iter().find(|reason| (reason.fits)(&difference)).map(|reason| reason.title)
}

/// The document. Fails if an explanation has no difference.
pub(crate) fn document(explained: &BTreeMap<&str, (usize, String)>) -> String {
    let mut text = HEAD.to_owned();
    for (number, reason) in (1..).zip(&REASONS) {
        let (count, example) = explained.get(reason.title).unwrap_or_else(|| panic!("nothing needs: {}", reason.title));
        let why = reason.why.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(text, "\n### {number}. {}\n\n{why}\n\n{count} answers differ. Example: `{example}`\n", reason.title)
            .unwrap();
    }
    text
}

const HEAD: &str = "# Differences from OpenPMIx 4.2.2

Generated by `tests/retrieval/c.rs` (`MODEX_BLESS=1 cargo test --test retrieval_in_c`). The test asks both libraries the same
questions through the C interface: every key of every rank of random jobs, under every realm and qualifier. The model of the
standard's rules (`tests/retrieval/model.rs`) gives the right answer, and our library must give it. The test fails if a difference
has no explanation below, or if an explanation has no difference.

A line is a question in the form of `tests/retrieval/host.c`: `g NAMESPACE RANK KEY`, then qualifiers as key, data type and value.
Rank 4294967294 is the wildcard, and `-` as the key means everything. An answer is a status and a value with its data type; -46 is
`PMIX_ERR_NOT_FOUND`, -62 `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`. Two processes of the node put values with every scope before the questions.

## Questions that the test leaves out

4.2.2 has no answer to these; our library answers all of them.

- 4.2.2 refuses (`PMIX_ERR_BAD_PARAM`) descriptions with reserved keys that it does not know, with node or process arrays inside
  application arrays, and with some orders of session and job arrays.
- 4.2.2 waits for ever for `PMIX_JOB_INFO` without a process (`PMIX_RANK_UNDEF`, a NULL process), even with `PMIX_IMMEDIATE`.
- 4.2.2 asks its server anew for every key of another namespace. Many of these Gets end with status -17 instead of not found.
- 4.2.2 accepts qualified values (`PMIX_QUALIFIED_VALUE`) and never finds them again. Our library finds them, as 5.0 and 6.1 do.

Our library refuses a description with two process arrays (`PMIX_PROC_INFO_ARRAY`) of one rank. It returns `PMIX_ERR_BAD_PARAM` with the
place of the second array. Otherwise the values of one process would become those of another if a host numbers its processes wrongly.
Put all values of a process into one array.

The standard does not define a Get with two realms. (A number or name of the other realm is not a second realm.) In our library a
session comes before a node, and a node before an application. All of them come before
`PMIX_JOB_INFO`. The order of the directives does not matter. So a Get that names a job and a part of it means the part. 4.2.2 mostly gives the same answer, but it depends on the order of the
directives and on the rank. With `PMIX_NODE_INFO` and then `PMIX_JOB_INFO` it answers the job's value for the wildcard, and nothing for a
process.

## Groups by invitation

Groups by invitation differ on purpose. A group may be formed without some invited processes (`PMIX_GROUP_OPTIONAL`). A process
that accepted and is not in the group gets `PMIX_GROUP_CONSTRUCT_ABORT`, once, from the leader or its server. Otherwise it would wait
for ever. A process that gets `PMIX_GROUP_CONSTRUCT_COMPLETE`, or is named in it, gets no abort. Leaders of OpenPMIx send no abort. A
process that declined or did not answer gets nothing from either library.

## The differences
";
