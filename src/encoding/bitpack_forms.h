/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bit packing kernels of one instruction set: what bitpack.c chooses from, and the instantiation of the template for the
 * four word sizes. The including file defines BITPACK_FORMS_NAME, the table that it gives out. */
#ifndef ENCODING_BITPACK_FORMS_H
#define ENCODING_BITPACK_FORMS_H

#include "base/base.h"

/* Kernels by word size: 8, 16, 32, 64 bits. `width` is 1..bits; sizes as bitunpack_1024. */
struct bitpack_forms {
    void (*unpack[4])(unsigned width, const uint8_t *in, uint8_t *out);
    void (*pack[4])(unsigned width, const uint8_t *in, uint8_t *out);
};

extern const struct bitpack_forms bitpack_forms_portable;
#if defined(__x86_64__)
extern const struct bitpack_forms bitpack_forms_avx2;
extern const struct bitpack_forms bitpack_forms_avx512;
#endif

#ifdef BITPACK_FORMS_NAME
/* Order of the groups of eight rows among the values; it is its own inverse. */
static const uint8_t bitpack_order[8] = {0, 4, 2, 6, 1, 5, 3, 7};

#define KERNEL_T uint8_t
#define KERNEL_BITS 8u
#define KERNEL_NAME(verb) verb##_8
#define KERNEL_LE(x) (x)
#include "encoding/bitpack_kernel.h"

#define KERNEL_T uint16_t
#define KERNEL_BITS 16u
#define KERNEL_NAME(verb) verb##_16
#define KERNEL_LE(x) TO_LE16(x)
#include "encoding/bitpack_kernel.h"

#define KERNEL_T uint32_t
#define KERNEL_BITS 32u
#define KERNEL_NAME(verb) verb##_32
#define KERNEL_LE(x) TO_LE32(x)
#include "encoding/bitpack_kernel.h"

#define KERNEL_T uint64_t
#define KERNEL_BITS 64u
#define KERNEL_NAME(verb) verb##_64
#define KERNEL_LE(x) TO_LE64(x)
#include "encoding/bitpack_kernel.h"

const struct bitpack_forms BITPACK_FORMS_NAME = {
    {unpack_8, unpack_16, unpack_32, unpack_64},
    {pack_8, pack_16, pack_32, pack_64},
};
#endif

#endif
