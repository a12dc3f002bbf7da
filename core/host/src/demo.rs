//! `pilothouse demo`: the whole story once, with the agent that is installed here. Host and device are processes of this
//! program, each with a directory of its own that goes away; what a person sees is what the verbs print.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

/// `demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The agent to run; `codex app-server` from the PATH if not given
    #[arg(long, value_name = "PROGRAM", num_args = 1.., default_values = ["codex", "app-server"])]
    agent: Vec<String>,
    /// What the agent is told instead of the usual request to write one file
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Allow what the agent asks for without asking you
    #[arg(long)]
    yes: bool,
}

/// What `--help` says below.
pub(crate) const HELP: &str = "Examples:
  pilothouse demo                        with your own signed-in codex; costs a few tokens
  pilothouse demo --yes                  without the question

Starts a host and a device of its own in a temporary directory, pairs them, asks the agent to write one file, shows what
it asks for, and answers after you said so. Nothing of your own hosts or devices is touched.";

/// Tells the story; succeeds if the file has been written after the answer.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let stage = Stage::build()?;
    let nonce = stage.nonce.clone();
    let file = format!("approved-{nonce}.txt");
    let command = format!("echo {nonce} > {file}");
    let prompt = args.prompt.clone().unwrap_or_else(|| {
        format!("Run exactly this shell command in the current directory, once, and nothing else, then say done: {command}")
    });
    say(&format!("nonce: {nonce}"))?;

    say("\n1. A host of its own is started, and a device is paired with it")?;
    let _host = stage.start_host(&args.agent)?;
    let code = stage.host_json("pair", &["--no-wait"])?;
    let code = text(&code, "code").context("the host gave no pairing code")?;
    stage.device("join", &[&code, "--name", "demo"])?;

    say("\n2. The device makes a thread and sends a message")?;
    let made = stage.device_json(
        "new",
        &["--agent", "demo", "--workspace", "demo", "One approval"],
        "created",
    )?;
    let thread = text(&made, "thread").context("no thread was made")?;
    stage.device("send", &[&thread, &prompt])?;

    say("\n3. The agent asks; nothing has run yet")?;
    let asked = stage.device_json("inbox", &["--wait", "--timeout", "120"], "request")?;
    let request = text(&asked, "request").context("the agent asked for nothing")?;
    stage.device("inbox", &[])?;
    let allowed = args.yes || confirmed("Allow this, once? [y/N] ")?;

    say(&format!(
        "\n4. The device answers: {}",
        if allowed { "allow" } else { "deny" }
    ))?;
    stage.device(
        "answer",
        &[&request, if allowed { "--allow" } else { "--deny" }],
    )?;

    say("\n5. The turn ends")?;
    stage.device("watch", &[&thread, "--until-idle", "--timeout", "180"])?;

    let written = std::fs::read_to_string(stage.workspace().join(&file)).unwrap_or_default();
    match (allowed, written.trim() == nonce) {
        (true, true) => say(&format!("\n{file} holds {nonce}\ndemo: PASS"))?,
        (false, false) => say("\nNothing was written, as you said.\ndemo: PASS")?,
        (true, false) => {
            bail!("{file} does not hold {nonce}; the agent may have done something else, see above")
        }
        (false, true) => bail!("{file} was written although it was denied"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the story takes place: a directory that goes away with it.
struct Stage {
    root: PathBuf,
    program: PathBuf,
    nonce: String,
}

impl Stage {
    fn build() -> anyhow::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
        let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let root = std::env::temp_dir().join(format!("pilothouse-demo-{nonce}"));
        for part in ["host", "device", "workspace"] {
            let dir = root.join(part);
            std::fs::create_dir_all(&dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Self {
            root,
            program,
            nonce,
        })
    }

    fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// Starts the host and waits until it listens.
    fn start_host(&self, agent: &[String]) -> anyhow::Result<Host> {
        let config = self.root.join("host.toml");
        let quoted = |text: &str| Value::from(text).to_string();
        let command: Vec<_> = agent.iter().map(|part| quoted(part)).collect();
        let text = format!(
            "[host]\nname = \"demo\"\n\n[workspaces.demo]\npath = {}\n\n[agents.demo]\nprotocol = \"codex\"\ncommand = [{}]\n",
            quoted(&self.workspace().to_string_lossy()),
            command.join(", "),
        );
        std::fs::write(&config, text)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let mut child = Command::new(&self.program)
            .args(["host", "--json", "--listen", "127.0.0.1:0", "--state"])
            .arg(self.root.join("host"))
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the host")?;
        let stdout = child.stdout.take().context("the host has no output")?;
        let host = Host(child);
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .context("cannot read what the host says")?;
        let ready: Value =
            serde_json::from_str(&line).context("the host ended before it listened; see above")?;
        say(&format!(
            "   listens on {}",
            ready["listening"].as_str().unwrap_or("?")
        ))?;
        Ok(host)
    }

    fn verb(&self, verb: &str, place: &str, dir: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(verb)
            .args(args)
            .arg(place)
            .arg(dir)
            .stdin(Stdio::null());
        command
    }

    /// A verb of the host whose answer is one object.
    fn host_json(&self, verb: &str, args: &[&str]) -> anyhow::Result<Value> {
        let mut command = self.verb(verb, "--state", &self.root.join("host"), args);
        objects(command.arg("--json"), verb)?
            .pop()
            .with_context(|| format!("`{verb}` said nothing"))
    }

    /// A verb of the device that prints for a person.
    fn device(&self, verb: &str, args: &[&str]) -> anyhow::Result<()> {
        let mut command = self.verb(verb, "--data", &self.root.join("device"), args);
        let status = command
            .status()
            .with_context(|| format!("cannot run `{verb}`"))?;
        if !status.success() {
            bail!("`{verb}` failed; see above");
        }
        Ok(())
    }

    /// A verb of the device; the last object of the type that is wanted.
    fn device_json(&self, verb: &str, args: &[&str], kind: &str) -> anyhow::Result<Value> {
        let mut command = self.verb(verb, "--data", &self.root.join("device"), args);
        let all = objects(command.arg("--json"), verb)?;
        let wanted = all.into_iter().rfind(|object| object["type"] == kind);
        wanted.with_context(|| format!("`{verb}` gave no `{kind}`"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// The host's process, which ends with the story.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

fn objects(command: &mut Command, verb: &str) -> anyhow::Result<Vec<Value>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{verb}`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("`{verb}` failed: {}", text.trim());
    }
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            serde_json::from_str(line).with_context(|| format!("`{verb}` printed no JSON: {line}"))
        })
        .collect()
}

fn text(object: &Value, field: &str) -> Option<String> {
    object[field].as_str().map(str::to_owned)
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Asks the person at the terminal; anything but yes, and no terminal at all, is no.
fn confirmed(question: &str) -> anyhow::Result<bool> {
    write!(io::stdout(), "{question}")?;
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
