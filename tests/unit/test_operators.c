/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Order, limit and aggregates over streams of random batches, against models that compare row by row. */
#include "exec/operators.h"

#include <math.h>

#include "arrow_gen.h"

#define ROUNDS 120u
#define MOST_ROWS 4000

/* A random stream, and all its rows as one batch. */
struct world {
    struct fixture *f;
    struct call call;
    struct gen g;
    struct ArrowSchema schema;
    struct ArrowArray whole;
    struct shared_array *shared;
};

static void world_open(struct world *w, struct fixture *f, uint64_t seed, int64_t rows, unsigned columns)
{
    memset(w, 0, sizeof *w);
    w->f = f;
    w->g = (struct gen){f->mem, &f->err, seed * 2654435761u + 1, false};
    assert_ok(f, call_begin(&w->call, NULL, &f->err));
    gen_record_schema(&w->g, columns, seed % 3 == 0 ? 3 : 1, &w->schema);
    gen_record(&w->g, &w->schema, rows, &w->whole);
    w->shared = shared_array_new(&w->whole, f->mem, &f->err);
    assert_non_null(w->shared);
}

static void world_close(struct world *w)
{
    shared_array_release(w->shared);
    arrow_schema_release(&w->schema);
    call_end(&w->call);
}

/* The rows in batches of random sizes, empty ones among them. */
static void world_stream(struct world *w, struct ArrowArrayStream *out)
{
    struct ArrowArray batches[64];
    struct ArrowSchema schema;
    const int64_t rows = shared_array_get(w->shared)->length;
    size_t n = 0;
    for (int64_t at = 0; at < rows;) {
        int64_t take = (int64_t)gen_below(&w->g, (uint64_t)rows / 3 + 2);
        if (take > rows - at || n == ARRAY_LEN(batches) - 1) take = rows - at;
        assert_ok(w->f, array_slice(&w->schema, w->shared, at, take, w->f->mem, &batches[n++], &w->f->err));
        at += take;
    }
    assert_ok(w->f, arrow_schema_copy(&w->schema, w->f->mem, &schema, &w->f->err));
    assert_ok(w->f, stream_from_arrays(&schema, batches, n, w->f->mem, out, &w->f->err));
}

/* ---- order ---- */

static int model_order(const struct array_view *v, const struct sort_key *keys, size_t n_keys, int64_t a, int64_t b)
{
    for (size_t k = 0; k < n_keys; k++) {
        const struct array_view *c = &v->children[keys[k].column];
        const bool null_a = array_view_is_null(c, a), null_b = array_view_is_null(c, b);
        int order = (int)null_a - (int)null_b;
        if (!null_a && !null_b) order = array_compare_nulls(c, a, c, b, array_sort_nulls_low(keys[k].flags));
        const bool turn = null_a || null_b ? (keys[k].flags & ARRAY_SORT_NULLS_FIRST) : (keys[k].flags & ARRAY_SORT_DESCENDING);
        if (turn) order = -order;
        if (order) return order;
    }
    return 0;
}

static void model_sort(const struct array_view *v, const struct sort_key *keys, size_t n_keys, int64_t *rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++) rows[i] = i;
    /* Binary insertion: few comparisons, and plainly stable. */
    for (int64_t i = 1; i < n; i++) {
        int64_t low = 0, high = i;
        while (low < high) {
            const int64_t mid = (low + high) / 2;
            if (model_order(v, keys, n_keys, rows[mid], i) <= 0) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        memmove(rows + low + 1, rows + low, (size_t)(i - low) * sizeof *rows);
        rows[low] = i;
    }
}

