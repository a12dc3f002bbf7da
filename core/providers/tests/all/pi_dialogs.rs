//! Dialogs of a person's own extensions, asked by the real pi.

use crate::pi_world::{PiWorld, Place};
use pilothouse_domain::{
    Answer, Mode, NativeId, ProviderEventKind,
    provider::TurnStatus,
    request::{QuestionReply, RequestKind},
};
use serde_json::json;

/// A command that asks in all four ways and says what it was told.
const EXTENSION: &str = r#"
export default function (pi) {
  pi.registerCommand("ask-all", {
    description: "asks in all ways",
    handler: async (_args, ctx) => {
      const told = [
        await ctx.ui.select("Which one?", ["red", "blue"]),
        await ctx.ui.confirm("Clear it?", "Everything goes."),
        await ctx.ui.input("Your name", "type it"),
        await ctx.ui.editor("The text", "line 1\nline 2"),
        await ctx.ui.select("And now?", ["a", "b"]),
      ];
      ctx.ui.notify(JSON.stringify(told.map((one) => one ?? null)), "info");
    },
  });
}
"#;

#[tokio::test]
async fn what_an_extension_asks_is_a_question_and_its_command_a_turn() {
    let place = Place::new(&json!({}));
    let file = place.dir.path().join("extension.js");
    std::fs::write(&file, EXTENSION).unwrap();
    let mut launch = place.launch();
    launch
        .command
        .extend(["-e".to_owned(), file.display().to_string()]);
    let mut world = PiWorld::launched(place, launch, Mode::Ask).await;
    let thread = world.open(None).await;
    // It is taken as soon as it asks, not when all is answered.
    let turn: NativeId = world.send(&thread, "/ask-all").await;
    let reply = |chosen: &[&str], text: Option<&str>| Answer::Reply {
        replies: vec![QuestionReply {
            question: "value".to_owned(),
            chosen: chosen.iter().map(|&label| label.to_owned()).collect(),
            text: text.map(str::to_owned),
        }],
    };
    let choose = |option: &str| Answer::Choose {
        option: option.into(),
        note: None,
    };
    let steps = [
        (RequestKind::UserInput, "Which one?", reply(&["blue"], None)),
        (
            RequestKind::Permission,
            "Clear it?\nEverything goes.",
            choose("yes"),
        ),
        (RequestKind::UserInput, "Your name", reply(&[], Some("Ada"))),
        (
            RequestKind::UserInput,
            "The text",
            reply(&[], Some("line 1\nline 3")),
        ),
        (RequestKind::UserInput, "And now?", choose("dismiss")),
    ];
    for (kind, text, answer) in steps {
        let asked = world.request().await;
        assert_eq!(asked.kind, kind);
        let shown = match &asked.subject.questions[..] {
            [question] => question.text.clone(),
            _ => asked.subject.text.clone().unwrap_or_default(),
        };
        assert_eq!(shown, text, "exactly what the extension asks");
        world
            .runtime
            .respond(asked.response(answer))
            .await
            .expect("it is taken");
    }
    assert_eq!(world.turn_end().await, (TurnStatus::Completed, None));
    let told = world.seen.iter().find_map(|event| match &event.kind {
        ProviderEventKind::Diagnostic { message } if message.contains("blue") => {
            Some(message.clone())
        }
        _ => None,
    });
    let told = told.expect("the extension heard the answers");
    for word in ["blue", "true", "Ada", "line 3", "null"] {
        assert!(told.contains(word), "{told}");
    }
    let said = world.seen.iter().any(|event| {
        event.place.turn.as_ref() == Some(&turn)
            && matches!(&event.kind, ProviderEventKind::ItemClosed { client_id: Some(id), .. } if id == "id of /ask-all")
    });
    assert!(said, "{:#?}", world.seen);
    world.send(&thread, "go [[script:plain]]").await;
    assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
}
