/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inline and out-of-line bit packing of arbitrary bytes: never a crash, and what decodes encodes back to the same values. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct buf again;
    buf_init(&again, mem, BUF_NO_LIMIT);
    const unsigned t_bits = 8u << (fuzz_byte(&in) % 4);
    const unsigned width = fuzz_byte(&in) % 70;
    const size_t n = fuzz_u16(&in) % 4100;
    uint8_t *bytes = fuzz_copy(in.at, in.left);
    uint8_t *out = malloc(n * 8 + 1), *back = malloc(n * 8 + 1);
    FUZZ_CHECK(out && back);
    const struct bytes packed = bytes_of(bytes, in.left);
    if (inline_bitpack_decode(t_bits, packed, n, out, &err) == PENNON_OK && n > 0) {
        FUZZ_CHECK(inline_bitpack_encode(t_bits, out, n, &again, &err) == PENNON_OK);
        FUZZ_CHECK(inline_bitpack_decode(t_bits, bytes_of(again.data, again.size), n, back, &err) == PENNON_OK);
        FUZZ_CHECK(memcmp(out, back, n * (t_bits / 8)) == 0);
    }
    again.size = 0;
    if (outline_bitpack_decode(t_bits, width, packed, n, out, &err) == PENNON_OK) {
        /* A raw tail may hold wider values than the groups. */
        const unsigned needed = bitpack_max_width(t_bits, out, n);
        FUZZ_CHECK(outline_bitpack_encode(t_bits, needed, out, n, &again, &err) == PENNON_OK);
        FUZZ_CHECK(outline_bitpack_decode(t_bits, needed, bytes_of(again.data, again.size), n, back, &err) == PENNON_OK);
        FUZZ_CHECK(memcmp(out, back, n * (t_bits / 8)) == 0);
    }
    free(out);
    free(back);
    free(bytes);
    buf_free(&again);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
