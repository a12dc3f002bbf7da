//! Runs one seed, or many, each in a process of its own.

use crate::{
    oracle::{self, Findings},
    plants::{AGENT_PLANTS, Plant, VIEW_PLANTS},
    play,
    stage::{Stage, now},
    story::{Family, Story},
};
use pilothouse_tests::mount;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Child, Command, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// How long a seed may take before it is ended as stuck: far more than its own limits.
const SEED: Duration = Duration::from_secs(600);
/// Lines of a program's standard error that a failure shows.
const SHOWN: usize = 30;

/// Counts whose sums have to fit: DESIGN wants no more effects of unknown fate than kills while the agent's log shows one
/// that is not acknowledged.
const UNKNOWN: &str = "unknown";
const IN_DOUBT: &str = "kills in doubt";

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
    for (what, count) in [
        (UNKNOWN, found.unknown.len() as u64),
        ("inferred", found.inferred.len() as u64),
        (IN_DOUBT, found.kills_in_doubt),
        ("refused", found.refused),
    ] {
        stage.done.insert(what, count);
    }
    let report = json!({
        "seed": story.seed,
        "passed": passed,
        "violations": found.violations,
        "unknown": found.unknown,
        "inferred": found.inferred,
        "ms": began.elapsed().as_millis(),
        "counts": stage.done,
    });
    print_line(format_args!("REPORT {report}"));
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
    let edit = |evidence: &mut oracle::Evidence<'_>| options.plant.falsify(evidence);
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

/// Prints a seed's story.
fn tell(stage: &mut Stage, story: &Story, found: &Findings) {
    print_line(format_args!(
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
    ));
    for violation in &found.violations {
        print_line(format_args!("  * {violation}"));
    }
    print_line(format_args!("--- what was done:"));
    for line in stage.timeline() {
        print_line(format_args!("  {line}"));
    }
    print_line(format_args!("--- the agent's log:"));
    for line in std::fs::read_to_string(stage.root().join("journal.jsonl"))
        .unwrap_or_default()
        .lines()
    {
        print_line(format_args!(
            "  {}",
            line.chars().take(200).collect::<String>()
        ));
    }
    let files = std::fs::read_dir(stage.root()).into_iter().flatten();
    for file in files.flatten().map(|file| file.path()) {
        if file.extension().is_some_and(|ending| ending == "err") {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            print_line(format_args!("--- {} wrote (its end):", file.display()));
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                print_line(format_args!(
                    "  {}",
                    line.chars().take(300).collect::<String>()
                ));
            }
        }
    }
    if std::env::var_os("PILOTHOUSE_CHAOS_KEEP").is_some() {
        stage.keep();
        print_line(format_args!("--- kept in {}", stage.root().display()));
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

/// Prints a line. `false`: nobody reads any more, and there is nobody to tell that.
fn print_line(line: std::fmt::Arguments<'_>) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// Runs seeds until there are enough, and prints what came of them; ends early, with the seeds that have begun, when nobody
/// reads that any more. `false`: one failed, or not all were played.
pub(crate) fn many(options: &Options) -> Result<bool, String> {
    let mut options = options.clone();
    options.mounts = options.mounts && mount::allowed();
    let began = Instant::now();
    let mut running: Vec<Running> = Vec::new();
    let mut begun = 0;
    let mut heard = true;
    let (mut passed, mut failed) = (0_u64, Vec::new());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut spent_ms = 0;
    loop {
        let more = begun < options.seeds || began.elapsed().as_secs() < options.seconds;
        if heard && more && running.len() < options.jobs {
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
            let of = |what: &str| match ran.report[what].as_array() {
                Some(some) if !some.is_empty() => format!("; {what}: {}", ran.report[what]),
                _ => String::new(),
            };
            heard &= print_line(format_args!(
                "seed {} passed in {ms} ms{}{}",
                ran.seed,
                of("unknown"),
                of("inferred")
            ));
        } else {
            heard &= print_line(format_args!(
                "{}\nseed {} FAILED; again: scripts/chaos {}",
                ran.said.trim_end(),
                ran.seed,
                options.words(ran.seed).join(" ")
            ));
            failed.push(ran.seed);
        }
    }
    let mut sum = format!(
        "\n{begun} seeds from {} on: {passed} passed, {} failed; {} s, {:.1} s a seed",
        options.first,
        failed.len(),
        began.elapsed().as_secs(),
        spent_ms as f64 / 1000.0 / begun.max(1) as f64
    );
    for (what, count) in &counts {
        sum += &format!("\n  {what:<18} {count}");
    }
    if !failed.is_empty() {
        sum += &format!("\n  failed: {failed:?}");
    }
    let of = |what: &str| counts.get(what).copied().unwrap_or_default();
    let explained = of(UNKNOWN) <= of(IN_DOUBT);
    if !explained {
        sum += &format!(
            "\n  FAILED: {} effects are of unknown fate, and only {} kills came while one was under way",
            of(UNKNOWN),
            of(IN_DOUBT)
        );
    }
    heard &= print_line(format_args!("{sum}"));
    Ok(heard && explained && failed.is_empty())
}

/// Plants faults, one at a time, into a story without any accident: it passes without, and each is found with. The families
/// go on beside each other.
pub(crate) fn self_test(options: &Options) -> Result<bool, String> {
    thread::scope(|scope| {
        let tests: Vec<_> = options
            .families
            .iter()
            .map(|family| scope.spawn(|| self_test_of(*family, options)))
            .collect();
        tests.into_iter().try_fold(true, |good, test| {
            let passed = test.join().map_err(|_| "a self-test panicked".to_owned())?;
            Ok(good & passed?)
        })
    })
}

fn self_test_of(family: Family, options: &Options) -> Result<bool, String> {
    let plants = AGENT_PLANTS
        .into_iter()
        .chain(VIEW_PLANTS)
        .map(|(plant, kind)| (Some(plant), kind));
    let mut good = true;
    for (plant, kind) in std::iter::once((None, "")).chain(plants) {
        let options = Options {
            families: vec![family],
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
        let said = match (caught, plant) {
            (true, None) => "passes".to_owned(),
            (true, Some(_)) => format!("found as `{kind}`"),
            (false, _) => format!("NOT as expected (`{kind}`): {violations:?}\n{}", ran.said),
        };
        let heard = print_line(format_args!(
            "{} {:<13} {said}",
            family.protocol(),
            plant.unwrap_or("(nothing)"),
        ));
        if !heard {
            return Ok(false);
        }
        good &= caught;
    }
    Ok(good)
}
