/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Literals: from syntax to values of one row, what they become beside a column, and their texts in plans and messages.
 *
 * Beside a column, in a term of the top ANDs and ORs, a literal takes the column's type or is refused; nothing is guessed there:
 *
 *   literal           column
 *   integer           any integer that holds it; float32, float64; decimals
 *   float             float32 (rounded), float64
 *   text              texts
 *   bytes             bytes; fixed size binary of that size
 *   list              lists, item by item
 *   date, timestamp   (casts of texts) timestamps of any unit: finer exactly, coarser cut off; date32 and date64
 *   null              anything
 *
 * Other casts of literals are no literals here: the rules of comparisons hold for them.
 * Source: spec expressions 3.1, 3.2. */
#include <math.h>

#include "expr/bind.h"
#include "expr/functions.h"

/* ---- making ---- */

/* A literal of a simple type from what was appended to the builder, which is freed. */
static struct node *finish_literal(struct binder *b, const struct ast *a, const struct ArrowSchema *type, struct builder *rows,
                                   pennon_error *err)
{
    struct ArrowArray value = {.release = NULL};
    struct node *n = NULL;
    if (builder_finish(rows, &value, err) == PENNON_OK) n = node_literal(b->e, type, &value, err);
    builder_free(rows);
    if (n != NULL) {
        n->start = a->start;
        n->end = a->end;
    }
    return n;
}

static const char *literal_format(const struct ast *a)
{
    switch ((enum ast_kind)a->kind) {
    case AST_BOOL: return "b";
    case AST_INTEGER: return "l";
    case AST_FLOAT: return "g";
    case AST_TEXT: return "u";
    case AST_BINARY: return "z";
    default: return "n";
    }
}

static pennon_status append_literal(struct builder *rows, const struct ast *a, pennon_error *err)
{
    switch ((enum ast_kind)a->kind) {
    case AST_BOOL: return builder_append_bool(rows, a->integer != 0, err);
    case AST_INTEGER: return builder_append_int(rows, a->integer, err);
    case AST_FLOAT: return builder_append_double(rows, a->real, err);
    case AST_TEXT: return builder_append_bytes(rows, a->text, err);
    case AST_BINARY: return a->flags & AST_INVALID ? builder_append_null(rows, err) : builder_append_bytes(rows, a->text, err);
    default: return builder_append_null(rows, err);
    }
}

static bool is_plain_literal(const struct ast *a) { return a->kind <= AST_BINARY; }

/* [1, 2]: the type of the first item that is not null; floats do not mix with integers. */
static struct node *bind_array(struct binder *b, const struct ast *a, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL;
    struct builder *rows = NULL;
    const struct ArrowSchema *type = NULL;
    struct ArrowSchema list = {.release = NULL};
    const struct ast *first = NULL;
    for (uint32_t i = 0; i < a->n; i++) {
        if (!is_plain_literal(a->children[i])) {
            st = bind_error(b, a->children[i], "TypeMismatch", err, "the items of a list must be plain literals");
            goto done;
        }
        if (!first && a->children[i]->kind != AST_NULL) first = a->children[i];
    }
    TRY(arrow_schema_new(&list, "+l", "", ARROW_FLAG_NULLABLE, 1, b->e->mem, err));
    TRY(arrow_schema_new(list.children[0], first ? literal_format(first) : "n", "item", ARROW_FLAG_NULLABLE, 0, b->e->mem, err));
    TRY(expr_add_type(b->e, &list, &type, err));
    TRY_NEW(rows, builder_new(type, b->e->mem, err));
    for (uint32_t i = 0; i < a->n; i++) {
        const struct ast *item = a->children[i];
        bool as_float = first != NULL && first->kind == AST_FLOAT && item->kind == AST_INTEGER;
        if (item->kind != AST_NULL && item->kind != first->kind && !as_float) {
            st = bind_error(b, item, "TypeMismatch", err, "the items of a list must be of one type");
            goto done;
        }
        TRY(as_float ? builder_append_double(builder_child(rows, 0), (double)item->integer, err)
                     : append_literal(builder_child(rows, 0), item, err));
    }
    TRY(builder_append_row(rows, err));
    n = finish_literal(b, a, type, rows, err);
    rows = NULL;
done:
    builder_free(rows);
    arrow_schema_release(&list);
    return st == PENNON_OK ? n : NULL;
}

