//! Tables of process arrays are equivalent to the arrays.

use super::properties::{renumbered, tree};
use super::*;
use proptest::prelude::*;

/// Files every process array that fits a table.
fn tabulated(infos: &[Info]) -> Description {
    let mut description = Description::default();
    for info in infos {
        if file(info, &mut description).is_none() {
            description.push(info.clone());
        }
    }
    description
}

fn file(info: &Info, description: &mut Description) -> Option<()> {
    let Value::DataArray(array) = &info.value else { return None };
    let entries: Option<Vec<&Info>> =
        array.elements.iter().map(|entry| if let Value::Info(info) = entry { Some(&**info) } else { None }).collect();
    let entries = entries.filter(|_| info.key.as_str() == "pmix.pdata")?;
    let (first, others) = entries.split_first()?;
    let Value::ProcRank(Rank::Process(rank)) = first.value else { return None };
    (first.key.as_str() == "pmix.rank").then_some(())?;
    let table = description.processes();
    let mut cells = Vec::new();
    for (place, entry) in others.iter().enumerate() {
        let known = table.column_at(place, |key| key == entry.key.as_str());
        let column = known.or_else(|| table.column(place, &entry.key))?;
        cells.push(table.cell(column, given(&entry.value))?);
    }
    table.push(rank, &cells);
    Some(())
}

fn given(value: &Value) -> HostValue<'_> {
    match value {
        Value::Uint16(number) => HostValue::Number(DataType::Uint16, (*number).into()),
        Value::Uint32(number) => HostValue::Number(DataType::Uint32, *number),
        Value::ProcRank(Rank::Process(rank)) => HostValue::Number(DataType::ProcRank, *rank),
        Value::String(text) => HostValue::Text(text.as_bytes()),
        other => HostValue::Other(other.clone()),
    }
}

/// The record, its columns in the order of their keys.
fn sorted(record: Result<JobRecord, RegisterError>) -> Result<JobRecord, ()> {
    let mut record = record.map_err(|_| ())?;
    record.proc_columns.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(record)
}

fn parsed(description: &Description, previous: Option<&JobRecord>) -> Result<JobRecord, RegisterError> {
    parse_description(&namespace(), &context(), description, previous)
}

/// A usual process array, with some variation.
fn usual() -> impl Strategy<Value = Info> {
    let node = prop::sample::select(vec!["n0", "n1", "n2"]);
    (0..6_u32, node, 0..3_u32, any::<bool>()).prop_map(|(rank, node, app, is_turned)| {
        let mut entries = vec![info("pmix.appnum", app), info("pmix.hname", node), info("pmix.lrank", 1_u16)];
        if is_turned {
            entries.reverse();
            entries.push(info("my.key", Value::Bool(true)));
        }
        process(rank, entries)
    })
}

#[test]
fn process_arrays_leave_nothing_but_a_table() {
    let entries = |rank: u32| vec![info("pmix.grank", Rank::from(rank)), info("pmix.hname", "n1"), info("my", 1_u64)];
    let infos: Vec<Info> = (0..100).map(|rank| process(rank, entries(rank))).collect();
    let description = tabulated(&infos);
    assert!(description.infos().is_empty());
    assert_eq!(*description.to_infos(), infos);
    assert_eq!(parsed(&description, None).unwrap(), record(&infos));
}

/// Regression: the last array won, and other values of the first stayed. A host that numbered its processes wrongly got
/// no error.
#[test]
fn a_second_array_of_a_process_is_refused_in_a_table_or_not() {
    let plain = |rank: u32| process(rank, vec![info("pmix.lrank", 0_u16)]);
    let nested = |rank: u32| array("pmix.app.arr", vec![info("pmix.appnum", 0_u32), process(rank, Vec::new())]);
    let with_id = |rank: u32| {
        let id = info("pmix.procid", ProcId::new(namespace(), rank));
        array("pmix.pdata", vec![id, info("pmix.appnum", 0_u32)])
    };
    let deep = |rank: u32| job(vec![info("pmix.jobid", "j"), process(rank, vec![process(rank, vec![])])]);
    for (infos, place) in [
        (vec![plain(0), plain(1), plain(0)], "pdata[2]"),
        (vec![plain(1), plain(0), plain(2), plain(1)], "pdata[3]"),
        (vec![plain(1), nested(1), plain(1)], "app.arr[1].pdata[1]"),
        (vec![nested(7), plain(1), nested(7)], "app.arr[2].pdata[1]"),
        (vec![plain(0), info("my.key", 1_u32), with_id(0)], "pdata[2]"),
        (vec![deep(0)], "job.arr[0].pdata[1].pdata[1]"),
        (vec![plain(1 << 20), plain(0), plain(1 << 20)], "pdata[2]"),
    ] {
        let [of_table, of_infos] = [parsed(&tabulated(&infos), None), register(&infos)].map(Result::unwrap_err);
        assert_eq!(of_table, of_infos);
        let said = of_infos.to_string();
        assert!(said.starts_with(&format!("{place} \"pmix.rank\": rank ")), "{place}: {said}");
        assert!(said.contains(" has a process array already"), "{said}");
    }
}

