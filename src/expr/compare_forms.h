/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The table of comparison kernels, one for each instruction set, and the choice among them. */
#ifndef EXPR_COMPARE_FORMS_H
#define EXPR_COMPARE_FORMS_H

#include "base/base.h"

/* How the bits of a value are to be ordered. */
enum compare_key { KEY_SIGNED, KEY_UNSIGNED, KEY_FLOAT };

/* n rows of `values` with one value, or with as many others; word_count(n) words are written, bits behind the last row are zero. */
typedef void (*compare_fn)(const uint8_t *values, const uint8_t *other, uint64_t *out, size_t n);

/* Indices: enum compare_key, then log2 of the bytes of a value. */
struct compare_forms {
    compare_fn literal_eq[4], pair_eq[4];
    compare_fn literal_lt[3][4], literal_gt[3][4], pair_lt[3][4];
    /* Texts of `size` bytes by their 32 or 64 bit offsets. */
    void (*sizes[2])(const uint8_t *offsets, uint64_t size, uint64_t *out, size_t n);
    /* Bit i of the n / 64 + 1 words: the needle, of one byte or more, begins at text[i]. */
    void (*find)(const uint8_t *text, size_t n, const uint8_t *needle, size_t size, uint64_t *places);
};

extern const struct compare_forms compare_forms_portable;
#if defined(__x86_64__)
extern const struct compare_forms compare_forms_avx2;
#endif

static inline const struct compare_forms *compare_forms_best(void)
{
#if defined(__x86_64__)
    if (cpu_level() >= CPU_AVX2) return &compare_forms_avx2;
#endif
    return &compare_forms_portable;
}

#endif
