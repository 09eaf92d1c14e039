//! Writes an object file for Windows with data in it. Microsoft's assembler, ml64, cannot include a file, and as an
//! array in C the code objects take minutes to compile.
//!
//! The format is COFF, <https://learn.microsoft.com/windows/win32/debug/pe-format>. The object has one section of
//! constants. It consists of the file's header, the section's header, the section, a table of symbols, and the names of
//! the symbols.

use crate::config::Result;

/// The bytes of the two headers, and of a symbol.
const HEADERS: usize = 20 + 40;
const SYMBOL: usize = 18;
/// Each item begins at a multiple of this number in the section; the section has the same alignment in memory.
const ALIGNMENT: usize = 16;
/// IMAGE_SCN_CNT_INITIALIZED_DATA, IMAGE_SCN_ALIGN_16BYTES, IMAGE_SCN_MEM_READ.
const FLAGS: u32 = 0x0000_0040 | 0x0050_0000 | 0x4000_0000;
/// IMAGE_SYM_CLASS_EXTERNAL.
const EXTERNAL: u8 = 2;

/// An object for an architecture, as cargo names it. Each item becomes an external symbol with its bytes.
pub fn object(architecture: &str, items: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let machine: u16 = match architecture {
        "x86_64" => 0x8664,
        "aarch64" => 0xaa64,
        other => {
            return Err(format!(
                "the target's architecture is {other}; code objects can be embedded on Windows for x86_64 and aarch64"
            ));
        }
    };
    let mut section = Vec::new();
    let mut symbols = Vec::new();
    // The table of names begins with its size, which counts itself.
    let mut names = vec![0; 4];
    for (name, bytes) in items {
        section.resize(section.len().next_multiple_of(ALIGNMENT), 0);
        // The name is not in the symbol: four zeros, then the name's place in the table of names.
        symbols.extend([0; 4]);
        symbols.extend(number(names.len())?);
        symbols.extend(number(section.len())?);
        // It is in section 1 and has no type.
        symbols.extend([1, 0, 0, 0, EXTERNAL, 0]);
        names.extend(name.as_bytes());
        names.push(0);
        section.extend(bytes);
    }
    let size = number(names.len())?;
    names[..4].copy_from_slice(&size);

    let mut object = Vec::with_capacity(HEADERS + section.len() + symbols.len() + names.len());
    object.extend(machine.to_le_bytes());
    object.extend(1u16.to_le_bytes()); // sections
    object.extend([0; 4]); // the time, which would make each build's object differ
    object.extend(number(HEADERS + section.len())?); // where the symbols are
    object.extend(number(symbols.len() / SYMBOL)?);
    object.extend([0; 4]); // no optional header, no flags

    object.extend(*b".rdata\0\0");
    object.extend([0; 8]); // size and address in memory; objects have none
    object.extend(number(section.len())?);
    object.extend(number(HEADERS)?); // where the section is
    object.extend([0; 12]); // no relocations, no line numbers
    object.extend(FLAGS.to_le_bytes());

    object.extend(section);
    object.extend(symbols);
    object.extend(names);
    Ok(object)
}

/// A number of four bytes.
fn number(value: usize) -> Result<[u8; 4]> {
    let value = u32::try_from(value).map_err(|_| {
        "the code objects have more than 4 GiB, more than an object file for Windows can have; name fewer \
         architectures in CANDLE_ROCM_ARCHS"
    })?;
    Ok(value.to_le_bytes())
}
