//! A question to a name server and its answer, as bytes: RFC 1035 section 4.
//!
//! ```text
//!   header    id | flags | how many questions, answers, authorities, additional records    6 x 2 bytes
//!   question  name | type | class
//!   answers   name | type | class | time to live | length | data
//! ```
//!
//! A name is a list of labels, each behind a byte with its length: `3 www 7 example 3 org 0`. In an answer, a
//! name may end in a *pointer* to an earlier place instead. A reader that follows pointers must beware of
//! circles. This one has no need to follow them: it only has to know where a name ends.

use std::net::Ipv4Addr;

/// The longest question, in bytes: the header, a name of 255, type and class.
pub const QUESTION_MOST: usize = HEADER + 255 + 4;

/// The longest answer over UDP without extensions, in bytes (RFC 1035 section 2.3.4).
pub const ANSWER_MOST: usize = 512;

/// Bytes of the header.
const HEADER: usize = 12;

/// The longest label in bytes: the two highest bits of its length mean something else.
const LABEL_MOST: usize = 63;

/// An IPv4 address.
const TYPE_A: u16 = 1;

/// The Internet.
const CLASS_IN: u16 = 1;

/// In the flags: this is an answer.
const IS_ANSWER: u16 = 0x8000;

/// In the flags: it did not fit into a datagram.
const IS_TRUNCATED: u16 = 0x0200;

/// In the flags of a question: please ask others if you do not know.
const RECURSION_DESIRED: u16 = 0x0100;

/// The lowest four bits of the flags: what became of it.
const RESULT: u16 = 0x000f;

/// [`RESULT`]: there is no such name.
const NO_SUCH_NAME: u16 = 3;

/// What a name server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The addresses; none if the name exists and has none.
    Addresses(Vec<Ipv4Addr>),
    /// There is no such name.
    NoSuchName,
    /// It did not fit, and one should ask again over TCP.
    Truncated,
    /// The server could not or would not find out: its code.
    Refused(u16),
}

/// The question for the IPv4 addresses of a name. Nothing if it is no name.
#[must_use]
pub fn question(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(QUESTION_MOST);
    for number in [id, RECURSION_DESIRED, 1, 0, 0, 0] {
        bytes.extend(number.to_be_bytes());
    }
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        if label.is_empty() || label.len() > LABEL_MOST {
            return None;
        }
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(TYPE_A.to_be_bytes());
    bytes.extend(CLASS_IN.to_be_bytes());
    (bytes.len() <= QUESTION_MOST).then_some(bytes)
}

/// What `datagram` answers to `question`. Nothing if it is no answer to it: it may be late, damaged or forged, and
/// the right one may still come.
#[must_use]
pub fn answer(question: &[u8], datagram: &[u8]) -> Option<Answer> {
    let mut reader = Reader { bytes: datagram };
    let id = reader.take(2)?;
    let flags = reader.number()?;
    let (questions, answers) = (reader.number()?, reader.number()?);
    reader.take(4)?;
    if id != question.get(..2)? || flags & IS_ANSWER == 0 || questions != 1 {
        return None;
    }
    // It repeats the question, perhaps with capital letters.
    let asked = question.get(HEADER..)?;
    if !reader.take(asked.len())?.eq_ignore_ascii_case(asked) {
        return None;
    }
    if flags & IS_TRUNCATED != 0 {
        return Some(Answer::Truncated);
    }
    match flags & RESULT {
        0 => {}
        NO_SUCH_NAME => return Some(Answer::NoSuchName),
        code => return Some(Answer::Refused(code)),
    }
    let mut addresses = Vec::new();
    for _ in 0..answers {
        reader.skip_name()?;
        let (kind, class) = (reader.number()?, reader.number()?);
        reader.take(4)?; // how long it may be kept: there is no cache here
        let len = reader.number()?;
        let data = reader.take(len.into())?;
        // Other kinds: the other names that lie between this one and its address.
        if let (TYPE_A, CLASS_IN, &[a, b, c, d]) = (kind, class, data) {
            addresses.push(Ipv4Addr::new(a, b, c, d));
        }
    }
    Some(Answer::Addresses(addresses))
}

