//! The reader: a place in a text, and what stands there.

use crate::Error;
use serde::{Deserialize, de::Error as _};
use std::borrow::Cow;

/// How deep arrays and objects may lie in each other: serde_json's bound, which our own shapes come nowhere near.
pub const DEPTH: usize = 127;

/// Reads a value from a text that holds it and nothing else.
///
/// # Errors
/// What is no JSON, nests deeper than [`DEPTH`], or is not of this type; with line and column where reading stopped.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let mut reader = Reader::new(text);
    let read = T::deserialize(&mut reader);
    read.and_then(|value| reader.end().map(|()| value))
        .map_err(|error| reader.placed(&error))
}

/// A place in a text. A copy reads on from the same place by itself.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: usize,
    /// What is read next stands among the fields of an object that has others too.
    among: bool,
}

impl<'de> Reader<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            among: false,
        }
    }

    fn bytes(&self) -> &'de [u8] {
        self.text.as_bytes()
    }

    /// The next byte that means something.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    pub(crate) fn expect(&mut self, byte: u8, problem: &'static str) -> Result<(), Error> {
        if self.peek() != Some(byte) {
            return Err(self.broken(problem));
        }
        self.at += 1;
        Ok(())
    }

    /// What is wrong here, or that the text ends here.
    #[cold]
    pub(crate) fn broken(&self, problem: &'static str) -> Error {
        if self.at >= self.text.len() {
            return Error::custom("EOF while parsing a value");
        }
        Error::custom(problem)
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Error::custom("trailing characters")),
        }
    }

    /// The error with the place that has been reached, unless it names one.
    #[cold]
    fn placed(&self, error: &Error) -> Error {
        if error.line() > 0 {
            return Error::custom(error);
        }
        let read = self.bytes().get(..self.at).unwrap_or_default();
        let line = 1 + read.iter().filter(|&&byte| byte == b'\n').count();
        let column = read.iter().rev().take_while(|&&byte| byte != b'\n').count();
        Error::custom(format_args!("{error} at line {line} column {column}"))
    }

    /// The same place, for a value that shares its object with others.
    pub(crate) fn again(&self) -> Self {
        Self {
            among: true,
            ..*self
        }
    }

    /// Whether what is read next shares its object with others.
    pub(crate) fn among(&self) -> bool {
        self.among
    }

    /// Goes into an array or object.
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        self.at += 1;
        self.depth += 1;
        self.among = false;
        if self.depth > DEPTH {
            return Err(Error::custom("recursion limit exceeded"));
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self, byte: u8, problem: &'static str) -> Result<(), Error> {
        self.depth -= 1;
        self.expect(byte, problem)
    }

    /// Whether another value or field follows; stands at it then, and at the closing byte otherwise.
    pub(crate) fn another(&mut self, first: &mut bool, closing: u8) -> Result<bool, Error> {
        if self.peek() == Some(closing) {
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.expect(b',', "expected `,` or the end of a list")?;
            if self.peek() == Some(closing) {
                return Err(Error::custom("trailing comma"));
            }
        }
        Ok(true)
    }

    /// The next field's name; stands at its value then.
    pub(crate) fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'de, str>>, Error> {
        if !self.another(first, b'}')? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.broken("key must be a string"));
        }
        let key = self.string()?;
        self.expect(b':', "expected `:`")?;
        Ok(Some(key))
    }

    /// Stands at this field's value, if the object that is here has one.
    pub(crate) fn find(&mut self, name: &str) -> Result<bool, Error> {
        if self.peek() != Some(b'{') {
            return Err(self.unexpected("an object"));
        }
        self.enter()?;
        let mut first = true;
        while let Some(key) = self.key(&mut first)? {
            if key == name {
                return Ok(true);
            }
            self.skip()?;
        }
        Ok(false)
    }

    /// Goes past the value of a tag. A tag that stands there twice says two things.
    pub(crate) fn pass(&mut self, tag: &'static str, seen: &mut bool) -> Result<(), Error> {
        if std::mem::replace(seen, true) {
            return Err(Error::duplicate_field(tag));
        }
        self.skip()
    }

    /// Goes past the object that is here and has this tag.
    pub(crate) fn skip_tagged(&mut self, tag: &'static str) -> Result<(), Error> {
        self.enter()?;
        let (mut first, mut seen) = (true, false);
        while let Some(key) = self.key(&mut first)? {
            if key == tag {
                self.pass(tag, &mut seen)?;
            } else {
                self.skip()?;
            }
        }
        self.leave(b'}', "expected `}`")
    }

    /// The string that is here.
    pub(crate) fn string(&mut self) -> Result<Cow<'de, str>, Error> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a string"));
        }
        self.at += 1;
        let start = self.at;
        self.plain()?;
        if self.bytes().get(self.at) == Some(&b'"') {
            let text = self.slice(start);
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        let mut text = String::from(self.slice(start));
        loop {
            self.at += 1;
            text.push(self.escape()?);
            let start = self.at;
            self.plain()?;
            text.push_str(self.slice(start));
            if self.bytes().get(self.at) == Some(&b'"') {
                self.at += 1;
                return Ok(Cow::Owned(text));
            }
        }
    }

    /// Both ends lie beside ASCII, so they are those of characters.
    fn slice(&self, start: usize) -> &'de str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Goes on to the quote or backslash that ends this part of a string.
    fn plain(&mut self) -> Result<(), Error> {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20);
        self.at += length.unwrap_or(rest.len());
        match self.bytes().get(self.at) {
            Some(b'"' | b'\\') => Ok(()),
            Some(_) => Err(Error::custom(
                "control character (\\u0000-\\u001F) found while parsing a string",
            )),
            None => Err(Error::custom("EOF while parsing a string")),
        }
    }

    /// What a backslash, which has been read, stands for.
    #[cold]
    fn escape(&mut self) -> Result<char, Error> {
        let byte = self.bytes().get(self.at).copied();
        self.at += 1;
        Ok(match byte {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.unit()?;
                if !(0xD800..0xDC00).contains(&high) {
                    return char::from_u32(high)
                        .ok_or_else(|| Error::custom("lone trailing surrogate in hex escape"));
                }
                if self.bytes().get(self.at..self.at + 2) != Some(b"\\u") {
                    return Err(Error::custom("unexpected end of hex escape"));
                }
                self.at += 2;
                let low = self.unit()?;
                if !(0xDC00..0xE000).contains(&low) {
                    return Err(Error::custom("lone leading surrogate in hex escape"));
                }
                let both = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                char::from_u32(both).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            Some(_) => return Err(Error::custom("invalid escape")),
            None => return Err(Error::custom("EOF while parsing a string")),
        })
    }

    fn unit(&mut self) -> Result<u32, Error> {
        let digits = self.bytes().get(self.at..self.at + 4).unwrap_or_default();
        let mut unit = 0;
        for &digit in digits {
            let digit = char::from(digit).to_digit(16);
            unit = unit * 16 + digit.ok_or_else(|| Error::custom("invalid escape"))?;
        }
        self.at += digits.len();
        match digits.len() {
            4 => Ok(unit),
            _ => Err(Error::custom("EOF while parsing a string")),
        }
    }

    /// The number that is here, as it is written.
    pub(crate) fn number(&mut self) -> Result<&'de str, Error> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader
                .bytes()
                .get(reader.at)
                .is_some_and(u8::is_ascii_digit)
            {
                reader.at += 1;
            }
            reader.at > from
        };
        if self.bytes().get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let leading = self.at;
        let mut good = digits(self);
        good &= self.bytes().get(leading) != Some(&b'0') || self.at == leading + 1;
        if good && self.bytes().get(self.at) == Some(&b'.') {
            self.at += 1;
            good = digits(self);
        }
        if good && matches!(self.bytes().get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes().get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            good = digits(self);
        }
        if !good {
            return Err(self.broken("invalid number"));
        }
        Ok(self.slice(start))
    }

    pub(crate) fn word(&mut self, word: &'static str) -> Result<(), Error> {
        let found = self.bytes().get(self.at..).unwrap_or_default();
        if !found.starts_with(word.as_bytes()) {
            return Err(self.broken("expected ident"));
        }
        self.at += word.len();
        Ok(())
    }

    /// The text of the value that is here, whatever it is.
    pub(crate) fn raw(&mut self) -> Result<&'de str, Error> {
        self.peek();
        let start = self.at;
        self.skip()?;
        Ok(self.slice(start))
    }

    /// Goes past the value that is here, whatever it is.
    pub(crate) fn skip(&mut self) -> Result<(), Error> {
        let mut first = true;
        match self.peek() {
            Some(b'{') => {
                self.enter()?;
                while self.key(&mut first)?.is_some() {
                    self.skip()?;
                }
                self.leave(b'}', "expected `}`")
            }
            Some(b'[') => {
                self.enter()?;
                while self.another(&mut first, b']')? {
                    self.skip()?;
                }
                self.leave(b']', "expected `]`")
            }
            Some(b'"') => {
                self.at += 1;
                self.plain()?;
                while self.bytes().get(self.at) == Some(&b'\\') {
                    self.at += 1;
                    if self.bytes().get(self.at) == Some(&b'u') {
                        // Half of a pair is no text, but whoever asks for none takes it, as serde_json does.
                        self.at += 1;
                        self.unit()?;
                    } else {
                        self.escape()?;
                    }
                    self.plain()?;
                }
                self.at += 1;
                Ok(())
            }
            Some(b'n') => self.word("null"),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => Err(self.broken("expected value")),
        }
    }
}
