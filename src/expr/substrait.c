/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Filters as Substrait: the bytes of an ExtendedExpression with one boolean expression, turned into the syntax tree that SQL would have given, with
 * every literal cast to the type that it has, and bound without the rules for SQL literals.
 *
 *   ExtendedExpression   2 extensions: 3 extension_function {2 anchor, 3 name}; 3 referred_expr {1 expression, 2 measure}; 4 base_schema {1 names, 2 struct}
 *   Expression           1 literal, 2 selection {1 direct_reference: 2 struct_field {1 field, 2 child}}, 3 scalar_function {1 anchor, 4 arguments: 3 value},
 *                        6 if_then {1 ifs {1 if, 2 then}, 2 else}, 8 singular_or_list {1 value, 2 options}, 11 cast {1 type, 2 input, 3 failure}
 *   Literal              1 bool, 2 3 5 7 i8 to i64, 10 fp32, 11 fp64, 12 string, 13 binary, 14 timestamp, 16 date, 21 fixed_char, 22 varchar {1}, 23 fixed_binary,
 *                        24 decimal {1 value, 2 precision, 3 scale}, 27 timestamp_tz, 29 null, 34 35 precision_timestamp[_tz] {1 precision, 2 value}
 *
 * References are positions among the columns of the table; the schema that comes along must have as many. Columns of user-defined types and
 * of names that begin with __unlikely_name_placeholder cannot be referred to.
 * Source: spec expressions 12. */
#include "expr/bind.h"
#include "wire/wire.h"

#define DEPTH_MAX 128u
#define NODES_MAX ((size_t)1 << 24)
#define PLACEHOLDER "__unlikely_name_placeholder"

struct function_name {
    uint32_t anchor;
    struct bytes name; /* up to the ':' of a signature */
};

struct reading {
    struct arena *arena;
    const struct ArrowSchema *input;
    int64_t n_columns; /* of the table; system columns come behind them in `input` */
    bool *closed;      /* per column: it cannot be referred to */
    struct function_name *functions;
    size_t n_functions, cap_functions;
    unsigned depth;
    size_t nodes;
};

static pennon_status bad(pennon_error *err, const char *what)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "the Substrait filter %s", what);
    return error_kind(err, "FilterSyntax");
}

static pennon_status not_supported(pennon_error *err, const char *what)
{
    return error_set(err, PENNON_NOT_SUPPORTED, "%s in a Substrait filter", what);
}

/* The next field of a message; *more is false at its end. What is no protocol buffer is the caller's fault, not that of a file. */
static pennon_status next(struct wire_cursor *c, struct wire_item *out, bool *more, pennon_error *err)
{
    *more = !wire_cursor_done(c);
    if (!*more) return PENNON_OK;
    if (wire_next(c, out, err) == PENNON_CORRUPT) {
        pennon_error_clear(err);
        return bad(err, "is no protocol buffer");
    }
    return err->code;
}

/* The payload of the last field with this tag; data NULL: there is none. */
static pennon_status find(struct bytes message, uint32_t tag, struct wire_item *out, bool *found, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    *found = false;
    for (;;) {
        struct wire_item item;
        bool more;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) return PENNON_OK;
        if (item.tag != tag) continue;
        *out = item;
        *found = true;
    }
}

/* A number with a default of 0. */
static pennon_status number(struct bytes message, uint32_t tag, uint64_t *out, pennon_error *err)
{
    struct wire_item item = {0};
    bool found;
    TRY_RETURN(find(message, tag, &item, &found, err));
    *out = found && item.type == 0 ? item.number : 0;
    return PENNON_OK;
}

static pennon_status part(struct bytes message, uint32_t tag, struct bytes *out, bool *found, pennon_error *err)
{
    struct wire_item item = {0};
    TRY_RETURN(find(message, tag, &item, found, err));
    *found = *found && item.type == 2;
    *out = *found ? item.payload : (struct bytes){0};
    return PENNON_OK;
}

/* ---- nodes ---- */