/* The rows of the stream are rows[0..n) of the whole, in this order, and no batch has more than `most`. */
static void expect_rows(struct world *w, struct ArrowArrayStream *stream, const int64_t *rows, uint64_t n, uint64_t most)
{
    struct fixture *f = w->f;
    struct arena arena;
    struct array_view want, got;
    struct buf a, b;
    uint64_t at = 0;
    arena_init(&arena, f->mem);
    buf_init(&a, f->mem, BUF_NO_LIMIT);
    buf_init(&b, f->mem, BUF_NO_LIMIT);
    assert_ok(f, array_view_deep(&want, &w->schema, shared_array_get(w->shared), &arena, &f->err));
    for (;;) {
        struct ArrowArray batch;
        assert_ok(f, stream_next(stream, &batch, &f->err));
        if (!batch.release) break;
        assert_true((uint64_t)batch.length <= most && batch.length > 0);
        assert_ok(f, array_view_deep(&got, &w->schema, &batch, &arena, &f->err));
        for (int64_t i = 0; i < batch.length; i++) {
            assert_true(at < n);
            a.size = b.size = 0;
            render_row(&a, &want, rows[at++], &f->err);
            render_row(&b, &got, i, &f->err);
            assert_true(bytes_equal(bytes_of(a.data, a.size), bytes_of(b.data, b.size)));
        }
        array_release(&batch);
    }
    assert_int_equal(at, n);
    buf_free(&a);
    buf_free(&b);
    arena_reset(&arena);
}

static size_t pick_keys(struct world *w, struct sort_key *keys)
{
    size_t n = 0;
    for (uint32_t i = 0; i < w->schema.n_children; i++) {
        if (!sort_possible(w->schema.children[i])) continue;
        keys[n++] = (struct sort_key){i, (unsigned)gen_below(&w->g, 4)};
    }
    return n;
}

static void test_operators__order(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct world w;
        struct sort_key keys[8];
        struct ArrowArrayStream in, out;
        struct arena arena;
        struct array_view v;
        static int64_t rows[MOST_ROWS];
        world_open(&w, f, seed, seed % 7 == 0 ? MOST_ROWS : (int64_t)(seed % 300), 3);
        const size_t n_keys = pick_keys(&w, keys);
        const int64_t n = shared_array_get(w.shared)->length;
        if (n_keys) {
            arena_init(&arena, f->mem);
            assert_ok(f, array_view_deep(&v, &w.schema, shared_array_get(w.shared), &arena, &f->err));
            model_sort(&v, keys, n_keys, rows, n);
            world_stream(&w, &in);
            assert_ok(f, sort_open(&w.call, &in, keys, n_keys, 0, UINT64_MAX, 100, &out, &f->err));
            assert_null(in.release);
            expect_rows(&w, &out, rows, (uint64_t)n, 100);
            stream_release(&out);
            /* A part of it, with few rows kept. */
            const uint64_t offset = min_u64(gen_below(&w.g, 20), (uint64_t)n), limit = gen_below(&w.g, 50);
            world_stream(&w, &in);
            assert_ok(f, sort_open(&w.call, &in, keys, n_keys, offset, limit, 7, &out, &f->err));
            expect_rows(&w, &out, rows + offset, min_u64((uint64_t)n - offset, limit), 7);
            stream_release(&out);
            arena_reset(&arena);
        }
        world_close(&w);
    }
}

