/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Owned arrays, validation of hostile ones, nullability, views, builders, casts and wide numbers. */
#include "arrow_gen.h"

/* ------------------------------------------------------------------------------------------------------------- owning */

static void count_release(void *ctx) { ++*(int *)ctx; }

static void test_arrow_array__buffers_and_blocks(void **state)
{
    struct fixture *f = *state;
    struct mem *other = mem_new(f->mem, 1 << 20, NULL, &f->err);
    struct ArrowArray a;
    struct buf b;
    struct block *block = block_new(f->mem, 100, &f->err);
    int released = 0;
    assert_ok(f, array_new(&a, 3, 0, f->mem, &f->err));
    buf_init(&b, other, BUF_NO_LIMIT);
    assert_ok(f, buf_append(&b, "abcdefgh", 8, &f->err));
    array_give_buf(&a, 1, &b);
    mem_release(other); /* the array keeps it while it holds the bytes */
    assert_null(b.data);
    array_give_block(&a, 2, block, block->data + 7);
    assert_memory_equal(a.buffers[1], "abcdefgh", 8);
    assert_int_equal((uintptr_t)a.buffers[1] % 64, 0);
    buf_init(&b, f->mem, BUF_NO_LIMIT);
    array_give_buf(&a, 0, &b);
    assert_null(a.buffers[0]);
    array_give_buf(&a, 1, &b); /* empty, but not validity: a pointer to zeros */
    assert_non_null(a.buffers[1]);
    assert_non_null(array_make_buffer(&a, 1, 16, &f->err)); /* replaces */
    array_on_release(&a, count_release, &released);
    array_release(&a);
    assert_int_equal(released, 1);
    array_release(&a);
    assert_int_equal(released, 1);
}

static void test_arrow_array__children_and_dictionary_move_out(void **state)
{
    struct fixture *f = *state;
    struct gen g = {f->mem, &f->err, 12, false};
    struct ArrowSchema s;
    struct ArrowArray a;
    struct ArrowArray child;
    struct ArrowArray values;
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<a: dictionary<values=string, indices=int8>, b: int32>"), "x", f->mem, &s,
                                        &f->err));
    gen_array(&g, &s, 10, true, &a);
    array_move(a.children[0], &child);
    array_release(&a);
    array_move(child.dictionary, &values);
    array_release(&child);
    assert_ok(f, array_validate(s.children[0]->dictionary, &values, ARRAY_VALIDATE_FULL, &f->err));
    array_release(&values);
    arrow_schema_release(&s);
}

static void make_column(struct fixture *f, size_t bytes, struct ArrowArray *out)
{
    assert_ok(f, array_new(out, 2, 0, f->mem, &f->err));
    out->length = (int64_t)(bytes / 8);
    uint8_t *values = array_make_buffer(out, 1, bytes, &f->err);
    assert_non_null(values);
    memset(values, 7, bytes);
}

/* Who keeps one column of a slice keeps no other column. */
static void test_arrow_array__columns_of_slices_go_one_by_one(void **state)
{
    struct fixture *f = *state;
    enum { BYTES = 1 << 20, SLACK = 8192 };
    struct ArrowSchema s;
    struct ArrowArray columns[2], record, slices[2], kept;
    const uint64_t before = mem_used(f->mem);
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<a: int64, b: int64>"), "x", f->mem, &s, &f->err));
    for (size_t i = 0; i < 2; i++) make_column(f, BYTES, &columns[i]);
    assert_ok(f, array_record(columns, 2, BYTES / 8, f->mem, &record, &f->err));
    struct shared_array *shared = shared_array_new(&record, f->mem, &f->err);
    assert_non_null(shared);
    for (size_t i = 0; i < 2; i++) assert_ok(f, array_slice(&s, shared, (int64_t)i * 100, 100, f->mem, &slices[i], &f->err));
    array_move(slices[1].children[1], &kept);
    array_release(&slices[0]);
    array_release(&slices[1]);
    assert_true(mem_used(f->mem) >= before + 2 * BYTES); /* the owner needs both */
    shared_array_release(shared);
    assert_true(mem_used(f->mem) >= before + BYTES && mem_used(f->mem) < before + BYTES + SLACK);
    assert_int_equal(kept.length, 100);
    assert_int_equal(((const uint8_t *)kept.buffers[1])[(kept.offset + 99) * 8], 7);
    array_release(&kept);
    arrow_schema_release(&s);
    assert_int_equal(mem_used(f->mem), before);
}

