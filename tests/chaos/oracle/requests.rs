//! Requests: each has at most one effective answer, the one that was taken, and never that of another request.

use super::{Oracle, RECORDED_WITHIN_MS, all_rows};
use crate::{asked::request_name, journal::Given, stage::For, story::Choice};
use pilothouse_domain::Outcome;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl Oracle<'_> {
    pub(super) fn requests(&mut self) {
        let mut taken: BTreeMap<String, Vec<Choice>> = BTreeMap::new();
        let mut untold: BTreeSet<String> = BTreeSet::new();
        for sent in self.stage.sent.clone() {
            let For::Answer { request, choice } = &sent.what else {
                continue;
            };
            match self.outcome(&sent) {
                Some((_, Some(Outcome::Accepted { .. }))) => {
                    taken.entry(request.clone()).or_default().push(*choice);
                }
                Some((_, Some(Outcome::Refused { .. }))) => self.found.refused += 1,
                Some((_, None)) => {}
                None => {
                    untold.insert(request.clone());
                }
            }
        }
        let dump = self.dumps[0].clone();
        let mut shown: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for (_, row) in all_rows(&dump) {
            let subject = row["request"]["subject"].as_str().unwrap_or_default();
            if let Some(name) = request_name(subject) {
                shown.entry(name).or_default().push(&row["request"]);
            }
        }
        let asked = self.journal.asked();
        for (request, (at, pid)) in &asked {
            let answers = self.journal.answers(request);
            if answers.len() > 1 {
                self.found.wrong(
                    "answer",
                    format!(
                        "{request} was answered {} times: {answers:?}",
                        answers.len()
                    ),
                );
            }
            if self.journal.effects(request) > 1 {
                self.found
                    .wrong("duplicated", format!("{request} was done twice"));
            }
            for (_, given) in &answers {
                if given.names.as_ref().is_some_and(|name| name != request) {
                    self.found.wrong(
                        "answer",
                        format!("{request} was given the answer to {:?}", given.names),
                    );
                }
                let known = taken
                    .get(request)
                    .is_some_and(|taken| taken.iter().any(|choice| choice.word() == given.option));
                if !known && !untold.contains(request) {
                    self.found.wrong(
                        "answer",
                        format!(
                            "{request} was answered {given:?}, and what was taken is {:?}",
                            taken.get(request)
                        ),
                    );
                }
            }
            let rows = shown.get(request).map_or(&[][..], Vec::as_slice);
            match rows {
                [] => {
                    let died = self.stage.kills.iter().any(|kill| {
                        kill.at + RECORDED_WITHIN_MS >= *at
                            && kill.agent.is_none_or(|agent| agent == *pid)
                    });
                    if !answers.is_empty() || !died {
                        self.found.wrong(
                            "lost",
                            format!(
                                "{request} was asked and is shown nowhere (answers {answers:?})"
                            ),
                        );
                    }
                }
                [row] => self.request(request, *at, row, &answers),
                more => self.found.wrong(
                    "duplicated",
                    format!("{request} is shown {} times: {more:?}", more.len()),
                ),
            }
        }
        for request in shown.keys().filter(|name| !asked.contains_key(*name)) {
            self.found.wrong(
                "view",
                format!("{request} is shown, and the agent never asked it"),
            );
        }
    }

    fn request(&mut self, request: &str, asked_at: u64, row: &Value, answers: &[(u64, Given)]) {
        let status = &row["status"];
        let answered = answers.first();
        let word = status["status"].as_str().unwrap_or_default();
        let says = |given: &Given| says(status, given);
        match (word, answered) {
            ("answered", Some((_, given))) if says(given) => {}
            ("answered", None) if status["delivery"] != "confirmed" => {
                // Written to a process that was killed before it read it; or it met a turn that was just being stopped, from
                // whose end the host could only conclude (DETAILS section 3: `inferred`).
                let message = request.split('.').next().unwrap_or_default();
                let stopped = status["delivery"] == "inferred"
                    && matches!(
                        self.journal.ended(message).as_deref(),
                        Some("interrupted" | "cancelled")
                    );
                self.found
                    .unknown
                    .push(format!("{request} (written, not read)"));
                if !stopped && self.doubtful(asked_at, None).is_none() {
                    self.found.wrong(
                        "lost",
                        format!("{request} is shown as {status}, and the agent has no answer"),
                    );
                }
            }
            ("withdrawn" | "expired", None) => {}
            ("lost", None) if status["answer"].is_null() => {}
            ("lost", answered) if !status["answer"].is_null() => {
                self.found.unknown.push(format!(
                    "{request} (reached the agent: {})",
                    answered.is_some()
                ));
                let acknowledged = answered.map(|(at, _)| *at);
                if self.doubtful(asked_at, acknowledged).is_none() {
                    self.found.wrong(
                        "unknown",
                        format!("{request}: nothing was killed that could have made it so"),
                    );
                }
                if answered.is_some_and(|(_, given)| !says(given)) {
                    self.found.wrong(
                        "answer",
                        format!("{request} is shown as {status}, the agent was given {answered:?}"),
                    );
                }
            }
            _ => self.found.wrong(
                "answer",
                format!("{request} is shown as {status}, the agent was given {answered:?}"),
            ),
        }
        if row["verified"] != json!(true) {
            self.found
                .wrong("view", format!("{request} is not verified: {row}"));
        }
    }
}

/// Whether a request's shown answer is the one that the agent was given.
fn says(status: &Value, given: &Given) -> bool {
    let answer = &status["answer"];
    let word = answer["option"]
        .as_str()
        .or_else(|| answer["replies"][0]["chosen"][0].as_str())
        .unwrap_or_default();
    match given.option.as_str() {
        "yes" => {
            word.starts_with("allow")
                || word.starts_with("accept")
                || word.starts_with("yes")
                || word.ends_with(": yes")
        }
        "no" => {
            word.starts_with("deny")
                || word == "decline"
                || word.starts_with("no")
                || word.ends_with(": no")
        }
        other => word == other,
    }
}