/// The answer of a name server that knows this address, to a question. For demonstrations and tests.
#[must_use]
pub fn with_address(question: &[u8], address: Ipv4Addr) -> Vec<u8> {
    let mut bytes = question.to_vec();
    if let Some(header) = bytes.get_mut(..HEADER) {
        header[2..4].copy_from_slice(&IS_ANSWER.to_be_bytes());
        header[6..8].copy_from_slice(&1u16.to_be_bytes());
        // A pointer to the question's name, the type, the class, a minute, four bytes.
        bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
        bytes.extend(address.octets());
    }
    bytes
}

/// Takes numbers and bytes off the front. Nothing when there are not so many.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Up to the end of a name: an empty label, or a pointer.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            match self.take(1)?[0] {
                0 => return Some(()),
                len if len & 0xc0 == 0xc0 => return self.take(1).map(|_| ()),
                len if len & 0xc0 == 0 => self.take(len.into())?,
                _ => return None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with these flags, to the question, with these records behind it.
    fn datagram(question: &[u8], flags: u16, records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        bytes.extend(records.concat());
        bytes
    }

    /// The name of the question (a pointer to byte 12), and an address.
    const ADDRESS: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\x01\x02\x03";
    /// The name of the question is another name of `a`.
    const ALIAS: &[u8] = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x03\x01a\0";

    fn asked() -> Vec<u8> {
        question(0x1234, "www.Example.org").expect("a name")
    }

    #[test]
    fn a_question_is_what_rfc_1035_says() {
        let expected = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07Example\x03org\0\0\x01\0\x01";
        assert_eq!(asked(), expected);
        assert_eq!(question(0x1234, "www.Example.org."), Some(asked()));
        let long = "a".repeat(64);
        for no_name in ["", ".", "a..b", &long, &"abc.".repeat(64)] {
            assert_eq!(question(1, no_name), None, "{no_name}");
        }
    }

    #[test]
    fn addresses_are_found_behind_other_names() {
        let bytes = datagram(&asked(), IS_ANSWER, &[ALIAS, ADDRESS]);
        let found = Answer::Addresses(vec![Ipv4Addr::new(10, 1, 2, 3)]);
        assert_eq!(answer(&asked(), &bytes), Some(found.clone()));
        // Capital letters are the same name.
        let lower = question(0x1234, "www.example.org").expect("a name");
        assert_eq!(answer(&lower, &bytes), Some(found));
    }

    #[test]
    fn a_failure_has_its_reason() {
        let said = |flags| answer(&asked(), &datagram(&asked(), flags, &[]));
        assert_eq!(said(IS_ANSWER), Some(Answer::Addresses(vec![])));
        assert_eq!(said(IS_ANSWER | 3), Some(Answer::NoSuchName));
        assert_eq!(said(IS_ANSWER | 2), Some(Answer::Refused(2)));
        assert_eq!(said(IS_ANSWER | IS_TRUNCATED), Some(Answer::Truncated));
    }

    #[test]
    fn what_is_no_answer_to_this_question_is_none() {
        let other = question(0x1235, "www.Example.org").expect("a name");
        let name = question(0x1234, "www.example.com").expect("a name");
        for question in [&other, &name] {
            assert_eq!(answer(&asked(), &datagram(question, IS_ANSWER, &[])), None);
        }
        assert_eq!(answer(&asked(), &asked()), None, "a question");
        assert_eq!(answer(&asked(), b""), None);
    }

    /// Cut off or changed anywhere, it is no answer or another one, and never a panic.
    #[test]
    fn a_damaged_datagram_does_no_harm() {
        let whole = datagram(&asked(), IS_ANSWER, &[ALIAS, ADDRESS]);
        for len in 0..whole.len() {
            assert_eq!(answer(&asked(), &whole[..len]), None, "{len} bytes");
        }
        for place in 0..whole.len() {
            for byte in 0..=255 {
                let mut damaged = whole.clone();
                damaged[place] = byte;
                let _ = answer(&asked(), &damaged);
            }
        }
    }
}
