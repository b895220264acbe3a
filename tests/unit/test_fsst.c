/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* FSST: round trips over texts and noise, the table's layout, and hostile tables and codes. */
#include "codec_fixture.h"
#include "encoding/codec.h"

struct texts {
    uint32_t *offsets;
    uint8_t *data;
    size_t n;
    size_t size;
};

static void texts_free(struct texts *t)
{
    free(t->offsets);
    free(t->data);
}

/* Texts of words, with empty ones and some long ones between. */
static struct texts texts_words(size_t n)
{
    static const char *const words[] = {"http://", "www.",  "example", ".com/",    "search?", "q=", "lance", "format",
                                        " the ",   "quick", "fox",     "\xc3\xa9", "0",       "42", "-",     "_"};
    struct texts t = {calloc(n + 1, 4), malloc(n * 600 + 1), n, 0};
    for (size_t i = 0; i < n; i++) {
        const size_t count = i % 50 == 7 ? 90 : scramble(i) % 9;
        for (size_t k = 0; k < count; k++) {
            const char *word = words[scramble(i * 100 + k) % ARRAY_LEN(words)];
            memcpy(t.data + t.size, word, strlen(word));
            t.size += strlen(word);
        }
        t.offsets[i + 1] = (uint32_t)t.size;
    }
    return t;
}

static struct texts texts_noise(size_t n)
{
    struct texts t = {calloc(n + 1, 4), malloc(n * 40 + 1), n, 0};
    for (size_t i = 0; i < n; i++) {
        for (size_t k = scramble(i) % 40; k > 0; k--) t.data[t.size++] = (uint8_t)scramble(i * 1000 + k);
        t.offsets[i + 1] = (uint32_t)t.size;
    }
    return t;
}

/* Compress, check the size by value and in bulk, and return the compressed size. */
static size_t round_trip(struct fixture *f, const struct texts *t)
{
    struct fsst_encoder *e = NULL;
    struct fsst_decoder d;
    struct buf codes, back;
    struct variable_view view;
    uint8_t table[FSST_TABLE_SIZE];
    uint32_t *offsets = malloc((t->n + 1) * 4);
    uint32_t *back_offsets = malloc((t->n + 1) * 4);
    buf_init(&codes, f->mem, BUF_NO_LIMIT);
    buf_init(&back, f->mem, BUF_NO_LIMIT);
    assert_ok(f, fsst_train(f->mem, 4, t->offsets, t->n, t->data, &e, &f->err));
    fsst_encoder_table(e, table);
    assert_ok(f, fsst_decoder_init(&d, bytes_of(table, sizeof table), &f->err));
    assert_ok(f, fsst_compress(e, 4, t->offsets, t->n, t->data, &codes, offsets, &f->err));
    const size_t compressed = codes.size;
    f->buf.size = 0;
    assert_ok(f, variable_chunk_encode(4, offsets, t->n, codes.data, &f->buf, &f->err));
    assert_ok(f, variable_chunk_open(bytes_of(f->buf.data, f->buf.size), 4, t->n, &view, &f->err));
    assert_ok(f, fsst_decode_values(&d, &view, 0, t->n, &back, 4, back_offsets, &f->err));
    assert_int_equal(back.size, t->size);
    assert_memory_equal(back.data ? back.data : t->data, t->data, t->size);
    assert_memory_equal(back_offsets, t->offsets, (t->n + 1) * 4);
    for (size_t i = 0; i < t->n; i += 7) {
        uint64_t size = 0;
        back.size = 0;
        assert_ok(f, fsst_decoded_size(&d, variable_value(&view, i), &size, &f->err));
        assert_int_equal(size, t->offsets[i + 1] - t->offsets[i]);
        assert_ok(f, fsst_decode_value(&d, variable_value(&view, i), &back, &f->err));
        assert_int_equal(back.size, size);
        assert_memory_equal(size ? back.data : t->data, t->data + t->offsets[i], size);
    }
    buf_free(&codes);
    buf_free(&back);
    fsst_encoder_free(e);
    free(offsets);
    free(back_offsets);
    return compressed;
}

static void test_encoding_fsst__round_trip_words(void **state)
{
    struct fixture *f = *state;
    static const size_t counts[] = {0, 1, 2, 100, 5000};
    for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
        struct texts t = texts_words(counts[c]);
        const size_t compressed = round_trip(f, &t);
        if (counts[c] == 5000) assert_true(compressed * 4 < t.size);
        texts_free(&t);
    }
}

static void test_encoding_fsst__round_trip_noise(void **state)
{
    struct fixture *f = *state;
    struct texts t = texts_noise(4000);
    const size_t compressed = round_trip(f, &t);
    assert_true(compressed <= 2 * t.size);
    texts_free(&t);
}

static void test_encoding_fsst__train_is_deterministic(void **state)
{
    struct fixture *f = *state;
    struct texts t = texts_words(9000);
    uint8_t tables[2][FSST_TABLE_SIZE];
    for (size_t i = 0; i < 2; i++) {
        struct fsst_encoder *e = NULL;
        assert_ok(f, fsst_train(f->mem, 4, t.offsets, t.n, t.data, &e, &f->err));
        fsst_encoder_table(e, tables[i]);
        fsst_encoder_free(e);
    }
    assert_memory_equal(tables[0], tables[1], FSST_TABLE_SIZE);
    assert_int_equal(tables[0][3], 1);
    assert_memory_equal(tables[0] + 4, "TSSF", 4);
    texts_free(&t);
}

