/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Expressions over a batch with a column of every type: what official answers (plan text and rows), refusals, limits, joined filters.
 *
 * data/expressions/columns.arrow: three rows; nn is the row's number from 1.
 * data/expressions/substrait.tsv: description, bytes of a Substrait message in hexadecimal, rows that pass.
 * data/expressions/answers.tsv: expression, plan text or "-" where ours is another, numbers of the rows that pass or "error". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "expr/expr.h"
#include "expr/node.h"
#include "pennon/pennon.h"

#define DATA PENNON_SOURCE_DIR "/tests/unit/data/expressions/"

struct world {
    struct mem *mem;
    struct call call;
    struct buf file, out;
    struct ipc_reader *reader;
    struct ArrowArray batch;
    const struct ArrowSchema *schema;
    pennon_error err;
};

static void read_file(struct world *w, const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("no %s", path);
    out->size = 0;
    for (;;) {
        assert_int_equal(buf_grow(out, 65536, &w->err), PENNON_OK);
        size_t n = fread(out->data + out->size, 1, 65536, f);
        out->size += n;
        if (n == 0) break;
    }
    assert_int_equal(buf_terminate(out, &w->err), PENNON_OK);
    (void)fclose(f);
}

static int setup(void **state)
{
    static struct world w;
    pennon_error_init(&w.err);
    w.mem = mem_new(NULL, UINT64_MAX, NULL, &w.err);
    assert_non_null(w.mem);
    w.call = (struct call){.mem = w.mem, .deadline_ns = INT64_MAX, .threads = 1};
    buf_init(&w.file, w.mem, BUF_NO_LIMIT);
    buf_init(&w.out, w.mem, BUF_NO_LIMIT);
    read_file(&w, DATA "columns.arrow", &w.file);
    w.reader = ipc_reader_open(bytes_of(w.file.data, w.file.size), NULL, w.mem, &w.err);
    assert_non_null(w.reader);
    w.schema = ipc_reader_schema(w.reader);
    assert_int_equal(ipc_reader_next(w.reader, &w.batch, &w.err), PENNON_OK);
    assert_int_equal(w.batch.length, 3);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    array_release(&w->batch);
    ipc_reader_free(w->reader);
    buf_free(&w->file);
    buf_free(&w->out);
    pennon_error_clear(&w->err);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    return 0;
}

/* ---- running ---- */

/* The column of a path in the batch, nulls of structs above merged. */
static void load_column(struct world *w, const struct expr_column *c, struct ArrowArray *out)
{
    const struct ArrowSchema *type = w->schema->children[c->top];
    const struct ArrowArray *array = w->batch.children[c->top];
    const char *at = strchr(c->path, '.');
    if (!at) {
        assert_int_equal(array_copy_range(type, array, 0, 3, 0, w->mem, out, &w->err), PENNON_OK);
        return;
    }
    bool null[3] = {false, false, false};
    while (at) {
        char name[32];
        const char *end = strchr(at + 1, '.');
        size_t n = end ? (size_t)(end - at - 1) : strlen(at + 1);
        assert_true(n < sizeof name);
        memcpy(name, at + 1, n);
        name[n] = '\0';
        for (int i = 0; i < 3; i++)
            null[i] = null[i] || (array->buffers[0] && !bit_get(array->buffers[0], (uint64_t)(array->offset + i)));
        int64_t child = arrow_schema_find(type, bytes_str(name));
        assert_true(child >= 0);
        type = type->children[child];
        array = array->children[child];
        at = end;
    }
    uint64_t take[3];
    for (uint64_t i = 0; i < 3; i++) take[i] = null[i] ? ARRAY_TAKE_NULL : i;
    assert_int_equal(array_take(type, array, take, 3, w->mem, out, &w->err), PENNON_OK);
}

/* "[1, 3]" or "error"; in w->out. */
static const char *rows_of(struct world *w, const struct expr *e)
{
    size_t n;
    const struct expr_column *columns = expr_columns(e, &n);
    struct ArrowArray *arrays = mem_calloc(w->mem, n + 1, sizeof *arrays, &w->err);
    const struct ArrowArray **pointers = mem_calloc(w->mem, n + 1, sizeof(const struct ArrowArray *), &w->err);
    uint8_t bits = 0;
    uint64_t count = 0;
    assert_true(arrays && pointers);
    for (size_t i = 0; i < n; i++) {
        load_column(w, &columns[i], &arrays[i]);
        pointers[i] = &arrays[i];
    }
    pennon_status st = expr_select(e, &w->call, pointers, 3, &bits, &count, &w->err);
    for (size_t i = 0; i < n; i++) array_release(&arrays[i]);
    mem_free(w->mem, arrays);
    mem_free(w->mem, pointers);
    w->out.size = 0;
    if (st != PENNON_OK) return "error";
    assert_int_equal(buf_append_byte(&w->out, '[', &w->err), PENNON_OK);
    for (unsigned i = 0, k = 0; i < 3; i++) {
        if (bits >> i & 1) assert_int_equal(buf_printf(&w->out, &w->err, "%s%u", k++ ? ", " : "", i + 1), PENNON_OK);
    }
    assert_int_equal(buf_append_byte(&w->out, ']', &w->err), PENNON_OK);
    assert_int_equal(buf_terminate(&w->out, &w->err), PENNON_OK);
    return (const char *)w->out.data;
}

