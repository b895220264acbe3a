/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The evaluator against oracles that go row by row: comparisons and sets over random arrays of every type, logic over random trees, LIKE by
 * recursion, arithmetic by wider numbers; casts by tables of what official answers. */
#include <math.h>

#include "arrow_gen.h"
#include "expr/node.h"

/* An expression under construction, and its input. */
struct world {
    struct fixture *f;
    struct expr *e;
    struct call c;
    struct ArrowArray arrays[4];
    const struct ArrowArray *columns[4];
    size_t n;
};

#define OK(w, call) assert_ok((w)->f, call)

static void world_open(struct world *w, struct fixture *f)
{
    *w = (struct world){.f = f, .c = {.mem = f->mem, .deadline_ns = INT64_MAX, .threads = 1}};
    w->e = expr_new(f->mem, &f->err);
    assert_non_null(w->e);
}

static void world_close(struct world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->arrays[i].release != NULL) array_release(&w->arrays[i]);
    }
    expr_free(w->e);
}

static struct node *made(struct world *w, struct node *n)
{
    if (n == NULL) fail_msg("%s", w->f->err.message);
    return n;
}

static const struct ArrowSchema *type_of(struct world *w, const char *format)
{
    const struct ArrowSchema *t = NULL;
    OK(w, expr_simple_type(w->e, format, &t, &w->f->err));
    return t;
}

/* A column over an array, which is moved in. */
static struct node *column(struct world *w, const struct ArrowSchema *schema, struct ArrowArray *array)
{
    const struct ArrowSchema *type = NULL;
    struct expr *e = w->e;
    OK(w, expr_add_type(e, schema, &type, &w->f->err));
    OK(w, mem_grow(e->mem, &e->columns, &e->cap_columns, e->n_columns, sizeof *e->columns, 64, &w->f->err));
    e->columns[e->n_columns] = (struct expr_column){"c", 0, type};
    array_move(array, &w->arrays[w->n]);
    w->columns[w->n] = &w->arrays[w->n];
    w->n++;
    struct node *n = made(w, node_new(e, NODE_COLUMN, 0, type, &w->f->err));
    n->column = (uint32_t)e->n_columns++;
    return n;
}

static struct node *two(struct world *w, enum node_kind kind, int op, struct node *a, struct node *b)
{
    struct node *n = made(w, node_new(w->e, kind, 2, type_of(w, "b"), &w->f->err));
    n->op = (uint8_t)op;
    n->children[0] = a;
    n->children[1] = b;
    return n;
}

static struct node *one(struct world *w, enum node_kind kind, int op, struct node *a)
{
    struct node *n = made(w, node_new(w->e, kind, 1, type_of(w, "b"), &w->f->err));
    n->op = (uint8_t)op;
    n->children[0] = a;
    return n;
}

/* A literal of row `row` of an array. */
static struct node *literal_row(struct world *w, const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t row)
{
    const struct ArrowSchema *type = NULL;
    struct ArrowArray value;
    OK(w, expr_add_type(w->e, schema, &type, &w->f->err));
    OK(w, array_take(schema, array, &row, 1, w->f->mem, &value, &w->f->err));
    return made(w, node_literal(w->e, type, &value, &w->f->err));
}

static struct node *text_literal(struct world *w, const char *format, struct bytes text)
{
    struct ArrowArray value;
    const struct ArrowSchema *type = type_of(w, format);
    struct builder *b = builder_new(type, w->f->mem, &w->f->err);
    assert_non_null(b);
    if (text.data == NULL) {
        OK(w, builder_append_null(b, &w->f->err));
    } else {
        OK(w, builder_append_bytes(b, text, &w->f->err));
    }
    OK(w, builder_finish(b, &value, &w->f->err));
    builder_free(b);
    return made(w, node_literal(w->e, type, &value, &w->f->err));
}

/* Truths as numbers: 0, 1, and 2 for null; the answer of a tree for every row, by both ways. */
static void answers(struct world *w, struct node *root, int64_t rows, int *out)
{
    struct ArrowArray array = {.release = NULL};
    struct array_view v;
    uint64_t count = 0, passed = 0;
    uint8_t *bits = calloc((size_t)bitmap_bytes((uint64_t)rows) + 1, 1);
    assert_non_null(bits);
    bits[bitmap_bytes((uint64_t)rows)] = 0xa5;
    w->e->root = root;
    OK(w, expr_evaluate(w->e, &w->c, w->columns, rows, &array, &w->f->err));
    OK(w, array_validate(root->schema, &array, ARRAY_VALIDATE_FULL, &w->f->err));
    assert_int_equal(array.length, rows);
    OK(w, array_view_init(&v, root->schema, &array, &w->f->err));
    for (int64_t i = 0; i < rows; i++) out[i] = array_view_is_null(&v, i) ? 2 : array_view_bool(&v, i);
    OK(w, expr_select(w->e, &w->c, w->columns, rows, bits, &count, &w->f->err));
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(bit_get(bits, (uint64_t)i), out[i] == 1);
        passed += out[i] == 1;
    }
    assert_int_equal(count, passed);
    for (uint64_t i = (uint64_t)rows; i < 8 * bitmap_bytes((uint64_t)rows); i++) assert_false(bit_get(bits, i));
    assert_int_equal(bits[bitmap_bytes((uint64_t)rows)], 0xa5);
    free(bits);
    array_release(&array);
}

/* --------------------------------------------------------------------------------------------------------- comparisons */

static const char *const flat_formats[] = {"b",   "c",   "C",    "s",        "S",         "i",       "I",          "l",   "L",
                                           "e",   "f",   "g",    "d:9,2,32", "d:18,2,64", "d:30,2",  "d:60,2,256", "tdD", "tdm",
                                           "tts", "ttm", "ttu",  "ttn",      "tss:",      "tsu:UTC", "tDn",        "tiM", "tiD",
                                           "tin", "w:3", "w:16", "z",        "Z",         "vz",      "u",          "U",   "vu"};
static const int64_t lengths[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 200, 1000};

static bool row_null(const struct array_view *v, int64_t i)
{
    if (array_view_is_null(v, i)) return true;
    return v->type.id == ARROW_DICTIONARY && array_view_is_null(&v->children[0], array_view_int(v, i));
}

/* Sign and magnitude of a float's bits, compared as numbers. */
static int oracle_float(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    uint64_t x = 0, y = 0, sign = UINT64_C(1) << (a->type.bit_width - 1);
    memcpy(&x, array_view_fixed(a, i), arrow_type_width(&a->type));
    memcpy(&y, array_view_fixed(b, j), arrow_type_width(&b->type));
    bool minus_x = (x & sign) != 0, minus_y = (y & sign) != 0;
    if (minus_x != minus_y) return minus_x ? -1 : 1;
    int c = (x > y) - (x < y);
    return minus_x ? -c : c;
}

