/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions over a small table, held against the answers of official.
 *
 * In the folder data/functions, or the one that PENNON_FUNCTIONS_DATA names:
 *   columns.arrow  the table; the texts of the column js become JSONB, as files hold it
 *   answers.arrow  a column for each expression, named by it; metadata "view": official answers with a view type
 *   errors.txt     expressions that official refuses or that fail, one a line
 * tests/interop/function_answers.py makes them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "encoding/jsonb.h"
#include "expr/expr.h"
#include "expr/functions.h"
#include "pennon/pennon.h"

struct table {
    struct buf bytes;
    struct ipc_reader *reader;
    struct ArrowArray batch;
    struct ArrowSchema made;
    const struct ArrowSchema *schema;
};

struct world {
    struct mem *mem;
    struct call call;
    struct table columns, answers;
    struct buf errors;
    pennon_error err;
};

static void read_file(struct world *w, const char *name, struct buf *out)
{
    char path[512];
    const char *folder = getenv("PENNON_FUNCTIONS_DATA");
    (void)snprintf(path, sizeof path, "%s/%s", folder ? folder : PENNON_SOURCE_DIR "/tests/unit/data/functions", name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("no %s", path);
    buf_init(out, w->mem, BUF_NO_LIMIT);
    for (;;) {
        assert_int_equal(buf_grow(out, 65536, &w->err), PENNON_OK);
        size_t n = fread(out->data + out->size, 1, 65536, f);
        out->size += n;
        if (n == 0) break;
    }
    assert_int_equal(buf_terminate(out, &w->err), PENNON_OK);
    (void)fclose(f);
}

static void open_table(struct world *w, const char *name, struct table *t)
{
    read_file(w, name, &t->bytes);
    t->reader = ipc_reader_open(bytes_of(t->bytes.data, t->bytes.size), NULL, w->mem, &w->err);
    assert_non_null(t->reader);
    t->schema = ipc_reader_schema(t->reader);
    assert_int_equal(ipc_reader_next(t->reader, &t->batch, &w->err), PENNON_OK);
}

/* The column js as files hold it. */
static void make_json(struct world *w, struct table *t)
{
    const int64_t at = arrow_schema_find(t->schema, bytes_str("js"));
    struct array_view text;
    struct buf document;
    assert_int_equal(arrow_schema_copy(t->schema, w->mem, &t->made, &w->err), PENNON_OK);
    struct ArrowArray *column = t->batch.children[at];
    assert_int_equal(array_view_init(&text, t->schema->children[at], column, &w->err), PENNON_OK);
    assert_int_equal(arrow_schema_set_format(t->made.children[at], "Z", &w->err), PENNON_OK);
    struct builder *b = builder_new(t->made.children[at], w->mem, &w->err);
    buf_init(&document, w->mem, BUF_NO_LIMIT);
    assert_non_null(b);
    for (int64_t i = 0; i < text.length; i++) {
        document.size = 0;
        if (array_view_is_null(&text, i)) {
            assert_int_equal(builder_append_null(b, &w->err), PENNON_OK);
            continue;
        }
        assert_int_equal(jsonb_from_text(array_view_bytes(&text, i), w->mem, &document, &w->err), PENNON_OK);
        assert_int_equal(builder_append_bytes(b, bytes_of(document.data, document.size), &w->err), PENNON_OK);
    }
    array_release(column);
    assert_int_equal(builder_finish(b, column, &w->err), PENNON_OK);
    builder_free(b);
    buf_free(&document);
    t->schema = &t->made;
}

static void close_table(struct table *t)
{
    array_release(&t->batch);
    ipc_reader_free(t->reader);
    arrow_schema_release(&t->made);
    buf_free(&t->bytes);
}

static int setup(void **state)
{
    static struct world w;
    pennon_error_init(&w.err);
    w.mem = mem_new(NULL, UINT64_MAX, NULL, &w.err);
    assert_non_null(w.mem);
    w.call = (struct call){.mem = w.mem, .deadline_ns = INT64_MAX, .threads = 1};
    open_table(&w, "columns.arrow", &w.columns);
    make_json(&w, &w.columns);
    open_table(&w, "answers.arrow", &w.answers);
    read_file(&w, "errors.txt", &w.errors);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    close_table(&w->columns);
    close_table(&w->answers);
    buf_free(&w->errors);
    pennon_error_clear(&w->err);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    return 0;
}

/* A column, or a field of a struct column without the struct's null rows. */
static void load_column(struct world *w, struct mem *m, const struct expr_column *c, struct ArrowArray *out)
{
    const struct ArrowSchema *type = w->columns.schema->children[c->top];
    const struct ArrowArray *array = w->columns.batch.children[c->top];
    const char *dot = strchr(c->path, '.');
    uint64_t rows[65] = {ARRAY_TAKE_NULL}; /* one row before the column, so that it has an offset */
    const size_t n = (size_t)w->columns.batch.length;
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        const bool null = dot && array->buffers[0] && !bit_get(array->buffers[0], (uint64_t)array->offset + i);
        rows[i + 1] = null ? ARRAY_TAKE_NULL : i;
    }
    if (dot) {
        const int64_t child = arrow_schema_find(type, bytes_str(dot + 1));
        assert_true(child >= 0);
        type = type->children[child];
        array = array->children[child];
    }
    assert_int_equal(array_take(type, array, rows, n + 1, m, out, &w->err), PENNON_OK);
    out->offset = 1;
    out->length = (int64_t)n;
    out->null_count = -1;
}

