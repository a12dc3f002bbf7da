//! Server-sent events: bytes in any split become the data of events (WHATWG HTML, section 9.2.6).
//!
//! Only `data` matters here: opencode gives its events neither names nor ids. Lines end with LF, CR or CRLF; comments and
//! unknown fields are skipped; an event that the stream cuts is none. Holds at most its limit.

use crate::rpc::frames::{RAW_LIMIT, cut, is_crowded};

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// Its data.
    Data(Vec<u8>),
    /// One beyond the limit or of too many values, of which only the beginning is known.
    Oversized {
        /// Bytes of its lines.
        bytes: u64,
        /// The beginning of its data.
        raw: String,
    },
}

/// Cuts bytes into events.
#[derive(Debug, Clone)]
pub(super) struct Events {
    limit: usize,
    /// The line that is not whole yet.
    line: Vec<u8>,
    /// The data of the event so far, and whether it has any.
    data: Vec<u8>,
    has_data: bool,
    /// Bytes of an event that is being skipped.
    skipped: Option<u64>,
    /// The last byte was a carriage return: a line feed after it ends no other line.
    after_cr: bool,
    /// Nothing was read yet: a byte order mark may come.
    fresh: bool,
}

impl Events {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            skipped: None,
            after_cr: false,
            fresh: true,
        }
    }

    /// Bytes held at the moment.
    pub(super) fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Takes bytes as they come and gives the events that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Frame>) {
        loop {
            if self.after_cr && !bytes.is_empty() {
                self.after_cr = false;
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            let Some(end) = bytes
                .iter()
                .position(|&byte| byte == b'\n' || byte == b'\r')
            else {
                break;
            };
            let (line, rest) = bytes.split_at(end);
            self.after_cr = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            if self.skipped.is_none() && self.line.is_empty() && line.len() <= self.limit {
                self.end_line(line, out);
            } else {
                self.add(line);
                let whole = std::mem::take(&mut self.line);
                self.end_line(&whole, out);
                self.line = whole;
                self.line.clear();
                // A usual line is small: its buffer is kept, but not one that a large line has grown.
                self.line.shrink_to(64 * 1024);
            }
        }
        self.add(bytes);
    }

    /// Adds a part of a line.
    fn add(&mut self, part: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            *skipped += part.len() as u64;
            // What matters of a skipped line is only whether it is empty.
            if self.line.is_empty() {
                self.line.extend(part.first());
            }
        } else if self.held() + part.len() > self.limit {
            self.skip(part);
        } else {
            self.line.extend_from_slice(part);
        }
    }

    /// Gives up an event that has grown beyond the limit; its beginning is kept.
    fn skip(&mut self, part: &[u8]) {
        self.skipped = Some((self.held() + part.len()) as u64);
        if !self.has_data {
            self.line.extend(part.iter().take(RAW_LIMIT));
            self.data = value_of(&self.line).map_or_else(Vec::new, <[u8]>::to_vec);
        }
        self.data.truncate(RAW_LIMIT);
        self.data.shrink_to(RAW_LIMIT);
        self.line.truncate(1);
        self.line.shrink_to(RAW_LIMIT);
    }

    fn end_line(&mut self, line: &[u8], out: &mut Vec<Frame>) {
        let line = match std::mem::replace(&mut self.fresh, false) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            self.end_event(out);
        } else if self.skipped.is_none()
            && let Some(value) = value_of(line)
        {
            if self.data.len() + value.len() + 1 > self.limit {
                self.skip(line);
                return;
            }
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
    }

    fn end_event(&mut self, out: &mut Vec<Frame>) {
        let data = std::mem::take(&mut self.data);
        let has_data = std::mem::replace(&mut self.has_data, false);
        match self.skipped.take() {
            Some(bytes) => out.push(Frame::Oversized {
                bytes,
                raw: cut(&String::from_utf8_lossy(&data), RAW_LIMIT),
            }),
            None if is_crowded(&data) => out.push(Frame::Oversized {
                bytes: data.len() as u64,
                raw: cut(&String::from_utf8_lossy(&data[..RAW_LIMIT]), RAW_LIMIT),
            }),
            None if has_data => out.push(Frame::Data(data)),
            None => {}
        }
    }
}

/// The value of a `data` line.
fn value_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[&[u8]]) -> Vec<Frame> {
        let mut events = Events::new(4096);
        let mut out = Vec::new();
        for part in parts {
            events.push(part, &mut out);
        }
        out
    }

    fn data(text: &str) -> Frame {
        Frame::Data(text.as_bytes().to_vec())
    }

    #[test]
    fn an_event_split_anywhere_is_the_same_event_whatever_its_lines_end_with() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!(
                "\u{feff}: a comment{end}data: {{\"é\":1}}{end}{end}event: x{end}id: 3{end}data:two{end}data: three{end}{end}data{end}{end}datas: no{end}{end}"
            );
            let bytes = text.as_bytes();
            let whole = read(&[bytes]);
            assert_eq!(
                whole,
                [data("{\"é\":1}"), data("two\nthree"), data("")],
                "{end:?}"
            );
            for at in 0..bytes.len() {
                let split = read(&[&bytes[..at], &bytes[at..]]);
                assert_eq!(split, whole, "{end:?} split at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(&single), whole);
        }
    }

    #[test]
    fn an_event_that_the_stream_cuts_is_none() {
        assert_eq!(read(&[b"data: whole\n\ndata: half\n"]), [data("whole")]);
    }

    #[test]
    fn an_event_beyond_the_limit_is_skipped_with_its_length_and_the_next_is_read() {
        // One long line, in pieces and at once, and many short ones.
        let long = [b"data: ".as_slice(), &[b'x'; 100_000], b"\n\n"].concat();
        let many = [b"data: yyyyyyyy\n".repeat(1000), b"\n".to_vec()].concat();
        for bytes in [&long, &many] {
            for length in [7, 1000, 200_000] {
                let mut events = Events::new(4096);
                let mut out = Vec::new();
                for piece in bytes.chunks(length) {
                    events.push(piece, &mut out);
                    assert!(events.held() <= 4096 + RAW_LIMIT, "{}", events.held());
                }
                events.push(b"data: next\n\n", &mut out);
                let [Frame::Oversized { bytes, raw }, next] = &out[..] else {
                    panic!("{length}: {} frames", out.len())
                };
                assert!(*bytes > 4096 && raw.len() <= RAW_LIMIT && !raw.is_empty());
                assert_eq!(*next, data("next"));
            }
        }
    }
}
