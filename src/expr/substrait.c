/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Substrait's ExtendedExpression as a filter: the message becomes a syntax tree, which the binder takes as it takes SQL, without the rules of literals
 * beside columns (Substrait's literals have types).
 *
 * Messages and the fields that are read (tag: field):
 *
 *   ExtendedExpression   2: extensions, 3: referred expressions (exactly one), 4: base schema
 *   extension            3: function {2: anchor, 3: name}; what stands behind a ':' of the name is its signature
 *   base schema          1: names, depth first; 2: struct {1: types}
 *   Expression           1: literal, 2: field, 3: function, 6: if-then, 8: one of a list, 11: cast
 *   function             1: anchor, 2: arguments (old form), 4: arguments {1: enum, 2: type, 3: value}
 *   field                1: direct {2: struct field {1: position, 2: the same inside of it}}
 *   type                 25: struct {1: types}, 27: list {1: type}, 28: map {1: type, 2: type}; the others have nothing below them
 *
 * Positions count the top-level columns of the base schema. Columns of user-defined types cannot be referred
 * to. The number of columns must be the table's: system columns have no place there. A position inside a struct counts the sender's fields, which need not
 * be all of the table's: its name is looked up in the sender's names, and found in the table by that.
 * AND and OR are laid out without recursion; what nests otherwise is bounded by AST_MAX_DEPTH.
 * Source: spec expressions 12; the published message definitions of Substrait. */
#include "expr/bind.h"
#include "wire/wire.h"

#define FUNCTIONS_MAX ((size_t)1 << 20)
#define LEVELS_MAX 64u /* of a path into structs */
enum { TYPE_STRUCT = 25, TYPE_LIST = 27, TYPE_MAP = 28 };

struct extension {
    uint64_t anchor;
    struct bytes name; /* without the signature */
};

struct reader {
    struct arena *arena;
    struct mem *mem;
    const struct ArrowSchema *input;
    const struct ArrowSchema **fields; /* by position; NULL: cannot be referred to */
    size_t n_fields;
    struct bytes *types; /* of the base schema, by position; NULL: there is none */
    struct bytes *names; /* of the base schema, depth first */
    size_t *name_at;     /* number of the name of each type */
    bool items_named;    /* fields of structs in lists have names too */
    bool names_fit;      /* there are as many as the types have */
    size_t n_names, cap_names;
    struct extension *functions;
    size_t n_functions, cap_functions;
    uint32_t depth;
};

static pennon_status read_expression(struct reader *r, struct bytes message, struct ast **out, pennon_error *err);

/* ---- messages ---- */

static pennon_status corrupt(pennon_error *err, const char *what) { return error_set(err, PENNON_CORRUPT, "substrait: %s", what); }

static pennon_status unsupported(pennon_error *err, const char *what)
{
    return error_set(err, PENNON_NOT_SUPPORTED, "substrait: %s are not supported in filters", what);
}

/* The last field with this tag; *found false: there is none. Those of type bytes where `message`. */
static pennon_status find(struct bytes in, uint32_t tag, bool message, struct wire_item *out, bool *found, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    struct wire_item item;
    *found = false;
    while (!wire_cursor_done(&c)) {
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag != tag) continue;
        if ((item.type == 2) != message) return corrupt(err, "a field has another wire type");
        *out = item;
        *found = true;
    }
    return PENNON_OK;
}

static pennon_status find_message(struct bytes in, uint32_t tag, const char *what, struct bytes *out, pennon_error *err)
{
    struct wire_item item;
    bool found;
    TRY_RETURN(find(in, tag, true, &item, &found, err));
    if (!found) return corrupt(err, what);
    *out = item.payload;
    return PENNON_OK;
}

static pennon_status find_number(struct bytes in, uint32_t tag, uint64_t *out, pennon_error *err)
{
    struct wire_item item;
    bool found;
    *out = 0;
    TRY_RETURN(find(in, tag, false, &item, &found, err));
    if (found) *out = item.number;
    return PENNON_OK;
}

/* The last field of all: the member of a message that is a choice. */
static pennon_status chosen(struct bytes in, const char *what, struct wire_item *out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(in);
    if (wire_cursor_done(&c)) return corrupt(err, what);
    while (!wire_cursor_done(&c)) TRY_RETURN(wire_next(&c, out, err));
    return PENNON_OK;
}

/* ---- nodes ---- */

static pennon_status make(struct reader *r, enum ast_kind kind, size_t n, struct ast **out, pennon_error *err)
{
    struct ast *a = arena_calloc(r->arena, 1, sizeof *a, err);
    if (!a) return err->code;
    a->kind = (uint8_t)kind;
    a->n = (uint32_t)n;
    if (n > 0) {
        a->children = arena_calloc(r->arena, n, sizeof *a->children, err);
        if (!a->children) return err->code;
    }
    *out = a;
    return PENNON_OK;
}

static pennon_status make_integer(struct reader *r, int64_t v, struct ast **out, pennon_error *err)
{
    TRY_RETURN(make(r, AST_INTEGER, 0, out, err));
    (*out)->integer = v;
    return PENNON_OK;
}

