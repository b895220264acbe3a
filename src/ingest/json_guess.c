/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The schema of JSON objects, by looking at them.
 *
 * seen in a field                              | type
 * ---------------------------------------------|------------------------------------------------
 * only null, or empty lists' items             | null
 * true, false                                  | bool
 * whole numbers                                | int64; uint64 when one needs it and none is negative
 * numbers with a point or exponent as well     | double, when the whole ones are exact in it
 * texts                                        | string
 * arrays                                       | list of what was seen in all of them
 * objects                                      | struct of all fields seen, in order of appearance
 * anything else together                       | an error that names the field
 *
 * The tree lives in an arena. Keys mostly come in one order: the search begins behind the last hit. */
#include "ingest/json_lines.h"

enum {
    SEEN_BOOL = 1,
    SEEN_INT = 2,
    SEEN_NEGATIVE = 4,
    SEEN_LARGE = 8, /* over INT64_MAX */
    SEEN_DOUBLE = 16,
    SEEN_INEXACT = 32, /* a whole number that double would round */
    SEEN_STRING = 64,
    SEEN_LIST = 128,
    SEEN_OBJECT = 256
};

struct guess_field {
    const char *name;
    size_t size;
    struct json_guess *value;
    uint64_t object; /* number of the last object that had it */
};

struct json_guess {
    struct arena *arena;
    unsigned seen;
    struct json_guess *item;
    struct guess_field *fields;
    size_t n_fields;
    size_t cap;
    uint64_t objects; /* seen here */
};

struct json_guess *json_guess_new(struct arena *arena, pennon_error *err)
{
    struct json_guess *g = arena_calloc(arena, 1, sizeof *g, err);
    if (g != NULL) g->arena = arena;
    return g;
}

/* The field of this name, added when it is new; NULL with err on failure. */
static struct guess_field *field_of(struct json_guess *g, struct bytes name, size_t hint, pennon_error *err)
{
    struct guess_field *f = NULL;
    for (size_t k = 0; k < g->n_fields; k++) {
        f = &g->fields[(hint + k) % g->n_fields];
        if (f->size == name.size && memcmp(f->name, name.data, name.size) == 0) return f;
    }
    if (g->n_fields == JSON_FIELDS_MAX) {
        (void)error_set(err, PENNON_NOT_SUPPORTED, "an object with more than %u different fields", JSON_FIELDS_MAX);
        return NULL;
    }
    if (g->n_fields == g->cap) {
        size_t cap = g->cap == 0 ? 8 : g->cap * 2;
        struct guess_field *grown = arena_calloc(g->arena, cap, sizeof *grown, err);
        if (grown == NULL) return NULL;
        if (g->n_fields > 0) memcpy(grown, g->fields, g->n_fields * sizeof *grown);
        g->fields = grown;
        g->cap = cap;
    }
    f = &g->fields[g->n_fields];
    f->name = arena_strndup(g->arena, (const char *)name.data, name.size, err);
    f->value = f->name == NULL ? NULL : json_guess_new(g->arena, err);
    if (f->value == NULL) return NULL;
    f->size = name.size;
    g->n_fields++;
    return f;
}

static bool guess_value(struct json_guess *g, struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err);

static bool failed(pennon_status *st, const pennon_error *err)
{
    *st = err->code;
    return false;
}

