/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Byte stream split: byte j of value i of n stands at j * n + i, so that bytes of the same weight are neighbours and a general
 * compressor behind finds them alike. Values are little endian.
 *
 * Source: spec file-format 8.8. */
#include "encoding/codec.h"

/* `width` is a constant in each caller, so that the inner loops unroll and vectorise over i. */
static ALWAYS_INLINE void streams_join(unsigned width, const uint8_t *restrict in, size_t n, uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 0;
        for (unsigned j = 0; j < width; j++) v |= (uint64_t)in[j * n + i] << (8 * j);
        if (width == 4) {
            store_u32(out + i * 4, (uint32_t)v);
        } else {
            store_u64(out + i * 8, v);
        }
    }
}

static ALWAYS_INLINE void streams_split(unsigned width, const uint8_t *restrict in, size_t n, uint8_t *restrict out)
{
    for (unsigned j = 0; j < width; j++) {
        for (size_t i = 0; i < n; i++) out[j * n + i] = in[i * width + j];
    }
}

void bss_decode(unsigned width, const uint8_t *in, size_t n, uint8_t *out)
{
    ASSERT(width == 4 || width == 8);
    if (width == 4) {
        streams_join(4, in, n, out);
    } else {
        streams_join(8, in, n, out);
    }
}

void bss_encode(unsigned width, const uint8_t *in, size_t n, uint8_t *out)
{
    ASSERT(width == 4 || width == 8);
    if (width == 4) {
        streams_split(4, in, n, out);
    } else {
        streams_split(8, in, n, out);
    }
}
