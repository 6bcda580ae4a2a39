use super::*;

fn broken(report: &Report) -> String {
    report.broken.as_ref().map_or_else(String::new, |broken| format!("seed {}: {broken:?}", report.seed))
}

#[test]
fn small_worlds_without_faults_keep_all_rules() {
    let setup = Setup { faults: Faults::empty(), ..Setup::SMALL };
    for seed in 0..20 {
        let report = run_twice(seed, &setup);
        assert_eq!(broken(&report), "");
        assert!(report.requests > 20, "{report:?}");
    }
}

#[test]
fn small_worlds_with_all_faults_keep_all_rules() {
    for seed in 0..40 {
        assert_eq!(broken(&run_twice(seed, &Setup::SMALL)), "");
    }
}

/// Seeds in which the checker was wrong. Each line is a rule that the checker has kept since:
///
/// - A refused request takes back only its own contribution, not that of an earlier life.
/// - A stopped process may go on after its time. It then has not asked, so its server has not failed it.
/// - Events need not reach a leaving process.
/// - A successor of a leader that has gone makes room for a higher successor.
/// - A leader whose message was lost has left its place.
/// - An event that has reached a process is not kept for the next life of the process.
/// - A process that leaves one group of a name has left all groups of that name, as far as others hear.
/// - News of a leader's end may be about an earlier life, in which it was an invited process.
/// - A group that ended without some of its members has ended. A clone that ends it again knows nothing of the group.
/// - A group leaves a node with the last local process that was told of it. A later process there is not in it.
#[test]
fn seeds_in_which_the_checker_was_wrong_keep_all_rules() {
    let lives = Faults::REORDER | Faults::DUPLICATE | Faults::INLINE | Faults::LATE | Faults::FLOOD | Faults::EXEC;
    let refused = Faults::DELAY | Faults::REFUSE | Faults::FLOOD | Faults::EXEC;
    let successors = Faults::INLINE | Faults::EXEC | Faults::CLONE | Faults::UNREGISTERED;
    for (seed, nodes, faults, faults_max) in [
        (44230, 3, refused, 18),
        (48469, 2, Faults::STOP, 3),
        (15500, 3, successors, 13),
        (37556, 3, Faults::DIE | Faults::DEREGISTER, 2),
        (153_972, 1, Faults::DELAY | Faults::EXEC, 5),
        (871_589, 3, Faults::DIE | Faults::HANG | Faults::FLOOD, 7),
        (422_802, 3, lives, 45),
        (3_059_458, 3, Faults::REFUSE | Faults::DIE | Faults::STOP | Faults::CLONE, 8),
        (3_324_720, 3, Faults::INLINE | Faults::LATE | Faults::EXEC | Faults::CLONE, 7),
    ] {
        let setup = Setup { nodes, ranks: 5, phases: 2, faults, faults_max, canary: None };
        assert_eq!(broken(&run_twice(seed, &setup)), "");
    }
}

/// The same: a server keeps no values of a job that it does not know. A process may lose sight of these at its next
/// fence.
#[test]
fn a_seed_with_a_job_that_a_server_learns_of_late_keeps_all_rules() {
    let setup = Setup { nodes: 6, ranks: 5, phases: 3, faults: Faults::UNREGISTERED, faults_max: 4, canary: None };
    assert_eq!(broken(&run_twice(13337, &setup)), "");
}

/// The same without any fault: one process left in a hurry. It finalized while it led, or before it could say that it
/// had entered.
#[test]
fn seeds_in_which_the_checker_expected_too_much_of_those_who_leave_keep_all_rules() {
    for (seed, nodes, ranks, phases) in [(403, 1, 7, 1), (422_802, 3, 5, 2), (2_000_166, 2, 2, 2)] {
        let setup = Setup { nodes, ranks, phases, faults: Faults::empty(), ..Setup::SMALL };
        assert_eq!(broken(&run_twice(seed, &setup)), "");
    }
}

