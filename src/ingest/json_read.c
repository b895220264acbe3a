/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reading JSON lines as an Arrow stream.
 *
 * The end of an object is found first, by counting brackets outside of texts; then the object is scanned strictly and appended to
 * builders along a tree of nodes that mirrors the schema. So a builder never holds half of a row that waits for bytes.
 * Opening looks at up to a MiB of objects to make the schema; they stay in the window and are read again.
 *
 * type            | taken from
 * ----------------|--------------------------------------------------------------------------------------
 * text            | texts; numbers as they are written, when the type was given
 * binary          | texts in base64
 * numbers         | numbers; texts when the type was given; floats also "nan", "inf", "-inf"
 * decimals        | numbers and texts
 * dates and times | texts; whole numbers of the type's unit
 * lists           | arrays
 * structs         | objects; fields that are missing are null
 * maps            | objects, keys as texts; arrays of {"key": …, "value": …}
 *
 * Top-level columns of dictionary type are built as their values and encoded per batch. */
#include "ingest/json_lines.h"

#define INFER_BYTES ((size_t)1 << 20)
#define BATCH_BYTES ((uint64_t)32 << 20)

/* A field of the schema with its builder. */
struct node {
    struct arrow_type type;
    struct builder *builder;
    const char *name; /* the schema's */
    size_t name_size;
    struct node *children;
    size_t n_children;
    bool given;       /* its type was given, by the caller */
    uint64_t object;  /* in a struct: the last object that had this field */
    uint64_t objects; /* of a struct: objects so far */
};

struct json_reader {
    struct mem *mem; /* the source's */
    struct byte_source *source;
    struct window window;
    pennon_json_lines_options o;
    struct column_types types;
    struct ArrowSchema schema;
    struct ArrowSchema built; /* top-level dictionaries replaced by their values */
    bool cast;
    struct builder *rows;
    struct arena nodes;
    struct node top;
    struct buf scratch; /* unescaped texts */
    struct buf binary;  /* base64 */
};

static void json_reader_free(void *reader)
{
    struct json_reader *r = reader;
    struct byte_source *source = r->source;
    struct mem *mem = r->mem;
    builder_free(r->rows);
    arena_reset(&r->nodes);
    arrow_schema_release(&r->schema);
    arrow_schema_release(&r->built);
    buf_free(&r->scratch);
    buf_free(&r->binary);
    column_types_free(&r->types);
    window_free(&r->window);
    mem_free(mem, r);
    byte_source_delete(source);
}

void pennon_json_lines_options_init(pennon_json_lines_options *options)
{
    *options = (pennon_json_lines_options){
        .struct_size = sizeof *options, .infer_rows = 10000, .batch_rows = 65536, .max_row_bytes = (uint64_t)64 << 20};
}

/* ------------------------------------------------------------------------------------------------------------ objects */

/* Behind the bracket that closes the one at the front; 0 when it is not there. */
static size_t object_end(const uint8_t *data, size_t size)
{
    size_t depth = 0;
    for (size_t i = 0; i < size; i++) {
        switch (data[i]) {
        case '{':
        case '[': depth++; break;
        case '}':
        case ']':
            if (--depth == 0) return i + 1;
            break;
        case '"':
            for (i++; i < size && data[i] != '"'; i++) i += data[i] == '\\';
            break;
        default: break;
        }
    }
    return 0;
}

static uint64_t count_lines(const uint8_t *data, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++) lines += data[i] == '\n';
    return lines;
}

/* Skip white space; then the next object as a slice of the window, not taken. size 0 at the end. Without `may_read` an object that
 * is not complete in the window counts as the end. */
static pennon_status next_object(struct json_reader *r, bool may_read, struct bytes *out, pennon_error *err)
{
    struct window *w = &r->window;
    *out = bytes_of(NULL, 0);
    for (;;) {
        const uint8_t *p = window_data(w);
        size_t left = window_left(w);
        size_t skip = 0;
        while (skip < left && (p[skip] == ' ' || p[skip] == '\n' || p[skip] == '\r' || p[skip] == '\t'))
            w->line += p[skip++] == '\n';
        w->at += skip;
        left -= skip;
        if (left > 0) {
            /* What does not begin with a bracket is the scanner's to refuse: all of the line. */
            bool bracket = p[skip] == '{' || p[skip] == '[';
            size_t end = bracket ? object_end(p + skip, left) : 0;
            if (end == 0 && !bracket) {
                const uint8_t *line = memchr(p + skip, '\n', left);
                end = line == NULL ? 0 : (size_t)(line - (p + skip));
            }
            if (end == 0 && w->ended) end = left;
            *out = bytes_of(p + skip, end);
            if (end > r->o.max_row_bytes)
                return error_set(err, PENNON_INVALID_ARGUMENT, "line %" PRIu64 ": an object of %zu bytes", w->line, end);
            if (end > 0) return PENNON_OK;
        }
        if (w->ended || !may_read) return PENNON_OK;
        TRY_RETURN(window_more(w, err));
    }
}