static void test_arrow_array__record(void **state)
{
    struct fixture *f = *state;
    struct ArrowArray columns[2];
    struct ArrowArray record;
    for (int i = 0; i < 2; i++) {
        assert_ok(f, array_new(&columns[i], 2, 0, f->mem, &f->err));
        columns[i].length = 3 + i;
        assert_ok(f, array_zero_buffer(&columns[i], 1, 400, &f->err));
    }
    assert_int_equal(array_record(columns, 2, 3, f->mem, &record, &f->err), PENNON_INVALID_ARGUMENT);
    assert_non_null(columns[0].release);
    columns[1].length = 3;
    assert_ok(f, array_record(columns, 2, 3, f->mem, &record, &f->err));
    assert_null(columns[0].release);
    assert_int_equal(record.n_children, 2);
    array_release(&record);
}

/* --------------------------------------------------------------------------------------------------------- validation */

struct hostile {
    struct ArrowSchema schema;
    struct ArrowArray array;
};

static void hostile_open(struct hostile *h, struct fixture *f, const char *type, int64_t rows)
{
    struct gen g = {f->mem, &f->err, 4, false};
    assert_ok(f, arrow_schema_from_text(bytes_str(type), "x", f->mem, &h->schema, &f->err));
    gen_array(&g, &h->schema, rows, true, &h->array);
    assert_ok(f, array_validate(&h->schema, &h->array, ARRAY_VALIDATE_FULL, &f->err));
}

static void hostile_close(struct hostile *h)
{
    array_release(&h->array);
    arrow_schema_release(&h->schema);
}

static void bad_at(struct fixture *f, const struct hostile *h, enum array_validate_level level)
{
    if (array_validate(&h->schema, &h->array, level, &f->err) != PENNON_INVALID_ARGUMENT)
        fail_msg("a bad %s was accepted", h->schema.format);
    if (level == ARRAY_VALIDATE_FULL) assert_ok(f, array_validate(&h->schema, &h->array, ARRAY_VALIDATE_SHAPE, &f->err));
}

static void test_arrow_array__bad_counts(void **state)
{
    struct fixture *f = *state;
    struct hostile h;
    hostile_open(&h, f, "struct<a: int32, b: string>", 5);
    const struct ArrowArray good = h.array;
#define BAD(change)                          \
    do {                                     \
        h.array = good;                      \
        change;                              \
        bad_at(f, &h, ARRAY_VALIDATE_SHAPE); \
        h.array = good;                      \
    } while (0)
    BAD(h.array.length = -1);
    BAD(h.array.length = INT64_MAX);
    BAD(h.array.offset = -1);
    BAD(h.array.offset = INT64_MAX);
    BAD(h.array.length = 6);
    BAD(h.array.offset = 1);
    BAD(h.array.null_count = -2);
    BAD(h.array.null_count = 6);
    BAD(h.array.n_buffers = 0);
    BAD(h.array.n_buffers = 2);
    BAD(h.array.buffers = NULL);
    BAD(h.array.n_children = 1);
    BAD(h.array.children = NULL);
    BAD(h.array.dictionary = h.array.children[0]);
    BAD(h.array.release = NULL);
    hostile_close(&h);
}

static void test_arrow_array__bad_buffers(void **state)
{
    struct fixture *f = *state;
    static const char *const types[] = {"int32",
                                        "bool",
                                        "string",
                                        "large_binary",
                                        "list<item: int8>",
                                        "large_list<item: int8>",
                                        "list_view<item: int8>",
                                        "string_view",
                                        "decimal128(5, 1)",
                                        "map<string, int8>"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct hostile h;
        hostile_open(&h, f, types[i], 5);
        const void *was = h.array.buffers[1];
        h.array.buffers[1] = NULL;
        bad_at(f, &h, ARRAY_VALIDATE_SHAPE);
        h.array.buffers[1] = was;
        h.array.buffers[0] = NULL;
        h.array.null_count = 1;
        bad_at(f, &h, ARRAY_VALIDATE_SHAPE);
        hostile_close(&h);
    }
}

/* The buffers are ours: change one of them. */
static uint8_t *writable(struct ArrowArray *a, size_t i) { return (uint8_t *)(uintptr_t)a->buffers[i]; }

