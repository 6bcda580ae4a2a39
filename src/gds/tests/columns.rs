//! Each encoding of a column, read through a segment.

use super::*;
use crate::gds::job_record::EndpointLists;
use crate::types::DataType::{self, ProcRank, Uint8, Uint16, Uint32, Uint64};
use crate::types::{DataArray, Endpoint, Info, Text, Timeval};

/// Stores a process column; checks every value, and returns the encoding.
fn stored(values: ColumnValues, rank_count: u32) -> &'static str {
    let expected = values.clone();
    let record = JobRecord { rank_count, proc_columns: vec![column("k", values)], ..JobRecord::default() };
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &record).unwrap();
    let reader = store.reader(&namespace()).unwrap();
    for rank in 0..rank_count + 1 {
        let index = rank as usize;
        let expected = match &expected {
            _ if rank == rank_count => None,
            ColumnValues::Constant(value) => Some(value.clone()),
            ColumnValues::Numbers { data_type, values } => {
                Some(crate::gds::layout::cell::value_of_scalar(*data_type, values[index]).unwrap())
            }
            ColumnValues::Counting { data_type, first } => {
                Some(crate::gds::layout::cell::value_of_scalar(*data_type, first + u64::from(rank)).unwrap())
            }
            ColumnValues::Texts(texts) => texts.get(index).map(Value::from),
            ColumnValues::Values(values) => values[index].clone(),
            ColumnValues::Sparse(values) => values.iter().find(|(at, _)| *at == rank).map(|(_, value)| value.clone()),
            ColumnValues::Endpoints(endpoints) => endpoints.of(rank),
            ColumnValues::RankLists(_) | ColumnValues::OfNode => None,
        };
        assert_eq!(get(reader, rank, "k"), expected.ok_or(ReadError::NotFound), "rank {rank}");
    }
    let tables = reader.job_tables().unwrap().unwrap();
    tables.proc_columns[0].encoding()
}

fn numbers(data_type: DataType, values: impl IntoIterator<Item = u64>) -> (ColumnValues, u32) {
    let values: Vec<u64> = values.into_iter().collect();
    let count = u32::try_from(values.len()).unwrap();
    (ColumnValues::Numbers { data_type, values }, count)
}

fn encoding_of((values, count): (ColumnValues, u32)) -> &'static str {
    stored(values, count)
}

/// A list of endpoints without bytes.
fn list(devices: &[&str]) -> Value {
    let endpoint = |name: &&str| {
        Value::Endpoint(Box::new(Endpoint { uuid: None, os_name: Some(Text::from(*name)), bytes: Vec::new() }))
    };
    let elements = devices.iter().map(endpoint).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Endpoint, elements }))
}

/// Regression: each registration of a job added all lists of endpoints again.
#[test]
fn lists_that_no_process_takes_are_left_out() {
    let mut endpoints = EndpointLists { lists: vec![list(&["hca0"])], numbers: vec![1, 1] };
    let before = endpoints.clone();
    endpoints.add(before.clone());
    assert_eq!(endpoints, before);
    endpoints.add(EndpointLists { lists: vec![list(&["hca0"]), list(&["hca1"])], numbers: vec![1, 1, 2, 0, 2] });
    assert_eq!(
        endpoints,
        EndpointLists { lists: vec![list(&["hca0"]), list(&["hca1"])], numbers: vec![1, 1, 2, 0, 2] }
    );
}

#[test]
fn processes_share_lists_of_endpoints_and_each_has_its_own_bytes() {
    let lists = vec![list(&["hca0"]), list(&["hca1", "hca2"])];
    for numbers in [vec![1; 5], vec![1, 2, 0, 2], vec![0, 0, 2, 1, 2, 1, 1, 1, 1, 1]] {
        let endpoints = EndpointLists { lists: lists.clone(), numbers };
        let count = u32::try_from(endpoints.numbers.len()).unwrap();
        assert_eq!(stored(ColumnValues::Endpoints(endpoints.clone()), count), "endpoints");
        let proc_columns = vec![column("k", ColumnValues::Endpoints(endpoints.clone()))];
        let record = JobRecord { rank_count: count, proc_columns, ..JobRecord::default() };
        let mut store = store(BackingKind::Heap);
        store.register_record(&namespace(), &record).unwrap();
        assert_eq!(store.reader(&namespace()).unwrap().job_record().unwrap(), record);
    }
    let alone = EndpointLists { lists, numbers: vec![0, 2] };
    let Some(Value::DataArray(array)) = alone.of(1) else { panic!("{alone:?}") };
    let bytes = |value: &Value| if let Value::Endpoint(endpoint) = value { endpoint.bytes.clone() } else { Vec::new() };
    assert_eq!(array.elements.iter().map(bytes).collect::<Vec<_>>(), [[1, 0, 0, 0], [1, 0, 0, 0]]);
}