/* Symbols 0 "ab" and 1 "abcdefgh". */
static void small_table(uint8_t table[FSST_TABLE_SIZE])
{
    memset(table, 0, FSST_TABLE_SIZE);
    table[0] = 2;
    table[3] = 1;
    memcpy(table + 4, "TSSF", 4);
    memcpy(table + 8, "ab", 2);
    memcpy(table + 16, "abcdefgh", 8);
    table[24] = 2;
    table[25] = 8;
}

static void test_encoding_fsst__codes(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *codes;
        size_t n;
        const char *text; /* NULL = corrupt */
    } cases[] = {
        {"", 0, ""},
        {"\x00", 1, "ab"},
        {"\xff\xff", 2, "\xff"},
        {"\x00\xffx\x01", 4, "abxabcdefgh"},
        {"\x00\x00\x00\x00\x00\x00\x00\x00\x00", 9, "ababababababababab"},
        {"\x00\x00\x00\x00\x00\x00\x00\xffz\x00", 10, "abababababababzab"},
        {"\x02", 1, NULL},
        {"\x00\x80", 2, NULL},
        {"\xff", 1, NULL},
        {"\x00\x00\x00\x00\x00\x00\x00\x00\xff", 9, NULL},
        {"\x00\x00\x00\x00\x00\x00\x00\x03\x00", 9, NULL},
    };
    struct fsst_decoder d;
    uint8_t table[FSST_TABLE_SIZE];
    small_table(table);
    assert_ok(f, fsst_decoder_init(&d, bytes_of(table, sizeof table), &f->err));
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        uint64_t size = 0;
        uint8_t *codes = malloc(cases[k].n + 1); /* exact room for the reader */
        memcpy(codes, cases[k].codes, cases[k].n);
        const struct bytes in = bytes_of(codes, cases[k].n);
        const pennon_status expected = cases[k].text ? PENNON_OK : PENNON_CORRUPT;
        f->buf.size = 0;
        assert_int_equal(fsst_decode_value(&d, in, &f->buf, &f->err), expected);
        assert_int_equal(fsst_decoded_size(&d, in, &size, &f->err), expected);
        if (cases[k].text) {
            assert_true(bytes_equal(bytes_of(f->buf.data, f->buf.size), bytes_str(cases[k].text)));
            assert_int_equal(size, strlen(cases[k].text));
        }
        free(codes);
    }
}

/* A buffer whose maximum is exactly the result. */
static void test_encoding_fsst__tight_maximum(void **state)
{
    struct fixture *f = *state;
    struct fsst_decoder d;
    struct buf tight;
    uint8_t table[FSST_TABLE_SIZE];
    static const uint8_t codes[] = {1, 0, 1};
    small_table(table);
    assert_ok(f, fsst_decoder_init(&d, bytes_of(table, sizeof table), &f->err));
    buf_init(&tight, f->mem, 18);
    assert_ok(f, fsst_decode_value(&d, bytes_of(codes, 3), &tight, &f->err));
    assert_true(bytes_equal(bytes_of(tight.data, tight.size), bytes_str("abcdefghababcdefgh")));
    assert_int_equal(fsst_decode_value(&d, bytes_of(codes, 1), &tight, &f->err), PENNON_OVER_BUDGET);
    buf_free(&tight);
}

static void test_encoding_fsst__stored_values(void **state)
{
    struct fixture *f = *state;
    struct fsst_decoder d;
    uint8_t table[FSST_TABLE_SIZE];
    small_table(table);
    table[3] = 0;
    assert_ok(f, fsst_decoder_init(&d, bytes_of(table, sizeof table), &f->err));
    assert_ok(f, fsst_decode_value(&d, bytes_str("\xff plain"), &f->buf, &f->err));
    assert_true(bytes_equal(bytes_of(f->buf.data, f->buf.size), bytes_str("\xff plain")));
}

static void test_encoding_fsst__refuses_tables(void **state)
{
    struct fixture *f = *state;
    struct fsst_decoder d;
    uint8_t table[FSST_TABLE_SIZE];
    small_table(table);
    assert_int_equal(fsst_decoder_init(&d, bytes_of(table, FSST_TABLE_SIZE - 1), &f->err), PENNON_CORRUPT);
    table[24] = 9;
    assert_int_equal(fsst_decoder_init(&d, bytes_of(table, FSST_TABLE_SIZE), &f->err), PENNON_CORRUPT);
    table[24] = 0;
    assert_int_equal(fsst_decoder_init(&d, bytes_of(table, FSST_TABLE_SIZE), &f->err), PENNON_CORRUPT);
    small_table(table);
    table[4] = 'F';
    assert_int_equal(fsst_decoder_init(&d, bytes_of(table, FSST_TABLE_SIZE), &f->err), PENNON_CORRUPT);
    small_table(table);
    table[0] = 255; /* lengths of the missing symbols are 0 */
    assert_int_equal(fsst_decoder_init(&d, bytes_of(table, FSST_TABLE_SIZE), &f->err), PENNON_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_encoding_fsst__round_trip_words),       FIXTURE_TEST(test_encoding_fsst__round_trip_noise),
        FIXTURE_TEST(test_encoding_fsst__train_is_deterministic), FIXTURE_TEST(test_encoding_fsst__codes),
        FIXTURE_TEST(test_encoding_fsst__tight_maximum),          FIXTURE_TEST(test_encoding_fsst__stored_values),
        FIXTURE_TEST(test_encoding_fsst__refuses_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
