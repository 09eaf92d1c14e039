//! The form of the files that the build writes for other builds: parts, whole or not at all.
//!
//! A file begins with 8 bytes that name its kind, then a hash of the rest, the number of parts, and each part after its
//! length. Numbers are little-endian with 64 bits. The hash is jobs::Fnv, little-endian with 128 bits.

use crate::jobs::Fnv;

/// The bytes that name a kind of file.
pub type Magic = [u8; 8];

/// Why bytes cannot be read.
#[derive(Debug, PartialEq)]
pub enum Damage {
    /// They do not begin with the kind's bytes.
    Foreign,
    /// They are cut off, or a part of them changed.
    Incomplete,
}

pub fn encode<'a>(magic: &Magic, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut count = 0_u64;
    let mut rest = count.to_le_bytes().to_vec();
    for part in parts {
        count += 1;
        rest.extend((part.len() as u64).to_le_bytes());
        rest.extend(part);
    }
    rest[..8].copy_from_slice(&count.to_le_bytes());
    let mut bytes = magic.to_vec();
    bytes.extend(Fnv::of(&rest).to_le_bytes());
    bytes.extend(rest);
    bytes
}

pub fn decode(magic: &Magic, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Damage> {
    let rest = bytes.strip_prefix(magic).ok_or(Damage::Foreign)?;
    parts(rest).ok_or(Damage::Incomplete)
}

fn parts(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (hash, rest) = bytes.split_first_chunk::<16>()?;
    if u128::from_le_bytes(*hash) != Fnv::of(rest) {
        return None;
    }
    let (count, mut rest) = rest.split_first_chunk::<8>()?;
    let mut parts = Vec::new();
    for _ in 0..u64::from_le_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<8>()?;
        let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        parts.push(part.to_vec());
        rest = after;
    }
    rest.is_empty().then_some(parts)
}
