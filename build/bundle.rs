//! Clang's offload bundle: one image with several code objects. The HIP runtime takes the code object for its GPU.
//!
//! The format: `__CLANG_OFFLOAD_BUNDLE__`, then little-endian 64-bit numbers: the number of entries, and for each entry
//! its offset, its size, the length of its name, and the name. The code objects follow, aligned. This module writes the
//! format itself, because clang-offload-bundler is not always installed beside the compiler.

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// Page size: the runtime maps a code object in its place.
pub const ALIGNMENT: usize = 4096;

/// The bytes before the ELFs in a bundle of `(architecture, bytes of its ELF)`. The ELFs follow in this order, each
/// padded with zeros to a multiple of ALIGNMENT. The first entry is empty and stands for the host, as clang writes it
/// and runtimes expect it.
pub fn table(objects: &[(&str, usize)]) -> Vec<u8> {
    let mut entries = vec![("host-x86_64-unknown-linux-gnu-".to_owned(), 0)];
    for (arch, bytes) in objects {
        entries.push((format!("hipv4-amdgcn-amd-amdhsa--{arch}"), *bytes));
    }

    let bytes = MAGIC.len() + 8 + entries.iter().map(|(name, _)| 24 + name.len()).sum::<usize>();
    let mut table = MAGIC.to_vec();
    let mut offset = bytes.next_multiple_of(ALIGNMENT);
    table.extend((entries.len() as u64).to_le_bytes());
    for (name, bytes) in &entries {
        for number in [offset, *bytes, name.len()] {
            table.extend((number as u64).to_le_bytes());
        }
        table.extend(name.as_bytes());
        offset = (offset + bytes).next_multiple_of(ALIGNMENT);
    }
    table.resize(bytes.next_multiple_of(ALIGNMENT), 0);
    table
}
