//! Real opencode that somebody else started, driven by a device with no daemon anywhere.

use crate::stories::{conversation, says};
use pilothouse_domain::{
    ContentHash, Mode, RequestStatus, RunStatus, ThreadId, request::AnswerDelivery,
};
use pilothouse_engine::{DirectAgent, DirectFamily, Page, Query};
use pilothouse_tests::{
    CallFront, Cli, Device, OpencodeElsewhere, Spoiled, TlsFront, World, device::ids, until,
};
use serde_json::{Value, json};

const PASSWORD: &str = OpencodeElsewhere::PASSWORD;
/// As the thread itself advises.
pub(crate) const ADVISED: (&str, &str) = (
    "OPENCODE_PERMISSION",
    r#"{"*":"ask","read":"allow","glob":"allow","grep":"allow","list":"allow"}"#,
);

/// A world without any daemon: only its directory and its model are used.
fn world() -> World {
    let mut world = World::start();
    world.host.kill_9();
    world
}

fn agent(world: &World, url: String, pin: Option<ContentHash>) -> DirectAgent {
    DirectAgent {
        name: "box".to_owned(),
        family: DirectFamily::Opencode,
        url,
        pin,
        private_network: false,
        directories: vec![world.workspace.display().to_string()],
    }
}

fn phone(world: &World, name: &str, agent: &DirectAgent, password: &str) -> Device {
    Device::direct(&world.dir().join(name), name, agent, password)
}

/// A script that runs one command by opencode's own tool and then says a word.
fn runs(command: &str) -> Value {
    json!([
        {"text": "I will run it.", "tools": [{"name": "bash", "args": {"command": command, "description": "try it"}}]},
        {"text": "After it."},
    ])
}

fn confirmed(device: &Device, thread: ThreadId, request: pilothouse_domain::RequestId) {
    device.status(thread, request, |status| match status {
        RequestStatus::Answered {
            delivery: AnswerDelivery::Confirmed,
            ..
        } => Some(()),
        _ => None,
    });
}

#[test]
fn an_opencode_over_tls_asks_is_answered_and_goes_on_after_the_app_was_reopened_mid_turn() {
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[]);
    let front = TlsFront::start(server.port());
    let tls = agent(&world, front.url(), Some(front.key()));
    let phone = phone(&world, "phone", &tls, PASSWORD);
    let hosts = phone.seen().hosts;
    let row = hosts.into_iter().find(|row| row.host == phone.host());
    let row = row.expect("it is shown like a host");
    assert_eq!(
        row.direct.map(|direct| direct.family).as_deref(),
        Some("opencode")
    );

    world.model.script(
        "direct",
        &runs("pwd > direct.txt; echo direct >> direct.txt"),
    );
    let thread = phone.new_thread_in("workspace", "opencode", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:direct]] [[id:direct]]"));
    let asked = phone.asked(thread);
    assert_eq!(world.text_of("direct.txt"), None);

    // The app goes away in the middle of the turn and comes back.
    let phone = phone.reopen();
    phone.synchronised();
    phone.watch(thread);
    assert_eq!(ids(&phone.seen().inbox), [asked.request]);
    phone.accepted(&phone.choose(&asked, "once"));
    confirmed(&phone, thread, asked.request);
    phone.completed(thread, 1);
    let ran = world.text_of("direct.txt").unwrap();
    assert_eq!(ran, format!("{}\ndirect\n", world.workspace.display()));
    let mark = world.model.mark("direct");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));

    world.model.script("next", &says("Here I am."));
    phone.accepted(&phone.say(thread, "and now? [[script:next]]"));
    phone.completed(thread, 2);
    let said = conversation(&phone, thread);
    assert_eq!(said.last().map(String::as_str), Some("Here I am."));
    let after = said.iter().filter(|text| text.contains("After it."));
    assert_eq!(after.count(), 1, "{said:?}");
}

#[test]
fn another_key_and_another_password_are_named_and_nothing_is_asked_of_the_agent() {
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[]);
    let front = TlsFront::start(server.port());
    let other = ContentHash::from_bytes([1; 32]);
    world.model.script("never", &says("Never."));
    for (name, pin, password, said) in [
        ("key", other, PASSWORD, "another key than the pinned one"),
        ("password", front.key(), "another", "refuses the password"),
    ] {
        let agent = agent(&world, front.url(), Some(pin));
        let phone = phone(&world, name, &agent, password);
        let thread = phone.new_thread_in("workspace", "opencode", Mode::Ask);
        phone.accepted(&phone.say(thread, "go [[script:never]] [[id:never]]"));
        let run = phone.ended(thread, 1);
        assert_eq!(run.status, RunStatus::Failed);
        let shown = format!("{:?}", phone.whole(thread));
        assert!(shown.contains(said), "{shown}");
        assert!(!shown.contains(password), "{shown}");
    }
    assert_eq!(world.model.mark("never").requests, 0);
}