static const char *plan_of(struct world *w, const struct expr *e)
{
    w->out.size = 0;
    assert_int_equal(expr_print(e, &w->out, &w->err), PENNON_OK);
    assert_int_equal(buf_terminate(&w->out, &w->err), PENNON_OK);
    return (const char *)w->out.data;
}

static struct expr *compiled(struct world *w, const char *text)
{
    struct expr *e = NULL;
    if (expr_compile_filter(bytes_str(text), w->schema, w->mem, &e, &w->err) != PENNON_OK) fail_msg("%s: %s", text, w->err.message);
    return e;
}

static void test_expr_bind__answers(void **state)
{
    struct world *w = *state;
    struct buf file;
    size_t wrong = 0, cases = 0;
    buf_init(&file, w->mem, BUF_NO_LIMIT);
    read_file(w, DATA "answers.tsv", &file);
    for (char *line = (char *)file.data, *next; line && *line; line = next) {
        char *end = strchr(line, '\n');
        next = end ? end + 1 : NULL;
        if (end) *end = '\0';
        char *plan = strchr(line, '\t');
        char *rows = plan ? strchr(plan + 1, '\t') : NULL;
        assert_non_null(rows);
        *plan++ = '\0';
        *rows++ = '\0';
        struct expr *e = NULL;
        pennon_status st = expr_compile_filter(bytes_str(line), w->schema, w->mem, &e, &w->err);
        bool ok = (st != PENNON_OK) == (strcmp(plan, "error") == 0);
        if (!ok) print_message("%s\n  %s\n", line, st == PENNON_OK ? plan_of(w, e) : w->err.message);
        if (st == PENNON_OK && ok && strcmp(plan, "-") != 0 && strcmp(plan, plan_of(w, e)) != 0) {
            ok = false;
            print_message("%s\n  plan %s\n  not  %s\n", line, plan_of(w, e), plan);
        }
        if (st == PENNON_OK && strcmp(rows, rows_of(w, e)) != 0) {
            ok = false;
            print_message("%s\n  rows %s\n  not  %s (%s)\n", line, rows_of(w, e), rows, w->err.message ? w->err.message : "");
        }
        expr_free(e);
        wrong += !ok;
        cases++;
    }
    buf_free(&file);
    print_message("%zu expressions\n", cases);
    assert_true(cases > 150);
    assert_int_equal(wrong, 0);
}

static void check_plan(struct world *w, const struct expr *e, const char *plan, const char *rows)
{
    assert_string_equal(plan_of(w, e), plan);
    assert_string_equal(rows_of(w, e), rows);
}

static void test_expr_bind__joined(void **state)
{
    struct world *w = *state;
    struct expr *e = NULL;
    size_t n;
    assert_int_equal(expr_and(compiled(w, "i64 = 1 and st.x = 1"), compiled(w, "b and i64 < 5"), &e, &w->err), PENNON_OK);
    check_plan(w, e, "i64 = Int64(1) AND get_field(st, Utf8(\"x\")) = Int32(1) AND b AND i64 < Int64(5)", "[1]");
    assert_int_equal(expr_term_count(e), 4);
    assert_string_equal(expr_columns(e, &n)[1].path, "st.x");
    assert_int_equal(n, 3);
    assert_int_equal(expr_and(e, compiled(w, "s = '1' and true"), &e, &w->err), PENNON_OK);
    check_plan(w, e, "i64 = Int64(1) AND get_field(st, Utf8(\"x\")) = Int32(1) AND b AND i64 < Int64(5) AND s = Utf8(\"1\")",
               "[1]");
    (void)expr_columns(e, &n);
    assert_int_equal(n, 4);
    assert_int_equal(expr_and(NULL, e, &e, &w->err), PENNON_OK);
    assert_int_equal(expr_and(e, NULL, &e, &w->err), PENNON_OK);
    assert_int_equal(expr_and(e, compiled(w, "1 = 2"), &e, &w->err), PENNON_OK);
    bool value = true, null = true;
    assert_true(expr_constant_filter(e, &value, &null));
    assert_false(value || null);
    (void)expr_columns(e, &n);
    assert_int_equal(n, 0);
    expr_free(e);
}