static int oracle_order(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    if (a->type.id == ARROW_DICTIONARY)
        return oracle_order(&a->children[0], array_view_int(a, i), &b->children[0], array_view_int(b, j));
    return arrow_id_is_float(a->type.id) ? oracle_float(a, i, b, j) : array_compare(a, i, b, j);
}

static int oracle_compare(int op, const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    if (row_null(a, i) || row_null(b, j)) return 2;
    int c = oracle_order(a, i, b, j);
    const int table[] = {c == 0, c != 0, c<0, c <= 0, c> 0, c >= 0};
    return table[op];
}

static void check_comparisons(struct world *w, struct node *a, struct node *b, int64_t rows)
{
    struct arena arena;
    struct array_view views[2];
    struct node *sides[2] = {a, b};
    int *got = calloc((size_t)rows + 1, sizeof *got);
    arena_init(&arena, w->f->mem);
    for (int s = 0; s < 2; s++) {
        const struct ArrowArray *array = sides[s]->kind == NODE_LITERAL ? &sides[s]->literal : w->columns[sides[s]->column];
        OK(w, array_view_deep(&views[s], sides[s]->schema, array, &arena, &w->f->err));
    }
    for (int op = AST_EQ; op <= AST_GE + 2; op++) {
        bool distinct = op > AST_GE;
        struct node *n = two(w, distinct ? NODE_DISTINCT : NODE_COMPARE, distinct ? 0 : op, a, b);
        n->negated = op == AST_GE + 2;
        answers(w, n, rows, got);
        for (int64_t r = 0; r < rows; r++) {
            int64_t i = a->kind == NODE_LITERAL ? 0 : r, j = b->kind == NODE_LITERAL ? 0 : r;
            int want = oracle_compare(distinct ? AST_NE : op, &views[0], i, &views[1], j);
            if (distinct) {
                bool na = row_null(&views[0], i), nb = row_null(&views[1], j);
                want = na || nb ? na != nb : want;
                want ^= n->negated;
            }
            if (got[r] != want)
                fail_msg("%s op %d row %d of %d: %d, not %d", a->schema->format, op, (int)r, (int)rows, got[r], want);
        }
    }
    arena_reset(&arena);
    free(got);
}

static void compare_type(struct fixture *f, const struct ArrowSchema *schema, int64_t rows, uint64_t seed)
{
    struct world w;
    struct gen g = {f->mem, &f->err, seed, false};
    struct ArrowArray a, b;
    world_open(&w, f);
    gen_array(&g, schema, rows, false, &a);
    gen_array(&g, schema, rows, false, &b);
    struct node *na = column(&w, schema, &a), *nb = column(&w, schema, &b);
    check_comparisons(&w, na, nb, rows);
    uint64_t row = rows > 0 ? gen_below(&g, (uint64_t)rows) : ARRAY_TAKE_NULL;
    struct node *literal = literal_row(&w, schema, w.columns[0], row);
    check_comparisons(&w, na, literal, rows);
    check_comparisons(&w, literal, na, rows);
    check_comparisons(&w, literal, literal, rows);
    world_close(&w);
}

static void test_expr_compare__flat_types(void **state)
{
    struct fixture *f = *state;
    for (size_t t = 0; t < ARRAY_LEN(flat_formats); t++) {
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            struct ArrowSchema schema;
            assert_ok(f, arrow_schema_new(&schema, flat_formats[t], "x", ARROW_FLAG_NULLABLE, 0, f->mem, &f->err));
            compare_type(f, &schema, lengths[l], 1000 * t + l);
            arrow_schema_release(&schema);
        }
    }
}

static void test_expr_compare__dictionaries(void **state)
{
    struct fixture *f = *state;
    static const char *const values[] = {"u", "l", "g", "d:30,2"};
    for (size_t t = 0; t < ARRAY_LEN(values); t++) {
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            struct ArrowSchema schema;
            assert_ok(f, arrow_schema_new(&schema, l % 2 != 0 ? "c" : "I", "x", ARROW_FLAG_NULLABLE, 0, f->mem, &f->err));
            assert_ok(f, arrow_schema_add_dictionary(&schema, &f->err));
            assert_ok(f, arrow_schema_new(schema.dictionary, values[t], "", ARROW_FLAG_NULLABLE, 0, f->mem, &f->err));
            compare_type(f, &schema, lengths[l], 77 * t + l);
            arrow_schema_release(&schema);
        }
    }
}

/* Nested rows: equal where they render alike. */
static void test_expr_compare__nested_equality(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct world w;
        struct gen g = {f->mem, &f->err, seed * 7919, false};
        struct ArrowSchema schema;
        struct ArrowArray array;
        struct array_view v;
        struct arena arena;
        struct buf x, y;
        int got[64];
        gen_schema(&g, 3, "x", &schema);
        bool plain = schema.dictionary != NULL || strcmp(schema.format, "n") == 0;
        if (plain) {
            arrow_schema_release(&schema);
            continue;
        }
        world_open(&w, f);
        gen_array(&g, &schema, 50, false, &array);
        struct node *c = column(&w, &schema, &array);
        struct node *literal = literal_row(&w, &schema, w.columns[0], gen_below(&g, 50));
        answers(&w, two(&w, NODE_COMPARE, AST_EQ, c, literal), 50, got);
        arena_init(&arena, f->mem);
        buf_init(&x, f->mem, BUF_NO_LIMIT);
        buf_init(&y, f->mem, BUF_NO_LIMIT);
        assert_ok(f, array_view_deep(&v, &schema, w.columns[0], &arena, &f->err));
        render_row(&y, &literal->literal_view, 0, &f->err);
        for (int64_t i = 0; i < 50; i++) {
            x.size = 0;
            render_row(&x, &v, i, &f->err);
            bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
            int want = array_view_is_null(&v, i) || array_view_is_null(&literal->literal_view, 0) ? 2 : same;
            assert_int_equal(got[i], want);
        }
        buf_free(&x);
        buf_free(&y);
        arena_reset(&arena);
        arrow_schema_release(&schema);
        world_close(&w);
    }
}

