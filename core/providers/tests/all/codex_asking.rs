//! What real codex asks, answered in every way that it offers; and what it leaves running.

use crate::support::{World, run, say};
use pilothouse_domain::{
    Answer, ItemContent, ItemStatus, Mode, ProviderEventKind,
    provider::TurnStatus,
    request::{AnswerDelivery, OptionEffect, QuestionReply},
};
use serde_json::{Value, json};

/// Each option of what this step asks for, answered in a world of its own, as what is remembered would answer the next one: the
/// turn ends as the option says, and the file is made exactly if it was allowed. Gives what the options did.
async fn every_option(step: &Value, file: &str) -> Vec<OptionEffect> {
    let mut variants = Vec::new();
    loop {
        let mut world = World::start(json!({"go": [step, say("Done.")]})).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        let Some(option) = asked.subject.options.get(variants.len()).cloned() else {
            return variants;
        };
        let delivery = world.choose(&asked, option.id.as_str()).await;
        assert_eq!(delivery, AnswerDelivery::Confirmed, "{option:?}");
        let (status, _) = world.turn_end().await;
        let stops = option.effect == OptionEffect::DenyAndStop;
        let expected = if stops {
            TurnStatus::Interrupted
        } else {
            TurnStatus::Completed
        };
        assert_eq!(status, expected, "{option:?}");
        let refused = stops || option.effect == OptionEffect::Deny;
        let made = world.workspace().join(file).exists();
        assert_eq!(made, !refused, "{option:?}");
        let ends = world.seen.iter().filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content: ItemContent::Command { .. } | ItemContent::FileChange { .. },
                status,
                ..
            } => Some(*status),
            _ => None,
        });
        let ends: Vec<_> = ends.collect();
        match option.effect {
            // codex does not end a change whose turn is stopped: the turn's end does.
            OptionEffect::DenyAndStop => {
                assert!(
                    ends.iter().all(|end| *end == ItemStatus::Declined),
                    "{ends:?}"
                );
            }
            OptionEffect::Deny => assert_eq!(ends, [ItemStatus::Declined]),
            _ => assert_eq!(ends, [ItemStatus::Completed], "{option:?}"),
        }
        variants.push(option.effect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_11_with_every_answer_to_a_command_codex_goes_on_or_stops_as_it_says() {
    let variants = every_option(&run("touch made.txt"), "made.txt").await;
    for effect in [
        OptionEffect::AllowOnce,
        OptionEffect::AllowRule,
        OptionEffect::Deny,
        OptionEffect::DenyAndStop,
    ] {
        assert!(variants.contains(&effect), "{variants:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_11_with_every_answer_to_a_change_codex_goes_on_or_stops_as_it_says() {
    let patch = "*** Begin Patch\n*** Add File: made.txt\n+one\n*** End Patch\n";
    let step = json!({"tools": [{"custom": true, "name": "apply_patch", "input": patch}]});
    let variants = every_option(&step, "made.txt").await;
    for effect in [
        OptionEffect::AllowOnce,
        OptionEffect::AllowSession,
        OptionEffect::Deny,
        OptionEffect::DenyAndStop,
    ] {
        assert!(variants.contains(&effect), "{variants:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_36_words_of_ones_own_reach_the_model_beside_what_was_chosen() {
    let ask = json!({"tools": [{"name": "request_user_input", "args": {"questions": [{
        "id": "colour", "header": "Colour", "question": "Which one?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    }]}}]});
    for (chosen, text) in [(None, "neither of them"), (Some("Blue"), "but a dark one")] {
        let mut world = World::start(json!({"go": [ask, say("Thanks.")]})).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        assert!(asked.subject.questions[0].free_text, "codex takes words");
        let reply = QuestionReply {
            question: "colour".to_owned(),
            chosen: chosen.into_iter().map(str::to_owned).collect(),
            text: Some(text.to_owned()),
        };
        let replies = vec![reply];
        let response = asked.response(Answer::Reply { replies });
        let delivery = world.runtime.respond(response).await.unwrap();
        assert_eq!(delivery, AnswerDelivery::Confirmed);
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let told = world.model.log();
        let requests = told
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut results =
            requests.filter_map(|request| request["tool_results"].as_array().cloned());
        let result = results.next_back().expect("the model was asked again");
        let result = Value::from(result).to_string();
        for words in chosen.into_iter().chain([text]) {
            assert!(result.contains(words), "{words}: {result}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_outlives_its_turn_stays_open_and_is_closed_in_that_turn_when_it_ends() {
    let command = "while [ ! -e go-on ]; do sleep 0.05; done; echo it ended";
    let step = json!({"tools": [{"name": "exec_command", "args": {"cmd": command, "yield_time_ms": 250}}]});
    let mut world = World::start(json!({"go": [step, say("It runs on.")]})).await;
    world.mode = Mode::FullAccess;
    let thread = world.open(None).await;
    let turn = world.send(&thread, "[[script:go]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
    let opened = world.seen.iter().find_map(|event| match &event.kind {
        ProviderEventKind::ItemOpened {
            item,
            content: ItemContent::Command { .. },
            ..
        } => Some(item.clone()),
        _ => None,
    });
    let opened = opened.expect("the command is shown");
    let closed = |kind: &ProviderEventKind| match kind {
        ProviderEventKind::ItemClosed { item, status, .. } => (*item == opened).then_some(*status),
        _ => None,
    };
    let ended = world.seen.iter().find_map(|event| closed(&event.kind));
    assert_eq!(ended, None, "it runs on, and is shown so");
    std::fs::write(world.workspace().join("go-on"), "").unwrap();
    let (place, status) = world
        .until("the end of the command", |event| {
            closed(&event.kind).map(|status| (event.place.clone(), status))
        })
        .await;
    assert_eq!(place.turn, Some(turn), "it was that turn's");
    assert_eq!(status, ItemStatus::Completed);
}