/* Counts up and down, so that many batches come after the best rows are known. */
static void test_operators__best_of_many(void **state)
{
    struct fixture *f = *state;
    struct call call;
    assert_ok(f, call_begin(&call, NULL, &f->err));
    for (unsigned flags = 0; flags < 4; flags++) {
        struct ArrowSchema schema;
        struct ArrowArray batches[40];
        struct ArrowArrayStream in, out;
        const struct sort_key key = {0, flags};
        const bool down = flags & ARRAY_SORT_DESCENDING, nulls_first = flags & ARRAY_SORT_NULLS_FIRST;
        assert_ok(f, arrow_schema_new(&schema, "+s", "", 0, 1, f->mem, &f->err));
        assert_ok(f, arrow_schema_new(schema.children[0], "l", "n", ARROW_FLAG_NULLABLE, 0, f->mem, &f->err));
        for (size_t b = 0; b < ARRAY_LEN(batches); b++) {
            struct builder *made = builder_new(&schema, f->mem, &f->err);
            assert_non_null(made);
            for (int64_t i = 0; i < 3000; i++) {
                const int64_t v = ((int64_t)b * 3000 + i) * 7919 % 120011;
                if (v == 5) {
                    assert_ok(f, builder_append_null(builder_child(made, 0), &f->err));
                } else {
                    assert_ok(f, builder_append_int(builder_child(made, 0), v, &f->err));
                }
                assert_ok(f, builder_append_row(made, &f->err));
            }
            assert_ok(f, builder_finish(made, &batches[b], &f->err));
            builder_free(made);
        }
        assert_ok(f, stream_from_arrays(&schema, batches, ARRAY_LEN(batches), f->mem, &in, &f->err));
        assert_ok(f, sort_open(&call, &in, &key, 1, 1, 10, 100, &out, &f->err));
        struct ArrowArray best;
        assert_ok(f, stream_next(&out, &best, &f->err));
        assert_int_equal(best.length, 10);
        const int64_t *values = best.children[0]->buffers[1];
        /* Distinct numbers below 120,011 but for eleven; the first row is skipped. */
        int64_t expected = down ? 120010 : 0, found = 0, skip = nulls_first ? 0 : 1;
        for (int64_t i = 0; i < 10; i++) {
            if (!down && values[i] > expected) expected = values[i];
            assert_true(down ? values[i] <= expected : values[i] >= expected);
            if (i) assert_true(down ? values[i] < values[i - 1] : values[i] > values[i - 1]);
            found++;
        }
        assert_int_equal(found, 10);
        if (!down) assert_int_equal(values[0], skip);
        array_release(&best);
        stream_release(&out);
    }
    call_end(&call);
}

static void test_operators__limit(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct world w;
        struct ArrowArrayStream in, out;
        int64_t rows[300];
        world_open(&w, f, seed, (int64_t)(seed % 300), 2);
        const uint64_t n = (uint64_t)shared_array_get(w.shared)->length;
        for (int64_t i = 0; i < 300; i++) rows[i] = i;
        const uint64_t offset = gen_below(&w.g, n + 3), limit = gen_below(&w.g, 4) ? gen_below(&w.g, n + 3) : UINT64_MAX;
        world_stream(&w, &in);
        assert_ok(f, limit_open(&w.call, &in, offset, limit, &out, &f->err));
        const uint64_t left = n - min_u64(offset, n);
        expect_rows(&w, &out, rows + min_u64(offset, n), min_u64(left, limit), UINT64_MAX);
        stream_release(&out);
        world_close(&w);
    }
}

static void test_operators__refuses_types_without_order(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    assert_ok(f, arrow_schema_from_text(bytes_str("map<string, int32>"), "m", f->mem, &schema, &f->err));
    assert_false(sort_possible(&schema));
    arrow_schema_release(&schema);
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<a: list<item: string>>"), "s", f->mem, &schema, &f->err));
    assert_true(sort_possible(&schema));
    arrow_schema_release(&schema);
}

/* ---- aggregates ---- */

/* Group columns of row i as text. A null in a dictionary is a null of the column: one group. */
static void group_text(struct buf *out, const struct array_view *v, const uint32_t *groups, size_t n, int64_t i, pennon_error *err)
{
    out->size = 0;
    for (size_t k = 0; k < n; k++) {
        const size_t start = out->size;
        render_row(out, &v->children[groups[k]], i, err);
        if (out->size - start == 2 && memcmp(out->data + start, "d~", 2) == 0) memcpy(out->data + --out->size - 1, "~", 1);
        assert_int_equal(buf_append_byte(out, '.', err), PENNON_OK);
    }
    assert_int_equal(buf_append_byte(out, 0, err), PENNON_OK);
}

