//! What real Claude Code asks: commands, changes, plans, questions, forms of MCP servers.

use crate::{
    claude_world::{World, call, choose, run, selection},
    support::{root, say},
};
use pilothouse_domain::{
    Answer, Body, ItemContent, ItemStatus, Mode, ProviderEvent, ProviderEventKind,
    provider::TurnStatus,
    request::{AnswerDelivery, OptionEffect, QuestionReply, RequestKind},
};
use pilothouse_providers::contract::RespondError;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_asked_for_approved_and_run() {
    let step = json!({"think": "Let me think about it.", "text": "I write it.", "tools": [
        {"name": "Bash", "args": {"command": "echo hello > made.txt", "description": "write a file"}}]});
    let mut world = World::start(json!({"go": [step, say("All done.")]})).await;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::Command);
    assert!(!asked.unknown_fields);
    assert_eq!(
        asked.subject.command.as_deref(),
        Some("echo hello > made.txt")
    );
    assert_eq!(asked.subject.reason.as_deref(), Some("write a file"));
    let cwd = std::fs::canonicalize(world.workspace()).unwrap();
    assert_eq!(
        asked.subject.cwd.as_deref(),
        Some(&*cwd.display().to_string())
    );
    assert!(!world.workspace().join("made.txt").exists());
    assert_eq!(
        world.choose(&asked, "allow").await,
        AnswerDelivery::Confirmed
    );
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let made = std::fs::read_to_string(world.workspace().join("made.txt")).unwrap();
    assert_eq!(made, "hello\n");
    assert_eq!(world.said(), ["I write it.", "All done."]);
    assert_eq!(world.statuses_of_commands(), [ItemStatus::Completed]);
    assert_eq!(world.unknown(), Vec::<&ProviderEventKind>::new());
    let has = |wanted: &dyn Fn(&ProviderEvent) -> bool| world.seen.iter().any(wanted);
    assert!(has(&|event| event.place.turn.as_ref() == Some(&turn)
        && matches!(&event.kind, ProviderEventKind::ItemClosed { client_id: Some(id), .. } if id == "id of [[script:go]]")));
    assert!(has(
        &|event| matches!(&event.kind, ProviderEventKind::ItemClosed { content: ItemContent::Reasoning { text }, .. } if *text == Body::inline("Let me think about it."))
    ));
    assert!(has(
        &|event| matches!(&event.kind, ProviderEventKind::ItemAppended { text, .. } if "I write it.".starts_with(text.as_str()))
    ));
    assert!(has(
        &|event| matches!(&event.kind, ProviderEventKind::Usage { usage } if usage.input == 200 && usage.output == 40 && usage.context_window == Some(200_000))
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_with_words_reaches_the_model_and_the_turn_goes_on() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("Without it.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    let delivery = world
        .answer(&asked, choose("deny", "use the other directory"))
        .await;
    assert_eq!(delivery, AnswerDelivery::Confirmed);
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    assert!(!world.workspace().join("made.txt").exists());
    assert_eq!(world.statuses_of_commands(), [ItemStatus::Declined]);
    assert!(world.told().contains("use the other directory"));
    let late = world
        .runtime
        .respond(asked.response(choose("allow", "")))
        .await;
    assert_eq!(late, Err(RespondError::NotPending));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_stops_ends_the_turn_as_interrupted() {
    let mut world = World::start(json!({"go": [run("touch made.txt"), say("Never said.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    world.choose(&asked, "deny_and_stop").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Interrupted);
    assert_eq!(world.statuses_of_commands(), [ItemStatus::Declined]);
    assert!(!world.workspace().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_11_with_every_variant_of_an_answer_the_tool_ends_and_so_does_the_turn() {
    let mut variants = Vec::new();
    loop {
        // What is remembered would answer the next one.
        let mut world = World::start(json!({"go": [run("touch made.txt"), say("Done.")]})).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        let Some(option) = asked.subject.options.get(variants.len()).cloned() else {
            break;
        };
        let delivery = world.choose(&asked, option.id.as_str()).await;
        assert_eq!(delivery, AnswerDelivery::Confirmed, "{option:?}");
        let (status, _) = world.turn_end().await;
        let stops = option.effect == OptionEffect::DenyAndStop;
        assert_eq!(status == TurnStatus::Interrupted, stops, "{option:?}");
        let made = world.workspace().join("made.txt").exists();
        let refused = option.effect == OptionEffect::Deny || stops;
        assert_eq!(made, !refused, "{option:?}");
        variants.push(option.effect);
    }
    for effect in [
        OptionEffect::AllowOnce,
        OptionEffect::AllowSession,
        OptionEffect::AllowRule,
        OptionEffect::Deny,
        OptionEffect::DenyAndStop,
    ] {
        assert!(variants.contains(&effect), "{variants:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_allowed_for_the_session_is_not_asked_again_in_it() {
    let twice = json!([run("touch again.txt"), run("touch again.txt"), say("Done.")]);
    let mut world = World::start(json!({ "go": twice })).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    world.choose(&asked, "session/0").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let requests = world
        .seen
        .iter()
        .filter(|event| matches!(event.kind, ProviderEventKind::RequestOpened { .. }));
    assert_eq!(requests.count(), 1);
    assert_eq!(world.statuses_of_commands().len(), 2);
    let settings = world.workspace().join(".claude/settings.local.json");
    assert!(!settings.exists(), "nothing of it stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_to_a_file_is_asked_for_with_its_diff() {
    let mut world = World::start(json!({})).await;
    let path = world.workspace().join("note.txt");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let path = path.display().to_string();
    world.model.script(
        "go",
        &json!([
            call("Read", json!({"file_path": path})),
            call(
                "Edit",
                json!({"file_path": path, "old_string": "two", "new_string": "three"})
            ),
            say("Done.")
        ]),
    );
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::FileChange);
    let [change] = &asked.subject.changes[..] else {
        panic!("one change: {:?}", asked.subject)
    };
    assert_eq!(change.path, path);
    assert!(change.diff.preview().contains("-two"), "{change:?}");
    assert!(change.diff.preview().contains("+three"), "{change:?}");
    assert!(!asked.subject.incomplete);
    world.choose(&asked, "allow").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nthree\n");
    let changed = world
        .ends()
        .into_iter()
        .find_map(|(content, status)| match content {
            ItemContent::FileChange { changes } => Some((changes, status)),
            _ => None,
        });
    let (changes, status) = changed.expect("it is an item");
    assert_eq!(status, ItemStatus::Completed);
    assert!(changes[0].diff.preview().starts_with("@@ "), "{changes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_shown_whole_rejected_with_words_and_approved() {
    let plan = |words: &str| call("ExitPlanMode", json!({ "plan": words }));
    let steps = json!([
        plan("# First\n- do it"),
        plan("# Second\n- do it well"),
        say("Begun.")
    ]);
    let mut world = World::start_with(json!({ "go": steps }), selection(Mode::ReadOnly), &[]).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    assert_eq!(asked.kind, RequestKind::Plan);
    assert_eq!(asked.subject.text.as_deref(), Some("# First\n- do it"));
    assert!(!asked.subject.incomplete);
    world.answer(&asked, choose("deny", "do it well")).await;
    let asked = world.request().await;
    assert_eq!(
        asked.subject.text.as_deref(),
        Some("# Second\n- do it well")
    );
    assert_eq!(
        world.choose(&asked, "approve").await,
        AnswerDelivery::Confirmed
    );
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.told().contains("do it well"));
    let plans: Vec<_> = world
        .ends()
        .into_iter()
        .filter(|(content, _)| matches!(content, ItemContent::Plan { .. }))
        .map(|(_, status)| status)
        .collect();
    assert_eq!(plans, [ItemStatus::Declined, ItemStatus::Completed]);
}

/// A question with its choices.
fn question(text: &str, several: bool) -> serde_json::Value {
    let choice = |label: &str| json!({"label": label, "description": format!("about {label}")});
    json!({"question": text, "header": "H", "multiSelect": several,
        "options": [choice("Red"), choice("Green"), choice("Blue")]})
}

fn reply(question: &str, chosen: &[&str], text: Option<&str>) -> QuestionReply {
    QuestionReply {
        question: question.to_owned(),
        chosen: chosen.iter().map(|&label| label.to_owned()).collect(),
        text: text.map(str::to_owned),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_36_what_was_chosen_and_what_was_typed_reach_the_model_together_and_nothing_is_no_answer()
 {
    // One and several, chosen alone, typed alone, both.
    let table: [(bool, &[&str], Option<&str>, &str); 5] = [
        (false, &["Red"], None, "Red"),
        (false, &[], Some("my own"), "my own"),
        (true, &["Red", "Blue"], None, "Red, Blue"),
        (true, &[], Some("my own"), "my own"),
        (true, &["Red", "Blue"], Some("my own"), "Red, Blue, my own"),
    ];
    let scripts: serde_json::Map<_, _> = table
        .iter()
        .enumerate()
        .map(|(at, (several, ..))| {
            let args = json!({"questions": [question("Which one?", *several)]});
            let steps = json!([call("AskUserQuestion", args), say("Thanks.")]);
            (format!("go{at}"), steps)
        })
        .collect();
    let mut world = World::start(scripts.into()).await;
    let thread = world.open(None).await;
    for (at, (several, chosen, text, told)) in table.into_iter().enumerate() {
        world.send(&thread, &format!("[[script:go{at}]]")).await;
        let asked = world.request().await;
        assert_eq!(asked.kind, RequestKind::UserInput);
        assert!(!asked.unknown_fields);
        let [shown] = &asked.subject.questions[..] else {
            panic!("{:?}", asked.subject)
        };
        assert_eq!((shown.multi_select, shown.free_text), (several, true));
        assert_eq!(shown.choices.len(), 3);
        for nothing in [Vec::new(), vec![reply("Which one?", &[], Some(""))]] {
            let empty = Answer::Reply { replies: nothing };
            let given = world.runtime.respond(asked.response(empty)).await;
            assert!(
                matches!(given, Err(RespondError::Unfit { .. })),
                "{given:?}"
            );
        }
        let replies = vec![reply("Which one?", chosen, text)];
        let delivery = world.answer(&asked, Answer::Reply { replies }).await;
        assert_eq!(delivery, AnswerDelivery::Confirmed);
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let wanted = json!(format!("\"Which one?\"=\"{told}\"")).to_string();
        let wanted = wanted.trim_matches('"');
        assert!(world.told().contains(wanted), "{wanted}: {}", world.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_can_be_left_unanswered_and_the_turn_goes_on() {
    let args = json!({"questions": [question("Which one?", false)]});
    let mut world =
        World::start(json!({"go": [call("AskUserQuestion", args), say("Then not.")]})).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    world
        .answer(&asked, choose("deny", "decide yourself"))
        .await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.told().contains("decide yourself"));
    assert_eq!(world.said(), ["Then not."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_a_configured_server_are_asked_for_and_its_forms_are_a_persons_to_fill() {
    let server = root().join("tests/support/desk-mcp.mjs");
    let config = json!({"mcpServers": {"desk": {"command": "node", "args": [server]}}});
    let steps = json!([
        call("mcp__desk__echo", json!({"text": "hey"})),
        call("mcp__desk__ask", json!({})),
        call("mcp__desk__link", json!({})),
        say("Done."),
    ]);
    let arguments = ["--mcp-config", &config.to_string()];
    let mut world =
        World::start_with(json!({ "go": steps }), selection(Mode::Ask), &arguments).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let mut forms = 0;
    for tool in ["echo", "ask", "link"] {
        let asked = world.request().await;
        assert_eq!(asked.kind, RequestKind::Tool);
        let text = asked.subject.text.clone().unwrap_or_default();
        assert!(
            text.starts_with(&format!("{tool} of the MCP server desk")),
            "{text}"
        );
        world.choose(&asked, "allow").await;
        if tool == "echo" {
            continue;
        }
        let asked = world.request().await;
        assert_eq!(asked.kind, RequestKind::Elicitation);
        forms += 1;
        if tool == "link" {
            assert_eq!(asked.subject.reach, ["open https://example.com/in"]);
            world.choose(&asked, "decline").await;
            continue;
        }
        let questions = asked.subject.questions.iter();
        let optional: Vec<_> = questions.map(|q| (q.id.as_str(), q.optional)).collect();
        assert_eq!(optional, [("age", true), ("colour", true), ("name", false)]);
        // What is required is given, of what is not one is left out and one is filled in.
        let replies = vec![
            reply("name", &[], Some("Ann")),
            reply("colour", &["red"], None),
        ];
        world.answer(&asked, Answer::Reply { replies }).await;
    }
    assert_eq!(forms, 2);
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let told = world.told();
    let filled = json!(json!({"name": "Ann", "colour": "red"}).to_string()).to_string();
    for words in ["echo: hey", filled.trim_matches('"'), "decline"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let of_server = world.ends().into_iter().filter(|(content, _)| {
        matches!(content, ItemContent::Tool { server: Some(server), .. } if server == "desk")
    });
    assert_eq!(of_server.count(), 3);
    assert_eq!(world.unknown(), Vec::<&ProviderEventKind>::new());
}

/// Its shell stays where a command leaves it: what asks after that names no directory, until the agent tells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_after_one_that_moved_the_shell_names_no_other_directory_than_its_own() {
    let mut world = World::start(json!({
        "go": [run("mkdir sub && cd sub"), run("pwd > out.txt"), say("Done.")],
        "more": [run("pwd > again.txt"), say("Done.")],
    }))
    .await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let moves = world.request().await;
    assert!(moves.subject.cwd.is_some() && !moves.unknown_fields);
    world.choose(&moves, "allow").await;
    let moved = world.request().await;
    assert_eq!(moved.subject.command.as_deref(), Some("pwd > out.txt"));
    assert_eq!(
        (moved.subject.cwd.as_deref(), moved.unknown_fields),
        (None, true)
    );
    world.choose(&moved, "allow").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    assert!(world.workspace().join("sub/out.txt").exists());
    world.send(&thread, "[[script:more]]").await;
    let again = world.request().await;
    world.choose(&again, "allow").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    if let Some(named) = again.subject.cwd {
        let written = std::path::Path::new(&named).join("again.txt");
        assert!(written.exists(), "it did not run in {named}");
    }
}
