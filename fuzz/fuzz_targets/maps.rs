//! Maps that claim large contents: reading a map costs no more than its limits, even before it is refused.
//!
//! Input: one byte that chooses the limits, then a map. The target counts allocated bytes.

#![no_main]

use std::alloc::System;

use libfuzzer_sys::fuzz_target;
use modex::gds::registration::{Context, DescriptionLimits, parse};
use modex::regex::{MapLimits, expand_nodes, expand_ranks};
use modex::types::{Info, Key, Value};
use modex_fuzz::sample;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fuzz_target!(|input: &[u8]| {
    let Some((choice, map)) = input.split_first() else { return };
    let scale = 1_u32 << (choice % 8);
    let limits = MapLimits {
        nodes_max: 16 * scale,
        ranks_max: 64 * scale,
        name_bytes_max: 64,
        names_bytes_max: 256 * scale,
        inflated_bytes_max: 512 * scale,
    };
    within_budget(map, scale, || drop(expand_nodes(map, &limits)));
    within_budget(map, scale, || drop(expand_ranks(map, &limits)));
    let context = Context {
        limits: DescriptionLimits { nodes_max: 16 * scale, ranks_max: 64 * scale, ..DescriptionLimits::default() },
        ..Context::new("n0")
    };
    for key in ["pmix.nmap", "pmix.pmap"] {
        let description = [Info::new(Key::from_static(key), Value::Regex(map.to_vec()))];
        drop(parse(&sample::namespace(), &context, &description, None));
    }
});

/// Reading takes memory in proportion to the map and to the limits. Inflating has a window of fixed size.
fn within_budget(map: &[u8], scale: u32, read: impl FnOnce()) {
    const WINDOW_BYTES: usize = 512 << 10;
    let region = Region::new(ALLOCATOR);
    read();
    let asked = region.change().bytes_allocated;
    let scale = usize::try_from(scale).expect("a small number");
    let budget = WINDOW_BYTES + 64 * map.len() + 16_384 * scale;
    assert!(asked <= budget, "{asked} bytes for a map of {}, the budget is {budget}", map.len());
}
