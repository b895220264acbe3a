/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Run lengths of arbitrary bytes: never a crash, and what expands encodes back to the same values. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct buf again;
    struct bytes values, lengths;
    buf_init(&again, mem, BUF_NO_LIMIT);
    const unsigned width = 1u << (fuzz_byte(&in) % 4);
    const bool clamp = fuzz_byte(&in) & 1;
    const size_t n = fuzz_u16(&in);
    uint8_t *bytes = fuzz_copy(in.at, in.left);
    uint8_t *out = malloc(n * width + 1), *back = malloc(n * width + 1);
    FUZZ_CHECK(out && back);
    if (rle_block_open(bytes_of(bytes, in.left), &values, &lengths, &err) == PENNON_OK &&
        rle_expand(width, values, lengths, clamp, n, out, &err) == PENNON_OK) {
        FUZZ_CHECK(n == 0 || rle_count_runs(width, out, n) <= lengths.size);
        FUZZ_CHECK(rle_block_encode(width, out, n, &again, &err) == PENNON_OK);
        FUZZ_CHECK(rle_block_open(bytes_of(again.data, again.size), &values, &lengths, &err) == PENNON_OK);
        FUZZ_CHECK(rle_expand(width, values, lengths, false, n, back, &err) == PENNON_OK);
        FUZZ_CHECK(memcmp(out, back, n * width) == 0);
    }
    free(out);
    free(back);
    free(bytes);
    buf_free(&again);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
