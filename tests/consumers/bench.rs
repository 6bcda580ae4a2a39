//! `pmixbench` with servers and clients on the library under test.

use crate::library::library;
use crate::pmixbench::run_every_scenario;

#[test]
fn every_scenario_of_pmixbench_runs() {
    run_every_scenario("pmixbench", library(), library());
}
