//! Runs one seed, or many, each in a process of its own.

use crate::{
    oracle::{self, Findings},
    play,
    stage::{AGENT_PLANTS, Plant, Stage, now},
    story::{Family, Story},
};
use pilothouse_tests::mount;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Child, Command, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// How long a seed may take before it is ended as stuck: far more than its own limits.
const SEED: Duration = Duration::from_secs(600);
/// Lines of a program's standard error that a failure shows.
const SHOWN: usize = 30;

/// Faults that are planted into what a device shows, with the kind of violation that has to be found.
const VIEW_PLANTS: [(&str, &str); 5] = [
    ("hidden", "view"),
    ("digest", "digest"),
    ("twice-shown", "duplicated"),
    ("failed", "lost"),
    ("other-answer", "answer"),
];

/// What the command line says.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    seeds: u64,
    first: u64,
    jobs: usize,
    /// More seeds than `seeds` are begun until so many seconds have passed.
    seconds: u64,
    families: Vec<Family>,
    mounts: bool,
    stuck: Duration,
    plant: Plant,
    calm: bool,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            seeds: 1,
            first: 1,
            jobs: 1,
            seconds: 0,
            families: Vec::new(),
            mounts: true,
            stuck: Duration::from_secs(60),
            plant: Plant::default(),
            calm: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--no-mounts" {
                options.mounts = false;
                continue;
            }
            if *word == "--calm" {
                options.calm = true;
                continue;
            }
            let value = words
                .next()
                .ok_or_else(|| format!("`{word}` needs a value"))?;
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("{word}: `{value}` is no number"))
            };
            match *word {
                "--seeds" => options.seeds = number()?,
                "--first" => options.first = number()?,
                "--jobs" => options.jobs = usize::try_from(number()?).unwrap_or(1).max(1),
                "--seconds" => options.seconds = number()?,
                "--stuck" => options.stuck = Duration::from_secs(number()?),
                "--plant" => options.plant = Plant(Some((*value).to_owned())),
                "--family" => options.families.push(match *value {
                    "codex" => Family::Codex,
                    "acp" => Family::Acp,
                    _ => return Err(format!("--family: `{value}` is neither codex nor acp")),
                }),
                _ => return Err(format!("`{word}` is no option")),
            }
        }
        if options.families.is_empty() {
            options.families = vec![Family::Codex, Family::Acp];
        }
        Ok(options)
    }

    fn story(&self) -> Story {
        if self.calm {
            Story::calm(self.families[0])
        } else {
            Story::of(self.first, &self.families, self.mounts)
        }
    }

    /// The options of one seed, as words.
    fn words(&self, seed: u64) -> Vec<String> {
        let mut words = vec!["--first".to_owned(), seed.to_string()];
        for family in &self.families {
            words.extend(["--family".to_owned(), family.protocol().to_owned()]);
        }
        words.extend(["--stuck".to_owned(), self.stuck.as_secs().to_string()]);
        if !self.mounts {
            words.push("--no-mounts".to_owned());
        }
        if self.calm {
            words.push("--calm".to_owned());
        }
        if let Some(plant) = &self.plant.0 {
            words.extend(["--plant".to_owned(), plant.clone()]);
        }
        words
    }
}

/// Runs one seed in this process and prints its report as the last line, a failure with its whole story.
pub(crate) fn one(options: &Options) -> bool {
    let began = Instant::now();
    let story = options.story();
    let mut stage = Stage::start(&story, &options.plant);
    let played = catch_unwind(AssertUnwindSafe(|| judge(&mut stage, &story, options)));
    let found = played.unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Findings {
            violations: vec![format!("stuck: {}", said.unwrap_or("it panicked"))],
            ..Findings::default()
        }
    });
    let passed = found.violations.is_empty();
    if !passed || std::env::var_os("PILOTHOUSE_CHAOS_TELL").is_some() {
        tell(&mut stage, &story, &found);
    }
    let journal = stage.journal();
    for (what, log) in [
        ("prompts", "prompt"),
        ("steers", "steer"),
        ("requests", "ask"),
        ("answers received", "answer"),
    ] {
        stage.done.insert(what, journal.count(log) as u64);
    }
    stage.done.insert("unknown", found.unknown.len() as u64);
    stage.done.insert("refused", found.refused);
    let report = json!({
        "seed": story.seed,
        "passed": passed,
        "violations": found.violations,
        "unknown": found.unknown,
        "ms": began.elapsed().as_millis(),
        "counts": stage.done,
    });
    println!("REPORT {report}");
    passed
}

