use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

/// Keys with a meaning for registration, and others.
const KEYS: &[&str] = &[
    "pmix.ssn.arr",
    "pmix.job.arr",
    "pmix.app.arr",
    "pmix.pdata",
    "pmix.node.arr",
    "pmix.session.id",
    "pmix.appnum",
    "pmix.rank",
    "pmix.procid",
    "pmix.nodeid",
    "pmix.hname",
    "pmix.alias",
    "pmix.nmap",
    "pmix.pmap",
    "pmix.job.size",
    "pmix.job.napps",
    "pmix.offset",
    "pmix.lrank",
    "pmix.lpeers",
    "pmix.lcpus",
    "pmix.wdir",
    "pmix.univ.size",
    "pmix.max.size",
    "pmix.nspace",
    "pmix.spawned",
    "my.key",
    "pmix.unknown",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..12_u32).prop_map(Value::Uint32),
        any::<u32>().prop_map(Value::Uint32),
        any::<i32>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::Size),
        (0..6_u32).prop_map(|rank| Value::ProcRank(Rank::from(rank))),
        prop::sample::select(vec![
            "n0",
            "n1",
            "n2",
            "n0,n1",
            "0;1",
            "0,1;2",
            "pmix[n[1:0-3]]",
            "pmix[0-3;4-7]",
            "pmix[0-4294967200]",
            "job",
            "pmix[n[9:0-999999999]]",
            "",
        ])
        .prop_map(Value::from),
        Just(Value::Bool(true)),
        Just(Value::Undefined),
        Just(Value::NullString),
        Just(strings(&["a", "b"])),
        Just(Value::from(ProcId { namespace: namespace(), rank: Rank::Process(1) })),
    ]
}

/// Numbers of the sessions of session arrays; they start at 1.
const SESSIONS: u32 = 3;
/// Number of processes of process arrays.
const PROCESSES: u32 = 12;

/// The same with distinct ranks in all process arrays, as far as ranks suffice: a second array of a rank would refuse
/// the whole description.
pub(super) fn renumbered(mut infos: Vec<Info>) -> Vec<Info> {
    fn renumber(infos: &mut [Info], taken: &mut BTreeSet<u32>) {
        for info in infos {
            let is_process = info.key.as_str() == "pmix.pdata";
            let Value::DataArray(array) = &mut info.value else { continue };
            for (position, element) in array.elements.iter_mut().enumerate() {
                let Value::Info(inner) = element else { continue };
                if let (true, 0, "pmix.rank", Value::ProcRank(rank)) =
                    (is_process, position, inner.key.as_str(), &mut inner.value)
                {
                    let free = (0..PROCESSES).map(|step| (rank.to_raw() + step) % PROCESSES);
                    if let Some(free) = free.into_iter().find(|rank| !taken.contains(rank)) {
                        taken.insert(free);
                        *rank = Rank::from(free);
                    }
                } else {
                    renumber(std::slice::from_mut(&mut **inner), taken);
                }
            }
        }
    }
    renumber(&mut infos, &mut BTreeSet::new());
    infos
}