static struct ast *make(struct reading *r, enum ast_kind kind, size_t n, pennon_error *err)
{
    if (++r->nodes > NODES_MAX) {
        (void)bad(err, "is too large");
        return NULL;
    }
    struct ast *a = arena_calloc(r->arena, 1, sizeof *a, err);
    if (!a) return NULL;
    a->kind = (uint8_t)kind;
    a->n = (uint32_t)n;
    if (n == 0) return a;
    a->children = arena_calloc(r->arena, n, sizeof *a->children, err);
    return a->children ? a : NULL;
}

static struct ast *make_cast(struct reading *r, struct ast *from, struct ast_type type, bool try_cast, pennon_error *err)
{
    struct ast *a = from ? make(r, AST_CAST, 1, err) : NULL;
    if (!a) return NULL;
    a->children[0] = from;
    a->type = type;
    a->flags = try_cast ? AST_TRY : 0;
    return a;
}

static struct ast *make_integer(struct reading *r, int64_t v, pennon_error *err)
{
    struct ast *a = make(r, AST_INTEGER, 0, err);
    if (a) a->integer = v;
    return a;
}

static struct ast *make_text(struct reading *r, enum ast_kind kind, struct bytes text, pennon_error *err)
{
    struct ast *a = make(r, kind, 0, err);
    if (a) a->text = text;
    return a;
}

/* ---- literals ---- */

/* A varint is sign extended to 64 bits. */
static struct ast *typed_integer(struct reading *r, uint64_t v, enum ast_type_id id, pennon_error *err)
{
    return make_cast(r, make_integer(r, (int64_t)v, err), (struct ast_type){.id = id}, false, err);
}

static struct ast *stamp(struct reading *r, uint64_t precision, uint64_t v, pennon_error *err)
{
    if (precision != 0 && precision != 3 && precision != 6 && precision != 9) {
        (void)not_supported(err, "a timestamp of another precision than 0, 3, 6 and 9");
        return NULL;
    }
    const struct ast_type type = {.id = AST_TYPE_TIMESTAMP, .unit = (int32_t)precision};
    return make_cast(r, make_integer(r, (int64_t)v, err), type, false, err);
}

static pennon_status read_stamp(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    uint64_t precision, value;
    TRY_RETURN(number(in, 1, &precision, err));
    TRY_RETURN(number(in, 2, &value, err));
    *out = stamp(r, precision, value, err);
    return *out ? PENNON_OK : err->code;
}

static pennon_status read_decimal(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct bytes value;
    uint64_t precision, scale;
    bool found;
    char text[WIDE_TEXT_MAX];
    TRY_RETURN(part(in, 1, &value, &found, err));
    TRY_RETURN(number(in, 2, &precision, err));
    TRY_RETURN(number(in, 3, &scale, err));
    if (!found || value.size != 16 || precision < 1 || precision > 38 || scale > precision)
        return bad(err, "has a decimal of wrong size, precision or scale");
    const struct wide w = wide_load(value.data, 16);
    const size_t n = wide_to_text(&w, (int32_t)scale, text);
    char *kept = arena_strndup(r->arena, text, n, err);
    if (!kept) return err->code;
    const struct ast_type type = {.id = AST_TYPE_DECIMAL, .precision = (int32_t)precision, .scale = (int32_t)scale};
    *out = make_cast(r, make_text(r, AST_TEXT, bytes_of(kept, n), err), type, false, err);
    return *out ? PENNON_OK : err->code;
}

static struct ast *real(struct reading *r, double v, bool single, pennon_error *err)
{
    struct ast *a = make(r, AST_FLOAT, 0, err);
    if (!a) return NULL;
    a->real = v;
    return single ? make_cast(r, a, (struct ast_type){.id = AST_TYPE_FLOAT32}, false, err) : a;
}