static pennon_status make_text(struct reader *r, enum ast_kind kind, struct bytes text, struct ast **out, pennon_error *err)
{
    if (kind == AST_TEXT && !utf8_valid(text.data, text.size)) return corrupt(err, "a text is no UTF-8");
    TRY_RETURN(make(r, kind, 0, out, err));
    (*out)->text = text;
    return PENNON_OK;
}

static pennon_status make_cast(struct reader *r, struct ast *value, struct ast_type type, struct ast **out, pennon_error *err)
{
    TRY_RETURN(make(r, AST_CAST, 1, out, err));
    (*out)->children[0] = value;
    (*out)->type = type;
    return PENNON_OK;
}

/* arrow_cast(value, 'Time64(Microsecond)'): types that SQL has no names for. */
static pennon_status make_arrow_cast(struct reader *r, struct ast *value, const char *type, struct ast **out, pennon_error *err)
{
    TRY_RETURN(make(r, AST_CALL, 2, out, err));
    (*out)->text = bytes_str("arrow_cast");
    (*out)->children[0] = value;
    return make_text(r, AST_TEXT, bytes_str(type), &(*out)->children[1], err);
}

/* ---- literals ---- */

static pennon_status integer_of(struct reader *r, uint64_t v, enum ast_type_id id, struct ast **out, pennon_error *err)
{
    struct ast *number = NULL;
    TRY_RETURN(make_integer(r, (int64_t)v, &number, err));
    return make_cast(r, number, (struct ast_type){.id = id}, out, err);
}

static pennon_status float_of(struct reader *r, uint64_t bits, bool single, struct ast **out, pennon_error *err)
{
    struct ast *number = NULL;
    TRY_RETURN(make(r, AST_FLOAT, 0, &number, err));
    if (single) {
        uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof f);
        number->real = (double)f;
        return make_cast(r, number, (struct ast_type){.id = AST_TYPE_FLOAT32}, out, err);
    }
    memcpy(&number->real, &bits, sizeof bits);
    *out = number;
    return PENNON_OK;
}

/* 16 bytes, least significant first, with precision and scale. */
static pennon_status decimal_of(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct bytes value = bytes_of(NULL, 0);
    uint64_t precision, scale;
    struct wide w;
    char text[WIDE_TEXT_MAX];
    struct ast *number = NULL;
    uint8_t native[16];
    TRY_RETURN(find_message(message, 1, "a decimal has no value", &value, err));
    TRY_RETURN(find_number(message, 2, &precision, err));
    TRY_RETURN(find_number(message, 3, &scale, err));
    if (value.size != 16 || precision < 1 || precision > 38 || scale > precision) return corrupt(err, "a decimal is malformed");
    for (size_t i = 0; i < 2; i++) {
        uint64_t word = load_u64(value.data + 8 * i);
        const uint16_t probe = 1;
        bool little = *(const uint8_t *)&probe == 1;
        memcpy(native + 8 * (little ? i : 1 - i), &word, sizeof word);
    }
    w = wide_load(native, 16);
    size_t n = wide_to_text(&w, (int32_t)scale, text);
    char *copy = arena_strndup(r->arena, text, n, err);
    if (!copy) return err->code;
    TRY_RETURN(make_text(r, AST_TEXT, bytes_of(copy, n), &number, err));
    return make_cast(r, number, (struct ast_type){.id = AST_TYPE_DECIMAL, .precision = (int32_t)precision, .scale = (int32_t)scale},
                     out, err);
}

static pennon_status stamp_of(struct reader *r, uint64_t v, bool zone, uint64_t precision, struct ast **out, pennon_error *err)
{
    struct ast *number = NULL;
    TRY_RETURN(make_integer(r, (int64_t)v, &number, err));
    if (precision != 0 && precision != 3 && precision != 6 && precision != 9)
        return unsupported(err, "timestamps of this precision");
    TRY_RETURN(make_cast(r, number, (struct ast_type){.id = AST_TYPE_TIMESTAMP, .unit = (int32_t)precision}, out, err));
    if (!zone) return PENNON_OK;
    const char *type = precision == 0   ? "Timestamp(Second, Some(\"UTC\"))"
                       : precision == 3 ? "Timestamp(Millisecond, Some(\"UTC\"))"
                       : precision == 6 ? "Timestamp(Microsecond, Some(\"UTC\"))"
                                        : "Timestamp(Nanosecond, Some(\"UTC\"))";
    return make_arrow_cast(r, *out, type, out, err);
}

static pennon_status precise_stamp(struct reader *r, struct bytes message, bool zone, struct ast **out, pennon_error *err)
{
    uint64_t precision, value;
    TRY_RETURN(find_number(message, 1, &precision, err));
    TRY_RETURN(find_number(message, 2, &value, err));
    return stamp_of(r, value, zone, precision, out, err);
}