static void take_object(struct json_reader *r, struct bytes object)
{
    r->window.line += count_lines(object.data, object.size);
    r->window.at += object.size;
}

/* The failure of a scan as an error with its place. */
static pennon_status scan_error(const struct json_reader *r, const struct json_scan *s, pennon_status st, pennon_error *err)
{
    const char *name = r->source->name[0] != '\0' ? r->source->name : "JSON lines";
    if (st != PENNON_OK && st != PENNON_INVALID_ARGUMENT) return st;
    if (s->problem == NULL) return error_prefix(err, "%s, line %" PRIu64, name, r->window.line + count_lines(s->data, s->at));
    size_t column = s->at;
    while (column > 0 && s->data[column - 1] != '\n') column--;
    return error_set(err, PENNON_INVALID_ARGUMENT, "%s, line %" PRIu64 ", byte %zu: %s", name,
                     r->window.line + count_lines(s->data, s->at), s->at - column + 1, s->problem);
}

/* ------------------------------------------------------------------------------------------------------------- building
 * Every function is false at a problem of the scanner or with a failed *st. */

struct build {
    struct json_reader *r;
    struct json_scan s;
    pennon_status st;
    pennon_error *err;
};

static bool build_value(struct build *b, struct node *n, unsigned depth);

static bool check(struct build *b, pennon_status st)
{
    b->st = st;
    return st == PENNON_OK;
}

/* The child of this name: the search begins at `hint`. */
static struct node *child_of(const struct node *n, struct bytes name, size_t hint)
{
    for (size_t k = 0; k < n->n_children; k++) {
        struct node *c = &n->children[(hint + k) % n->n_children];
        if (c->name_size == name.size && memcmp(c->name, name.data, name.size) == 0) return c;
    }
    return NULL;
}

/* One "key": value; the position behind the field in *hint. */
static bool build_pair(struct build *b, struct node *n, size_t *hint, unsigned depth)
{
    struct bytes key;
    uint8_t next = 0;
    if (!json_space(&b->s, &next)) return false;
    if (next != '"') return json_fail(&b->s, "a key in quotes is expected");
    if (!json_take_text(&b->s, &key, &b->st, b->err)) return false;
    struct node *c = child_of(n, key, *hint);
    if (c == NULL && !b->r->o.ignore_unknown) {
        return check(b, error_set(b->err, PENNON_INVALID_ARGUMENT,
                                  "field '%.*s' was not in the first objects: give it a type, or ignore unknown fields",
                                  (int)min_u64(key.size, 100), (const char *)key.data));
    }
    if (!json_take(&b->s, ':', "':' is expected")) return false;
    if (c == NULL) return json_skip(&b->s, depth + 1, &b->st, b->err);
    if (c->object == n->objects) return json_fail(&b->s, "a key that the object has twice");
    c->object = n->objects;
    *hint = (size_t)(c - n->children) + 1;
    if (build_value(b, c, depth + 1)) return true;
    if (b->st == PENNON_INVALID_ARGUMENT) (void)error_prefix(b->err, "'%.100s'", c->name);
    return false;
}