/* Only what is read is a column of the expression, whatever was looked at on the way. */
static void test_expr_bind__columns(void **state)
{
    struct world *w = *state;
    size_t n;
    struct expr *e = compiled(w, "(s = 'a' and false) or (st).x = 1 and (st)['in'].z = mixedcase");
    const struct expr_column *columns = expr_columns(e, &n);
    assert_int_equal(n, 3);
    assert_string_equal(columns[0].path, "st.x");
    assert_string_equal(columns[1].path, "st.in.z");
    assert_string_equal(columns[2].path, "MixedCase");
    assert_string_equal(columns[0].schema->format, "i");
    assert_string_equal(w->schema->children[columns[0].top]->name, "st");
    expr_free(e);
    /* A projection's whole text may be a name that is no word. */
    assert_int_equal(expr_compile(bytes_str("with space"), w->schema, w->mem, &e, &w->err), PENNON_OK);
    assert_string_equal(expr_columns(e, &n)[0].path, "With Space");
    assert_string_equal(expr_type(e)->format, "l");
    expr_free(e);
    assert_int_equal(expr_compile(bytes_str("i8 + i16"), w->schema, w->mem, &e, &w->err), PENNON_OK);
    assert_string_equal(expr_type(e)->format, "s");
    expr_free(e);
}

struct refusal {
    const char *text, *kind, *message;
};