/* The object at '{'. `types` only at the top. */
static bool guess_fields(struct json_guess *g, struct json_scan *s, const struct column_types *types, unsigned depth,
                         pennon_status *st, pennon_error *err)
{
    uint8_t next = 0;
    size_t hint = 0;
    g->seen |= SEEN_OBJECT;
    g->objects++;
    s->at++;
    if (!json_space(s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        struct bytes key;
        if (first && next == '}') break;
        if (!first) s->at++;
        if (!json_space(s, &next)) return false;
        if (next != '"') return json_fail(s, "a key in quotes is expected");
        if (!json_take_text(s, &key, st, err)) return false;
        if (memchr(key.data != NULL ? key.data : (const uint8_t *)"", 0, key.size) != NULL)
            return json_fail(s, "a key with a NUL in it");
        struct guess_field *f = field_of(g, key, hint, err);
        if (f == NULL) return failed(st, err);
        if (f->object == g->objects) return json_fail(s, "a key that the object has twice");
        f->object = g->objects;
        hint = (size_t)(f - g->fields) + 1;
        if (!json_take(s, ':', "':' is expected")) return false;
        bool given = types != NULL && column_types_find(types, bytes_of(f->name, f->size)) != NULL;
        if (given ? !json_skip(s, depth + 1, st, err) : !guess_value(f->value, s, depth + 1, st, err)) return false;
        if (!json_space(s, &next)) return false;
    }
    return json_take(s, '}', "',' or '}' is expected");
}

static bool guess_list(struct json_guess *g, struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err)
{
    uint8_t next = 0;
    g->seen |= SEEN_LIST;
    if (g->item == NULL) g->item = json_guess_new(g->arena, err);
    if (g->item == NULL) return failed(st, err);
    s->at++;
    if (!json_space(s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        if (first && next == ']') break;
        if (!first) s->at++;
        if (!guess_value(g->item, s, depth + 1, st, err) || !json_space(s, &next)) return false;
    }
    return json_take(s, ']', "',' or ']' is expected");
}

static bool guess_number(struct json_guess *g, struct json_scan *s)
{
    struct bytes text;
    bool whole = false;
    int64_t i = 0;
    uint64_t u = 0;
    uint64_t exact = (uint64_t)1 << 53;
    if (!json_number(s, &text, &whole)) return false;
    if (!whole) {
        g->seen |= SEEN_DOUBLE;
    } else if (parse_int64(text, &i)) {
        g->seen |= SEEN_INT | (i < 0 ? SEEN_NEGATIVE : 0u);
        if ((i < 0 ? 0 - (uint64_t)i : (uint64_t)i) > exact) g->seen |= SEEN_INEXACT;
    } else if (parse_uint64(text, &u)) {
        g->seen |= SEEN_INT | SEEN_LARGE | SEEN_INEXACT;
    } else {
        return json_fail(s, "a whole number that 64 bits cannot hold (give the field the type string, double or decimal128)");
    }
    return true;
}

static bool guess_value(struct json_guess *g, struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err)
{
    uint8_t next = 0;
    struct bytes text;
    if (depth > JSON_MAX_DEPTH) return json_fail(s, "nested too deeply");
    if (!json_space(s, &next)) return false;
    switch (next) {
    case '{': return guess_fields(g, s, NULL, depth, st, err);
    case '[': return guess_list(g, s, depth, st, err);
    case '"': g->seen |= SEEN_STRING; return json_take_text(s, &text, st, err);
    case 't': g->seen |= SEEN_BOOL; return json_literal(s, "true");
    case 'f': g->seen |= SEEN_BOOL; return json_literal(s, "false");
    case 'n': return json_literal(s, "null");
    default: break;
    }
    if (next != '-' && (next < '0' || next > '9')) return json_fail(s, "a value is expected");
    return guess_number(g, s);
}

bool json_guess_object(struct json_guess *g, struct json_scan *s, const struct column_types *types, pennon_status *st,
                       pennon_error *err)
{
    uint8_t next = 0;
    *st = PENNON_OK;
    if (!json_space(s, &next)) return false;
    return next == '{' ? guess_fields(g, s, types, 1, st, err) : json_fail(s, "an object is expected");
}

/* ------------------------------------------------------------------------------------------------------------- schema */

/* The format of a value without children, or NULL when the kinds do not go together. */
static const char *scalar_format(unsigned seen)
{
    unsigned numbers = SEEN_INT | SEEN_NEGATIVE | SEEN_LARGE | SEEN_DOUBLE | SEEN_INEXACT;
    if (seen == 0) return "n";
    if (seen == SEEN_BOOL) return "b";
    if (seen == SEEN_STRING) return "u";
    if ((seen & ~numbers) != 0) return NULL;
    if (seen & SEEN_DOUBLE) return seen & SEEN_INEXACT ? NULL : "g";
    if (!(seen & SEEN_LARGE)) return "l";
    return seen & SEEN_NEGATIVE ? NULL : "L";
}

static pennon_status guess_schema(const struct json_guess *g, const char *name, struct mem *mem, struct ArrowSchema *out,
                                  pennon_error *err)
{
    const char *format = scalar_format(g->seen);
    if (format != NULL) return arrow_schema_new(out, format, name, ARROW_FLAG_NULLABLE, 0, mem, err);
    if (g->seen == SEEN_LIST) {
        TRY_RETURN(arrow_schema_new(out, "+l", name, ARROW_FLAG_NULLABLE, 1, mem, err));
        return guess_schema(g->item, "item", mem, out->children[0], err);
    }
    if (g->seen != SEEN_OBJECT) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "field '%.100s' holds values of kinds that do not go together: give it a type", name);
    }
    TRY_RETURN(arrow_schema_new(out, "+s", name, ARROW_FLAG_NULLABLE, g->n_fields, mem, err));
    for (size_t i = 0; i < g->n_fields; i++) {
        if (guess_schema(g->fields[i].value, g->fields[i].name, mem, out->children[i], err) != PENNON_OK)
            return error_prefix(err, "in '%.100s'", name);
    }
    return PENNON_OK;
}

/* Given types that no object had. */
static bool was_seen(const struct json_guess *g, const char *name)
{
    for (size_t i = 0; i < g->n_fields; i++) {
        if (strcmp(g->fields[i].name, name) == 0) return true;
    }
    return false;
}

pennon_status json_guess_schema(const struct json_guess *g, const struct column_types *types, struct mem *mem,
                                struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t n = g->n_fields;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < types->n; i++) n += !was_seen(g, types->items[i].name);
    TRY(arrow_schema_new(out, "+s", "", 0, n, mem, err));
    n = g->n_fields;
    for (size_t i = 0; i < n; i++) {
        const struct guess_field *f = &g->fields[i];
        const struct ArrowSchema *given = column_types_find(types, bytes_of(f->name, f->size));
        TRY(given != NULL ? arrow_schema_copy(given, mem, out->children[i], err)
                          : guess_schema(f->value, f->name, mem, out->children[i], err));
    }
    for (size_t i = 0; i < types->n; i++) {
        if (!was_seen(g, types->items[i].name)) TRY(arrow_schema_copy(&types->items[i].schema, mem, out->children[n++], err));
    }
done:
    if (st != PENNON_OK) arrow_schema_release(out);
    return st;
}
