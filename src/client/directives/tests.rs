use super::*;
use crate::gds::NodeSelector;
use crate::types::InfoFlags;

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn parse(infos: &[Info]) -> GetDirectives {
    GetDirectives::parse(infos).unwrap()
}

#[test]
fn no_directives_mean_the_defaults() {
    assert_eq!(parse(&[]), GetDirectives::default());
    assert!(parse(&[]).is_unqualified());
}

#[test]
fn a_flag_without_a_value_is_true() {
    assert!(parse(&[info(attribute::OPTIONAL, Value::Undefined)]).optional);
    assert!(!parse(&[info(attribute::OPTIONAL, false)]).optional);
}

#[test]
fn a_get_that_asks_again_has_only_the_rest_of_its_time() {
    // Regression: a Get that was held back behind another one, or joined one that timed out, repeated its whole time
    // limit. A limit of some seconds took twice as long. The rule: a retry subtracts the spent time first.
    let mut directives = parse(&[info(attribute::TIMEOUT, 5), info(attribute::IMMEDIATE, true)]);
    assert!(directives.spend(Duration::from_millis(1_500)));
    assert_eq!(directives.timeout, Some(Duration::from_millis(3_500)));
    assert_eq!(directives.upward, [info(attribute::TIMEOUT, Value::Int(4)), info(attribute::IMMEDIATE, true)]);
    assert!(!directives.spend(Duration::from_secs(60)), "nothing is left");
    assert!(parse(&[]).spend(Duration::MAX), "without a limit there is always time");
}

#[test]
fn entries_honoured_here_are_not_sent() {
    let here = [attribute::OPTIONAL, attribute::POINTER_VALUES].map(|key| info(key, true));
    assert_eq!(parse(&here).upward, []);
    assert!(parse(&[info(attribute::STATIC_VALUES, true)]).static_values);
}

#[test]
fn entries_the_server_honours_are_sent_unchanged() {
    let infos = [info(attribute::IMMEDIATE, true), info(attribute::TIMEOUT, 3i32), info(attribute::NODE_ID, 4u32)];
    let directives = parse(&infos);
    assert_eq!(directives.upward, infos);
    assert!(directives.immediate);
    assert_eq!(directives.timeout, Some(Duration::from_secs(3)));
}

#[test]
fn a_required_entry_that_nobody_knows_is_not_supported() {
    // Regression: a Get ignored a required directive that nothing knows, and answered another question. The rule: such
    // a Get is refused. Directives that are known, qualify the value, or were honoured before are accepted.
    let flagged = |key, flags: InfoFlags| Info { flags: flags.bits(), ..info(key, true) };
    let refused = GetDirectives::parse(&[flagged("vendor.thing", InfoFlags::REQUIRED)]).unwrap_err();
    assert!(matches!(&refused, DirectiveError::NotSupported { key } if key.as_str() == "vendor.thing"));
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    for (key, flags) in [
        (attribute::OPTIONAL, InfoFlags::REQUIRED),
        (attribute::IMMEDIATE, InfoFlags::REQUIRED),
        ("vendor.thing", InfoFlags::empty()),
        ("vendor.thing", InfoFlags::REQUIRED | InfoFlags::QUALIFIER),
        ("vendor.thing", InfoFlags::REQUIRED | InfoFlags::PROCESSED),
    ] {
        assert!(GetDirectives::parse(&[flagged(key, flags)]).is_ok(), "{key} {flags:?}");
    }
}

#[test]
fn unknown_entries_are_kept_for_the_server() {
    let mut unknown = info("vendor.thing", 1u8);
    assert_eq!(parse(std::slice::from_ref(&unknown)).upward, [unknown.clone()]);
    unknown.flags = InfoFlags::REQUIRED.bits();
    assert_eq!(FenceDirectives::parse(std::slice::from_ref(&unknown)).unwrap().upward, [unknown]);
}

#[test]
fn the_session_directive_is_sent_first() {
    let directives = parse(&[info(attribute::SESSION_ID, 7u32), info(attribute::SESSION_INFO, true)]);
    assert_eq!(directives.upward[0].key.as_str(), attribute::SESSION_INFO);
    assert_eq!(directives.realm_request(), RealmRequest::Session(Some(7)));
}