struct node *bind_literal(struct binder *b, const struct ast *a, pennon_error *err)
{
    const struct ArrowSchema *type;
    struct builder *rows;
    if (a->kind == AST_ARRAY) return bind_array(b, a, err);
    ASSERT(is_plain_literal(a));
    if (expr_simple_type(b->e, literal_format(a), &type, err) != PENNON_OK) return NULL;
    if (a->kind == AST_NULL) return node_null(b->e, type, err);
    rows = builder_new(type, b->e->mem, err);
    if (!rows) return NULL;
    if (append_literal(rows, a, err) != PENNON_OK) {
        builder_free(rows);
        return NULL;
    }
    return finish_literal(b, a, type, rows, err);
}

pennon_status bind_literals(struct binder *b, struct ast *const *items, size_t n, const struct ArrowSchema **type,
                            struct ArrowArray *out, bool *made, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct builder *rows = NULL;
    const struct ast *first = NULL;
    *made = false;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->kind == AST_NULL) continue;
        if (!first) first = items[i];
        if (!is_plain_literal(items[i]) || items[i]->kind != first->kind) return PENNON_OK;
    }
    TRY(expr_simple_type(b->e, first ? literal_format(first) : "n", type, err));
    TRY_NEW(rows, builder_new(*type, b->e->mem, err));
    TRY(builder_reserve(rows, (int64_t)n, err));
    for (size_t i = 0; i < n; i++) TRY(append_literal(rows, items[i], err));
    TRY(builder_finish(rows, out, err));
    *made = true;
done:
    builder_free(rows);
    return st;
}

struct node *bind_truth(struct binder *b, bool value, pennon_error *err)
{
    const struct ast a = {.kind = AST_BOOL, .integer = value};
    return bind_literal(b, &a, err);
}

/* ---- beside a column ---- */

static bool takes_literal(const struct arrow_type *literal, const struct arrow_type *to)
{
    switch (literal->id) {
    case ARROW_NULL: return true;
    case ARROW_BOOL: return to->id == ARROW_BOOL;
    case ARROW_INT64:
        return arrow_id_is_integer(to->id) || to->id == ARROW_FLOAT32 || to->id == ARROW_FLOAT64 || to->id == ARROW_DECIMAL128 ||
               to->id == ARROW_DECIMAL256;
    case ARROW_FLOAT64: return to->id == ARROW_FLOAT32 || to->id == ARROW_FLOAT64;
    case ARROW_UTF8: return arrow_id_is_text(to->id);
    case ARROW_BINARY: return to->id == ARROW_BINARY || to->id == ARROW_LARGE_BINARY || to->id == ARROW_BINARY_VIEW;
    case ARROW_LIST: return to->id == ARROW_LIST || to->id == ARROW_LARGE_LIST || to->id == ARROW_FIXED_SIZE_LIST;
    default: return false;
    }
}

pennon_status bind_refuse_literal(struct binder *b, const struct ast *a, const struct node *literal, const struct ArrowSchema *type,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, b->e->mem, BUF_NO_LIMIT);
    TRY(literal_print(literal, &text, err));
    TRY(buf_printf(&text, err, " does not fit the type "));
    TRY(type_print(type, &text, err));
    TRY(buf_terminate(&text, err));
    st = bind_error(b, a, "TypeMismatch", err, "the literal %.400s of the column; CAST the column or the literal",
                    (const char *)text.data);
done:
    buf_free(&text);
    return st;
}

/* Bytes for a fixed size binary column: exactly that many. */
static bool fits_fixed(const struct node *literal, const struct arrow_type *to)
{
    if (to->id != ARROW_FIXED_SIZE_BINARY || literal->type.id != ARROW_BINARY) return false;
    return array_view_is_null(&literal->literal_view, 0) ||
           array_view_bytes(&literal->literal_view, 0).size == (size_t)to->fixed_size;
}

