/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Deletion vectors against a plain array of flags, both file kinds, and hostile bytes. */
#include "table/table_private.h"
#include "table_fixture.h"

#define ROWS 70000u

/* A Roaring file: the containers are appended by the put_ functions, headers by finish. */
struct roaring {
    struct buf keys, body;
    uint8_t flags[4];
    uint32_t n;
};

static void put_key(struct fixture *f, struct roaring *r, uint16_t key, uint32_t cardinality)
{
    uint8_t entry[4];
    store_u16(entry, key);
    store_u16(entry + 2, (uint16_t)(cardinality - 1));
    assert_ok(f, buf_append(&r->keys, entry, 4, &f->err));
    r->n++;
}

static void put_u16s(struct fixture *f, struct roaring *r, const uint16_t *values, size_t n)
{
    uint8_t word[2];
    for (size_t i = 0; i < n; i++) {
        store_u16(word, values[i]);
        assert_ok(f, buf_append(&r->body, word, 2, &f->err));
    }
}

static void finish_roaring(struct fixture *f, struct roaring *r, bool runs, struct buf *out)
{
    uint8_t word[4];
    store_u32(word, runs ? 12347u | (r->n - 1) << 16 : 12346u);
    assert_ok(f, buf_append(out, word, 4, &f->err));
    if (runs) {
        assert_ok(f, buf_append(out, r->flags, bitmap_bytes(r->n), &f->err));
    } else {
        store_u32(word, r->n);
        assert_ok(f, buf_append(out, word, 4, &f->err));
    }
    assert_ok(f, buf_append(out, r->keys.data, r->keys.size, &f->err));
    if (!runs || r->n >= 4) assert_ok(f, buf_append_zero(out, (size_t)r->n * 4, &f->err));
    assert_ok(f, buf_append(out, r->body.data, r->body.size, &f->err));
    buf_free(&r->keys);
    buf_free(&r->body);
    *r = (struct roaring){0};
}

static void roaring_init(struct fixture *f, struct roaring *r)
{
    *r = (struct roaring){0};
    buf_init(&r->keys, f->mem, BUF_NO_LIMIT);
    buf_init(&r->body, f->mem, BUF_NO_LIMIT);
}

/* Every operation against the flags; `step` thins the expensive ones out. */
static void compare(const struct deletion_vector *d, const bool *gone, uint64_t rows, uint64_t step)
{
    static uint8_t bits[ROWS / 8 + 16];
    uint64_t rank = 0, live = 0;
    for (uint64_t i = 0; i < rows; i++) {
        if (i % step == 0) {
            assert_int_equal(deletion_vector_contains(d, (uint32_t)i), gone[i]);
            assert_int_equal(deletion_vector_rank(d, i), rank);
            if (!gone[i]) assert_int_equal(deletion_vector_select_live(d, live), i);
        }
        rank += gone[i];
        live += !gone[i];
    }
    assert_int_equal(deletion_vector_count(d), rank);
    assert_int_equal(deletion_vector_rank(d, rows + 5), rank);
    assert_int_equal(deletion_vector_select_live(d, live), rows);
    assert_int_equal(deletion_vector_select_live(d, live + 1000), rows + 1000);
    for (uint64_t start = 0; start < rows; start += rows / 7 + 1) {
        for (uint64_t n = 0; start + n <= rows; n = n * 3 + 1) {
            uint64_t want = 0;
            memset(bits, 0xaa, sizeof bits);
            uint64_t got = deletion_vector_live_bits(d, start, start + n, bits);
            for (uint64_t i = 0; i < n; i++) {
                assert_int_equal(bit_get(bits, i), !gone[start + i]);
                want += !gone[start + i];
            }
            assert_int_equal(got, want);
            if (n % 8) assert_int_equal(bits[n / 8] >> (n % 8), 0);
            assert_int_equal(bits[bitmap_bytes(n)], 0xaa);
        }
    }
}

