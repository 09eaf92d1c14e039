/* The architectures of AMD GPUs, one line each. A new architecture is a new line.
 *
 * The kernels and the core include this file. build/architectures.rs reads the same lines as text, for the build
 * script, the tests and the examples. */
#ifndef CRK_ARCHITECTURES_H
#define CRK_ARCHITECTURES_H

/* Kinds of SIMD units, after LLVM's AMDGPUBaseInfo.cpp:
 *
 *   lanes of a wave, SIMD units per compute unit, waves per SIMD unit, vector registers per lane of a SIMD unit,
 *   registers per step of an allocation, KiB of shared memory (LDS) per compute unit
 *
 * Two compute units of RDNA form a workgroup processor (WGP). A block there has the SIMD units and the LDS of both. The
 * small GPUs of RDNA 3 have as many registers as RDNA 2. */
#define CRK_SIMD_GCN   64, 4, 10, 256, 4, 64
#define CRK_SIMD_CDNA2 64, 4, 8, 512, 8, 64
#define CRK_SIMD_CDNA4 64, 4, 8, 512, 8, 160
#define CRK_SIMD_RDNA1 32, 2, 20, 1024, 8, 64
#define CRK_SIMD_RDNA2 32, 2, 16, 1024, 16, 64
#define CRK_SIMD_RDNA3 32, 2, 16, 1536, 24, 64

/* XX(id, name, machine, generic, simd, dot4, dot2, matrix, built, card)
 *
 * id       as in the compiler's macro, __gfx1100__
 * name     as the compiler and the runtime spell it
 * machine  the number in e_flags of an ELF, by LLVM's AMDGPU guide
 * generic  the generic target that includes it, or ""
 * simd     CRK_SIMD_...
 * dot4     instruction for the sum of four products of bytes: NONE, SIGNED, or MIXED with a choice of sign per operand
 * dot2     instruction for the sum of two products: NONE, F16, or BOTH f16 and bf16. NONE on gfx90a, where the
 *          instruction flushes subnormal f16 (PyTorch's notes on numerical accuracy, MI200)
 * matrix   matrix cores that kernels use: NONE; MFMA of CDNA 1 (MFMA1: a product of bf16 takes 8 along k, not 16), of
 *          CDNA 2 (MFMA2), of CDNA 3 (MFMA3: 32 bytes along k, not 16) or of CDNA 4 (MFMA4: 32 halves along k too);
 *          WMMA in the layout of RDNA 3 (WMMA3) or of RDNA 4 (WMMA4)
 * built    the words in CANDLE_ROCM_ARCHS that stand for it. GENERIC: `generic`, which is the default where Linux lists
 *          no GPU; COMMON: `common` and `all`; BOTH: these three; RARE: `all`; NAMED: none
 * card     a GPU that a reader may know, or ""
 *
 * A generic target has the features that all its members share. Its code runs on each of them, with HIP's runtime of
 * ROCm 6.4 or later. gfx908 and gfx90a have no generic target. gfx906 has dot products that gfx9-generic lacks. The
 * code for gfx9-4-generic is that for gfx942, instruction by instruction. */
