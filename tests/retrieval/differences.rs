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
        why: "A Get without a key gives all that a process put, as far as the caller sees it, and all that the host registered for it \
              or that follows. 4.2.2 leaves out what follows from the maps, and the rank; of the own process it adds where the \
              server is, and of one that has put nothing it may succeed without a value.",
        fits: |d| d.key() == "-",
    },
    Reason {
        title: "A scope that is named is held to",
        why: "With `PMIX_DATA_SCOPE` only what was put with that scope counts. 4.2.2 looks at the scope of nothing that came from \
              the server.",
        fits: |d| d.says(&["pmix.scope"]) && d.is_put(),
    },
    Reason {
        title: "A key may have a value for each of its readers",
        why: "Of what a process put several times, with different scopes, it sees itself what it put last, and its neighbours what it \
              put for the node. 4.2.2 keeps a table for each scope and answers with the first that has the key.",
        fits: |d| d.is_put() && d.found.is_some() && !d.names_realm(),
    },
    Reason {
        title: "What was put for others is there, and not to be seen",
        why: "A value that its process put for other nodes alone ends a Get of a neighbour with `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`, so \
              that it need not be waited for. 4.2.2 does not find it.",
        fits: |d| d.expected == Some("-62") && d.found.is_none(),
    },
    Reason {
        title: "Who somebody is lies in no realm",
        why: "`PMIX_PROCID`, `PMIX_NSPACE` and `PMIX_RANK` are the caller's own identity. Here they are answered whatever realm \
              or node a directive names, and the rank of any process of the job is known; 4.2.2 looks into that realm, where \
              nobody has put them.",
        fits: |d| ["pmix.procid", "pmix.nspace", "pmix.rank"].contains(&d.key()),
    },
    Reason {
        title: "What the host tells of a node wins over what follows from the maps",
        why: "The standard lets a library derive what a host leaves out. 4.2.2 derives the leader and the peers of each node \
              from the maps even where the host gave them, and its values replace the host's.",
        fits: |d| {
            ["pmix.lldr", "pmix.lpeers", "pmix.local.size"].contains(&d.key())
                && d.expected.is_some()
                && d.found.is_some()
        },
    },
    Reason {
        title: "A session is asked about by any process, and by its number",
        why: "With `PMIX_SESSION_INFO` the process is ignored: the caller's session is meant, or the one of `PMIX_SESSION_ID`. \
              4.2.2 looks under the process that was named, finds a session only in some of these cases, and answers others \
              with the job's value of the same key.",
        fits: |d| d.says(&["pmix.ssn.info"]) && !d.is_extra(),
    },
    Reason {
        title: "A realm that was named is the only one that is looked into",
        why: "A directive overrides the realm of a key, and a host name, node number or application number \
              alone names its realm, too. 4.2.2 ignores numbers and names without a directive, and forgets the directive where the realm has no such key, and answers \
              with a value of the process or of the job: about somebody else than was asked.",
        fits: |d| d.found.is_some() && d.names_realm(),
    },
    Reason {
        title: "A process leads to its job",
        why: "With `PMIX_JOB_INFO` the job of the process is meant, whatever its rank; 4.2.2 has an answer for the wildcard alone.",
        fits: |d| d.is_missing() && d.says(&["pmix.job.info"]),
    },
    Reason {
        title: "A process leads to its application",
        why: "With `PMIX_APP_INFO` and without a number the application of the process is meant; 4.2.2 answers this for the \
              wildcard, or not at all where the number is not zero.",
        fits: |d| d.is_missing() && d.says(&["pmix.app.info", "pmix.appnum"]),
    },
    Reason {
        title: "A node has a name and a number, and a process leads to its node",
        why: "Host name and node number are values of the node like others. 4.2.2 keeps them as what an array is about and does \
              not find them among its values; nor does it go from a process that is named to that process's node.",
        fits: |d| d.is_missing() && (d.says(&["pmix.node.info"]) || d.narrows()),
    },
    Reason {
        title: "A process leads to its application, node and session where the key lies there, not to its job",
        why: "Which realm a key lies in is said by the standard, and which application, node or session is meant follows from \
              the process. 4.2.2 looks among the values of the process alone when no directive is given, and leaves keys \
              that follow from others (`PMIX_LOCAL_RANK`, `PMIX_APP_RANK`, ...) out where the host describes processes.",
        fits: |d| d.is_missing() && !d.is_of_job(),
    },
    Reason {
        title: "The wildcard means the own node and the own session where the key lies there",
        why: "A key of the node realm is the local node's, one of the session realm the caller's session's. 4.2.2 finds the \
              node's name under a process only, and what stands in the session's array only by directive.",
        fits: |d| d.is_missing(),
    },
    Reason {
        title: "What an array says of a node is not the job's",
        why: "Values in a node array under keys of no realm are that node's. 4.2.2 answers a question about the job with those \
              of the local node.",
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
        write!(text, "\n### {number}. {}\n\n{why}\n\n{count} answers differ so. One: `{example}`\n", reason.title)
            .unwrap();
    }
    text
}

