//! Lines and JSON: bytes in any split become frames; what cannot be read becomes a bounded remark.
//!
//! Owns the line buffer and the limits. Knows JSON-RPC's outer shape only (codex leaves the `jsonrpc` key out and adds
//! `emittedAtMs`), nothing of what methods mean.

use pilothouse_domain::{BlobHash, NativeId};
use serde::de::Error as _;
use serde_json::Value;

/// Bytes of one line from an agent; a longer one is not read, and reported.
pub const FRAME_LIMIT: usize = 16 * 1024 * 1024;
/// Bytes of a frame that are kept verbatim in an `Unknown` event.
pub const RAW_LIMIT: usize = 4 * 1024;
/// Bytes of a request that cannot be read which its person is shown.
pub(crate) const UNREADABLE: usize = 16 * 1024;
/// Values of one frame that are read: in memory a value takes much more than its two bytes.
const VALUES: usize = 1024 * 1024;
/// Bytes of an id; a longer one is told from others by its hash.
pub(crate) const ID: usize = 512;

/// One line from an agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    /// Something that happened.
    Notification {
        /// Its name.
        method: String,
        /// What it says; `Null` if it says nothing.
        params: Value,
    },
    /// Something it asks of us. The id is the agent's: it may be `0` and may equal one of ours.
    Request {
        /// As the agent wrote it, a number or a string.
        id: Value,
        /// Its name.
        method: String,
        /// What it says.
        params: Value,
    },
    /// The answer to a call of ours.
    Response {
        /// Our number; `None` if the agent named none of ours.
        id: Option<u64>,
        /// What it says.
        result: Result<Value, RpcError>,
    },
    /// A line that is no frame.
    Unreadable {
        /// Why, for a person.
        problem: String,
        /// Its beginning.
        raw: String,
    },
    /// A line beyond [`FRAME_LIMIT`] or of too many values, of which only the beginning is known.
    Oversized {
        /// Its length in bytes.
        bytes: u64,
        /// Its beginning.
        raw: String,
    },
}

/// An error reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// JSON-RPC's number; codex uses -32600 for nearly everything.
    pub(crate) code: i64,
    /// The agent's words.
    pub(crate) message: String,
    /// More of it, as the agent likes; `Null` if there is none.
    pub(crate) data: Value,
}

/// A line as it was cut out of the stream, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// All of it.
    Whole(&'l [u8]),
    /// One beyond the limit, or of more values than are read.
    TooLong {
        /// Its length.
        bytes: u64,
        /// Its first [`RAW_LIMIT`] bytes.
        start: &'l [u8],
    },
}

fn frame(line: Line<'_>) -> Frame {
    match line {
        Line::Whole(line) => parse(line),
        Line::TooLong { bytes, start } => Frame::Oversized {
            bytes,
            raw: cut(&String::from_utf8_lossy(start), RAW_LIMIT),
        },
    }
}

