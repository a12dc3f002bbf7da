//! `pilothouse-bench`: measures the quality bars of the core and says which are kept.
//!
//! **Owns** the fixtures (written by the product itself, from a seed), the rows of the table and their bars. **Must not**
//! count by what the measured code says of itself: processor time, memory, reads and syncs are the operating system's
//! figures, pages and commits are read from SQLite's files. A rival does the same work in the same run, in turns with us.
//! What could leave traces in memory runs in a process of its own (`pilothouse-bench child …`).
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod agent;
mod content;
mod desk;
mod fixture;
mod live;
mod measure;
mod report;
mod rng;
mod rows;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use report::Row;
use std::{path::PathBuf, process::ExitCode};

/// Measures the quality bars and prints one table.
#[derive(Debug, Parser)]
#[command(name = "pilothouse-bench")]
pub(crate) struct Arguments {
    /// End with status 1 when a gate falls short.
    #[arg(long)]
    gates: bool,
    /// One JSON object per row instead of the table.
    #[arg(long)]
    json: bool,
    /// Only counts, on small fixtures: for every CI run, also of a build without optimisation.
    #[arg(long)]
    quick: bool,
    /// Also the 1 GB fixture and the agents' own stores.
    #[arg(long)]
    nightly: bool,
    /// Only these rows.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// Where fixtures are kept.
    #[arg(long, default_value = "target/bench-fixtures")]
    fixtures: PathBuf,
    /// Also write the table as Markdown to this file.
    #[arg(long)]
    markdown: Option<PathBuf>,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Parts that run in a process of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Make a fixture.
    Make { name: fixture::Name },
    /// Measure one thing and print it as JSON.
    Child {
        name: String,
        arguments: Vec<String>,
    },
    /// List the rows.
    List,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.part {
        Some(Part::Make { name }) => {
            fixture::make(&arguments.fixtures, *name)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::Child { name, arguments }) => {
            println!("{}", rows::child(name, arguments)?);
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::List) => {
            for group in rows::GROUPS {
                println!("{:10} {}", group.name, group.what);
            }
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let context = rows::Context::new(arguments)?;
    let mut table: Vec<Row> = Vec::new();
    for group in rows::chosen(arguments)? {
        eprintln!("measuring {} …", group.name);
        let began = std::time::Instant::now();
        let rows = (group.run)(&context).unwrap_or_else(|error| {
            vec![Row::holds(
                group.what,
                "it can be measured",
                format!("{error:#}"),
                false,
            )]
        });
        eprintln!("  {:.1} s", began.elapsed().as_secs_f64());
        for mut row in rows {
            row.name = group.name.into();
            if arguments.json {
                println!("{}", serde_json::to_string(&row)?);
            }
            table.push(row);
        }
    }
    if !arguments.json {
        print!("{}", report::plain(&table));
    }
    if let Some(file) = &arguments.markdown {
        std::fs::write(file, report::markdown(&table))
            .with_context(|| format!("writing {}", file.display()))?;
    }
    let short = table.iter().filter(|row| row.gates && !row.ok).count();
    let gates = table.iter().filter(|row| row.gates).count();
    eprintln!("{} of {gates} gates kept", gates - short);
    Ok(if arguments.gates && (short > 0 || gates == 0) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
