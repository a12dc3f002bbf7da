//! Colour where it helps and only where it is welcome: a terminal, and no `NO_COLOR`.

use std::{env, io::IsTerminal as _};

/// How output is dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Escape sequences for colour.
    pub(crate) colour: bool,
    /// A line at the bottom that is written over; only on a terminal.
    pub(crate) live: bool,
    /// Columns, where lines have to be broken by us.
    pub(crate) width: Option<usize>,
}

/// What a piece of text means; the only place that knows colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Names, headings.
    Strong,
    /// Less important.
    Dim,
    /// Ended well.
    Good,
    /// Failed, refused, dangerous.
    Bad,
    /// Waits for a person.
    Waits,
}

impl Style {
    /// No escape sequences, no line breaks of ours: a pipe.
    pub(crate) const PLAIN: Self = Self {
        colour: false,
        live: false,
        width: None,
    };

    /// As standard output is.
    pub(crate) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        // Without a way to ask the terminal, 80 columns are the least that is usual; COLUMNS says otherwise.
        let columns = env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|columns| *columns >= 40);
        Self {
            colour: !set("NO_COLOR") && !dumb,
            live: !dumb,
            width: Some(columns.unwrap_or(80)),
        }
    }

    /// `text` in that tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Strong => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Waits => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