static struct ast *read_number(struct reading *r, const struct wire_item *item, pennon_error *err)
{
    struct ast *a;
    uint32_t bits = (uint32_t)item->number;
    float f;
    double d;
    switch (item->tag) {
    case 1:
        a = make_integer(r, item->number != 0, err);
        if (a) a->kind = AST_BOOL;
        return a;
    case 2: return typed_integer(r, item->number, AST_TYPE_INT8, err);
    case 3: return typed_integer(r, item->number, AST_TYPE_INT16, err);
    case 5: return typed_integer(r, item->number, AST_TYPE_INT32, err);
    case 7: return make_integer(r, (int64_t)item->number, err);
    case 10: memcpy(&f, &bits, sizeof f); return real(r, (double)f, true, err);
    case 11: memcpy(&d, &item->number, sizeof d); return real(r, d, false, err);
    case 14:
    case 27: return stamp(r, 6, item->number, err);
    default: /* 16, a date */
        a = typed_integer(r, item->number, AST_TYPE_INT32, err);
        return make_cast(r, a, (struct ast_type){.id = AST_TYPE_DATE32}, false, err);
    }
}

static pennon_status read_literal(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    struct wire_item item, value = {0};
    bool more, found;
    do { /* the last member counts; 50 and 51 are no values */
        TRY_RETURN(next(&c, &item, &more, err));
        if (more && item.tag != 50 && item.tag != 51) value = item;
    } while (more);
    static const uint8_t numeric[] = {1, 2, 3, 5, 7, 10, 11, 14, 16, 27};
    for (size_t i = 0; i < ARRAY_LEN(numeric); i++) {
        if (value.tag != numeric[i]) continue;
        if (value.type != (value.tag == 10 ? 5 : value.tag == 11 ? 1 : 0)) return bad(err, "has a literal of the wrong wire type");
        *out = read_number(r, &value, err);
        return *out ? PENNON_OK : err->code;
    }
    if (value.tag != 0 && value.type != 2) return bad(err, "has a literal of the wrong wire type");
    struct bytes text = value.payload;
    switch (value.tag) {
    case 22:
        TRY_RETURN(part(value.payload, 1, &text, &found, err));
        *out = make_text(r, AST_TEXT, text, err);
        break;
    case 12:
    case 21: *out = make_text(r, AST_TEXT, text, err); break;
    case 13:
    case 23: *out = make_text(r, AST_BINARY, text, err); break;
    case 24: return read_decimal(r, value.payload, out, err);
    case 29: *out = make(r, AST_NULL, 0, err); break;
    case 34:
    case 35: return read_stamp(r, value.payload, out, err);
    default: return not_supported(err, "a literal of another type");
    }
    if (*out && (*out)->kind == AST_TEXT && !utf8_valid(text.data, text.size)) return bad(err, "has a text that is no UTF-8");
    return *out ? PENNON_OK : err->code;
}

/* ---- references ---- */

static pennon_status read_reference(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct bytes direct, field;
    bool found;
    const struct ArrowSchema *at = r->input;
    struct ast *a = make(r, AST_COLUMN, 0, err);
    if (!a) return err->code;
    a->parts = arena_calloc(r->arena, DEPTH_MAX, sizeof *a->parts, err);
    if (!a->parts) return err->code;
    TRY_RETURN(part(in, 1, &direct, &found, err));
    if (!found) return not_supported(err, "a masked or computed reference");
    while (found) {
        uint64_t position;
        TRY_RETURN(part(direct, 2, &field, &found, err));
        if (!found) return not_supported(err, "a reference to a list or map element");
        TRY_RETURN(number(field, 1, &position, err));
        const uint64_t n = at == r->input ? (uint64_t)r->n_columns : (uint64_t)at->n_children;
        if (position >= n || a->n == DEPTH_MAX || at->format[0] != '+' || at->format[1] != 's')
            return bad(err, "refers to a field that is not there");
        if (at == r->input && r->closed[position]) return bad(err, "refers to a field that it says it does not know");
        at = at->children[position];
        a->parts[a->n++] = (struct ast_part){bytes_str(at->name), true};
        TRY_RETURN(part(field, 2, &direct, &found, err));
    }
    *out = a;
    return PENNON_OK;
}

/* ---- types ---- */