fn judge(stage: &mut Stage, story: &Story, options: &Options) -> Findings {
    play::play(stage, story);
    play::calm(stage);
    let mut settled = play::settle(stage, options.stuck);
    let mut closing = Vec::new();
    if settled.is_ok() {
        closing = play::close(stage);
        settled = play::settle(stage, options.stuck);
    }
    let edit = |dumps: &mut Vec<Value>| {
        if let Some(plant) = options.plant.0.as_deref() {
            falsify(dumps, plant);
        }
    };
    let mut found = oracle::judge(stage, story, &closing, edit);
    if let Err(stuck) = settled {
        // What else does not fit follows from it.
        found.violations.insert(0, stuck);
    }
    if found.violations.is_empty() {
        oracle::nobody_left(stage, &mut found);
    }
    found
}

/// Edits what devices show, as a fault in them would.
fn falsify(dumps: &mut [Value], plant: &str) {
    let device = match plant {
        "twice-shown" | "failed" | "other-answer" => 0,
        _ => dumps.len() - 1,
    };
    let Some((_, timeline)) = dumps[device]["timelines"]
        .as_object_mut()
        .and_then(|timelines| timelines.iter_mut().next())
    else {
        return;
    };
    if plant == "digest" {
        timeline["digest"] = json!("0".repeat(64));
        return;
    }
    let Some(rows) = timeline["rows"].as_array_mut() else {
        return;
    };
    let of_kind = |rows: &[Value], kind: &str| rows.iter().position(|row| row["kind"] == kind);
    match plant {
        "hidden" => drop(rows.pop()),
        "twice-shown" => {
            if let Some(at) = of_kind(rows, "user") {
                rows.insert(at, rows[at].clone());
            }
        }
        "failed" => {
            if let Some(at) = of_kind(rows, "user") {
                rows[at]["delivery"] = json!({"delivery": "failed", "reason": "planted"});
            }
        }
        "other-answer" => {
            if let Some(at) = of_kind(rows, "request") {
                rows[at]["request"]["status"]["answer"]["option"] = json!("decline");
            }
        }
        _ => {}
    }
}

/// Prints a seed's story.
fn tell(stage: &mut Stage, story: &Story, found: &Findings) {
    println!(
        "=== seed {} {} ({}, {} devices, {} threads, small disks: {}) at {}",
        story.seed,
        if found.violations.is_empty() {
            "passed"
        } else {
            "failed"
        },
        story.family.protocol(),
        story.devices,
        story.threads,
        story.small_disks,
        now()
    );
    for violation in &found.violations {
        println!("  * {violation}");
    }
    println!("--- what was done:");
    for line in stage.timeline() {
        println!("  {line}");
    }
    println!("--- the agent's log:");
    for line in std::fs::read_to_string(stage.root().join("journal.jsonl"))
        .unwrap_or_default()
        .lines()
    {
        println!("  {}", line.chars().take(200).collect::<String>());
    }
    let files = std::fs::read_dir(stage.root()).into_iter().flatten();
    for file in files.flatten().map(|file| file.path()) {
        if file.extension().is_some_and(|ending| ending == "err") {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            println!("--- {} wrote (its end):", file.display());
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                println!("  {}", line.chars().take(300).collect::<String>());
            }
        }
    }
    if std::env::var_os("PILOTHOUSE_CHAOS_KEEP").is_some() {
        stage.keep();
        println!("--- kept in {}", stage.root().display());
    }
}

/// What a seed's process said.
struct Ran {
    seed: u64,
    report: Value,
    said: String,
}

/// A seed's process, read to its end.
struct Running {
    seed: u64,
    child: Child,
    reader: thread::JoinHandle<String>,
    began: Instant,
}

impl Running {
    fn start(options: &Options, seed: u64) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .arg("seed")
            .args(options.words(seed))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("seed {seed} does not start: {error}"))?;
        let mut output = child.stdout.take().ok_or("no output")?;
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = output.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self {
            seed,
            child,
            reader,
            began: Instant::now(),
        })
    }

    /// Whether it has ended; one that takes too long is ended.
    fn is_over(&mut self) -> bool {
        if self.began.elapsed() > SEED {
            let _ = self.child.kill();
        }
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn finish(self) -> Ran {
        let said = self.reader.join().unwrap_or_default();
        let report = said
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str(line.strip_prefix("REPORT ")?).ok());
        let report = report.unwrap_or_else(|| {
            json!({
                "passed": false,
                "violations": [format!("stuck: no report after {} s", self.began.elapsed().as_secs())],
                "ms": self.began.elapsed().as_millis(),
                "counts": {},
            })
        });
        Ran {
            seed: self.seed,
            report,
            said,
        }
    }
}

