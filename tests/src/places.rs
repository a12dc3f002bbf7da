//! Where the real programs are.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ stands in the repository")
}

fn given(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(variable).filter(|value| !value.is_empty())?);
    assert!(
        path.exists(),
        "{variable} names {}, which does not exist",
        path.display()
    );
    Some(path)
}

/// The `pilothouse` program: `PILOTHOUSE_BIN`, else the one that was built beside this test.
pub fn pilothouse() -> PathBuf {
    given("PILOTHOUSE_BIN").unwrap_or_else(|| {
        let test = env::current_exe().expect("a program knows its file");
        let beside = test
            .parent()
            .and_then(Path::parent)
            .map(|profile| profile.join("pilothouse"));
        beside.filter(|path| path.exists()).unwrap_or_else(|| {
            panic!(
                "no pilothouse beside {}; run `cargo build -p pilothouse-host` first",
                test.display()
            )
        })
    })
}

/// The scripted model server: `PILOTHOUSE_MODEL_SERVER`, else the repository's.
pub fn model_server() -> PathBuf {
    given("PILOTHOUSE_MODEL_SERVER").unwrap_or_else(|| root().join("tests/model/model.mjs"))
}

/// The pinned codex: `PILOTHOUSE_CODEX`, else what `scripts/agents` has installed or now installs.
pub fn codex() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    given("PILOTHOUSE_CODEX").unwrap_or_else(|| FOUND.get_or_init(|| pinned("codex")).clone())
}

/// The pinned Claude Code: `PILOTHOUSE_CLAUDE`, else what `scripts/agents` has installed or now installs.
pub fn claude() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    given("PILOTHOUSE_CLAUDE").unwrap_or_else(|| FOUND.get_or_init(|| pinned("claude")).clone())
}

/// The pinned copilot, which speaks ACP: `PILOTHOUSE_COPILOT`, else what `scripts/agents` has installed or now installs.
pub fn copilot() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let program = given("PILOTHOUSE_COPILOT").unwrap_or_else(|| pinned("copilot"));
        // Its first start unpacks 235 MB: done here, so that no two do it at once into the shared cache.
        let home = tempfile::tempdir().expect("a temporary directory");
        agent_home(home.path());
        let output = Command::new(&program)
            .arg("--version")
            .env("HOME", home.path())
            .output()
            .expect("copilot can be run");
        assert!(output.status.success(), "copilot --version: {output:?}");
        program
    };
    FOUND.get_or_init(find).clone()
}

/// The pinned pi, which Node runs: `PILOTHOUSE_PI`, else what `scripts/agents` has installed or now installs.
pub fn pi() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    given("PILOTHOUSE_PI").unwrap_or_else(|| FOUND.get_or_init(|| pinned("pi")).clone())
}

/// The Node that pi needs: `PILOTHOUSE_NODE`, else what `scripts/agents` has installed or now installs.
pub fn node() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    given("PILOTHOUSE_NODE").unwrap_or_else(|| FOUND.get_or_init(|| pinned("node")).clone())
}

/// The pinned opencode: `PILOTHOUSE_OPENCODE`, else what `scripts/agents` has installed or now installs.
pub fn opencode() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    given("PILOTHOUSE_OPENCODE").unwrap_or_else(|| FOUND.get_or_init(|| pinned("opencode")).clone())
}

/// Makes a home for an agent whose cache is shared by all of them.
pub fn agent_home(home: &Path) {
    let cache = env::var_os("PILOTHOUSE_CACHE").filter(|path| !path.is_empty());
    let cache = cache.map_or_else(|| root().join(".cache"), PathBuf::from);
    let cache = std::path::absolute(cache.join("agents/home-cache")).expect("an absolute path");
    std::fs::create_dir_all(home).expect("a home for the agent");
    std::fs::create_dir_all(&cache).expect("a cache for agents");
    std::os::unix::fs::symlink(&cache, home.join(".cache")).expect("a link to the cache");
}

/// An agent that `scripts/agents` has installed or now installs, by its name in agents.lock.
///
/// # Panics
/// It cannot be installed.
pub fn pinned(agent: &str) -> PathBuf {
    let output = Command::new(root().join("scripts/agents"))
        .arg(agent)
        .output()
        .expect("scripts/agents can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "scripts/agents could not install {agent}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(
        said.lines()
            .last()
            .expect("scripts/agents prints where it is"),
    )
}

/// A file of tests/support.
pub fn support(name: &str) -> PathBuf {
    root().join("tests/support").join(name)
}
