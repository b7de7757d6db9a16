//! Bytes that come in at the end and leave at the front, a part at a time.

/// A row of bytes, and how many of its first have left already.
///
/// To take bytes off the front of a `Vec` moves all those behind them. After a short write of a large
/// reply that is nearly everything, so here only a number moves.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    gone: usize,
}

impl Buffer {
    /// What is still there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `Vec` to append to. What has left is removed from it first, so that it does not grow for ever
    /// when it is never quite empty.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.gone);
        self.gone = 0;
        &mut self.bytes
    }

    /// Lets `count` bytes leave. The memory stays.
    pub(crate) fn consume(&mut self, count: usize) {
        self.gone += count;
        debug_assert!(self.gone <= self.bytes.len());
        if self.gone == self.bytes.len() {
            self.bytes.clear();
            self.gone = 0;
        }
    }

    /// Takes this memory to work with, if it has none of its own.
    pub(crate) fn borrow_memory(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            std::mem::swap(&mut self.bytes, spare);
        }
    }

    /// Gives its memory away if nothing is in it. Of two, the larger one is kept.
    pub(crate) fn give_memory_back(&mut self, spare: &mut Vec<u8>) {
        if self.is_empty() {
            let mine = std::mem::take(self).bytes;
            if mine.capacity() > spare.capacity() {
                *spare = mine;
            }
        }
    }

    /// Throws away the bytes and the memory.
    pub(crate) fn release(&mut self) {
        *self = Buffer::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came() {
        let mut buffer = Buffer::default();
        buffer.end().extend_from_slice(b"abcdef");
        buffer.consume(2);
        assert_eq!(buffer.bytes(), b"cdef");
        buffer.end().extend_from_slice(b"gh");
        buffer.consume(5);
        assert_eq!((buffer.bytes(), buffer.len()), (b"h".as_slice(), 1));
        buffer.consume(1);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_buffer_that_is_never_empty_does_not_grow() {
        let mut buffer = Buffer::default();
        buffer.end().push(0);
        for _ in 0..10_000 {
            buffer.end().extend_from_slice(&[0; 100]);
            buffer.consume(100);
        }
        assert!(
            buffer.bytes.capacity() < 1_000,
            "{}",
            buffer.bytes.capacity()
        );
    }

    #[test]
    fn one_piece_of_memory_serves_all_who_are_empty_in_the_end() {
        let mut spare = Vec::with_capacity(1_000);
        let mut buffer = Buffer::default();
        buffer.borrow_memory(&mut spare);
        assert_eq!(spare.capacity(), 0);
        buffer.end().push(1);
        buffer.give_memory_back(&mut spare);
        assert_eq!(spare.capacity(), 0, "it is in use");
        buffer.consume(1);
        buffer.give_memory_back(&mut spare);
        assert_eq!((spare.capacity(), spare.len()), (1_000, 0));
        assert_eq!(buffer.bytes.capacity(), 0);
    }
}
