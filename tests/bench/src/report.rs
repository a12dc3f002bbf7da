//! The table: what was measured, against which bar, and what came of it.

use serde::Serialize;

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The group, as `--only` names it.
    pub(crate) name: String,
    /// What is measured.
    pub(crate) what: String,
    /// What it has to be, in words.
    pub(crate) bar: String,
    /// What it is, in words.
    pub(crate) measured: String,
    /// Measured by bar: above 1 falls short.
    pub(crate) ratio: Option<f64>,
    /// Whether it ends the script with an error when it falls short.
    pub(crate) gates: bool,
    /// Whether the bar is kept.
    pub(crate) ok: bool,
}

impl Row {
    /// A measured value that must not exceed its bar.
    pub(crate) fn at_most(what: impl Into<String>, value: f64, bar: f64, unit: &str) -> Self {
        Self {
            name: String::new(),
            what: what.into(),
            bar: format!("≤ {} {unit}", number(bar)).trim_end().to_owned(),
            measured: format!("{} {unit}", number(value)).trim_end().to_owned(),
            ratio: Some(value / bar),
            gates: false,
            ok: value <= bar,
        }
    }

    /// A measured value that must reach its bar.
    pub(crate) fn at_least(what: impl Into<String>, value: f64, bar: f64, unit: &str) -> Self {
        Self {
            name: String::new(),
            what: what.into(),
            bar: format!("≥ {} {unit}", number(bar)).trim_end().to_owned(),
            measured: format!("{} {unit}", number(value)).trim_end().to_owned(),
            ratio: Some(bar / value.max(f64::MIN_POSITIVE)),
            gates: false,
            ok: value >= bar,
        }
    }

    /// Something that has to hold.
    pub(crate) fn holds(what: impl Into<String>, bar: &str, measured: String, ok: bool) -> Self {
        Self {
            name: String::new(),
            what: what.into(),
            bar: bar.to_owned(),
            measured,
            ratio: None,
            gates: true,
            ok,
        }
    }

    /// Only told.
    pub(crate) fn told(what: impl Into<String>, measured: String) -> Self {
        Self {
            name: String::new(),
            what: what.into(),
            bar: "–".into(),
            measured,
            ratio: None,
            gates: false,
            ok: true,
        }
    }

    /// It gates.
    pub(crate) fn gate(mut self) -> Self {
        self.gates = true;
        self
    }

    /// More about what was measured.
    pub(crate) fn note(mut self, note: impl AsRef<str>) -> Self {
        self.measured = format!("{} ({})", self.measured, note.as_ref());
        self
    }

    fn verdict(&self) -> &'static str {
        match (self.gates, self.ok) {
            (true, true) => "gate: kept",
            (true, false) => "gate: FALLS SHORT",
            (false, true) => "report",
            (false, false) => "report: falls short",
        }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.name.clone(),
            self.what.clone(),
            self.bar.clone(),
            self.measured.clone(),
            self.ratio
                .map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
            self.verdict().into(),
        ]
    }
}

const HEAD: [&str; 6] = ["row", "what", "bar", "measured", "ratio", "verdict"];

/// The table for a terminal.
pub(crate) fn plain(rows: &[Row]) -> String {
    let lines: Vec<[String; 6]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(rows.iter().map(Row::cells))
        .collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            out.push_str(cell);
            out.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// The table in Markdown.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(&HEAD.map(str::to_owned));
    out.push_str(&line(&HEAD.map(|_| "---".to_owned())));
    for row in rows {
        out.push_str(&line(&row.cells().map(|cell| cell.replace('|', "\\|"))));
    }
    out
}

/// A number with as many digits as mean something.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if value.abs() >= 1_000.0 {
        let whole = format!("{value:.0}");
        let mut out = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
                out.push(',');
            }
            out.push(digit);
        }
        return out.replace("-,", "-");
    }
    let digits = if value.abs() >= 100.0 || value.fract() == 0.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}