static void test_expr_compare__floats_in_total_order(void **state)
{
    struct fixture *f = *state;
    static const uint64_t bits[] = {0xfff8000000000000, 0xfff0000000000000, 0xbff0000000000000, 0x8000000000000000, 0,
                                    0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000, 0x7ff8000000000001};
    for (size_t l = 0; l < ARRAY_LEN(bits); l++) {
        struct world w;
        struct ArrowArray array;
        int got[ARRAY_LEN(bits)];
        world_open(&w, f);
        assert_ok(f, array_new(&array, 2, 0, f->mem, &f->err));
        void *to = array_make_buffer(&array, 1, sizeof bits, &f->err);
        assert_non_null(to);
        memcpy(to, bits, sizeof bits);
        array.length = ARRAY_LEN(bits);
        struct node *c = column(&w, type_of(&w, "g"), &array);
        struct node *literal = literal_row(&w, type_of(&w, "g"), w.columns[0], l);
        for (int op = AST_EQ; op <= AST_GE; op++) {
            answers(&w, two(&w, NODE_COMPARE, op, c, literal), ARRAY_LEN(bits), got);
            for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
                const int want[] = {i == l, i != l, i<l, i <= l, i> l, i >= l};
                assert_int_equal(got[i], want[op]);
            }
        }
        world_close(&w);
    }
}

/* --------------------------------------------------------------------------------------------------------------- logic */

static int oracle_and(int a, int b) { return a == 0 || b == 0 ? 0 : a == 2 || b == 2 ? 2 : 1; }
static int oracle_not(int a) { return a == 2 ? 2 : !a; }

static int oracle_is(int op, bool negated, int a)
{
    const int table[] = {a == 2, a == 1, a == 0, a == 2};
    return table[op] ^ (int)negated;
}

#define LOGIC_ROWS 130

/* A random tree over the columns, with the answers of every row. */
static struct node *random_logic(struct world *w, struct gen *g, struct node **columns, int (*values)[LOGIC_ROWS], unsigned depth,
                                 int *out)
{
    uint64_t pick = depth == 0 ? 0 : gen_below(g, 7);
    if (pick <= 1) {
        uint64_t c = gen_below(g, 4);
        if (c == 3) { /* a constant, null as well */
            int v = (int)gen_below(g, 3);
            struct ArrowArray array;
            struct builder *b = builder_new(type_of(w, "b"), w->f->mem, &w->f->err);
            OK(w, v == 2 ? builder_append_null(b, &w->f->err) : builder_append_bool(b, v == 1, &w->f->err));
            OK(w, builder_finish(b, &array, &w->f->err));
            builder_free(b);
            for (int i = 0; i < LOGIC_ROWS; i++) out[i] = v;
            return made(w, node_literal(w->e, type_of(w, "b"), &array, &w->f->err));
        }
        memcpy(out, values[c], sizeof values[c]);
        return columns[c];
    }
    int part[LOGIC_ROWS];
    if (pick == 2 || pick == 3) {
        struct node *child = random_logic(w, g, columns, values, depth - 1, part);
        struct node *n = one(w, pick == 2 ? NODE_NOT : NODE_IS, (int)gen_below(g, 4), child);
        n->negated = gen_below(g, 2) != 0;
        for (int i = 0; i < LOGIC_ROWS; i++) out[i] = pick == 2 ? oracle_not(part[i]) : oracle_is(n->op, n->negated, part[i]);
        return n;
    }
    uint32_t terms = 2 + (uint32_t)gen_below(g, 3);
    bool conjunction = gen_below(g, 2) != 0;
    struct node *n = made(w, node_new(w->e, conjunction ? NODE_AND : NODE_OR, terms, type_of(w, "b"), &w->f->err));
    for (uint32_t t = 0; t < terms; t++) {
        n->children[t] = random_logic(w, g, columns, values, depth - 1, part);
        for (int i = 0; i < LOGIC_ROWS; i++) {
            int both = t == 0        ? part[i]
                       : conjunction ? oracle_and(out[i], part[i])
                                     : oracle_not(oracle_and(oracle_not(out[i]), oracle_not(part[i])));
            out[i] = both;
        }
    }
    return n;
}

