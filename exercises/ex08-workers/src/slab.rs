//! A slab: slots that are used again, and tokens that tell one use of a slot from the next.
//!
//! A client can leave while a worker still works for it. The next client gets the descriptor's number, and the place in
//! the list. Then the result comes, and must lead to the right connection or to none. The same is true of an event that
//! is still on its way when its connection is closed.
//!
//! So each slot counts how often it was emptied, its *generation*, and a [`Token`] holds both numbers. A token of an
//! old generation finds nothing: it is *stale*.

/// A slot and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    slot: u32,
    generation: u32,
}

impl Token {
    /// The listener's own. No slab gives its first slot to anybody, so all its generations are free for such use.
    pub(crate) const LISTENER: Token = Token {
        slot: 0,
        generation: 0,
    };

    /// The eventfd by which the workers wake the loop.
    pub(crate) const WAKE: Token = Token {
        slot: 0,
        generation: 1,
    };

    /// The signalfd.
    pub(crate) const SIGNALS: Token = Token {
        slot: 0,
        generation: 2,
    };

    /// No token is greater.
    pub(crate) const LAST: Token = Token {
        slot: u32::MAX,
        generation: u32::MAX,
    };

    /// As the 64 bits of an event: the generation in the upper half, the slot in the lower.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// What [`Token::to_bits`] made.
    pub(crate) fn from_bits(bits: u64) -> Token {
        Token {
            slot: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// Values under tokens.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Slots that hold nothing, and belong to nobody.
    vacant: Vec<u32>,
}

struct Slot<T> {
    /// How often it was emptied.
    generation: u32,
    /// `None`: vacant, or taken out.
    content: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        let first = Slot {
            generation: 0,
            content: None,
        };
        Slab {
            slots: vec![first],
            vacant: Vec::new(),
        }
    }

    /// Puts a value into a vacant slot, or into a new one.
    pub(crate) fn insert(&mut self, value: T) -> Token {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                content: None,
            });
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.content = Some(value);
        Token {
            slot,
            generation: place.generation,
        }
    }

    /// Empties the slot of this token for ever: from now on the token is stale. `None`: it was already, or its value
    /// is [taken out](Slab::take_out).
    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let place = self.place(token)?;
        place.generation = place.generation.wrapping_add(1);
        let value = place.content.take();
        self.vacant.push(token.slot);
        value
    }

    /// The token is not stale.
    pub(crate) fn holds(&self, token: Token) -> bool {
        let place = self.slots.get(token.slot as usize);
        place.is_some_and(|place| place.generation == token.generation)
    }

    /// Takes the value out for a while. Its slot stays its own. `None`: the token is stale, or somebody else has it.
    pub(crate) fn take_out(&mut self, token: Token) -> Option<T> {
        self.place(token)?.content.take()
    }

    /// Brings back what was taken out.
    pub(crate) fn put_back(&mut self, token: Token, value: T) {
        if let Some(place) = self.place(token) {
            place.content = Some(value);
        }
    }

    /// The slot of a token, if that is not stale.
    fn place(&mut self, token: Token) -> Option<&mut Slot<T>> {
        match self.holds(token) {
            true => self.slots.get_mut(token.slot as usize),
            false => None,
        }
    }

    /// All values that are not taken out, with their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, place)| {
            let generation = place.generation;
            let value = place.content.as_ref()?;
            Some((Token { slot, generation }, value))
        })
    }

    /// How many values it has, those that are taken out included.
    pub(crate) fn len(&self) -> usize {
        // The first slot is neither vacant nor anybody's.
        self.slots.len() - self.vacant.len() - 1
    }
}
