//! Servers of tools that are handed through: a real one, started by the real agents, called by the scripted model.

use crate::support::{Asked, root};
use pilothouse_domain::{Body, ItemContent, ItemStatus, ProviderEvent, ProviderEventKind};
use pilothouse_providers::mcp::{McpReach, McpServers, McpSetting, McpValue};
use std::path::Path;

/// What stands in the file of a value, and nowhere else.
pub(crate) const TOKEN: &str = "hush-4f1c9a";

/// A server that works and is given a value from a file, one that ends at once, one that never says anything.
pub(crate) fn servers(dir: &Path) -> McpServers {
    let token = dir.join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let script = root().join("tests/support/desk-mcp.mjs");
    let command = |word: &str| {
        let words = ["node", script.to_str().unwrap(), word];
        words.iter().map(|&word| word.to_owned()).collect()
    };
    let of = |name: &str, word: &str| McpSetting {
        name: name.to_owned(),
        workspaces: None,
        reach: McpReach::Stdio {
            command: command(word),
            env: [(
                "DESK_TOKEN".to_owned(),
                McpValue::File {
                    path: token.clone(),
                    prefix: String::new(),
                },
            )]
            .into(),
        },
    };
    McpServers::new([of("desk", "works"), of("dead", "ends"), of("mute", "hangs")])
}

/// The tool calls of a server that ended, with their arguments, output and status.
pub(crate) fn calls(seen: &[ProviderEvent]) -> Vec<(String, String, String, String, ItemStatus)> {
    let text = |body: &Body| body.preview().to_owned();
    seen.iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::ItemClosed {
                content:
                    ItemContent::Tool {
                        server,
                        name,
                        arguments,
                        result,
                    },
                status,
                ..
            } => Some((
                server.clone().unwrap_or_default(),
                name.clone(),
                text(arguments),
                text(result),
                *status,
            )),
            _ => None,
        })
        .collect()
}

/// What was told of servers.
pub(crate) fn told(seen: &[ProviderEvent]) -> Vec<String> {
    seen.iter()
        .filter_map(|event| match &event.kind {
            ProviderEventKind::Unknown { label, raw } if label == "notice (warning)" => {
                Some(raw.clone())
            }
            _ => None,
        })
        .filter(|raw| raw.starts_with("the MCP server "))
        .collect()
}

/// Whether a request shows which tool of which server is to be run, and with what.
pub(crate) fn shows(asked: &Asked, server: &str, tool: &str, argument: &str) {
    let subject = &asked.subject;
    let all = format!(
        "{:?} {:?} {:?}",
        subject.text, subject.reason, subject.reach
    );
    for word in [server, tool, argument] {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(!subject.incomplete && !asked.unknown_fields, "{subject:?}");
}

/// No file below a directory holds the value, but for the one that it stands in.
pub(crate) fn is_nowhere(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            is_nowhere(&path);
        } else if kind.is_file() && path.file_name().unwrap() != "token" {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(TOKEN.len())
                .any(|window| window == TOKEN.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

/// No event and no argument of any process holds it either.
pub(crate) fn is_not_said(seen: &[ProviderEvent]) {
    assert!(!format!("{seen:?}").contains(TOKEN));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(TOKEN));
    }
}

mod claude {
    use super::*;
    use crate::claude_world::{World, call, selection};
    use crate::support::say;
    use pilothouse_domain::{Mode, provider::TurnStatus};
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn claude_calls_a_tool_of_a_server_that_is_handed_through() {
        let steps = json!([
            call("mcp__desk__whoami", json!({"text": "hey"})),
            say("Done.")
        ]);
        let mut world =
            World::start_given(json!({ "go": steps }), selection(Mode::Ask), servers).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        shows(&asked, "desk", "whoami", "hey");
        is_not_said(&[]);
        world.choose(&asked, "allow").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let calls = calls(&world.seen);
        assert_eq!(calls.len(), 1);
        let (server, tool, arguments, result, status) = &calls[0];
        assert_eq!((server.as_str(), tool.as_str()), ("desk", "whoami"));
        assert!(arguments.contains("hey"));
        assert!(result.contains("11 characters"), "{result}");
        assert_eq!(*status, ItemStatus::Completed);
        let told = told(&world.seen);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("the MCP server `dead` is not there"));
        assert!(told[1].starts_with("the MCP server `mute` is not there"));
        is_not_said(&world.seen);
        is_nowhere(world.dir.path());
    }
}

mod codex {
    use super::*;
    use crate::support::{World, say};
    use pilothouse_domain::{
        Answer,
        provider::TurnStatus,
        request::{QuestionReply, RequestKind},
    };
    use serde_json::{Value, json};
    use std::time::Duration;

    /// Until a server has started that is going to.
    const STARTED: Duration = Duration::from_secs(5);