static void test_expr_truth__random_trees(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct world w;
        struct gen g = {f->mem, &f->err, seed * 31 + 5, false};
        struct node *columns[3];
        int values[3][LOGIC_ROWS], want[LOGIC_ROWS], got[LOGIC_ROWS];
        world_open(&w, f);
        for (int c = 0; c < 3; c++) {
            struct ArrowArray array;
            struct array_view v;
            gen_array(&g, type_of(&w, "b"), LOGIC_ROWS, false, &array);
            columns[c] = column(&w, type_of(&w, "b"), &array);
            assert_ok(f, array_view_init(&v, type_of(&w, "b"), w.columns[c], &f->err));
            for (int i = 0; i < LOGIC_ROWS; i++) values[c][i] = array_view_is_null(&v, i) ? 2 : array_view_bool(&v, i);
        }
        struct node *root = random_logic(&w, &g, columns, values, 4, want);
        answers(&w, root, LOGIC_ROWS, got);
        for (int i = 0; i < LOGIC_ROWS; i++) assert_int_equal(got[i], want[i]);
        world_close(&w);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- sets */

static void check_set(struct fixture *f, const struct ArrowSchema *schema, int64_t rows, int64_t items, bool negated, uint64_t seed)
{
    struct world w;
    struct gen g = {f->mem, &f->err, seed, false};
    struct ArrowArray array, list;
    struct array_view v, iv;
    struct arena arena;
    int *got = calloc((size_t)rows + 1, sizeof *got);
    uint64_t *take = calloc((size_t)items, sizeof *take);
    world_open(&w, f);
    arena_init(&arena, f->mem);
    gen_array(&g, schema, rows, false, &array);
    struct node *c = column(&w, schema, &array);
    struct node *n = one(&w, NODE_IN, 0, c);
    n->negated = negated;
    for (int64_t i = 0; i < items; i++) take[i] = rows == 0 ? ARRAY_TAKE_NULL : gen_below(&g, (uint64_t)rows);
    assert_ok(f, array_take(schema, w.columns[0], take, (size_t)items, f->mem, &list, &f->err));
    assert_ok(f, node_in_set(w.e, n, c->schema, &list, &f->err));
    answers(&w, n, rows, got);
    assert_ok(f, array_view_deep(&v, schema, w.columns[0], &arena, &f->err));
    iv = *in_set_items(n->set);
    assert_int_equal(iv.length, items);
    for (int64_t r = 0; r < rows; r++) {
        int want = row_null(&v, r) ? 2 : 0;
        for (int64_t i = 0; i < items && want != 1 && !row_null(&v, r); i++) {
            if (row_null(&iv, i)) {
                want = 2;
            } else if (oracle_order(&v, r, &iv, i) == 0) {
                want = 1;
            }
        }
        if (negated) want = oracle_not(want);
        if (got[r] != want) fail_msg("%s row %d: %d, not %d", schema->format, (int)r, got[r], want);
    }
    arena_reset(&arena);
    world_close(&w);
    free(got);
    free(take);
}

static void test_expr_in__every_type(void **state)
{
    struct fixture *f = *state;
    static const int64_t counts[] = {1, 3, 16, 17, 40};
    for (size_t t = 0; t < ARRAY_LEN(flat_formats); t++) {
        struct ArrowSchema schema;
        assert_ok(f, arrow_schema_new(&schema, flat_formats[t], "x", ARROW_FLAG_NULLABLE, 0, f->mem, &f->err));
        for (size_t k = 0; k < ARRAY_LEN(counts); k++)
            check_set(f, &schema, 20 + 45 * (int64_t)k, counts[k], k % 2 != 0, 13 * t + k);
        arrow_schema_release(&schema);
    }
}

static void test_expr_in__wide_and_dense_integers(void **state)
{
    struct fixture *f = *state;
    struct mem *whole = f->mem;
    for (int form = 0; form < 8; form++) {
        struct world w;
        struct mem *small = NULL;
        /* Not room for the bitmap of a wide span, which the table then stands in for. */
        if (form >= 6) {
            small = mem_new(whole, 48 << 10, NULL, &f->err);
            assert_non_null(small);
            f->mem = small;
        }
        struct ArrowArray array, list;
        int got[300];
        const bool is_signed = form < 4 ? form < 2 : form % 2 == 0;
        world_open(&w, f);
        const struct ArrowSchema *type = type_of(&w, is_signed ? "l" : "L");
        struct builder *b = builder_new(type, f->mem, &f->err);
        /* Dense ones are a bitmap, spread ones a table; zero and the ends are among both. */
        uint64_t step = form >= 4 ? 5000 : form % 2 == 0 ? 3 : UINT64_C(0x123456789abcdf1);
        for (uint64_t i = 0; i < 300; i++) {
            uint64_t v = (i - 100) * step;
            assert_ok(f, is_signed ? builder_append_int(b, (int64_t)v, &f->err) : builder_append_uint(b, v, &f->err));
        }
        assert_ok(f, builder_finish(b, &array, &f->err));
        for (uint64_t i = 50; i < 150; i += 2) {
            uint64_t v = (i - 100) * step;
            assert_ok(f, is_signed ? builder_append_int(b, (int64_t)v, &f->err) : builder_append_uint(b, v, &f->err));
        }
        assert_ok(f, builder_finish(b, &list, &f->err));
        builder_free(b);
        struct node *n = one(&w, NODE_IN, 0, column(&w, type, &array));
        assert_ok(f, node_in_set(w.e, n, type, &list, &f->err));
        answers(&w, n, 300, got);
        for (int i = 0; i < 300; i++) assert_int_equal(got[i], i >= 50 && i < 150 && i % 2 == 0);
        world_close(&w);
        f->mem = whole;
        if (small) mem_release(small);
    }
}

/* Items that are columns: equality with each, nulls included. */
static void test_expr_in__items_that_are_no_constants(void **state)
{
    struct fixture *f = *state;
    struct world w;
    struct gen g = {f->mem, &f->err, 4711, false};
    struct array_view v[3];
    struct node *c[3];
    int got[200];
    world_open(&w, f);
    for (int i = 0; i < 3; i++) {
        struct ArrowArray array;
        gen_array(&g, type_of(&w, "c"), 200, false, &array);
        c[i] = column(&w, type_of(&w, "c"), &array);
        assert_ok(f, array_view_init(&v[i], type_of(&w, "c"), w.columns[i], &f->err));
    }
    struct node *n = made(&w, node_new(w.e, NODE_IN, 3, type_of(&w, "b"), &f->err));
    memcpy(n->children, c, sizeof c);
    answers(&w, n, 200, got);
    for (int64_t r = 0; r < 200; r++) {
        int a = oracle_compare(AST_EQ, &v[0], r, &v[1], r), b = oracle_compare(AST_EQ, &v[0], r, &v[2], r);
        assert_int_equal(got[r], oracle_not(oracle_and(oracle_not(a), oracle_not(b))));
    }
    world_close(&w);
}

/* ---------------------------------------------------------------------------------------------------------------- LIKE */

/* By recursion over characters of one byte, and of two for the accented ones. */
static bool oracle_like(const uint8_t *t, const uint8_t *te, const uint8_t *p, const uint8_t *pe)
{
    if (p == pe) return t == te;
    if (*p == '%') return oracle_like(t, te, p + 1, pe) || (t < te && oracle_like(t + 1, te, p, pe));
    if (t == te) return false;
    if (*p == '_') return oracle_like(t + (*t >= 0xc0 ? 2 : 1), te, p + 1, pe);
    if (*p == '\\' && p + 1 < pe) p++;
    return *t == *p && oracle_like(t + 1, te, p + 1, pe);
}

static struct bytes random_text(struct gen *g, const char *const *parts, uint64_t n_parts, uint64_t most, uint8_t *to)
{
    size_t n = 0;
    for (uint64_t k = gen_below(g, most); k > 0; k--) {
        const char *part = parts[gen_below(g, n_parts)];
        memcpy(to + n, part, strlen(part));
        n += strlen(part);
    }
    return bytes_of(to, n);
}

static const char *const like_letters[] = {"a", "b", "ab", "\xc3\xa9", "%", "_", "\\", "a", "b"};
static const char *const like_parts[] = {"a", "b", "ab", "\xc3\xa9", "%", "_", "\\%", "\\_", "\\\\", "%", "_", "\\b"};

static void check_like(struct fixture *f, const char *format, int64_t rows, uint64_t seed)
{
    struct world w;
    struct gen g = {f->mem, &f->err, seed, false};
    struct ArrowArray array;
    struct array_view v;
    uint8_t text[64], like[64];
    int *got = calloc((size_t)rows + 1, sizeof *got);
    world_open(&w, f);
    struct builder *b = builder_new(type_of(&w, format), f->mem, &f->err);
    for (int64_t i = 0; i < rows; i++) {
        struct bytes t = random_text(&g, like_letters, ARRAY_LEN(like_letters), 12, text);
        assert_ok(f, gen_below(&g, 9) == 0 ? builder_append_null(b, &f->err) : builder_append_bytes(b, t, &f->err));
    }
    assert_ok(f, builder_finish(b, &array, &f->err));
    builder_free(b);
    struct node *c = column(&w, type_of(&w, format), &array);
    assert_ok(f, array_view_init(&v, c->schema, w.columns[0], &f->err));
    for (int round = 0; round < 40; round++) {
        struct bytes p = random_text(&g, like_parts, ARRAY_LEN(like_parts), 7, like);
        struct node *n = two(&w, NODE_LIKE, 0, c, text_literal(&w, format, p));
        n->negated = round % 3 == 0;
        if (round % 4 != 0) assert_ok(f, node_like_pattern(w.e, n, p, &f->err));
        answers(&w, n, rows, got);
        for (int64_t i = 0; i < rows; i++) {
            struct bytes t = array_view_bytes(&v, i);
            int want = array_view_is_null(&v, i) ? 2 : oracle_like(t.data, t.data + t.size, p.data, p.data + p.size) != n->negated;
            if (got[i] != want)
                fail_msg("'%.*s' LIKE '%.*s': %d", (int)t.size, (const char *)t.data, (int)p.size, (const char *)p.data, got[i]);
        }
    }
    world_close(&w);
    free(got);
}

static void test_expr_like__random(void **state)
{
    static const char *const formats[] = {"u", "U", "vu"};
    for (size_t t = 0; t < ARRAY_LEN(formats); t++) {
        for (uint64_t seed = 0; seed < 12; seed++) check_like(*state, formats[t], lengths[seed % 8 + 1], seed * 3 + t);
    }
}

static bool like_is(struct fixture *f, const char *text, const char *pattern, bool fold)
{
    struct world w;
    struct ArrowArray array;
    int got = 0;
    world_open(&w, f);
    struct builder *b = builder_new(type_of(&w, "u"), f->mem, &f->err);
    assert_ok(f, builder_append_bytes(b, bytes_str(text), &f->err));
    assert_ok(f, builder_finish(b, &array, &f->err));
    builder_free(b);
    struct node *n = one(&w, NODE_LIKE, 0, column(&w, type_of(&w, "u"), &array));
    n->fold = fold;
    assert_ok(f, node_like_pattern(w.e, n, bytes_str(pattern), &f->err));
    answers(&w, n, 1, &got);
    world_close(&w);
    return got == 1;
}

static void test_expr_like__edges(void **state)
{
    struct fixture *f = *state;
    assert_true(like_is(f, "ab", "a\\b", false));
    assert_true(like_is(f, "a\\", "a\\", false));
    assert_true(like_is(f, "", "", false));
    assert_true(like_is(f, "", "%", false));
    assert_false(like_is(f, "a", "", false));
    assert_true(like_is(f, "a\nb", "a_b", false));
    assert_false(like_is(f, "ABC", "abc", false));
    assert_true(like_is(f, "ABC", "a%C", true));
    assert_true(like_is(f, "\xe2\x84\xaa", "k", true)); /* Kelvin */
    assert_true(like_is(f, "\xc5\xbf", "S", true));     /* long s */
    assert_false(like_is(f, "\xc3\x9f", "ss", true));
    assert_false(like_is(f, "\xc4\xb0", "i", true)); /* dotted capital i */
    assert_true(like_is(f, "\xc3\x89t\xc3\xa9", "\xc3\xa9T_", true));
}

/* ---------------------------------------------------------------------------------------------------------- arithmetic */

static struct node *numbers(struct world *w, const char *format, const int64_t *values, size_t n)
{
    struct ArrowArray array;
    struct builder *b = builder_new(type_of(w, format), w->f->mem, &w->f->err);
    for (size_t i = 0; i < n; i++) OK(w, builder_append_int(b, values[i], &w->f->err));
    OK(w, builder_finish(b, &array, &w->f->err));
    builder_free(b);
    return column(w, type_of(w, format), &array);
}

static struct node *arith(struct world *w, int op, const char *result, struct node *a, struct node *b)
{
    struct node *n = made(w, node_new(w->e, NODE_ARITH, 2, type_of(w, result), &w->f->err));
    n->op = (uint8_t)op;
    n->children[0] = a;
    n->children[1] = b;
    return n;
}

static void test_expr_arithmetic__integers(void **state)
{
    struct fixture *f = *state;
    static const int64_t x[] = {0, 1, -1, 127, -128, 5, -5, 100, 64}, y[] = {1, 2, 3, 1, 2, -3, 3, 100, -2};
    for (int op = AST_ADD; op <= AST_MODULO; op++) {
        struct world w;
        struct ArrowArray out;
        struct array_view v;
        world_open(&w, f);
        struct node *a = numbers(&w, "c", x, ARRAY_LEN(x)), *b = numbers(&w, "c", y, ARRAY_LEN(y));
        w.e->root = arith(&w, op, "c", a, b);
        assert_ok(f, expr_evaluate(w.e, &w.c, w.columns, ARRAY_LEN(x), &out, &f->err));
        assert_ok(f, array_view_init(&v, w.e->root->schema, &out, &f->err));
        for (size_t i = 0; i < ARRAY_LEN(x); i++) {
            const int64_t want[] = {x[i] + y[i], x[i] - y[i], x[i] * y[i], x[i] / y[i], x[i] % y[i]};
            assert_int_equal(array_view_int(&v, (int64_t)i), (int8_t)(uint8_t)(uint64_t)want[op]);
        }
        array_release(&out);
        world_close(&w);
    }
}

static pennon_status divide_status(struct fixture *f, const char *format, int64_t x, int64_t y, int op)
{
    struct world w;
    struct ArrowArray out = {.release = NULL};
    world_open(&w, f);
    struct node *a = numbers(&w, format, &x, 1), *b = numbers(&w, format, &y, 1);
    w.e->root = arith(&w, op, format, a, b);
    pennon_status st = expr_evaluate(w.e, &w.c, w.columns, 1, &out, &f->err);
    if (out.release != NULL) array_release(&out);
    world_close(&w);
    return st;
}

static void test_expr_arithmetic__faults(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(divide_status(f, "i", 1, 0, AST_DIVIDE), PENNON_INVALID_ARGUMENT);
    assert_string_equal(f->err.kind, "DivideByZero");
    assert_int_equal(divide_status(f, "l", 1, 0, AST_MODULO), PENNON_INVALID_ARGUMENT);
    assert_int_equal(divide_status(f, "i", INT32_MIN, -1, AST_DIVIDE), PENNON_INVALID_ARGUMENT);
    assert_string_equal(f->err.kind, "ArithmeticOverflow");
    assert_ok(f, divide_status(f, "i", INT32_MIN, -1, AST_MODULO));
    assert_int_equal(divide_status(f, "d:5,0", 1, 0, AST_DIVIDE), PENNON_INVALID_ARGUMENT);
    pennon_error_clear(&f->err);
}

/* A division by zero behind AND is a fault though the other side is false; under a null it is none; in CASE only where its branch is. */
static void test_expr_arithmetic__where_faults_count(void **state)
{
    struct fixture *f = *state;
    static const int64_t zero[] = {0, 0}, three[] = {3, 0};
    struct world w;
    struct ArrowArray out = {.release = NULL};
    int got[2];
    world_open(&w, f);
    struct node *z = numbers(&w, "l", zero, 2), *t = numbers(&w, "l", three, 2);
    struct node *is_three = two(&w, NODE_COMPARE, AST_EQ, t, literal_row(&w, t->schema, w.columns[1], 0));
    struct node *no = two(&w, NODE_COMPARE, AST_NE, z, z);
    struct node *quotient = arith(&w, AST_DIVIDE, "l", t, t);
    struct node *fault = two(&w, NODE_COMPARE, AST_EQ, quotient, literal_row(&w, t->schema, w.columns[1], 0));
    w.e->root = two(&w, NODE_AND, 0, no, fault);
    assert_int_equal(expr_evaluate(w.e, &w.c, w.columns, 2, &out, &f->err), PENNON_INVALID_ARGUMENT);
    uint8_t bits[1];
    uint64_t count;
    assert_int_equal(expr_select(w.e, &w.c, w.columns, 2, bits, &count, &f->err), PENNON_INVALID_ARGUMENT);
    pennon_error_clear(&f->err);
    w.e->root = arith(&w, AST_DIVIDE, "l", t, made(&w, node_null(w.e, t->schema, &f->err)));
    assert_ok(f, expr_evaluate(w.e, &w.c, w.columns, 2, &out, &f->err));
    assert_int_equal(out.null_count, 2);
    array_release(&out);
    struct node *choice = made(&w, node_new(w.e, NODE_CASE, 3, t->schema, &f->err));
    choice->children[0] = is_three;
    choice->children[1] = quotient;
    choice->children[2] = z;
    answers(&w, two(&w, NODE_COMPARE, AST_GT, choice, z), 2, got);
    assert_int_equal(got[0], 1);
    assert_int_equal(got[1], 0);
    world_close(&w);
}

/* ---------------------------------------------------------------------------------------------------------------- CASE */

static void test_expr_case__random(void **state)
{
    struct fixture *f = *state;
    static const char *const formats[] = {"u", "l", "b", "vu", "d:30,2"};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct world w;
        struct gen g = {f->mem, &f->err, seed * 97, false};
        struct ArrowArray array, out;
        struct array_view cond, value[2], got;
        struct arena arena;
        struct buf x, y;
        world_open(&w, f);
        const struct ArrowSchema *type = type_of(&w, formats[seed % ARRAY_LEN(formats)]);
        int64_t rows = lengths[seed % ARRAY_LEN(lengths)];
        gen_array(&g, type_of(&w, "b"), rows, false, &array);
        struct node *c = column(&w, type_of(&w, "b"), &array), *v[2];
        for (int i = 0; i < 2; i++) {
            gen_array(&g, type, rows, false, &array);
            v[i] = column(&w, type, &array);
        }
        struct node *n = made(&w, node_new(w.e, NODE_CASE, 5, type, &f->err));
        n->children[0] = c;
        n->children[1] = v[0];
        n->children[2] = one(&w, NODE_IS, AST_IS_NULL, c);
        n->children[3] = made(&w, node_null(w.e, type, &f->err));
        n->children[4] = v[1];
        w.e->root = n;
        assert_ok(f, expr_evaluate(w.e, &w.c, w.columns, rows, &out, &f->err));
        assert_ok(f, array_validate(type, &out, ARRAY_VALIDATE_FULL, &f->err));
        arena_init(&arena, f->mem);
        buf_init(&x, f->mem, BUF_NO_LIMIT);
        buf_init(&y, f->mem, BUF_NO_LIMIT);
        assert_ok(f, array_view_init(&cond, c->schema, w.columns[0], &f->err));
        for (int i = 0; i < 2; i++) assert_ok(f, array_view_deep(&value[i], type, w.columns[1 + i], &arena, &f->err));
        assert_ok(f, array_view_deep(&got, type, &out, &arena, &f->err));
        for (int64_t i = 0; i < rows; i++) {
            x.size = 0;
            y.size = 0;
            render_row(&x, &got, i, &f->err);
            if (array_view_is_null(&cond, i)) {
                assert_ok(f, buf_append_byte(&y, '~', &f->err));
            } else {
                render_row(&y, &value[array_view_bool(&cond, i) ? 0 : 1], i, &f->err);
            }
            assert_int_equal(x.size, y.size);
            assert_memory_equal(x.data, y.data, x.size);
        }
        buf_free(&x);
        buf_free(&y);
        arena_reset(&arena);
        array_release(&out);
        world_close(&w);
    }
}

