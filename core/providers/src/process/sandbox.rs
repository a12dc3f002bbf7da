//! bubblewrap around an agent that does not ask before it acts (decision 016).
//!
//! Nothing of the machine is there but what is named here: the system's programs and libraries and the little of `/etc` that
//! they need, read-only; the agent's own programs and settings, read-only; the workspace and the agent's sessions, writable.
//! `/tmp` and the home directory are empty and go with the process. The network stays: the agent needs its model.

use crate::contract::Launch;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io,
    path::{Component, Path, PathBuf},
};

/// The program.
const BWRAP: &str = "bwrap";
/// Directories of the system that hold programs and what they need.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
];
/// What programs need of `/etc`; nothing of it is a secret.
const SETTINGS: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/tls/certs",
    "pki/ca-trust",
    "profile",
    "profile.d",
    "protocols",
    "resolv.conf",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];
/// What others run of a workspace: `git` runs hooks and programs that its settings name, and takes both from wherever a file
/// `commondir` in it says, so all of it is read-only. As places of their own they can be neither moved away nor made.
const RUN_BY_OTHERS: &[&str] = &[".git", ".pi"];
/// What is looked through for repositories within the workspace: directories of this depth below it, and so many entries.
const NESTED_DEPTH: usize = 64;
const NESTED_ENTRIES: usize = 1_000_000;
/// Repositories within the workspace: each is a mount of its own, and so is each directory above it.
const NESTED: usize = 512;
/// Runtimes that scripts are run with.
const RUNTIMES: &[&str] = &["node", "bun"];
/// What of the environment is passed on, besides what host.toml sets.
const PASSED: &[&str] = &[
    "COLORTERM",
    "HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TZ",
    "USER",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Beginnings and ends of names that are passed on: the agent's own variables, and keys of model services.
const PASSED_BEGINNINGS: &[&str] = &["LC_", "PI_"];
const PASSED_ENDS: &[&str] = &["_API_KEY"];

/// Entries of a directory of settings that it is given.
const ENTRIES: usize = 1024;

/// What an agent needs besides its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Needs {
    /// Directories of its settings: what is there is read-only, what is added goes with the process.
    pub(crate) settings: Vec<PathBuf>,
    /// Directories of what it keeps, writable; made if they are not there.
    pub(crate) kept: Vec<PathBuf>,
}

/// Why a sandbox cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SandboxProblem {
    /// The program is not there.
    #[error(
        "bubblewrap is not installed on the host: `apt install bubblewrap`, or allow another `sandbox` in host.toml"
    )]
    NotInstalled,
    /// There is no home directory that could be kept out of it.
    #[error("the environment has no HOME, so it is not known where this user's keys are")]
    NoHome,
    /// The workspace holds what is to be kept out of it.
    #[error("the workspace {} holds the home directory, and with it this user's keys; choose a smaller one", workspace.display())]
    TooWide {
        /// The workspace.
        workspace: PathBuf,
    },
    /// It cannot be known in bounded time which repositories the workspace holds, and what is in them is run by others.
    #[error(
        "the workspace {} is too large to be looked through for repositories in it ({bound}); choose a smaller one", workspace.display()
    )]
    TooLarge {
        /// The workspace.
        workspace: PathBuf,
        /// What was found to be too much.
        bound: &'static str,
    },
    /// What is needed is not there and could not be made.
    #[error("{} cannot be used: {problem}", path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// What the system says.
        problem: String,
    },
}

