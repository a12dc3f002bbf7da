//! A server of tools at an address, handed through with a header whose value comes from a file, called by the real agents.

use crate::{
    mcp::{TOKEN, calls, is_not_said, is_nowhere, shows, told},
    support::{root, say},
};
use pilothouse_domain::{ItemStatus, ProviderEvent};
use pilothouse_providers::mcp::{McpReach, McpServers, McpSetting, McpValue};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// The server; it ends with this.
struct Web {
    process: Child,
    url: String,
}

impl Web {
    fn start() -> Self {
        let mut process = Command::new("node")
            .arg(root().join("tests/support/desk-mcp.mjs"))
            .arg("serves")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        Self { process, url }
    }

    /// It, and one at an address where nobody is.
    fn servers(&self, dir: &Path) -> McpServers {
        let token = dir.join("token");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let value = McpValue::File {
            path: token,
            prefix: "Bearer ".to_owned(),
        };
        let of = |name: &str, url: &str| McpSetting {
            name: name.to_owned(),
            workspaces: None,
            reach: McpReach::Http {
                url: url.to_owned(),
                headers: [("Authorization".to_owned(), value.clone())].into(),
            },
        };
        McpServers::new([of("desk", &self.url), of("gone", "http://127.0.0.1:9/mcp")])
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One call, which the server got with its header; the value stands nowhere else.
fn called(seen: &[ProviderEvent], dir: &Path) {
    let calls = calls(seen);
    assert_eq!(calls.len(), 1, "{calls:?}");
    let (server, tool, arguments, result, status) = &calls[0];
    assert_eq!((server.as_str(), tool.as_str()), ("desk", "whoami"));
    assert!(arguments.contains("hey"));
    let token = format!("{} characters", "Bearer ".len() + TOKEN.len());
    assert!(result.contains(&token), "{result}");
    assert_eq!(*status, ItemStatus::Completed);
    is_not_said(seen);
    is_nowhere(dir);
}

/// The script of a turn that calls it by this name.
fn script(name: &str, namespace: Option<&str>) -> Value {
    let mut call = json!({"name": name, "args": {"text": "hey"}});
    if let Some(namespace) = namespace {
        call["namespace"] = json!(namespace);
    }
    json!({"go": [{"tools": [call]}, say("Done.")]})
}

fn gone_is_told(seen: &[ProviderEvent]) {
    let told = told(seen);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("the MCP server `gone` is not there"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_calls_a_tool_of_a_server_at_an_address() {
    use crate::claude_world::{World, selection};
    let web = Web::start();
    let scripts = script("mcp__desk__whoami", None);
    let selection = selection(pilothouse_domain::Mode::Ask);
    let mut world = World::start_given(scripts, selection, |dir| web.servers(dir)).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    shows(&asked, "desk", "whoami", "hey");
    world.choose(&asked, "allow").await;
    world.turn_end().await;
    called(&world.seen, world.dir.path());
    gone_is_told(&world.seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_calls_a_tool_of_a_server_at_an_address() {
    use crate::support::World;
    let web = Web::start();
    let scripts = script("whoami", Some("mcp__desk"));
    let mut world = World::start_given(scripts, |dir| web.servers(dir)).await;
    let thread = world.open(None).await;
    // codex does not wait for servers longer than a second.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    shows(&asked, "desk", "whoami", "hey");
    world.choose(&asked, "accept").await;
    world.turn_end().await;
    called(&world.seen, world.dir.path());
    gone_is_told(&world.seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opencode_calls_a_tool_of_a_server_at_an_address() {
    use crate::opencode_stage::World;
    let web = Web::start();
    let scripts = script("desk_whoami", None);
    let mut world = World::start_given(scripts, |dir| web.servers(dir)).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let mut asked = world.request().await;
    if asked.subject.text.is_none() {
        // opencode says what the tool is called with after it has asked.
        asked = world.request().await;
    }
    shows(&asked, "desk", "whoami", "hey");
    world.choose(&asked, "once").await;
    world.turn_end().await;
    called(&world.seen, world.dir.path());
    gone_is_told(&world.seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pi_calls_a_tool_of_a_server_at_an_address() {
    use crate::pi_world::PiWorld;
    let web = Web::start();
    let scripts = script("mcp__desk__whoami", None);
    let mut world = PiWorld::start_given(scripts, |dir| web.servers(dir)).await;
    let thread = world.open(None).await;
    world.send(&thread, "[[script:go]]").await;
    let asked = world.request().await;
    shows(&asked, "desk", "whoami", "hey");
    world.choose(&asked, "allow", None).await;
    world.turn_end().await;
    called(&world.seen, world.dir.path());
    // pi says nothing of a server that is not there (decision 32).
    assert!(told(&world.seen).is_empty());
}