/* Items without their types: the list takes that of the first. */
static pennon_status list_of(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    size_t n = 0;
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        n += item.tag == 1;
    }
    TRY_RETURN(make(r, AST_ARRAY, n, out, err));
    c = wire_cursor_of(message);
    for (size_t i = 0; i < n;) {
        struct wire_item item, value;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag != 1) continue;
        if (item.type != 2) return corrupt(err, "an item of a list is no message");
        TRY_RETURN(chosen(item.payload, "an item of a list is empty", &value, err));
        struct ast **to = &(*out)->children[i++];
        if (value.tag >= 2 && value.tag <= 7 && value.type == 0) {
            TRY_RETURN(make_integer(r, (int64_t)value.number, to, err));
        } else if (value.tag == 11 && value.type == 1) {
            TRY_RETURN(float_of(r, value.number, false, to, err));
        } else if (value.tag == 12 && value.type == 2) {
            TRY_RETURN(make_text(r, AST_TEXT, value.payload, to, err));
        } else if (value.tag == 29) {
            TRY_RETURN(make(r, AST_NULL, 0, to, err));
        } else {
            return unsupported(err, "lists of these items");
        }
    }
    return PENNON_OK;
}

/* The wire type of each kind of literal: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes; 9 = no such literal. */
static unsigned literal_wire(uint32_t tag)
{
    static const uint8_t types[] = {
        [1] = 0,  [2] = 0,  [3] = 0,  [5] = 0,  [7] = 0,  [10] = 5, [11] = 1, [12] = 2, [13] = 2, [14] = 0, [16] = 0, [17] = 0,
        [21] = 2, [22] = 2, [23] = 2, [24] = 2, [27] = 0, [28] = 2, [29] = 2, [30] = 2, [31] = 2, [34] = 2, [35] = 2};
    bool known = tag == 1 || (tag < ARRAY_LEN(types) && types[tag] != 0) || tag == 2 || tag == 3 || tag == 5 || tag == 7 ||
                 tag == 14 || tag == 16 || tag == 17 || tag == 27;
    return known ? types[tag] : 9;
}

static pennon_status literal_value(struct reader *r, const struct wire_item *v, struct ast **out, pennon_error *err)
{
    struct ast *days = NULL;
    struct bytes text = bytes_of(NULL, 0);
    switch (v->tag) {
    case 1:
        TRY_RETURN(make(r, AST_BOOL, 0, out, err));
        (*out)->integer = v->number != 0;
        return PENNON_OK;
    case 2: return integer_of(r, v->number, AST_TYPE_INT8, out, err);
    case 3: return integer_of(r, v->number, AST_TYPE_INT16, out, err);
    case 5: return integer_of(r, v->number, AST_TYPE_INT32, out, err);
    case 7: return make_integer(r, (int64_t)v->number, out, err);
    case 10: return float_of(r, v->number, true, out, err);
    case 11: return float_of(r, v->number, false, out, err);
    case 12:
    case 21: return make_text(r, AST_TEXT, v->payload, out, err);
    case 13:
    case 23:
    case 28: return make_text(r, AST_BINARY, v->payload, out, err);
    case 14: return stamp_of(r, v->number, false, 6, out, err);
    case 16:
        TRY_RETURN(integer_of(r, v->number, AST_TYPE_INT32, &days, err));
        return make_cast(r, days, (struct ast_type){.id = AST_TYPE_DATE32}, out, err);
    case 17:
        TRY_RETURN(make_integer(r, (int64_t)v->number, &days, err));
        return make_arrow_cast(r, days, "Time64(Microsecond)", out, err);
    case 22:
        TRY_RETURN(find_message(v->payload, 1, "a text has no value", &text, err));
        return make_text(r, AST_TEXT, text, out, err);
    case 24: return decimal_of(r, v->payload, out, err);
    case 27: return stamp_of(r, v->number, true, 6, out, err);
    case 29: return make(r, AST_NULL, 0, out, err);
    case 30: return list_of(r, v->payload, out, err);
    case 31: return make(r, AST_ARRAY, 0, out, err);
    default: return precise_stamp(r, v->payload, v->tag == 35, out, err);
    }
}

/* Fields 50 and 51 say whether it may be null, and variations. */
static pennon_status read_literal(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    struct wire_item item, value = {.tag = 0};
    while (!wire_cursor_done(&c)) {
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag < 50) value = item;
    }
    if (value.tag == 0) return corrupt(err, "a literal is empty");
    if (literal_wire(value.tag) == 9) return unsupported(err, "literals of this type");
    if (literal_wire(value.tag) != value.type) return corrupt(err, "a literal has another wire type");
    return literal_value(r, &value, out, err);
}

/* ---- fields ---- */

/* The tag of a type and its message. */
static pennon_status open_type(struct bytes type, struct wire_item *out, pennon_error *err)
{
    TRY_RETURN(chosen(type, "a type is empty", out, err));
    return out->type == 2 ? PENNON_OK : corrupt(err, "a type is no message");
}

/* Names that stand below a type: those of struct fields, and with `items` those in items of lists and maps. Of senders some name the latter, some do
 * not; the number of names tells. */
