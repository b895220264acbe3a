/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* FSST: arbitrary tables and codes never crash; arbitrary values come back after training and compression. */
#include "codec_fuzz.h"

/* Arbitrary codes as values: all at once is what one by one is, and fails where one does. */
static void decode_together(const struct fsst_decoder *d, struct bytes in, struct mem *mem, pennon_error *err)
{
    struct buf chunk, one, all;
    struct variable_view view;
    enum { N = 33 };
    uint32_t offsets[N + 1], ends[N + 1], got[N + 1];
    bool good = true;
    buf_init(&chunk, mem, BUF_NO_LIMIT);
    buf_init(&one, mem, BUF_NO_LIMIT);
    buf_init(&all, mem, BUF_NO_LIMIT);
    for (size_t i = 0; i <= N; i++) offsets[i] = (uint32_t)(in.size * i * i / (N * N));
    FUZZ_CHECK(variable_chunk_encode(4, offsets, N, in.data, &chunk, err) == PENNON_OK);
    FUZZ_CHECK(variable_chunk_open(bytes_of(chunk.data, chunk.size), 4, N, &view, err) == PENNON_OK);
    for (size_t i = 0; i < N && good; i++) {
        ends[i] = (uint32_t)one.size;
        good = fsst_decode_value(d, variable_value(&view, i), &one, err) == PENNON_OK;
    }
    ends[N] = (uint32_t)one.size;
    const pennon_status st = fsst_decode_values(d, &view, 0, N, &all, 4, got, err);
    FUZZ_CHECK(good == (st == PENNON_OK));
    FUZZ_CHECK(!good || (all.size == one.size && (one.size == 0 || memcmp(all.data, one.data, one.size) == 0)));
    FUZZ_CHECK(!good || memcmp(ends, got, sizeof ends) == 0);
    buf_free(&chunk);
    buf_free(&one);
    buf_free(&all);
}

static void decode_anything(struct fuzz_input in, struct mem *mem, pennon_error *err)
{
    struct fsst_decoder d;
    struct buf out;
    uint64_t size = 0;
    uint8_t table[FSST_TABLE_SIZE] = {0};
    static const uint8_t magic[4] = {0x54, 0x53, 0x53, 0x46};
    /* The input gives n, then bytes and lengths of the symbols, then codes. */
    const unsigned n = fuzz_byte(&in);
    table[0] = (uint8_t)n;
    table[3] = (uint8_t)(fuzz_byte(&in) != 0);
    memcpy(table + 4, magic, 4);
    for (unsigned i = 0; i < n; i++) {
        const unsigned length = fuzz_byte(&in) % 9;
        table[8 + 8 * n + i] = (uint8_t)(length == 0 && n > 9 ? 1 : length);
        for (unsigned b = 0; b < length; b++) table[8 + 8 * i + b] = (uint8_t)fuzz_byte(&in);
    }
    buf_init(&out, mem, 1u << 20);
    uint8_t *codes = fuzz_copy(in.at, in.left);
    const struct bytes value = bytes_of(codes, in.left);
    if (fsst_decoder_init(&d, bytes_of(table, sizeof table), err) == PENNON_OK) {
        const pennon_status sized = fsst_decoded_size(&d, value, &size, err);
        const pennon_status decoded = fsst_decode_value(&d, value, &out, err);
        FUZZ_CHECK(sized == decoded || decoded == PENNON_OVER_BUDGET);
        FUZZ_CHECK(decoded != PENNON_OK || out.size == size);
        decode_together(&d, value, mem, err);
    }
    free(codes);
    buf_free(&out);
}

static void round_trip(const uint8_t *data, size_t size, struct mem *mem, pennon_error *err)
{
    struct fsst_encoder *e = NULL;
    struct fsst_decoder d;
    struct buf codes, back, chunk;
    struct variable_view view;
    uint8_t table[FSST_TABLE_SIZE];
    uint32_t offsets[34], code_offsets[34], back_offsets[34];
    const size_t n = 33; /* values of growing length, the first of them empty */
    buf_init(&codes, mem, BUF_NO_LIMIT);
    buf_init(&back, mem, BUF_NO_LIMIT);
    buf_init(&chunk, mem, BUF_NO_LIMIT);
    for (size_t i = 0; i <= n; i++) offsets[i] = (uint32_t)(size * i * i / (n * n));
    FUZZ_CHECK(fsst_train(mem, 4, offsets, n, data, &e, err) == PENNON_OK);
    fsst_encoder_table(e, table);
    FUZZ_CHECK(fsst_decoder_init(&d, bytes_of(table, sizeof table), err) == PENNON_OK);
    FUZZ_CHECK(fsst_compress(e, 4, offsets, n, data, &codes, code_offsets, err) == PENNON_OK);
    FUZZ_CHECK(variable_chunk_encode(4, code_offsets, n, codes.data, &chunk, err) == PENNON_OK);
    FUZZ_CHECK(variable_chunk_open(bytes_of(chunk.data, chunk.size), 4, n, &view, err) == PENNON_OK);
    FUZZ_CHECK(fsst_decode_values(&d, &view, 0, n, &back, 4, back_offsets, err) == PENNON_OK);
    FUZZ_CHECK(back.size == size && (size == 0 || memcmp(back.data, data, size) == 0));
    FUZZ_CHECK(memcmp(back_offsets, offsets, sizeof offsets) == 0);
    fsst_encoder_free(e);
    buf_free(&codes);
    buf_free(&back);
    buf_free(&chunk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct fuzz_input in = {data, size};
    if (size > 0 && (data[0] & 1)) {
        (void)fuzz_byte(&in);
        decode_anything(in, mem, &err);
    } else {
        uint8_t *copy = fuzz_copy(data, size);
        round_trip(copy, size, mem, &err);
        free(copy);
    }
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