static bool build_struct(struct build *b, struct node *n, unsigned depth)
{
    uint8_t next = 0;
    size_t hint = 0;
    n->objects++;
    b->s.at++;
    if (!json_space(&b->s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        if (first && next == '}') break;
        if (!first) b->s.at++;
        if (!build_pair(b, n, &hint, depth) || !json_space(&b->s, &next)) return false;
    }
    if (!json_take(&b->s, '}', "',' or '}' is expected")) return false;
    for (size_t i = 0; i < n->n_children; i++) {
        struct node *c = &n->children[i];
        if (c->object != n->objects && !check(b, builder_append_null(c->builder, b->err))) return false;
    }
    return check(b, builder_append_row(n->builder, b->err));
}

static bool build_list(struct build *b, struct node *n, unsigned depth)
{
    uint8_t next = 0;
    b->s.at++;
    if (!json_space(&b->s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        if (first && next == ']') break;
        if (!first) b->s.at++;
        if (!build_value(b, &n->children[0], depth + 1) || !json_space(&b->s, &next)) return false;
    }
    return json_take(&b->s, ']', "',' or ']' is expected") && check(b, builder_append_row(n->builder, b->err));
}

/* An object as the entries of a map. */
static bool build_map(struct build *b, struct node *n, unsigned depth)
{
    struct node *entries = &n->children[0];
    struct node *key = &entries->children[0];
    uint8_t next = 0;
    struct bytes text;
    b->s.at++;
    if (!json_space(&b->s, &next)) return false;
    for (bool first = true; first || next == ','; first = false) {
        if (first && next == '}') break;
        if (!first) b->s.at++;
        if (!json_space(&b->s, &next)) return false;
        if (next != '"') return json_fail(&b->s, "a key in quotes is expected");
        if (!json_take_text(&b->s, &text, &b->st, b->err)) return false;
        if (!type_has_text(&key->type)) return json_fail(&b->s, "an object for a map whose keys are no texts");
        if (!check(b, append_text_value(key->builder, &key->type, text, &b->r->binary, b->err))) return false;
        if (!json_take(&b->s, ':', "':' is expected") || !build_value(b, &entries->children[1], depth + 1)) return false;
        if (!check(b, builder_append_row(entries->builder, b->err)) || !json_space(&b->s, &next)) return false;
    }
    return json_take(&b->s, '}', "',' or '}' is expected") && check(b, builder_append_row(n->builder, b->err));
}

static bool mismatch(struct build *b, const struct node *n, const char *what)
{
    const char *hint = n->given ? "" : " (the type was inferred from the first objects; a type can be given)";
    return check(b, error_set(b->err, PENNON_INVALID_ARGUMENT, "%s where the type is %s%s", what, arrow_id_name(n->type.id), hint));
}

static bool is_time(const struct arrow_type *t) { return t->id >= ARROW_DATE32 && t->id <= ARROW_DURATION; }

static bool build_text(struct build *b, struct node *n)
{
    struct bytes text;
    double d = 0;
    if (!json_take_text(&b->s, &text, &b->st, b->err)) return false;
    if (arrow_id_is_text(n->type.id)) return check(b, builder_append_bytes(n->builder, text, b->err)); /* UTF-8 was checked */
    bool number = arrow_id_is_integer(n->type.id) || n->type.id == ARROW_BOOL || arrow_id_is_float(n->type.id);
    bool special = arrow_id_is_float(n->type.id) && parse_double(text, &d) && d - d != 0;
    if (!type_has_text(&n->type) || (number && !n->given && !special)) return mismatch(b, n, "a text");
    return check(b, append_text_value(n->builder, &n->type, text, &b->r->binary, b->err));
}

/* A whole number that double cannot hold exactly. */
static bool is_inexact(struct bytes text)
{
    int64_t i = 0;
    uint64_t exact = (uint64_t)1 << 53;
    return !parse_int64(text, &i) || (i < 0 ? 0 - (uint64_t)i : (uint64_t)i) > exact;
}

static bool build_number(struct build *b, struct node *n)
{
    struct bytes text;
    bool whole = false;
    int64_t v = 0;
    if (!json_number(&b->s, &text, &whole)) return false;
    if (whole && (n->type.id == ARROW_INT64 || is_time(&n->type)) && parse_int64(text, &v))
        return check(b, builder_append_int(n->builder, v, b->err));
    if (arrow_id_is_text(n->type.id) && n->given) return check(b, builder_append_bytes(n->builder, text, b->err));
    bool number = arrow_id_is_integer(n->type.id) || arrow_id_is_float(n->type.id) || arrow_id_is_decimal(n->type.id);
    if (!number) return mismatch(b, n, "a number");
    if (whole && arrow_id_is_float(n->type.id) && !n->given && is_inexact(text)) {
        return json_fail(&b->s, "a whole number that double cannot hold exactly");
    }
    return check(b, append_text_value(n->builder, &n->type, text, &b->r->binary, b->err));
}

static bool build_literal(struct build *b, struct node *n, bool truth)
{
    if (!json_literal(&b->s, truth ? "true" : "false")) return false;
    if (n->type.id != ARROW_BOOL) return mismatch(b, n, "a truth value");
    return check(b, builder_append_bool(n->builder, truth, b->err));
}

static bool build_value(struct build *b, struct node *n, unsigned depth)
{
    uint8_t next = 0;
    bool list = n->type.layout >= LAYOUT_LIST32 && n->type.layout <= LAYOUT_FIXED_LIST;
    if (depth > JSON_MAX_DEPTH) return json_fail(&b->s, "nested too deeply");
    if (!json_space(&b->s, &next)) return false;
    switch (next) {
    case '{':
        if (n->type.layout == LAYOUT_STRUCT) return build_struct(b, n, depth);
        return n->type.id == ARROW_MAP ? build_map(b, n, depth) : mismatch(b, n, "an object");
    case '[': return list ? build_list(b, n, depth) : mismatch(b, n, "an array");
    case '"': return build_text(b, n);
    case 't':
    case 'f': return build_literal(b, n, next == 't');
    case 'n': return json_literal(&b->s, "null") && check(b, builder_append_null(n->builder, b->err));
    default: break;
    }
    if (next != '-' && (next < '0' || next > '9')) return json_fail(&b->s, "a value is expected");
    return build_number(b, n);
}

static pennon_status append_object(struct json_reader *r, struct bytes object, pennon_error *err)
{
    struct build b = {.r = r, .s = {.data = object.data, .size = object.size, .scratch = &r->scratch}, .err = err};
    bool ok = object.data[0] == '{' ? build_struct(&b, &r->top, 1) : json_fail(&b.s, "an object is expected");
    if (ok && b.s.at != object.size) ok = json_fail(&b.s, "something behind the object");
    return ok ? PENNON_OK : scan_error(r, &b.s, b.st, err);
}

static pennon_status json_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct json_reader *r = ctx;
    struct ArrowArray built = {0};
    while ((uint64_t)builder_length(r->rows) < r->o.batch_rows) {
        struct bytes object;
        TRY(next_object(r, true, &object, err));
        if (object.size == 0) break;
        TRY(append_object(r, object, err));
        take_object(r, object);
        if ((builder_length(r->rows) & 1023) == 0 && builder_bytes(r->rows) >= BATCH_BYTES) break;
    }
    if (builder_length(r->rows) == 0) goto done;
    TRY(builder_finish(r->rows, &built, err));
    if (r->cast) {
        TRY(array_cast(&r->built, &built, &r->schema, r->mem, out, err));
    } else {
        array_move(&built, out);
    }
done:
    array_release(&built);
    return st;
}

/* --------------------------------------------------------------------------------------------------------------- open */

static pennon_status guess_all(struct json_reader *r, struct json_guess *g, pennon_error *err)
{
    struct window *w = &r->window;
    struct bytes object;
    /* A first object that is longer than the usual window is looked at too. */
    TRY_RETURN(next_object(r, true, &object, err));
    TRY_RETURN(window_fill(w, INFER_BYTES, err));
    size_t at = w->at;
    uint64_t line = w->line;
    for (uint64_t n = 0; n < r->o.infer_rows; n++) {
        struct json_scan s = {.scratch = &r->scratch};
        pennon_status st = PENNON_OK;
        TRY_RETURN(next_object(r, false, &object, err));
        if (object.size == 0) break;
        s.data = object.data;
        s.size = object.size;
        if (!json_guess_object(g, &s, &r->types, &st, err)) return scan_error(r, &s, st, err);
        take_object(r, object);
    }
    w->at = at;
    w->line = line;
    return PENNON_OK;
}

static pennon_status make_node(struct json_reader *r, const struct ArrowSchema *schema, struct builder *builder, bool given,
                               struct node *n, pennon_error *err)
{
    n->builder = builder;
    n->name = schema->name;
    n->name_size = strlen(schema->name);
    n->given = given;
    n->n_children = (size_t)schema->n_children;
    TRY_RETURN(arrow_type_of(schema, &n->type, err));
    if (schema->n_children == 0) return PENNON_OK;
    n->children = arena_calloc(&r->nodes, n->n_children, sizeof *n->children, err);
    if (n->children == NULL) return err->code;
    for (size_t i = 0; i < n->n_children; i++) {
        const struct ArrowSchema *child = schema->children[i];
        bool child_given = given || (schema == &r->built && column_types_find(&r->types, bytes_str(child->name)) != NULL);
        TRY_RETURN(make_node(r, child, builder_child(builder, i), child_given, &n->children[i], err));
    }
    return PENNON_OK;
}

/* Leaves that JSON can give values of. */
static pennon_status check_leaves(const struct ArrowSchema *schema, pennon_error *err)
{
    struct arrow_type type;
    TRY_RETURN(arrow_type_of(schema, &type, err));
    if (schema->n_children == 0 && type.layout <= LAYOUT_VIEW && type.layout != LAYOUT_NULL && !type_has_text(&type)) {
        return error_set(err, PENNON_NOT_SUPPORTED, "field '%.100s': JSON lines cannot give values of type %s", schema->name,
                         arrow_id_name(type.id));
    }
    for (int64_t i = 0; i < schema->n_children; i++) TRY_RETURN(check_leaves(schema->children[i], err));
    return PENNON_OK;
}

/* The schema that is built: top-level dictionaries as their values. */
static pennon_status make_built(struct json_reader *r, pennon_error *err)
{
    TRY_RETURN(arrow_schema_new(&r->built, "+s", "", 0, (size_t)r->schema.n_children, r->mem, err));
    for (int64_t i = 0; i < r->schema.n_children; i++) {
        const struct ArrowSchema *field = r->schema.children[i];
        bool dictionary = field->dictionary != NULL;
        TRY_RETURN(arrow_schema_copy(dictionary ? field->dictionary : field, r->mem, r->built.children[i], err));
        if (dictionary) TRY_RETURN(arrow_schema_set_name(r->built.children[i], field->name, err));
        r->cast = r->cast || dictionary;
        TRY_RETURN(check_leaves(r->built.children[i], err));
    }
    return PENNON_OK;
}

static pennon_status read_head(struct json_reader *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct json_guess *g = NULL;
    arena_init(&arena, r->mem);
    TRY_NEW(g, json_guess_new(&arena, err));
    TRY(guess_all(r, g, err));
    TRY(json_guess_schema(g, &r->types, r->mem, &r->schema, err));
    TRY(make_built(r, err));
    TRY_NEW(r->rows, builder_new(&r->built, r->mem, err));
    TRY(make_node(r, &r->built, r->rows, false, &r->top, err));
done:
    arena_reset(&arena);
    return st;
}

static pennon_status check_options(const pennon_json_lines_options *o, pennon_error *err)
{
    if (o->batch_rows > 0 && o->max_row_bytes > 0 && o->infer_rows > 0) return PENNON_OK;
    return error_set(err, PENNON_INVALID_ARGUMENT, "batch_rows, max_row_bytes and infer_rows have to be at least 1");
}

pennon_status json_lines_reader_open(struct byte_source *source, const pennon_json_lines_options *options,
                                     struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct json_reader *r = NULL;
    struct ArrowSchema schema = {0};
    struct mem *mem = source->call.mem;

    memset(out, 0, sizeof *out);
    r = mem_calloc(mem, 1, sizeof *r, err);
    if (r == NULL) {
        byte_source_delete(source);
        return err->code;
    }
    r->mem = mem;
    r->source = source;
    r->o = *options;
    r->types.mem = mem;
    arena_init(&r->nodes, mem);
    buf_init(&r->scratch, mem, BUF_NO_LIMIT);
    buf_init(&r->binary, mem, BUF_NO_LIMIT);
    window_init(&r->window, source, mem, (size_t)min_u64(r->o.max_row_bytes, SIZE_MAX / 4));
    TRY(check_options(&r->o, err));
    TRY(column_types_parse(r->o.types, mem, &r->types, err));
    TRY(window_fill(&r->window, 3, err));
    if (window_left(&r->window) >= 3 && memcmp(window_data(&r->window), "\xef\xbb\xbf", 3) == 0) r->window.at += 3;
    TRY(read_head(r, err));
    TRY(arrow_schema_copy(&r->schema, mem, &schema, err));
    st = stream_new(&schema, json_next, json_reader_free, r, mem, out, err);
    return st;
done:
    json_reader_free(r);
    return st;
}
