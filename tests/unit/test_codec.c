/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Run lengths, byte stream split, variable width values, general framing and bit ranges. */
#include "codec_fixture.h"
#include "encoding/codec.h"

static const unsigned widths[] = {1, 2, 4, 8};

/* ---- run lengths ---- */

/* Runs of many lengths: short ones, 255, 256, 1000. */
static size_t runs_fill(unsigned width, uint8_t *out, size_t n)
{
    static const size_t lengths[] = {1, 2, 3, 255, 7, 256, 1, 1000, 64, 65};
    size_t i = 0;
    size_t runs = 0;
    while (i < n) {
        const uint64_t v = scramble(runs) | 1;
        const size_t length = lengths[runs % ARRAY_LEN(lengths)];
        for (size_t k = 0; k < length && i < n; k++, i++) memcpy(out + i * width, &v, width);
        runs++;
    }
    return runs;
}

static void test_encoding_rle__round_trip(void **state)
{
    struct fixture *f = *state;
    static const size_t counts[] = {0, 1, 2, 63, 64, 65, 300, 4096, 5000};
    uint8_t in[5000 * 8];
    for (size_t s = 0; s < ARRAY_LEN(widths); s++) {
        const unsigned w = widths[s];
        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
            const size_t n = counts[c];
            uint8_t *out = malloc(n * w + 1); /* exact, so that a write past the end is seen */
            struct bytes values, lengths;
            (void)runs_fill(w, in, n);
            f->buf.size = 0;
            assert_ok(f, rle_block_encode(w, in, n, &f->buf, &f->err));
            assert_ok(f, rle_block_open(bytes_of(f->buf.data, f->buf.size), &values, &lengths, &f->err));
            assert_ok(f, rle_expand(w, values, lengths, false, n, out, &f->err));
            assert_memory_equal(out, in, n * w);
            if (n > 2) {
                assert_ok(f, rle_expand(w, values, lengths, true, n - 1, out, &f->err));
                assert_int_equal(rle_expand(w, values, lengths, false, n - 1, out, &f->err), PENNON_CORRUPT);
            }
            free(out);
        }
    }
}

static void test_encoding_rle__count(void **state)
{
    UNUSED(state);
    uint8_t in[5000 * 16];
    for (size_t s = 0; s < ARRAY_LEN(widths); s++) {
        for (size_t n = 0; n <= 5000; n += 1 + n / 3) {
            /* Neighbouring runs of one byte may be equal by chance: count again, simply. */
            const unsigned w = widths[s];
            (void)runs_fill(w, in, n);
            size_t runs = n > 0;
            for (size_t i = 1; i < n; i++) runs += memcmp(in + (i - 1) * w, in + i * w, w) != 0;
            assert_int_equal(rle_count_runs(w, in, n), runs);
        }
    }
    memset(in, 0, sizeof in);
    in[16 * 7 + 3] = 1;
    assert_int_equal(rle_count_runs(16, in, 5000), 3);
}

static void test_encoding_rle__chunk_values(void **state)
{
    UNUSED(state);
    uint32_t in[9000];
    for (uint32_t i = 0; i < 9000; i++) in[i] = i;
    assert_int_equal(rle_chunk_values(4, in, 9000, 8186, 4096), 1024); /* 1637 pairs fit */
    assert_int_equal(rle_chunk_values(4, in, 1600, 8186, 4096), 1600); /* the last chunk may have any count */
    memset(in, 0, sizeof in);
    assert_int_equal(rle_chunk_values(4, in, 9000, 8186, 4096), 4096);
    assert_int_equal(rle_chunk_values(4, in, 4000, 8186, 4096), 4000);
    assert_int_equal(rle_chunk_values(4, in, 1, 8186, 4096), 1);
}