static pennon_status read_type(struct bytes in, struct ast_type *out, pennon_error *err)
{
    static const struct {
        uint32_t tag;
        enum ast_type_id id;
    } plain[] = {{1, AST_TYPE_BOOLEAN}, {2, AST_TYPE_INT8},     {3, AST_TYPE_INT16},    {5, AST_TYPE_INT32},
                 {7, AST_TYPE_INT64},   {10, AST_TYPE_FLOAT32}, {11, AST_TYPE_FLOAT64}, {12, AST_TYPE_UTF8},
                 {13, AST_TYPE_BINARY}, {16, AST_TYPE_DATE32},  {21, AST_TYPE_UTF8},    {22, AST_TYPE_UTF8}};
    struct wire_cursor c = wire_cursor_of(in);
    struct wire_item item;
    bool more;
    uint64_t a, b;
    TRY_RETURN(next(&c, &item, &more, err));
    for (size_t i = 0; more && i < ARRAY_LEN(plain); i++) {
        if (item.tag != plain[i].tag) continue;
        *out = (struct ast_type){.id = plain[i].id};
        return PENNON_OK;
    }
    if (!more || item.type != 2 || (item.tag != 24 && item.tag != 33 && item.tag != 14))
        return not_supported(err, "a cast to another type");
    if (item.tag == 14) {
        *out = (struct ast_type){.id = AST_TYPE_TIMESTAMP, .unit = 6};
        return PENNON_OK;
    }
    TRY_RETURN(number(item.payload, 1, &a, err));
    TRY_RETURN(number(item.payload, 2, &b, err));
    if (item.tag == 33) {
        if (a != 0 && a != 3 && a != 6 && a != 9) return not_supported(err, "a timestamp of another precision than 0, 3, 6 and 9");
        *out = (struct ast_type){.id = AST_TYPE_TIMESTAMP, .unit = (int32_t)a};
        return PENNON_OK;
    }
    if (b < 1 || b > 38 || a > b) return bad(err, "has a decimal type of wrong precision or scale");
    *out = (struct ast_type){.id = AST_TYPE_DECIMAL, .precision = (int32_t)b, .scale = (int32_t)a};
    return PENNON_OK;
}

/* ---- functions ---- */

static pennon_status read_expression(struct reading *r, struct bytes in, struct ast **out, pennon_error *err);

static const struct {
    const char *name;
    uint8_t kind, op, flags;
    uint8_t least, most;
} operators[] = {{"equal", AST_COMPARE, AST_EQ, 0, 2, 2},
                 {"not_equal", AST_COMPARE, AST_NE, 0, 2, 2},
                 {"lt", AST_COMPARE, AST_LT, 0, 2, 2},
                 {"lte", AST_COMPARE, AST_LE, 0, 2, 2},
                 {"gt", AST_COMPARE, AST_GT, 0, 2, 2},
                 {"gte", AST_COMPARE, AST_GE, 0, 2, 2},
                 {"is_distinct_from", AST_DISTINCT, 0, 0, 2, 2},
                 {"is_not_distinct_from", AST_DISTINCT, 0, AST_NEGATED, 2, 2},
                 {"and", AST_AND, 0, 0, 1, 255},
                 {"or", AST_OR, 0, 0, 1, 255},
                 {"not", AST_NOT, 0, 0, 1, 1},
                 {"is_null", AST_IS, AST_IS_NULL, 0, 1, 1},
                 {"is_not_null", AST_IS, AST_IS_NULL, AST_NEGATED, 1, 1},
                 {"is_true", AST_IS, AST_IS_TRUE, 0, 1, 1},
                 {"is_not_true", AST_IS, AST_IS_TRUE, AST_NEGATED, 1, 1},
                 {"is_false", AST_IS, AST_IS_FALSE, 0, 1, 1},
                 {"is_not_false", AST_IS, AST_IS_FALSE, AST_NEGATED, 1, 1},
                 {"between", AST_BETWEEN, 0, 0, 3, 3},
                 {"like", AST_LIKE, 0, 0, 2, 2},
                 {"add", AST_ARITH, AST_ADD, 0, 2, 2},
                 {"subtract", AST_ARITH, AST_SUBTRACT, 0, 2, 2},
                 {"multiply", AST_ARITH, AST_MULTIPLY, 0, 2, 2},
                 {"divide", AST_ARITH, AST_DIVIDE, 0, 2, 2},
                 {"modulus", AST_ARITH, AST_MODULO, 0, 2, 2},
                 {"negate", AST_NEGATE, 0, 0, 1, 1}};

