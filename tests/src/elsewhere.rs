//! Agents' servers that a person started, known to no host.

use crate::{
    World, opencode_home::needs_no_registry, places, process::kill_group, until,
    world::OPENCODE_ENV,
};
use pilothouse_engine::{DirectAgent, DirectFamily};
use std::{
    fs::{self, File},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

/// A server on this machine's loopback. It is ended when it is dropped.
pub struct Elsewhere {
    command: Command,
    child: Child,
    port: u16,
    agent: DirectAgent,
    secret: &'static str,
}

/// `codex app-server` on a WebSocket.
pub enum CodexElsewhere {}

impl CodexElsewhere {
    /// The token that it takes.
    pub const TOKEN: &'static str = "a-token-that-nobody-else-has";

    /// Starts one, with further arguments, that has the world's home of codex.
    ///
    /// # Panics
    /// It does not listen.
    pub fn start(world: &World, arguments: &[&str]) -> Elsewhere {
        let port = free_port();
        let url = format!("ws://127.0.0.1:{port}");
        let token = world.dir().join("token");
        fs::write(&token, Self::TOKEN).expect("a file for the token");
        let mut command = Command::new(places::codex());
        command
            .arg("app-server")
            .args(arguments)
            .args(["--listen", &url])
            .args(["--ws-auth", "capability-token", "--ws-token-file"])
            .arg(&token)
            .env("CODEX_HOME", world.dir().join("codex-home"))
            .env("LOCAL_KEY", "local")
            .env("TMPDIR", "/var/tmp")
            .env("HOME", world.dir());
        let agent = agent(world, DirectFamily::Codex, url);
        Elsewhere::start(world, command, port, agent, Self::TOKEN)
    }
}

/// `opencode serve` behind a password.
pub enum OpencodeElsewhere {}

impl OpencodeElsewhere {
    /// The password for its user `opencode`.
    pub const PASSWORD: &'static str = "a-password-that-nobody-else-has";

    /// Starts one that speaks with the world's model. It serves every directory, and was started in another one than the world's
    /// workspace.
    ///
    /// # Panics
    /// It does not listen.
    pub fn start(world: &World, env: &[(&str, &str)]) -> Elsewhere {
        let port = free_port();
        let home = world.dir().join("home-elsewhere");
        needs_no_registry(&home.join("config"));
        let started_in = world.dir().join("started-in");
        fs::create_dir_all(&started_in).expect("a directory");
        let mut command = Command::new(places::opencode());
        command
            .args(["serve", "--hostname", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .current_dir(started_in)
            .env("OPENCODE_SERVER_PASSWORD", Self::PASSWORD);
        for (name, value) in OPENCODE_ENV {
            let value = value
                .replace("{port}", &world.model.port().to_string())
                .replace("{home}", &home.to_string_lossy());
            command.env(name, value);
        }
        command.envs(env.iter().copied());
        let url = format!("http://127.0.0.1:{port}");
        let agent = agent(world, DirectFamily::Opencode, url);
        Elsewhere::start(world, command, port, agent, Self::PASSWORD)
    }
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("a bound port").port()
}

fn agent(world: &World, family: DirectFamily, url: String) -> DirectAgent {
    DirectAgent {
        name: "box".to_owned(),
        family,
        url,
        pin: None,
        private_network: false,
        directories: vec![world.workspace.display().to_string()],
    }
}

impl Elsewhere {
    fn start(
        world: &World,
        mut command: Command,
        port: u16,
        agent: DirectAgent,
        secret: &'static str,
    ) -> Self {
        let log = File::create(world.dir().join("elsewhere.log")).expect("a log");
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone().expect("a log")))
            .stderr(Stdio::from(log));
        let child = listening(&mut command, port);
        Self {
            command,
            child,
            port,
            agent,
            secret,
        }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address on this machine.
    pub fn url(&self) -> String {
        self.agent.url.clone()
    }

    /// What a device is told of it to reach it there.
    pub fn agent(&self) -> &DirectAgent {
        &self.agent
    }

    /// What it takes as the sign of its person.
    pub fn secret(&self) -> &'static str {
        self.secret
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with all that it started, and starts it again where it was.
    pub fn restart(&mut self) {
        self.kill_9();
        self.child = listening(&mut self.command, self.port);
    }

    fn kill_9(&mut self) {
        kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

fn listening(command: &mut Command, port: u16) -> Child {
    let child = command.spawn().expect("the agent starts");
    until("the agent to listen", || {
        TcpStream::connect(("127.0.0.1", port))
            .map(drop)
            .map_err(|error| error.to_string())
    });
    child
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.kill_9();
    }
}
