//! How values and commands become bytes: one format byte, then postcard.
//!
//! postcard (<https://postcard.jamesmunns.com/wire-format>) has a specified, canonical encoding: one
//! value has one byte string, which the state hash relies on. It has no field names, so a struct
//! never changes under its format byte: a changed struct gets a new byte, and the old one stays
//! readable. Enums may gain variants at their end.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The first byte of every stored value and command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// 2026-11: the first format.
    V1 = 1,
}

/// Why bytes could not be read, or a value could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// There was not even a format byte.
    #[error("{what}: the value is empty")]
    Empty {
        /// What was being read.
        what: &'static str,
    },
    /// The format byte is of a version that this program does not know.
    #[error("{what}: format {found} is unknown to this version; upgrade this process")]
    UnknownFormat {
        /// What was being read.
        what: &'static str,
        /// The byte that was found.
        found: u8,
    },
    /// The bytes behind the format byte are damaged.
    #[error("{what}: {reason}")]
    Malformed {
        /// What was being read or written.
        what: &'static str,
        /// What the decoder said.
        reason: String,
    },
}

/// A type with a format byte of its own. `WHAT` names it in errors.
pub trait Stored: Serialize + DeserializeOwned {
    /// The name of the type in error messages.
    const WHAT: &'static str;

    /// Writes the format byte and the value.
    ///
    /// # Errors
    /// [`CodecError::Malformed`] if the serializer refuses the value, which no stored type does.
    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let start = vec![Format::V1 as u8];
        postcard::to_extend(self, start).map_err(|error| malformed(Self::WHAT, &error))
    }

    /// Reads what [`Stored::encode`] wrote; trailing bytes are an error.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes are empty, of an unknown format, damaged or too long.
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let what = Self::WHAT;
        let (value, rest) =
            postcard::take_from_bytes(body(what, bytes)?).map_err(|error| malformed(what, &error))?;
        if rest.is_empty() {
            Ok(value)
        } else {
            let reason = format!("{} bytes follow the value", rest.len());
            Err(CodecError::Malformed { what, reason })
        }
    }
}

/// Reads the first fields of a stored value, `T`, and leaves the rest of it unread.
pub(crate) fn decode_front<'a, T: Deserialize<'a>>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<T, CodecError> {
    let body = body(what, bytes)?;
    postcard::take_from_bytes(body).map(|(value, _rest)| value).map_err(|error| malformed(what, &error))
}

/// What follows the format byte.
fn body<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], CodecError> {
    let (format, body) = bytes.split_first().ok_or(CodecError::Empty { what })?;
    if *format == Format::V1 as u8 {
        Ok(body)
    } else {
        Err(CodecError::UnknownFormat { what, found: *format })
    }
}

fn malformed(what: &'static str, error: &postcard::Error) -> CodecError {
    CodecError::Malformed { what, reason: error.to_string() }
}

/// Declares that a type is stored in the current format.
macro_rules! stored {
    ($($type:ty),+ $(,)?) => {
        $(impl $crate::codec::Stored for $type {
            const WHAT: &'static str = stringify!($type);
        })+
    };
}
pub(crate) use stored;

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        name: String,
        n: u64,
    }
    stored!(Sample);

    #[test]
    fn reads_back_and_refuses_damage() {
        let sample = Sample { name: "记忆🙂".into(), n: u64::MAX };
        let bytes = sample.encode().expect("encodes");
        assert_eq!(bytes[0], 1);
        assert_eq!(Sample::decode(&bytes), Ok(sample));
        assert_eq!(Sample::decode(&[]), Err(CodecError::Empty { what: "Sample" }));
        let mut later = bytes.clone();
        later[0] = 9;
        assert!(matches!(Sample::decode(&later), Err(CodecError::UnknownFormat { found: 9, .. })));
        assert!(matches!(Sample::decode(&bytes[..5]), Err(CodecError::Malformed { .. })));
        let mut longer = bytes;
        longer.push(0);
        assert!(matches!(Sample::decode(&longer), Err(CodecError::Malformed { .. })));
    }
}