/// PRRTE and ParaStation list processes node by node, so the ranks of a cyclic map do not ascend.
#[test]
fn processes_may_be_told_of_in_any_order() {
    let cyclic: Vec<Info> = (0..3).flat_map(|node| (0..4).map(move |at| process(at * 3 + node, vec![]))).collect();
    assert_eq!(record(&cyclic).rank_count, 12);
    let far_apart = [7 << 20, 3, 1 << 20].map(|rank| process(rank, vec![]));
    assert_eq!(record(&far_apart).rank_count, (7 << 20) + 1);
}

#[test]
fn infos_that_say_nothing_of_processes_leave_the_table_open() {
    let infos = [
        process(0, vec![info("pmix.appnum", 0_u32)]),
        node("n0", vec![info("pmix.local.size", 1_u32)]),
        process(1, vec![info("pmix.appnum", 0_u32)]),
        info("pmix.job.size", 2_u32),
        process(2, vec![info("pmix.appnum", 0_u32)]),
    ];
    let spelled = tabulated(&infos).to_infos().into_owned();
    assert_eq!(spelled, [&infos[0], &infos[2], &infos[4], &infos[1], &infos[3]].map(Clone::clone));
}

#[test]
fn entries_prepended_to_a_table_stay_before_it() {
    let mut description = tabulated(&[process(0, vec![info("pmix.appnum", 1_u32)])]);
    let added = |app: u32| process(0, vec![info("pmix.appnum", app)]);
    description.prepend(vec![added(2), added(3), info("pmix.job.size", 1_u32)]);
    let record = parsed(&description, None).unwrap();
    assert_eq!(proc_value(&record, 0, "pmix.appnum"), Some(Value::Uint32(1)));
    let mut twice = description.clone();
    twice.push(added(4));
    let said = parsed(&twice, None).unwrap_err().to_string();
    assert!(said.starts_with("pdata[1] \"pmix.rank\": rank 0 has a process array already"), "{said}");
    assert!(description.has(&Key::from_static("pmix.pdata")) && !description.has(&Key::from_static("pmix.rank")));
}

#[test]
fn limits_hold_for_tables() {
    let infos: Vec<Info> = (0..9).map(|rank| process(rank, vec![info("pmix.appnum", 0_u32)])).collect();
    let description = tabulated(&infos);
    let (job, limits) = (namespace(), DescriptionLimits::default());
    for (limits, is_enough) in [
        (DescriptionLimits { ranks_max: 8, ..limits }, false),
        (DescriptionLimits { ranks_max: 9, ..limits }, true),
        (DescriptionLimits { entries_max: 26, ..limits }, false),
        (DescriptionLimits { entries_max: 27, ..limits }, true),
        (DescriptionLimits { depth_max: 0, ..limits }, false),
    ] {
        let context = Context { limits, ..context() };
        let [of_table, of_infos] = [
            parse_description(&job, &context, &description, None).map_err(|error| error.to_string()),
            parse(&job, &context, &infos, None).map_err(|error| error.to_string()),
        ];
        assert_eq!(of_table, of_infos);
        assert_eq!(of_table.is_ok(), is_enough, "{limits:?}");
    }
}

#[test]
fn text_is_kept_once_whatever_stands_between() {
    let of = |rank: u32| process(rank, vec![info("pmix.hname", ["n0", "n1", "n2"][rank as usize % 3])]);
    let infos: Vec<Info> = (0..30).map(of).collect();
    let description = tabulated(&infos);
    assert_eq!(*description.to_infos(), infos);
    assert!(format!("{description:?}").matches("\"n1\"").count() == 1);
}

proptest! {
    #[test]
    fn a_description_in_tables_says_the_same(
        infos in prop::collection::vec(prop_oneof![3 => usual(), 1 => tree()], 0..12),
        update in prop::collection::vec(prop_oneof![3 => usual(), 1 => tree()], 0..6),
        may_repeat in prop::bool::weighted(0.2),
    ) {
        let [infos, update] = [infos, update].map(|infos| if may_repeat { infos } else { renumbered(infos) });
        let whole = sorted(register(&infos));
        prop_assert_eq!(&sorted(parsed(&tabulated(&infos), None)), &whole);
        prop_assert_eq!(&sorted(register(&tabulated(&infos).to_infos())), &whole);
        if let Ok(previous) = whole {
            let told = parse(&namespace(), &context(), &update, Some(&previous));
            prop_assert_eq!(sorted(parsed(&tabulated(&update), Some(&previous))), sorted(told));
        }
    }
}
