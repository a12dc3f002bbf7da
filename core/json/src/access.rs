//! What serde's visitors are handed: lists, fields, and variants of enums.

use crate::{Error, reader::Reader, shape::FLATTEN};
use serde::{
    de::{
        DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess,
        Visitor,
    },
    forward_to_deserialize_any,
};
use std::{borrow::Cow, marker::PhantomData};

/// How an object holds what is read.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// Its fields are.
    Plain,
    /// Its fields are, but for the tag, and whether that has been passed.
    Tagged(&'static str, bool),
}

/// Values of an array.
pub(crate) struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
}

impl<'a, 'de> Items<'a, 'de> {
    pub(crate) fn new(reader: &'a mut Reader<'de>) -> Self {
        Self {
            reader,
            first: true,
        }
    }
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if !self.reader.another(&mut self.first, b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

/// Fields of an object, and where a field stands for all of them, the object again.
pub(crate) struct Fields<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
    layout: Layout,
    whole: Option<Reader<'de>>,
    again: Option<Reader<'de>>,
}

impl<'a, 'de> Fields<'a, 'de> {
    pub(crate) fn new(
        reader: &'a mut Reader<'de>,
        layout: Layout,
        whole: Option<Reader<'de>>,
    ) -> Self {
        Self {
            reader,
            first: true,
            layout,
            whole,
            again: None,
        }
    }

    fn next(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        while let Some(key) = self.reader.key(&mut self.first)? {
            match &mut self.layout {
                Layout::Tagged(tag, seen) if key == *tag => self.reader.pass(tag, seen)?,
                _ => return Ok(Some(key)),
            }
        }
        self.again = self.whole.take();
        Ok(self.again.as_ref().map(|_| Cow::Borrowed(FLATTEN)))
    }
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        match self.next()? {
            Some(key) => seed.deserialize(Word(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match &mut self.again {
            Some(again) => seed.deserialize(again),
            None => seed.deserialize(&mut *self.reader),
        }
    }
}

/// A field's or variant's name.
struct Word<'de>(Cow<'de, str>);

impl<'de> Deserializer<'de> for Word<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(&self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(serde::de::value::CowStrDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct ignored_any
    }
}

/// A variant of an enum: its name, and where the rest of it is.
pub(crate) struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
    name: Cow<'de, str>,
    rest: Rest,
}

enum Rest {
    /// There is none.
    Nothing,
    /// The value that comes next.
    Next,
    /// The object's fields, but for this one, the tag.
    Fields(&'static str),
    /// The object's field that holds the content, beside its tag.
    Field {
        tag: &'static str,
        content: &'static str,
    },
}

impl<'a, 'de> Variant<'a, 'de> {
    /// A name alone.
    pub(crate) fn word(reader: &'a mut Reader<'de>) -> Result<Self, Error> {
        Ok(Self {
            name: reader.string()?,
            rest: Rest::Nothing,
            reader,
        })
    }

    /// A name with its value: the only field of an object that has been entered.
    pub(crate) fn keyed(reader: &'a mut Reader<'de>) -> Result<Self, Error> {
        match reader.key(&mut true)? {
            Some(name) => Ok(Self {
                name,
                rest: Rest::Next,
                reader,
            }),
            None => Err(Error::custom("expected the name of a variant")),
        }
    }

    /// A name with its value, among other fields of an object that is read for nothing else.
    pub(crate) fn among(reader: &'a mut Reader<'de>, names: &[&str]) -> Result<Self, Error> {
        reader.enter()?;
        let mut first = true;
        while let Some(name) = reader.key(&mut first)? {
            if names.contains(&&*name) {
                return Ok(Self {
                    name,
                    rest: Rest::Next,
                    reader,
                });
            }
            reader.skip()?;
        }
        Err(Error::custom(format_args!(
            "no variant of {names:?} found in flattened data"
        )))
    }

    /// An object with a tag, which is looked up ahead.
    pub(crate) fn tagged(
        reader: &'a mut Reader<'de>,
        tag: &'static str,
        content: &'static str,
    ) -> Result<Self, Error> {
        let mut ahead = *reader;
        if !ahead.find(tag)? {
            return Err(Error::missing_field(tag));
        }
        Ok(Self {
            name: ahead.string()?,
            rest: match content {
                "" => Rest::Fields(tag),
                content => Rest::Field { tag, content },
            },
            reader,
        })
    }

    /// Reads the one field that holds the content, if it is there, and goes past the others.
    fn content<S: DeserializeSeed<'de>>(
        self,
        tag: &'static str,
        content: &'static str,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.reader.enter()?;
        let (mut first, mut tagged) = (true, false);
        let (mut seed, mut value) = (Some(seed), None);
        while let Some(key) = self.reader.key(&mut first)? {
            if key == content {
                let seed = seed.take().ok_or_else(|| Error::duplicate_field(content))?;
                value = Some(seed.deserialize(&mut *self.reader)?);
            } else if key == tag {
                self.reader.pass(tag, &mut tagged)?;
            } else {
                self.reader.skip()?;
            }
        }
        self.reader.leave(b'}', "expected `}`")?;
        Ok(value)
    }
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Error> {
        let Self { reader, name, rest } = self;
        let value = seed.deserialize(Word(name))?;
        let name = Cow::Borrowed("");
        Ok((value, Self { reader, name, rest }))
    }
}

/// The content of a variant with fields.
struct Content<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Content<(&'static [&'static str], V)> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let (fields, visitor) = self.0;
        from.deserialize_struct("", fields, visitor)
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.rest {
            Rest::Nothing => Ok(()),
            Rest::Next => serde::Deserialize::deserialize(self.reader),
            Rest::Fields(tag) => self.reader.skip_tagged(tag),
            Rest::Field { tag, content } => self
                .content(tag, content, PhantomData::<()>)
                .map(Option::unwrap_or_default),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        match self.rest {
            Rest::Nothing => Err(Error::custom("the variant lacks its value")),
            Rest::Next => seed.deserialize(self.reader),
            Rest::Fields(tag) => {
                // The value passes over the tag as a field that it does not know, however often that stands there.
                let mut ahead = *self.reader;
                ahead.skip_tagged(tag)?;
                seed.deserialize(self.reader)
            }
            Rest::Field { tag, content } => self
                .content(tag, content, seed)?
                .ok_or_else(|| Error::missing_field(content)),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        match self.rest {
            Rest::Next => self.reader.deserialize_seq(visitor),
            _ => Err(Error::custom(
                "a variant with values without names is no object",
            )),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.rest {
            Rest::Nothing => Err(Error::custom("the variant lacks its fields")),
            Rest::Next => self.reader.object(Layout::Plain, fields, visitor),
            Rest::Fields(tag) => {
                let layout = Layout::Tagged(tag, false);
                self.reader.object(layout, fields, visitor)
            }
            Rest::Field { tag, content } => self
                .content(tag, content, Content((fields, visitor)))?
                .ok_or_else(|| Error::missing_field(content)),
        }
    }
}