/// A turn whose subagent runs a command.
fn delegates(world: &World, file: &str) {
    world
        .model
        .script("kid", &runs(&format!("echo kid > {file}")));
    let task = json!({"name": "task", "args": {
        "description": "kid task", "prompt": "do it [[script:kid]]", "subagent_type": "general"
    }});
    world.model.script(
        "parent",
        &json!([{"text": "I delegate.", "tools": [task]}, {"text": "Parent is done."}]),
    );
}

#[test]
fn subagents_that_would_act_unasked_are_denied_and_the_thread_says_so() {
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[]);
    let phone = phone(
        &world,
        "phone",
        &agent(&world, server.url(), None),
        PASSWORD,
    );
    delegates(&world, "kid.txt");
    let thread = phone.new_thread_in("workspace", "opencode", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:parent]]"));
    phone.completed(thread, 1);
    assert_eq!(world.text_of("kid.txt"), None);
    let shown = format!("{:?}", phone.whole(thread));
    assert!(
        shown.contains("its subagents explore, general would act without asking"),
        "{shown}"
    );
    // Where nothing is to be asked, they work, and there is nothing to say.
    let free = phone.new_thread_in("workspace", "opencode", Mode::FullAccess);
    phone.accepted(&phone.say(free, "go [[script:parent]] "));
    phone.completed(free, 1);
    assert_eq!(world.text_of("kid.txt").as_deref(), Some("kid\n"));
    let shown = format!("{:?}", phone.whole(free));
    assert!(!shown.contains("would act without asking"), "{shown}");
}

#[test]
fn a_subagent_that_asks_by_its_own_configuration_works_and_is_answered() {
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[ADVISED]);
    let phone = phone(
        &world,
        "phone",
        &agent(&world, server.url(), None),
        PASSWORD,
    );
    delegates(&world, "kid.txt");
    let thread = phone.new_thread_in("workspace", "opencode", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:parent]]"));
    let asked = phone.asked(thread);
    assert_eq!(asked.subject.command.as_deref(), Some("echo kid > kid.txt"));
    assert_eq!(world.text_of("kid.txt"), None);
    phone.accepted(&phone.choose(&asked, "once"));
    phone.completed(thread, 1);
    assert_eq!(world.text_of("kid.txt").as_deref(), Some("kid\n"));
}

#[test]
fn a_terminal_that_drives_an_opencode_is_killed_while_it_asks_and_the_next_one_answers_once() {
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[]);
    let cli = Cli::new(world.dir(), "terminal");
    let (url, dir) = (server.url(), world.workspace.display().to_string());
    let add = ["direct", "add", "box", "--opencode", &url, "--dir", &dir];
    let said = cli.run_with(&world.host, &add, PASSWORD);
    assert_eq!(said.code, 0, "{said:#?}");
    let done = |verb: &[&str]| {
        let said = cli.run(&world.host, verb);
        assert_eq!(said.code, 0, "{said:#?}");
        said
    };
    // The one that holds the ledger, and what others ask of it.
    let mut watch = cli.start(&world.host, &["watch"]);
    watch.json("the host", |line| {
        line["type"] == "host" && line["link"] == "synchronised"
    });
    world
        .model
        .script("killed", &runs("echo killed >> killed.txt"));
    let new = [
        "new",
        "--agent",
        "opencode",
        "--workspace",
        "workspace",
        "T",
    ];
    let thread = done(&new).only("created")["thread"]
        .as_str()
        .unwrap()
        .to_owned();
    done(&["send", &thread, "go [[script:killed]] [[id:killed]]"]);
    let asked = watch.json("the request", |line| {
        line["type"] == "request" && line["state"] == "pending"
    });
    watch.kill_9();
    assert_eq!(world.text_of("killed.txt"), None);

    let request = asked["request"].as_str().unwrap();
    done(&["answer", request, "--allow", "--timeout", "60"]);
    done(&["watch", &thread, "--until-idle", "--timeout", "60"]);
    assert_eq!(world.text_of("killed.txt").as_deref(), Some("killed\n"));
    let mark = world.model.mark("killed");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
    assert_eq!(done(&["inbox"]).of_type("request").count(), 0);
}

#[test]
fn an_agent_that_was_taken_away_leaves_its_threads_to_be_read_and_no_secret() {
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[]);
    let cli = Cli::new(world.dir(), "terminal");
    let (url, dir) = (server.url(), world.workspace.display().to_string());
    let add = ["direct", "add", "box", "--opencode", &url, "--dir", &dir];
    assert_eq!(cli.run_with(&world.host, &add, PASSWORD).code, 0);
    let done = |verb: &[&str]| {
        let said = cli.run(&world.host, verb);
        assert_eq!(said.code, 0, "{said:#?}");
        said
    };
    // The process that drives it; others come and go.
    let mut watch = cli.start(&world.host, &["watch"]);
    watch.json("the host", |line| {
        line["type"] == "host" && line["link"] == "synchronised"
    });
    world.model.script("hello", &says("Hello from there."));
    let new = [
        "new",
        "--agent",
        "opencode",
        "--workspace",
        "workspace",
        "T",
    ];
    let thread = done(&new).only("created")["thread"]
        .as_str()
        .unwrap()
        .to_owned();
    done(&["send", &thread, "go [[script:hello]]"]);
    done(&["watch", &thread, "--until-idle", "--timeout", "60"]);
    assert_eq!(done(&["direct", "list"]).of_type("host").count(), 1);

    done(&["direct", "remove", "box"]);
    watch.json("that it was taken away", |line| {
        line["type"] == "host" && line["direct"]["removed"] == true && line["agents"] == json!([])
    });
    watch.kill_9();

    assert_eq!(done(&["direct", "list"]).of_type("host").count(), 0);
    let secrets = std::fs::read_dir(world.dir().join("terminal"))
        .unwrap()
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|ext| ext == "secret"));
    assert_eq!(secrets.count(), 0);
    let again = cli.run(&world.host, &["direct", "remove", "box"]);
    assert_ne!(again.code, 0, "{again:#?}");
    let read = done(&["watch", &thread, "--until-idle", "--timeout", "60"]);
    assert!(
        format!("{read:?}").contains("Hello from there."),
        "{read:#?}"
    );
    let sent = cli.run(&world.host, &["send", &thread, "more [[id:more]]"]);
    assert_ne!(sent.code, 0, "{sent:#?}");
    assert_eq!(world.model.mark("more").requests, 0);
}

