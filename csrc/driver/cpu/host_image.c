/* The checks of ELF (Linux and similar systems), Mach-O (macOS) and PE (Windows) files. A build has the one of its
 * target. */
#include "driver/cpu/host_image.h"

#include <stdbool.h>
#include <string.h>

#include "error.h"

typedef struct image {
  const char *module;
  const uint8_t *data;
  size_t bytes;
} image_t;

static crk_status_t refuse(const image_t *self, const char *what) {
  return crk_priv_error(CRK_INVALID_IMAGE, "module `%s` is not a usable shared object of %zu bytes: %s", self->module,
                        self->bytes, what);
}

static crk_status_t refuse_machine(const image_t *self, const char *what) {
  return crk_priv_error(CRK_WRONG_ARCHITECTURE, "module `%s` is not for this machine: %s", self->module, what);
}

/* Whether the image holds `bytes` bytes from `offset` on. */
static bool holds(const image_t *self, uint64_t offset, uint64_t bytes) {
  return offset <= self->bytes && bytes <= self->bytes - offset;
}

/* Reads bytes, which may have any alignment. */
static void read_at(const image_t *self, uint64_t offset, void *value, size_t bytes) {
  memcpy(value, self->data + offset, bytes);
}

#if defined(__APPLE__)

#include <mach-o/loader.h>

#if defined(__aarch64__)
#define MACHINE CPU_TYPE_ARM64
#else
#define MACHINE CPU_TYPE_X86_64
#endif

static crk_status_t check_image_file(const image_t *self) {
  struct mach_header_64 header;
  if (!holds(self, 0, sizeof header)) {
    return refuse(self, "it is too short for a Mach-O header");
  }
  read_at(self, 0, &header, sizeof header);
  if (header.magic != MH_MAGIC_64) {
    return refuse(self, "it does not begin as a 64-bit Mach-O file");
  }
  if (header.cputype != MACHINE) {
    return refuse_machine(self, "its header names another processor");
  }
  if (header.filetype != MH_DYLIB && header.filetype != MH_BUNDLE) {
    return refuse(self, "it is neither a dynamic library nor a bundle");
  }
  if (!holds(self, sizeof header, header.sizeofcmds)) {
    return refuse(self, "its load commands are cut off");
  }
  uint64_t at = sizeof header;
  const uint64_t end = at + header.sizeofcmds;
  for (uint32_t i = 0; i < header.ncmds; i++) {
    struct load_command command;
    if (end - at < sizeof command) {
      return refuse(self, "its load commands are cut off");
    }
    read_at(self, at, &command, sizeof command);
    if (command.cmdsize < sizeof command || command.cmdsize > end - at) {
      return refuse(self, "a load command is too long");
    }
    if (command.cmd == LC_SEGMENT_64) {
      struct segment_command_64 segment;
      if (command.cmdsize < sizeof segment) {
        return refuse(self, "the command of a segment is too short");
      }
      read_at(self, at, &segment, sizeof segment);
      if (!holds(self, segment.fileoff, segment.filesize)) {
        return refuse(self, "a segment is cut off");
      }
    }
    at += command.cmdsize;
  }
  return CRK_OK;
}

#elif defined(_WIN32)

#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#if defined(_M_ARM64) || defined(__aarch64__)
#define MACHINE IMAGE_FILE_MACHINE_ARM64
#else
#define MACHINE IMAGE_FILE_MACHINE_AMD64
#endif

static crk_status_t check_image_file(const image_t *self) {
  IMAGE_DOS_HEADER dos;
  IMAGE_NT_HEADERS64 header;
  if (!holds(self, 0, sizeof dos)) {
    return refuse(self, "it is too short for a PE file");
  }
  read_at(self, 0, &dos, sizeof dos);
  if (dos.e_magic != IMAGE_DOS_SIGNATURE || dos.e_lfanew < 0) {
    return refuse(self, "it does not begin as a PE file");
  }
  const uint64_t at = (uint64_t)dos.e_lfanew;
  if (!holds(self, at, sizeof header)) {
    return refuse(self, "its header is cut off");
  }
  read_at(self, at, &header, sizeof header);
  if (header.Signature != IMAGE_NT_SIGNATURE) {
    return refuse(self, "it has no PE header");
  }
  if (header.FileHeader.Machine != MACHINE) {
    return refuse_machine(self, "its header names another processor");
  }
  if ((header.FileHeader.Characteristics & IMAGE_FILE_DLL) == 0) {
    return refuse(self, "it is not a DLL");
  }
  const uint64_t sections = at + offsetof(IMAGE_NT_HEADERS64, OptionalHeader) + header.FileHeader.SizeOfOptionalHeader;
  for (uint32_t i = 0; i < header.FileHeader.NumberOfSections; i++) {
    IMAGE_SECTION_HEADER section;
    if (!holds(self, sections, (uint64_t)(i + 1) * sizeof section)) {
      return refuse(self, "its section headers are cut off");
    }
    read_at(self, sections + (uint64_t)i * sizeof section, &section, sizeof section);
    if (section.SizeOfRawData != 0 && !holds(self, section.PointerToRawData, section.SizeOfRawData)) {
      return refuse(self, "a section is cut off");
    }
  }
  return CRK_OK;
}

