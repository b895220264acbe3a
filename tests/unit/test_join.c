/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Joins: keys of every type against comparing values one by one, and rows that are kept in a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "exec/join.h"
#include "exec/row_store.h"
#include "pennon/pennon.h"

struct world {
    struct mem *mem;
    pennon_error err;
    uint64_t seed;
};

static void ok(struct world *w, pennon_status st)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), w->err.message);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    pennon_error_init(&w->err);
    w->mem = mem_new(NULL, UINT64_MAX, NULL, &w->err);
    assert_non_null(w->mem);
    w->seed = 1;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    free(w);
    return 0;
}

static uint64_t next(struct world *w, uint64_t below)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (w->seed >> 33) % below;
}

/* ---- values: few of them, so that rows meet ---- */

static void append_value(struct world *w, struct builder *b, const struct ArrowSchema *schema, uint64_t v);

static void append_nested(struct world *w, struct builder *b, const struct ArrowSchema *schema, const struct arrow_type *t,
                          uint64_t v)
{
    if (t->layout == LAYOUT_STRUCT) {
        for (int64_t i = 0; i < schema->n_children; i++)
            append_value(w, builder_child(b, (size_t)i), schema->children[i], v / (uint64_t)(i + 1));
    } else {
        const uint64_t n = t->layout == LAYOUT_FIXED_LIST ? (uint64_t)t->fixed_size : v % 3;
        for (uint64_t i = 0; i < n; i++) append_value(w, builder_child(b, 0), schema->children[0], v + i);
    }
    ok(w, builder_append_row(b, &w->err));
}

static void append_value(struct world *w, struct builder *b, const struct ArrowSchema *schema, uint64_t v)
{
    struct arrow_type t;
    char text[64];
    uint8_t bytes[64];
    ok(w, arrow_type_of(schema, &t, &w->err));
    if (v == 0) {
        ok(w, builder_append_null(b, &w->err));
    } else if (schema->n_children > 0) {
        append_nested(w, b, schema, &t, v);
    } else if (t.id == ARROW_BOOL) {
        ok(w, builder_append_bool(b, v % 2, &w->err));
    } else if (arrow_id_is_variable(t.id)) {
        const int n = snprintf(text, sizeof text, v % 2 ? "%llu" : "a text of more bytes, %llu", (unsigned long long)v);
        ok(w, builder_append_bytes(b, bytes_of(text, (size_t)n), &w->err));
    } else {
        memset(bytes, (int)v, sizeof bytes);
        ok(w, builder_append_bytes(b, bytes_of(bytes, arrow_type_width(&t)), &w->err));
    }
}

static void make_column(struct world *w, const struct ArrowSchema *schema, int64_t rows, uint64_t values, struct ArrowArray *out)
{
    struct builder *b = builder_new(schema, w->mem, &w->err);
    assert_non_null(b);
    for (int64_t i = 0; i < rows; i++) append_value(w, b, schema, next(w, values));
    ok(w, builder_finish(b, out, &w->err));
    builder_free(b);
}

/* ---- the naive join ---- */

struct side {
    struct ArrowArray columns[4];
    const struct ArrowArray *list[4];
    struct array_view views[4];
    int64_t rows;
};

#define COLUMNS_MAX 4

struct keys {
    struct ArrowSchema schemas[COLUMNS_MAX];
    const struct ArrowSchema *list[COLUMNS_MAX];
    size_t n;
    struct arena arena;
};

static void make_side(struct world *w, struct keys *k, int64_t rows, uint64_t values, struct side *out)
{
    out->rows = rows;
    for (size_t i = 0; i < k->n; i++) {
        make_column(w, &k->schemas[i], rows, values, &out->columns[i]);
        out->list[i] = &out->columns[i];
        ok(w, array_view_deep(&out->views[i], &k->schemas[i], &out->columns[i], &k->arena, &w->err));
    }
}

