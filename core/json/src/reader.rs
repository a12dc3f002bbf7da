//! The reader: a place in a text, and what stands there.

use crate::{
    Error,
    access::{Fields, Items, Layout, Variant},
    shape::{FLATTEN, RAW, TAGGED},
};
use serde::{
    Deserialize,
    de::{Deserializer, Error as _, Unexpected, Visitor},
    forward_to_deserialize_any,
};
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
    fn broken(&self, problem: &'static str) -> Error {
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

    /// Goes past what is left of an object that has been entered and has had a field.
    pub(crate) fn rest_of_object(&mut self) -> Result<(), Error> {
        while self.key(&mut false)?.is_some() {
            self.skip()?;
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
    fn number(&mut self) -> Result<&'de str, Error> {
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
                    self.escape()?;
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

    /// That what is here, if it is JSON, is not what was asked for.
    #[cold]
    pub(crate) fn unexpected(&mut self, wanted: &'static str) -> Error {
        let mut there = *self;
        let found = match self.peek() {
            Some(b'{') => Unexpected::Map,
            Some(b'[') => Unexpected::Seq,
            Some(b'n') => Unexpected::Unit,
            Some(b't') => Unexpected::Bool(true),
            Some(b'f') => Unexpected::Bool(false),
            Some(b'"') => Unexpected::Other("string"),
            Some(b'-' | b'0'..=b'9') => Unexpected::Other("number"),
            _ => return self.broken("expected value"),
        };
        match there.skip() {
            Ok(()) => Error::invalid_type(found, &wanted),
            Err(broken) => broken,
        }
    }

    fn array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.enter()?;
        let value = visitor.visit_seq(Items::new(self))?;
        self.leave(b']', "trailing characters in a list")?;
        Ok(value)
    }

    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let Some(b'-' | b'0'..=b'9') = self.peek() else {
            return Err(self.unexpected("an integer"));
        };
        let written = self.number()?;
        if let Ok(number) = written.parse() {
            visitor.visit_u64(number)
        } else if let Some(number) = negative(written) {
            visitor.visit_i64(number)
        } else {
            let found = Unexpected::Other("number outside of what fits");
            Err(Error::invalid_type(found, &"an integer"))
        }
    }

    pub(crate) fn object<V: Visitor<'de>>(
        &mut self,
        layout: Layout,
        fields: &[&str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.peek() != Some(b'{') {
            return Err(self.unexpected("an object"));
        }
        let whole = Self {
            among: true,
            ..*self
        };
        let whole = fields.contains(&FLATTEN).then_some(whole);
        self.enter()?;
        let value = visitor.visit_map(Fields::new(self, layout, whole))?;
        self.leave(b'}', "trailing characters in an object")?;
        Ok(value)
    }
}

/// An integer below nothing; `-0` is none, it is a fraction that happens to be one.
fn negative(written: &str) -> Option<i64> {
    written.parse().ok().filter(|&number| number != 0)
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'{') => self.object(Layout::Plain, &[], visitor),
            Some(b'[') => self.array(visitor),
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_unit()),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'-' | b'0'..=b'9') => {
                let written = self.number()?;
                if let Ok(number) = written.parse() {
                    visitor.visit_u64(number)
                } else if let Some(number) = negative(written) {
                    visitor.visit_i64(number)
                } else {
                    let number: serde_json::Number = serde_json::from_str(written)?;
                    number.deserialize_any(visitor)
                }
            }
            _ => Err(self.broken("expected value")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b't') => self.word("true").and_then(|()| visitor.visit_bool(true)),
            Some(b'f') => self.word("false").and_then(|()| visitor.visit_bool(false)),
            _ => Err(self.unexpected("a boolean")),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.string()? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_unit()),
            _ => Err(self.unexpected("null")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(names) = name.strip_prefix(TAGGED) {
            let (tag, content) = names.split_once(' ').unwrap_or((names, ""));
            self.peek();
            return visitor.visit_enum(Variant::tagged(self, tag, content)?);
        }
        if name == RAW {
            self.peek();
            let start = self.at;
            self.skip()?;
            return visitor.visit_borrowed_str(self.slice(start));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'[') => self.array(visitor),
            _ => Err(self.unexpected("an array")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.object(Layout::Plain, &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.object(Layout::Plain, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.among {
            return visitor.visit_enum(Variant::among(self, names)?);
        }
        match self.peek() {
            Some(b'"') => visitor.visit_enum(Variant::word(self)?),
            Some(b'{') => {
                self.enter()?;
                let value = visitor.visit_enum(Variant::keyed(self)?)?;
                self.leave(b'}', "expected `}`")?;
                Ok(value)
            }
            _ => Err(self.unexpected("string or map")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { i8 i16 i128 u128 f32 f64 bytes byte_buf }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }
}
