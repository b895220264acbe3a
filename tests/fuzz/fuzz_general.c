/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* General framing: arbitrary bytes never give more than the caller allows; what is framed comes back. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct buf out, framed;
    buf_init(&out, mem, 1u << 20);
    buf_init(&framed, mem, BUF_NO_LIMIT);
    const enum general_scheme scheme = (enum general_scheme)(fuzz_byte(&in) % 4);
    const uint64_t max = (uint64_t)fuzz_u16(&in) * 8;
    uint8_t *bytes = fuzz_copy(in.at, in.left);
    const struct bytes whole = bytes_of(bytes, in.left);
    if (general_decode(scheme, whole, max, &out, &err) == PENNON_OK) FUZZ_CHECK(out.size <= max);
    out.size = 0;
    if (scheme <= GENERAL_ZSTD && whole.size <= out.max) {
        FUZZ_CHECK(general_encode(scheme, 0, whole, &framed, &err) == PENNON_OK);
        FUZZ_CHECK(general_decode(scheme, bytes_of(framed.data, framed.size), whole.size, &out, &err) == PENNON_OK);
        FUZZ_CHECK(bytes_equal(bytes_of(out.data, out.size), whole));
    }
    free(bytes);
    buf_free(&out);
    buf_free(&framed);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