static void put32(struct ArrowArray *a, size_t buffer, size_t i, int32_t v) { memcpy(writable(a, buffer) + i * 4, &v, 4); }

static int32_t get32(struct ArrowArray *a, size_t buffer, size_t i)
{
    int32_t v;
    memcpy(&v, writable(a, buffer) + i * 4, 4);
    return v;
}

static void test_arrow_array__bad_offsets(void **state)
{
    struct fixture *f = *state;
    struct hostile h;
    hostile_open(&h, f, "string", 5);
    int32_t was = get32(&h.array, 1, 2);
    put32(&h.array, 1, 2, get32(&h.array, 1, 3) + 1);
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    put32(&h.array, 1, 2, -1);
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    put32(&h.array, 1, 2, was);
    put32(&h.array, 1, 0, -1);
    bad_at(f, &h, ARRAY_VALIDATE_SHAPE);
    hostile_close(&h);
    hostile_open(&h, f, "list<item: int8>", 5);
    put32(&h.array, 1, 5, (int32_t)h.array.children[0]->length + 1);
    bad_at(f, &h, ARRAY_VALIDATE_SHAPE);
    hostile_close(&h);
    hostile_open(&h, f, "list_view<item: int8>", 5);
    put32(&h.array, 1, 4, 100);
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    put32(&h.array, 1, 4, 0);
    put32(&h.array, 2, 4, -1);
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    hostile_close(&h);
    hostile_open(&h, f, "fixed_size_list<item: int8>[3]", 5);
    h.array.children[0]->length = 14;
    bad_at(f, &h, ARRAY_VALIDATE_SHAPE);
    h.array.children[0]->length = 15;
    hostile_close(&h);
}

static void test_arrow_array__bad_values(void **state)
{
    struct fixture *f = *state;
    struct hostile h;
    hostile_open(&h, f, "string", 40);
    h.array.null_count = 0;
    writable(&h.array, 2)[get32(&h.array, 1, 0)] = 0xff;
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    hostile_close(&h);
    hostile_open(&h, f, "dictionary<values=int32, indices=int8>", 5);
    h.array.null_count = 0; /* with the bitmap, if any, out of the way */
    h.array.buffers[0] = NULL;
    writable(&h.array, 1)[3] = (uint8_t)h.array.dictionary->length;
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    writable(&h.array, 1)[3] = 0x80;
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    hostile_close(&h);
    hostile_open(&h, f, "string_view", 60);
    h.array.null_count = 0;
    h.array.buffers[0] = NULL;
    memset(writable(&h.array, 1), 0, 60 * 16);
    put32(&h.array, 1, 0, 13);
    put32(&h.array, 1, 2, 2); /* a buffer that is not there */
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    put32(&h.array, 1, 2, 1);
    put32(&h.array, 1, 3, 60); /* past its end */
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    put32(&h.array, 1, 3, 2); /* the prefix is another */
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    memset(writable(&h.array, 1) + 4, 'q', 4);
    assert_ok(f, array_validate(&h.schema, &h.array, ARRAY_VALIDATE_FULL, &f->err));
    put32(&h.array, 1, 0, -1);
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    hostile_close(&h);
}

static void test_arrow_array__bad_null_count(void **state)
{
    struct fixture *f = *state;
    struct hostile h;
    hostile_open(&h, f, "int32", 20);
    uint8_t *bits = array_make_buffer(&h.array, 0, 3, &f->err);
    memset(bits, 0xf0, 3);
    h.array.null_count = 12;
    assert_ok(f, array_validate(&h.schema, &h.array, ARRAY_VALIDATE_FULL, &f->err));
    assert_int_equal(array_null_count(&h.schema, &h.array), 12);
    h.array.null_count = 11;
    bad_at(f, &h, ARRAY_VALIDATE_FULL);
    h.array.null_count = -1;
    assert_int_equal(array_null_count(&h.schema, &h.array), 12);
    hostile_close(&h);
}