    fn whoami(text: &str) -> Value {
        json!({"tools": [{"name": "whoami", "namespace": "mcp__desk", "args": {"text": text}}]})
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn codex_calls_a_tool_of_a_server_that_is_handed_through() {
        let ask = json!({"tools": [{"name": "ask", "namespace": "mcp__desk", "args": {}}]});
        let steps = json!([whoami("one"), whoami("two"), ask, say("Done.")]);
        let again = json!([whoami("three"), say("Done.")]);
        let scripts = json!({"go": steps, "again": again, "end": [say("Bye.")]});
        let mut world = World::start_given(scripts, servers).await;
        let thread = world.open(None).await;
        // codex does not wait for servers longer than a second.
        tokio::time::sleep(STARTED).await;
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        assert_eq!(asked.kind, RequestKind::Tool);
        shows(&asked, "desk", "whoami", "one");
        // The second call of the same tool is not asked for any more.
        world.choose(&asked, "accept_session").await;
        // A form of which one field is required: the others are left out, and the server is given what is there.
        let asked = world.request().await;
        shows(&asked, "desk", "ask", "");
        world.choose(&asked, "accept").await;
        let asked = world.request().await;
        assert_eq!(asked.kind, RequestKind::Elicitation);
        let questions = asked.subject.questions.iter();
        let optional: Vec<_> = questions.map(|q| (q.id.as_str(), q.optional)).collect();
        assert_eq!(optional, [("age", true), ("colour", true), ("name", false)]);
        let replies = vec![QuestionReply {
            question: "name".to_owned(),
            chosen: Vec::new(),
            text: Some("Ann".to_owned()),
        }];
        let response = asked.response(Answer::Reply { replies });
        world.runtime.respond(response).await.unwrap();
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        world.runtime.stop().await;
        // In a new process it is asked for again; the conversation is given its servers anew.
        world.restart().await;
        let thread = world.open(Some(thread)).await;
        tokio::time::sleep(STARTED).await;
        world.send(&thread, "[[script:again]]").await;
        let asked = world.request().await;
        shows(&asked, "desk", "whoami", "three");
        world.choose(&asked, "decline").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let calls = calls(&world.seen);
        let (calls, forms): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| call.1 == "whoami");
        let filled = &forms[0].3;
        assert!(
            filled.contains("Ann") && !filled.contains("age") && !filled.contains("colour"),
            "{filled}"
        );
        let each: Vec<_> = calls
            .iter()
            .map(|(server, tool, _, result, _)| {
                (
                    server.as_str(),
                    tool.as_str(),
                    result.contains("11 characters"),
                )
            })
            .collect();
        let done = ("desk", "whoami", true);
        assert_eq!(each, [done, done, ("desk", "whoami", false)], "{calls:?}");
        assert_ne!(calls[2].4, ItemStatus::Completed);
        // What did not start in time is told in the next turn.
        let is_mute = |event: &ProviderEvent| {
            told(std::slice::from_ref(event))
                .iter()
                .any(|raw| raw.contains("`mute`"))
        };
        tokio::time::sleep(pilothouse_providers::mcp::START).await;
        world.send(&thread, "[[script:end]]").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        assert!(world.seen.iter().any(is_mute));
        let told = told(&world.seen);
        assert!(told.iter().any(|raw| raw.contains("`dead`")), "{told:?}");
        is_not_said(&world.seen);
        is_nowhere(world.dir.path());
    }
}

mod opencode {
    use super::*;
    use crate::opencode_stage::World;
    use crate::support::say;
    use pilothouse_domain::{provider::TurnStatus, request::RequestKind};
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn opencode_calls_a_tool_of_a_server_that_is_handed_through() {
        let call = json!({"tools": [{"name": "desk_whoami", "args": {"text": "hey"}}]});
        let steps = json!([call, say("Done.")]);
        let mut world = World::start_given(json!({ "go": steps }), servers).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        let mut asked = world.request().await;
        if asked.subject.text.is_none() {
            // opencode says what the tool is called with after it has asked: until then nobody can approve it in one tap.
            assert!(asked.subject.incomplete);
            asked = world.request().await;
        }
        assert_eq!(asked.kind, RequestKind::Tool);
        shows(&asked, "desk", "whoami", "hey");
        world.choose(&asked, "once").await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let calls = calls(&world.seen);
        assert_eq!(calls.len(), 1, "{calls:?}");
        let (server, tool, arguments, result, status) = &calls[0];
        assert_eq!((server.as_str(), tool.as_str()), ("desk", "whoami"));
        assert!(arguments.contains("hey") && result.contains("11 characters"));
        assert_eq!(*status, ItemStatus::Completed);
        let told = told(&world.seen);
        assert_eq!(told.len(), 2, "{told:?}");
        is_not_said(&world.seen);
        is_nowhere(world.dir.path());
    }
}

mod pi {
    use super::*;
    use crate::pi_world::PiWorld;
    use crate::support::say;
    use pilothouse_domain::provider::TurnStatus;
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn pi_calls_a_tool_of_a_server_that_is_handed_through() {
        let call = json!({"tools": [{"name": "mcp__desk__whoami", "args": {"text": "hey"}}]});
        let steps = json!([call, say("Done.")]);
        let mut world = PiWorld::start_given(json!({ "go": steps }), servers).await;
        let thread = world.open(None).await;
        world.send(&thread, "[[script:go]]").await;
        let asked = world.request().await;
        shows(&asked, "desk", "whoami", "hey");
        world.choose(&asked, "allow", None).await;
        assert_eq!(world.turn_end().await.0, TurnStatus::Completed);
        let calls = calls(&world.seen);
        assert_eq!(calls.len(), 1, "{calls:?}");
        let (server, tool, arguments, result, status) = &calls[0];
        assert_eq!((server.as_str(), tool.as_str()), ("desk", "whoami"));
        assert!(arguments.contains("hey") && result.contains("11 characters"));
        assert_eq!(*status, ItemStatus::Completed);
        is_not_said(&world.seen);
    }
}