/* The values of an expression over the table; `out` and *e are the caller's. The columns are of the memory `of_columns`. */
static pennon_status values_within(struct world *w, struct mem *of_columns, struct bytes text, struct expr **e,
                                   struct ArrowArray *out)
{
    const struct ArrowArray *columns[64];
    struct ArrowArray loaded[64] = {0};
    size_t n;
    memset(out, 0, sizeof *out);
    *e = NULL;
    pennon_status st = expr_compile(text, w->columns.schema, w->mem, e, &w->err);
    if (st != PENNON_OK) return st;
    const struct expr_column *list = expr_columns(*e, &n);
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        load_column(w, of_columns, &list[i], &loaded[i]);
        columns[i] = &loaded[i];
    }
    st = expr_evaluate(*e, &w->call, columns, w->columns.batch.length, out, &w->err);
    for (size_t i = 0; i < n; i++) array_release(&loaded[i]);
    return st;
}

static pennon_status values_of(struct world *w, struct bytes text, struct expr **e, struct ArrowArray *out)
{
    return values_within(w, w->mem, text, e, out);
}

static void print_array(struct world *w, const char *what, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    struct buf out;
    struct arena arena;
    struct array_view v;
    arena_init(&arena, w->mem);
    buf_init(&out, w->mem, BUF_NO_LIMIT);
    assert_int_equal(arrow_type_text(schema, &out, &w->err), PENNON_OK);
    assert_int_equal(array_view_deep(&v, schema, array, &arena, &w->err), PENNON_OK);
    for (int64_t i = 0; i < v.length; i++) {
        assert_int_equal(buf_printf(&out, &w->err, " | "), PENNON_OK);
        const bool null = array_view_is_null(&v, i);
        if (null || value_text(&v, i, &out, &w->err) != PENNON_OK)
            assert_int_equal(buf_printf(&out, &w->err, null ? "null" : "?"), PENNON_OK);
    }
    print_message("  %s %.*s\n", what, (int)out.size, (const char *)out.data);
    buf_free(&out);
    arena_reset(&arena);
}

/* Ours as the type of the answer, where that was a view. */
static void fit_view(struct world *w, const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array)
{
    struct ArrowArray cast = {0};
    if (arrow_schema_equal(from, to, SCHEMA_EQUAL_NO_NULLABLE)) return;
    if (array_cast(from, array, to, w->mem, &cast, &w->err) != PENNON_OK) return;
    array_release(array);
    array_move(&cast, array);
}