/// Cuts bytes into lines, holding at most [`FRAME_LIMIT`] of them.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Length of the line that is being skipped.
    skipped: Option<u64>,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            skipped: None,
            limit,
        }
    }

    /// Takes bytes as they come and gives the frames that they complete.
    /// Gives the bytes of those frames.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<Frame>) -> usize {
        self.split(bytes, &mut |line| out.push(frame(line)))
    }

    /// The last line, if the stream ended without a line feed.
    pub(crate) fn finish(&mut self, out: &mut Vec<Frame>) {
        self.rest(&mut |line| out.push(frame(line)));
    }

    /// Takes bytes as they come and gives the lines that they complete, for protocols that are not JSON-RPC. Blank lines are
    /// none. Gives the bytes of those lines.
    pub(crate) fn split(&mut self, mut bytes: &[u8], take: &mut impl FnMut(Line<'_>)) -> usize {
        let came = self.held() + bytes.len();
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.add(&bytes[..end]);
            self.end_line(take);
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
        came.saturating_sub(self.held())
    }

    /// The last line, if the stream ended without a line feed.
    pub(crate) fn rest(&mut self, take: &mut impl FnMut(Line<'_>)) {
        if !self.buffer.is_empty() || self.skipped.is_some() {
            self.end_line(take);
        }
    }

    /// Bytes held at the moment.
    pub(crate) fn held(&self) -> usize {
        self.buffer.len()
    }

    fn add(&mut self, part: &[u8]) {
        if let Some(length) = &mut self.skipped {
            *length += part.len() as u64;
        } else if self.buffer.len() + part.len() > self.limit {
            let length = (self.buffer.len() + part.len()) as u64;
            let room = RAW_LIMIT.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&part[..room.min(part.len())]);
            self.buffer.truncate(RAW_LIMIT);
            self.buffer.shrink_to(RAW_LIMIT);
            self.skipped = Some(length);
        } else {
            if self.buffer.capacity() < self.buffer.len() + part.len() {
                // It grows by doubling, but not beyond what it may hold.
                let room = (2 * self.buffer.len()).clamp(part.len(), self.limit);
                self.buffer
                    .reserve_exact(room.max(self.buffer.len() + part.len()) - self.buffer.len());
            }
            self.buffer.extend_from_slice(part);
        }
    }

    fn end_line(&mut self, take: &mut impl FnMut(Line<'_>)) {
        let line = std::mem::take(&mut self.buffer);
        if let Some(bytes) = self.skipped.take() {
            take(Line::TooLong {
                bytes,
                start: &line,
            });
        } else if is_crowded(&line) {
            take(Line::TooLong {
                bytes: line.len() as u64,
                start: &line[..RAW_LIMIT],
            });
        } else if !line.iter().all(u8::is_ascii_whitespace) {
            take(Line::Whole(&line));
        }
        // A usual frame is small: keep its buffer, but not one that a large frame has grown.
        if line.capacity() <= 64 * 1024 {
            self.buffer = line;
            self.buffer.clear();
        }
    }
}

/// What is told of a frame that was too large to be read.
pub(crate) fn too_large(bytes: u64) -> String {
    format!("frame of at least {bytes} bytes (at most {FRAME_LIMIT} are read, and {VALUES} values)")
}

/// The first bytes of a text, cut at a character.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

/// Reads JSON. Only a half of a surrogate pair is mended; any other error stands.
pub(crate) fn json(text: &str) -> Result<Value, serde_json::Error> {
    if is_crowded(text.as_bytes()) {
        return Err(serde_json::Error::custom(format!(
            "it holds more than {VALUES} values"
        )));
    }
    json_of_line(text)
}

/// As [`json`], of what came through [`Lines`] or the like, which has looked how many values it holds.
pub(crate) fn json_of_line(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Value>(text).or_else(|error| match replace_lone_surrogates(text) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// Whether JSON holds more values than are read. Only a long text can.
pub(crate) fn is_crowded(text: &[u8]) -> bool {
    if text.len() <= 2 * VALUES {
        return false;
    }
    let (mut marks, mut quoted, mut escaped) = (0, false, false);
    for &byte in text {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            // Before each value stands one of these.
            (false, b',' | b':' | b'[' | b'{') => marks += 1,
            _ => {}
        }
    }
    marks > VALUES
}

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Frame {
    let text = String::from_utf8_lossy(line);
    let value = json_of_line(&text);
    let unreadable = |problem: String| Frame::Unreadable {
        problem,
        raw: cut(&text, RAW_LIMIT),
    };
    let mut object = match value {
        Ok(Value::Object(object)) => object,
        Ok(_) => return unreadable("not a JSON object".to_owned()),
        Err(error) => return unreadable(format!("not JSON: {error}")),
    };
    let id = object.remove("id").filter(|id| !id.is_null());
    let method = match object.remove("method") {
        Some(Value::String(method)) => Some(method),
        Some(_) => return unreadable("its method is not a text".to_owned()),
        None => None,
    };
    match (method, id) {
        (Some(method), Some(id)) if id.is_number() || id.is_string() => Frame::Request {
            id,
            method,
            params: object.remove("params").unwrap_or(Value::Null),
        },
        (Some(_), Some(_)) => unreadable("its id is neither a number nor a text".to_owned()),
        (Some(method), None) => Frame::Notification {
            method,
            params: object.remove("params").unwrap_or(Value::Null),
        },
        (None, id) => {
            let id = id.and_then(|id| id.as_u64());
            if let Some(mut error) = object.remove("error").filter(|error| !error.is_null()) {
                return Frame::Response {
                    id,
                    result: Err(RpcError {
                        code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
                        message: text_of(&error, "message").unwrap_or_else(|| error.to_string()),
                        data: error.get_mut("data").map(Value::take).unwrap_or_default(),
                    }),
                };
            }
            match object.remove("result") {
                Some(result) => Frame::Response {
                    id,
                    result: Ok(result),
                },
                None => unreadable("neither a method nor a result nor an error".to_owned()),
            }
        }
    }
}

/// What the beginning of a frame tells that was too large to be read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Head {
    /// Its id, if that stands before anything long.
    pub(crate) id: Option<Value>,
    /// Its method, if that stands before anything long.
    pub(crate) method: Option<String>,
}

/// Reads what the beginning of a frame of JSON-RPC tells.
pub(crate) fn head(raw: &str) -> Head {
    let mut head = Head::default();
    for (name, value) in scalars(raw) {
        match (name.as_str(), value) {
            ("id", id) => head.id = Some(id).filter(|id| !id.is_null()),
            ("method", Value::String(method)) => head.method = Some(method),
            _ => {}
        }
    }
    head
}

/// The scalars with which an object begins, in its order, up to the first field that is none or is cut.
pub(crate) fn scalars(raw: &str) -> impl Iterator<Item = (String, Value)> {
    let mut rest = raw.trim_start().strip_prefix('{');
    std::iter::from_fn(move || {
        let fields = rest.take()?;
        let mut key = serde_json::Deserializer::from_str(fields).into_iter::<String>();
        let name = key.next()?.ok()?;
        let value = fields[key.byte_offset()..].trim_start().strip_prefix(':')?;
        let value = value.trim_start();
        if value.starts_with(['{', '[']) {
            return None;
        }
        let mut scalar = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        let found = scalar.next()?.ok()?;
        rest = value[scalar.byte_offset()..].trim_start().strip_prefix(',');
        Some((name, found))
    })
}

/// Replaces `\uD8xx` and `\uDCxx` that have no partner by `\uFFFD`; `None` if there are none.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        if bytes.get(at) == Some(&b'\\') && bytes.get(at + 1) == Some(&b'u') {
            u16::from_str_radix(text.get(at + 2..at + 6)?, 16).ok()
        } else {
            None
        }
    };
    let mut mended = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(&text[copied..at]);
                mended.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            Some(_) => at += 6,
            // An escaped backslash or any other escape: its second byte begins nothing.
            None => at += 2,
        }
    }
    if copied == 0 {
        return None;
    }
    mended.push_str(&text[copied..]);
    Some(mended)
}