/* Densities that give both forms. */
static void test_table_deletion__operations(void **state)
{
    struct fixture *f = *state;
    static const unsigned per_mille[] = {1, 20, 40, 500, 999, 1000};
    static bool gone[ROWS];
    static uint32_t offsets[ROWS + 1];
    for (size_t k = 0; k < ARRAY_LEN(per_mille); k++) {
        size_t n = 0;
        struct deletion_vector *d = NULL;
        for (uint32_t i = 0; i < ROWS; i++) {
            gone[i] = scramble(i * 31 + k) % 1000 < per_mille[k];
            if (gone[i]) offsets[n++] = i;
        }
        /* Any order, one twice. */
        for (size_t i = n; i > 1; i--) {
            size_t j = scramble(i) % i;
            uint32_t swap = offsets[i - 1];
            offsets[i - 1] = offsets[j];
            offsets[j] = swap;
        }
        offsets[n] = offsets[0];
        assert_ok(f, deletion_vector_make(f->mem, offsets, n + 1, &d, &f->err));
        compare(d, gone, ROWS, 13);
        struct deletion_vector *twin = deletion_vector_retain(d);
        deletion_vector_release(d);
        assert_int_equal(deletion_vector_next(twin, ROWS), UINT64_MAX);
        uint64_t next = deletion_vector_next(twin, 0);
        assert_true(next < ROWS && gone[next] && deletion_vector_rank(twin, next) == 0);
        deletion_vector_release(twin);
    }
    deletion_vector_release(NULL);
}

static void test_table_deletion__empty(void **state)
{
    struct fixture *f = *state;
    static const bool none[64] = {false};
    struct deletion_vector *d = NULL;
    assert_ok(f, deletion_vector_make(f->mem, NULL, 0, &d, &f->err));
    compare(d, none, 64, 1);
    deletion_vector_release(d);
    static const uint8_t empty[] = {0x3a, 0x30, 0, 0, 0, 0, 0, 0, 9, 9};
    size_t used = 0;
    assert_ok(f, roaring_check(bytes_of(empty, sizeof empty), &used, &f->err));
    assert_int_equal(used, 8);
    assert_ok(f, deletion_bitmap_parse(f->mem, bytes_of(empty, sizeof empty), &d, &f->err));
    assert_int_equal(deletion_vector_count(d), 0);
    deletion_vector_release(d);
}

/* All three container kinds in one file, several keys. */
static void test_table_deletion__roaring_containers(void **state)
{
    struct fixture *f = *state;
    static bool gone[3 * 65536];
    struct roaring r;
    struct deletion_vector *d = NULL;
    size_t used;
    static const uint16_t array[] = {0, 5, 63, 64, 65535};
    roaring_init(f, &r);
    memset(gone, 0, sizeof gone);
    put_key(f, &r, 0, 5);
    put_u16s(f, &r, array, 5);
    for (size_t i = 0; i < 5; i++) gone[array[i]] = true;
    uint32_t count = 0;
    static uint8_t words[8192];
    for (uint32_t i = 0; i < 65536; i++) {
        bool set = scramble(i) % 3 == 0;
        gone[65536 + i] = set;
        if (set) bit_set(words, i);
        count += set;
    }
    put_key(f, &r, 1, count);
    assert_ok(f, buf_append(&r.body, words, sizeof words, &f->err));
    static const uint16_t runs[] = {3, 10, 0, 12, 4, 65000, 535};
    put_key(f, &r, 2, 1 + 5 + 536);
    put_u16s(f, &r, runs, 7);
    gone[131072 + 10] = true;
    for (uint32_t i = 0; i < 5; i++) gone[131072 + 12 + i] = true;
    for (uint32_t i = 0; i < 536; i++) gone[131072 + 65000 + i] = true;
    r.flags[0] = 4;
    finish_roaring(f, &r, true, &f->buf);
    struct bytes file = bytes_of(f->buf.data, f->buf.size);
    assert_ok(f, roaring_check(file, &used, &f->err));
    assert_int_equal(used, f->buf.size);
    assert_ok(f, deletion_bitmap_parse(f->mem, file, &d, &f->err));
    for (uint32_t i = 0; i < sizeof gone; i++) assert_int_equal(deletion_vector_contains(d, i), gone[i]);
    deletion_vector_release(d);
    /* Cut anywhere it is refused. */
    for (size_t n = 0; n < file.size; n += n < 64 ? 1 : 997)
        assert_int_equal(roaring_check(bytes_of(file.data, n), &used, &f->err), PENNON_CORRUPT);
}

/* The example of the format: 5001 rows, one bitmap container. */
static void test_table_deletion__roaring_example(void **state)
{
    struct fixture *f = *state;
    static const uint8_t head[] = {0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0x88, 0x13, 0x10, 0, 0, 0};
    static uint8_t file[sizeof head + 8192];
    struct deletion_vector *d = NULL;
    memcpy(file, head, sizeof head);
    for (uint32_t i = 0; i < 4999; i++) bit_set(file + sizeof head, i);
    bit_set(file + sizeof head, 10000);
    bit_set(file + sizeof head, 10001);
    assert_ok(f, deletion_bitmap_parse(f->mem, bytes_of(file, sizeof file), &d, &f->err));
    assert_int_equal(deletion_vector_count(d), 5001);
    assert_int_equal(deletion_vector_select_live(d, 0), 4999);
    assert_int_equal(deletion_vector_next(d, 5000), 10000);
    deletion_vector_release(d);
}