static pennon_status names_below(struct bytes type, bool items, unsigned depth, size_t *n, pennon_error *err)
{
    struct wire_item t, item;
    if (depth >= AST_MAX_DEPTH) return corrupt(err, "a type is nested too deep");
    TRY_RETURN(open_type(type, &t, err));
    if (t.tag != TYPE_STRUCT && !(items && (t.tag == TYPE_LIST || t.tag == TYPE_MAP))) return PENNON_OK;
    for (struct wire_cursor c = wire_cursor_of(t.payload); !wire_cursor_done(&c);) {
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.type != 2 || item.tag > (t.tag == TYPE_MAP ? 2u : 1u)) continue;
        *n += t.tag == TYPE_STRUCT;
        TRY_RETURN(names_below(item.payload, items, depth + 1, n, err));
    }
    return PENNON_OK;
}

/* A field of a struct: *type becomes its type, *at, the number of the name of the struct's first field, that of its own. */
static pennon_status step_into(struct bytes *type, uint64_t position, bool items, size_t *at, pennon_error *err)
{
    struct wire_item t, item;
    TRY_RETURN(open_type(*type, &t, err));
    if (t.tag != TYPE_STRUCT) return corrupt(err, "a reference goes into what is no struct");
    for (struct wire_cursor c = wire_cursor_of(t.payload); !wire_cursor_done(&c);) {
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.type != 2 || item.tag != 1) continue;
        *type = item.payload;
        if (position-- == 0) return PENNON_OK;
        ++*at;
        TRY_RETURN(names_below(item.payload, items, 0, at, err));
    }
    return corrupt(err, "a reference is past the struct");
}

/* Positions of a reference, outermost first. */
struct steps {
    uint64_t position[LEVELS_MAX];
    size_t n;
};

static pennon_status read_steps(struct bytes segment, struct steps *out, pennon_error *err)
{
    struct wire_item item;
    bool found = true;
    for (out->n = 0; found;) {
        TRY_RETURN(find(segment, 2, true, &item, &found, err));
        if (!found) return unsupported(err, "references to items of lists and maps");
        if (out->n == LEVELS_MAX) return corrupt(err, "a reference goes too deep");
        const struct bytes field = item.payload;
        TRY_RETURN(find_number(field, 1, &out->position[out->n++], err));
        TRY_RETURN(find(field, 2, true, &item, &found, err));
        segment = item.payload;
    }
    ASSERT(out->n > 0);
    return PENNON_OK;
}

static pennon_status check_struct(const struct ArrowSchema *schema, pennon_error *err)
{
    if (strcmp(schema->format, "+s") == 0) return PENNON_OK;
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "substrait: a reference goes into column '%s', which is no struct", schema->name);
    return error_kind(err, "TypeMismatch");
}

/* The names that the steps go by, from the second on. */
static pennon_status name_steps(struct reader *r, const struct steps *steps, struct ast_part *parts, pennon_error *err)
{
    const struct ArrowSchema *schema = r->fields[steps->position[0]];
    struct bytes type = bytes_of(NULL, 0);
    size_t at = 0;
    if (steps->n == 1) return PENNON_OK;
    if (r->types) {
        if (!r->names_fit) return corrupt(err, "the names do not fit the types");
        type = r->types[steps->position[0]];
        at = r->name_at[steps->position[0]];
    }
    for (size_t i = 1; i < steps->n; i++) {
        int64_t child = -1;
        TRY_RETURN(check_struct(schema, err));
        if (r->types) {
            at++;
            TRY_RETURN(step_into(&type, steps->position[i], r->items_named, &at, err));
            ASSERT(at < r->n_names); /* as many as the types have */
            child = arrow_schema_find(schema, r->names[at]);
        } else if (steps->position[i] < (uint64_t)schema->n_children) {
            child = (int64_t)steps->position[i];
        }
        if (child < 0) {
            (void)error_set(err, PENNON_INVALID_ARGUMENT, "substrait: struct '%s' has no such field", schema->name);
            return error_kind(err, "FieldNotFound");
        }
        schema = schema->children[child];
        parts[i] = (struct ast_part){bytes_str(schema->name), true};
    }
    return PENNON_OK;
}

static pennon_status read_field(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct bytes segment;
    struct wire_item item;
    struct steps steps;
    bool found;
    TRY_RETURN(find(message, 2, true, &item, &found, err));
    if (found) return unsupported(err, "masked references");
    TRY_RETURN(find(message, 5, true, &item, &found, err));
    if (found) return unsupported(err, "references to outer queries");
    TRY_RETURN(find(message, 3, true, &item, &found, err));
    if (found) return unsupported(err, "references into expressions");
    TRY_RETURN(find_message(message, 1, "a reference is empty", &segment, err));
    TRY_RETURN(read_steps(segment, &steps, err));
    if (steps.position[0] >= r->n_fields) return corrupt(err, "a reference is past the schema");
    const struct ArrowSchema *column = r->fields[steps.position[0]];
    if (!column) return unsupported(err, "references to columns of user-defined types");
    TRY_RETURN(make(r, AST_COLUMN, 0, out, err));
    (*out)->parts = arena_calloc(r->arena, steps.n, sizeof *(*out)->parts, err);
    if (!(*out)->parts) return err->code;
    (*out)->parts[0] = (struct ast_part){bytes_str(column->name), true};
    (*out)->n = (uint32_t)steps.n;
    return name_steps(r, &steps, (*out)->parts, err);
}

