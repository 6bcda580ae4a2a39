use super::*;

fn proc(rank: u32) -> ProcId {
    ProcId::new(Namespace::new("job").unwrap(), rank)
}

/// Each of these leads an invitation of four.
fn led_by(leaders: &[u32]) -> InvitedGroups {
    let mut groups = InvitedGroups::default();
    leaders.iter().for_each(|&leader| invite(&mut groups, leader));
    groups
}

fn invite(groups: &mut InvitedGroups, leader: u32) {
    groups.invite((proc(leader), Text::from("g")), [0, 1, 2, 3].map(proc).to_vec());
}

/// Process 3 hears of one leader, and then of another. Returns whether both must lead one place.
fn is_comparable(groups: &mut InvitedGroups, first: u32, then: u32) -> bool {
    is_comparable_after(groups, (first, Time::ZERO), then)
}

fn is_comparable_after(groups: &mut InvitedGroups, (first, at): (u32, Time), then: u32) -> bool {
    groups.note_selected(Time::ZERO, 3, &proc(3), &Text::from("g"), &proc(first));
    groups.note_selected(at, 3, &proc(3), &Text::from("g"), &proc(then)) == Some(proc(first))
}

/// Seed 15500: two processes had offered to lead, and the lower one, which led, had ended.
#[test]
fn a_place_is_the_lowest_ones_until_that_has_gone() {
    let mut groups = led_by(&[0]);
    groups.left(&proc(0), Time::ZERO);
    [1, 2].iter().for_each(|&rank| groups.volunteers(&proc(rank)));
    assert!(is_comparable(&mut groups, 1, 2));
    groups.left(&proc(1), Time::ZERO);
    assert!(!is_comparable(&mut groups, 1, 2));
    groups.volunteers(&proc(1));
    assert!(is_comparable(&mut groups, 1, 2), "it has come again");
}

#[test]
fn a_place_is_nobodys_for_ever_who_does_not_invite() {
    for (invites, seconds, is_kept) in [(false, 50, true), (false, 61, false), (true, 61, true)] {
        let mut groups = led_by(&[0]);
        groups.left(&proc(0), Time::ZERO);
        if invites {
            invite(&mut groups, 1);
        }
        let later = Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(is_comparable_after(&mut groups, (1, later), 2), is_kept, "{invites} {seconds}");
    }
}

/// Process 3 had decided how its own invitation ended, but its server never heard of that.
#[test]
fn two_places_of_one_name_have_two_leaders() {
    for is_known_to_server in [true, false] {
        let mut groups = led_by(&[0, 3]);
        groups.left(&proc(0), Time::ZERO);
        assert!(is_comparable(&mut groups, 1, 2));
        let info = [Info::new(Key::from_static(keys::GROUP_ID.name()), "g")];
        if is_known_to_server {
            groups.tells(PeerId(1), Tag(1), &proc(3), Status::GROUP_CONSTRUCT_ABORT, &info);
        }
        groups.all.values_mut().for_each(|party| party.over_since = Some(Time::ZERO));
        groups.left(&proc(3), Time::ZERO);
        assert_eq!(is_comparable(&mut groups, 1, 2), is_known_to_server);
    }
}

/// A short time excuses a process; enough time does not.
#[test]
fn all_who_stay_long_enough_are_in_the_group() {
    let formed = Some(Group { members: [0, 1].map(proc).to_vec(), number: None });
    let soon = Time::ZERO + Duration::from_micros(800);
    let later = Time::ZERO + Duration::from_millis(2);
    for (who, when, is_known_to_server, is_kept) in [
        (1, soon, true, true),
        (1, later, true, false),
        (1, soon, false, true),
        (0, soon, true, false),
        (0, soon, false, true),
        (0, later, false, false),
    ] {
        let invited = [0, 1].map(proc).to_vec();
        let others = [1 - who].map(proc).into();
        let over_since = Some(Time::ZERO);
        let formed = formed.clone();
        let mut party = InvitedGroup {
            invited,
            formed,
            over_since,
            is_known_to_server,
            entered: others,
            ..InvitedGroup::default()
        };
        if (who, is_known_to_server) == (0, true) {
            party.entered.clear();
        }
        party.lose(&proc(who), who == 0, when);
        assert_eq!(party.is_kept(&proc(0)), is_kept, "{who} leaves at {when:?}, {is_known_to_server}");
        party.formed = Some(Group { members: vec![proc(0)], number: None });
        assert!(!party.is_kept(&proc(0)), "whoever has accepted is in it");
    }
}

/// Two processes led in the place of one, and formed groups of one name.
#[test]
fn a_process_that_leaves_a_group_has_left_all_of_that_name() {
    let mut groups = led_by(&[0, 1]);
    groups.all.values_mut().take(1).for_each(|party| party.left.extend([proc(2)]));
    assert!(groups.has_left(&Text::from("g"), &proc(2)) && !groups.has_left(&Text::from("g"), &proc(3)));
    assert!(!groups.has_left(&Text::from("h"), &proc(2)));
}

/// Seed 153972: the host took long to answer. Meanwhile a process that had heard of the event had ended and come again.
#[test]
fn an_event_that_has_reached_a_process_need_not_reach_its_next_life() {
    let (server, status) = (ServerId { node: 0, epoch: 0 }, Status::GROUP_INVITED);
    for (heard, other_listens) in [(true, false), (false, false), (true, true)] {
        let mut groups = InvitedGroups::default();
        let listens = |groups: &mut InvitedGroups, peer| {
            groups.asks(PeerId(peer), Tag(1), &proc(1), &[status]);
            assert_eq!(groups.replied(server, PeerId(peer), Tag(1), Status::SUCCESS), None);
        };
        listens(&mut groups, 1);
        if other_listens {
            listens(&mut groups, 2);
        }
        let target = Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), proc(1));
        let info = vec![target, groups.numbered()];
        groups.tells(PeerId(9), Tag(7), &proc(0), status, &info);
        if heard {
            let event = EventNotice { status, source: Some(proc(0)), range: None, info };
            assert_eq!(groups.reaches(PeerId(1), &proc(1), &event), None);
        }
        groups.connection_ended(PeerId(1));
        listens(&mut groups, 3);
        let passed_over = groups.replied(server, PeerId(9), Tag(7), Status::SUCCESS);
        assert_eq!(passed_over.is_none(), heard && !other_listens, "{passed_over:?}");
    }
}
