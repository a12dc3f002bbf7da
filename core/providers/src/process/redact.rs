//! Takes secrets out of text that is shown or logged.

const MARK: &str = "[redacted]";
/// Shorter values stand in ordinary words.
const SHORTEST_SECRET: usize = 6;
const TELLING_NAMES: [&str; 8] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
];

/// Knows the values of the environment that look like secrets, and the shapes of some others.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Collects the secrets among environment variables: those whose name says so.
    pub fn new(env: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut secrets: Vec<String> = env
            .into_iter()
            .filter(|(name, value)| {
                let name = name.to_uppercase();
                value.len() >= SHORTEST_SECRET
                    // A path to a socket or a file is no secret (SSH_AUTH_SOCK, XAUTHORITY).
                    && !value.starts_with('/')
                    && TELLING_NAMES.iter().any(|word| name.contains(word))
            })
            .map(|(_, value)| value)
            .collect();
        // A secret that contains another goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// Knows these values as secrets, too, whatever they are called.
    pub fn and(mut self, values: impl IntoIterator<Item = String>) -> Self {
        let values = values.into_iter();
        self.secrets
            .extend(values.filter(|value| value.len() >= SHORTEST_SECRET));
        self.secrets
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self.secrets.dedup();
        self
    }

    /// The text without secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MARK);
            }
        }
        let lines: Vec<String> = text.split('\n').map(redact_line).collect();
        lines.join("\n")
    }
}

/// Authorization headers to the end of their line, and words that look like tokens.
fn redact_line(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    for header in [
        "authorization:",
        "authorization\":",
        "x-api-key:",
        "set-cookie:",
        "cookie:",
    ] {
        if let Some(at) = lower.find(header) {
            return format!("{} {MARK}", &line[..at + header.len()]);
        }
    }
    let mut out = String::with_capacity(line.len());
    let mut after_bearer = false;
    for word in line.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        let blank = &word[bare.len()..];
        if looks_like_token(bare) || (after_bearer && bare.len() >= SHORTEST_SECRET) {
            out.push_str(MARK);
            out.push_str(blank);
        } else {
            out.push_str(word);
        }
        after_bearer = bare
            .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
            .eq_ignore_ascii_case("bearer");
    }
    out
}

fn looks_like_token(word: &str) -> bool {
    let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let core = core.rsplit(['=', ':', '"', '\'']).next().unwrap_or(core);
    [
        "sk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "AIza",
        "eyJ",
    ]
    .iter()
    .any(|start| core.starts_with(start) && core.len() >= 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_environment_headers_and_tokens_are_taken_out() {
        let redactor = Redactor::new([
            ("LOCAL_KEY".to_owned(), "hunter22".to_owned()),
            ("PATH".to_owned(), "/usr/bin".to_owned()),
            ("SSH_AUTH_SOCK".to_owned(), "/tmp/agent".to_owned()),
        ]);
        let text = "key=hunter22 in /usr/bin and /tmp/agent\nAuthorization: Bearer abc\nuse Bearer abcdefghi now\nsk-0123456789abcdef";
        let redacted = redactor.redact(text);
        assert_eq!(
            redacted,
            "key=[redacted] in /usr/bin and /tmp/agent\nAuthorization: [redacted]\nuse Bearer [redacted] now\n[redacted]"
        );
    }
}