/// Each call by which a conversation is taken up again is cut once, or answered by somebody between: none of that says
/// anything of the run, which waits for its person there.
#[test]
fn a_call_that_fails_while_a_conversation_is_taken_up_again_costs_neither_the_run_nor_what_it_asks()
{
    let world = world();
    let server = OpencodeElsewhere::start(&world, &[]);
    let front = CallFront::start(server.port());
    let mut phone = phone(&world, "phone", &agent(&world, front.url(), None), PASSWORD);
    world
        .model
        .script("direct", &runs("echo direct >> direct.txt"));
    let thread = phone.new_thread_in("workspace", "opencode", Mode::Ask);
    phone.accepted(&phone.say(thread, "go [[script:direct]] [[id:direct]]"));
    let asked = phone.asked(thread);
    let calls = [
        "GET /file",
        "GET /session/ses",
        "GET /path",
        "GET /session/status",
        "GET /permission",
    ];
    let both = calls
        .iter()
        .flat_map(|call| [Spoiled::Cut, Spoiled::BadGateway].map(|how| (*call, how)));
    for (done, (call, how)) in (1..).zip(both) {
        phone.close();
        front.spoil(call, how);
        phone = phone.reopen();
        phone.synchronised();
        phone.watch(thread);
        until("the call was spoiled", || {
            let spoiled = front.spoiled();
            (spoiled == done)
                .then_some(())
                .ok_or(format!("{call} {how:?}: {spoiled} of {done}"))
        });
    }
    assert_eq!(ids(&phone.seen().inbox), [asked.request]);
    phone.accepted(&phone.choose(&asked, "once"));
    confirmed(&phone, thread, asked.request);
    phone.completed(thread, 1);
    assert_eq!(world.text_of("direct.txt").as_deref(), Some("direct\n"));
    let mark = world.model.mark("direct");
    assert_eq!((mark.first_steps, mark.most_in_one_request), (1, 1));
}

#[test]
fn commands_of_an_opencode_elsewhere_are_listed_and_said_but_not_where_its_subagents_act_unasked() {
    let world = world();
    let dir = world.file(".opencode/command");
    std::fs::create_dir_all(&dir).expect("a directory");
    for (name, head) in [("hail", "description: Greets."), ("apart", "subtask: true")] {
        let text = format!("---\n{head}\n---\nGreet $ARGUMENTS warmly. [[script:say]]\n");
        std::fs::write(dir.join(format!("{name}.md")), text).expect("a command");
    }
    world.model.script("say", &says("Said."));
    for (name, env, apart) in [("bare", &[][..], false), ("advised", &[ADVISED][..], true)] {
        let server = OpencodeElsewhere::start(&world, env);
        let front = TlsFront::start(server.port());
        let tls = agent(&world, front.url(), Some(front.key()));
        let phone = phone(&world, name, &tls, PASSWORD);
        let thread = phone.new_thread_in("workspace", "opencode", Mode::Ask);
        phone.accepted(&phone.say(thread, "hello [[script:say]]"));
        phone.completed(thread, 1);
        let host = phone.host();
        phone.wait("the command in the list", |_| {
            match phone.core().query(Query::Commands { host, thread }) {
                Ok(Page::Commands(some)) => {
                    some.iter().any(|one| one.name == "/hail").then_some(())
                }
                other => panic!("{other:?}"),
            }
        });
        phone.accepted(&phone.say(thread, &format!("/hail Ann {name}")));
        phone.completed(thread, 2);
        let told = |text: &str| {
            world
                .model
                .prompts()
                .iter()
                .any(|prompt| prompt.contains(text))
        };
        assert!(told(&format!("Greet Ann {name} warmly.")));
        phone.accepted(&phone.say(thread, &format!("/apart Eve {name}")));
        let ended = phone.ended(thread, 3);
        assert_eq!(ended.status == RunStatus::Completed, apart, "{ended:?}");
        assert_eq!(told(&format!("Greet Eve {name} warmly.")), apart);
    }
}