const HEAD: &str = "# Differences from OpenPMIx 4.2.2

Generated by `tests/retrieval/c.rs` (`MODEX_BLESS=1 cargo test --test retrieval_in_c`), which asks the same questions of both
libraries through the C interface: every key of every rank of random jobs under every realm and qualifier. The model of the
standard's rules (`tests/retrieval/model.rs`) says which answer is right; ours has to give it. A difference that none of the
explanations below fits fails the test, and so does an explanation that is not needed.

A line is a question as `tests/retrieval/host.c` reads it: `g NAMESPACE RANK KEY` and qualifiers as key, data type and value;
rank 4294967294 is the wildcard, `-` everything. An answer is a status and a value with its data type; -46 is
`PMIX_ERR_NOT_FOUND`, -62 `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`. Two processes of the node have put values with every scope before.

Not asked, because 4.2.2 does not answer: it refuses (`PMIX_ERR_BAD_PARAM`) descriptions with reserved keys that it does not
know, with node or process arrays inside of application arrays, and with some orders of session and job arrays; it waits for
ever for `PMIX_JOB_INFO` of no process in particular (`PMIX_RANK_UNDEF`, a NULL process), even with `PMIX_IMMEDIATE`; and it
asks its server anew for every key of another namespace and ends many of these with status -17 instead of not found. Ours
answers all of these. Qualified values (`PMIX_QUALIFIED_VALUE`) are taken by 4.2.2 and never found again; ours come back, as those
of 5.0 and 6.1 do.

Nor is asked what ours refuses: a description with two process arrays (`PMIX_PROC_INFO_ARRAY`) of one rank. A host that numbers its
processes wrongly would not be found otherwise, and the values of one process would be another's. `PMIX_ERR_BAD_PARAM` comes with the
way to the second array; several values of one process belong into one.

Nor is asked with two realms at once, of which the standard says nothing (a number or name of the other realm is no second realm). Here a
session comes before a node, a node before an application, and all before `PMIX_JOB_INFO`, whatever their order: who names a job and a
part of it means the part. 4.2.2 mostly answers so, too, but goes by the order of the directives and by the rank: `PMIX_NODE_INFO` and
`PMIX_JOB_INFO`, in this order, are answered with the job's value for the wildcard, and not at all for a process.

Beside Gets, groups by invitation differ on purpose: where a group is formed without some who were asked (`PMIX_GROUP_OPTIONAL`), those who have
accepted and are not in it get `PMIX_GROUP_CONSTRUCT_ABORT`, once, from the leader or its server, as they would wait for ever (not who hears
`PMIX_GROUP_CONSTRUCT_COMPLETE`, or is named in it). OpenPMIx's leaders tell them nothing. Who declined, or said nothing, is told nothing by
either.

## The differences
";
