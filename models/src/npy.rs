//! A strict reader of the few kinds of NumPy arrays that the weights come in.
//!
//! The layout is that of NEP 1: magic, version, length and text of a header, then the elements.

use std::io::Read;

/// An array in row-major order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NpyArray {
    /// NumPy's name of the element type, such as `<f4`.
    pub(crate) descr: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// Reads an array that takes at most `bytes_max` bytes; the error says what is wrong.
pub(crate) fn read_npy(source: impl Read, bytes_max: u64) -> Result<NpyArray, String> {
    let mut bytes = Vec::new();
    source.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("larger than {bytes_max} bytes"));
    }
    let (length, start) = match bytes.get(..10) {
        Some([0x93, b'N', b'U', b'M', b'P', b'Y', 1, 0, low, high]) => {
            (usize::from(u16::from_le_bytes([*low, *high])), 10)
        }
        _ => return Err("not a NumPy array of format 1.0".to_owned()),
    };
    let header = bytes
        .get(start..start + length)
        .and_then(|header| std::str::from_utf8(header).ok())
        .ok_or("the header is cut short")?;
    if field(header, "fortran_order", ",") != Some("False") {
        return Err("not in row-major order".to_owned());
    }
    let descr = field(header, "descr", ",")
        .map(|text| text.trim_matches('\'').to_owned())
        .ok_or("no element type")?;
    let shape = field(header, "shape", ")")
        .and_then(|text| text.strip_prefix('('))
        .ok_or("no shape")?
        .split(',')
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().map_err(|_| format!("bad size {number:?}")))
        .collect::<Result<Vec<usize>, String>>()?;
    bytes.drain(..start + length);
    Ok(NpyArray { descr, shape, bytes })
}

/// The text after `'name':` up to `end`, without white space around it.
fn field<'a>(header: &'a str, name: &str, end: &str) -> Option<&'a str> {
    let (_, after) = header.split_once(&format!("'{name}':"))?;
    Some(after.split_once(end)?.0.trim())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn reads_arrays_of_every_rank() {
        for (text, shape) in [("()", &[][..]), ("(3,)", &[3]), ("(2, 5)", &[2, 5])] {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {text}, }}\n");
            let array = read_npy(&npy(&header, &[1, 2])[..], 1_000).unwrap();
            assert_eq!(array.shape, shape);
            assert_eq!(array.descr, "<f4");
            assert_eq!(array.bytes, [1, 2]);
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let good = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", &[1, 2]);
        assert!(read_npy(&good[..], 1_000).is_ok());
        assert!(read_npy(&good[..], 10).is_err());
        for length in 0..good.len() - 2 {
            assert!(read_npy(&good[..length], 1_000).is_err(), "{length}");
        }
        for header in [
            "{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (-2,), }",
            "{'descr': '|u1', 'fortran_order': False, 'shape': 2, }",
            "{'fortran_order': False, 'shape': (2,), }",
        ] {
            assert!(read_npy(&npy(header, &[])[..], 1_000).is_err(), "{header}");
        }
    }
}