bool bind_is_literal(const struct ast *a, const struct node *n)
{
    /* Typed ones (date '…') are casts: both sides are brought to a common type. */
    return n->kind == NODE_LITERAL && (is_plain_literal(a) || a->kind == AST_ARRAY);
}

struct node *bind_coerce_literal(struct binder *b, const struct ast *a, struct node *literal, const struct ArrowSchema *type,
                                 pennon_error *err)
{
    struct arrow_type to;
    const struct ArrowSchema *value = type->dictionary ? type->dictionary : type;
    struct node *n;
    if (arrow_type_of(value, &to, err) != PENNON_OK) return NULL;
    if (!takes_literal(&literal->type, &to) && !fits_fixed(literal, &to)) {
        (void)bind_refuse_literal(b, a, literal, type, err);
        return NULL;
    }
    n = node_cast(b->e, literal, value, literal->type.id == ARROW_LIST, err);
    if (n && value != type) n = node_cast(b->e, n, type, false, err);
    if (!n && err->code == PENNON_INVALID_ARGUMENT) (void)bind_refuse_literal(b, a, literal, type, err);
    return n;
}

/* ---- texts ---- */

/* The fewest digits that read back as the same number, without an exponent. */
static pennon_status print_real(double v, bool is_single, struct buf *out, pennon_error *err)
{
    char text[REAL_TEXT_MAX];
    double back = 0;
    if (isnan(v)) return buf_printf(out, err, "NaN");
    if (isinf(v)) return buf_printf(out, err, v < 0 ? "-inf" : "inf");
    for (int digits = 0; digits <= 16; digits++) {
        size_t n = real_print(v, digits, true, text);
        if (real_parse(bytes_of(text, n), &back) && (back == v || (is_single && (float)back == (float)v))) break;
    }
    const char *e = strchr(text, 'e');
    bool negative = text[0] == '-';
    int64_t power = 0;
    char digits[24];
    size_t n = 0;
    ASSERT(e != NULL);
    for (const char *p = e + 2; *p != '\0'; p++) power = power * 10 + (*p - '0');
    if (e[1] == '-') power = -power;
    for (const char *p = text + negative; p < e; p++) {
        if (*p != '.') digits[n++] = *p;
    }
    if (negative) TRY_RETURN(buf_append_byte(out, '-', err));
    if (power < 0) TRY_RETURN(buf_printf(out, err, "0."));
    for (int64_t i = power + 1; i < 0; i++) TRY_RETURN(buf_append_byte(out, '0', err));
    for (int64_t i = 0; i < (int64_t)n || i <= power; i++) {
        if (i == power + 1 && i > 0) TRY_RETURN(buf_append_byte(out, '.', err));
        TRY_RETURN(buf_append_byte(out, i < (int64_t)n ? (uint8_t)digits[i] : '0', err));
    }
    return PENNON_OK;
}

static pennon_status print_octets(struct bytes v, struct buf *out, pennon_error *err)
{
    for (size_t i = 0; i < v.size; i++) TRY_RETURN(buf_printf(out, err, "%s%u", i > 0 ? "," : "", v.data[i]));
    return PENNON_OK;
}

static pennon_status print_stamp(const struct array_view *v, bool null, struct buf *out, pennon_error *err)
{
    static const char *const units[] = {"Second", "Millisecond", "Microsecond", "Nanosecond"};
    TRY_RETURN(buf_printf(out, err, "Timestamp%s(", units[v->type.unit]));
    TRY_RETURN(null ? buf_printf(out, err, "NULL") : buf_printf(out, err, "%" PRId64, array_view_int(v, 0)));
    if (!v->type.timezone || !v->type.timezone[0]) return buf_printf(out, err, ", None)");
    return buf_printf(out, err, ", Some(\"%s\"))", v->type.timezone);
}

static pennon_status print_decimal(const struct array_view *v, bool null, struct buf *out, pennon_error *err)
{
    char text[WIDE_TEXT_MAX];
    struct wide w;
    TRY_RETURN(buf_printf(out, err, "Decimal%u(", v->type.bit_width));
    if (null) return buf_printf(out, err, "None,%d,%d)", v->type.precision, v->type.scale);
    w = wide_load(array_view_fixed(v, 0), arrow_type_width(&v->type));
    (void)wide_to_text(&w, 0, text);
    return buf_printf(out, err, "Some(%s),%d,%d)", text, v->type.precision, v->type.scale);
}