/* Functions of other names than ours. */
static const char *const renamed[][2] = {
    {"char_length", "length"}, {"substring", "substr"}, {"is_nan", "isnan"}, {"sign", "signum"}};

static pennon_status find_function(const struct reading *r, uint64_t anchor, struct bytes *out, pennon_error *err)
{
    for (size_t i = 0; i < r->n_functions; i++) {
        if (r->functions[i].anchor != anchor) continue;
        *out = r->functions[i].name;
        return PENNON_OK;
    }
    return bad(err, "calls a function that it does not declare");
}

/* Kind and operator of a call with its arguments. */
static pennon_status name_call(struct bytes name, struct ast *a, pennon_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (!bytes_equal(name, bytes_str(operators[i].name))) continue;
        if (a->n < operators[i].least || a->n > operators[i].most)
            return error_set(err, PENNON_INVALID_ARGUMENT, "the Substrait filter gives %u arguments to '%s'", a->n,
                             operators[i].name);
        a->kind = operators[i].kind;
        a->op = operators[i].op;
        a->flags = operators[i].flags;
        return PENNON_OK;
    }
    a->text = name;
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
        if (bytes_equal(name, bytes_str(renamed[i][0]))) a->text = bytes_str(renamed[i][1]);
    }
    return PENNON_OK;
}

/* How many fields a message has with this tag. */
static pennon_status count_fields(struct bytes message, uint32_t tag, size_t *n, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    *n = 0;
    for (;;) {
        struct wire_item item;
        bool more;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) return PENNON_OK;
        *n += item.tag == tag;
    }
}

static pennon_status read_call(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    uint64_t anchor;
    size_t n, at = 0;
    struct bytes name = {0};
    TRY_RETURN(number(in, 1, &anchor, err));
    TRY_RETURN(find_function(r, anchor, &name, err));
    TRY_RETURN(count_fields(in, 4, &n, err));
    struct ast *a = make(r, AST_CALL, n, err);
    if (!a) return err->code;
    for (;;) {
        struct wire_item item;
        struct bytes value;
        bool more, found;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) break;
        if (item.tag != 4) continue;
        TRY_RETURN(part(item.payload, 3, &value, &found, err));
        if (item.type != 2 || !found) return not_supported(err, "a function with an argument that is no value");
        TRY_RETURN(read_expression(r, value, &a->children[at++], err));
    }
    TRY_RETURN(name_call(name, a, err));
    *out = (a->kind == AST_AND || a->kind == AST_OR) && a->n == 1 ? a->children[0] : a;
    return PENNON_OK;
}

/* ---- the other expressions ---- */

static pennon_status read_if(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    size_t n, at = 0;
    struct bytes other, value;
    bool found, more;
    TRY_RETURN(count_fields(in, 1, &n, err));
    TRY_RETURN(part(in, 2, &other, &found, err));
    if (n == 0) return bad(err, "has an if without a condition");
    struct ast *a = make(r, AST_CASE, 2 * n + found, err);
    if (!a) return err->code;
    a->flags = found ? AST_ELSE : 0;
    if (found) TRY_RETURN(read_expression(r, other, &a->children[2 * n], err));
    for (;;) {
        struct wire_item item;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) break;
        if (item.tag != 1) continue;
        for (uint32_t tag = 1; tag <= 2; tag++) {
            TRY_RETURN(part(item.payload, tag, &value, &found, err));
            if (item.type != 2 || !found) return bad(err, "has an if without a condition or value");
            TRY_RETURN(read_expression(r, value, &a->children[at++], err));
        }
    }
    *out = a;
    return PENNON_OK;
}

