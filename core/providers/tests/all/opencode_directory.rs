//! Where a command runs that opencode asks for: it says so only after it asked.

use crate::{
    opencode_hostile::{SESSION, codec, kinds, permission, session, status, subject, tell},
    opencode_stage::World,
    support::say,
};
use pilothouse_domain::{
    ItemContent, ProviderEventKind, provider::TurnStatus, request::RequestKind,
};
use pilothouse_orchestrator::assess;
use pilothouse_providers::opencode::{Call, Codec, Reply, Told, Working};
use serde_json::{Value, json};

/// A tool that runs a command, as far as its state goes.
fn command_tool(state: Value) -> Value {
    json!({"sessionID": SESSION, "part": {"id": "prt_9", "sessionID": SESSION, "messageID": "msg_2", "type": "tool",
        "callID": "call_1", "tool": "bash", "state": state}})
}

/// What a command is asked for with, told as opencode 1.18.33 does: before its tool says where it runs.
pub(crate) fn asked_to_run(codec: &mut Codec, command: &str, workdir: Value) -> Vec<Told> {
    let updated = "message.part.updated";
    let pending = command_tool(json!({"status": "pending", "input": {}, "raw": ""}));
    let mut told = tell(codec, updated, pending);
    let mut asked = permission("per_1", command);
    asked["tool"] = json!({"messageID": "msg_2", "callID": "call_1"});
    told.extend(tell(codec, "permission.asked", asked));
    let input = json!({"command": command, "description": "d", "workdir": workdir});
    let running = json!({"status": "running", "input": input, "time": {"start": 1}});
    told.extend(tell(codec, updated, command_tool(running)));
    told
}

#[test]
fn a_command_is_asked_for_with_the_directory_that_it_runs_in_or_is_incomplete() {
    for (workdir, wanted) in [
        (json!("/w/packages/b"), "/w/packages/b"),
        (json!("packages/b"), "/w/packages/b"),
        (json!("."), "/w"),
        (json!(""), "/w"),
        (json!(null), "/w"),
        (json!("../x"), "/w/../x"),
    ] {
        let told = asked_to_run(&mut codec(), "make test", workdir);
        let shown = kinds(&told).into_iter().filter_map(|kind| match kind {
            ProviderEventKind::RequestOpened {
                subject,
                unknown_fields,
                ..
            } => {
                let assessed = assess(RequestKind::Command, subject, *unknown_fields);
                Some((subject.cwd.as_deref(), assessed.one_tap_allowed))
            }
            _ => None,
        });
        let shown: Vec<_> = shown.collect();
        let [.., last] = &shown[..] else {
            panic!("nothing is asked: {told:?}")
        };
        assert_eq!(*last, (Some(wanted), true));
        for (cwd, one_tap) in &shown {
            assert!(*cwd == Some(wanted) || !one_tap, "{shown:?}");
        }
        let item = kinds(&told).into_iter().find_map(|kind| match kind {
            ProviderEventKind::ItemOpened {
                content: ItemContent::Command { cwd, .. },
                ..
            } => Some(cwd.as_str()),
            _ => None,
        });
        assert_eq!(item, Some(wanted));
    }
    // Of a tool that nothing is known of.
    let (shown, _) = subject(&tell(
        &mut codec(),
        "permission.asked",
        permission("per_1", "ls"),
    ));
    assert_eq!((shown.cwd, shown.incomplete), (None, true));
}

#[test]
fn a_command_that_is_asked_for_and_not_begun_is_shown_from_a_list_and_over_with_what_ends_it() {
    let early = |codec: &mut Codec| {
        let pending = command_tool(json!({"status": "pending", "input": {}, "raw": ""}));
        tell(codec, "message.part.updated", pending);
        let mut asked = permission("per_1", "ls");
        asked["tool"] = json!({"messageID": "msg_2", "callID": "call_1"});
        tell(codec, "permission.asked", asked.clone());
        assert_eq!(codec.pending_requests().count(), 0);
        asked
    };
    let begins = |codec: &mut Codec| {
        let running =
            json!({"status": "running", "input": {"command": "ls"}, "time": {"start": 1}});
        tell(codec, "message.part.updated", command_tool(running));
        codec.pending_requests().count()
    };
    let mut listed = codec();
    let asked = early(&mut listed);
    let working = [(session(), Working::Busy)].into();
    let list = |of: &Call, held: Value| match Codec::new().answered(
        of,
        200,
        held.to_string().as_bytes(),
    ) {
        Ok(Reply::Waiting(list)) => list,
        other => panic!("{other:?}"),
    };
    let directory = || "/w".to_owned();
    let permissions = list(
        &Call::Permissions {
            directory: directory(),
        },
        json!([asked]),
    );
    let none = list(
        &Call::Questions {
            directory: directory(),
        },
        json!([]),
    );
    let told = listed.waiting("/w", &working, &permissions, &none, &[]);
    let (shown, _) = subject(&told);
    assert_eq!((shown.cwd, shown.incomplete), (None, true));
    assert_eq!(begins(&mut listed), 1);

    let mut answered = codec();
    early(&mut answered);
    let reply = json!({"sessionID": SESSION, "requestID": "per_1", "reply": "once"});
    tell(&mut answered, "permission.replied", reply);
    assert_eq!(begins(&mut answered), 0);

    let mut ended = codec();
    early(&mut ended);
    status(&mut ended, "idle");
    assert_eq!(begins(&mut ended), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_opencode_runs_in_the_directory_that_its_request_shows() {
    let command = json!({"tools": [{"name": "bash", "args": {
        "command": "pwd > here.txt", "description": "d", "workdir": "packages/b"
    }}]});
    let mut world = World::start(json!({"run": [command, say("ran")]})).await;
    let within = world.workspace().join("packages/b");
    std::fs::create_dir_all(&within).unwrap();
    let thread = world.open(None).await;
    world.send(&thread, "[[script:run]]").await;
    let asked = world.request().await;
    let shown = asked.subject.cwd.as_deref().unwrap();
    assert_eq!(shown, within.display().to_string());
    assert!(assess(asked.kind, &asked.subject, asked.unknown_fields).one_tap_allowed);
    world.choose(&asked, "once").await;
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let ran = std::fs::read_to_string(within.join("here.txt")).unwrap();
    assert_eq!(ran.trim_end(), shown);
}
