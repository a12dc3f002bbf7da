//! A pi that does not ask: only in a sandbox that its thread names, and what that keeps it from.

use crate::pi_world::{PiWorld, Place, bash, pi_command, start};
use crate::support::say;
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, ItemContent, ItemStatus, Mode, ProviderEventKind,
    capability::Source, policy::Sandbox, provider::TurnStatus,
};
use pilothouse_providers::contract::{Launch, SendError, StartError};
use serde_json::{Value, json};

/// A world whose pi runs in a sandbox.
async fn unasked(scripts: Value, sandbox: Sandbox) -> PiWorld {
    let place = Place::new(&scripts);
    let launch = Launch {
        sandbox: Some(sandbox),
        ..place.launch()
    };
    PiWorld::launched(place, launch, Mode::FullAccess).await
}

/// The outputs of the commands that ended, in order.
fn outputs(world: &PiWorld) -> Vec<(ItemStatus, String)> {
    world
        .seen
        .iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                status,
                content: ItemContent::Command { output, .. },
                ..
            } => Some((*status, output.preview().to_owned())),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn in_bwrap_a_tool_writes_the_workspace_and_nothing_else_and_sees_no_secret() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("outside.txt");
    std::fs::write(outside.path().join("key"), "secret of another").unwrap();
    let there = outside.path().display();
    let mut world = unasked(
        json!({"s": [
            bash("touch inside.txt && echo wrote"),
            bash(&format!("echo x > {}", target.display())),
            bash(&format!("cat {there}/key")),
            bash("echo x >> ~/.pi/agent/models.json"),
            bash("echo x > /usr/share/outside.txt"),
            bash("printenv CARGO_MANIFEST_DIR || echo no such variable"),
            say("done"),
        ]}),
        Sandbox::Bwrap,
    )
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:s]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(
        world
            .seen
            .iter()
            .all(|event| !matches!(event.kind, ProviderEventKind::RequestOpened { .. }))
    );
    let outputs = outputs(&world);
    let statuses: Vec<_> = outputs.iter().map(|(status, _)| *status).collect();
    assert_eq!(outputs[0], (ItemStatus::Completed, "wrote\n".to_owned()));
    assert!(
        world.has("inside.txt"),
        "what it writes in the workspace is there"
    );
    assert_eq!(statuses[1..5], [ItemStatus::Failed; 4], "{outputs:#?}");
    assert!(!target.exists(), "nothing is written outside");
    assert!(!outputs[2].1.contains("secret of another"), "{outputs:#?}");
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some(),
        "this test has it"
    );
    assert_eq!(outputs[5].1, "no such variable\n");
    let models =
        std::fs::read_to_string(world.dir.path().join("home/.pi/agent/models.json")).unwrap();
    assert!(
        !models.ends_with("x\n"),
        "its own settings stay as they are"
    );
    // The session is kept, and taken up again, outside the sandbox.
    assert!(std::path::Path::new(thread.as_str()).is_file());
}

/// What git and pi run outside the sandbox later can be neither changed, nor moved away, nor made.
#[tokio::test]
async fn what_others_run_in_the_workspace_cannot_be_replaced_from_the_sandbox() {
    let tries = [
        "echo evil > .git/hooks/pre-commit",
        "mv .git old && mkdir .git && echo evil > .git/config",
        "mv .git/hooks .git/old",
        "rm -rf .git && mkdir .git",
        "echo ../evil > .git/commondir",
        "mkdir -p .pi/extensions && echo evil > .pi/extensions/e.js",
        "mv .pi old",
        "rmdir .pi && mkdir .pi",
    ];
    for has_repository in [true, false] {
        let steps: Vec<_> = tries
            .iter()
            .map(|command| bash(command))
            .chain([say("done")])
            .collect();
        let place = Place::new(&json!({ "s": steps }));
        let workspace = place.dir.path().join("workspace");
        let hooks = workspace.join(".git/hooks");
        if has_repository {
            std::fs::create_dir_all(&hooks).unwrap();
            std::fs::write(hooks.join("pre-commit"), "good").unwrap();
        }
        let launch = Launch {
            sandbox: Some(Sandbox::Bwrap),
            ..place.launch()
        };
        let mut world = PiWorld::launched(place, launch, Mode::FullAccess).await;
        let thread = world.open(None).await;
        world.send(&thread, "go [[script:s]]").await;
        world.turn_end().await;
        let outputs = outputs(&world);
        assert_eq!(outputs.len(), tries.len());
        for ((status, output), command) in outputs.iter().zip(tries) {
            assert_eq!(*status, ItemStatus::Failed, "{command}: {output}");
        }
        for place in [".pi/extensions", "old", ".git/commondir", ".git/config"] {
            assert!(!workspace.join(place).exists(), "{place}");
        }
        let hook = std::fs::read_to_string(hooks.join("pre-commit")).ok();
        assert_eq!(hook.as_deref(), has_repository.then_some("good"));
    }
}

