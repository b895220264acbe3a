/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Texts of expressions: what is read is the same when it is printed and read again; what can be bound over columns of all types gives a valid array of
 * its type, or a fault of values, and the rows that a filter selects are those for which its values are true. */
#include <stdio.h>

#include "codec_fuzz.h"
#include "expr/ast.h"
#include "expr/expr.h"

#define ROWS 5

static bool same(const struct ast *a, const struct ast *b);

static bool same_payload(const struct ast *a, const struct ast *b)
{
    switch ((enum ast_kind)a->kind) {
    case AST_BOOL:
    case AST_INTEGER: return a->integer == b->integer;
    case AST_FLOAT: return memcmp(&a->real, &b->real, sizeof a->real) == 0;
    case AST_TEXT:
    case AST_BINARY:
    case AST_FIELD:
    case AST_CALL: return bytes_equal(a->text, b->text);
    case AST_CAST:
        return a->type.id == b->type.id && a->type.unit == b->type.unit && a->type.precision == b->type.precision &&
               a->type.scale == b->type.scale;
    default: return true;
    }
}

/* Flags but AST_PARENS count, places do not. */
static bool same(const struct ast *a, const struct ast *b)
{
    if (a->kind != b->kind || a->op != b->op || ((a->flags ^ b->flags) & ~AST_PARENS) != 0 || a->n != b->n) return false;
    if (!same_payload(a, b)) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kind == AST_COLUMN) {
            if (a->parts[i].quoted != b->parts[i].quoted || !bytes_equal(a->parts[i].name, b->parts[i].name)) return false;
        } else if (!same(a->children[i], b->children[i])) {
            return false;
        }
    }
    return true;
}

static void check_places(const struct ast *a, size_t size)
{
    FUZZ_CHECK(a->start < a->end && a->end <= size);
    for (uint32_t i = 0; i < a->n && a->kind != AST_COLUMN; i++) check_places(a->children[i], size);
}

/* ---- the columns ---- */

static const char columns_text[] =
    "struct<i8: int8, i16: int16, i32: int32, i64: int64, u8: uint8, u16: uint16, u32: uint32, u64: uint64, f16: halffloat, f32: "
    "float, "
    "f64: double, d128: decimal128(10, 2), d256: decimal256(40, 3), b: bool, s: string, ls: large_string, sv: string_view, bin: "
    "binary, "
    "lbin: large_binary, fsb: fixed_size_binary[2], date: date32[day], date64: date64[ms], t32s: time32[s], t64us: time64[us], "
    "ts_s: timestamp[s], ts_ns: timestamp[ns], tz_us: timestamp[us, tz=UTC], dur_us: duration[us], l: list<item: int64>, "
    "ll: large_list<item: double>, fl: fixed_size_list<item: int32>[2], lstr: list<item: string>, "
    "st: struct<x: int32, y: string, in: struct<z: int64>>, mp: map<string, int64>, `With Space`: int64>";

/* Row `row` of any type: nulls, small and large values. */
static pennon_status append_value(struct builder *rows, const struct ArrowSchema *type, int row, pennon_error *err)
{
    static const int64_t numbers[ROWS] = {1, 0, 2, 100, 7};
    static const char *const texts[ROWS] = {"a", "", "ab", "1.5", "2020-01-01"};
    struct arrow_type t;
    TRY_RETURN(arrow_type_of(type, &t, err));
    if (row == 4) return builder_append_null(rows, err);
    if (t.id == ARROW_BOOL) return builder_append_bool(rows, row % 2 == 0, err);
    if (arrow_id_is_variable(t.id)) return builder_append_bytes(rows, bytes_str(texts[row]), err);
    if (t.id == ARROW_FIXED_SIZE_BINARY) return builder_append_bytes(rows, bytes_str("xy"), err);
    if (arrow_id_is_decimal(t.id)) {
        struct wide w = wide_from_i64(numbers[row]);
        uint8_t value[32];
        wide_store(&w, value, arrow_type_width(&t));
        return builder_append_bytes(rows, bytes_of(value, arrow_type_width(&t)), err);
    }
    if (arrow_id_is_float(t.id)) return builder_append_double(rows, row == 1 ? -0.0 : (double)numbers[row] / 2, err);
    if (t.layout == LAYOUT_FIXED) return builder_append_int(rows, numbers[row], err);
    if (t.id == ARROW_STRUCT) {
        for (int64_t i = 0; i < type->n_children; i++) {
            TRY_RETURN(append_value(builder_child(rows, (size_t)i), type->children[i], (row + (int)i) % 3, err));
        }
        return builder_append_row(rows, err);
    }
    int items = t.id == ARROW_FIXED_SIZE_LIST ? t.fixed_size : row;
    for (int i = 0; i < items; i++) TRY_RETURN(append_value(builder_child(rows, 0), type->children[0], i % 4, err));
    return builder_append_row(rows, err);
}

