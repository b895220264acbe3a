/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bit packing: every width of every word size, in every form of this machine, against the formula of the format. */
#include "codec_fixture.h"
#include "encoding/codec.h"
#include "md5.h"

static const unsigned sizes[] = {8, 16, 32, 64};

static uint64_t word_get(unsigned t, const uint8_t *p, size_t i)
{
    uint64_t v = 0;
    memcpy(&v, p + i * (t / 8), t / 8); /* little-endian machines */
    return TO_LE64(v);
}

static void word_put(unsigned t, uint8_t *p, size_t i, uint64_t v)
{
    v = TO_LE64(v);
    memcpy(p + i * (t / 8), &v, t / 8);
}

/* The definition: lane by lane, row by row, bit by bit. */
static void oracle_pack(unsigned t, unsigned w, const uint64_t *values, uint8_t *out)
{
    static const unsigned order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    const unsigned lanes = 1024 / t;
    memset(out, 0, (size_t)128 * w);
    for (unsigned lane = 0; lane < lanes; lane++) {
        for (unsigned row = 0; row < t; row++) {
            const uint64_t v = values[16 * order[row / 8] + 128 * (row % 8) + lane];
            for (unsigned b = 0; b < w; b++) {
                const unsigned p = row * w + b;
                const size_t word = (size_t)(p / t) * lanes + lane;
                if ((v >> b) & 1) word_put(t, out, word, word_get(t, out, word) | UINT64_C(1) << (p % t));
            }
        }
    }
}

static void fill(unsigned t, unsigned w, uint64_t seed, uint64_t *values, uint8_t *words)
{
    const uint64_t mask = w == 0 ? 0 : UINT64_MAX >> (64 - w);
    for (size_t i = 0; i < 1024; i++) {
        values[i] = scramble(seed + i) & mask;
        word_put(t, words, i, values[i]);
    }
}

static void test_encoding_bitpack__all_widths_match_oracle(void **state)
{
    UNUSED(state);
    uint64_t values[1024];
    uint8_t words[8192 + 1], packed[8192 + 1], expected[8192], back[8192 + 1];
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        const unsigned t = sizes[s];
        for (unsigned w = 0; w <= t; w++) {
            fill(t, w, w * 1000 + t, values, words + 1);
            oracle_pack(t, w, values, expected);
            for (int level = CPU_PORTABLE; level <= cpu_level(); level++) {
                /* Odd addresses, and guards that must not change. */
                memset(packed, 0xEE, sizeof packed);
                bitpack_1024_level(level, t, w, words + 1, packed + 1);
                assert_memory_equal(packed + 1, expected, (size_t)128 * w);
                if (w < 64) assert_int_equal(packed[1 + 128 * w], 0xEE);
                memset(back, 0xEE, sizeof back);
                bitunpack_1024_level(level, t, w, packed + 1, back + 1);
                assert_memory_equal(back + 1, words + 1, (size_t)128 * t);
                if (t < 64) assert_int_equal(back[1 + 128 * t], 0xEE);
            }
            for (unsigned i = 0; i < 1024; i++) assert_true(bitunpack_one(t, w, expected, i) == values[i]);
        }
    }
}

static void test_encoding_bitpack__check_vectors(void **state)
{
    UNUSED(state);
    static const struct {
        unsigned t, w;
        uint8_t first[16];
        const char *md5;
    } vectors[] = {
        {8,
         1,
         {0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff},
         "e73cb49497832a2b5f28ef0b2cb077d5"},
        {8,
         3,
         {0x00, 0x49, 0x92, 0xdb, 0x24, 0x6d, 0xb6, 0xff, 0x00, 0x49, 0x92, 0xdb, 0x24, 0x6d, 0xb6, 0xff},
         "0f2ab0542895eab0747e3b9c7499e106"},
        {16,
         5,
         {0x00, 0x00, 0x21, 0x84, 0x42, 0x08, 0x63, 0x8c, 0x84, 0x10, 0xa5, 0x94, 0xc6, 0x18, 0xe7, 0x9c},
         "2e81dc6842f3fdf5744294718597110c"},
        {16,
         11,
         {0x00, 0x00, 0x01, 0x08, 0x02, 0x10, 0x03, 0x18, 0x04, 0x20, 0x05, 0x28, 0x06, 0x30, 0x07, 0x38},
         "4a689148c93c276a625651093b76cd05"},
        {32,
         1,
         {0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff},
         "05f2cc25706b4fd4b7c65d67936e93c6"},
        {32,
         11,
         {0x00, 0x00, 0x04, 0x40, 0x01, 0x08, 0x44, 0x40, 0x02, 0x10, 0x84, 0x40, 0x03, 0x18, 0xc4, 0x40},
         "463fd8a1c6e2733c484307f021387649"},
        {64,
         3,
         {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x49, 0x92, 0x24, 0x49, 0x92, 0x24, 0x49, 0x92},
         "920463968d4004f6edd57d38aed3fe4b"},
        {64,
         17,
         {0x00, 0x00, 0x00, 0x01, 0x00, 0x04, 0x00, 0x0c, 0x01, 0x00, 0x02, 0x01, 0x04, 0x04, 0x08, 0x0c},
         "df81825dd6253a328dc8ef54a0377a15"},
    };
    uint8_t words[8192], packed[8192];
    char hex[33];
    for (size_t k = 0; k < ARRAY_LEN(vectors); k++) {
        const unsigned t = vectors[k].t, w = vectors[k].w;
        for (size_t i = 0; i < 1024; i++) word_put(t, words, i, i & (UINT64_MAX >> (64 - w)));
        bitpack_1024(t, w, words, packed);
        assert_memory_equal(packed, vectors[k].first, 16);
        md5_hex(packed, (size_t)128 * w, hex);
        assert_string_equal(hex, vectors[k].md5);
    }
}