/* A field as text, rows as a list of "v" (value), "." (null here), and whether the rows are allowed. */
static void test_arrow_array__nullability(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema s;
    struct ArrowArray a;
    /* struct<x: int32 not null> where row 1 is a null struct, row 2 has a null child. */
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<p: struct<x: int32 not null>, l: list<item: int8 not null>>"), "t",
                                        f->mem, &s, &f->err));
    for (int wrong = 0; wrong < 3; wrong++) {
        struct builder *b = builder_new(&s, f->mem, &f->err);
        struct builder *p = builder_child(b, 0);
        struct builder *x = builder_child(p, 0);
        struct builder *l = builder_child(b, 1);
        struct builder *item = builder_child(l, 0);
        for (int i = 0; i < 70; i++) {
            if (i % 3 == 1) {
                assert_ok(f, builder_append_null(p, &f->err)); /* x is null too, under a null */
                assert_ok(f, builder_append_null(l, &f->err));
            } else {
                assert_ok(f, wrong == 1 && i == 69 ? builder_append_null(x, &f->err) : builder_append_int(x, i, &f->err));
                assert_ok(f, builder_append_row(p, &f->err));
                assert_ok(f, builder_append_int(item, 1, &f->err));
                assert_ok(f, wrong == 2 && i == 66 ? builder_append_null(item, &f->err) : builder_append_int(item, 2, &f->err));
                assert_ok(f, builder_append_row(l, &f->err));
            }
            assert_ok(f, builder_append_row(b, &f->err));
        }
        assert_ok(f, builder_finish(b, &a, &f->err));
        assert_ok(f, array_validate(&s, &a, ARRAY_VALIDATE_FULL, &f->err));
        pennon_status st = array_check_nullable(&s, &a, &f->err);
        assert_int_equal(st, wrong == 0 ? PENNON_OK : PENNON_INVALID_ARGUMENT);
        if (wrong == 1) assert_non_null(strstr(f->err.message, "'x'"));
        if (wrong == 2) assert_non_null(strstr(f->err.message, "'item'"));
        array_release(&a);
        builder_free(b);
    }
    arrow_schema_release(&s);
}

/* ----------------------------------------------------------------------------------------------------------- builders */

static void test_arrow_builder__every_kind(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema s;
    struct ArrowArray a;
    struct buf text;
    assert_ok(
        f,
        arrow_schema_from_text(
            bytes_str("struct<i: int16, u: uint64, d: double, s: string, v: string_view, l: large_list<int8>, q: list_view<int8>, "
                      "f: fixed_size_list<bool>[2], m: map<string, int8>, n: null, w: fixed_size_binary[2], e: decimal128(3, 0)>"),
            "t", f->mem, &s, &f->err));
    struct builder *b = builder_new(&s, f->mem, &f->err);
    assert_non_null(b);
    buf_init(&text, f->mem, BUF_NO_LIMIT);
    for (int round = 0; round < 2; round++) {
        assert_ok(f, builder_append_int(builder_child(b, 0), -5, &f->err));
        assert_ok(f, builder_append_uint(builder_child(b, 1), UINT64_MAX, &f->err));
        assert_ok(f, builder_append_double(builder_child(b, 2), 1.5, &f->err));
        assert_ok(f, builder_append_bytes(builder_child(b, 3), bytes_str("h\xc3\xa9"), &f->err));
        assert_ok(f, builder_append_bytes(builder_child(b, 4), bytes_str("a text longer than twelve"), &f->err));
        for (size_t list = 5; list <= 6; list++) {
            assert_ok(f, builder_append_int(builder_child(builder_child(b, list), 0), 7, &f->err));
            assert_ok(f, builder_append_null(builder_child(builder_child(b, list), 0), &f->err));
            assert_ok(f, builder_append_row(builder_child(b, list), &f->err));
        }
        assert_ok(f, builder_append_bool(builder_child(builder_child(b, 7), 0), true, &f->err));
        assert_ok(f, builder_append_bool(builder_child(builder_child(b, 7), 0), false, &f->err));
        assert_ok(f, builder_append_row(builder_child(b, 7), &f->err));
        struct builder *entries = builder_child(builder_child(b, 8), 0);
        assert_ok(f, builder_append_bytes(builder_child(entries, 0), bytes_str("k"), &f->err));
        assert_ok(f, builder_append_int(builder_child(entries, 1), 1, &f->err));
        assert_ok(f, builder_append_row(entries, &f->err));
        assert_ok(f, builder_append_row(builder_child(b, 8), &f->err));
        assert_ok(f, builder_append_null(builder_child(b, 9), &f->err));
        assert_ok(f, builder_append_bytes(builder_child(b, 10), bytes_str("xy"), &f->err));
        assert_ok(f, builder_append_int(builder_child(b, 11), -999, &f->err));
        assert_ok(f, builder_append_row(b, &f->err));
        assert_ok(f, builder_append_null(b, &f->err));
        assert_int_equal(builder_length(b), 2);
        assert_ok(f, builder_finish(b, &a, &f->err));
        assert_int_equal(builder_length(b), 0);
        assert_ok(f, array_validate(&s, &a, ARRAY_VALIDATE_FULL, &f->err));
        text.size = 0;
        render_array(&text, &s, &a, &f->err);
        assert_string_equal((char *)text.data, "{fbff.;ffffffffffffffff.;000000000000f83f.;68c3a9.;61207465787420"
                                               "6c6f6e676572207468616e207477656c7665.;[07.,~,];[07.,~,];[t,f,];[{6b.;01.;},];~;"
                                               "7879.;19fcffffffffffffffffffffffffffff.;}\n~\n");
        array_release(&a);
    }
    builder_free(b);
    buf_free(&text);
    arrow_schema_release(&s);
}