struct columns {
    struct mem *mem;
    struct ArrowSchema schema;
    struct ArrowArray batch;
};

/* Made on the first run. */
static const struct columns *fixed_columns(void)
{
    static struct columns c;
    pennon_error err;
    struct builder *rows;
    if (c.mem) return &c;
    pennon_error_init(&err);
    c.mem = mem_new(NULL, UINT64_MAX, NULL, &err);
    FUZZ_CHECK(c.mem != NULL);
    if (arrow_schema_from_text(bytes_str(columns_text), "", c.mem, &c.schema, &err) != PENNON_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    rows = builder_new(&c.schema, c.mem, &err);
    FUZZ_CHECK(rows != NULL);
    for (int row = 0; row < ROWS; row++) {
        for (int64_t i = 0; i < c.schema.n_children; i++) {
            FUZZ_CHECK(append_value(builder_child(rows, (size_t)i), c.schema.children[i], (row + (int)i % 2) % ROWS, &err) ==
                       PENNON_OK);
        }
        FUZZ_CHECK(builder_append_row(rows, &err) == PENNON_OK);
    }
    FUZZ_CHECK(builder_finish(rows, &c.batch, &err) == PENNON_OK);
    builder_free(rows);
    return &c;
}

/* The column of a path: every part but the top one is a field of `st`. */
static pennon_status load_column(const struct columns *c, const struct expr_column *column, struct mem *mem, struct ArrowArray *out,
                                 pennon_error *err)
{
    const struct ArrowSchema *type = c->schema.children[column->top];
    const struct ArrowArray *array = c->batch.children[column->top];
    uint64_t take[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) take[i] = i;
    for (const char *at = strchr(column->path, '.'); at && type->format[1] == 's'; at = strchr(at + 1, '.')) {
        const char *end = strchr(at + 1, '.');
        int64_t child = arrow_schema_find(type, bytes_of(at + 1, end ? (size_t)(end - at - 1) : strlen(at + 1)));
        FUZZ_CHECK(child >= 0);
        for (uint64_t i = 0; i < ROWS; i++) {
            if (array->buffers[0] && !bit_get(array->buffers[0], (uint64_t)array->offset + i)) take[i] = ARRAY_TAKE_NULL;
        }
        type = type->children[child];
        array = array->children[child];
    }
    return array_take(type, array, take, ROWS, mem, out, err);
}

/* ---- running ---- */

static bool may_fail_with(pennon_status st)
{
    return st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_SUPPORTED || st == PENNON_OVER_BUDGET;
}

/* Different in every evaluation. */
static bool is_volatile(struct bytes plan)
{
    return memmem(plan.data, plan.size, "random(", 7) != NULL || memmem(plan.data, plan.size, "uuid(", 5) != NULL;
}

static void check_values(const struct expr *e, const struct call *call, const struct ArrowArray *const *columns, bool stable,
                         pennon_error *err)
{
    struct ArrowArray values = {.release = NULL};
    struct array_view v;
    uint8_t bits = 0xff;
    uint64_t count = 0, set = 0;
    pennon_status st = expr_evaluate(e, call, columns, ROWS, &values, err);
    if (st != PENNON_OK) {
        FUZZ_CHECK(may_fail_with(st));
        return;
    }
    FUZZ_CHECK(values.length == ROWS);
    FUZZ_CHECK(array_validate(expr_type(e), &values, ARRAY_VALIDATE_FULL, err) == PENNON_OK);
    FUZZ_CHECK(array_view_init(&v, expr_type(e), &values, err) == PENNON_OK);
    if (v.type.id == ARROW_BOOL && stable) {
        st = expr_select(e, call, columns, ROWS, &bits, &count, err);
        FUZZ_CHECK(st == PENNON_OK || st == PENNON_OVER_BUDGET);
        for (int64_t i = 0; i < ROWS && st == PENNON_OK; i++) {
            bool pass = !array_view_is_null(&v, i) && array_view_bool(&v, i);
            FUZZ_CHECK(pass == ((bits >> i & 1) != 0));
            set += pass;
        }
        FUZZ_CHECK(st != PENNON_OK || (set == count && bits >> ROWS == 0));
    }
    array_release(&values);
}

static void check_expression(const struct expr *e, struct mem *mem, pennon_error *err)
{
    const struct call call = {.mem = mem, .deadline_ns = INT64_MAX, .threads = 1};
    size_t n;
    const struct expr_column *columns = expr_columns(e, &n);
    struct ArrowArray *arrays = calloc(n + 1, sizeof *arrays);
    const struct ArrowArray **pointers = calloc(n + 1, sizeof *pointers);
    bool loaded = true;
    struct buf text;
    FUZZ_CHECK(arrays != NULL && pointers != NULL);
    buf_init(&text, mem, BUF_NO_LIMIT);
    bool stable = expr_print(e, &text, err) == PENNON_OK && !is_volatile(bytes_of(text.data, text.size));
    for (size_t i = 0; i < n && loaded; i++) {
        loaded = load_column(fixed_columns(), &columns[i], mem, &arrays[i], err) == PENNON_OK;
        pointers[i] = &arrays[i];
    }
    if (loaded) check_values(e, &call, pointers, stable, err);
    for (size_t i = 0; i < n; i++) array_release(&arrays[i]);
    buf_free(&text);
    free(arrays);
    free(pointers);
}

static void run_text(struct bytes text, struct mem *mem, pennon_error *err)
{
    struct expr *e = NULL, *filter = NULL;
    pennon_status st = expr_compile(text, &fixed_columns()->schema, mem, &e, err);
    FUZZ_CHECK(st == PENNON_OK || may_fail_with(st));
    if (st == PENNON_OK) check_expression(e, mem, err);
    st = expr_compile_filter(text, &fixed_columns()->schema, mem, &filter, err);
    FUZZ_CHECK(st == PENNON_OK || may_fail_with(st));
    FUZZ_CHECK(st != PENNON_OK || expr_type(filter)->format[0] == 'b');
    if (st == PENNON_OK) check_expression(filter, mem, err);
    expr_free(e);
    expr_free(filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    uint8_t *copy = fuzz_copy(data, size);
    const struct ast *tree, *again;
    struct arena arena;
    struct buf text;
    arena_init(&arena, mem);
    buf_init(&text, mem, BUF_NO_LIMIT);
    if (ast_parse(bytes_of(copy, size), &arena, &tree, &err) == PENNON_OK) {
        check_places(tree, size);
        if (ast_print(tree, &text, &err) == PENNON_OK) {
            FUZZ_CHECK(ast_parse(bytes_of(text.data, text.size), &arena, &again, &err) == PENNON_OK ||
                       err.code == PENNON_OVER_BUDGET);
            FUZZ_CHECK(again == NULL || same(tree, again));
        }
    }
    buf_free(&text);
    arena_reset(&arena);
    run_text(bytes_of(copy, size), mem, &err);
    FUZZ_CHECK(mem_used(mem) == 0);
    free(copy);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