/// A text field.
pub(crate) fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// An id, told from every other one however long it is.
pub(crate) fn id_of(value: &Value, key: &str) -> Option<NativeId> {
    value.get(key).and_then(Value::as_str).map(bounded_id)
}

/// As [`id_of`], of a text.
pub(crate) fn bounded_id(id: &str) -> NativeId {
    if id.len() <= ID {
        return NativeId::from(id);
    }
    // It stands in the log, so the hash is one that stays.
    let hash = BlobHash::of(id.as_bytes()).to_string();
    NativeId(format!("{}…{hash}", cut(id, ID - "…".len() - hash.len())))
}

/// A text field, empty if it is missing or no text.
pub(crate) fn text_or_empty(value: &Value, key: &str) -> String {
    text_of(value, key).unwrap_or_default()
}

/// The elements of a list field; none if it is missing or no list.
pub(crate) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The texts of a list field.
pub(crate) fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key)
        .iter()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Whether an object has a field that is neither known nor null.
pub(crate) fn has_unknown(value: &Value, known: &[&[&str]]) -> bool {
    value.as_object().is_some_and(|object| {
        object.iter().any(|(key, value)| {
            !value.is_null() && !known.iter().any(|list| list.contains(&&**key))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(parts: &[&[u8]]) -> Vec<Frame> {
        let mut lines = Lines::new(FRAME_LIMIT);
        let mut out = Vec::new();
        for part in parts {
            lines.push(part, &mut out);
        }
        lines.finish(&mut out);
        out
    }

    #[test]
    fn a_frame_split_anywhere_is_the_same_frame() {
        let line = "{\"id\":0,\"method\":\"x\",\"params\":{\"t\":\"é\"}}\n".as_bytes();
        let whole = frames(&[line]);
        for at in 0..line.len() {
            assert_eq!(frames(&[&line[..at], &line[at..]]), whole, "split at {at}");
        }
        assert!(matches!(&whole[..], [Frame::Request { id, .. }] if id == &serde_json::json!(0)));
    }

    #[test]
    fn a_line_beyond_the_limit_is_skipped_with_its_length_and_the_next_is_read() {
        let mut lines = Lines::new(10_000);
        let mut out = Vec::new();
        for _ in 0..1000 {
            lines.push(&[b'x'; 100], &mut out);
            assert!(lines.held() <= 10_000);
        }
        lines.push(b"\n{\"method\":\"m\"}\n", &mut out);
        assert!(
            matches!(&out[0], Frame::Oversized { bytes: 100_000, raw } if raw.len() == RAW_LIMIT)
        );
        assert!(matches!(&out[1], Frame::Notification { method, .. } if method == "m"));
    }

    #[test]
    fn the_beginning_of_a_frame_tells_what_it_is_whatever_the_order_of_its_keys() {
        let id = |raw: &str| head(raw).id;
        let method = |raw: &str| head(raw).method;
        let asked = r#"{"jsonrpc": "2.0", "id": 0, "method": "a/b", "params": {"x": "yyyy"#;
        assert_eq!(
            (id(asked), method(asked)),
            (Some(0.into()), Some("a/b".into()))
        );
        let asked = r#"{"method":"a","emittedAtMs":1,"id":"k","params":["#;
        assert_eq!(
            (id(asked), method(asked)),
            (Some("k".into()), Some("a".into()))
        );
        let answered = r#"{"id":7,"result":{"x"#;
        assert_eq!((id(answered), method(answered)), (Some(7.into()), None));
        for nothing in [
            "",
            "[1",
            "{",
            "{\"id",
            "{\"id\":1",
            "xx",
            "{\"a\":{\"id\":3}}",
        ] {
            assert_eq!(method(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_long_id_is_the_same_in_every_version_and_differs_from_every_other() {
        let long = |end: &str| bounded_id(&format!("{}{end}", "x".repeat(ID)));
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a").as_str().len(), ID);
        let hash = BlobHash::of("x".repeat(ID + 1).as_bytes());
        assert!(long("x").as_str().ends_with(&format!("…{hash}")));
        assert_eq!(bounded_id("short").as_str(), "short");
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character_and_a_pair_stays() {
        let Frame::Notification { params, .. } =
            parse(br#"{"method":"m","params":{"t":"a\ud800b \uD83D\uDE00 \udc00 \\ud800"}}"#)
        else {
            panic!("not read");
        };
        assert_eq!(params["t"], "a\u{fffd}b 😀 \u{fffd} \\ud800");
    }

    #[test]
    fn deep_nesting_huge_numbers_and_other_nonsense_are_unreadable_not_fatal() {
        let deep = format!(
            "{{\"method\":\"m\",\"params\":{}{}}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        for line in [
            deep.as_str(),
            "{\"method\":\"m\",\"params\":1e999}",
            "[1]",
            "{}",
            "{\"method\":5}",
            "{\"method\":\"m\",\"id\":{}}",
            "\u{0}",
        ] {
            assert!(
                matches!(parse(line.as_bytes()), Frame::Unreadable { .. }),
                "{}",
                cut(line, 60)
            );
        }
        assert!(matches!(
            parse(b"{\"method\":\"m\xff\"}"),
            Frame::Notification { method, .. } if method == "m\u{fffd}"
        ));
    }
}