/* ---- functions ---- */

struct arguments {
    struct bytes *items; /* messages of type Expression; an enum is a text */
    bool *is_enum;
    size_t n, cap, cap_enum;
};

static pennon_status add_argument(struct reader *r, struct arguments *a, struct bytes item, bool is_enum, pennon_error *err)
{
    TRY_RETURN(mem_grow(r->mem, &a->items, &a->cap, a->n, sizeof *a->items, FUNCTIONS_MAX, err));
    TRY_RETURN(mem_grow(r->mem, &a->is_enum, &a->cap_enum, a->n, sizeof *a->is_enum, FUNCTIONS_MAX, err));
    a->items[a->n] = item;
    a->is_enum[a->n++] = is_enum;
    return PENNON_OK;
}

/* Function's name and arguments. */
static pennon_status read_call(struct reader *r, struct bytes message, struct bytes *name, struct arguments *a, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    uint64_t anchor = 0;
    while (!wire_cursor_done(&c)) {
        struct wire_item item, value;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 1 && item.type == 0) anchor = item.number;
        if (item.tag != 2 && item.tag != 4) continue;
        if (item.type != 2) return corrupt(err, "an argument is no message");
        if (item.tag == 2) {
            TRY_RETURN(add_argument(r, a, item.payload, false, err));
            continue;
        }
        TRY_RETURN(chosen(item.payload, "an argument is empty", &value, err));
        if (value.type != 2) return corrupt(err, "an argument is no message");
        if (value.tag == 2) return unsupported(err, "types as arguments");
        TRY_RETURN(add_argument(r, a, value.payload, value.tag == 1, err));
    }
    for (size_t i = 0; i < r->n_functions; i++) {
        if (r->functions[i].anchor != anchor) continue;
        *name = r->functions[i].name;
        return PENNON_OK;
    }
    return corrupt(err, "a function is not among the extensions");
}

static void free_arguments(struct reader *r, struct arguments *a)
{
    mem_free(r->mem, a->items);
    mem_free(r->mem, a->is_enum);
}

enum shape {
    SHAPE_COMPARE,
    SHAPE_ARITH,
    SHAPE_AND,
    SHAPE_OR,
    SHAPE_NOT,
    SHAPE_IS,
    SHAPE_DISTINCT,
    SHAPE_LIKE,
    SHAPE_BETWEEN,
    SHAPE_NEGATE
};

struct operation {
    const char *name;
    uint8_t shape, op, flags, args; /* args 0: any number */
};

static const struct operation operations[] = {
    {"equal", SHAPE_COMPARE, AST_EQ, 0, 2},
    {"not_equal", SHAPE_COMPARE, AST_NE, 0, 2},
    {"lt", SHAPE_COMPARE, AST_LT, 0, 2},
    {"lte", SHAPE_COMPARE, AST_LE, 0, 2},
    {"gt", SHAPE_COMPARE, AST_GT, 0, 2},
    {"gte", SHAPE_COMPARE, AST_GE, 0, 2},
    {"add", SHAPE_ARITH, AST_ADD, 0, 2},
    {"subtract", SHAPE_ARITH, AST_SUBTRACT, 0, 2},
    {"multiply", SHAPE_ARITH, AST_MULTIPLY, 0, 2},
    {"divide", SHAPE_ARITH, AST_DIVIDE, 0, 2},
    {"modulus", SHAPE_ARITH, AST_MODULO, 0, 2},
    {"mod", SHAPE_ARITH, AST_MODULO, 0, 2},
    {"and", SHAPE_AND, 0, 0, 0},
    {"or", SHAPE_OR, 0, 0, 0},
    {"not", SHAPE_NOT, 0, 0, 1},
    {"is_null", SHAPE_IS, AST_IS_NULL, 0, 1},
    {"is_not_null", SHAPE_IS, AST_IS_NULL, AST_NEGATED, 1},
    {"is_true", SHAPE_IS, AST_IS_TRUE, 0, 1},
    {"is_not_true", SHAPE_IS, AST_IS_TRUE, AST_NEGATED, 1},
    {"is_false", SHAPE_IS, AST_IS_FALSE, 0, 1},
    {"is_not_false", SHAPE_IS, AST_IS_FALSE, AST_NEGATED, 1},
    {"is_unknown", SHAPE_IS, AST_IS_UNKNOWN, 0, 1},
    {"is_not_unknown", SHAPE_IS, AST_IS_UNKNOWN, AST_NEGATED, 1},
    {"is_distinct_from", SHAPE_DISTINCT, 0, 0, 2},
    {"is_not_distinct_from", SHAPE_DISTINCT, 0, AST_NEGATED, 2},
    {"like", SHAPE_LIKE, 0, 0, 2},
    {"ilike", SHAPE_LIKE, 0, AST_FOLD, 2},
    {"between", SHAPE_BETWEEN, 0, 0, 3},
    {"negate", SHAPE_NEGATE, 0, 0, 1},
    {"negative", SHAPE_NEGATE, 0, 0, 1},
};

static const struct operation *find_operation(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        if (bytes_equal(name, bytes_str(operations[i].name))) return &operations[i];
    }
    return NULL;
}