/* A few runs that stand for 2^32 rows: refused by count or budget, without the memory being taken. */
static void test_table_deletion__roaring_bomb(void **state)
{
    struct fixture *f = *state;
    static const uint16_t run[] = {1, 0, 65535};
    struct roaring r;
    struct deletion_vector *d = NULL;
    roaring_init(f, &r);
    assert_ok(f, buf_append_byte(&f->buf, 0, &f->err));
    f->buf.size = 0;
    for (uint32_t key = 0; key < 65536; key++) {
        put_key(f, &r, (uint16_t)key, 65536);
        put_u16s(f, &r, run, 3);
    }
    uint8_t word[4];
    store_u32(word, 12347u | 65535u << 16);
    assert_ok(f, buf_append(&f->buf, word, 4, &f->err));
    for (size_t i = 0; i < 8192; i++) assert_ok(f, buf_append_byte(&f->buf, 0xff, &f->err));
    assert_ok(f, buf_append(&f->buf, r.keys.data, r.keys.size, &f->err));
    assert_ok(f, buf_append_zero(&f->buf, 65536 * 4, &f->err));
    assert_ok(f, buf_append(&f->buf, r.body.data, r.body.size, &f->err));
    buf_free(&r.keys);
    buf_free(&r.body);
    struct mem *small = mem_new(NULL, 1 << 20, NULL, &f->err);
    assert_int_equal(deletion_bitmap_parse(small, bytes_of(f->buf.data, f->buf.size), &d, &f->err), PENNON_OVER_BUDGET);
    assert_int_equal(mem_used(small), 0);
    mem_release(small);
}

static void test_table_deletion__roaring_refused(void **state)
{
    struct fixture *f = *state;
    static const uint16_t descending[] = {5, 4}, equal[] = {5, 5};
    static const uint16_t no_runs[] = {0}, touching[] = {2, 0, 3, 4, 0}, overlong[] = {1, 65535, 1},
                          descending_runs[] = {2, 9, 0, 3, 0};
    static const struct {
        const char *what;
        const uint16_t *body;
        size_t n;
        uint32_t cardinality;
        bool runs;
    } cases[] = {
        {"descending array", descending, 2, 2, false},
        {"equal values", equal, 2, 2, false},
        {"no runs", no_runs, 1, 1, true},
        {"touching runs", touching, 5, 5, true},
        {"run past the end", overlong, 3, 2, true},
        {"descending runs", descending_runs, 5, 2, true},
        {"wrong count", touching, 3, 9, true},
    };
    size_t used;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct roaring r;
        roaring_init(f, &r);
        put_key(f, &r, 0, cases[i].cardinality);
        put_u16s(f, &r, cases[i].body, cases[i].n);
        r.flags[0] = cases[i].runs;
        f->buf.size = 0;
        finish_roaring(f, &r, cases[i].runs, &f->buf);
        if (roaring_check(bytes_of(f->buf.data, f->buf.size), &used, &f->err) != PENNON_CORRUPT) fail_msg("%s", cases[i].what);
    }
    struct roaring r;
    roaring_init(f, &r);
    put_key(f, &r, 3, 1);
    put_key(f, &r, 3, 1);
    put_u16s(f, &r, equal, 2);
    f->buf.size = 0;
    finish_roaring(f, &r, false, &f->buf);
    assert_int_equal(roaring_check(bytes_of(f->buf.data, f->buf.size), &used, &f->err), PENNON_CORRUPT);
    static const uint8_t bad_cookie[8] = {1}, many[8] = {0x3a, 0x30, 0, 0, 1, 0, 1, 0};
    assert_int_equal(roaring_check(bytes_of(bad_cookie, 8), &used, &f->err), PENNON_CORRUPT);
    assert_int_equal(roaring_check(bytes_of(many, 8), &used, &f->err), PENNON_CORRUPT);
}

/* ---- Arrow files ---- */

static pennon_status write_to_buf(void *ctx, const void *bytes, size_t n, pennon_error *err)
{
    return buf_append(ctx, bytes, n, err);
}

struct arrow_case {
    const char *what;
    const char *name, *type;
    bool nullable, null_value;
    unsigned batches;
    int compression;
    pennon_status st;
};