/* --------------------------------------------------------------------------------------------------------------- casts */

/* Text of a text cast to a type and back to text; "null" where there is none. */
static const char *cast_text(struct fixture *f, const char *text, const char *format, bool try_cast, pennon_status *status)
{
    static char out[256];
    struct world w;
    struct ArrowArray array, result = {.release = NULL};
    struct array_view v;
    world_open(&w, f);
    struct builder *b = builder_new(type_of(&w, "u"), f->mem, &f->err);
    assert_ok(f, builder_append_bytes(b, bytes_str(text), &f->err));
    assert_ok(f, builder_finish(b, &array, &f->err));
    builder_free(b);
    struct node *c = column(&w, type_of(&w, "u"), &array);
    c = made(&w, node_cast(w.e, c, type_of(&w, format), try_cast, &f->err));
    assert_true(cast_possible(type_of(&w, "u"), type_of(&w, format)));
    w.e->root = made(&w, node_cast(w.e, c, type_of(&w, "u"), false, &f->err));
    *status = expr_evaluate(w.e, &w.c, w.columns, 1, &result, &f->err);
    out[0] = '\0';
    if (*status == PENNON_OK) {
        assert_ok(f, array_view_init(&v, w.e->root->schema, &result, &f->err));
        struct bytes t = array_view_is_null(&v, 0) ? bytes_str("null") : array_view_bytes(&v, 0);
        assert_true(t.size < sizeof out);
        memcpy(out, t.data, t.size);
        out[t.size] = '\0';
        array_release(&result);
    }
    world_close(&w);
    return out;
}