/* Floats of one type: the same but for the last two bits and the sign of a NaN; libraries of functions differ there. */
static bool same_floats(const struct ArrowSchema *schema, const struct ArrowArray *a, const struct ArrowArray *b, pennon_error *err)
{
    struct array_view va, vb;
    assert_int_equal(array_view_init(&va, schema, a, err), PENNON_OK);
    assert_int_equal(array_view_init(&vb, schema, b, err), PENNON_OK);
    const double unit = va.type.id == ARROW_FLOAT64 ? 0x1p-51 : 0x1p-22;
    for (int64_t i = 0; i < va.length; i++) {
        const double x = array_view_double(&va, i), y = array_view_double(&vb, i);
        if (array_view_is_null(&va, i) != array_view_is_null(&vb, i)) return false;
        if (array_view_is_null(&va, i) || x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= fabs(y) * unit)) return false;
    }
    return va.length == vb.length;
}

static bool same_values(const struct ArrowSchema *schema, const struct ArrowArray *a, const struct ArrowArray *b, pennon_error *err)
{
    struct arrow_type t;
    assert_int_equal(arrow_type_of(schema, &t, err), PENNON_OK);
    return t.id == ARROW_FLOAT64 || t.id == ARROW_FLOAT32 ? same_floats(schema, a, b, err) : array_equal(schema, a, b);
}

static bool agrees(struct world *w, const struct ArrowSchema *answer, const struct ArrowArray *values)
{
    struct expr *e;
    struct ArrowArray made;
    bool same = false;
    const pennon_status st = values_of(w, bytes_str(answer->name), &e, &made);
    if (st != PENNON_OK) {
        print_message("%s\n  failed: %s\n", answer->name, w->err.message);
    } else {
        const bool view = arrow_metadata_get(answer->metadata, "view").data != NULL;
        const struct ArrowSchema *type = expr_type(e);
        if (view) fit_view(w, type, answer, &made);
        same = (view || arrow_schema_equal(type, answer, SCHEMA_EQUAL_NO_NULLABLE)) &&
               array_validate(answer, &made, ARRAY_VALIDATE_FULL, &w->err) == PENNON_OK &&
               same_values(answer, &made, values, &w->err);
        if (!same) {
            print_message("%s\n", answer->name);
            print_array(w, "ours    ", view ? answer : type, &made);
            print_array(w, "official", answer, values);
        }
    }
    array_release(&made);
    expr_free(e);
    return same;
}

static void test_expr_functions__answers(void **state)
{
    struct world *w = *state;
    int64_t wrong = 0;
    assert_true(w->answers.schema->n_children > 100);
    for (int64_t i = 0; i < w->answers.schema->n_children; i++) {
        wrong += !agrees(w, w->answers.schema->children[i], w->answers.batch.children[i]);
    }
    print_message("%" PRId64 " of %" PRId64 " answers differ\n", wrong, w->answers.schema->n_children);
    assert_int_equal(wrong, 0);
}

static void test_expr_functions__errors(void **state)
{
    struct world *w = *state;
    const char *at = (const char *)w->errors.data;
    int wrong = 0, all = 0;
    while (*at) {
        const size_t n = strcspn(at, "\n");
        struct expr *e;
        struct ArrowArray made;
        const pennon_status st = values_of(w, bytes_of(at, n), &e, &made);
        if (st == PENNON_OK) print_message("%.*s is accepted\n", (int)n, at);
        if (st == PENNON_OK || (st != PENNON_INVALID_ARGUMENT && st != PENNON_NOT_SUPPORTED)) wrong++;
        all++;
        array_release(&made);
        expr_free(e);
        at += n + (at[n] == '\n');
    }
    print_message("%d of %d errors are none\n", wrong, all);
    assert_true(all > 20);
    assert_int_equal(wrong, 0);
}

/* The list of names and the tables say the same. */
static void test_expr_functions__names(void **state)
{
    UNUSED(state);
    const char *const *names = expr_function_names();
    size_t n = 0;
    for (; names[n] != NULL; n++) {
        const struct function *fn = function_find(bytes_str(names[n]));
        assert_non_null(fn);
        assert_non_null(fn->run);
        if (n > 0) assert_true(strcmp(names[n - 1], names[n]) < 0);
    }
    assert_true(n > 200);
    assert_null(function_find(bytes_str("no_such_function")));
    assert_non_null(function_find(bytes_str("||")));
}