static bool same(const struct keys *k, const struct side *a, int64_t i, const struct side *b, int64_t j)
{
    for (size_t c = 0; c < k->n; c++) {
        if (array_view_is_null(&a->views[c], i) || array_view_is_null(&b->views[c], j)) return false;
        if (array_compare(&a->views[c], i, &b->views[c], j) != 0) return false;
    }
    return true;
}

/* Rows of the table's chain for row j of the probe side are those that the naive join finds, in order. */
static void check_row(const struct keys *k, const struct side *build, const struct side *probe, int64_t j,
                      const struct join_table *t, uint32_t entry, uint8_t *found)
{
    uint32_t row = entry == JOIN_NONE ? JOIN_NONE : t->first[entry];
    for (int64_t i = 0; i < build->rows && entry != JOIN_NONE; i++) {
        if (!same(k, build, i, probe, j)) continue;
        assert_int_equal(row, i);
        row = join_table_next(t, row);
    }
    assert_int_equal(row, JOIN_NONE);
    found[j] = found[j] || entry != JOIN_NONE;
}

static void run_join(struct world *w, struct keys *k, int64_t rows, uint32_t parts, bool expect_words)
{
    struct side build, probe;
    struct join_columns columns;
    struct join_keys keys;
    uint32_t entries[512];
    uint8_t found[512] = {0};
    make_side(w, k, rows, 40, &build);
    make_side(w, k, 512, 50, &probe);
    ok(w, join_columns_init(&columns, k->list, k->n, &w->err));
    assert_int_equal(columns.form, expect_words ? JOIN_WORD : JOIN_BYTES);
    join_keys_init(&keys, w->mem);
    for (uint32_t part = 0; part < parts; part++) {
        struct join_table t;
        ok(w, join_table_init(&t, w->mem, columns.form, (uint32_t)rows, (uint32_t)rows, &w->err));
        for (int64_t at = 0; at < rows; at += 77) {
            ok(w, join_keys_make(&keys, &columns, build.list, at, rows - at < 77 ? rows - at : 77, &w->err));
            ok(w, join_table_add(&t, &keys, (uint32_t)at, part, parts, &w->err));
        }
        for (int64_t at = 0; at < 512; at += 200) {
            const int64_t n = 512 - at < 200 ? 512 - at : 200;
            ok(w, join_keys_make(&keys, &columns, probe.list, at, n, &w->err));
            join_table_find(&t, &keys, entries);
            for (int64_t j = 0; j < n; j++) check_row(k, &build, &probe, at + j, &t, entries[j], found);
        }
        join_table_free(&t);
    }
    for (int64_t j = 0; j < 512; j++) {
        bool any = false;
        for (int64_t i = 0; i < rows && !any; i++) any = same(k, &build, i, &probe, j);
        assert_int_equal(found[j], any);
    }
    join_keys_free(&keys);
    for (size_t i = 0; i < k->n; i++) {
        array_release(&build.columns[i]);
        array_release(&probe.columns[i]);
    }
}

static void with_keys(struct world *w, const char *const *types, size_t n, bool expect_words)
{
    struct keys k = {.n = n};
    for (size_t i = 0; i < n; i++) {
        ok(w, arrow_schema_from_text(bytes_str(types[i]), "k", w->mem, &k.schemas[i], &w->err));
        k.list[i] = &k.schemas[i];
    }
    arena_init(&k.arena, w->mem);
    run_join(w, &k, 300, 1, expect_words);
    run_join(w, &k, 1, 1, expect_words);
    run_join(w, &k, 300, 4, expect_words);
    run_join(w, &k, 30, 16, expect_words);
    arena_reset(&k.arena);
    for (size_t i = 0; i < n; i++) arrow_schema_release(&k.schemas[i]);
}

