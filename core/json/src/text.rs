//! The text of a value that another reader than this crate's has.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::{borrow::Cow, fmt};

/// Writes the text of what is read: fields in their order, and as often as they stand there.
pub(crate) struct Writing<'a>(pub(crate) &'a mut String);

impl Writing<'_> {
    fn leaf<E: de::Error>(self, value: impl Into<serde_json::Value>) -> Result<(), E> {
        self.0.push_str(&value.into().to_string());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Writing<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writing<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.leaf(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.leaf(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.leaf(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.leaf(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.leaf(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.leaf(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.push('[');
        let mut between = "";
        loop {
            let before = self.0.len();
            self.0.push_str(between);
            if items.next_element_seed(Writing(self.0))?.is_none() {
                self.0.truncate(before);
                self.0.push(']');
                return Ok(());
            }
            between = ",";
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.0.push('{');
        let mut between = "";
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            self.0.push_str(between);
            Writing(self.0).leaf::<A::Error>(key.into_owned())?;
            self.0.push(':');
            fields.next_value_seed(Writing(self.0))?;
            between = ",";
        }
        self.0.push('}');
        Ok(())
    }
}
