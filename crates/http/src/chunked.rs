//! The chunked transfer coding of RFC 9112 section 7.1, taken apart a piece at a time.
//!
//! `httparse::parse_chunk_size` is not used here. It takes a bare LF inside a chunk extension for a
//! part of the extension, where other programs take it for the end of the line. Two programs that
//! disagree where a line ends disagree where the next request begins: that is request smuggling.
//! This decoder refuses every control character in the framing, other than CR LF where it belongs.

use crate::{Refusal, Status};

/// Where the decoder is: what it waits for, and what follows which byte. Anything else is refused.
///
/// ```text
///   SizeStart     hex digit: Size
///   Size          hex digit: Size     SP, HTAB: SizeSpace   ';': Extension   CR: SizeLf
///   SizeSpace                         SP, HTAB: SizeSpace   ';': Extension
///   Extension     text: Extension                                            CR: SizeLf
///   SizeLf        LF: Data, or TrailerStart after the chunk of size 0
///   Data          `size` bytes of any kind, and then DataCr
///   DataCr        CR: DataLf
///   DataLf        LF: SizeStart
///   TrailerStart  token: TrailerName  CR: EndLf
///   TrailerName   token: TrailerName  ':': TrailerValue
///   TrailerValue  text: TrailerValue  CR: TrailerLf
///   TrailerLf     LF: TrailerStart
///   EndLf         LF: End
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    SizeStart,
    Size,
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    at: At,
    /// Data bytes of this chunk that are still to come.
    size: u64,
    /// Encoded bytes that were taken so far.
    taken: usize,
    /// Framing bytes among them: all that is not data.
    overhead: u64,
    max_body: u64,
    max_overhead: u64,
}

impl Decoder {
    pub(crate) fn new(max_body: u64, max_overhead: u64) -> Self {
        Self {
            at: At::SizeStart,
            size: 0,
            taken: 0,
            overhead: 0,
            max_body,
            max_overhead,
        }
    }

    /// Encoded bytes that were looked at so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Takes what is new in `encoded`, which starts at the body's first byte at every call, and
    /// appends the data to `body`. Returns the length of the encoded body when its end has come.
    pub(crate) fn decode(
        &mut self,
        encoded: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<Option<usize>, Refusal> {
        while let Some(rest) = encoded.get(self.taken..).filter(|rest| !rest.is_empty()) {
            if self.at == At::Data {
                let here = rest
                    .len()
                    .min(usize::try_from(self.size).unwrap_or(usize::MAX));
                body.extend_from_slice(&rest[..here]);
                self.taken += here;
                self.size -= here as u64;
                if self.size == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            self.at = self.step(rest[0], body.len() as u64)?;
            self.taken += 1;
            self.overhead += 1;
            if self.at == At::End {
                return Ok(Some(self.taken));
            }
            // The end is a byte of framing too, so it can no longer come within the limit.
            if self.overhead >= self.max_overhead {
                return Err(Refusal::new(
                    Status::ContentTooLarge,
                    "too many bytes of chunk sizes, extensions and trailers",
                ));
            }
        }
        Ok(None)
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8, received: u64) -> Result<At, Refusal> {
        Ok(match (self.at, byte) {
            (At::SizeStart | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).expect("a hexadecimal digit");
                // It cannot overflow: a size above the limit is refused at the digit that makes it.
                self.size = self.size.saturating_mul(16).saturating_add(digit.into());
                if self.size > self.max_body.saturating_sub(received) {
                    return Err(Refusal::new(
                        Status::ContentTooLarge,
                        "the chunks are longer than this server takes",
                    ));
                }
                At::Size
            }
            (At::Size | At::SizeSpace, b';') => At::Extension,
            (At::Size | At::SizeSpace, b' ' | b'\t') => At::SizeSpace,
            (At::Size | At::Extension, b'\r') => At::SizeLf,
            (At::Extension, _) if is_text(byte) => At::Extension,
            (At::SizeLf, b'\n') if self.size > 0 => At::Data,
            (At::SizeLf | At::TrailerLf, b'\n') => At::TrailerStart,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::SizeStart,
            (At::TrailerStart, b'\r') => At::EndLf,
            (At::TrailerStart | At::TrailerName, _) if is_token(byte) => At::TrailerName,
            (At::TrailerName, b':') => At::TrailerValue,
            (At::TrailerValue, b'\r') => At::TrailerLf,
            (At::TrailerValue, _) if is_text(byte) => At::TrailerValue,
            (At::EndLf, b'\n') => At::End,
            (At::SizeStart | At::Size | At::SizeSpace | At::Extension | At::SizeLf, _) => {
                return Err(Refusal::bad("a chunk's size line is malformed"));
            }
            (At::DataCr | At::DataLf, _) => {
                return Err(Refusal::bad("a chunk is longer than its size says"));
            }
            _ => {
                return Err(Refusal::bad(
                    "the trailers after the last chunk are malformed",
                ));
            }
        })
    }
}

/// What a field value or a chunk extension may hold: all but control characters, HTAB allowed.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `tchar` of RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_characters_of_the_standard() {
        for byte in 0..=255_u8 {
            let listed = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(is_token(byte), listed, "{byte}");
        }
    }
}