static pennon_status read_in(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    struct bytes value;
    size_t n, at = 0;
    bool found, more;
    TRY_RETURN(count_fields(in, 2, &n, err));
    TRY_RETURN(part(in, 1, &value, &found, err));
    if (!found || n == 0) return bad(err, "has a list of options without a value or options");
    struct ast *a = make(r, AST_IN, n + 1, err);
    if (!a) return err->code;
    TRY_RETURN(read_expression(r, value, &a->children[at++], err));
    for (;;) {
        struct wire_item item;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) break;
        if (item.tag != 2) continue;
        if (item.type != 2) return bad(err, "has an option of the wrong wire type");
        TRY_RETURN(read_expression(r, item.payload, &a->children[at++], err));
    }
    *out = a;
    return PENNON_OK;
}

static pennon_status read_cast(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct bytes type, input;
    struct ast *from = NULL;
    struct ast_type to = {0};
    uint64_t failure;
    bool has_type, has_input;
    TRY_RETURN(part(in, 1, &type, &has_type, err));
    TRY_RETURN(part(in, 2, &input, &has_input, err));
    TRY_RETURN(number(in, 3, &failure, err));
    if (!has_type || !has_input) return bad(err, "has a cast without a type or value");
    TRY_RETURN(read_type(type, &to, err));
    TRY_RETURN(read_expression(r, input, &from, err));
    *out = make_cast(r, from, to, failure == 1, err);
    return *out ? PENNON_OK : err->code;
}

static pennon_status read_expression(struct reading *r, struct bytes in, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    struct wire_item item, kind = {0};
    bool more;
    pennon_status st;
    do {
        TRY_RETURN(next(&c, &item, &more, err));
        if (more) kind = item;
    } while (more);
    if (kind.type != 2) return bad(err, "has an empty expression");
    if (r->depth == DEPTH_MAX) return bad(err, "is nested too deep");
    r->depth++;
    switch (kind.tag) {
    case 1: st = read_literal(r, kind.payload, out, err); break;
    case 2: st = read_reference(r, kind.payload, out, err); break;
    case 3: st = read_call(r, kind.payload, out, err); break;
    case 6: st = read_if(r, kind.payload, out, err); break;
    case 8: st = read_in(r, kind.payload, out, err); break;
    case 11: st = read_cast(r, kind.payload, out, err); break;
    default: st = not_supported(err, "an expression of another kind"); break;
    }
    r->depth--;
    return st;
}

/* ---- the message ---- */

static pennon_status add_function(struct reading *r, struct bytes extension, pennon_error *err)
{
    struct bytes function, name;
    uint64_t anchor;
    bool found;
    TRY_RETURN(part(extension, 3, &function, &found, err));
    if (!found) return PENNON_OK; /* a type */
    TRY_RETURN(number(function, 2, &anchor, err));
    TRY_RETURN(part(function, 3, &name, &found, err));
    const uint8_t *colon = name.size ? memchr(name.data, ':', name.size) : NULL;
    if (colon) name.size = (size_t)(colon - name.data);
    TRY_RETURN(mem_grow(r->arena->mem, &r->functions, &r->cap_functions, r->n_functions, sizeof *r->functions, NODES_MAX, err));
    r->functions[r->n_functions++] = (struct function_name){(uint32_t)anchor, name};
    return PENNON_OK;
}

/* Names that the fields below a type have: those of structs, also of structs in lists. */
static pennon_status count_names(struct bytes type, unsigned depth, size_t *n, bool *user_defined, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(type);
    struct wire_item item;
    bool more, ignored;
    if (depth == DEPTH_MAX) return bad(err, "has a schema that is nested too deep");
    TRY_RETURN(next(&c, &item, &more, err));
    if (!more) return PENNON_OK;
    *user_defined = item.tag == 30;
    if (item.type != 2 || (item.tag != 25 && item.tag != 27)) return PENNON_OK;
    struct wire_cursor below = wire_cursor_of(item.payload);
    const bool is_struct = item.tag == 25;
    for (;;) {
        TRY_RETURN(next(&below, &item, &more, err));
        if (!more) return PENNON_OK;
        if (item.tag != 1 || item.type != 2) continue;
        *n += is_struct;
        TRY_RETURN(count_names(item.payload, depth + 1, n, &ignored, err));
    }
}

