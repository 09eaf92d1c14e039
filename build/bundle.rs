//! Clang's offload bundle: several code objects in one image, from which the HIP runtime takes the one for its GPU.
//!
//! `__CLANG_OFFLOAD_BUNDLE__`, then little-endian 64-bit numbers: how many entries, and for each its offset, its size and
//! the length of its name, which follows. The code objects come after, aligned. Written here because the tool that does
//! it is not always installed beside the compiler.

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// Page size: the runtime maps a code object where it lies.
pub const ALIGNMENT: usize = 4096;

/// What comes before the ELFs in a bundle of `(architecture, bytes of its ELF)`. The ELFs follow in this order, each with
/// zeros up to a multiple of ALIGNMENT. The first entry is an empty one for the host, as clang writes it and as runtimes
/// expect it.
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
