/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Variable width forms of arbitrary bytes: what opens has values inside the input, and encodes back to the same values. */
#include "codec_fuzz.h"

/* Touch every value, and write the view again. */
static void use_view(const struct variable_view *v, struct mem *mem, pennon_error *err)
{
    struct buf chunk;
    struct variable_view again;
    uint64_t *offsets = malloc((size_t)(v->n + 1) * 8);
    unsigned sum = 0;
    buf_init(&chunk, mem, BUF_NO_LIMIT);
    FUZZ_CHECK(offsets != NULL);
    FUZZ_CHECK(variable_offsets_copy(v, 0, v->n, variable_offset(v, 0), 8, offsets, err) == PENNON_OK);
    FUZZ_CHECK(variable_chunk_encode(8, offsets, v->n, v->base.data, &chunk, err) == PENNON_OK);
    FUZZ_CHECK(variable_chunk_open(bytes_of(chunk.data, chunk.size), 8, v->n, &again, err) == PENNON_OK);
    for (uint64_t i = 0; i < v->n; i++) {
        const struct bytes value = variable_value(v, i);
        FUZZ_CHECK(bytes_equal(value, variable_value(&again, i)));
        for (size_t b = 0; b < value.size; b++) sum += value.data[b];
    }
    UNUSED(sum);
    free(offsets);
    buf_free(&chunk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct variable_view view;
    const unsigned form = fuzz_byte(&in);
    const uint64_t n = form & 8 ? UINT64_MAX - fuzz_u16(&in) : fuzz_u16(&in);
    uint8_t *bytes = fuzz_copy(in.at, in.left);
    const struct bytes whole = bytes_of(bytes, in.left);
    const pennon_status st =
        form & 1 ? variable_block_open(whole, n, &view, &err) : variable_chunk_open(whole, form & 2 ? 4 : 8, n, &view, &err);
    if (st == PENNON_OK) use_view(&view, mem, &err);
    free(bytes);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