static void test_operators__groups(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct world w;
        struct ArrowArrayStream in, out;
        struct ArrowArray result;
        struct ArrowSchema schema;
        struct arena arena;
        struct array_view v, got;
        struct buf a, b;
        struct sort_key keys[8];
        uint32_t groups[8];
        world_open(&w, f, seed, (int64_t)(seed % 200), 2);
        const size_t n_groups = pick_keys(&w, keys) ? 1 + seed % 2 : 0;
        const size_t n_keys = pick_keys(&w, keys);
        for (size_t i = 0; i < n_groups; i++) groups[i] = keys[i % n_keys].column;
        const struct aggregate wanted[] = {{AGGREGATE_COUNT_ROWS, 0, "rows"}, {AGGREGATE_COUNT, 0, "values"}};
        arena_init(&arena, f->mem);
        buf_init(&a, f->mem, BUF_NO_LIMIT);
        buf_init(&b, f->mem, BUF_NO_LIMIT);
        assert_ok(f, array_view_deep(&v, &w.schema, shared_array_get(w.shared), &arena, &f->err));
        world_stream(&w, &in);
        assert_ok(f, aggregate_open(&w.call, &in, groups, n_groups, wanted, 2, &out, &f->err));
        assert_ok(f, stream_schema(&out, &schema, &f->err));
        assert_ok(f, stream_next(&out, &result, &f->err));
        assert_non_null(result.release);
        assert_ok(f, array_validate(&schema, &result, ARRAY_VALIDATE_FULL, &f->err));
        assert_ok(f, array_view_deep(&got, &schema, &result, &arena, &f->err));
        uint32_t own[8];
        for (uint32_t k = 0; k < n_groups; k++) own[k] = k;
        int64_t total = 0;
        for (int64_t g = 0; g < result.length; g++) {
            int64_t rows = 0, values = 0;
            group_text(&a, &got, own, n_groups, g, &f->err);
            for (int64_t i = 0; i < v.length; i++) {
                group_text(&b, &v, groups, n_groups, i, &f->err);
                if (!bytes_equal(bytes_of(a.data, a.size), bytes_of(b.data, b.size))) continue;
                rows++;
                values += !array_view_is_null(&v.children[0], i);
            }
            assert_int_equal(array_view_int(&got.children[n_groups], g), rows);
            assert_int_equal(array_view_int(&got.children[n_groups + 1], g), values);
            total += rows;
        }
        assert_int_equal(total, v.length);
        array_release(&result);
        arrow_schema_release(&schema);
        stream_release(&out);
        buf_free(&a);
        buf_free(&b);
        arena_reset(&arena);
        world_close(&w);
    }
}

/* Row 0 as a person would write it. */
static void plain_text(struct fixture *f, const struct array_view *v, struct buf *out)
{
    out->size = 0;
    char text[WIDE_TEXT_MAX];
    if (array_view_is_null(v, 0)) {
        assert_ok(f, buf_printf(out, &f->err, "null"));
    } else if (arrow_id_is_variable(v->type.id)) {
        const struct bytes b = array_view_bytes(v, 0);
        assert_ok(f, buf_append(out, b.data, b.size, &f->err));
    } else if (arrow_id_is_decimal(v->type.id)) {
        const struct wide w = wide_load(array_view_fixed(v, 0), arrow_type_width(&v->type));
        assert_ok(f, buf_append(out, text, wide_to_text(&w, v->type.scale, text), &f->err));
    } else if (arrow_id_is_float(v->type.id)) {
        assert_ok(f, buf_printf(out, &f->err, "%g", array_view_double(v, 0)));
    } else if (v->type.id == ARROW_UINT64) {
        assert_ok(f, buf_printf(out, &f->err, "%" PRIu64, (uint64_t)array_view_int(v, 0)));
    } else {
        assert_ok(f, buf_printf(out, &f->err, "%" PRId64, array_view_int(v, 0)));
    }
    assert_ok(f, buf_terminate(out, &f->err));
}