#define CRK_ARCHITECTURE_MAP(XX)                                                                                    \
  XX(gfx700, "gfx700", 0x022, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx701, "gfx701", 0x023, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx801, "gfx801", 0x028, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx802, "gfx802", 0x029, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx803, "gfx803", 0x02a, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx805, "gfx805", 0x03c, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx810, "gfx810", 0x02b, "", GCN, NONE, NONE, NONE, NAMED, "")                                                 \
  XX(gfx900, "gfx900", 0x02c, "gfx9-generic", GCN, NONE, NONE, NONE, RARE, "Radeon RX Vega")                        \
  XX(gfx902, "gfx902", 0x02d, "gfx9-generic", GCN, NONE, NONE, NONE, NAMED, "")                                     \
  XX(gfx904, "gfx904", 0x02e, "gfx9-generic", GCN, NONE, NONE, NONE, NAMED, "")                                     \
  XX(gfx906, "gfx906", 0x02f, "gfx9-generic", GCN, SIGNED, F16, NONE, BOTH, "Instinct MI50, Radeon VII")            \
  XX(gfx908, "gfx908", 0x030, "", GCN, SIGNED, F16, MFMA1, BOTH, "Instinct MI100")                                  \
  XX(gfx909, "gfx909", 0x031, "gfx9-generic", GCN, NONE, NONE, NONE, NAMED, "")                                     \
  XX(gfx90a, "gfx90a", 0x03f, "", CDNA2, SIGNED, NONE, MFMA2, BOTH, "Instinct MI200")                               \
  XX(gfx90c, "gfx90c", 0x032, "gfx9-generic", GCN, NONE, NONE, NONE, NAMED, "")                                     \
  XX(gfx940, "gfx940", 0x040, "gfx9-4-generic", CDNA2, SIGNED, F16, MFMA3, NAMED, "")                               \
  XX(gfx941, "gfx941", 0x04b, "gfx9-4-generic", CDNA2, SIGNED, F16, MFMA3, NAMED, "")                               \
  XX(gfx942, "gfx942", 0x04c, "gfx9-4-generic", CDNA2, SIGNED, F16, MFMA3, COMMON, "Instinct MI300")                \
  XX(gfx950, "gfx950", 0x04f, "gfx9-4-generic", CDNA4, SIGNED, BOTH, MFMA4, COMMON, "Instinct MI350")               \
  XX(gfx1010, "gfx1010", 0x033, "gfx10-1-generic", RDNA1, NONE, NONE, NONE, RARE, "Radeon RX 5700")                 \
  XX(gfx1011, "gfx1011", 0x034, "gfx10-1-generic", RDNA1, SIGNED, F16, NONE, NAMED, "")                             \
  XX(gfx1012, "gfx1012", 0x035, "gfx10-1-generic", RDNA1, SIGNED, F16, NONE, RARE, "Radeon RX 5500")                \
  XX(gfx1013, "gfx1013", 0x042, "gfx10-1-generic", RDNA1, NONE, NONE, NONE, NAMED, "")                              \
  XX(gfx1030, "gfx1030", 0x036, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, COMMON, "Radeon RX 6800 and 6900")     \
  XX(gfx1031, "gfx1031", 0x037, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, RARE, "Radeon RX 6700")                \
  XX(gfx1032, "gfx1032", 0x038, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, RARE, "Radeon RX 6600")                \
  XX(gfx1033, "gfx1033", 0x039, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, NAMED, "")                             \
  XX(gfx1034, "gfx1034", 0x03e, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, RARE, "Radeon RX 6500")                \
  XX(gfx1035, "gfx1035", 0x03d, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, RARE, "Ryzen 6000")                    \
  XX(gfx1036, "gfx1036", 0x045, "gfx10-3-generic", RDNA2, SIGNED, F16, NONE, RARE, "Ryzen 7000")                    \
  XX(gfx1100, "gfx1100", 0x041, "gfx11-generic", RDNA3, MIXED, BOTH, WMMA3, COMMON, "Radeon RX 7900")               \
  XX(gfx1101, "gfx1101", 0x046, "gfx11-generic", RDNA3, MIXED, BOTH, WMMA3, COMMON, "Radeon RX 7700 and 7800")      \
  XX(gfx1102, "gfx1102", 0x047, "gfx11-generic", RDNA2, MIXED, BOTH, WMMA3, COMMON, "Radeon RX 7600")               \
  XX(gfx1103, "gfx1103", 0x044, "gfx11-generic", RDNA2, MIXED, BOTH, WMMA3, RARE, "Ryzen 7040 and 8040")            \
  XX(gfx1150, "gfx1150", 0x043, "gfx11-generic", RDNA2, MIXED, BOTH, WMMA3, COMMON, "Ryzen AI 300: Strix Point")    \
  XX(gfx1151, "gfx1151", 0x04a, "gfx11-generic", RDNA3, MIXED, BOTH, WMMA3, COMMON, "Ryzen AI Max 300: Strix Halo") \
  XX(gfx1152, "gfx1152", 0x055, "gfx11-generic", RDNA2, MIXED, BOTH, WMMA3, RARE, "Ryzen AI 300: Krackan Point")    \
  XX(gfx1153, "gfx1153", 0x058, "gfx11-generic", RDNA2, MIXED, BOTH, WMMA3, RARE, "Ryzen AI 300, small")            \
  XX(gfx1200, "gfx1200", 0x048, "gfx12-generic", RDNA3, MIXED, BOTH, WMMA4, COMMON, "Radeon RX 9060")               \
  XX(gfx1201, "gfx1201", 0x04e, "gfx12-generic", RDNA3, MIXED, BOTH, WMMA4, COMMON, "Radeon RX 9070")               \
  XX(gfx1250, "gfx1250", 0x049, "", RDNA2, MIXED, NONE, NONE, NAMED, "")                                            \
  XX(gfx9_generic, "gfx9-generic", 0x051, "", GCN, NONE, NONE, NONE, GENERIC, "")                                   \
  XX(gfx9_4_generic, "gfx9-4-generic", 0x05f, "", CDNA2, SIGNED, F16, MFMA3, GENERIC, "")                           \
  XX(gfx10_1_generic, "gfx10-1-generic", 0x052, "", RDNA1, NONE, NONE, NONE, GENERIC, "")                           \
  XX(gfx10_3_generic, "gfx10-3-generic", 0x053, "", RDNA2, SIGNED, F16, NONE, GENERIC, "")                          \
  XX(gfx11_generic, "gfx11-generic", 0x054, "", RDNA2, MIXED, BOTH, WMMA3, GENERIC, "")                             \
  XX(gfx12_generic, "gfx12-generic", 0x059, "", RDNA3, MIXED, BOTH, WMMA4, GENERIC, "")