/// Runs seeds until there are enough, and prints what came of them. `false`: one failed.
pub(crate) fn many(options: &Options) -> Result<bool, String> {
    let mut options = options.clone();
    options.mounts = options.mounts && mount::allowed();
    let began = Instant::now();
    let mut running: Vec<Running> = Vec::new();
    let mut begun = 0;
    let (mut passed, mut failed) = (0_u64, Vec::new());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut spent_ms = 0;
    loop {
        let more = begun < options.seeds || began.elapsed().as_secs() < options.seconds;
        if more && running.len() < options.jobs {
            running.push(Running::start(&options, options.first + begun)?);
            begun += 1;
            continue;
        }
        let Some(at) = running.iter_mut().position(Running::is_over) else {
            if running.is_empty() {
                break;
            }
            sleep(Duration::from_millis(20));
            continue;
        };
        let ran = running.swap_remove(at).finish();
        let ms = ran.report["ms"].as_u64().unwrap_or_default();
        spent_ms += ms;
        for (what, count) in ran.report["counts"].as_object().into_iter().flatten() {
            *counts.entry(what.clone()).or_default() += count.as_u64().unwrap_or_default();
        }
        if ran.report["passed"] == json!(true) {
            passed += 1;
            let unknown = ran.report["unknown"].as_array().map_or(0, Vec::len);
            let unknown = match unknown {
                0 => String::new(),
                _ => format!("; unknown: {}", ran.report["unknown"]),
            };
            println!("seed {} passed in {ms} ms{unknown}", ran.seed);
        } else {
            println!("{}", ran.said.trim_end());
            println!(
                "seed {} FAILED; again: scripts/chaos {}",
                ran.seed,
                options.words(ran.seed).join(" ")
            );
            failed.push(ran.seed);
        }
    }
    println!(
        "\n{begun} seeds from {} on: {passed} passed, {} failed; {} s, {:.1} s a seed",
        options.first,
        failed.len(),
        began.elapsed().as_secs(),
        spent_ms as f64 / 1000.0 / begun.max(1) as f64
    );
    for (what, count) in &counts {
        println!("  {what:<18} {count}");
    }
    if !failed.is_empty() {
        println!("  failed: {failed:?}");
    }
    Ok(failed.is_empty())
}

/// Plants faults, one at a time, into a story without any accident: it passes without, and each is found with.
pub(crate) fn self_test(options: &Options) -> Result<bool, String> {
    let kind = |plant: &str| match plant {
        "twice" => "duplicated",
        "deaf" => "lost",
        "stuck" => "stuck",
        _ => "answer",
    };
    let plants = AGENT_PLANTS
        .iter()
        .map(|plant| (*plant, kind(plant)))
        .chain(VIEW_PLANTS)
        .map(|(plant, kind)| (Some(plant), kind));
    let mut good = true;
    for family in &options.families {
        for (plant, kind) in std::iter::once((None, "")).chain(plants.clone()) {
            let options = Options {
                families: vec![*family],
                mounts: false,
                stuck: Duration::from_secs(6),
                plant: Plant(plant.map(str::to_owned)),
                calm: true,
                ..options.clone()
            };
            let mut running = Running::start(&options, 0)?;
            while !running.is_over() {
                sleep(Duration::from_millis(20));
            }
            let ran = running.finish();
            let violations = ran.report["violations"].as_array().cloned();
            let violations = violations.unwrap_or_default();
            let of_kind = |text: &Value| text.as_str().is_some_and(|text| text.starts_with(kind));
            let caught = match plant {
                None => violations.is_empty(),
                Some(_) => violations.iter().any(of_kind),
            };
            println!(
                "{} {:<13} {}",
                family.protocol(),
                plant.unwrap_or("(nothing)"),
                match (caught, plant) {
                    (true, None) => "passes".to_owned(),
                    (true, Some(_)) => format!("found as `{kind}`"),
                    (false, _) => {
                        println!("{}", ran.said);
                        format!("NOT as expected (`{kind}`): {violations:?}")
                    }
                }
            );
            good &= caught;
        }
    }
    Ok(good)
}