static void test_exec_join__words(void **state)
{
    static const char *const types[] = {"bool",       "int8",          "uint8",        "int16",           "uint16",
                                        "int32",      "uint32",        "int64",        "uint64",          "halffloat",
                                        "float",      "double",        "date32[day]",  "date64[ms]",      "time32[s]",
                                        "time64[us]", "timestamp[us]", "duration[ns]", "decimal32(5, 2)", "decimal64(12, 2)"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) with_keys(*state, &types[i], 1, true);
}

static void test_exec_join__bytes(void **state)
{
    static const char *const types[] = {"string",
                                        "large_string",
                                        "binary",
                                        "large_binary",
                                        "string_view",
                                        "fixed_size_binary[3]",
                                        "fixed_size_binary[20]",
                                        "decimal128(20, 3)",
                                        "decimal256(50, 3)",
                                        "list<item: int32>",
                                        "large_list<item: string>",
                                        "fixed_size_list<item: float>[3]",
                                        "struct<a: int32, b: string>",
                                        "struct<a: list<item: int8>, b: struct<c: bool>>"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) with_keys(*state, &types[i], 1, strcmp(types[i], "fixed_size_binary[3]") == 0);
}

static void test_exec_join__several(void **state)
{
    static const char *const words[] = {"int16", "int32", "bool"}, *const full[] = {"int32", "int32"},
                             *const wide[] = {"int64", "bool"}, *const texts[] = {"string", "string"},
                             *const mixed[] = {"int64", "string", "list<item: int32>", "bool"};
    with_keys(*state, words, 3, true);
    with_keys(*state, full, 2, true);
    with_keys(*state, wide, 2, false);
    with_keys(*state, texts, 2, false);
    with_keys(*state, mixed, 4, false);
}

/* "a", "bc" is not "ab", "c". */
static void test_exec_join__no_mixing_of_columns(void **state)
{
    struct world *w = *state;
    struct keys k = {.n = 2};
    struct side s[2];
    struct join_columns columns;
    struct join_keys keys[2];
    static const char *const values[2][2] = {{"a", "bc"}, {"ab", "c"}};
    for (size_t i = 0; i < 2; i++) {
        ok(w, arrow_schema_from_text(bytes_str("string"), "k", w->mem, &k.schemas[i], &w->err));
        k.list[i] = &k.schemas[i];
    }
    ok(w, join_columns_init(&columns, k.list, 2, &w->err));
    for (size_t side = 0; side < 2; side++) {
        join_keys_init(&keys[side], w->mem);
        for (size_t i = 0; i < 2; i++) {
            struct builder *b = builder_new(&k.schemas[i], w->mem, &w->err);
            ok(w, builder_append_bytes(b, bytes_str(values[side][i]), &w->err));
            ok(w, builder_finish(b, &s[side].columns[i], &w->err));
            builder_free(b);
            s[side].list[i] = &s[side].columns[i];
        }
        ok(w, join_keys_make(&keys[side], &columns, s[side].list, 0, 1, &w->err));
    }
    assert_false(bytes_equal(bytes_of(keys[0].bytes.data, keys[0].bytes.size), bytes_of(keys[1].bytes.data, keys[1].bytes.size)));
    for (size_t side = 0; side < 2; side++) {
        join_keys_free(&keys[side]);
        array_release(&s[side].columns[0]);
        array_release(&s[side].columns[1]);
    }
    arrow_schema_release(&k.schemas[0]);
    arrow_schema_release(&k.schemas[1]);
}

/* ---- rows that are kept ---- */

