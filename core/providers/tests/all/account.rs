//! The account, as codex tells of it: its limits, and how a sign-in ends. The scripted model has no limits and nobody waits for
//! fifteen minutes, so the frames are made by codex' own schema (`AccountRateLimitsUpdatedNotification`) and as they were seen.

use pilothouse_domain::{
    NativeId, ProviderEventKind, limits, provider::AccountLimit, provider_event::Resolution,
    request::RequestKind,
};
use pilothouse_providers::codex::{Call, CallError, Codec, Received};
use serde_json::{Value, json};

fn told(codec: &mut Codec, limits: Value) -> Vec<Vec<AccountLimit>> {
    let frame = json!({
        "method": "account/rateLimits/updated",
        "params": {"rateLimits": limits},
        "emittedAtMs": 1_796_040_537_665_u64,
    });
    let mut line = frame.to_string().into_bytes();
    line.push(b'\n');
    let limits = |received| match received {
        Received::Event(event) => match event.kind {
            ProviderEventKind::Limits { limits } => Some(limits),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    codec
        .receive(&line)
        .into_iter()
        .filter_map(limits)
        .collect()
}

fn window(used: u64, minutes: u64, resets: u64) -> Value {
    json!({"usedPercent": used, "windowDurationMins": minutes, "resetsAt": resets})
}

fn limit(name: &str, used_percent: u32, reached: bool) -> AccountLimit {
    AccountLimit {
        name: name.to_owned(),
        used_percent,
        window_minutes: Some(300),
        resets_at_ms: Some(1_796_044_137_000),
        reached,
    }
}

#[test]
fn limits_are_told_when_they_change_and_those_of_other_kinds_stay() {
    let mut codec = Codec::new();
    let nothing = json!({"limitId": "codex", "primary": null, "secondary": null});
    assert!(told(&mut codec, nothing.clone()).is_empty());
    let some = |used| {
        json!({
            "limitId": "codex", "limitName": null, "planType": "plus",
            "primary": window(used, 300, 1_796_044_137), "secondary": null,
        })
    };
    assert_eq!(
        told(&mut codec, some(40)),
        [vec![limit("codex primary", 40, false)]]
    );
    // The same with every answer of the model: said once.
    assert!(told(&mut codec, some(40)).is_empty());
    let other = json!({
        "limitId": "codex_mini", "rateLimitReachedType": "rate_limit_reached",
        "primary": window(100, 300, 1_796_044_137),
    });
    let both = vec![
        limit("codex primary", 40, false),
        limit("codex_mini primary", 100, true),
    ];
    assert_eq!(told(&mut codec, other), [both]);
    assert_eq!(
        told(&mut codec, nothing),
        [vec![limit("codex_mini primary", 100, true)]]
    );
}

#[test]
fn limits_out_of_range_are_bounded_and_broken_ones_left_out() {
    let mut codec = Codec::new();
    let wild = json!({
        "limitId": "x".repeat(10_000),
        "primary": window(u64::MAX, u64::MAX, u64::MAX),
        "secondary": {"usedPercent": "most"},
    });
    let limits = told(&mut codec, wild).remove(0);
    assert_eq!(limits.len(), 1);
    assert_eq!(limits[0].used_percent, u32::MAX);
    assert_eq!(limits[0].resets_at_ms, Some(u64::MAX));
    assert!(limits[0].name.len() <= 120);
    for n in 0..100 {
        let id = format!("limit {n}");
        told(
            &mut codec,
            json!({"limitId": id, "primary": window(n, 1, 1)}),
        );
    }
    let last = told(&mut codec, json!({"limitId": "limit 7", "primary": null}));
    assert!(last.iter().all(|limits| limits.len() <= 8));
}

#[test]
fn another_account_has_codex_looked_at_again() {
    let frame = json!({
        "method": "account/updated",
        "params": {"authMode": "apikey", "planType": null},
    });
    let told = Codec::new().receive(format!("{frame}\n").as_bytes());
    let [Received::Event(event)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(event.kind, ProviderEventKind::AbilitiesChanged);
    assert_eq!(event.place.home(), None);
}

fn told_of(codec: &mut Codec, frame: &Value) -> Vec<ProviderEventKind> {
    let received = codec.receive(format!("{frame}\n").as_bytes());
    received
        .into_iter()
        .filter_map(|received| match received {
            Received::Event(event) => Some(event.kind),
            _ => None,
        })
        .collect()
}

/// Fifteen minutes were waited once (docs/agents-probes.md, section 16).
#[test]
fn a_sign_in_that_nobody_finishes_expires_as_codex_says_it() {
    let mut codec = Codec::new();
    let thread: NativeId = "T".into();
    let (call, _) = codec.call(Call::LoginStart { thread });
    let begun = json!({"id": call, "result": {
        "type": "chatgptDeviceCode", "loginId": "L",
        "verificationUrl": "https://auth.openai.com/codex/device", "userCode": "ABCD-1234",
    }});
    let [ProviderEventKind::RequestOpened { request, kind, .. }] = &told_of(&mut codec, &begun)[..]
    else {
        panic!("a person is asked");
    };
    assert_eq!(*kind, RequestKind::Auth);
    let message = "device auth timed out after 15 minutes";
    let over = json!({"method": "account/login/completed", "params": {
        "loginId": "L", "success": false, "error": message, "onboardingEntrypoint": null,
    }});
    let closed = ProviderEventKind::RequestClosed {
        request: request.clone(),
        resolution: Resolution::Expired,
    };
    let failed = ProviderEventKind::SignInFailed {
        message: message.to_owned(),
    };
    assert_eq!(told_of(&mut codec, &over), [closed, failed]);
    // Told twice, or of somebody else's, it is of no request here.
    assert_eq!(told_of(&mut codec, &over), []);
}

#[test]
fn a_sign_in_without_a_page_is_none_and_one_of_anybody_signs_codex_in() {
    let mut codec = Codec::new();
    let thread: NativeId = "T".into();
    let (call, _) = codec.call(Call::LoginStart { thread });
    let begun = json!({"id": call, "result": {"type": "chatgptDeviceCode", "loginId": "L"}});
    let received = codec.receive(format!("{begun}\n").as_bytes());
    let [
        Received::Reply {
            reply: Err(CallError::Unreadable { .. }),
            ..
        },
    ] = &received[..]
    else {
        panic!("{received:?}");
    };
    let done = json!({"method": "account/login/completed", "params": {
        "loginId": "of the desk", "success": true, "error": null,
    }});
    assert_eq!(told_of(&mut codec, &done), [ProviderEventKind::SignedIn]);
    // Whether a key is taken is not known before a turn shows it.
    let key = json!({"method": "account/login/completed", "params": {
        "loginId": null, "success": true, "error": null,
    }});
    assert_eq!(told_of(&mut codec, &key), []);
}

#[test]
fn a_sign_in_under_an_id_without_bound_is_none() {
    let mut codec = Codec::new();
    let (call, _) = codec.call(Call::LoginStart { thread: "T".into() });
    let begun = json!({"id": call, "result": {
        "type": "chatgptDeviceCode", "loginId": "L".repeat(1024 * 1024),
        "verificationUrl": "https://auth.openai.com/codex/device", "userCode": "ABCD-1234",
    }});
    let received = codec.receive(format!("{begun}\n").as_bytes());
    assert!(
        matches!(
            &received[..],
            [Received::Reply {
                reply: Err(CallError::Unreadable { .. }),
                ..
            }]
        ),
        "{received:?}"
    );
}

#[test]
fn a_sign_in_waits_only_where_its_thread_has_room() {
    let mut codec = Codec::new();
    for id in 0..limits::OPEN_REQUESTS {
        let params = json!({"threadId": "T", "turnId": "u", "itemId": "i", "command": "ls"});
        let asked =
            json!({"id": id, "method": "item/commandExecution/requestApproval", "params": params});
        assert_eq!(told_of(&mut codec, &asked).len(), 1);
    }
    let (call, _) = codec.call(Call::LoginStart { thread: "T".into() });
    let begun = json!({"id": call, "result": {
        "type": "chatgptDeviceCode", "loginId": "L",
        "verificationUrl": "https://auth.openai.com/codex/device", "userCode": "ABCD-1234",
    }});
    assert_eq!(told_of(&mut codec, &begun), []);
}