static void test_expr_cast__texts_as_official_reads_them(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *format, *want;
    } table[] = {
        {"+1", "c", "1"},
        {" 1", "i", "null"},
        {"128", "c", "null"},
        {"-128", "c", "-128"},
        {"1.0", "i", "null"},
        {"00012", "i", "12"},
        {"18446744073709551615", "L", "18446744073709551615"},
        {"-0", "C", "0"},
        {"-1", "C", "null"},
        {"", "l", "null"},
        {"+", "l", "null"},
        {"-9223372036854775808", "l", "-9223372036854775808"},
        {"9223372036854775808", "l", "null"},
        {"1e2", "g", "100.0"},
        {".5", "g", "0.5"},
        {"5.", "g", "5.0"},
        {"INF", "g", "inf"},
        {"-Infinity", "g", "-inf"},
        {"nan", "g", "NaN"},
        {"--1", "g", "null"},
        {"2040-07-01 10:11:12 Europe/Berlin", "tss:", "2040-07-01T08:11:12"},
        {"2020-10-25T02:30:00", "tss:Europe/Berlin", "null"},
        {"1e400", "g", "inf"},
        {"-0", "g", "-0.0"},
        {"1e", "g", "null"},
        {"0x10", "g", "null"},
        {"1e16", "g", "1e16"},
        {"1e15", "g", "1000000000000000.0"},
        {"1e15", "f", "1e15"},
        {"0.00001", "g", "0.00001"},
        {"0.000001", "g", "1e-6"},
        {"5e-324", "g", "5e-324"},
        {"0.1", "f", "0.1"},
        {"123456789", "f", "123456790.0"},
        {"0.1", "e", "0.099975586"},
        {"100", "e", "100"},
        {"1.7976931348623157e308", "g", "1.7976931348623157e308"},
        {"t", "b", "true"},
        {"YES", "b", "true"},
        {" tr", "b", "true"},
        {"of", "b", "false"},
        {"o", "b", "null"},
        {"2", "b", "null"},
        {"0", "b", "false"},
        {"2020-1-1", "tdD", "2020-01-01"},
        {"20200101", "tdD", "2020-01-01"},
        {"2020-02-30", "tdD", "null"},
        {"+10000-01-01", "tdD", "+10000-01-01"},
        {"-0001-01-01", "tdD", "-0001-01-01"},
        {"10000-01-01", "tdD", "null"},
        {"2020-01-01T23:00:00-05:00", "tdD", "2020-01-02"},
        {"1-1-1", "tdD", "null"},
        {"2020-01-01", "tsu:", "2020-01-01T00:00:00"},
        {"2020-01-01 10:11:12.1234567", "tsu:", "2020-01-01T10:11:12.123456"},
        {"2020-01-01T10:11:12+0100", "tsu:", "2020-01-01T09:11:12"},
        {"2020-01-01T10:11:12 -00:30", "tsu:", "2020-01-01T10:41:12"},
        {"2020-01-01T10:11:12 Z", "tsu:", "null"},
        {"2020-01-01T10:11:60", "tsu:", "2020-01-01T10:12:00"},
        {"2020-01-01T10:11:60", "tss:", "2020-01-01T10:11:59"},
        {"2020-01-01T101112", "tsu:", "2020-01-01T10:11:12"},
        {"2020-01-01T10:11", "tsu:", "null"},
        {"1969-12-31T23:59:59.9999999", "tsu:", "1969-12-31T23:59:59.999999"},
        {"2262-04-11T23:47:16.854775807", "tsn:", "2262-04-11T23:47:16.854775807"},
        {"2262-04-12", "tsn:", "null"},
        {"2020-07-01T10:11:12", "tss:+02:00", "2020-07-01T10:11:12+02:00"},
        {"2020-07-01T10:11:12Z", "tss:+02:00", "2020-07-01T12:11:12+02:00"},
        {"10:11:12.5", "ttu", "10:11:12.500"},
        {"10:11 PM", "tts", "22:11:00"},
        {"23:59:60", "tts", "00:00:00"},
        {"24:00:00", "tts", "null"},
        {"3600", "tts", "01:00:00"},
        {"1.545", "d:10,2", "1.55"},
        {"-1.555", "d:10,2", "-1.56"},
        {"", "d:10,2", "0.00"},
        {".", "d:10,2", "0.00"},
        {"", "d:38,0", "null"},
        {" 1 ", "d:10,2", "1.00"},
        {"99999999.995", "d:10,2", "null"},
        {"1e2", "d:10,2", "null"},
        {"0.0049", "d:10,2", "0.00"},
        {"-.5", "d:38,0", "-1"},
        {"1.5", "d:38,0", "2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        pennon_status st;
        const char *got = cast_text(f, table[i].text, table[i].format, true, &st);
        assert_int_equal(st, PENNON_OK);
        if (strcmp(got, table[i].want) != 0) fail_msg("'%s' as %s: %s, not %s", table[i].text, table[i].format, got, table[i].want);
        if (strcmp(table[i].want, "null") == 0) {
            (void)cast_text(f, table[i].text, table[i].format, false, &st);
            assert_int_equal(st, PENNON_INVALID_ARGUMENT);
            assert_string_equal(f->err.kind, "CastFailed");
            assert_non_null(strstr(f->err.message, "Cannot cast string '"));
            pennon_error_clear(&f->err);
        }
    }
}

