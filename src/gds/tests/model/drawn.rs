//! Random operations on a namespace.

use super::*;

fn any_value() -> impl Strategy<Value = Value> {
    let texts = prop_oneof![Just("n0"), Just("n1"), Just(""), Just("1234567"), Just("12345678")];
    prop_oneof![
        4 => (0_u32..4).prop_map(Value::Uint32),
        4 => texts.prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::Int64),
        1 => any::<f64>().prop_filter("a NaN equals nothing, and two zeros equal each other", |v| !v.is_nan() && *v != 0.0).prop_map(Value::Double),
        1 => Just(Value::NullString),
        1 => Just(Value::Undefined),
        1 => Just(Value::ProcCpuset(None)),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::ByteObject),
        1 => (0_u32..3).prop_map(|rank| Value::Proc(Box::new(ProcId::new(namespace(), rank)))),
        1 => any::<(i64, i64)>().prop_map(|(seconds, microseconds)| Value::Timeval(Timeval { seconds, microseconds })),
        1 => (0_u32..3).prop_map(|n| Value::info_array(vec![Info::new(key("deep"), Value::info_array(vec![Info::new(key("n"), n)]))])),
    ]
}

fn any_table() -> impl Strategy<Value = Vec<(Key, Value)>> {
    prop::collection::vec((prop::sample::select(&KEYS[..]).prop_map(key), any_value()), 0..6)
}

/// `ranks_dealt`: the number of ranks that may be dealt to the indexes by rule.
fn any_column(
    name: &'static str,
    count: u32,
    may_be_of_node: bool,
    ranks_dealt: Option<u32>,
) -> impl Strategy<Value = Column> {
    let length = count as usize;
    let numbers = prop::collection::vec(0_u64..4, length)
        .prop_map(|values| ColumnValues::Numbers { data_type: DataType::Uint32, values });
    let sparse = prop::collection::btree_map(0..count.max(1), any_value(), 0..4)
        .prop_map(move |values| ColumnValues::Sparse(values.into_iter().filter(|(index, _)| *index < count).collect()));
    let counting = (0_u64..9).prop_map(|first| ColumnValues::Counting { data_type: DataType::Uint32, first });
    let lists = match ranks_dealt.filter(|_| count > 0) {
        Some(end) => (1_u32..4, 0..=end)
            .prop_map(move |(block, end)| ColumnValues::RankLists(DealtRanks::new(block, count, end).unwrap()))
            .boxed(),
        None => counting.clone().boxed(),
    };
    let pool = ["n0", "n1", "n2", "", "1234567", "12345678"].map(str::to_owned).into_iter();
    let pool: Vec<String> = pool.chain((0..RANKS_MAX).map(|number| format!("text {number}"))).collect();
    let texts = prop::sample::subsequence(pool, length).prop_shuffle();
    let texts =
        texts.prop_map(|texts| ColumnValues::Texts(Texts::collect(texts.iter().map(String::as_str), 0).unwrap()));
    let values = prop_oneof![
        lists,
        texts,
        any_value().prop_map(ColumnValues::Constant),
        counting,
        numbers.clone(),
        prop::collection::vec(prop::option::of(any_value()), length).prop_map(ColumnValues::Values),
        sparse,
        if may_be_of_node { Just(ColumnValues::OfNode).boxed() } else { numbers.boxed() },
    ];
    values.prop_map(move |values| column(name, values))
}

fn any_columns(count: u32, of_procs: bool, rank_count: u32) -> impl Strategy<Value = Vec<Column>> {
    let names = ["pmix.hname", "pmix.nodeid", "pmix.lpeers", "pmix.appnum", "pmix.lrank", "user.a"];
    let columns: Vec<_> = names
        .into_iter()
        .map(|name| {
            prop::option::of(any_column(
                name,
                count,
                of_procs && name != "pmix.nodeid",
                (name == "pmix.lpeers").then_some(rank_count),
            ))
        })
        .collect();
    columns.prop_map(|columns| columns.into_iter().flatten().collect())
}

fn any_record() -> impl Strategy<Value = JobRecord> {
    (0..RANKS_MAX, 0_u32..4).prop_flat_map(|(rank_count, node_count)| {
        let apps = prop::collection::btree_map(0_u32..4, any_table(), 0..3);
        let apps = apps.prop_map(|apps| {
            apps.into_iter().map(|(number, entries)| AppRecord { number, entries, ..AppRecord::default() }).collect()
        });
        let own_node = prop::option::of(0..node_count.max(1)).prop_map(move |own| own.filter(|own| *own < node_count));
        let columns = (any_columns(node_count, false, rank_count), any_columns(rank_count, true, rank_count));
        (any_table(), prop::option::of(0_u32..3), any_table(), apps, own_node, columns).prop_map(
            move |(session, session_id, job, apps, own_node, (node_columns, proc_columns))| JobRecord {
                session,
                session_id,
                session_nodes: Vec::new(),
                other_sessions: Vec::new(),
                job,
                apps,
                node_count,
                node_columns,
                own_node,
                rank_count,
                proc_columns,
            },
        )
    })
}

pub(super) fn any_operation() -> impl Strategy<Value = Operation> {
    let scope = prop::sample::select(vec![Scope::Local, Scope::Remote, Scope::Global]);
    let values = prop::collection::btree_map(prop::sample::select(&KEYS[..]), (scope, any_value()), 0..5);
    let origin = prop::sample::select(vec![Origin::Local, Origin::Remote]);
    let arriving = prop::collection::btree_map(prop::sample::select(&KEYS[..]), any_value(), 0..5);
    prop_oneof![
        2 => any_record().prop_map(Operation::Register),
        12 => (0..RANKS_MAX, origin, values).prop_map(|(rank, origin, values)| Operation::Commit { rank, origin, values }),
        4 => prop::collection::vec((0..RANKS_MAX, arriving), 0..6).prop_map(Operation::Arrive),
        1 => Just(Operation::Deregister),
    ]
}
