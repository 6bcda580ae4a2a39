use super::*;

fn values<'r>(record: &'r JobRecord, key: &str) -> &'r ColumnValues {
    column(&record.proc_columns, key).unwrap()
}

#[test]
fn a_value_that_all_have_is_kept_once_whatever_its_type() {
    let described = |rank| process(rank, vec![info("pmix.pdir", "/same"), info("pmix.reinc", 0_u32), info("k", 1.5)]);
    let record = record(&[described(1), described(0)]);
    assert_eq!(values(&record, "pmix.pdir"), &ColumnValues::Constant(Value::from("/same")));
    assert_eq!(values(&record, "pmix.reinc"), &ColumnValues::Constant(Value::Uint32(0)));
    assert_eq!(values(&record, "k"), &ColumnValues::Constant(Value::Double(1.5)));
    assert_eq!(values(&record, "pmix.appnum"), &ColumnValues::Constant(Value::Uint32(0)));
}

#[test]
fn numbers_and_ranks_are_numbers() {
    let described = |rank: u32| {
        process(
            rank,
            vec![info("pmix.lrank", Value::from(rank + 1)), info("k", u64::from(rank)), info("m", Rank::from(rank))],
        )
    };
    let record = record(&[described(1), described(0), described(2)]);
    let numbers = |data_type, values: [u64; 3]| ColumnValues::Numbers { data_type, values: values.to_vec() };
    assert_eq!(values(&record, "pmix.lrank"), &numbers(DataType::Uint16, [1, 2, 3]));
    assert_eq!(values(&record, "k"), &numbers(DataType::Uint64, [0, 1, 2]));
    assert_eq!(values(&record, "m"), &numbers(DataType::ProcRank, [0, 1, 2]));
    let counting = ColumnValues::Counting { data_type: DataType::ProcRank, first: 0 };
    assert_eq!(values(&record, "pmix.apprank"), &counting);
}

#[test]
fn mixed_types_and_gaps_are_values() {
    let record = record(&[
        process(0, vec![info("mixed", 1_u8), info("gap", 1_u8)]),
        process(1, vec![info("mixed", 1_u16)]),
        process(2, vec![info("mixed", "x"), info("gap", 1_u8)]),
    ]);
    let mixed = [Value::Uint8(1), Value::Uint16(1), Value::from("x")].map(Some).to_vec();
    assert_eq!(values(&record, "mixed"), &ColumnValues::Values(mixed));
    let gap = vec![Some(Value::Uint8(1)), None, Some(Value::Uint8(1))];
    assert_eq!(values(&record, "gap"), &ColumnValues::Values(gap));
}

#[test]
fn few_of_many_are_listed_singly() {
    let record = record(&[info("pmix.job.size", 1000_u32), process(7, vec![info("k", 1_u8)])]);
    assert_eq!(values(&record, "k"), &ColumnValues::Sparse(vec![(7, Value::Uint8(1))]));
}

#[test]
fn a_host_name_is_a_reference_to_the_node_derived_or_told() {
    let mut description = maps("n0,n1", "0,2;1");
    assert_eq!(values(&record(&description), "pmix.hname"), &ColumnValues::OfNode);
    description.push(process(1, vec![info("pmix.hname", "n1"), info("pmix.nodeid", 1_u32)]));
    assert_eq!(values(&record(&description), "pmix.hname"), &ColumnValues::OfNode);
    // Another node id would lead to another name.
    description.push(process(2, vec![info("pmix.nodeid", 1_u32)]));
    let moved = record(&description);
    assert_eq!(proc_value(&moved, 2, "pmix.hname"), Some(Value::from("n0")));
}

#[test]
fn a_large_job_makes_columns_not_tables() {
    const RANKS: u32 = 200_000;
    let described: Vec<Info> = (0..RANKS)
        .map(|rank| {
            process(
                rank,
                vec![
                    info("pmix.lrank", u16::try_from(rank % 100).unwrap()),
                    info("pmix.nodeid", rank / 100),
                    info("pmix.spawned", false),
                ],
            )
        })
        .collect();
    let by_arrays = record(&described);
    let nodes = format!("pmix[n[5:0-{}]]", RANKS / 100 - 1);
    let ranks: Vec<String> = (0..RANKS / 100).map(|node| format!("{}-{}", node * 100, node * 100 + 99)).collect();
    let by_maps = record(&maps(&nodes, &format!("pmix[{}]", ranks.join(";"))));
    for key in ["pmix.lrank", "pmix.nodeid", "pmix.apprank", "pmix.appnum"] {
        assert_eq!(values(&by_arrays, key), values(&by_maps, key), "{key}");
    }
    let is_column = |values: &ColumnValues| !matches!(values, ColumnValues::Values(_) | ColumnValues::Sparse(_));
    assert!(by_arrays.proc_columns.iter().chain(&by_maps.proc_columns).all(|column| is_column(&column.values)));
}

#[test]
fn a_high_rank_alone_costs_nothing_for_the_others() {
    let record = record(&[process((1 << 24) - 1, vec![info("k", 1_u8), info("pmix.lrank", 0_u16)])]);
    assert_eq!(record.rank_count, 1 << 24);
    for column in &record.proc_columns {
        assert!(matches!(column.values, ColumnValues::Sparse(_) | ColumnValues::Constant(_)), "{}", column.key);
    }
}