/* The arguments of nested calls of `name` (and, or) laid out in order, as children of one node. */
static pennon_status read_chain(struct reader *r, struct bytes name, struct arguments *stack, struct ast **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool is_and = bytes_equal(name, bytes_str("and"));
    struct ast **items = NULL;
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < stack->n / 2; i++) { /* the first argument on top */
        struct bytes other = stack->items[i];
        stack->items[i] = stack->items[stack->n - 1 - i];
        stack->items[stack->n - 1 - i] = other;
    }
    while (stack->n > 0) {
        struct bytes message = stack->items[--stack->n], inner_name;
        struct wire_item item;
        TRY(chosen(message, "an expression is empty", &item, err));
        size_t base = stack->n;
        if (item.tag == 3 && item.type == 2) {
            TRY(read_call(r, item.payload, &inner_name, stack, err));
            if (bytes_equal(inner_name, name)) {
                for (size_t i = base, k = stack->n; i + 1 < k; i++) {
                    struct bytes other = stack->items[i];
                    stack->items[i] = stack->items[--k];
                    stack->items[k] = other;
                }
                continue;
            }
            stack->n = base;
        }
        TRY(mem_grow(r->mem, &items, &cap, n, sizeof *items, FUNCTIONS_MAX, err));
        TRY(read_expression(r, message, &items[n], err));
        n++;
    }
    if (n == 1) {
        *out = items[0];
    } else if (n == 0) {
        TRY(make(r, AST_BOOL, 0, out, err));
        (*out)->integer = is_and;
    } else {
        TRY(make(r, is_and ? AST_AND : AST_OR, n, out, err));
        memcpy((*out)->children, items, n * sizeof *items);
    }
done:
    mem_free(r->mem, items);
    return st;
}

static pennon_status read_arguments(struct reader *r, const struct arguments *a, struct ast *node, pennon_error *err)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->is_enum[i]) {
            TRY_RETURN(make_text(r, AST_TEXT, a->items[i], &node->children[i], err));
        } else {
            TRY_RETURN(read_expression(r, a->items[i], &node->children[i], err));
        }
    }
    return PENNON_OK;
}

static pennon_status read_function(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    static const uint8_t kinds[] = {
        [SHAPE_COMPARE] = AST_COMPARE, [SHAPE_ARITH] = AST_ARITH,       [SHAPE_NOT] = AST_NOT,         [SHAPE_IS] = AST_IS,
        [SHAPE_LIKE] = AST_LIKE,       [SHAPE_DISTINCT] = AST_DISTINCT, [SHAPE_BETWEEN] = AST_BETWEEN, [SHAPE_NEGATE] = AST_NEGATE};
    pennon_status st = PENNON_OK;
    struct arguments a = {NULL, NULL, 0, 0, 0};
    struct bytes name;
    TRY(read_call(r, message, &name, &a, err));
    const struct operation *op = find_operation(name);
    if (op && (op->shape == SHAPE_AND || op->shape == SHAPE_OR)) {
        TRY(read_chain(r, name, &a, out, err));
        goto done;
    }
    if (op && a.n != op->args) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "substrait: %s takes %u arguments, not %zu", op->name, op->args, a.n);
        st = error_kind(err, "TypeMismatch");
        goto done;
    }
    TRY(make(r, op ? (enum ast_kind)kinds[op->shape] : AST_CALL, a.n, out, err));
    TRY(read_arguments(r, &a, *out, err));
    if (op) {
        (*out)->op = op->op;
        (*out)->flags = op->flags;
    } else {
        (*out)->text = name;
    }
done:
    free_arguments(r, &a);
    return st;
}

/* ---- other expressions ---- */

/* 1: {1: condition, 2: value} any number of times, 2: else. */
static pennon_status read_if(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    struct wire_item other;
    bool has_else;
    size_t n = 0, at = 0;
    TRY_RETURN(find(message, 2, true, &other, &has_else, err));
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 1 && item.type != 2) return corrupt(err, "a branch is no message");
        n += item.tag == 1;
    }
    if (n == 0) return corrupt(err, "a choice has no branches");
    TRY_RETURN(make(r, AST_CASE, 2 * n + has_else, out, err));
    c = wire_cursor_of(message);
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        struct bytes when, then;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag != 1) continue;
        TRY_RETURN(find_message(item.payload, 1, "a branch has no condition", &when, err));
        TRY_RETURN(find_message(item.payload, 2, "a branch has no value", &then, err));
        TRY_RETURN(read_expression(r, when, &(*out)->children[at++], err));
        TRY_RETURN(read_expression(r, then, &(*out)->children[at++], err));
    }
    if (!has_else) return PENNON_OK;
    (*out)->flags = AST_ELSE;
    return read_expression(r, other.payload, &(*out)->children[at], err);
}