#[test]
fn a_timeout_of_zero_is_no_timeout_and_a_negative_one_is_refused() {
    assert_eq!(parse(&[info(attribute::TIMEOUT, 0i32)]).timeout, None);
    let refused = GetDirectives::parse(&[info(attribute::TIMEOUT, -1i32)]).unwrap_err();
    assert!(matches!(&refused, DirectiveError::WrongValue { key, .. } if key.as_str() == attribute::TIMEOUT));
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn qualifiers_alone_name_their_realm() {
    let node = parse(&[info(attribute::HOSTNAME, "n1")]);
    assert_eq!(node.realm_request(), RealmRequest::Node(NodeSelector::Name("n1")));
    assert_eq!(parse(&[info(attribute::APP_NUMBER, 2u32)]).realm_request(), RealmRequest::App(Some(2)));
    assert_eq!(parse(&[info(attribute::SESSION_ID, 2u32)]).realm_request(), RealmRequest::Default);
}

#[test]
fn a_realm_directive_takes_its_qualifier() {
    let node = parse(&[info(attribute::NODE_INFO, true), info(attribute::NODE_ID, 5u32)]);
    assert_eq!(node.realm_request(), RealmRequest::Node(NodeSelector::Id(5)));
    let implied = parse(&[info(attribute::NODE_INFO, true)]);
    assert_eq!(implied.realm_request(), RealmRequest::Node(NodeSelector::Implied));
    assert_eq!(parse(&[info(attribute::JOB_INFO, true)]).realm_request(), RealmRequest::Job);
    assert_eq!(parse(&[info(attribute::APP_INFO, true)]).realm_request(), RealmRequest::App(None));
}

#[test]
fn of_several_realms_one_counts_and_is_sent() {
    // Regression: two realms were refused, but programs written for OpenPMIx expect an answer. Servers of the reference
    // use the first realm, so the message names only one.
    const NAMED: [(&str, RealmDirective); 4] = [
        (attribute::SESSION_INFO, RealmDirective::Session),
        (attribute::NODE_INFO, RealmDirective::Node),
        (attribute::APP_INFO, RealmDirective::App),
        (attribute::JOB_INFO, RealmDirective::Job),
    ];
    for (position, (first, realm)) in NAMED.into_iter().enumerate() {
        for (second, _) in &NAMED[position..] {
            for both in [[first, *second], [*second, first]] {
                let directives = parse(&both.map(|key| info(key, true)));
                assert_eq!(directives.realm, realm, "{both:?}");
                assert!(directives.upward.iter().all(|sent| *sent == info(first, true)), "{:?}", directives.upward);
                assert!(!directives.upward.is_empty());
            }
        }
    }
    let unsaid = parse(&[info(attribute::SESSION_INFO, false), info(attribute::JOB_INFO, true)]);
    assert_eq!((unsaid.realm, unsaid.upward), (RealmDirective::Job, vec![info(attribute::JOB_INFO, true)]));
}

#[test]
fn pointer_and_static_values_exclude_each_other() {
    let both = [info(attribute::POINTER_VALUES, true), info(attribute::STATIC_VALUES, true)];
    assert!(matches!(GetDirectives::parse(&both), Err(DirectiveError::Conflict { .. })));
}

#[test]
fn a_scope_restricts_and_the_undefined_scope_does_not() {
    assert_eq!(parse(&[info(attribute::DATA_SCOPE, Value::Scope(2))]).scope, Some(Scope::Remote));
    assert_eq!(parse(&[info(attribute::DATA_SCOPE, Value::Scope(0))]).scope, None);
    assert!(GetDirectives::parse(&[info(attribute::DATA_SCOPE, Value::Scope(9))]).is_err());
}

#[test]
fn a_narrowed_get_is_not_unqualified() {
    let mut qualifier = info("vendor.q", 1u8);
    qualifier.flags = InfoFlags::QUALIFIER.bits();
    for narrowed in [
        info(attribute::DATA_SCOPE, Value::Scope(1)),
        info(attribute::SESSION_ID, 1u32),
        info(attribute::HOSTNAME, "n1"),
        info(attribute::JOB_INFO, true),
        info(keys::DEVICE_ID.name(), "02:00:00:00:00:01"),
        info(keys::FABRIC_DEVICE_NAME.name(), "eth0"),
        info(keys::FABRIC_DEVICE_INDEX.name(), 3u32),
        info(keys::FABRIC_PLANE.name(), "10.0.0.0/8"),
        qualifier,
    ] {
        assert!(!parse(&[narrowed]).is_unqualified());
    }
    assert!(parse(&[info(attribute::TIMEOUT, 1i32)]).is_unqualified());
}

#[test]
fn immediate_is_demanded_once() {
    let mut directives = parse(&[info(attribute::IMMEDIATE, false)]);
    directives.demand_immediate();
    directives.demand_immediate();
    assert_eq!(directives.upward, [info(attribute::IMMEDIATE, true)]);
}

#[test]
fn fence_directives_are_read() {
    let infos = [
        info(attribute::COLLECT_DATA, true),
        info(attribute::COLLECT_GENERATED_JOB_INFO, false),
        info(attribute::TIMEOUT, 9i32),
    ];
    let directives = FenceDirectives::parse(&infos).unwrap();
    assert!(directives.collect);
    assert_eq!(directives.collect_generated_job_info, Some(false));
    assert_eq!(directives.timeout, Some(Duration::from_secs(9)));
    assert_eq!(directives.upward, infos);
    assert!(FenceDirectives::parse(&[info(attribute::COLLECT_DATA, 5u8)]).is_err());
}