#[test]
fn regular_numbers_are_computed() {
    assert_eq!(encoding_of(numbers(ProcRank, 0..1000)), "stride");
    assert_eq!(encoding_of(numbers(Uint32, (0..1000).map(|rank| rank / 32))), "stride");
    assert_eq!(encoding_of(numbers(Uint16, (0..1000).map(|rank| rank % 7))), "stride");
    assert_eq!(encoding_of(numbers(Uint16, (0..1000).map(|rank| rank / 4 % 7))), "stride");
    assert_eq!(encoding_of(numbers(Uint64, [u64::MAX; 9])), "constant");
    assert_eq!(stored(ColumnValues::Counting { data_type: ProcRank, first: 7 }, 1000), "stride");
    assert_eq!(stored(ColumnValues::Counting { data_type: Uint64, first: u64::MAX - 2 }, 3), "stride");
    assert_eq!(stored(ColumnValues::Constant(Value::Bool(true)), 3), "constant");
    assert_eq!(stored(ColumnValues::Constant("text beyond a cell".into()), 3), "constant");
    assert_eq!(encoding_of(numbers(Uint8, [])), "constant");
}

#[test]
fn irregular_numbers_are_arrays_of_any_width() {
    let scattered = |max: u64| {
        (0..100_u64)
            .map(move |i| (i * i * 31 + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(11) % max)
            .chain([0, max])
    };
    for (data_type, max) in [(Uint8, 0xFF), (Uint16, 0xFFFF), (Uint32, 0xFFFF_FFFF), (Uint64, u64::MAX)] {
        assert_eq!(encoding_of(numbers(data_type, scattered(max))), "narrow array");
    }
}

#[test]
fn an_uneven_map_is_stored_as_runs() {
    let local_ranks = (0..50_u64).flat_map(|node| 0..200 + node % 3);
    assert_eq!(encoding_of(numbers(Uint16, local_ranks)), "runs");
}

#[test]
fn other_values_select_cells_and_the_selection_is_encoded_like_numbers() {
    let value = |i: u32| match i % 4 {
        0 => Value::from("short"),
        1 => Value::from("longer than a cell holds"),
        2 => Value::Timeval(Timeval { seconds: i.into(), microseconds: -1 }),
        _ => Value::info_array(vec![Info::new(key("x"), "y")]),
    };
    assert_eq!(stored(ColumnValues::Values((0..400).map(|i| Some(value(i % 4))).collect()), 400), "stride into cells");
    let holes = (0..400).map(|i| (i % 5 != 0).then(|| value(i * i % 4))).collect();
    assert_eq!(stored(ColumnValues::Values(holes), 400), "narrow array into cells");
    let blocks = (0..2000).map(|i| Some(Value::from(["a", "b", "c"][(i / 100 * 7 % 3) as usize]))).collect::<Vec<_>>();
    let uneven = blocks.into_iter().skip(37).collect::<Vec<_>>();
    assert_eq!(stored(ColumnValues::Values(uneven), 1963), "runs into cells");
    let distinct = (0..300).map(|i| Some(Value::from(format!("unique {i}")))).collect();
    assert_eq!(stored(ColumnValues::Values(distinct), 300), "stride into cells");
    let names: Vec<String> = (0..300).map(|i| format!("n{i}{}", "x".repeat(i % 9))).collect();
    let texts = Texts::collect(names.iter().map(String::as_str), 0).unwrap();
    assert_eq!(stored(ColumnValues::Texts(texts), 300), "stride into cells");
    assert_eq!(stored(ColumnValues::Texts(Texts::new("abc".to_owned(), vec![0, 3])), 2), "stride into cells");
}

#[test]
fn few_of_many_are_sparse_and_equal_scalars_become_numbers() {
    let few = (0..100).map(|i| (i == 7 || i == 99).then(|| Value::from("x"))).collect();
    assert_eq!(stored(ColumnValues::Values(few), 100), "sparse");
    assert_eq!(stored(ColumnValues::Sparse(vec![(0, Value::NullString), (9, Value::Undefined)]), 10), "sparse");
    assert_eq!(stored(ColumnValues::Sparse(vec![]), 10), "sparse");
    let signed = (0..100).map(|i| Some(Value::Int(-5 + i))).collect();
    assert_eq!(stored(ColumnValues::Values(signed), 100), "stride");
    let mixed = (0..100).map(|i| Some(if i % 2 == 0 { Value::Int(1) } else { Value::Uint(1) })).collect();
    assert_eq!(stored(ColumnValues::Values(mixed), 100), "stride into cells");
}

#[test]
fn strings_are_followed_by_a_nul() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, 1)).unwrap();
    let reader = store.reader(&namespace()).unwrap();
    let tables = reader.job_tables().unwrap().unwrap();
    let (_, value) = tables.job.iter().find(|(name, _)| *name == "pmix.jobid").unwrap();
    assert_eq!(value.as_str(), Some("job-1"));
    // "node00000" does not fit a cell; its NUL is read from the segment.
    let lookup =
        Lookup { rank: Rank::Process(0), key: KeyRef::new("pmix.hname"), realm: RealmRequest::Default, audience: None };
    assert_eq!(reader.get(&lookup).unwrap().as_c_str().unwrap().to_bytes_with_nul(), b"node00000\0");
    assert_eq!(value.as_c_str().unwrap().to_bytes_with_nul(), b"job-1\0");
}