/// A process and its clone come to fences one behind the other. In one fence, some participants ask for values and the
/// others do not. A participant that asks for none is promised none.
#[test]
fn a_fence_brings_values_to_those_who_ask_for_them() {
    let faults = Faults::DELAY | Faults::REORDER | Faults::LOSS | Faults::REFUSE | Faults::STOP | Faults::CLONE;
    let setup = Setup { nodes: 3, ranks: 8, phases: 6, faults, faults_max: 28, canary: None };
    assert_eq!(broken(&run_twice(13630, &setup)), "");
}

/// A process was stopped for a minute and then accepted an invitation that its leader had concluded. The servers told
/// it that the leader had ended. It led in the leader's place, and the members of the finished group were told so. The
/// servers were wrong: they now tell a latecomer that the group was aborted.
#[test]
fn no_member_hears_of_a_new_leader_after_the_group_is_formed() {
    let faults = Faults::DIE | Faults::STOP;
    let setup = Setup { nodes: 36, ranks: 49, phases: 3, faults, faults_max: 5, canary: None };
    assert_eq!(broken(&run(63_462_805_238_839, &setup)), "");
}

/// A job was deregistered while one of its processes asked for a value anew. Its server no longer knew the job, and
/// said so. The checker was wrong: the value stays in the mapping, but a refresh asks for the server's answer.
#[test]
fn a_refresh_finds_nothing_at_a_server_that_has_forgotten_the_job() {
    let faults = Faults::DELAY | Faults::DEREGISTER;
    let setup = Setup { nodes: 21, ranks: 63, phases: 7, faults, faults_max: 9, canary: None };
    assert_eq!(broken(&run(6_905_442_062_128, &setup)), "");
}

/// A process read a value of a connected job, finalized and initialized again. The connection ended with its first
/// life, and the server refused the value to the second one. The checker was wrong: a process may read only values of
/// jobs to which it is tied.
#[test]
fn a_process_that_initializes_again_has_no_ties() {
    let setup = Setup { nodes: 3, ranks: 5, phases: 2, faults: Faults::REINIT, faults_max: 2, canary: None };
    assert_eq!(broken(&run(8937, &setup)), "");
}

/// A process had finalized and was about to initialize again. A neighbour at a fence with it asked for its value, and
/// the server refused. The checker was wrong: nothing tells a server that a finalized process comes again.
#[test]
fn a_get_during_a_fence_does_not_wait_for_a_process_that_has_finalized() {
    let faults = Faults::STOP | Faults::REINIT | Faults::DEREGISTER;
    let setup = Setup { nodes: 1, ranks: 5, phases: 2, faults, faults_max: 4, canary: None };
    assert_eq!(broken(&run(6004, &setup)), "");
}

/// Shapes that no other test has: few processes on many nodes, many on few, and any mixture of faults.
#[test]
fn drawn_worlds_keep_all_rules() {
    for seed in 0..20 {
        assert_eq!(broken(&run(seed, &Setup::drawn(seed))), "");
    }
}

/// A rule counts only if a run can break it. Each planted defect is found by the rule that it breaks.
#[test]
fn every_planted_defect_is_found() {
    for (word, kind) in Canary::ALL {
        let setup = Setup { faults: kind.faults(), canary: Some(kind), ..Setup::SMALL };
        let mut broken = (0..60).filter_map(|seed| run_twice(seed, &setup).broken);
        let found = broken.next();
        let is_its_own = found.as_ref().is_some_and(|broken| kind.rules().contains(&broken.rule));
        assert!(is_its_own, "{word} is found by {found:?}");
    }
}

#[test]
fn a_failing_seed_is_made_smaller_and_still_fails() {
    let setup = Setup { canary: Some(Canary::ReplyTwice), ..Setup::SMALL };
    let failed = (0..60).map(|seed| run(seed, &setup)).find(|report| report.broken.is_some()).unwrap();
    let shortest = shrink(&failed, &setup).unwrap();
    assert_eq!(shortest.report.broken.as_ref().unwrap().rule, Rule::AnsweredOnce);
    assert!(shortest.report.steps <= failed.steps && shortest.setup.faults.is_empty(), "{shortest:?}");
    assert!(!shortest.report.lines.is_empty());
}
