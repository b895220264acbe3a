/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bit packing kernels of one instruction set: what bitpack.c chooses from. */
#ifndef ENCODING_BITPACK_FORMS_H
#define ENCODING_BITPACK_FORMS_H

#include "base/base.h"

/* `width` is 1..t_bits; sizes as bitunpack_1024. Plain values are little endian words here. */
struct bitpack_forms {
    void (*unpack)(unsigned t_bits, unsigned width, const uint8_t *in, uint8_t *out);
    void (*pack)(unsigned t_bits, unsigned width, const uint8_t *in, uint8_t *out);
};

extern const struct bitpack_forms bitpack_forms_portable;
#if defined(__x86_64__)
extern const struct bitpack_forms bitpack_forms_avx2;
extern const struct bitpack_forms bitpack_forms_avx512;
#endif

/* Order of the groups of eight rows among the values; it is its own inverse. */
static const uint8_t bitpack_order[8] = {0, 4, 2, 6, 1, 5, 3, 7};

#endif
