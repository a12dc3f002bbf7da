//! What a shape asks of whoever reads it, by names that the [`Reader`](crate::reader::Reader) knows and others pass on.

use crate::text::Writing;
use serde::de::{
    self, DeserializeSeed as _, Deserializer, EnumAccess, Visitor, value::EnumAccessDeserializer,
};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// Begins the name by which a tagged enum is asked for; tag and, where there is one, content follow, with a space between.
pub(crate) const TAGGED: &str = "$tagged ";
/// The name by which a value's text is asked for.
pub(crate) const RAW: &str = "$raw";
/// The field that stands for all fields of the object again.
pub(crate) const FLATTEN: &str = "$flatten";

/// An enum that stands as an object with a tag. Derived by [`Tagged`](crate::Tagged).
pub trait Shape: Sized {
    /// `$tagged `, the tag's name, a space, and the name of the field that holds the content, if one does.
    const LAYOUT: &'static str;

    /// Reads it as an enum that stands beside its tag.
    ///
    /// # Errors
    /// What the value has not.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// Reads a tagged enum. Other readers than this crate's are asked for the value, which is then read from its text.
///
/// # Errors
/// What is not a value of the enum.
pub fn tagged<'de, T: Shape, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    struct Tagged<T>(PhantomData<T>);
    impl<'de, T: Shape> Visitor<'de> for Tagged<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with a tag")
        }
        fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<T, A::Error> {
            T::read(EnumAccessDeserializer::new(access))
        }
        fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
            let text = text_of(from)?;
            let mut reader = crate::reader::Reader::new(&text);
            tagged(&mut reader).map_err(de::Error::custom)
        }
    }
    from.deserialize_newtype_struct(T::LAYOUT, Tagged(PhantomData))
}

/// The text of the value that comes next, whatever it is.
///
/// # Errors
/// What is no JSON.
pub fn raw<'de, D: Deserializer<'de>>(from: D) -> Result<Cow<'de, str>, D::Error> {
    struct Raw;
    impl<'de> Visitor<'de> for Raw {
        type Value = Cow<'de, str>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }
        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }
        fn visit_newtype_struct<D: Deserializer<'de>>(
            self,
            from: D,
        ) -> Result<Self::Value, D::Error> {
            text_of(from).map(Cow::Owned)
        }
    }
    from.deserialize_newtype_struct(RAW, Raw)
}

fn text_of<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let mut text = String::new();
    Writing(&mut text).deserialize(from)?;
    Ok(text)
}
