//! What serde asks of a place in a text.

use crate::{
    Error,
    access::{Fields, Items, Layout, Variant},
    reader::Reader,
    shape::{FLATTEN, RAW, TAGGED},
};
use serde::{
    de::{Deserializer, Error as _, Unexpected, Visitor},
    forward_to_deserialize_any,
};
use std::borrow::Cow;

impl<'de> Reader<'de> {
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
        let whole = fields.contains(&FLATTEN).then(|| self.again());
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
                    let number: serde_json::Number = serde_json::from_str(written)
                        .map_err(|_| Error::custom("number out of range"))?;
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
            return visitor.visit_borrowed_str(self.raw()?);
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
        if self.among() {
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