/* Which columns cannot be referred to. */
static pennon_status read_schema(struct reading *r, struct bytes schema, pennon_error *err)
{
    struct bytes types;
    struct wire_cursor names = wire_cursor_of(schema), c;
    size_t n = 0;
    bool found, more;
    TRY_RETURN(part(schema, 2, &types, &found, err));
    if (!found) return PENNON_OK;
    TRY_RETURN(count_fields(types, 1, &n, err));
    if (n != (size_t)r->n_columns)
        return error_set(err, PENNON_INVALID_ARGUMENT, "the Substrait filter is for %zu columns, the table has %" PRId64, n,
                         r->n_columns);
    c = wire_cursor_of(types);
    for (size_t i = 0, skip = 0; i < n;) {
        struct wire_item item, name = {0};
        bool user_defined = false;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) break;
        if (item.tag != 1 || item.type != 2) continue;
        for (size_t k = 0; k <= skip;) {
            TRY_RETURN(next(&names, &name, &more, err));
            if (!more) return bad(err, "has a schema with fewer names than fields");
            k += name.tag == 1 && name.type == 2;
        }
        skip = 0;
        TRY_RETURN(count_names(item.payload, 0, &skip, &user_defined, err));
        const size_t size = strlen(PLACEHOLDER);
        r->closed[i++] = user_defined || (name.payload.size >= size && memcmp(name.payload.data, PLACEHOLDER, size) == 0);
    }
    return PENNON_OK;
}

static int64_t table_columns(const struct ArrowSchema *input)
{
    static const char *const system[] = {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version",
                                         "_row_last_updated_at_version"};
    int64_t n = input->n_children;
    for (bool found = true; found && n > 0;) {
        found = false;
        for (size_t i = 0; i < ARRAY_LEN(system); i++) found = found || strcmp(input->children[n - 1]->name, system[i]) == 0;
        n -= found;
    }
    return n;
}

/* The one expression, with the functions and the schema noted. */
static pennon_status read_message(struct reading *r, struct bytes in, struct bytes *expression, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    size_t expressions = 0;
    bool more, found = false;
    for (;;) {
        struct wire_item item;
        TRY_RETURN(next(&c, &item, &more, err));
        if (!more) break;
        if (item.type != 2) continue;
        if (item.tag == 2) TRY_RETURN(add_function(r, item.payload, err));
        if (item.tag == 4) TRY_RETURN(read_schema(r, item.payload, err));
        if (item.tag != 3) continue;
        expressions++;
        TRY_RETURN(part(item.payload, 1, expression, &found, err));
    }
    if (expressions == 0) return bad(err, "is empty (contains no expressions)");
    if (expressions > 1)
        return error_set(err, PENNON_INVALID_ARGUMENT, "the Substrait filter has %zu expressions, only 1 was expected",
                         expressions);
    return found ? PENNON_OK : bad(err, "is not a scalar expression");
}

pennon_status expr_compile_substrait(struct bytes in, const struct ArrowSchema *input, struct mem *m, struct expr **out,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct reading r = {.arena = &arena, .input = input, .n_columns = table_columns(input)};
    struct binder b = {.input = input, .text = bytes_str("")};
    struct bytes expression = {0};
    struct ast *tree = NULL;
    *out = NULL;
    arena_init(&arena, m);
    TRY_NEW(r.closed, arena_calloc(&arena, (size_t)r.n_columns + 1, sizeof *r.closed, err));
    TRY(read_message(&r, in, &expression, err));
    TRY(read_expression(&r, expression, &tree, err));
    TRY_NEW(b.e, expr_new(m, err));
    TRY_NEW(b.e->root, bind_tree(&b, tree, false, err));
    TRY_NEW(b.e->root, bind_boolean(&b, tree, b.e->root, err));
    *out = b.e;
    b.e = NULL;
done:
    expr_free(b.e);
    mem_free(m, r.functions);
    arena_reset(&arena);
    return st;
}