/* Columns of the architecture that device code is compiled for, for use in #if. The compiler defines a macro such as
 * __gfx1100__ as 1 for that architecture. In #if, the names of the others are 0. An architecture without a line has 0
 * in all columns. */
#define CRK_ARCH_LANES     (0 CRK_ARCHITECTURE_MAP(CRK_ARCH_LANES_))
#define CRK_ARCH_REGISTERS (0 CRK_ARCHITECTURE_MAP(CRK_ARCH_REGISTERS_))
#define CRK_ARCH_DOT4      (0 CRK_ARCHITECTURE_MAP(CRK_ARCH_DOT4_))
#define CRK_ARCH_DOT2      (0 CRK_ARCHITECTURE_MAP(CRK_ARCH_DOT2_))
#define CRK_ARCH_MATRIX    (0 CRK_ARCHITECTURE_MAP(CRK_ARCH_MATRIX_))
#define CRK_DOT4_NONE      0
#define CRK_DOT4_SIGNED    1
#define CRK_DOT4_MIXED     2
#define CRK_DOT2_NONE      0
#define CRK_DOT2_F16       1
#define CRK_DOT2_BOTH      2
#define CRK_MATRIX_NONE    0
#define CRK_MATRIX_MFMA1   1
#define CRK_MATRIX_MFMA2   2
#define CRK_MATRIX_MFMA3   3
#define CRK_MATRIX_MFMA4   4
#define CRK_MATRIX_WMMA3   5
#define CRK_MATRIX_WMMA4   6
/* Whether an item of the column is one of the four MFMA. */
#define CRK_MATRIX_IS_MFMA(item) ((item) >= CRK_MATRIX_MFMA1 && (item) <= CRK_MATRIX_MFMA4)

#define CRK_ARCH_LANES_(id, name, machine, generic, simd, ...) \
  +__##id##__ *CRK_SIMD_ITEM(CRK_FIRST_ITEM, CRK_SIMD_##simd)
#define CRK_ARCH_REGISTERS_(id, name, machine, generic, simd, ...) \
  +__##id##__ *CRK_SIMD_ITEM(CRK_FOURTH_ITEM, CRK_SIMD_##simd)
#define CRK_ARCH_DOT4_(id, name, machine, generic, simd, dot4, ...)                 +__##id##__ *CRK_DOT4_##dot4
#define CRK_ARCH_DOT2_(id, name, machine, generic, simd, dot4, dot2, ...)           +__##id##__ *CRK_DOT2_##dot2
#define CRK_ARCH_MATRIX_(id, name, machine, generic, simd, dot4, dot2, matrix, ...) +__##id##__ *CRK_MATRIX_##matrix
#define CRK_SIMD_ITEM(ITEM, ...)                                                    ITEM(__VA_ARGS__)
#define CRK_FIRST_ITEM(a, ...)                                                      a
#define CRK_FOURTH_ITEM(a, b, c, d, ...)                                            d

#endif