static void expect_kind(struct world *w, const char *text, const char *kind)
{
    struct expr *e;
    struct ArrowArray made;
    const pennon_status st = values_of(w, bytes_str(text), &e, &made);
    array_release(&made);
    expr_free(e);
    assert_int_not_equal(st, PENNON_OK);
    if (kind != NULL) {
        assert_non_null(w->err.kind);
        assert_string_equal(w->err.kind, kind);
    }
}

static void test_expr_functions__kinds_of_errors(void **state)
{
    struct world *w = *state;
    expect_kind(w, "chr(n)", "FunctionFailed");
    expect_kind(w, "split_part(s, ',', 0)", "FunctionFailed");
    expect_kind(w, "decode(s, 'hex')", "FunctionFailed");
    /* Too many steps, in constants and in rows. */
    expect_kind(w, "regexp_like(concat(s, repeat('a', 60), 'b'), '^(a|a|b|c|x| )+$|^(.*)*(.*)*(.*)*(.*)*!$')", "FunctionFailed");
    expect_kind(w, "regexp_like(s, concat(t, '('))", "FunctionFailed");
    expect_kind(w, "generate_series(n, 3000000000)", "OffsetOverflow");
    expect_kind(w, "lower(n)", "TypeMismatch");
    expect_kind(w, "arrow_cast(n, 'Int99')", "TypeMismatch");
    expect_kind(w, "st_area(bin)", NULL);
    assert_int_equal(w->err.code, PENNON_NOT_SUPPORTED);
    assert_non_null(strstr(w->err.message, "geo"));
    expect_kind(w, "digest(s, 'blake3')", NULL);
    assert_int_equal(w->err.code, PENNON_NOT_SUPPORTED);
    expect_kind(w, "array_length(li, 1, 2)", NULL);
    expect_kind(w, "lower()", NULL);
}

/* The boolean expression is true for every row. */
static void expect_true(struct world *w, const char *text)
{
    struct expr *e;
    struct ArrowArray made;
    struct array_view v;
    if (values_of(w, bytes_str(text), &e, &made) != PENNON_OK) fail_msg("%s: %s", text, w->err.message);
    assert_int_equal(array_view_init(&v, expr_type(e), &made, &w->err), PENNON_OK);
    for (int64_t i = 0; i < v.length; i++) {
        if (array_view_is_null(&v, i) || !array_view_bool(&v, i)) fail_msg("%s: row %" PRId64, text, i);
    }
    array_release(&made);
    expr_free(e);
}

static void test_expr_functions__of_the_moment(void **state)
{
    struct world *w = *state;
    expect_true(w, "now() = current_timestamp and current_date = today() and date_part('year', now()) > 2024");
    expect_true(w, "to_date(now()) = current_date");
    expect_true(w, "random() >= 0 and random() < 1 and random() <> random()");
    expect_true(w,
                "length(uuid()) = 36 and uuid() <> uuid() and regexp_like(uuid(), '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab]')");
    expect_true(w, "starts_with(version(), 'Pennon ')");
}

/* Rows that an argument has decided do not come to the next one: its faults are not theirs. */
static void test_expr_functions__lazy_arguments(void **state)
{
    struct world *w = *state;
    expect_true(w, "coalesce(n, 10 / coalesce(n, 2)) = coalesce(n, 5)");
    expect_true(w, "coalesce(null, n, 10 / coalesce(n, 2)) = ifnull(n, 10 / coalesce(n, 2))");
    expect_true(w, "coalesce(t, cast(10 / n as string)) = coalesce(t, '2')");
    expect_true(w, "nvl2(n, n, 10 / coalesce(n, 2)) = coalesce(n, 5)");
    expect_true(w, "nvl('a', cast(10 / n as string)) = 'a' and coalesce(1, 10 / 0) = 1");
    expect_kind(w, "nvl2(n, 1, cast(t as bigint))", "CastFailed");
    expect_kind(w, "coalesce(n, 10 / coalesce(n, 0))", "DivideByZero");
    expect_kind(w, "coalesce(10 / n, 1)", "DivideByZero");
    expect_kind(w, "nvl2(n, 10 / n, 1)", "DivideByZero");
    expect_kind(w, "nullif(n, 10 / n)", "DivideByZero");
    expect_kind(w, "greatest(n, 10 / n)", "DivideByZero");
}