static void test_encoding_rle__refuses(void **state)
{
    struct fixture *f = *state;
    static const uint8_t values[] = {1, 2, 3};
    static const uint8_t lengths[] = {2, 0, 2};
    struct bytes some, others;
    uint8_t out[16];
    const struct bytes v = bytes_of(values, 3), l = bytes_of(lengths, 3);
    assert_int_equal(rle_expand(1, v, l, true, 4, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(rle_expand(1, v, l, true, 2, out, &f->err), PENNON_OK); /* what is behind the end is not looked at */
    assert_int_equal(rle_expand(1, bytes_of(values, 2), l, true, 2, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(rle_expand(2, v, l, true, 2, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(rle_expand(1, bytes_of(values, 1), bytes_of(lengths, 1), true, 3, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(rle_expand(1, bytes_of(NULL, 0), bytes_of(NULL, 0), false, 0, out, &f->err), PENNON_OK);
    assert_int_equal(rle_block_open(bytes_of(out, 7), &some, &others, &f->err), PENNON_CORRUPT);
    store_u64(out, 9);
    assert_int_equal(rle_block_open(bytes_of(out, 16), &some, &others, &f->err), PENNON_CORRUPT);
    store_u64(out, UINT64_MAX);
    assert_int_equal(rle_block_open(bytes_of(out, 16), &some, &others, &f->err), PENNON_CORRUPT);
}

/* ---- byte stream split ---- */

static void test_encoding_bss__layout_and_round_trip(void **state)
{
    UNUSED(state);
    uint8_t in[1024 * 8], split[1024 * 8], back[1024 * 8];
    for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)scramble(i);
    for (unsigned w = 4; w <= 8; w += 4) {
        for (size_t n = 0; n <= 1024; n += 1 + n / 2) {
            bss_encode(w, in, n, split);
            for (size_t i = 0; i < n; i++) {
                for (unsigned j = 0; j < w; j++) assert_int_equal(split[j * n + i], in[i * w + j]);
            }
            bss_decode(w, split, n, back);
            assert_memory_equal(back, in, n * w);
        }
    }
}

/* ---- variable width ---- */

static void test_encoding_variable__chunk_layout(void **state)
{
    struct fixture *f = *state;
    static const uint32_t offsets[] = {3, 5, 5, 6};
    static const uint8_t expected[] = {16, 0, 0, 0, 18, 0, 0, 0, 18, 0, 0, 0, 19, 0, 0, 0, 'd', 'e', 'f', 0x48};
    struct variable_view view;
    assert_ok(f, variable_chunk_encode(4, offsets, 3, (const uint8_t *)"abcdefg", &f->buf, &f->err));
    assert_int_equal(f->buf.size, sizeof expected);
    assert_memory_equal(f->buf.data, expected, sizeof expected);
    assert_ok(f, variable_chunk_open(bytes_of(f->buf.data, f->buf.size), 4, 3, &view, &f->err));
    assert_true(bytes_equal(variable_value(&view, 0), bytes_str("de")));
    assert_true(bytes_equal(variable_value(&view, 1), bytes_str("")));
    assert_true(bytes_equal(variable_value(&view, 2), bytes_str("f")));
}

static void test_encoding_variable__block_round_trip(void **state)
{
    struct fixture *f = *state;
    static const uint64_t wide[] = {2, 4, 4, 7};
    static const uint32_t narrow[] = {2, 4, 4, 7};
    struct variable_view view;
    for (unsigned w = 4; w <= 8; w += 4) {
        f->buf.size = 0;
        const void *offsets = w == 4 ? (const void *)narrow : (const void *)wide;
        assert_ok(f, variable_block_encode(w, offsets, 3, (const uint8_t *)"abcdefg", &f->buf, &f->err));
        assert_int_equal(f->buf.size, 2 * w + 4 * w + 5);
        const struct bytes in = bytes_of(f->buf.data, f->buf.size);
        assert_ok(f, variable_block_open(in, 3, &view, &f->err));
        assert_true(bytes_equal(variable_value(&view, 0), bytes_str("cd")));
        assert_true(bytes_equal(variable_value(&view, 2), bytes_str("efg")));
        assert_int_equal(variable_block_open(in, 4, &view, &f->err), PENNON_CORRUPT);
        assert_int_equal(variable_block_open(bytes_of(in.data, in.size - 1), 3, &view, &f->err), PENNON_CORRUPT);
    }
}

static void test_encoding_variable__obsolete_head(void **state)
{
    struct fixture *f = *state;
    static const uint8_t narrow[] = {32, 2, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 'x', 'y', 'z'};
    static const uint8_t wide[] = {64, 1, 0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0,   0,  0,
                                   0,  0, 0, 0, 0, 0, 0, 2, 0, 0,  0, 0, 0, 0, 0, 'h', 'i'};
    struct variable_view view;
    assert_ok(f, variable_block_open(bytes_of(narrow, sizeof narrow), 2, &view, &f->err));
    assert_true(bytes_equal(variable_value(&view, 1), bytes_str("yz")));
    assert_int_equal(variable_block_open(bytes_of(narrow, sizeof narrow), 3, &view, &f->err), PENNON_CORRUPT);
    assert_ok(f, variable_block_open(bytes_of(wide, sizeof wide), 1, &view, &f->err));
    assert_true(bytes_equal(variable_value(&view, 0), bytes_str("hi")));
}

static void test_encoding_variable__refuses(void **state)
{
    struct fixture *f = *state;
    struct variable_view view;
    uint8_t chunk[20];
    static const uint32_t good[] = {16, 18, 18, 20};
    for (size_t i = 0; i < 4; i++) store_u32(chunk + 4 * i, good[i]);
    memset(chunk + 16, 'a', 4);
    assert_int_equal(variable_chunk_open(bytes_of(chunk, 20), 4, 3, &view, &f->err), PENNON_OK);
    assert_int_equal(variable_chunk_open(bytes_of(chunk, 19), 4, 3, &view, &f->err), PENNON_CORRUPT);
    assert_int_equal(variable_chunk_open(bytes_of(chunk, 15), 4, 3, &view, &f->err), PENNON_CORRUPT);
    assert_int_equal(variable_chunk_open(bytes_of(chunk, 20), 4, UINT64_MAX, &view, &f->err), PENNON_CORRUPT);
    assert_int_equal(variable_chunk_open(bytes_of(chunk, 20), 8, 2, &view, &f->err), PENNON_CORRUPT);
    store_u32(chunk + 4, 19);
    assert_int_equal(variable_chunk_open(bytes_of(chunk, 20), 4, 3, &view, &f->err), PENNON_CORRUPT);
    store_u32(chunk, 33); /* a head with other offsets than 32 and 64 bits */
    assert_int_equal(variable_block_open(bytes_of(chunk, 20), 1, &view, &f->err), PENNON_CORRUPT);
}

static void test_encoding_variable__offsets_copy(void **state)
{
    struct fixture *f = *state;
    static const uint32_t offsets[] = {0, 10, 20, 40};
    static const uint8_t data[40];
    struct variable_view view;
    uint32_t narrow[3];
    uint64_t wide[3];
    assert_ok(f, variable_chunk_encode(4, offsets, 3, data, &f->buf, &f->err));
    assert_ok(f, variable_chunk_open(bytes_of(f->buf.data, f->buf.size), 4, 3, &view, &f->err));
    assert_ok(f, variable_offsets_copy(&view, 1, 2, 1000, 4, narrow, &f->err));
    assert_int_equal(narrow[0], 1000);
    assert_int_equal(narrow[1], 1010);
    assert_int_equal(narrow[2], 1030);
    assert_ok(f, variable_offsets_copy(&view, 1, 2, UINT64_C(1) << 40, 8, wide, &f->err));
    assert_true(wide[2] == (UINT64_C(1) << 40) + 30);
    assert_int_equal(variable_offsets_copy(&view, 1, 2, INT32_MAX - 29, 4, narrow, &f->err), PENNON_OVER_BUDGET);
    assert_ok(f, variable_offsets_copy(&view, 1, 2, INT32_MAX - 30, 4, narrow, &f->err));
}

/* ---- general ---- */

static void test_encoding_general__round_trip(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {0, 1, 100, 70000};
    uint8_t *in = malloc(70000);
    struct buf back;
    buf_init(&back, f->mem, BUF_NO_LIMIT);
    for (size_t i = 0; i < 70000; i++) in[i] = (uint8_t)(i / 100);
    for (int scheme = GENERAL_NONE; scheme <= GENERAL_ZSTD; scheme++) {
        for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
            uint64_t size = 0;
            f->buf.size = back.size = 0;
            assert_ok(f, general_encode((enum general_scheme)scheme, 0, bytes_of(in, sizes[s]), &f->buf, &f->err));
            const struct bytes framed = bytes_of(f->buf.data, f->buf.size);
            assert_ok(f, general_decoded_size((enum general_scheme)scheme, framed, &size, &f->err));
            assert_int_equal(size, sizes[s]);
            assert_ok(f, general_decode((enum general_scheme)scheme, framed, sizes[s], &back, &f->err));
            assert_int_equal(back.size, sizes[s]);
            assert_memory_equal(back.data ? back.data : in, in, sizes[s]);
            if (sizes[s] == 0) continue;
            assert_int_equal(general_decode((enum general_scheme)scheme, framed, sizes[s] - 1, &back, &f->err), PENNON_CORRUPT);
        }
    }
    buf_free(&back);
    free(in);
}

/* One zstd frame without the size word in front. */
static void test_encoding_general__bare_zstd_frame(void **state)
{
    struct fixture *f = *state;
    struct buf back;
    buf_init(&back, f->mem, BUF_NO_LIMIT);
    static const size_t sizes[] = {5, 300, 70000};
    uint8_t *in = calloc(1, 70000);
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        f->buf.size = back.size = 0;
        assert_ok(f, general_encode(GENERAL_ZSTD, 3, bytes_of(in, sizes[s]), &f->buf, &f->err));
        const struct bytes bare = bytes_of(f->buf.data + 8, f->buf.size - 8);
        assert_ok(f, general_decode(GENERAL_ZSTD, bare, sizes[s], &back, &f->err));
        assert_int_equal(back.size, sizes[s]);
        assert_memory_equal(back.data, in, sizes[s]);
    }
    buf_free(&back);
    free(in);
}

static void test_encoding_general__lying_sizes(void **state)
{
    struct fixture *f = *state;
    static const uint8_t text[64];
    struct buf back;
    buf_init(&back, f->mem, 4096);
    for (int scheme = GENERAL_LZ4; scheme <= GENERAL_ZSTD; scheme++) {
        f->buf.size = 0;
        assert_ok(f, general_encode((enum general_scheme)scheme, 0, bytes_of(text, 64), &f->buf, &f->err));
        static const uint32_t lies[] = {63, 65, UINT32_MAX};
        for (size_t k = 0; k < ARRAY_LEN(lies); k++) {
            store_u32(f->buf.data, lies[k]);
            assert_int_not_equal(
                general_decode((enum general_scheme)scheme, bytes_of(f->buf.data, f->buf.size), UINT64_MAX, &back, &f->err),
                PENNON_OK);
        }
        assert_int_not_equal(general_decode((enum general_scheme)scheme, bytes_of(f->buf.data, 3), 100, &back, &f->err), PENNON_OK);
    }
    assert_int_equal(general_decode((enum general_scheme)9, bytes_of(text, 64), 100, &back, &f->err), PENNON_NOT_SUPPORTED);
    buf_free(&back);
}

/* ---- bits ---- */

#define BITS 400u

static void test_encoding_bits__copy_fill_count(void **state)
{
    UNUSED(state);
    uint8_t src[BITS / 8], dst[BITS / 8], expected[BITS / 8];
    for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)scramble(i);
    for (unsigned to = 0; to < 20; to += 3) {
        for (unsigned from = 0; from < 20; from++) {
            for (unsigned n = 0; n + 20 <= BITS; n += 1 + n / 7) {
                memset(dst, 0xA5, sizeof dst);
                memset(expected, 0xA5, sizeof expected);
                uint64_t set = 0;
                for (unsigned i = 0; i < n; i++) {
                    set += bit_get(src, from + i);
                    bit_get(src, from + i) ? bit_set(expected, to + i) : bit_clear(expected, to + i);
                }
                bits_copy(dst, to, src, from, n);
                assert_memory_equal(dst, expected, sizeof dst);
                assert_int_equal(bits_count(src, from, n), set);
                for (unsigned i = 0; i < n; i++) from % 2 ? bit_set(expected, to + i) : bit_clear(expected, to + i);
                bits_fill(dst, to, n, from % 2);
                assert_memory_equal(dst, expected, sizeof dst);
            }
        }
    }
}

static void test_encoding_bits__runs(void **state)
{
    UNUSED(state);
    uint8_t bits[BITS / 8];
    for (unsigned length = 1; length <= 150; length += 7) {
        for (unsigned i = 0; i < BITS; i++) i / length % 2 ? bit_set(bits, i) : bit_clear(bits, i);
        for (unsigned from = 0; from < BITS; from += 3) {
            unsigned run = 1;
            while (from + run < BITS && bit_get(bits, from + run) == bit_get(bits, from)) run++;
            assert_int_equal(bits_run(bits, from, BITS - from), run);
            assert_int_equal(bits_run(bits, from, 1), 1);
        }
    }
}

static void test_encoding_bits__bytes_and_levels(void **state)
{
    UNUSED(state);
    uint8_t bytes[300], bits[48], expected[48], back[300];
    uint16_t levels[300];
    for (size_t i = 0; i < 300; i++) {
        bytes[i] = (uint8_t)(scramble(i) % 3 == 0 ? 0 : scramble(i) >> 40 | 1);
        levels[i] = (uint16_t)(scramble(i) % 5);
    }
    for (unsigned to = 0; to < 10; to++) {
        for (unsigned n = 0; n <= 300; n += 1 + n / 5) {
            memset(bits, 0x5A, sizeof bits);
            memset(expected, 0x5A, sizeof expected);
            for (unsigned i = 0; i < n; i++) bytes[i] ? bit_set(expected, to + i) : bit_clear(expected, to + i);
            bits_from_bytes(bits, to, bytes, n);
            assert_memory_equal(bits, expected, sizeof bits);
            bits_to_bytes(back, bits, to, n);
            for (unsigned i = 0; i < n; i++) assert_int_equal(back[i], bytes[i] != 0);
            for (unsigned i = 0; i < n; i++) levels[i] <= 2 ? bit_set(expected, to + i) : bit_clear(expected, to + i);
            bits_from_levels(bits, to, levels, 2, n);
            assert_memory_equal(bits, expected, sizeof bits);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_encoding_rle__round_trip),
        FIXTURE_TEST(test_encoding_rle__count),
        FIXTURE_TEST(test_encoding_rle__chunk_values),
        FIXTURE_TEST(test_encoding_rle__refuses),
        FIXTURE_TEST(test_encoding_bss__layout_and_round_trip),
        FIXTURE_TEST(test_encoding_variable__chunk_layout),
        FIXTURE_TEST(test_encoding_variable__block_round_trip),
        FIXTURE_TEST(test_encoding_variable__obsolete_head),
        FIXTURE_TEST(test_encoding_variable__refuses),
        FIXTURE_TEST(test_encoding_variable__offsets_copy),
        FIXTURE_TEST(test_encoding_general__round_trip),
        FIXTURE_TEST(test_encoding_general__bare_zstd_frame),
        FIXTURE_TEST(test_encoding_general__lying_sizes),
        FIXTURE_TEST(test_encoding_bits__copy_fill_count),
        FIXTURE_TEST(test_encoding_bits__runs),
        FIXTURE_TEST(test_encoding_bits__bytes_and_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
