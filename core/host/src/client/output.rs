//! Where results go: words or JSON to standard output, errors of the words to standard error.

use super::{
    failure::Failure,
    json,
    style::{Style, Tone},
};
use serde::Serialize;
use std::io::{self, Write};

/// One verb's output.
pub(crate) struct Output {
    /// Whether a script reads it.
    pub(crate) json: bool,
    /// How it is dressed.
    pub(crate) style: Style,
    out: Box<dyn Write>,
    errors: Box<dyn Write>,
    /// A line at the bottom is on the screen.
    bottom: bool,
}

impl Output {
    /// To this process's standard output and error.
    pub(crate) fn stdout(json: bool) -> Self {
        let style = if json {
            Style::PLAIN
        } else {
            Style::of_stdout()
        };
        Self {
            json,
            style,
            out: Box::new(io::stdout()),
            errors: Box::new(io::stderr()),
            bottom: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn to(json: bool, out: Box<dyn Write>, errors: Box<dyn Write>) -> Self {
        Self {
            json,
            style: Style::PLAIN,
            out,
            errors,
            bottom: false,
        }
    }

    /// Words, only where a person reads.
    pub(crate) fn words(&mut self, text: &str) -> io::Result<()> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        self.clear_bottom()?;
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// A line of words, only where a person reads.
    pub(crate) fn say(&mut self, tone: Option<Tone>, line: &str) -> io::Result<()> {
        let line = tone.map_or_else(|| line.to_owned(), |tone| self.style.paint(tone, line));
        self.words(&format!("{line}\n"))
    }

    /// An object, only where a script reads.
    pub(crate) fn object<T: Serialize>(&mut self, kind: &str, body: T) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        writeln!(self.out, "{}", json::line(kind, body))?;
        self.out.flush()
    }

    /// The line at the bottom of a terminal: written over by whatever comes next.
    pub(crate) fn bottom(&mut self, line: Option<&str>) -> io::Result<()> {
        if self.json || !self.style.live {
            return Ok(());
        }
        self.clear_bottom()?;
        if let Some(line) = line {
            write!(self.out, "{line}")?;
            self.bottom = true;
        }
        self.out.flush()
    }

    fn clear_bottom(&mut self) -> io::Result<()> {
        if self.bottom {
            write!(self.out, "\r\x1b[2K")?;
            self.bottom = false;
        }
        Ok(())
    }

    /// What failed, what to do next, and among what to choose.
    pub(crate) fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        self.clear_bottom()?;
        if self.json {
            return self.object("error", json::ErrorLine::from(failure));
        }
        self.out.flush()?;
        writeln!(
            self.errors,
            "pilothouse: {}",
            super::text::neutral(&failure.what)
        )?;
        for candidate in &failure.candidates {
            writeln!(
                self.errors,
                "  {}  {}",
                candidate.id,
                super::text::one_line(&candidate.label, 100)
            )?;
        }
        if let Some(next) = &failure.next {
            writeln!(self.errors, "  next: {}", super::text::neutral(next))?;
        }
        self.errors.flush()
    }

    /// Everything is out, and no line at the bottom is left behind.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.clear_bottom()?;
        self.out.flush()
    }
}