/* More patterns than are kept, coming back: each row is matched by its own. */
static void test_expr_functions__patterns_from_rows(void **state)
{
    struct world *w = *state;
    expect_true(w, "regexp_like(concat('p', coalesce(n, 9), 'q'), concat('^p', coalesce(n, 9), 'q$'))");
    expect_true(w, "not regexp_like(concat('p', coalesce(n, 9)), concat('^p', coalesce(n, 9) + 1, '$'))");
    expect_true(w, "coalesce(regexp_replace(s, concat('^(', s, ')$'), '<$1>') = concat('<', s, '>'), s is null or s like '%pad%')");
}

/* With any budget: the values, or a failure that leaves nothing behind. */
static void test_expr_functions__small_budgets(void **state)
{
    static const char *const texts[] = {
        "concat(upper(s), lpad(t, 9, 'xy'), repeat(s, 3))",
        "regexp_replace(s, concat('[', coalesce(t, 'z'), ']'), '<$0>', 'g')",
        "regexp_match(s, '(.)(?P<n>b)?')",
        "array_sort(array_union(array_append(li, 3), make_array(n, 2)), 'DESC')",
        "array_to_string(array_distinct(array_concat(lt, lt)), ',', '-')",
        "named_struct('a', md5(s), 'b', string_to_array(s, ','))",
        "json_extract(js, concat('$.', 'c[*]'))",
        "coalesce(json_get_string(json_get(js, 'd'), 'e'), to_char(ts, '%c'), 'none')",
        "date_trunc('month', to_timestamp('2020-01-02 03', '%Y-%m-%d %H')) < date_bin('1 hour', tny)",
        "arrow_cast(make_array(n, n), 'LargeList(Utf8)')",
        "get_field(st, 'y') || arrow_typeof(st)",
        "levenshtein(s, t) + array_length(generate_series(1, coalesce(n, 1)))",
        "greatest(encode(s, 'base64'), nullif(t, 'x'), nvl2(n, s, t))",
    };
    struct world *w = *state;
    struct mem *whole = w->mem;
    const uint64_t before = mem_used(whole);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        pennon_status st = PENNON_OVER_BUDGET;
        for (uint64_t limit = 2048; st != PENNON_OK; limit += limit / 16) {
            struct expr *e;
            struct ArrowArray made;
            assert_true(limit < 64u << 20);
            w->mem = mem_new(whole, limit, NULL, &w->err);
            assert_non_null(w->mem);
            w->call.mem = w->mem;
            st = values_within(w, whole, bytes_str(texts[i]), &e, &made);
            if (st != PENNON_OK && st != PENNON_OVER_BUDGET) fail_msg("%s: %s", texts[i], w->err.message);
            array_release(&made);
            expr_free(e);
            assert_int_equal(mem_used(w->mem), 0);
            mem_release(w->mem);
        }
        w->mem = w->call.mem = whole;
        pennon_error_clear(&w->err);
        assert_int_equal(mem_used(whole), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expr_functions__answers),        cmocka_unit_test(test_expr_functions__errors),
        cmocka_unit_test(test_expr_functions__names),          cmocka_unit_test(test_expr_functions__kinds_of_errors),
        cmocka_unit_test(test_expr_functions__of_the_moment),  cmocka_unit_test(test_expr_functions__patterns_from_rows),
        cmocka_unit_test(test_expr_functions__lazy_arguments), cmocka_unit_test(test_expr_functions__small_budgets),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