/// The command that runs `launch.command` in the sandbox, with the workspace as the only part of the machine it can write.
///
/// # Errors
/// [`SandboxProblem`], with what to do.
pub(crate) fn bwrap(launch: &Launch, needs: &Needs) -> Result<Vec<String>, SandboxProblem> {
    let variable = |name: &str| {
        launch
            .env
            .get(name)
            .cloned()
            .or_else(|| std::env::var(name).ok())
            .filter(|value| !value.is_empty())
    };
    let path = variable("PATH").unwrap_or_default();
    let path = OsStr::new(&path);
    let program = find(BWRAP, path).ok_or(SandboxProblem::NotInstalled)?;
    let home = PathBuf::from(variable("HOME").ok_or(SandboxProblem::NoHome)?);
    let workspace = real(&launch.cwd)?;
    // Of the home that is named, and of where it really is.
    let homes = [Some(home.clone()), home.canonicalize().ok()];
    if homes
        .iter()
        .flatten()
        .any(|home| home.starts_with(&workspace))
    {
        return Err(SandboxProblem::TooWide { workspace });
    }
    for kept in &needs.kept {
        std::fs::create_dir_all(kept).map_err(|error| place(kept, &error))?;
    }
    let mut words = Words::default();
    words.flags(&[
        "--die-with-parent",
        "--new-session",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    for dir in SYSTEM {
        words.bind("--ro-bind-try", Path::new(dir));
    }
    for name in SETTINGS {
        words.bind("--ro-bind-try", &Path::new("/etc").join(name));
    }
    words.pair("--proc", "/proc");
    words.pair("--dev", "/dev");
    words.pair("--tmpfs", "/tmp");
    words.pair("--tmpfs", &home.to_string_lossy());
    for dir in programs(&launch.command, path, &home) {
        words.bind("--ro-bind-try", &dir);
    }
    for dir in &needs.settings {
        // What it adds there, such as files of locks, goes with the process.
        words.pair("--tmpfs", &dir.to_string_lossy());
        let entries = std::fs::read_dir(dir).map_err(|error| place(dir, &error))?;
        for entry in entries.take(ENTRIES).flatten() {
            words.bind("--ro-bind-try", &entry.path());
        }
    }
    for dir in needs.kept.iter().chain([&workspace]) {
        words.bind("--bind", dir);
    }
    let repositories = nested(&workspace)?;
    // A directory that is a mount cannot be moved away with what is in it.
    let above: BTreeSet<_> = repositories
        .iter()
        .flat_map(|dir| dir.ancestors().skip(1))
        .filter(|dir| dir.starts_with(&workspace) && *dir != workspace)
        .collect();
    for dir in above {
        words.bind("--bind", dir);
    }
    for dir in &repositories {
        words.bind("--ro-bind", dir);
    }
    for name in RUN_BY_OTHERS {
        let dir = workspace.join(name);
        match std::fs::symlink_metadata(&dir) {
            Ok(there) if there.is_symlink() => {
                let problem = "it is a symbolic link, which cannot be kept from being replaced";
                return Err(place(&dir, &io::Error::other(problem)));
            }
            Ok(_) => words.bind("--ro-bind", &dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                words.pair("--tmpfs", &dir.to_string_lossy());
                words.pair("--remount-ro", &dir.to_string_lossy());
            }
            Err(error) => return Err(place(&dir, &error)),
        }
    }
    words.pair("--chdir", &workspace.to_string_lossy());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if !is_passed(&name) && !launch.env.contains_key(name.as_ref()) {
            words.pair("--unsetenv", &name);
        }
    }
    words.0.push("--".to_owned());
    let mut command = vec![program.to_string_lossy().into_owned()];
    command.extend(words.0);
    command.extend(launch.command.iter().cloned());
    Ok(command)
}

/// What names repositories below the workspace's own: submodules, worktrees, clones. Only what is there can be kept from being
/// replaced; a repository that the agent makes anew is its own.
fn nested(workspace: &Path) -> Result<Vec<PathBuf>, SandboxProblem> {
    let too_large = |bound| SandboxProblem::TooLarge {
        workspace: workspace.to_owned(),
        bound,
    };
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut dirs = vec![(workspace.to_owned(), 0)];
    while let Some((dir, depth)) = dirs.pop() {
        // What this user cannot look into, the agent cannot either.
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            looked_at += 1;
            if looked_at > NESTED_ENTRIES {
                return Err(too_large("over 1000000 files and directories"));
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if depth > 0 && entry.file_name() == ".git" {
                if kind.is_symlink() {
                    let problem = "it is a symbolic link, which cannot be kept from being replaced";
                    return Err(place(&path, &io::Error::other(problem)));
                }
                if found.len() == NESTED {
                    return Err(too_large("over 512 repositories"));
                }
                found.push(path);
            } else if kind.is_dir()
                && !(depth == 0 && RUN_BY_OTHERS.iter().any(|name| entry.file_name() == *name))
            {
                if depth == NESTED_DEPTH {
                    return Err(too_large("directories more than 64 deep"));
                }
                dirs.push((path, depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Words of a command line.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|&flag| flag.to_owned()));
    }

    fn pair(&mut self, flag: &str, value: &str) {
        self.0.extend([flag.to_owned(), value.to_owned()]);
    }

    /// The same place inside as outside.
    fn bind(&mut self, flag: &str, path: &Path) {
        let path = path.to_string_lossy().into_owned();
        self.0.extend([flag.to_owned(), path.clone(), path]);
    }
}

fn place(path: &Path, error: &io::Error) -> SandboxProblem {
    SandboxProblem::Place {
        path: path.to_owned(),
        problem: error.to_string(),
    }
}

fn real(path: &Path) -> Result<PathBuf, SandboxProblem> {
    path.canonicalize().map_err(|error| place(path, &error))
}

fn is_passed(name: &str) -> bool {
    PASSED.contains(&name)
        || PASSED_BEGINNINGS
            .iter()
            .any(|begin| name.starts_with(begin))
        || PASSED_ENDS.iter().any(|end| name.ends_with(end))
}

fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    std::env::split_paths(path)
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

/// Where the agent's programs are, besides the system: of a package its `node_modules`, of anything else its own file, or
/// its directory where that holds programs only.
fn programs(command: &[String], path: &OsStr, home: &Path) -> BTreeSet<PathBuf> {
    let named = command
        .iter()
        .take(1)
        .map(String::as_str)
        .chain(RUNTIMES.iter().copied());
    let scripts = command.iter().skip(1).filter(|word| word.starts_with('/'));
    let files = named
        .filter_map(|program| find(program, path))
        .chain(scripts.map(PathBuf::from).filter(|path| path.is_file()));
    let mut found = BTreeSet::new();
    for file in files {
        let real = file.canonicalize().ok();
        for place in [Some(file), real].into_iter().flatten() {
            let place = package(&place)
                .or_else(|| programs_of(&place))
                .unwrap_or(place);
            // The home itself stays out, whatever lies in it.
            if !home.starts_with(&place) && !SYSTEM.iter().any(|dir| place.starts_with(dir)) {
                found.insert(place);
            }
        }
    }
    found
}

/// The outermost `node_modules` that a file lies in: its package needs the others there.
fn package(file: &Path) -> Option<PathBuf> {
    let mut dir = PathBuf::new();
    for component in file.components() {
        dir.push(component);
        if component == Component::Normal(OsStr::new("node_modules")) {
            return Some(dir);
        }
    }
    None
}

fn programs_of(file: &Path) -> Option<PathBuf> {
    let dir = file.parent()?;
    (dir.file_name()? == "bin").then(|| dir.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_model_services_are_passed_on_and_other_secrets_are_not() {
        for name in ["ANTHROPIC_API_KEY", "PATH", "PI_OFFLINE", "LC_ALL"] {
            assert!(is_passed(name), "{name}");
        }
        for name in [
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
        ] {
            assert!(!is_passed(name), "{name}");
        }
    }

    #[test]
    fn repositories_within_a_workspace_are_found_and_one_that_is_too_deep_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at(".git/modules/x/.git")).unwrap();
        std::fs::create_dir_all(at("clone/.git/hooks")).unwrap();
        std::fs::create_dir_all(at("deep/down/sub")).unwrap();
        std::fs::write(at("deep/down/sub/.git"), "gitdir: elsewhere").unwrap();
        let found = nested(dir.path()).unwrap();
        assert_eq!(found, [at("clone/.git"), at("deep/down/sub/.git")]);
        std::fs::create_dir_all(at(&"a/".repeat(NESTED_DEPTH + 1))).unwrap();
        let problem = nested(dir.path()).unwrap_err();
        assert!(matches!(problem, SandboxProblem::TooLarge { .. }));
    }

    #[test]
    fn a_package_brings_its_neighbours_and_never_the_home() {
        let of = |file: &str| package(Path::new(file));
        let modules = Some(PathBuf::from("/home/x/.npm/lib/node_modules"));
        assert_eq!(
            of("/home/x/.npm/lib/node_modules/pi/node_modules/y/cli.js"),
            modules
        );
        assert_eq!(of("/home/x/bin/pi"), None);
        let bin = programs_of(Path::new("/home/x/bin/pi"));
        assert_eq!(bin, Some(PathBuf::from("/home/x/bin")));
        assert_eq!(programs_of(Path::new("/home/x/pi")), None);
    }
}