/* Terms that are left out, or look only at rows that can change, must not show: AND and OR of terms answer as the terms alone do. */
static void test_expr_truth__terms_over_texts(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        enum { ROWS = 300, TERMS = 5 };
        struct world w;
        struct gen g = {f->mem, &f->err, seed * 13 + 1, false};
        struct ArrowArray array;
        struct node *terms[TERMS];
        static const char *const formats[] = {"u", "U", "vu"};
        const char *format = formats[seed % 3];
        static const char *const patterns[] = {"%a%b%", "a%", "%b", "%ab%"};
        int alone[TERMS][ROWS], got[ROWS];
        uint8_t text[64];
        world_open(&w, f);
        struct builder *b = builder_new(type_of(&w, format), f->mem, &f->err);
        for (int i = 0; i < ROWS; i++) {
            struct bytes t = random_text(&g, like_letters, ARRAY_LEN(like_letters), 6, text);
            assert_ok(f, gen_below(&g, 9) == 0 ? builder_append_null(b, &f->err) : builder_append_bytes(b, t, &f->err));
        }
        assert_ok(f, builder_finish(b, &array, &f->err));
        builder_free(b);
        struct node *c = column(&w, type_of(&w, format), &array);
        gen_array(&g, type_of(&w, "b"), ROWS, false, &array);
        struct node *flag = column(&w, type_of(&w, "b"), &array);
        gen_array(&g, type_of(&w, "c"), ROWS, false, &array);
        struct node *number = column(&w, type_of(&w, "c"), &array);
        terms[0] = one(&w, NODE_LIKE, 0, c);
        assert_ok(f, node_like_pattern(w.e, terms[0], bytes_str(patterns[seed % 4]), &f->err));
        terms[1] = two(&w, NODE_COMPARE, (int)(seed % 6), c, literal_row(&w, c->schema, w.columns[0], gen_below(&g, ROWS)));
        terms[2] = one(&w, NODE_IN, 0, c);
        uint64_t take[3] = {gen_below(&g, ROWS), gen_below(&g, ROWS), gen_below(&g, ROWS)};
        assert_ok(f, array_take(c->schema, w.columns[0], take, 3, f->mem, &array, &f->err));
        assert_ok(f, node_in_set(w.e, terms[2], c->schema, &array, &f->err));
        terms[3] = seed % 2 != 0 ? flag : one(&w, NODE_NOT, 0, flag);
        terms[4] = two(&w, NODE_COMPARE, AST_EQ, number, literal_row(&w, number->schema, w.columns[2], gen_below(&g, ROWS)));
        for (int t = 0; t < TERMS; t++) answers(&w, terms[t], ROWS, alone[t]);
        for (int form = 0; form < 6; form++) {
            /* AND or OR of five; or three of them and the other of the last two, in another order. */
            bool conjunction = form % 2 == 0;
            uint32_t n = form < 2 ? TERMS : 4;
            struct node *root = made(&w, node_new(w.e, conjunction ? NODE_AND : NODE_OR, n, type_of(&w, "b"), &f->err));
            uint32_t order[TERMS];
            for (uint32_t t = 0; t < TERMS; t++) order[t] = (t + (uint32_t)seed) % TERMS;
            for (uint32_t t = 0; t < n; t++) root->children[t] = terms[order[t]];
            if (n == 4) root->children[3] = two(&w, conjunction ? NODE_OR : NODE_AND, 0, terms[order[3]], terms[order[4]]);
            if (form >= 4) root = one(&w, NODE_NOT, 0, root);
            answers(&w, root, ROWS, got);
            for (int i = 0; i < ROWS; i++) {
                int inner[2] = {alone[order[3]][i], alone[order[4]][i]};
                int or_inner = oracle_not(oracle_and(oracle_not(inner[0]), oracle_not(inner[1])));
                int want = n == 4 ? (conjunction ? or_inner : oracle_and(inner[0], inner[1])) : inner[0];
                if (n == TERMS) want = conjunction ? oracle_and(inner[0], inner[1]) : or_inner;
                for (int t = 0; t < 3; t++) {
                    int term = alone[order[t]][i];
                    want = conjunction ? oracle_and(want, term) : oracle_not(oracle_and(oracle_not(want), oracle_not(term)));
                }
                if (form >= 4) want = oracle_not(want);
                assert_int_equal(got[i], want);
            }
        }
        world_close(&w);
    }
}