/* 1: value, 2: options. */
static pennon_status read_list(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    struct bytes value = bytes_of(NULL, 0);
    size_t n = 0, at = 1;
    TRY_RETURN(find_message(message, 1, "a list has no value", &value, err));
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 2 && item.type != 2) return corrupt(err, "an option is no message");
        n += item.tag == 2;
    }
    if (n == 0) return make(r, AST_BOOL, 0, out, err); /* in no value: false */
    TRY_RETURN(make(r, AST_IN, n + 1, out, err));
    TRY_RETURN(read_expression(r, value, &(*out)->children[0], err));
    c = wire_cursor_of(message);
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 2) TRY_RETURN(read_expression(r, item.payload, &(*out)->children[at++], err));
    }
    return PENNON_OK;
}

/* The types that casts may have. */
static pennon_status read_type(struct bytes message, struct ast_type *out, pennon_error *err)
{
    static const struct {
        uint32_t tag;
        enum ast_type_id id;
    } types[] = {{1, AST_TYPE_BOOLEAN}, {2, AST_TYPE_INT8},     {3, AST_TYPE_INT16},    {5, AST_TYPE_INT32},
                 {7, AST_TYPE_INT64},   {10, AST_TYPE_FLOAT32}, {11, AST_TYPE_FLOAT64}, {12, AST_TYPE_UTF8},
                 {13, AST_TYPE_BINARY}, {16, AST_TYPE_DATE32},  {21, AST_TYPE_UTF8},    {22, AST_TYPE_UTF8}};
    struct wire_item item;
    uint64_t precision = 6, scale;
    TRY_RETURN(chosen(message, "a type is empty", &item, err));
    if (item.type != 2) return corrupt(err, "a type is no message");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].tag != item.tag) continue;
        *out = (struct ast_type){.id = types[i].id};
        return PENNON_OK;
    }
    if (item.tag == 33) TRY_RETURN(find_number(item.payload, 1, &precision, err));
    if ((item.tag == 14 || item.tag == 33) && (precision == 0 || precision == 3 || precision == 6 || precision == 9)) {
        *out = (struct ast_type){.id = AST_TYPE_TIMESTAMP, .unit = (int32_t)precision};
        return PENNON_OK;
    }
    if (item.tag != 24) return unsupported(err, "casts to this type");
    TRY_RETURN(find_number(item.payload, 1, &scale, err));
    TRY_RETURN(find_number(item.payload, 2, &precision, err));
    if (precision < 1 || precision > 38 || scale > precision) return corrupt(err, "a decimal type is malformed");
    *out = (struct ast_type){.id = AST_TYPE_DECIMAL, .precision = (int32_t)precision, .scale = (int32_t)scale};
    return PENNON_OK;
}

/* 1: type, 2: input, 3: what happens on failure (1 = null). */
static pennon_status read_cast(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct bytes type_message, input;
    struct ast_type type = {.id = AST_TYPE_BOOLEAN};
    struct ast *value = NULL;
    uint64_t failure;
    TRY_RETURN(find_message(message, 1, "a cast has no type", &type_message, err));
    TRY_RETURN(find_message(message, 2, "a cast has no input", &input, err));
    TRY_RETURN(find_number(message, 3, &failure, err));
    TRY_RETURN(read_type(type_message, &type, err));
    TRY_RETURN(read_expression(r, input, &value, err));
    TRY_RETURN(make_cast(r, value, type, out, err));
    (*out)->flags = failure == 1 ? AST_TRY : 0;
    return PENNON_OK;
}

static pennon_status read_chosen(struct reader *r, const struct wire_item *item, struct ast **out, pennon_error *err)
{
    if (item->type != 2) return corrupt(err, "an expression is no message");
    switch (item->tag) {
    case 1: return read_literal(r, item->payload, out, err);
    case 2: return read_field(r, item->payload, out, err);
    case 3: return read_function(r, item->payload, out, err);
    case 5: return unsupported(err, "window functions");
    case 6: return read_if(r, item->payload, out, err);
    case 8: return read_list(r, item->payload, out, err);
    case 11: return read_cast(r, item->payload, out, err);
    case 12: return unsupported(err, "subqueries");
    default: return unsupported(err, "expressions of this kind");
    }
}

static pennon_status read_expression(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct wire_item item;
    if (r->depth >= AST_MAX_DEPTH) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "substrait: the expression is nested more than %u levels deep",
                        AST_MAX_DEPTH);
        return error_kind(err, "FilterSyntax");
    }
    TRY_RETURN(chosen(message, "an expression is empty", &item, err));
    r->depth++;
    pennon_status st = read_chosen(r, &item, out, err);
    r->depth--;
    return st;
}

/* ---- the whole ---- */

static pennon_status read_extension(struct reader *r, struct bytes message, pennon_error *err)
{
    struct extension f = {.anchor = 0};
    struct wire_item item;
    struct bytes function;
    bool found;
    TRY_RETURN(find(message, 3, true, &item, &found, err));
    if (!found) return PENNON_OK; /* types and variations */
    function = item.payload;
    TRY_RETURN(find_number(function, 2, &f.anchor, err));
    TRY_RETURN(find_message(function, 3, "a function has no name", &f.name, err));
    const uint8_t *colon = f.name.size > 0 ? memchr(f.name.data, ':', f.name.size) : NULL;
    if (colon) f.name.size = (size_t)(colon - f.name.data);
    if (f.name.size == 0 || !utf8_valid(f.name.data, f.name.size) || memchr(f.name.data, 0, f.name.size)) {
        return corrupt(err, "the name of a function is malformed");
    }
    TRY_RETURN(mem_grow(r->mem, &r->functions, &r->cap_functions, r->n_functions, sizeof *r->functions, FUNCTIONS_MAX, err));
    r->functions[r->n_functions++] = f;
    return PENNON_OK;
}

