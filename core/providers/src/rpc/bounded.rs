//! A map of native ids that cannot grow without bound.

use super::budget::{self, Excess};
use pilothouse_domain::NativeId;
use std::collections::{BTreeMap, VecDeque};

/// A map that forgets its oldest key.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<V> {
    map: BTreeMap<NativeId, V>,
    order: VecDeque<NativeId>,
    cap: usize,
}

impl<V> Bounded<V> {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            map: BTreeMap::new(),
            order: VecDeque::new(),
            cap,
        }
    }

    pub(crate) fn get(&self, key: &NativeId) -> Option<&V> {
        self.map.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &NativeId) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    pub(crate) fn contains(&self, key: &NativeId) -> bool {
        self.map.contains_key(key)
    }

    /// Puts a value in; gives the oldest one back if it had to go for it.
    pub(crate) fn insert(&mut self, key: NativeId, value: V) -> Option<V> {
        if self.map.insert(key.clone(), value).is_some() {
            return None;
        }
        self.order.push_back(key);
        if self.order.len() <= self.cap {
            return None;
        }
        let oldest = self.order.pop_front()?;
        self.map.remove(&oldest)
    }

    /// The value of a key, made if it is new; the oldest one goes if it has to.
    pub(crate) fn entry(&mut self, key: &NativeId) -> &mut V
    where
        V: Default,
    {
        if !self.map.contains_key(key) {
            self.insert(key.clone(), V::default());
        }
        self.map.entry(key.clone()).or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NativeId, &V)> {
        self.map.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.map.values()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.map.values_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&NativeId, &mut V)> {
        self.map.iter_mut()
    }

    /// Takes the oldest key out, with its value.
    pub(crate) fn pop_oldest(&mut self) -> Option<(NativeId, V)> {
        let oldest = self.order.pop_front()?;
        let value = self.map.remove(&oldest)?;
        Some((oldest, value))
    }

    /// Bytes that it holds; `heap` says what a value holds beside itself.
    pub(crate) fn weight(&self, heap: impl Fn(&V) -> usize) -> usize {
        let one = |(key, value): (&NativeId, &V)| budget::entry::<V>(key) + heap(value);
        self.map.iter().map(one).sum()
    }

    /// Gives up what is oldest, as long as there is an excess.
    pub(crate) fn shed(
        &mut self,
        excess: &mut Excess,
        heap: impl Fn(&V) -> usize,
    ) -> Vec<(NativeId, V)> {
        let mut gone = Vec::new();
        while !excess.is_gone()
            && let Some((key, value)) = self.pop_oldest()
        {
            excess.give_up(budget::entry::<V>(&key) + heap(&value));
            gone.push((key, value));
        }
        self.order.shrink_to_fit();
        gone
    }

    /// As [`Self::shed`], of those that are not needed any more.
    pub(crate) fn shed_where(
        &mut self,
        excess: &mut Excess,
        heap: impl Fn(&V) -> usize,
        unneeded: impl Fn(&V) -> bool,
    ) {
        let mut gone = Vec::new();
        for key in &self.order {
            if excess.is_gone() {
                break;
            }
            if let Some(value) = self.map.get(key).filter(|value| unneeded(value)) {
                excess.give_up(budget::entry::<V>(key) + heap(value));
                gone.push(key.clone());
            }
        }
        for key in gone {
            self.remove(&key);
        }
    }

    /// Whether the oldest key would have to go for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.order.len() >= self.cap
    }

    pub(crate) fn remove(&mut self, key: &NativeId) -> Option<V> {
        let value = self.map.remove(key)?;
        self.order.retain(|kept| kept != key);
        Some(value)
    }

    /// Keeps the values that are wanted.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&V) -> bool) {
        self.map.retain(|_, value| wanted(value));
        let map = &self.map;
        self.order.retain(|kept| map.contains_key(kept));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }
}