fn entry(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Info> {
    (prop::sample::select(KEYS), value).prop_map(|(key, value)| info(key, value))
}

pub(super) fn tree() -> impl Strategy<Value = Info> {
    let containers = prop::sample::select(vec![
        (0, "pmix.ssn.arr", info("pmix.session.id", 1_u32)),
        (0, "pmix.job.arr", info("k", 1_u32)),
        (0, "pmix.app.arr", info("pmix.appnum", 1_u32)),
        (1, "pmix.pdata", info("pmix.rank", Rank::Process(2))),
        (1, "pmix.node.arr", info("pmix.hname", "n1")),
    ]);
    entry(leaf()).prop_recursive(5, 60, 6, move |inner| {
        (containers.clone(), prop::collection::vec(inner, 0..6), 0..8_u32, 0..PROCESSES).prop_map(
            |((_, key, mut first), mut entries, choice, rank)| {
                // Mostly from its own strategy, in which no two arrays are about one process.
                match key {
                    "pmix.pdata" => first.value = Value::from(Rank::from(rank)),
                    "pmix.ssn.arr" => first.value = Value::from(rank % SESSIONS + 1),
                    _ => {}
                }
                // Mostly with an identity, so that the walk gets beyond the first check.
                if choice > 0 {
                    entries.insert(0, first);
                }
                array(key, entries)
            },
        )
    })
}

/// Number of values in the record.
fn size(record: &JobRecord) -> usize {
    let of_column = |column: &Column| match &column.values {
        ColumnValues::Constant(_)
        | ColumnValues::Counting { .. }
        | ColumnValues::RankLists(_)
        | ColumnValues::Endpoints(_)
        | ColumnValues::OfNode => 1,
        ColumnValues::Numbers { values, .. } => values.len(),
        ColumnValues::Texts(texts) => texts.len(),
        ColumnValues::Values(values) => values.len(),
        ColumnValues::Sparse(values) => values.len(),
    };
    let columns = record.node_columns.iter().chain(&record.proc_columns);
    let apps: usize = record.apps.iter().map(|app| app.entries.len()).sum();
    record.session.len() + record.job.len() + apps + columns.map(of_column).sum::<usize>()
}

/// Whether every column has the record's length, and every list ascends.
fn is_well_formed(record: &JobRecord) -> bool {
    let fits = |columns: &[Column], count: u32| {
        let length = usize::try_from(count).unwrap();
        columns.iter().all(|column| match &column.values {
            ColumnValues::Constant(_) => count > 0,
            ColumnValues::Counting { .. } => count > 1,
            ColumnValues::OfNode => true,
            ColumnValues::Endpoints(endpoints) => endpoints.numbers.len() == count as usize,
            ColumnValues::RankLists(dealt) => dealt.node_count() == count && dealt.end() <= record.rank_count,
            ColumnValues::Numbers { values, .. } => values.len() == length,
            ColumnValues::Texts(texts) => {
                let distinct: BTreeSet<&str> = texts.iter().collect();
                texts.len() == length && distinct.len() == length
            }
            ColumnValues::Values(values) => values.len() == length,
            ColumnValues::Sparse(values) => {
                values.windows(2).all(|pair| pair[0].0 < pair[1].0) && values.iter().all(|(index, _)| *index < count)
            }
        })
    };
    fits(&record.node_columns, record.node_count)
        && fits(&record.proc_columns, record.rank_count)
        && record.own_node.is_none_or(|index| index < record.node_count)
        && record.apps.windows(2).all(|pair| pair[0].number < pair[1].number)
}

proptest! {
    #[test]
    fn no_description_panics_or_costs_more_than_its_limits(
        description in prop::collection::vec(tree(), 0..8),
        later in prop::collection::vec(tree(), 0..4),
    ) {
        let limits = DescriptionLimits { ranks_max: 16, nodes_max: 8, ..DescriptionLimits::default() };
        let context = Context { limits, ..context() };
        if let Ok(record) = parse(&namespace(), &context, &description, None) {
            prop_assert!(is_well_formed(&record), "{record:?}");
            prop_assert!(size(&record) < 2_000);
            if let Ok(updated) = parse(&namespace(), &context, &later, Some(&record)) {
                prop_assert!(is_well_formed(&updated), "{updated:?}");
                prop_assert!(size(&updated) < 4_000);
            }
        }
    }

    #[test]
    fn an_unlimited_rank_costs_memory_only_for_what_was_given(rank in 0..1_u32 << 24, keys in 1..5_usize) {
        let names = ["a", "b", "c", "d"];
        let entries = names[..keys.min(4)].iter().map(|key| info(key, 1_u8)).collect();
        let record = record(&[process(rank, entries)]);
        prop_assert!(size(&record) < 20);
    }

    #[test]
    fn equivalent_descriptions_give_equal_answers(job in random_job(), shuffle in any::<u64>()) {
        let by_maps = record(&job.maps());
        prop_assert!(is_well_formed(&by_maps));
        let mut with_processes = job.maps();
        with_processes.extend(job.process_arrays());
        let mut with_nodes = job.maps();
        with_nodes.extend(job.node_arrays());
        let mut with_all = with_processes.clone();
        with_all.extend(job.node_arrays());
        let distance = usize::try_from(shuffle % 1000).unwrap() % with_all.len();
        with_all.rotate_left(distance);
        let nested = vec![session(vec![info("pmix.session.id", 0_u32), super::job(with_all.clone())])];
        for description in [with_processes, with_nodes, with_all, nested] {
            let other = record(&description);
            prop_assert!(is_well_formed(&other));
            job.assert_equal_answers(&by_maps, &other);
        }
    }

    #[test]
    fn a_built_description_answers_like_its_maps(job in random_job()) {
        let names: Vec<String> = (0..job.nodes.len()).map(|index| format!("n{index}")).collect();
        let built = JobDescription::new(&namespace()).nodes(names).ranks_by_node(job.nodes.clone());
        job.assert_equal_answers(&record(&job.maps()), &record(&built.build().unwrap()));
    }
}

/// Ranks of each node, in map order.
#[derive(Clone, Debug)]
struct RandomJob {
    nodes: Vec<Vec<u32>>,
}

fn random_job() -> impl Strategy<Value = RandomJob> {
    (1..6_usize, 0..20_u32).prop_flat_map(|(node_count, rank_count)| {
        let ranks = Just((0..rank_count).collect::<Vec<u32>>()).prop_shuffle();
        let homes = prop::collection::vec(0..node_count, usize::try_from(rank_count).unwrap());
        (ranks, homes).prop_map(move |(ranks, homes)| {
            let mut nodes = vec![Vec::new(); node_count];
            for (rank, home) in ranks.into_iter().zip(homes) {
                nodes[home].push(rank);
            }
            RandomJob { nodes }
        })
    })
}

fn comma_list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

impl RandomJob {
    fn maps(&self) -> Vec<Info> {
        let names: Vec<String> = (0..self.nodes.len()).map(|index| format!("n{index}")).collect();
        let fields: Vec<String> = self.nodes.iter().map(|ranks| comma_list(ranks)).collect();
        maps(&format!("raw:{}", names.join(",")), &format!("pmix[{}]", fields.join(";")))
    }

    fn process_arrays(&self) -> Vec<Info> {
        let mut arrays = Vec::new();
        for (node, ranks) in self.nodes.iter().enumerate() {
            for (local_rank, rank) in ranks.iter().enumerate() {
                let local_rank = u16::try_from(local_rank).unwrap();
                arrays.push(process(
                    *rank,
                    vec![
                        info("pmix.hname", format!("n{node}")),
                        info("pmix.nodeid", Value::Int(i32::try_from(node).unwrap())),
                        info("pmix.lrank", local_rank),
                        info("pmix.nrank", local_rank),
                        info("pmix.apprank", Rank::from(*rank)),
                    ],
                ));
            }
        }
        arrays
    }

    fn node_arrays(&self) -> Vec<Info> {
        let array = |(index, ranks): (usize, &Vec<u32>)| {
            let mut entries = vec![
                info("pmix.nodeid", u32::try_from(index).unwrap()),
                info("pmix.local.size", u32::try_from(ranks.len()).unwrap()),
            ];
            if let Some(leader) = ranks.iter().min() {
                entries.push(info("pmix.lldr", Rank::from(*leader)));
                entries.push(info("pmix.lpeers", comma_list(ranks)));
            }
            node(&format!("n{index}"), entries)
        };
        self.nodes.iter().enumerate().map(array).collect()
    }

    fn assert_equal_answers(&self, one: &JobRecord, other: &JobRecord) {
        assert_eq!(
            (one.rank_count, one.node_count, one.own_node),
            (other.rank_count, other.node_count, other.own_node)
        );
        for key in ["pmix.job.size", "pmix.max.size", "pmix.num.nodes", "pmix.nlist"] {
            assert_eq!(job_value(one, key), job_value(other, key), "{key}");
        }
        for key in ["pmix.hname", "pmix.nodeid", "pmix.local.size", "pmix.lldr", "pmix.lpeers"] {
            for index in 0..one.node_count {
                assert_eq!(node_value(one, index, key), node_value(other, index, key), "{key} of node {index}");
            }
        }
        for key in ["pmix.hname", "pmix.nodeid", "pmix.lrank", "pmix.nrank", "pmix.apprank", "pmix.appnum"] {
            for rank in 0..one.rank_count {
                let answer = proc_value(one, rank, key);
                assert!(answer.is_some(), "{key} of rank {rank}");
                assert_eq!(answer, proc_value(other, rank, key), "{key} of rank {rank}");
            }
        }
    }
}