static bool is_system_column(const char *name)
{
    static const char *const names[] = {
        "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "_distance", "_score"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

/* The columns of the input by position, the system columns left out. */
static pennon_status table_columns(struct reader *r, pennon_error *err)
{
    r->fields = arena_calloc(r->arena, (size_t)r->input->n_children + 1, sizeof(const struct ArrowSchema *), err);
    if (!r->fields) return err->code;
    for (int64_t i = 0; i < r->input->n_children; i++) {
        if (!is_system_column(r->input->children[i]->name)) r->fields[r->n_fields++] = r->input->children[i];
    }
    return PENNON_OK;
}

static pennon_status read_names(struct reader *r, struct bytes message, pennon_error *err)
{
    for (struct wire_cursor c = wire_cursor_of(message); !wire_cursor_done(&c);) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag != 1) continue;
        if (item.type != 2) return corrupt(err, "a name is no text");
        TRY_RETURN(mem_grow(r->mem, &r->names, &r->cap_names, r->n_names, sizeof *r->names, FUNCTIONS_MAX, err));
        r->names[r->n_names++] = item.payload;
    }
    return PENNON_OK;
}

/* Where the names of each column begin. */
static pennon_status place_names(struct reader *r, bool items, pennon_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < r->n_fields; i++) {
        r->name_at[i] = at++;
        TRY_RETURN(names_below(r->types[i], items, 0, &at, err));
    }
    r->items_named = items;
    r->names_fit = at == r->n_names;
    return PENNON_OK;
}

/* Check the count, and strike what cannot be referred to. Names of columns are not looked at: positions say all, and a placeholder is a column that the
 * sender had no type for. */
static pennon_status read_schema(struct reader *r, struct bytes message, pennon_error *err)
{
    struct wire_item item;
    bool found;
    size_t n = 0;
    TRY_RETURN(find(message, 2, true, &item, &found, err));
    if (!found) return PENNON_OK;
    TRY_RETURN(read_names(r, message, err));
    r->types = arena_calloc(r->arena, r->n_fields + 1, sizeof *r->types, err);
    r->name_at = arena_calloc(r->arena, r->n_fields + 1, sizeof *r->name_at, err);
    if (!r->types || !r->name_at) return err->code;
    struct wire_cursor c = wire_cursor_of(item.payload);
    while (!wire_cursor_done(&c)) {
        struct wire_item type;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag != 1) continue;
        if (item.type != 2) return corrupt(err, "a type is no message");
        TRY_RETURN(chosen(item.payload, "a type is empty", &type, err));
        if (n < r->n_fields) r->types[n] = item.payload;
        if (n < r->n_fields && (type.tag == 30 || type.tag == 31)) r->fields[n] = NULL;
        n++;
    }
    if (n != r->n_fields)
        return error_set(err, PENNON_INVALID_ARGUMENT, "substrait: the schema has %zu columns, the table has %zu", n, r->n_fields);
    TRY_RETURN(place_names(r, true, err));
    return r->names_fit ? PENNON_OK : place_names(r, false, err);
}

static pennon_status read_message(struct reader *r, struct bytes message, struct ast **out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(message);
    struct bytes expression = bytes_of(NULL, 0), schema = bytes_of(NULL, 0), inner;
    size_t n = 0;
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag < 2 || item.tag > 4) continue;
        if (item.type != 2) return corrupt(err, "a field is no message");
        if (item.tag == 2) TRY_RETURN(read_extension(r, item.payload, err));
        if (item.tag == 3) expression = item.payload;
        if (item.tag == 4) schema = item.payload;
        n += item.tag == 3;
    }
    if (n != 1) return error_set(err, PENNON_INVALID_ARGUMENT, "substrait: a filter is one expression, not %zu", n);
    TRY_RETURN(read_schema(r, schema, err));
    TRY_RETURN(find_message(expression, 1, "the expression is no scalar expression", &inner, err));
    return read_expression(r, inner, out, err);
}

pennon_status expr_compile_substrait(struct bytes message, const struct ArrowSchema *input, struct mem *m, struct expr **out,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct ast *tree = NULL;
    struct reader r = {.arena = &arena, .mem = m, .input = input};
    struct binder b = {.e = NULL, .input = input, .text = bytes_of(NULL, 0)};
    *out = NULL;
    arena_init(&arena, m);
    TRY(table_columns(&r, err));
    TRY(read_message(&r, message, &tree, err));
    TRY_NEW(b.e, expr_new(m, err));
    TRY(expr_bind(&b, tree, true, false, err));
    *out = b.e;
    b.e = NULL;
done:
    expr_free(b.e);
    mem_free(m, r.functions);
    mem_free(m, r.names);
    arena_reset(&arena);
    return st;
}
