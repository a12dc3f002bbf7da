//! An opencode that a person started: `opencode serve` behind a password, known to no host.

use crate::{World, opencode_home::needs_no_registry, places, until, world::OPENCODE_ENV};
use std::{
    fs::{self, File},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

/// It is ended when it is dropped.
pub struct OpencodeElsewhere {
    child: Child,
    port: u16,
}

impl OpencodeElsewhere {
    /// The password for its user `opencode`.
    pub const PASSWORD: &'static str = "a-password-that-nobody-else-has";

    /// Starts one on this machine's loopback that speaks with the world's model. It serves every directory, and was started in
    /// another one than the world's workspace.
    ///
    /// # Panics
    /// It does not listen.
    pub fn start(world: &World, env: &[(&str, &str)]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("a bound port").port();
        drop(free);
        let home = world.dir().join("home-elsewhere");
        needs_no_registry(&home.join("config"));
        let started_in = world.dir().join("started-in");
        fs::create_dir_all(&started_in).expect("a directory");
        let log = File::create(world.dir().join("opencode.log")).expect("a log");
        let mut command = Command::new(places::opencode());
        command
            .args(["serve", "--hostname", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .current_dir(started_in)
            .env("OPENCODE_SERVER_PASSWORD", Self::PASSWORD)
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone().expect("a log")))
            .stderr(Stdio::from(log));
        for (name, value) in OPENCODE_ENV {
            let value = value
                .replace("{port}", &world.model.port().to_string())
                .replace("{home}", &home.to_string_lossy());
            command.env(name, value);
        }
        command.envs(env.iter().copied());
        let child = command.spawn().expect("opencode starts");
        let server = Self { child, port };
        until("opencode to listen", || {
            TcpStream::connect(("127.0.0.1", port))
                .map(drop)
                .map_err(|error| error.to_string())
        });
        server
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address on this machine.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for OpencodeElsewhere {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