static void test_encoding_bitpack__max_width(void **state)
{
    UNUSED(state);
    uint8_t words[80];
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        const unsigned t = sizes[s];
        memset(words, 0, sizeof words);
        assert_int_equal(bitpack_max_width(t, words, 10), 0);
        assert_int_equal(bitpack_max_width(t, words, 0), 0);
        for (unsigned w = 1; w <= t; w++) {
            word_put(t, words, w % 10, UINT64_C(1) << (w - 1));
            assert_int_equal(bitpack_max_width(t, words, 10), w);
        }
    }
}

static void test_encoding_bitpack__inline_round_trip(void **state)
{
    struct fixture *f = *state;
    static const size_t counts[] = {1, 2, 500, 1023, 1024};
    uint64_t values[1024];
    uint8_t words[8192], back[8192];
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        const unsigned t = sizes[s];
        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
            const size_t n = counts[c];
            fill(t, t / 2 + 1, c, values, words);
            f->buf.size = 0;
            assert_int_equal(inline_bitpack_encode(t, words, n, &f->buf, &f->err), PENNON_OK);
            assert_int_equal(f->buf.size, t / 8 + 128 * bitpack_max_width(t, words, n));
            struct bytes in = bytes_of(f->buf.data, f->buf.size);
            assert_int_equal(inline_bitpack_decode(t, in, n, back, &f->err), PENNON_OK);
            assert_memory_equal(back, words, n * (t / 8));
            uint64_t one = 0;
            assert_int_equal(inline_bitpack_one(t, in, n - 1, &one, &f->err), PENNON_OK);
            assert_true(one == values[n - 1]);
        }
    }
}

static void test_encoding_bitpack__inline_refuses(void **state)
{
    struct fixture *f = *state;
    uint8_t chunk[4 + 128 * 3] = {3};
    uint32_t out[1024];
    assert_int_equal(inline_bitpack_decode(32, bytes_of(chunk, sizeof chunk), 1024, out, &f->err), PENNON_OK);
    assert_int_equal(inline_bitpack_decode(32, bytes_of(chunk, sizeof chunk), 1025, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(inline_bitpack_decode(32, bytes_of(chunk, sizeof chunk - 1), 9, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(inline_bitpack_decode(32, bytes_of(chunk, 3), 9, out, &f->err), PENNON_CORRUPT);
    assert_int_equal(inline_bitpack_decode(32, bytes_of(NULL, 0), 0, out, &f->err), PENNON_CORRUPT);
    chunk[0] = 33;
    assert_int_equal(inline_bitpack_decode(32, bytes_of(chunk, sizeof chunk), 9, out, &f->err), PENNON_CORRUPT);
}

static void test_encoding_bitpack__outline_round_trip(void **state)
{
    struct fixture *f = *state;
    static const size_t counts[] = {0, 1, 100, 900, 1023, 1024, 1025, 1900, 3000};
    uint16_t values[3000], back[3000];
    for (unsigned w = 0; w <= 16; w++) {
        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
            const size_t n = counts[c];
            for (size_t i = 0; i < n; i++) values[i] = (uint16_t)(scramble(i) & ((UINT64_C(1) << w) - 1));
            f->buf.size = 0;
            assert_int_equal(outline_bitpack_encode(16, w, values, n, &f->buf, &f->err), PENNON_OK);
            assert_int_equal(f->buf.size, outline_bitpack_size(16, w, n));
            const size_t tail = n % 1024;
            const bool packed = w * (1024 - tail) < (16 - w) * tail;
            assert_int_equal(f->buf.size, n / 1024 * 128 * w + (packed ? 128 * w : tail * 2));
            struct bytes in = bytes_of(f->buf.data, f->buf.size);
            assert_int_equal(outline_bitpack_decode(16, w, in, n, back, &f->err), PENNON_OK);
            if (n > 0) assert_memory_equal(back, values, n * 2);
            in.size++;
            assert_int_equal(outline_bitpack_decode(16, w, in, n, back, &f->err), PENNON_CORRUPT);
        }
    }
    assert_int_equal(outline_bitpack_decode(16, 17, bytes_of(back, 128 * 17), 1024, back, &f->err), PENNON_CORRUPT);
    assert_int_equal(outline_bitpack_decode(16, 4, bytes_of(back, 100), SIZE_MAX, back, &f->err), PENNON_CORRUPT);
}

/* A page whose levels are all 0 may have a buffer of no bytes and width 0. */
static void test_encoding_bitpack__outline_zero_width(void **state)
{
    struct fixture *f = *state;
    uint16_t back[1500];
    memset(back, 0xEE, sizeof back);
    assert_int_equal(outline_bitpack_decode(16, 0, bytes_of(NULL, 0), 1500, back, &f->err), PENNON_OK);
    for (size_t i = 0; i < 1500; i++) assert_int_equal(back[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding_bitpack__all_widths_match_oracle),
        cmocka_unit_test(test_encoding_bitpack__check_vectors),
        cmocka_unit_test(test_encoding_bitpack__max_width),
        FIXTURE_TEST(test_encoding_bitpack__inline_round_trip),
        FIXTURE_TEST(test_encoding_bitpack__inline_refuses),
        FIXTURE_TEST(test_encoding_bitpack__outline_round_trip),
        FIXTURE_TEST(test_encoding_bitpack__outline_zero_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
