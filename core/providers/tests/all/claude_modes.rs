//! The modes of real Claude Code: what each lets pass, and which word of its own it is put into.

use crate::{
    claude_world::{World, call, run, selection},
    support::say,
};
use pilothouse_domain::{Mode, ProviderEventKind, provider::TurnStatus, request::RequestKind};
use pilothouse_providers::contract::OpenError;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_lets_pass_what_it_says_and_only_full_access_may_lift_the_checks() {
    for (mode, asks_for_edits, asks_for_commands) in [
        (Mode::Ask, true, true),
        (Mode::AutoEdit, false, true),
        (Mode::FullAccess, false, false),
    ] {
        let mut world = World::start_with(json!({}), selection(mode), &[]).await;
        let file = world.workspace().join("made.txt").display().to_string();
        world.model.script(
            "edit",
            &json!([
                call("Write", json!({"file_path": file, "content": "x"})),
                say("ok")
            ]),
        );
        // Outside of the workspace every mode but the last asks.
        let outside = world.dir.path().join("outside.txt").display().to_string();
        world
            .model
            .script("run", &json!([run(&format!("touch {outside}")), say("ok")]));
        let thread = world.open(None).await;
        for (script, asks) in [("edit", asks_for_edits), ("run", asks_for_commands)] {
            world.send(&thread, &format!("[[script:{script}]]")).await;
            let asked = world
                .until("a request or the end", |event| match &event.kind {
                    ProviderEventKind::RequestOpened { .. } => Some(true),
                    ProviderEventKind::TurnEnded { .. } => Some(false),
                    _ => None,
                })
                .await;
            assert_eq!(asked, asks, "{mode:?} {script}");
            if asked {
                let asked = world.last_asked();
                world.choose(&asked, "deny_and_stop").await;
                world.turn_end().await;
            }
        }
        assert_eq!(may_bypass(&world), mode == Mode::FullAccess);
        if mode != Mode::FullAccess {
            // A person chooses it for the thread: a process that may lift its checks takes up the conversation.
            let mut message = world.message(&thread, "[[script:run]]");
            message.selection.mode = Mode::FullAccess;
            world.runtime.send_turn(message).await.unwrap();
            assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
            assert!(world.dir.path().join("outside.txt").exists());
            assert!(may_bypass(&world));
            let ended =
                |kind: &ProviderEventKind| matches!(kind, ProviderEventKind::SessionEnded { .. });
            assert!(!world.seen.iter().any(|event| ended(&event.kind)));
        }
    }
}

/// Whether the process was told that it may lift every check.
fn may_bypass(world: &World) -> bool {
    let pid = world.runtime.process_id().unwrap();
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    String::from_utf8_lossy(&arguments).contains("dangerously-skip-permissions")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_a_conversation_leaves_no_mode_of_the_persons_own_settings_in_force() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("ok")]})).await;
    std::fs::write(
        world.dir.path().join("claude/settings.json"),
        r#"{"permissions": {"defaultMode": "acceptEdits"}}"#,
    )
    .unwrap();
    world.restart(None).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    assert_eq!(world.request().await.kind, RequestKind::Command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_that_host_toml_says_for_a_mode_is_the_one_in_force_and_others_are_refused() {
    let mut world = World::start(json!({})).await;
    let file = world.workspace().join("made.txt");
    let write = call(
        "Write",
        json!({"file_path": file.display().to_string(), "content": "x"}),
    );
    world.model.script("go", &json!([write, say("ok")]));
    // The mode that asks is said by words in which the agent does not: to refuse unasked, and to let edits pass.
    for (word, made) in [("dontAsk", false), ("acceptEdits", true)] {
        world.modes.insert(Mode::Ask, word.to_owned());
        world.restart(None).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed, "{word}");
        assert_eq!(file.exists(), made, "{word}");
    }
    let asks = |kind: &ProviderEventKind| matches!(kind, ProviderEventKind::RequestOpened { .. });
    assert!(!world.seen.iter().any(|event| asks(&event.kind)));
    for word in ["yolo", "bypassPermissions"] {
        world.modes.insert(Mode::Ask, word.to_owned());
        world.restart(None).await;
        let opened = world.runtime.open_thread(world.opening(None)).await;
        let Err(OpenError::Refused { error }) = opened else {
            panic!("{word}: {opened:?}")
        };
        assert!(error.message.contains(word), "{}", error.message);
        assert!(!may_bypass(&world));
    }
}