static void test_expr_bind__refused(void **state)
{
    static const struct refusal cases[] = {
        {"i6 = 1", "FieldNotFound", "at character 1, near 'i6': no column named 'i6'; did you mean 'i8'?"},
        {"`mixedcase` = 1", "FieldNotFound", "no column named 'mixedcase'; did you mean 'MixedCase'?"},
        {"st.X = 1", "FieldNotFound", "no field named 'X'"},
        {"i64.x = 1", "FieldNotFound", "no field (what stands before it is no struct) named 'x'"},
        {"s = Gentoo", "FieldNotFound", "near 'Gentoo': no column named 'Gentoo'; texts stand in single quotes"},
        {"sum(i64) > 1", "FunctionNotFound", "no function named 'sum': aggregates are not supported here"},
        {"i64 = 1 and lowre(s) = 'a'", "FunctionNotFound",
         "at character 13, near 'lowre(s)': no function named 'lowre'; did you mean 'lower'?"},
        {"abs() = 1", "TypeMismatch", "abs takes 1"},
        {"i8 = 300", "TypeMismatch", "at character 6, near '300': the literal Int64(300) does not fit the type Int8"},
        {"i64 in (1, 2, 3, 'x')", "TypeMismatch", "near ''x'': the literal Utf8(\"x\") does not fit the type Int64"},
        {"i8 in (1, 2, 3, 4, 5, 300, 6)", "TypeMismatch", "at character 23, near '300'"},
        {"date > '2020-01-01'", "TypeMismatch", "does not fit the type Date32"},
        {"s like i64", "TypeMismatch", "LIKE compares texts"},
        {"s + 1 = 2", "TypeMismatch", "there is no such operation with Utf8 and Int64"},
        {"-s = 1", "TypeMismatch", "no negative of Utf8"},
        {"i64", "TypeMismatch", "a boolean is expected here, not Int64"},
        {"null", "TypeMismatch", "the filter is null"},
        {"b and i64", "TypeMismatch", "near 'i64'"},
        {"i64 is true", "TypeMismatch", "a boolean is expected"},
        {"l = [1, 'a']", "TypeMismatch", "the items of a list must be of one type"},
        {"l = [1, i64]", "TypeMismatch", "must be plain literals"},
        {"not (st = 1)", "TypeMismatch", "no comparison of"},
        {"cast(l as date) is null", "TypeMismatch", "there is no cast of"},
        {"lbin = '{bad'::jsonb", NULL, "at character 8"},
        {"lbin = s::jsonb", "TypeMismatch", "only texts in quotes"},
        {"cast('x' as int) = 1", "CastFailed", "Cannot cast string 'x'"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct expr *e = NULL;
        if (expr_compile_filter(bytes_str(cases[i].text), w->schema, w->mem, &e, &w->err) == PENNON_OK) {
            fail_msg("%s is bound as %s", cases[i].text, plan_of(w, e));
        }
        assert_null(e);
        assert_int_equal(w->err.code, PENNON_INVALID_ARGUMENT);
        if (!strstr(w->err.message, cases[i].message)) fail_msg("%s: %s", cases[i].text, w->err.message);
        if (cases[i].kind) assert_string_equal(w->err.kind, cases[i].kind);
    }
}

/* `first`, `more` n times with a number in it, `last`. */
static struct expr *repeated(struct world *w, const char *first, const char *more, const char *last, size_t n)
{
    struct buf text;
    struct expr *e = NULL;
    buf_init(&text, w->mem, BUF_NO_LIMIT);
    assert_int_equal(buf_append(&text, first, strlen(first), &w->err), PENNON_OK);
    for (size_t i = 0; i < n; i++) {
        char one[64];
        int size = snprintf(one, sizeof one, "%s%zu", more, i);
        assert_int_equal(buf_append(&text, one, (size_t)size, &w->err), PENNON_OK);
    }
    assert_int_equal(buf_append(&text, last, strlen(last), &w->err), PENNON_OK);
    clock_t begin = clock();
    if (expr_compile_filter(bytes_of(text.data, text.size), w->schema, w->mem, &e, &w->err) != PENNON_OK)
        fail_msg("%s", w->err.message);
    print_message("%zu times '%s': %.2f s\n", n, more, (double)(clock() - begin) / CLOCKS_PER_SEC);
    buf_free(&text);
    return e;
}

static void test_expr_bind__long(void **state)
{
    struct world *w = *state;
    struct expr *e = repeated(w, "i64 <> 5", " and i64 > -", "", 10000);
    assert_int_equal(expr_term_count(e), 10001);
    expr_free(e);
    e = repeated(w, "i64 = 5", " or not b and i64 > ", "", 10000);
    expr_free(e);
    e = repeated(w, "i64 = -7", " or i64 = ", "", 10000); /* becomes one set */
    assert_string_equal(rows_of(w, e), "[1]");
    expr_free(e);
    e = repeated(w, "not (i64 = -7", " or i64 = ", ")", 10000);
    assert_string_equal(rows_of(w, e), "[2]");
    expr_free(e);
    e = repeated(w, "i64 in (-2", ", ", ")", 1000000);
    assert_string_equal(rows_of(w, e), "[1, 2]");
    expr_free(e);
}

/* ---- Substrait ---- */

static unsigned hex_value(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* In place; the number of bytes. */
static size_t from_hex(char *text)
{
    size_t n = strlen(text) / 2;
    for (size_t i = 0; i < n; i++) text[i] = (char)(hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return n;
}

static void check_damaged(struct world *w, const uint8_t *message, size_t n)
{
    uint8_t *copy = mem_alloc(w->mem, n + 1, &w->err);
    assert_non_null(copy);
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < 3; k++) {
            struct expr *e = NULL;
            memcpy(copy, message, n);
            copy[i] = (uint8_t)(k == 0 ? 0 : k == 1 ? copy[i] + 1 : 0xff);
            (void)(expr_compile_substrait(bytes_of(copy, n), w->schema, w->mem, &e, &w->err) == PENNON_OK);
            expr_free(e);
            e = NULL;
            (void)(expr_compile_substrait(bytes_of(copy, i), w->schema, w->mem, &e, &w->err) == PENNON_OK);
            expr_free(e);
        }
    }
    mem_free(w->mem, copy);
}

static void test_expr_bind__substrait(void **state)
{
    struct world *w = *state;
    struct buf file;
    size_t cases = 0, wrong = 0;
    buf_init(&file, w->mem, BUF_NO_LIMIT);
    read_file(w, DATA "substrait.tsv", &file);
    for (char *line = (char *)file.data, *next; line && *line; line = next) {
        char *hex = strchr(line, '\t'), *rows, *end = strchr(line, '\n');
        next = end ? end + 1 : NULL;
        if (end) *end = '\0';
        assert_non_null(hex);
        *hex++ = '\0';
        rows = strchr(hex, '\t');
        assert_non_null(rows);
        *rows++ = '\0';
        struct expr *e = NULL;
        size_t n = from_hex(hex);
        pennon_status st = expr_compile_substrait(bytes_of(hex, n), w->schema, w->mem, &e, &w->err);
        const char *got = st == PENNON_OK ? rows_of(w, e) : "error";
        if (strcmp(got, rows) != 0) {
            print_message("%s\n  rows %s not %s (%s)\n", line, got, rows, st == PENNON_OK ? "" : w->err.message);
            if (st == PENNON_OK) print_message("  %s\n", plan_of(w, e));
            wrong++;
        }
        expr_free(e);
        if (n < 2000) check_damaged(w, (const uint8_t *)hex, n);
        cases++;
    }
    buf_free(&file);
    assert_true(cases > 20);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expr_bind__answers), cmocka_unit_test(test_expr_bind__joined),
        cmocka_unit_test(test_expr_bind__columns), cmocka_unit_test(test_expr_bind__refused),
        cmocka_unit_test(test_expr_bind__long),    cmocka_unit_test(test_expr_bind__substrait),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