static void test_arrow_builder__refuses(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *type;
        int64_t value;
        bool fits;
    } ints[] = {{"int8", 127, true},
                {"int8", 128, false},
                {"int8", -128, true},
                {"int8", -129, false},
                {"uint8", 255, true},
                {"uint8", 256, false},
                {"uint8", -1, false},
                {"uint32", UINT32_MAX, true},
                {"uint32", -1, false},
                {"int64", INT64_MIN, true},
                {"uint64", -1, false},
                {"float", 16777216, true},
                {"float", 16777217, false},
                {"double", INT64_MIN, false},
                {"halffloat", 2048, true},
                {"halffloat", 2049, false},
                {"string", 1, false},
                {"bool", 1, false},
                {"decimal128(3, 0)", 999, true},
                {"decimal128(3, 0)", 1000, false},
                {"decimal128(3, 1)", 1, false},
                {"date32", 1, true},
                {"list<int8>", 1, false}};
    for (size_t i = 0; i < ARRAY_LEN(ints); i++) {
        struct ArrowSchema s;
        assert_ok(f, arrow_schema_from_text(bytes_str(ints[i].type), "t", f->mem, &s, &f->err));
        struct builder *b = builder_new(&s, f->mem, &f->err);
        pennon_status st = builder_append_int(b, ints[i].value, &f->err);
        if ((st == PENNON_OK) != ints[i].fits) fail_msg("%s %" PRId64, ints[i].type, ints[i].value);
        builder_free(b);
        arrow_schema_release(&s);
    }
    struct ArrowSchema s;
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<a: fixed_size_list<int8>[2], b: fixed_size_binary[3]>"), "t", f->mem, &s,
                                        &f->err));
    struct builder *b = builder_new(&s, f->mem, &f->err);
    assert_int_equal(builder_append_row(builder_child(b, 0), &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(builder_append_bytes(builder_child(b, 1), bytes_str("ab"), &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(builder_append_row(b, &f->err), PENNON_INVALID_ARGUMENT);
    builder_free(b);
    arrow_schema_release(&s);
    assert_ok(f, arrow_schema_from_text(bytes_str("dictionary<string>"), "t", f->mem, &s, &f->err));
    assert_null(builder_new(&s, f->mem, &f->err));
    assert_int_equal(f->err.code, PENNON_NOT_SUPPORTED);
    arrow_schema_release(&s);
}

/* -------------------------------------------------------------------------------------------------------------- casts */

static void build_ints(struct fixture *f, const char *type, const int64_t *values, size_t n, struct ArrowSchema *s,
                       struct ArrowArray *a)
{
    assert_ok(f, arrow_schema_from_text(bytes_str(type), "c", f->mem, s, &f->err));
    struct builder *b = builder_new(s, f->mem, &f->err);
    for (size_t i = 0; i < n; i++)
        assert_ok(f, values[i] == INT64_MAX ? builder_append_null(b, &f->err) : builder_append_int(b, values[i], &f->err));
    assert_ok(f, builder_finish(b, a, &f->err));
    builder_free(b);
}

static void test_arrow_cast__numbers(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *from;
        const char *to;
        int64_t value;
        int64_t want; /* INT64_MIN = it does not fit */
    } cases[] = {
        {"int64", "int8", 127, 127},
        {"int64", "int8", 128, INT64_MIN},
        {"int32", "uint64", -1, INT64_MIN},
        {"int64", "double", (int64_t)1 << 53, 4845873199050653696},
        {"int64", "double", ((int64_t)1 << 53) + 1, INT64_MIN},
        {"double", "int16", 300, 300},
        {"double", "int8", 300, INT64_MIN},
        {"date32", "date64", 2, 172800000},
        {"date64", "date32", 172800000, 2},
        {"date64", "date32", 172800001, INT64_MIN},
        {"timestamp[s]", "timestamp[us]", -3, -3000000},
        {"timestamp[s]", "timestamp[ns]", (int64_t)1 << 62, INT64_MIN},
        {"timestamp[ns]", "timestamp[s]", 2000000000, 2},
        {"timestamp[ns]", "timestamp[s]", 2000000001, INT64_MIN},
        {"timestamp[us, tz=UTC]", "timestamp[us, tz=Europe/Berlin]", 5, 5},
        {"time32[ms]", "time64[ns]", 7, 7000000},
        {"duration[ms]", "duration[s]", 4000, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ArrowSchema from;
        struct ArrowSchema to;
        struct ArrowArray in;
        struct ArrowArray out;
        struct array_view v;
        int64_t values[3] = {0, INT64_MAX, cases[i].value};
        build_ints(f, cases[i].from, values, 3, &from, &in);
        assert_ok(f, arrow_schema_from_text(bytes_str(cases[i].to), "c", f->mem, &to, &f->err));
        pennon_status st = array_cast(&from, &in, &to, f->mem, &out, &f->err);
        if (cases[i].want == INT64_MIN) {
            if (st != PENNON_INVALID_ARGUMENT)
                fail_msg("%s to %s of %" PRId64 " gave %d", cases[i].from, cases[i].to, cases[i].value, (int)st);
            assert_non_null(strstr(f->err.message, "row 2"));
        } else {
            assert_ok(f, st);
            assert_ok(f, array_view_init(&v, &to, &out, &f->err));
            assert_true(array_view_is_null(&v, 1));
            if (array_view_int(&v, 2) != cases[i].want)
                fail_msg("%s to %s: %" PRId64, cases[i].from, cases[i].to, array_view_int(&v, 2));
            array_release(&out);
        }
        array_release(&in);
        arrow_schema_release(&from);
        arrow_schema_release(&to);
    }
}

/* There and back again gives the same rows. */
static void test_arrow_cast__round_trips(void **state)
{
    struct fixture *f = *state;
    static const char *const pairs[][2] = {
        {"string", "large_string"},
        {"string_view", "string"},
        {"binary", "large_binary"},
        {"string", "binary"},
        {"int32", "int64"},
        {"uint8", "double"},
        {"float", "double"},
        {"halffloat", "float"},
        {"int16", "decimal128(7, 2)"},
        {"decimal128(7, 2)", "decimal256(20, 5)"},
        {"list<int32>", "large_list<int64>"},
        {"list<string>", "list_view<large_string>"},
        {"fixed_size_list<int8>[3]", "list<int16>"},
        {"struct<a: int8, b: string>", "struct<a: int16, b: string_view>"},
        {"string", "dictionary<values=string, indices=int8>"},
        {"dictionary<values=string, indices=int8>", "dictionary<values=large_string, indices=int32>"},
        {"map<string, int8>", "map<large_string, int16>"},
        {"fixed_size_binary[3]", "binary"},
    };
    for (uint64_t seed = 0; seed < ARRAY_LEN(pairs) * 6; seed++) {
        const char *const *pair = pairs[seed % ARRAY_LEN(pairs)];
        struct gen g = {f->mem, &f->err, seed * 10007, false};
        struct ArrowSchema from;
        struct ArrowSchema to;
        struct ArrowArray in;
        struct ArrowArray middle;
        struct ArrowArray out;
        assert_ok(f, arrow_schema_from_text(bytes_str(pair[0]), "c", f->mem, &from, &f->err));
        assert_ok(f, arrow_schema_from_text(bytes_str(pair[1]), "c", f->mem, &to, &f->err));
        bool fixed = from.format[0] == '+' && from.format[1] == 'w';
        if (arrow_schema_validate(&from, &f->err) == PENNON_OK && strcmp(from.format, "d:7,2") == 0) {
            int64_t values[2] = {5, INT64_MAX};
            struct ArrowSchema ints;
            build_ints(f, "int16", values, 2, &ints, &middle);
            assert_ok(f, array_cast(&ints, &middle, &from, f->mem, &in, &f->err));
            array_release(&middle);
            arrow_schema_release(&ints);
        } else {
            gen_array(&g, &from, (int64_t)gen_below(&g, 30), false, &in);
        }
        assert_ok(f, array_cast(&from, &in, &to, f->mem, &middle, &f->err));
        assert_ok(f, array_validate(&to, &middle, ARRAY_VALIDATE_FULL, &f->err));
        pennon_status st = array_cast(&to, &middle, &from, f->mem, &out, &f->err);
        if (fixed && array_null_count(&from, &in) > 0) {
            assert_int_equal(st, PENNON_NOT_SUPPORTED);
        } else if (strstr(pair[0], "dictionary") != NULL && st == PENNON_OK) {
            array_release(&out); /* a null value may have become a null index */
        } else {
            assert_ok(f, st);
            assert_ok(f, array_validate(&from, &out, ARRAY_VALIDATE_FULL, &f->err));
            if (!array_equal(&from, &in, &out)) fail_msg("%s to %s and back", pair[0], pair[1]);
            array_release(&out);
        }
        array_release(&in);
        array_release(&middle);
        arrow_schema_release(&from);
        arrow_schema_release(&to);
    }
}

static void test_arrow_cast__refuses(void **state)
{
    struct fixture *f = *state;
    static const char *const pairs[][2] = {{"string", "int32"},
                                           {"timestamp[us]", "timestamp[us, tz=UTC]"},
                                           {"date32", "int32"},
                                           {"list<int32>", "int32"},
                                           {"struct<a: int8>", "struct<a: int8, b: int8>"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct gen g = {f->mem, &f->err, i, false};
        struct ArrowSchema from;
        struct ArrowSchema to;
        struct ArrowArray in;
        struct ArrowArray out;
        assert_ok(f, arrow_schema_from_text(bytes_str(pairs[i][0]), "c", f->mem, &from, &f->err));
        assert_ok(f, arrow_schema_from_text(bytes_str(pairs[i][1]), "c", f->mem, &to, &f->err));
        gen_array(&g, &from, 3, true, &in);
        assert_int_equal(array_cast(&from, &in, &to, f->mem, &out, &f->err), PENNON_NOT_SUPPORTED);
        assert_null(out.release);
        array_release(&in);
        arrow_schema_release(&from);
        arrow_schema_release(&to);
    }
}

/* --------------------------------------------------------------------------------------------------------- wide numbers */

static void test_arrow_wide__texts(void **state)
{
    static const struct {
        const char *text;
        int32_t scale;
        int32_t digits;
        const char *want; /* NULL = refused */
    } cases[] = {
        {"0", 0, 5, "0"},
        {"-12.5", 2, 5, "-12.50"},
        {"+0.05", 2, 3, "0.05"},
        {"1e3", 0, 5, "1000"},
        {"1.25E1", 1, 5, "12.5"},
        {"1.25", 1, 5, NULL},
        {"1.20", 1, 5, "1.2"},
        {"100000", 0, 5, NULL},
        {"99999999999999999999999999999999999999", 0, 38, "99999999999999999999999999999999999999"},
        {"-9999999999999999999999999999999999999999999999999999999999999999999999999999", 0, 76,
         "-9999999999999999999999999999999999999999999999999999999999999999999999999999"},
        {"99999999999999999999999999999999999999999999999999999999999999999999999999990", 0, 76, NULL},
        {"1200", -2, 5, "12e2"},
        {"", 0, 5, NULL},
        {"-", 0, 5, NULL},
        {".", 0, 5, NULL},
        {".5", 1, 5, "0.5"},
        {"1.2.3", 3, 5, NULL},
        {"1e", 0, 5, NULL},
        {"1e999999999", 0, 5, NULL},
        {"0e99999", 0, 5, "0"},
        {"12x", 0, 5, NULL},
    };
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wide v;
        struct wide back;
        uint8_t bytes[32];
        char text[WIDE_TEXT_MAX];
        bool ok = wide_from_text(bytes_str(cases[i].text), cases[i].scale, cases[i].digits, &v);
        if (ok != (cases[i].want != NULL)) fail_msg("'%s'", cases[i].text);
        if (!ok) continue;
        assert_int_equal(wide_to_text(&v, cases[i].scale, text), strlen(cases[i].want));
        assert_string_equal(text, cases[i].want);
        wide_store(&v, bytes, 32);
        back = wide_load(bytes, 32);
        assert_memory_equal(&back, &v, sizeof v);
    }
}

static void test_arrow_utf8__valid(void **state)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {{"", true},
                 {"plain ascii text that is long", true},
                 {"h\xc3\xa9", true},
                 {"\xe2\x82\xac", true},
                 {"\xf0\x9f\x98\x80", true},
                 {"12345678\xc3", false},
                 {"\xc0\x80", false},
                 {"\xc1\xbf", false},
                 {"\xe0\x80\x80", false},
                 {"\xed\xa0\x80", false},
                 {"\xed\x9f\xbf", true},
                 {"\xf0\x80\x80\x80", false},
                 {"\xf4\x90\x80\x80", false},
                 {"\xf4\x8f\xbf\xbf", true},
                 {"\xf5\x80\x80\x80", false},
                 {"\x80", false},
                 {"\xe2\x82", false},
                 {"abcdefg\xff", false}};
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (utf8_valid((const uint8_t *)cases[i].text, strlen(cases[i].text)) != cases[i].valid) fail_msg("case %zu", i);
    }
}

static void test_arrow_bitmap__against_bits(void **state)
{
    struct fixture *f = *state;
    struct gen g = {f->mem, &f->err, 99, false};
    for (int round = 0; round < 2000; round++) {
        uint8_t a[40];
        uint8_t b[40];
        uint8_t was[40];
        for (size_t i = 0; i < sizeof a; i++) {
            a[i] = (uint8_t)gen_next(&g);
            b[i] = was[i] = (uint8_t)gen_next(&g);
        }
        uint64_t from = gen_below(&g, 100);
        uint64_t to = gen_below(&g, 100);
        uint64_t n = gen_below(&g, 200);
        uint64_t count = 0;
        bitmap_copy(b, to, a, from, n);
        for (uint64_t i = 0; i < sizeof b * 8; i++) {
            bool inside = i >= to && i < to + n;
            assert_int_equal(bit_get(b, i), inside ? bit_get(a, from + i - to) : bit_get(was, i));
            if (inside) count += bit_get(b, i);
        }
        assert_int_equal(bitmap_count(a, from, n), count);
        assert_true(bitmap_equal(a, from, b, to, n));
        if (n > 0) {
            b[(to + n - 1) / 8] ^= (uint8_t)(1u << ((to + n - 1) % 8));
            assert_false(bitmap_equal(a, from, b, to, n));
        }
        memcpy(was, b, sizeof b);
        bitmap_fill(b, to, n, round & 1);
        for (uint64_t i = 0; i < sizeof b * 8; i++)
            assert_int_equal(bit_get(b, i), i >= to && i < to + n ? (round & 1) : bit_get(was, i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_arrow_array__buffers_and_blocks),
        FIXTURE_TEST(test_arrow_array__children_and_dictionary_move_out),
        FIXTURE_TEST(test_arrow_array__columns_of_slices_go_one_by_one),
        FIXTURE_TEST(test_arrow_array__record),
        FIXTURE_TEST(test_arrow_array__bad_counts),
        FIXTURE_TEST(test_arrow_array__bad_buffers),
        FIXTURE_TEST(test_arrow_array__bad_offsets),
        FIXTURE_TEST(test_arrow_array__bad_values),
        FIXTURE_TEST(test_arrow_array__bad_null_count),
        FIXTURE_TEST(test_arrow_array__nullability),
        FIXTURE_TEST(test_arrow_builder__every_kind),
        FIXTURE_TEST(test_arrow_builder__refuses),
        FIXTURE_TEST(test_arrow_cast__numbers),
        FIXTURE_TEST(test_arrow_cast__round_trips),
        FIXTURE_TEST(test_arrow_cast__refuses),
        FIXTURE_TEST(test_arrow_wide__texts),
        FIXTURE_TEST(test_arrow_utf8__valid),
        FIXTURE_TEST(test_arrow_bitmap__against_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