static const struct arrow_case ARROW[] = {
    {"plain", "row_id", "uint32", false, false, 1, IPC_UNCOMPRESSED, PENNON_OK},
    {"zstd", "row_id", "uint32", false, false, 1, IPC_ZSTD, PENNON_OK},
    {"two batches", "row_id", "uint32", false, false, 2, IPC_UNCOMPRESSED, PENNON_CORRUPT},
    {"no batch", "row_id", "uint32", false, false, 0, IPC_UNCOMPRESSED, PENNON_CORRUPT},
    {"name", "row", "uint32", false, false, 1, IPC_UNCOMPRESSED, PENNON_CORRUPT},
    {"type", "row_id", "int32", false, false, 1, IPC_UNCOMPRESSED, PENNON_CORRUPT},
    {"width", "row_id", "uint64", false, false, 1, IPC_UNCOMPRESSED, PENNON_CORRUPT},
    {"nullable", "row_id", "uint32", true, false, 1, IPC_UNCOMPRESSED, PENNON_CORRUPT},
    {"null", "row_id", "uint32", false, true, 1, IPC_UNCOMPRESSED, PENNON_CORRUPT},
};

static void write_arrow(struct fixture *f, const struct arrow_case *k, struct buf *out)
{
    static const uint32_t values[] = {900, 3, 7, 3, 0};
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ipc_writer_options options = {.file = true, .compression = k->compression};
    assert_ok(f, arrow_schema_new(&schema, "+s", "", 0, 1, f->mem, &f->err));
    assert_ok(f, arrow_schema_from_text(bytes_str(k->type), k->name, f->mem, schema.children[0], &f->err));
    struct builder *b = builder_new(&schema, f->mem, &f->err);
    assert_non_null(b);
    schema.children[0]->flags = k->nullable ? ARROW_FLAG_NULLABLE : 0;
    struct ipc_writer *w = ipc_writer_new(&schema, &options, write_to_buf, out, f->mem, &f->err);
    assert_non_null(w);
    for (unsigned i = 0; i < k->batches; i++) {
        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            assert_ok(f, k->null_value && v == 2 ? builder_append_null(builder_child(b, 0), &f->err)
                                                 : builder_append_uint(builder_child(b, 0), values[v], &f->err));
            assert_ok(f, builder_append_row(b, &f->err));
        }
        assert_ok(f, builder_finish(b, &batch, &f->err));
        assert_ok(f, ipc_writer_write(w, &batch, &f->err));
        array_release(&batch);
    }
    assert_ok(f, ipc_writer_finish(w, &f->err));
    ipc_writer_free(w);
    builder_free(b);
    arrow_schema_release(&schema);
}

static void test_table_deletion__arrow(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(ARROW); i++) {
        struct deletion_vector *d = NULL;
        f->buf.size = 0;
        write_arrow(f, &ARROW[i], &f->buf);
        pennon_status st = deletion_array_parse(f->mem, bytes_of(f->buf.data, f->buf.size), &d, &f->err);
        if (st != ARROW[i].st) fail_msg("%s: status %d", ARROW[i].what, st);
        if (st == PENNON_OK) {
            assert_int_equal(deletion_vector_count(d), 4);
            assert_true(deletion_vector_contains(d, 900) && deletion_vector_contains(d, 0) && !deletion_vector_contains(d, 4));
        }
        deletion_vector_release(d);
    }
}

static void test_table_deletion__arrow_hostile(void **state)
{
    struct fixture *f = *state;
    write_arrow(f, &ARROW[0], &f->buf);
    for (size_t i = 0; i < f->buf.size; i++) {
        struct deletion_vector *d = NULL;
        uint8_t old = f->buf.data[i];
        f->buf.data[i] = (uint8_t)(old ^ 0xff);
        pennon_status st = deletion_array_parse(f->mem, bytes_of(f->buf.data, f->buf.size), &d, &f->err);
        assert_true(st == PENNON_OK || st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED || st == PENNON_OVER_BUDGET);
        deletion_vector_release(d);
        d = NULL;
        f->buf.data[i] = old;
        assert_int_not_equal(deletion_array_parse(f->mem, bytes_of(f->buf.data, i), &d, &f->err), PENNON_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_table_deletion__operations),
        FIXTURE_TEST(test_table_deletion__empty),
        FIXTURE_TEST(test_table_deletion__roaring_containers),
        FIXTURE_TEST(test_table_deletion__roaring_example),
        FIXTURE_TEST(test_table_deletion__roaring_bomb),
        FIXTURE_TEST(test_table_deletion__roaring_refused),
        FIXTURE_TEST(test_table_deletion__arrow),
        FIXTURE_TEST(test_table_deletion__arrow_hostile),
    };
    return cmocka_run_group_tests_name("deletion", tests, NULL, NULL);
}