#else

#include <elf.h>

#if UINTPTR_MAX > 0xffffffffu
#define CLASS ELFCLASS64
typedef Elf64_Ehdr header_t;
typedef Elf64_Phdr segment_t;
typedef Elf64_Shdr section_t;
typedef Elf64_Dyn dynamic_t;
typedef Elf64_Sym symbol_t;
#else
#define CLASS ELFCLASS32
typedef Elf32_Ehdr header_t;
typedef Elf32_Phdr segment_t;
typedef Elf32_Shdr section_t;
typedef Elf32_Dyn dynamic_t;
typedef Elf32_Sym symbol_t;
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ORDER ELFDATA2MSB
#else
#define ORDER ELFDATA2LSB
#endif

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#elif defined(__riscv)
#define MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define MACHINE EM_PPC64
#elif defined(__i386__)
#define MACHINE EM_386
#elif defined(__arm__)
#define MACHINE EM_ARM
#elif defined(__s390x__)
#define MACHINE EM_S390
#elif defined(__loongarch__)
#define MACHINE 258
#else
#error "host_image.c needs this machine's ELF number"
#endif

static segment_t segment_at(const image_t *self, const header_t *header, uint32_t index) {
  segment_t segment;
  read_at(self, (uint64_t)header->e_phoff + (uint64_t)index * sizeof segment, &segment, sizeof segment);
  return segment;
}

/* Whether one loaded segment holds the bytes [address, address + bytes) in the file. */
static bool is_loaded(const image_t *self, const header_t *header, uint64_t address, uint64_t bytes) {
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    const segment_t segment = segment_at(self, header, i);
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr <= segment.p_filesz &&
        bytes <= segment.p_filesz - (address - segment.p_vaddr)) {
      return true;
    }
  }
  return false;
}

static crk_status_t check_header(const image_t *self, header_t *header) {
  if (!holds(self, 0, EI_NIDENT) || memcmp(self->data, ELFMAG, SELFMAG) != 0) {
    return refuse(self, "it does not begin as an ELF file");
  }
  if (self->data[EI_CLASS] != CLASS || self->data[EI_DATA] != ORDER) {
    return refuse_machine(self, "its ELF header has another word size or byte order");
  }
  if (!holds(self, 0, sizeof *header)) {
    return refuse(self, "its ELF header is cut off");
  }
  read_at(self, 0, header, sizeof *header);
  if (header->e_machine != MACHINE) {
    return crk_priv_error(CRK_WRONG_ARCHITECTURE,
                          "module `%s` is not for this machine: its ELF header names machine %u, not %u", self->module,
                          (unsigned)header->e_machine, (unsigned)MACHINE);
  }
  if (header->e_type != ET_DYN) {
    return refuse(self, "it is an ELF file of another type than a shared object");
  }
  if (self->data[EI_VERSION] != EV_CURRENT || header->e_version != EV_CURRENT || header->e_ehsize < sizeof *header) {
    return refuse(self, "its ELF header is of another version");
  }
  if (header->e_phentsize != sizeof(segment_t) || header->e_phnum == 0 || header->e_phnum == PN_XNUM ||
      !holds(self, header->e_phoff, (uint64_t)header->e_phnum * sizeof(segment_t))) {
    return refuse(self, "its program headers are missing or cut off");
  }
  return CRK_OK;
}

/* Checks the sections. The loader does not read them, but linkers write them last, so this finds a file cut
 * anywhere. */
