//! A slab: slots that are used again, and tokens that tell one use of a slot from the next.
//!
//! The kernel hands back 64 bits with each event, which the program chose when it registered the descriptor.
//! They must lead to the right connection or to none. The descriptor's number cannot do that: `close`
//! sets it free, and the very next `accept4` gets it.
//!
//! ```text
//!  one batch from epoll_wait:   [ fd 7 ]  [ listener ]  [ fd 9 ]
//!
//!   1  the handler of fd 7 closes fd 9       (GET /kick/9 does it on purpose)
//!   2  the listener accepts a new client     the kernel gives it the lowest free number: 9
//!   3  the event of fd 9 is handled          it is about the old connection, and hits the new one
//! ```
//!
//! So each slot counts how often it was emptied, its *generation*, and a [`Token`] holds both numbers. An
//! event of an old generation finds nothing: it is *stale*, and is dropped.

// ANCHOR: token
/// A slot and its generation. Fits into the 64 bits of an `epoll_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    slot: u32,
    generation: u32,
}
// ANCHOR_END: token

impl Token {
    /// The generation in the upper 32 bits, the slot in the lower.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// What [`Token::to_bits`] made.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Token {
        Token {
            slot: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// Values under tokens. Insertion, look-up and removal take the same time however many there are.
///
/// ```
/// use ch06_reactor::Slab;
///
/// let mut slab = Slab::new();
/// let old = slab.insert("the first client");
/// slab.remove(old);
/// let new = slab.insert("the second client, in the same slot");
/// assert_eq!(slab.get_mut(old), None);
/// assert!(slab.get_mut(new).is_some());
/// ```
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The first vacant slot. Each vacant slot names the next one, so that this list costs no memory. What
    /// was emptied last is filled first: it is still in the cache.
    vacant: Option<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// How often this slot was emptied. It wraps around after four billion times; the event that would
    /// then be taken for a new one does not exist, since an event lives no longer than its batch.
    generation: u32,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Occupied(T),
    Vacant { next: Option<u32> },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            slots: Vec::new(),
            vacant: None,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    /// An empty slab, which has allocated nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many values are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a value into a vacant slot, or into a new one.
    pub fn insert(&mut self, value: T) -> Token {
        self.len += 1;
        let Some(slot) = self.vacant else {
            let slot = u32::try_from(self.slots.len())
                .expect("the kernel allows at most 2^30 descriptors, and memory fewer values");
            self.slots.push(Slot {
                generation: 0,
                content: Content::Occupied(value),
            });
            return Token {
                slot,
                generation: 0,
            };
        };
        let place = &mut self.slots[slot as usize];
        if let Content::Vacant { next } = place.content {
            self.vacant = next;
        }
        place.content = Content::Occupied(value);
        Token {
            slot,
            generation: place.generation,
        }
    }

    /// The value, unless it is gone: then the slot is empty or holds another one.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        match self.slots.get(token.slot as usize)? {
            Slot {
                generation,
                content: Content::Occupied(value),
            } if *generation == token.generation => Some(value),
            _ => None,
        }
    }

    /// As [`Slab::get`], to change it.
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        match self.slots.get_mut(token.slot as usize)? {
            Slot {
                generation,
                content: Content::Occupied(value),
            } if *generation == token.generation => Some(value),
            _ => None,
        }
    }

    // ANCHOR: remove
    /// Takes the value out, and makes every token of it stale.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        self.get(token)?;
        let place = &mut self.slots[token.slot as usize];
        place.generation = place.generation.wrapping_add(1);
        let next = self.vacant.replace(token.slot);
        self.len -= 1;
        match std::mem::replace(&mut place.content, Content::Vacant { next }) {
            Content::Occupied(value) => Some(value),
            Content::Vacant { .. } => None,
        }
    }
    // ANCHOR_END: remove

    /// All tokens and values, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(place, slot)| match &place.content {
            Content::Occupied(value) => {
                let generation = place.generation;
                Some((Token { slot, generation }, value))
            }
            Content::Vacant { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_kernel() {
        let token = Token {
            slot: 7,
            generation: u32::MAX,
        };
        assert_eq!(token.to_bits(), 0xffff_ffff_0000_0007);
        assert_eq!(Token::from_bits(token.to_bits()), token);
    }

    #[test]
    fn an_old_token_finds_nothing_even_when_its_slot_is_used_again() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.get(first), None, "vacant");
        let second = slab.insert('b');
        assert_eq!(second.slot, first.slot, "the slot is used again");
        assert_eq!(slab.get(first), None, "another generation");
        assert_eq!(slab.remove(first), None, "an old token removes nobody");
        assert_eq!(slab.get_mut(second), Some(&mut 'b'));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn slots_are_used_again_before_new_ones_are_made() {
        let mut slab = Slab::new();
        let tokens: Vec<Token> = (0..5).map(|number| slab.insert(number)).collect();
        slab.remove(tokens[1]);
        slab.remove(tokens[3]);
        let again = [slab.insert(10), slab.insert(11), slab.insert(12)];
        assert_eq!(again.map(|token| token.slot), [3, 1, 5]);
        let values: Vec<i32> = slab.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [0, 11, 2, 10, 4, 12]);
        assert!(
            slab.iter()
                .all(|(token, value)| slab.get(token) == Some(value))
        );
    }

    #[test]
    fn a_generation_wraps_around() {
        let mut slab = Slab::new();
        slab.insert(());
        slab.slots[0].generation = u32::MAX;
        let last = Token {
            slot: 0,
            generation: u32::MAX,
        };
        assert_eq!(slab.remove(last), Some(()));
        assert_eq!(slab.insert(()).generation, 0);
    }
}