/* Values of one column as text, each kind of aggregate over them. */
static void expect_aggregate(struct fixture *f, const char *type, const char *const *values, size_t n, enum aggregate_kind kind,
                             const char *result_type, const char *expected)
{
    struct ArrowSchema column, schema, result_schema;
    struct ArrowArray batch, result;
    struct ArrowArrayStream in, out;
    struct call call;
    struct arena arena;
    struct array_view v;
    struct buf text;
    arena_init(&arena, f->mem);
    buf_init(&text, f->mem, BUF_NO_LIMIT);
    assert_ok(f, call_begin(&call, NULL, &f->err));
    assert_ok(f, arrow_schema_from_text(bytes_str(type), "x", f->mem, &column, &f->err));
    assert_ok(f, arrow_schema_new(&schema, "+s", "", 0, 1, f->mem, &f->err));
    arrow_schema_move(&column, schema.children[0]);
    struct builder *b = builder_new(&schema, f->mem, &f->err), *x = builder_child(b, 0);
    struct arrow_type t;
    assert_ok(f, arrow_type_of(schema.children[0], &t, &f->err));
    for (size_t i = 0; i < n; i++) {
        double real = 0;
        if (!values[i]) {
            assert_ok(f, builder_append_null(x, &f->err));
        } else if (arrow_id_is_variable(t.id)) {
            assert_ok(f, builder_append_bytes(x, bytes_str(values[i]), &f->err));
        } else if (arrow_id_is_decimal(t.id)) {
            struct wide w;
            uint8_t bytes[32];
            assert_true(wide_from_text(bytes_str(values[i]), t.scale, t.precision, &w));
            wide_store(&w, bytes, t.bit_width / 8);
            assert_ok(f, builder_append_bytes(x, bytes_of(bytes, t.bit_width / 8), &f->err));
        } else if (arrow_id_is_float(t.id)) {
            if (strcmp(values[i], "nan") == 0) {
                real = (double)NAN;
            } else {
                assert_true(real_parse(bytes_str(values[i]), &real));
            }
            assert_ok(f, builder_append_double(x, real, &f->err));
        } else if (t.id == ARROW_UINT64) {
            assert_ok(f, builder_append_uint(x, strtoull(values[i], NULL, 10), &f->err));
        } else {
            assert_ok(f, builder_append_int(x, strtoll(values[i], NULL, 10), &f->err));
        }
        assert_ok(f, builder_append_row(b, &f->err));
    }
    assert_ok(f, builder_finish(b, &batch, &f->err));
    builder_free(b);
    const struct aggregate wanted = {kind, 0, "r"};
    assert_ok(f, stream_from_arrays(&schema, &batch, 1, f->mem, &in, &f->err));
    assert_ok(f, aggregate_open(&call, &in, NULL, 0, &wanted, 1, &out, &f->err));
    assert_ok(f, stream_schema(&out, &result_schema, &f->err));
    assert_ok(f, stream_next(&out, &result, &f->err));
    assert_ok(f, arrow_type_text(result_schema.children[0], &text, &f->err));
    assert_ok(f, buf_terminate(&text, &f->err));
    assert_string_equal((const char *)text.data, result_type);
    assert_ok(f, array_view_deep(&v, &result_schema, &result, &arena, &f->err));
    plain_text(f, &v.children[0], &text);
    if (strcmp((const char *)text.data, expected) != 0)
        fail_msg("aggregate %d of %s: %s instead of %s", (int)kind, type, (const char *)text.data, expected);
    array_release(&result);
    arrow_schema_release(&result_schema);
    stream_release(&out);
    buf_free(&text);
    arena_reset(&arena);
    call_end(&call);
}