/* What stands between the parentheses of the other types. */
static pennon_status print_inner(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    enum arrow_id id = v->type.id;
    size_t start = out->size + 1;
    if (array_view_is_null(v, row)) return buf_printf(out, err, "NULL");
    if (id == ARROW_BOOL) return buf_printf(out, err, array_view_bool(v, row) ? "true" : "false");
    if (id == ARROW_UINT64) return buf_printf(out, err, "%" PRIu64, (uint64_t)array_view_int(v, row));
    if (arrow_id_is_integer(id)) return buf_printf(out, err, "%" PRId64, array_view_int(v, row));
    if (arrow_id_is_float(id)) return print_real(array_view_double(v, row), id != ARROW_FLOAT64, out, err);
    TRY_RETURN(buf_append_byte(out, '"', err));
    if (arrow_id_is_variable(id) && !arrow_id_is_text(id)) {
        TRY_RETURN(print_octets(array_view_bytes(v, row), out, err));
    } else if (arrow_id_is_text(id)) {
        struct bytes text = array_view_bytes(v, row);
        TRY_RETURN(buf_append(out, text.data, text.size, err));
    } else {
        TRY_RETURN(value_text(v, row, out, err));
        for (size_t i = start; id == ARROW_DATE64 && i < out->size; i++) {
            if (out->data[i] == 'T') out->size = i; /* the day alone */
        }
    }
    return buf_append_byte(out, '"', err);
}

pennon_status value_print(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    struct array_view one = *v;
    bool null = array_view_is_null(v, row);
    array_view_cut(&one, row, 1);
    switch (one.type.id) {
    case ARROW_NULL: return buf_printf(out, err, "NULL");
    case ARROW_TIMESTAMP: return print_stamp(&one, null, out, err);
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: return print_decimal(&one, null, out, err);
    case ARROW_LIST:
    case ARROW_LARGE_LIST:
    case ARROW_FIXED_SIZE_LIST:
    case ARROW_STRUCT:
        TRY_RETURN(buf_printf(out, err,
                              one.type.id == ARROW_STRUCT       ? "Struct("
                              : one.type.id == ARROW_LIST       ? "List("
                              : one.type.id == ARROW_LARGE_LIST ? "LargeList("
                                                                : "FixedSizeList("));
        TRY_RETURN(null ? buf_printf(out, err, "NULL") : value_text(v, row, out, err));
        return buf_append_byte(out, ')', err);
    case ARROW_FIXED_SIZE_BINARY:
        TRY_RETURN(buf_printf(out, err, "FixedSizeBinary(%d, ", one.type.fixed_size));
        if (null) return buf_printf(out, err, "NULL)");
        TRY_RETURN(buf_append_byte(out, '"', err));
        TRY_RETURN(print_octets(array_view_bytes(v, row), out, err));
        return buf_printf(out, err, "\")");
    case ARROW_DICTIONARY: {
        struct array_view values;
        int64_t at = null ? 0 : array_view_int(v, row);
        TRY_RETURN(buf_printf(out, err, "Dictionary("));
        TRY_RETURN(buf_printf(out, err, "%s, ", v->type.index == ARROW_INT32 ? "Int32" : arrow_id_name(v->type.index)));
        if (null) return buf_printf(out, err, "NULL)");
        TRY_RETURN(array_view_dictionary(v, &values, err));
        TRY_RETURN(value_print(&values, at, out, err));
        return buf_append_byte(out, ')', err);
    }
    default:
        TRY_RETURN(type_print(v->schema, out, err));
        TRY_RETURN(buf_append_byte(out, '(', err));
        TRY_RETURN(print_inner(v, row, out, err));
        return buf_append_byte(out, ')', err);
    }
}

pennon_status literal_print(const struct node *literal, struct buf *out, pennon_error *err)
{
    return value_print(&literal->literal_view, 0, out, err);
}

pennon_status type_print(const struct ArrowSchema *type, struct buf *out, pennon_error *err)
{
    return type_name_write(type, out, err);
}