/// The same of repositories below the workspace's own: a clone, and a submodule whose `.git` is a file.
#[tokio::test]
async fn what_others_run_of_a_repository_within_the_workspace_cannot_be_replaced_either() {
    let tries = [
        "echo evil > a/clone/.git/hooks/pre-commit",
        "mv a/clone/.git a/clone/old && mkdir a/clone/.git",
        "mv a/clone a/old && mkdir -p a/clone/.git",
        "mv a old && mkdir -p a/clone/.git",
        "rm -rf a/clone/.git",
        "echo gitdir: ../evil > sub/.git",
        "rm -f sub/.git",
        "mv sub old",
    ];
    let steps = tries.iter().map(|command| bash(command));
    let steps: Vec<_> = steps
        .chain([bash("echo more > a/clone/file && echo wrote"), say("done")])
        .collect();
    let place = Place::new(&json!({ "s": steps }));
    let workspace = place.dir.path().join("workspace");
    let hooks = workspace.join("a/clone/.git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    std::fs::write(hooks.join("pre-commit"), "good").unwrap();
    std::fs::create_dir(workspace.join("sub")).unwrap();
    std::fs::write(workspace.join("sub/.git"), "gitdir: good").unwrap();
    let launch = Launch {
        sandbox: Some(Sandbox::Bwrap),
        ..place.launch()
    };
    let mut world = PiWorld::launched(place, launch, Mode::FullAccess).await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:s]]").await;
    world.turn_end().await;
    let outputs = outputs(&world);
    assert_eq!(outputs.len(), tries.len() + 1);
    for ((status, output), command) in outputs.iter().zip(tries) {
        assert_eq!(*status, ItemStatus::Failed, "{command}: {output}");
    }
    // Beside it everything can be written.
    assert_eq!(
        outputs[tries.len()],
        (ItemStatus::Completed, "wrote\n".to_owned())
    );
    let hook = std::fs::read_to_string(hooks.join("pre-commit")).unwrap();
    let link = std::fs::read_to_string(workspace.join("sub/.git")).unwrap();
    assert_eq!((hook.as_str(), link.as_str()), ("good", "gitdir: good"));
    assert!(!workspace.join("old").exists() && !workspace.join("a/old").exists());
}

#[tokio::test]
async fn an_interrupt_and_an_end_reach_into_the_sandbox() {
    let mut world = unasked(
        json!({"s": [bash("echo begun; sleep 600"), say("never")]}),
        Sandbox::Bwrap,
    )
    .await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "go [[script:s]]").await;
    world
        .until("output", |event| match &event.kind {
            ProviderEventKind::ItemAppended { text, .. } if text.contains("begun") => Some(()),
            _ => None,
        })
        .await;
    world
        .runtime
        .interrupting()
        .unwrap()
        .interrupt(thread, turn)
        .await
        .expect("it is taken");
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    world.runtime.stop().await;
    world
        .until("the end", |event| {
            matches!(event.kind, ProviderEventKind::SessionEnded { .. }).then_some(())
        })
        .await;
}

#[tokio::test]
async fn without_a_sandbox_it_acts_and_its_session_says_that_it_does_not_ask() {
    let mut world = unasked(
        json!({"s": [bash("touch free.txt"), say("done")]}),
        Sandbox::None,
    )
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "go [[script:s]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.has("free.txt"));
    let fact = world.runtime.capabilities().facts[&CapabilityFlag::CommandApproval].clone();
    assert_eq!(
        (fact.value, fact.source),
        (CapabilityValue::No, Source::User)
    );
    let mut message = world.message(&thread, "go [[script:s]]");
    message.selection.mode = Mode::Ask;
    let refused = world.runtime.send_turn(message).await;
    assert!(
        matches!(refused, Err(SendError::Refused { .. })),
        "a mode that would not be true: {refused:?}"
    );
}

/// A pi whose extensions are switched off loads ours no more than any other; here it loads none because another program plays it.
#[tokio::test]
async fn a_pi_whose_gate_does_not_answer_is_not_started() {
    let place = Place::new(&json!({}));
    let mut launch = place.launch();
    let script = r#"
        let text = '';
        process.stdin.on('data', (data) => {
          text += data;
          if (text.includes('get_state')) {
            const data = { sessionFile: '/tmp/x.jsonl', sessionId: 'x' };
            console.log(JSON.stringify({ id: 'r1', type: 'response', command: 'get_state', success: true, data }));
          }
        });
        process.stdin.on('end', () => process.exit(0));
    "#;
    let file = place.dir.path().join("deaf.js");
    std::fs::write(&file, script).unwrap();
    launch.command = vec![pi_command()[0].clone(), file.display().to_string()];
    let Err(error) = start(launch).await else {
        panic!("it was started")
    };
    assert!(matches!(error, StartError::Unconfined { .. }), "{error}");
    assert!(error.to_string().contains("sandbox"), "{error}");
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_is_said_so_before_anything_runs() {
    let place = Place::new(&json!({}));
    let mut launch = Launch {
        sandbox: Some(Sandbox::Bwrap),
        ..place.launch()
    };
    launch.env.insert("PATH".to_owned(), "/nowhere".to_owned());
    let Err(StartError::Sandbox { problem, .. }) = start(launch.clone()).await else {
        panic!("it was started")
    };
    assert!(problem.contains("apt install bubblewrap"), "{problem}");
    launch.env.remove("PATH");
    launch.cwd = place.dir.path().to_owned();
    let Err(StartError::Sandbox { problem, .. }) = start(launch).await else {
        panic!("it was started")
    };
    assert!(problem.contains("holds the home directory"), "{problem}");
}