static crk_status_t check_sections(const image_t *self, const header_t *header) {
  if (header->e_shoff == 0) {
    return CRK_OK;
  }
  if (header->e_shentsize != sizeof(section_t) ||
      !holds(self, header->e_shoff, (uint64_t)header->e_shnum * sizeof(section_t))) {
    return refuse(self, "its section headers are cut off");
  }
  for (uint32_t i = 0; i < header->e_shnum; i++) {
    section_t section;
    read_at(self, (uint64_t)header->e_shoff + (uint64_t)i * sizeof section, &section, sizeof section);
    if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
        !holds(self, section.sh_offset, section.sh_size)) {
      return refuse(self, "a section is cut off");
    }
  }
  return CRK_OK;
}

/* Checks the segments, and finds the dynamic one. */
static crk_status_t check_segments(const image_t *self, const header_t *header, segment_t *dynamic) {
  bool loads = false;
  uint64_t last = 0;
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    const segment_t segment = segment_at(self, header, i);
    const uint64_t end = (uint64_t)segment.p_vaddr + segment.p_memsz;
    if (segment.p_type == PT_GNU_STACK || segment.p_type == PT_NULL) {
      continue;
    }
    if (!holds(self, segment.p_offset, segment.p_filesz)) {
      return refuse(self, "a segment is cut off");
    }
    if (end < segment.p_vaddr || end > UINTPTR_MAX / 2) {
      return refuse(self, "a segment lies outside of the address space");
    }
    if (segment.p_type == PT_LOAD) {
      const uint64_t align = segment.p_align;
      if (segment.p_filesz > segment.p_memsz || (align & (align - 1)) != 0 ||
          (align > 1 && (segment.p_vaddr - segment.p_offset) % align != 0)) {
        return refuse(self, "a segment's sizes or alignment contradict each other");
      }
      if (loads && segment.p_vaddr < last) {
        return refuse(self, "its segments overlap or are out of order");
      }
      loads = true;
      last = end;
    } else if (segment.p_type == PT_DYNAMIC) {
      *dynamic = segment;
    } else if (segment.p_type == PT_INTERP) {
      return refuse(self, "it is a program, not a shared object");
    }
  }
  if (!loads || dynamic->p_type != PT_DYNAMIC || !is_loaded(self, header, dynamic->p_vaddr, dynamic->p_filesz)) {
    return refuse(self, "it has no segment to load, or no dynamic segment");
  }
  return CRK_OK;
}

/* Checks the tables that the loader uses to relocate and to find symbols. */
static crk_status_t check_dynamic(const image_t *self, const header_t *header, const segment_t *dynamic) {
  /* The tag of a table's address, and the tag of its size, or 0 where the size has no tag. */
  static const struct {
    int64_t address, size;
    bool needed;
  } tables[] = {
      {DT_STRTAB, DT_STRSZ, true},     {DT_SYMTAB, 0, true}, {DT_RELA, DT_RELASZ, false}, {DT_REL, DT_RELSZ, false},
      {DT_JMPREL, DT_PLTRELSZ, false}, {DT_HASH, 0, false},  {DT_GNU_HASH, 0, false},     {DT_VERSYM, 0, false},
  };
  const uint64_t count = (uint64_t)dynamic->p_filesz / sizeof(dynamic_t);
  for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
    bool found = false;
    uint64_t address = 0;
    uint64_t bytes = tables[t].address == DT_SYMTAB ? sizeof(symbol_t) : 1;
    for (uint64_t i = 0; i < count; i++) {
      dynamic_t entry;
      read_at(self, (uint64_t)dynamic->p_offset + i * sizeof entry, &entry, sizeof entry);
      if (entry.d_tag == DT_NULL) {
        break;
      }
      if (entry.d_tag == tables[t].address) {
        found = true;
        address = entry.d_un.d_ptr;
      } else if (tables[t].size != 0 && entry.d_tag == tables[t].size) {
        bytes = entry.d_un.d_val;
      }
    }
    if (found ? !is_loaded(self, header, address, bytes) : tables[t].needed) {
      return refuse(self, "a table of its dynamic segment is missing or cut off");
    }
  }
  return CRK_OK;
}

static crk_status_t check_image_file(const image_t *self) {
  header_t header;
  segment_t dynamic;
  memset(&dynamic, 0, sizeof dynamic);
  CRK_TRY(check_header(self, &header));
  CRK_TRY(check_sections(self, &header));
  CRK_TRY(check_segments(self, &header, &dynamic));
  return check_dynamic(self, &header, &dynamic);
}

#endif

crk_status_t crk_priv_cpu_image_check(const char *module, const void *data, size_t bytes) {
  const image_t image = {module, data, bytes};
  return check_image_file(&image);
}
