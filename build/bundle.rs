//! Clang's offload bundle: several code objects in one image, from which the HIP runtime takes the one for its GPU.
//!
//! `__CLANG_OFFLOAD_BUNDLE__`, then little-endian 64-bit numbers: how many entries, and for each its offset, its size and
//! the length of its name, which follows. The code objects come after, aligned. Written here because the tool that does
//! it is not always installed beside the compiler.

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// Page size: the runtime maps a code object where it lies.
const ALIGNMENT: usize = 4096;

/// A bundle of `(architecture, ELF)`. The first entry is an empty one for the host, as clang writes it and as runtimes
/// expect it.
pub fn bundle(objects: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut entries = vec![("host-x86_64-unknown-linux-gnu-".to_owned(), &[][..])];
    for (arch, elf) in objects {
        entries.push((format!("hipv4-amdgcn-amd-amdhsa--{arch}"), elf.as_slice()));
    }

    let header = MAGIC.len() + 8 + entries.iter().map(|(name, _)| 24 + name.len()).sum::<usize>();
    let mut image = MAGIC.to_vec();
    let mut offset = header.next_multiple_of(ALIGNMENT);
    image.extend((entries.len() as u64).to_le_bytes());
    for (name, elf) in &entries {
        for number in [offset, elf.len(), name.len()] {
            image.extend((number as u64).to_le_bytes());
        }
        image.extend(name.as_bytes());
        offset = (offset + elf.len()).next_multiple_of(ALIGNMENT);
    }
    for (_, elf) in &entries {
        image.resize(image.len().next_multiple_of(ALIGNMENT), 0);
        image.extend(*elf);
    }
    image
}