static void make_stream(struct world *w, const int64_t *sizes, size_t n, struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    struct ArrowArray batches[64];
    assert_true(n <= ARRAY_LEN(batches));
    ok(w, arrow_schema_from_text(
              bytes_str("struct<a: int64, s: string_view, l: list<item: string>, d: dictionary<values=string, indices=int32>>"), "",
              w->mem, &schema, &w->err));
    for (size_t i = 0; i < n; i++) {
        ok(w, array_new(&batches[i], 1, 4, w->mem, &w->err));
        batches[i].length = sizes[i];
        for (int64_t c = 0; c < 3; c++) make_column(w, schema.children[c], sizes[i], 30, batches[i].children[c]);
        struct ArrowArray values, *d = batches[i].children[3];
        struct ArrowSchema index;
        ok(w, arrow_schema_from_text(bytes_str("int32"), "", w->mem, &index, &w->err));
        struct builder *b = builder_new(&index, w->mem, &w->err);
        for (int64_t r = 0; r < sizes[i]; r++) ok(w, builder_append_int(b, (int64_t)next(w, 5), &w->err));
        ok(w, builder_finish(b, d, &w->err));
        builder_free(b);
        arrow_schema_release(&index);
        make_column(w, schema.children[3]->dictionary, 5, 30, &values);
        array_move(&values, array_dictionary_slot(d));
    }
    ok(w, stream_from_arrays(&schema, batches, n, w->mem, out, &w->err));
}

static void run_store(struct world *w, const int64_t *sizes, size_t n, uint64_t memory)
{
    struct ArrowArrayStream in, again;
    struct row_store rows;
    struct call c;
    struct ArrowArray all, plain, kept;
    struct ArrowSchema schema;
    const struct ArrowArray *list[256];
    struct shared_array *parts[256];
    const uint64_t seed = w->seed;
    ok(w, call_begin(&c, NULL, &w->err));
    make_stream(w, sizes, n, &in);
    w->seed = seed;
    make_stream(w, sizes, n, &again);
    ok(w, stream_schema(&again, &schema, &w->err));
    ok(w, stream_collect(&again, &schema, w->mem, &all, &w->err));
    ok(w, array_copy_range(&schema, &all, 0, all.length, ARRAY_PLAIN_VIEWS, w->mem, &plain, &w->err));
    ok(w, row_store_fill(&rows, &c, &in, memory, &w->err));
    stream_release(&in);
    assert_int_equal(rows.rows, all.length);
    assert_int_equal(rows.size > 0, memory == 0 && all.length > 0);
    assert_true(rows.n_chunks <= ARRAY_LEN(parts));
    for (size_t i = 0; i < rows.n_chunks; i++) {
        ok(w, row_store_chunk(&rows, i, &parts[i], &w->err));
        list[i] = shared_array_get(parts[i]);
        assert_int_equal(row_store_find(&rows, rows.chunks[i].first), i);
        assert_int_equal(row_store_find(&rows, rows.chunks[i].first + rows.chunks[i].rows - 1), i);
    }
    if (rows.n_chunks > 0) {
        ok(w, array_concat(&rows.schema, rows.n_chunks, list, w->mem, &kept, &w->err));
        assert_true(array_equal(&rows.schema, &kept, &plain));
        array_release(&kept);
    }
    for (size_t i = 0; i < rows.n_chunks; i++) shared_array_release(parts[i]);
    row_store_free(&rows);
    array_release(&all);
    array_release(&plain);
    arrow_schema_release(&schema);
    stream_release(&again);
    call_end(&c);
}

static void test_exec_row_store__rows(void **state)
{
    static const int64_t mixed[] = {5, 0, 3000, 1, 1, 1, 700, 2048, 9000, 2}, one[] = {1}, none[] = {0};
    int64_t small[64];
    for (size_t i = 0; i < 64; i++) small[i] = (int64_t)(i * 7 % 301);
    for (int memory = 0; memory < 2; memory++) {
        const uint64_t bytes = memory ? UINT64_MAX : 0;
        run_store(*state, mixed, ARRAY_LEN(mixed), bytes);
        run_store(*state, small, ARRAY_LEN(small), bytes);
        run_store(*state, one, 1, bytes);
        run_store(*state, none, 1, bytes);
        run_store(*state, none, 0, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exec_join__words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_join__bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_join__several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_join__no_mixing_of_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_row_store__rows, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
