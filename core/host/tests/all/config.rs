//! What a person gets to read who mistyped something in host.toml.

use pilothouse_domain::{Mode, policy::Sandbox};
use pilothouse_host::config::{Config, ConfigError, listen_address};
use std::path::Path;

fn problems(text: &str) -> Vec<String> {
    match Config::parse(text, "host.toml", Some(Path::new("/tmp"))) {
        Ok(config) => panic!("taken: {config:?}"),
        Err(ConfigError::Wrong(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_typo_is_answered_with_its_line_and_the_nearest_valid_word() {
    let table: &[(&str, &str)] = &[
        (
            "[hots]\nname = \"x\"",
            "line 1: unknown key `hots` in the file; did you mean `host`?",
        ),
        (
            "[host]\n\nnmae = \"x\"",
            "line 3: unknown key `nmae` in [host]; did you mean `name`?",
        ),
        (
            "[host]\nlistn = \"127.0.0.1:1\"",
            "line 2: unknown key `listn` in [host]; did you mean `listen`?",
        ),
        (
            "[host]\nidle_minutes = 0",
            "line 2: `idle_minutes` has to be a number of minutes from 0.02 to 10080",
        ),
        (
            "[host]\nidle_minutes = 0.01",
            "line 2: `idle_minutes` has to be a number of minutes from 0.02 to 10080",
        ),
        (
            "[host]\nidle_minutes = nan",
            "line 2: `idle_minutes` has to be a number of minutes from 0.02 to 10080",
        ),
        (
            "[host]\nidle_minutes = \"an hour\"",
            "line 2: `idle_minutes` has to be a number of minutes from 0.02 to 10080",
        ),
        (
            "[host]\nallow_host = []",
            "line 2: unknown key `allow_host` in [host]; did you mean `allow_hosts`?",
        ),
        (
            "# a comment\n\n[agents.codex]\nprotocol = \"codex\"\nenv = {}\n\ncomand = [\"codex\"]",
            "line 7: unknown key `comand` in [agents.codex]; did you mean `command`?",
        ),
        (
            "[agents.a]\nprotocl = \"codex\"",
            "line 2: unknown key `protocl` in [agents.a]; did you mean `protocol`?",
        ),
        (
            "[agents.a]\ncommand = [\"x\"]\nprotocol = \"codx\"",
            "line 3: unknown protocol `codx`; did you mean `codex`?",
        ),
        (
            "[agents.a]\ncommand = [\"x\"]\nprotocol = \"zzz\"",
            "line 3: unknown protocol `zzz`; valid: `codex`, `claude`, `opencode`, `acp`, `pi`, `openclaw`, `replay`",
        ),
        (
            "[workspace.app]\npath = \"/tmp\"",
            "line 1: unknown key `workspace` in the file; did you mean `workspaces`?",
        ),
        (
            "[workspaces.app]\npaht = \"/tmp\"",
            "line 2: unknown key `paht` in [workspaces.app]; did you mean `path`?",
        ),
        (
            "[defaults]\nmodes = \"ask\"",
            "line 2: unknown key `modes` in [defaults]; did you mean `mode`?",
        ),
        (
            "[defaults]\nmode = \"aks\"",
            "line 2: unknown mode `aks`; did you mean `ask`?",
        ),
        (
            "[defaults]\nmode = \"full\"",
            "line 2: unknown mode `full`; did you mean `full_access`?",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(problems(text), [format!("host.toml {expected}")], "{text}");
    }
}

#[test]
fn a_wrong_value_is_answered_with_its_line_and_what_is_expected() {
    let table: &[(&str, &str)] = &[
        (
            "[host]\nname = 7",
            "line 2: `name` has to be a text in quotes, this is a integer",
        ),
        ("[host]\nname = \" \"", "line 2: `name` is empty"),
        (
            "[host]\nlisten = \"everywhere\"",
            "line 2: `everywhere` is no place to listen at",
        ),
        (
            "[host]\naddresses = [\"studio.example\"]",
            "line 2: `studio.example` in `addresses` has no port",
        ),
        (
            "host = 7",
            "line 1: [host] has to be a table, this is a integer",
        ),
        (
            "[agents.a]\nprotocol = \"codex\"\ncommand = \"codex app-server\"",
            "write `command = [\"codex\", \"app-server\"]`",
        ),
        (
            "[agents.a]\nprotocol = \"codex\"\ncommand = []",
            "line 3: `command` of [agents.a] is empty; name a program",
        ),
        (
            "[agents.a]\nprotocol = \"codex\"",
            "line 1: [agents.a] has no `command`",
        ),
        (
            "[agents.a]\ncommand = [\"x\"]",
            "line 1: [agents.a] has no `protocol`",
        ),
        (
            "[agents.a]\ncommand = [\"x\"]\nprotocol = \"openclaw\"",
            "line 3: protocol `openclaw` is not supported by this version, which speaks `codex`, `acp`",
        ),
        (
            "[agents.a]\nprotocol = \"acp\"\ncommand = [\"x\"]\nmodes = { aks = \"default\" }",
            "line 4: unknown mode `aks`; did you mean `ask`?",
        ),
        (
            "[agents.a]\nprotocol = \"acp\"\ncommand = [\"x\"]\nmodes = { ask = 1 }",
            "line 4: `modes.ask` has to be a text",
        ),
        (
            "[agents.a]\nprotocol = \"codex\"\ncommand = [\"x\"]\nmodes = { ask = \"default\" }",
            "line 1: `modes` of [agents.a] is only for `protocol = \"acp\"`, `\"claude\"` and `\"opencode\"`",
        ),
        (
            "[agents.a]\nprotocol = \"acp\"\ncommand = \"goose acp\"",
            "line 3: `command` of [agents.a] is a list of program and arguments; write `command = [\"goose\", \"acp\"]`",
        ),
        (
            "[agents.a]\nprotocol = \"codex\"\ncommand = [\"x\"]\nenv = { A = 1 }",
            "line 4: `env.A` has to be a text",
        ),
        (
            "[agents.\"a b\"]\nprotocol = \"codex\"\ncommand = [\"x\"]",
            "line 1: the name in [agents.a b] may have",
        ),
        ("[workspaces.w]", "line 1: [workspaces.w] has no `path`"),
        (
            "[workspaces.w]\npath = \"src\"",
            "line 2: `path` has to be absolute, or begin with `~`: `src`",
        ),
        (
            "[workspaces.w]\npath = \"~/not-there-at-all\"",
            "line 2: `path` cannot be used: `/tmp/not-there-at-all`",
        ),
        (
            "[workspaces.w]\npath = \"/proc/self/status\"",
            "line 2: `path` is no directory",
        ),
        (
            "[host]\nname = \"a\"\nname = \"b\"",
            "line 3: duplicate key",
        ),
        ("[host", "line 1: "),
    ];
    for (text, expected) in table {
        let found = problems(text);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{text}\n{found:?}\n{expected}"
        );
    }
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let found = problems(
        "[defaults]\nmode = \"aks\"\n[host]\nnmae = \"x\"\n[workspaces.w]\npaht = \"/\"\n",
    );
    let lines: Vec<_> = found
        .iter()
        .map(|problem| problem.split(':').next().unwrap())
        .collect();
    assert_eq!(
        lines,
        ["host.toml line 2", "host.toml line 4", "host.toml line 6"]
    );
}

#[test]
fn minutes_may_be_parts_of_one() {
    for (said, seconds) in [("0.5", 30), ("1.5", 90), ("15", 900)] {
        let text = format!("[host]\nidle_minutes = {said}");
        let config = Config::parse(&text, "host.toml", None).unwrap();
        let meant = std::time::Duration::from_secs(seconds);
        assert_eq!(config.host.idle_look, Some(meant), "{said}");
    }
}

#[test]
fn a_whole_configuration_is_read_in_its_order_with_home_expanded() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("src")).unwrap();
    let text = r#"
[host]
name = "studio"
listen = "127.0.0.1:7000"
allow_hosts = ["studio.example"]
addresses = ["studio.example:7000"]
idle_minutes = 90
[agents.zeta]
protocol = "codex"
command = ["~/bin/codex", "app-server"]
env = { CODEX_HOME = "$HOME/.codex-zeta", EMPTY = "" }
cwd = "~"
[agents.alpha]
protocol = "codex"
command = ["codex", "app-server"]
[workspaces.app]
path = "${HOME}/src"
[defaults]
mode = "auto_edit"
"#;
    let config = Config::parse(text, "host.toml", Some(home.path())).unwrap();
    assert_eq!(config.host.name.as_deref(), Some("studio"));
    assert_eq!(config.host.listen, Some("127.0.0.1:7000".parse().unwrap()));
    assert_eq!(
        config.host.idle_look,
        Some(std::time::Duration::from_secs(90 * 60))
    );
    let names: Vec<_> = config
        .agents
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["zeta", "alpha"]);
    let zeta = &config.agents[0].1;
    assert_eq!(
        zeta.command[0],
        home.path().join("bin/codex").to_str().unwrap()
    );
    assert_eq!(
        zeta.env["CODEX_HOME"],
        home.path().join(".codex-zeta").to_str().unwrap()
    );
    assert_eq!(zeta.env["EMPTY"], "");
    assert_eq!(
        config.workspaces[0].1,
        home.path().join("src").canonicalize().unwrap()
    );
    assert_eq!(config.default_mode, Mode::AutoEdit);
}

#[test]
fn a_place_to_listen_at_can_be_written_in_short() {
    for (text, expected) in [
        ("127.0.0.1:9", "127.0.0.1:9"),
        ("[::1]:9", "[::1]:9"),
        ("10.0.0.1", "10.0.0.1:7433"),
        ("localhost:9", "127.0.0.1:9"),
        ("9", "[::]:9"),
    ] {
        assert_eq!(
            listen_address(text),
            Ok(expected.parse().unwrap()),
            "{text}"
        );
    }
    assert!(listen_address("studio.example:9").is_err());
}

#[test]
fn any_command_line_can_be_an_acp_agent() {
    let text = "[agents.mine]\nprotocol = \"acp\"\ncommand = [\"node\", \"agent.js\", \"--stdio\"]\nmodes = { ask = \"default\", full_access = \"yolo\" }\n";
    let config = Config::parse(text, "host.toml", None).unwrap();
    let (name, agent) = &config.agents[0];
    assert_eq!(name.as_str(), "mine");
    assert_eq!(agent.protocol, "acp");
    assert_eq!(agent.command, ["node", "agent.js", "--stdio"]);
    let modes: Vec<_> = agent
        .modes
        .iter()
        .map(|(mode, name)| (*mode, name.as_str()))
        .collect();
    assert_eq!(modes, [(Mode::Ask, "default"), (Mode::FullAccess, "yolo")]);
}

#[test]
fn an_agent_that_does_not_ask_names_its_sandboxes_and_only_of_pi() {
    let agent = |lines: &str| {
        let text = format!("[agents.mine]\ncommand = [\"pi\"]\n{lines}");
        Config::parse(&text, "host.toml", None).map(|config| config.agents[0].1.sandboxes.clone())
    };
    let pi = "protocol = \"pi\"\n";
    assert_eq!(agent(pi).unwrap(), []);
    assert_eq!(
        agent(&format!("{pi}sandbox = \"bwrap\"")).unwrap(),
        [Sandbox::Bwrap]
    );
    let both = agent(&format!("{pi}sandbox = [\"none\", \"bwrap\"]")).unwrap();
    assert_eq!(both, [Sandbox::None, Sandbox::Bwrap]);
    for (lines, said) in [
        (
            format!("{pi}sandbox = \"bwarp\""),
            "unknown sandbox `bwarp`",
        ),
        (format!("{pi}sandbox = []"), "names none"),
        (
            "protocol = \"acp\"\nsandbox = \"bwrap\"".to_owned(),
            "only for `protocol = \"pi\"`",
        ),
    ] {
        let problem = agent(&lines).unwrap_err().to_string();
        assert!(problem.contains(said), "{problem}");
    }
}

const AGENTS: &str = "[agents.codex]\nprotocol = \"codex\"\ncommand = [\"codex\"]\n[agents.omp]\nprotocol = \"pi\"\ncommand = [\"omp\"]\n[workspaces.tmp]\npath = \"/tmp\"\n";

#[test]
fn servers_of_tools_are_given_to_their_agents_in_their_workspaces() {
    let text = format!(
        "{AGENTS}[[mcp]]\nname = \"desk\"\ncommand = [\"node\", \"~/desk.mjs\"]\nenv = {{ TOKEN = {{ file = \"~/token\" }}, LEVEL = \"debug\" }}\n\
         [[mcp]]\nname = \"docs\"\nurl = \"https://docs.example/mcp\"\nheaders = {{ Authorization = {{ env = \"DOCS\", prefix = \"Bearer \" }} }}\nagents = [\"codex\"]\nworkspaces = [\"tmp\"]\n"
    );
    let config = Config::parse(&text, "host.toml", Some(Path::new("/home/x"))).unwrap();
    let of = |agent: &str| {
        let servers = config.mcp_of(&agent.into());
        let each = servers.settings().iter();
        each.map(|server| format!("{server:?}")).collect::<Vec<_>>()
    };
    let codex = of("codex");
    assert_eq!(codex.len(), 2);
    assert!(codex[0].contains("/home/x/desk.mjs") && codex[0].contains("File(/home/x/token)"));
    assert!(codex[1].contains("Variable(DOCS)") && codex[1].contains("/tmp"));
    // Which agents take any is known where they are started; there it is said, too.
    assert_eq!(of("omp").len(), 1);
}

#[test]
fn a_server_of_tools_that_cannot_be_meant_so_is_answered_with_what_is_wrong() {
    let named = |rest: &str| format!("[[mcp]]\nname = \"desk\"\n{rest}");
    let table = [
        (
            "[mcp]\nname = \"desk\"".to_owned(),
            "line 1: write each server as `[[mcp]]`, with two brackets",
        ),
        (
            "[[mcp]]\ncommand = [\"x\"]".to_owned(),
            "line 1: [[mcp]] has no `name`; e.g. `name = \"docs\"`",
        ),
        (
            named("comand = [\"x\"]"),
            "line 3: unknown key `comand` in [[mcp]]; did you mean `command`?",
        ),
        (
            named(""),
            "line 1: the MCP server `desk` has neither a `command` nor a `url`; e.g. `command = [\"npx\", \"-y\", \"my-server\"]`",
        ),
        (
            named("command = [\"x\"]\nurl = \"https://x.example\""),
            "line 1: the MCP server `desk` has a `command` and a `url`; it is reached by one of them",
        ),
        (
            named("command = [\"x\"]\nheaders = { A = \"b\" }"),
            "line 1: the MCP server `desk` has `headers`, which only a server with a `url` gets; write `env`",
        ),
        (
            named("url = \"http://x.example/mcp\"\nheaders = { A = \"b\" }"),
            "line 1: the MCP server `desk` would be sent its `headers` in the clear; write https://, or take them out",
        ),
        (
            named("url = \"https://me:hunter2@x.example\""),
            "line 3: `url` of [[mcp]] holds a user or a password; put it into `headers`",
        ),
        (
            named("command = [\"x\"]\nenv = { A = { env = \"B\", file = \"/c\" } }"),
            "line 4: `env.A` names either an `env` or a `file`",
        ),
        (
            named("command = [\"x\"]\nenv = { A = { flie = \"/c\" } }"),
            "line 4: unknown key `flie` in `env.A`; did you mean `file`?",
        ),
        (
            format!(
                "{AGENTS}{}",
                named("command = [\"x\"]\nagents = [\"codxe\"]")
            ),
            "line 9: the MCP server `desk` is for the agent `codxe`, which is not in [agents]; did you mean `codex`?",
        ),
        (
            format!("{AGENTS}{}", named("command = [\"x\"]\nagents = [\"omp\"]")),
            "line 9: the MCP server `desk` is for the agent `omp`, which cannot be given any: omp is given none; configure it in omp itself",
        ),
        (
            format!(
                "{AGENTS}{}",
                named("command = [\"x\"]\nworkspaces = \"tpm\"")
            ),
            "line 9: the MCP server `desk` is for the workspace `tpm`, which is not there; did you mean `tmp`?",
        ),
        (
            format!(
                "{}\n{}",
                named("command = [\"x\"]"),
                named("command = [\"y\"]\nagents = [\"codex\"]")
            ),
            "line 4: a second MCP server `desk` for the same agents and workspaces; name it otherwise (`-` and `_` count as one)",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(problems(&text), [format!("host.toml {expected}")], "{text}");
        assert!(!problems(&text)[0].contains("hunter2"));
    }
}