/* ---- how often memory is asked for ---- */

static void *counting_alloc(void *ctx, size_t size, size_t align)
{
    void *p = NULL;
    ++*(size_t *)ctx;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size) == 0 ? p : NULL;
}

static void counting_free(void *ctx, void *ptr, size_t size, size_t align)
{
    UNUSED(ctx);
    UNUSED(size);
    UNUSED(align);
    free(ptr);
}

/* Allocations of one evaluation over so many rows of text and numbers. */
static size_t allocations(struct fixture *f, int64_t rows)
{
    struct world w;
    struct ArrowArray array, out;
    size_t count = 0;
    pennon_allocator allocator = {.alloc = counting_alloc, .free = counting_free, .ctx = &count};
    struct mem *counted = mem_new(NULL, UINT64_C(1) << 30, &allocator, &f->err);
    assert_non_null(counted);
    world_open(&w, f);
    struct builder *b = builder_new(type_of(&w, "u"), f->mem, &f->err);
    for (int64_t i = 0; i < rows; i++)
        assert_ok(f, builder_append_bytes(b, bytes_of(&"20200000000"[i % 7], (size_t)(i % 4 + 1)), &f->err));
    assert_ok(f, builder_finish(b, &array, &f->err));
    builder_free(b);
    struct node *c = column(&w, type_of(&w, "u"), &array);
    struct node *n = made(&w, node_new(w.e, NODE_AND, 3, type_of(&w, "b"), &f->err));
    struct node *number = made(&w, node_cast(w.e, c, type_of(&w, "l"), true, &f->err));
    n->children[0] = two(&w, NODE_LIKE, 0, c, c);
    n->children[1] = two(&w, NODE_COMPARE, AST_GE, arith(&w, AST_ADD, "l", number, number), number);
    n->children[2] = one(&w, NODE_LIKE, 0, c);
    n->children[2]->fold = true;
    assert_ok(f, node_like_pattern(w.e, n->children[2], bytes_str("%0%2%"), &f->err));
    w.e->root = n;
    w.c.mem = counted;
    count = 0;
    assert_ok(f, expr_evaluate(w.e, &w.c, w.columns, rows, &out, &f->err));
    size_t found = count;
    array_release(&out);
    world_close(&w);
    assert_int_equal(mem_used(counted), 0);
    mem_release(counted);
    return found;
}

static void test_expr_evaluate__allocations_do_not_grow_with_rows(void **state)
{
    size_t few = allocations(*state, 20000), many = allocations(*state, 160000);
    assert_true(few > 0);
    /* Small pieces of scratch share chunks, large ones do not: the number is bounded, not the same. */
    assert_in_range(many, few, few + 8);
}

static void test_expr_evaluate__is_cancelled(void **state)
{
    struct fixture *f = *state;
    struct world w;
    struct ArrowArray out = {.release = NULL};
    static const int64_t values[] = {1, 2, 3};
    world_open(&w, f);
    struct node *n = numbers(&w, "l", values, 3);
    w.e->root = two(&w, NODE_COMPARE, AST_LT, n, n);
    w.c.deadline_ns = 1;
    assert_int_equal(expr_evaluate(w.e, &w.c, w.columns, 3, &out, &f->err), PENNON_TIMEOUT);
    pennon_error_clear(&f->err);
    world_close(&w);
}

static const struct CMUnitTest tests[] = {
    FIXTURE_TEST(test_expr_compare__flat_types),
    FIXTURE_TEST(test_expr_compare__dictionaries),
    FIXTURE_TEST(test_expr_compare__nested_equality),
    FIXTURE_TEST(test_expr_compare__floats_in_total_order),
    FIXTURE_TEST(test_expr_truth__random_trees),
    FIXTURE_TEST(test_expr_in__every_type),
    FIXTURE_TEST(test_expr_in__wide_and_dense_integers),
    FIXTURE_TEST(test_expr_in__items_that_are_no_constants),
    FIXTURE_TEST(test_expr_like__random),
    FIXTURE_TEST(test_expr_like__edges),
    FIXTURE_TEST(test_expr_arithmetic__integers),
    FIXTURE_TEST(test_expr_arithmetic__faults),
    FIXTURE_TEST(test_expr_arithmetic__where_faults_count),
    FIXTURE_TEST(test_expr_case__random),
    FIXTURE_TEST(test_expr_cast__texts_as_official_reads_them),
    FIXTURE_TEST(test_expr_truth__terms_over_texts),
    FIXTURE_TEST(test_expr_evaluate__allocations_do_not_grow_with_rows),
    FIXTURE_TEST(test_expr_evaluate__is_cancelled),
};

int main(void) { return cmocka_run_group_tests(tests, NULL, NULL); }