static void test_operators__values(void **state)
{
    struct fixture *f = *state;
    static const char *const ints[] = {"3", NULL, "-5", "9223372036854775807", "1"};
    static const char *const small[] = {"100", "27", NULL, "-128"};
    static const char *const decimals[] = {"1.50", NULL, "-0.25", "10.00"};
    static const char *const reals[] = {"1.5", "-0", "0", NULL, "nan"};
    static const char *const texts[] = {"b", "", NULL, "a\xc3\xa9", "ba"};
    static const char *const none[] = {NULL, NULL};
    static const char *const big[] = {"18446744073709551615", "1", "7"};
    expect_aggregate(f, "int64", ints, 5, AGGREGATE_COUNT_ROWS, "int64", "5");
    expect_aggregate(f, "int64", ints, 5, AGGREGATE_COUNT, "int64", "4");
    expect_aggregate(f, "int64", ints, 5, AGGREGATE_SUM, "int64", "9223372036854775806");
    expect_aggregate(f, "int64", ints, 5, AGGREGATE_MIN, "int64", "-5");
    expect_aggregate(f, "int64", ints, 5, AGGREGATE_MAX, "int64", "9223372036854775807");
    expect_aggregate(f, "int64", ints, 1, AGGREGATE_AVG, "double", "3");
    expect_aggregate(f, "int8", small, 4, AGGREGATE_SUM, "int64", "-1");
    expect_aggregate(f, "int8", small, 4, AGGREGATE_MIN, "int8", "-128");
    expect_aggregate(f, "int8", small, 3, AGGREGATE_AVG, "double", "63.5");
    expect_aggregate(f, "uint64", big, 3, AGGREGATE_SUM, "uint64", "7");
    expect_aggregate(f, "uint64", big, 3, AGGREGATE_MAX, "uint64", "18446744073709551615");
    expect_aggregate(f, "decimal128(10, 2)", decimals, 4, AGGREGATE_SUM, "decimal128(20, 2)", "11.25");
    expect_aggregate(f, "decimal128(10, 2)", decimals, 4, AGGREGATE_AVG, "decimal128(14, 6)", "3.750000");
    expect_aggregate(f, "decimal128(10, 2)", decimals, 4, AGGREGATE_MIN, "decimal128(10, 2)", "-0.25");
    expect_aggregate(f, "double", reals, 4, AGGREGATE_MIN, "double", "-0");
    expect_aggregate(f, "double", reals, 5, AGGREGATE_MAX, "double", "nan");
    expect_aggregate(f, "double", reals, 4, AGGREGATE_SUM, "double", "1.5");
    expect_aggregate(f, "string", texts, 5, AGGREGATE_MIN, "string", "");
    expect_aggregate(f, "string", texts, 5, AGGREGATE_MAX, "string", "ba");
    expect_aggregate(f, "int32", none, 2, AGGREGATE_SUM, "int64", "null");
    expect_aggregate(f, "int32", none, 2, AGGREGATE_COUNT, "int64", "0");
    expect_aggregate(f, "string", none, 0, AGGREGATE_MAX, "string", "null");
}

static void test_operators__refuses_sums_of_texts(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    struct ArrowArrayStream in, out = {0};
    struct call call;
    const struct aggregate wanted = {AGGREGATE_SUM, 0, "r"};
    assert_ok(f, call_begin(&call, NULL, &f->err));
    assert_ok(f, arrow_schema_new(&schema, "+s", "", 0, 1, f->mem, &f->err));
    assert_ok(f, arrow_schema_new(schema.children[0], "u", "name", 0, 0, f->mem, &f->err));
    assert_ok(f, stream_from_arrays(&schema, NULL, 0, f->mem, &in, &f->err));
    assert_int_equal(aggregate_open(&call, &in, NULL, 0, &wanted, 1, &out, &f->err), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(f->err.message, "the sum of column 'name' of type string"));
    assert_null(in.release);
    pennon_error_clear(&f->err);
    call_end(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_operators__order),
        FIXTURE_TEST(test_operators__best_of_many),
        FIXTURE_TEST(test_operators__limit),
        FIXTURE_TEST(test_operators__refuses_types_without_order),
        FIXTURE_TEST(test_operators__groups),
        FIXTURE_TEST(test_operators__values),
        FIXTURE_TEST(test_operators__refuses_sums_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
