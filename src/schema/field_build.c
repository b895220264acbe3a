/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From the logical type of a field to its kind and its Arrow form.
 *
 * logical type                | Arrow              | logical type            | Arrow
 * ----------------------------|--------------------|-------------------------|---------------------------------
 * null bool int8 … uint64     | the same           | timestamp:U:ZONE        | timestamp; "-" is no zone
 * halffloat float double      | float16 32 64      | duration:U time32:U …   | the same, U of s ms us ns
 * string large_string         | utf8 large_utf8    | decimal:128:P:S (256)   | decimal128, decimal256
 * binary large_binary         | the same           | fixed_size_binary:N     | the same
 * json                        | large_binary       | fixed_size_list:T:N     | fixed size list, T nests
 * blob (old)                  | large_binary, blob | dict:V:K:false          | dictionary, values first
 * struct list list.struct large_list large_list.struct map fixed_size_list:struct:N take their children from fields.
 *
 * A zone, and the value type of a dictionary, may hold colons: the fixed ends of the text are cut off first.
 * Arrow forms live in the schema's arena; their release does nothing.
 * Source: spec file-format 4.2, table-format 7, 14. */
#include <stdio.h>

#include "schema/schema_private.h"

struct plain_name {
    const char *logical;
    const char *format;
};

static const struct plain_name PLAIN[] = {
    {"null", "n"},          {"bool", "b"},          {"int8", "c"},         {"uint8", "C"},        {"int16", "s"},
    {"uint16", "S"},        {"int32", "i"},         {"uint32", "I"},       {"int64", "l"},        {"uint64", "L"},
    {"halffloat", "e"},     {"float", "f"},         {"double", "g"},       {"string", "u"},       {"large_string", "U"},
    {"binary", "z"},        {"large_binary", "Z"},  {"date32:day", "tdD"}, {"date64:ms", "tdm"},  {"time32:s", "tts"},
    {"time32:ms", "ttm"},   {"time64:us", "ttu"},   {"time64:ns", "ttn"},  {"duration:s", "tDs"}, {"duration:ms", "tDm"},
    {"duration:us", "tDu"}, {"duration:ns", "tDn"},
};

/* Types whose children are fields of their own. */
static const struct plain_name NESTED[] = {
    {"struct", "+s"}, {"list", "+l"}, {"list.struct", "+l"}, {"large_list", "+L"}, {"large_list.struct", "+L"}, {"map", "+m"},
};

static void release_nothing(struct ArrowSchema *s) { s->release = NULL; }

static pennon_status unknown_type(const struct field *f, pennon_error *err)
{
    return error_set(err, PENNON_CORRUPT, "schema: field '%.128s' has the logical type '%.256s', which is none", f->name,
                     f->logical_type);
}

static bool cut_prefix(struct bytes *text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (text->size < n || memcmp(text->data, prefix, n) != 0) return false;
    text->data += n;
    text->size -= n;
    return true;
}

static bool cut_suffix(struct bytes *text, const char *suffix)
{
    size_t n = strlen(suffix);
    if (text->size < n || memcmp(text->data + text->size - n, suffix, n) != 0) return false;
    text->size -= n;
    return true;
}

/* Split at the last colon: `text` keeps what is before it. */
static bool cut_last(struct bytes *text, struct bytes *tail)
{
    for (size_t i = text->size; i > 0; i--) {
        if (text->data[i - 1] != ':') continue;
        *tail = bytes_of(text->data + i, text->size - i);
        text->size = i - 1;
        return true;
    }
    return false;
}

/* The whole text is a decimal number in [0, INT32_MAX]. */
static bool parse_count(struct bytes text, int32_t *out)
{
    int64_t v = 0;
    if (text.size == 0) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        v = v * 10 + (text.data[i] - '0');
        if (v > INT32_MAX) return false;
    }
    *out = (int32_t)v;
    return true;
}

static bool parse_signed(struct bytes text, int32_t *out)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    if (negative) text = bytes_of(text.data + 1, text.size - 1);
    if (!parse_count(text, out)) return false;
    if (negative) *out = -*out;
    return true;
}

static const char *find_plain(const struct plain_name *names, size_t n, struct bytes text)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_are(text, names[i].logical)) return names[i].format;
    }
    return NULL;
}

/* "timestamp:" is cut off already. */
static pennon_status timestamp_format(struct arena *a, struct bytes text, const char **out, pennon_error *err)
{
    static const char *const units[] = {"s:", "ms:", "us:", "ns:"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (!cut_prefix(&text, units[i])) continue;
        if (bytes_are(text, "-")) text.size = 0;
        char *format = arena_alloc(a, text.size + 5, err);
        if (format == NULL) return err->code;
        memcpy(format, "ts", 2);
        format[2] = "smun"[i];
        format[3] = ':';
        if (text.size > 0) memcpy(format + 4, text.data, text.size);
        format[4 + text.size] = '\0';
        *out = format;
        break;
    }
    return PENNON_OK;
}

static pennon_status format_text(struct arena *a, const char **out, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(4, 5);
static pennon_status format_text(struct arena *a, const char **out, pennon_error *err, const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ASSERT(n > 0 && (size_t)n < sizeof text);
    *out = arena_strndup(a, text, (size_t)n, err);
    return *out != NULL ? PENNON_OK : err->code;
}

static pennon_status decimal_format(struct arena *a, struct bytes text, int32_t bits, const char **out, pennon_error *err)
{
    struct bytes tail;
    int32_t precision, scale;
    if (!cut_last(&text, &tail) || !parse_count(text, &precision) || !parse_signed(tail, &scale)) return PENNON_OK;
    if (precision < 1 || precision > (bits == 128 ? 38 : 76) || scale < -128 || scale > 127) return PENNON_OK;
    if (bits == 128) return format_text(a, out, err, "d:%" PRId32 ",%" PRId32, precision, scale);
    return format_text(a, out, err, "d:%" PRId32 ",%" PRId32 ",256", precision, scale);
}

/* Arrow format of a type without children; *out stays NULL when the text names none. */
static pennon_status plain_format(struct arena *a, struct bytes text, const char **out, pennon_error *err)
{
    int32_t n;
    *out = find_plain(PLAIN, ARRAY_LEN(PLAIN), text);
    if (*out != NULL) return PENNON_OK;
    if (cut_prefix(&text, "timestamp:")) return timestamp_format(a, text, out, err);
    if (cut_prefix(&text, "decimal:128:")) return decimal_format(a, text, 128, out, err);
    if (cut_prefix(&text, "decimal:256:")) return decimal_format(a, text, 256, out, err);
    if (cut_prefix(&text, "fixed_size_binary:") && parse_count(text, &n)) return format_text(a, out, err, "w:%" PRId32, n);
    return PENNON_OK;
}

/* ---- parts of the Arrow form ---- */

static struct ArrowSchema *inner_schema(struct arena *a, const char *format, const char *name, pennon_error *err)
{
    struct ArrowSchema *s = arena_calloc(a, 1, sizeof *s, err);
    if (s == NULL) return NULL;
    *s = (struct ArrowSchema){.format = format, .name = name, .flags = ARROW_FLAG_NULLABLE, .release = release_nothing};
    return s;
}

static pennon_status set_one_child(struct arena *a, struct ArrowSchema *s, struct ArrowSchema *child, pennon_error *err)
{
    s->children = arena_calloc(a, 1, sizeof(struct ArrowSchema *), err);
    if (s->children == NULL) return err->code;
    s->children[0] = child;
    s->n_children = 1;
    return PENNON_OK;
}

static pennon_status build_bfloat16(struct arena *a, struct ArrowSchema *list, pennon_error *err)
{
    static const struct field_pair pairs[] = {
        {{(const uint8_t *)KEY_EXTENSION_METADATA, sizeof KEY_EXTENSION_METADATA - 1}, {(const uint8_t *)"", 0}},
        {{(const uint8_t *)KEY_EXTENSION_NAME, sizeof KEY_EXTENSION_NAME - 1},
         {(const uint8_t *)EXTENSION_BFLOAT16, sizeof EXTENSION_BFLOAT16 - 1}},
    };
    struct ArrowSchema *item = inner_schema(a, "w:2", "item", err);
    if (item == NULL) return err->code;
    TRY_RETURN(pairs_encode(a, pairs, ARRAY_LEN(pairs), NULL, &item->metadata, err));
    return set_one_child(a, list, item, err);
}

/* The items of a fixed size list: `text` is the item type. `list` is the Arrow form that gets the child; one level a turn. */
static pennon_status build_list_items(struct schema *s, struct field *f, struct bytes text, struct ArrowSchema *list,
                                      unsigned depth, pennon_error *err)
{
    for (;;) {
        struct bytes tail;
        const char *format = NULL;
        int32_t n;
        CHECK_FILE_RETURN(++depth <= FIELD_MAX_DEPTH, "schema: field '%.128s' nests deeper than %d", f->name, ARROW_MAX_DEPTH);
        if (bytes_are(text, EXTENSION_BFLOAT16)) return build_bfloat16(&s->arena, list, err);
        if (!cut_prefix(&text, "fixed_size_list:")) {
            /* Official takes lists of texts into a schema although no file can hold them: the column is refused when it is read. */
            TRY_RETURN(plain_format(&s->arena, text, &format, err));
            if (format == NULL) return unknown_type(f, err);
            struct ArrowSchema *item = inner_schema(&s->arena, format, "item", err);
            return item != NULL ? set_one_child(&s->arena, list, item, err) : err->code;
        }
        if (!cut_last(&text, &tail) || !parse_count(tail, &n) || n == 0) return unknown_type(f, err);
        TRY_RETURN(format_text(&s->arena, &format, err, "+w:%" PRId32, n));
        struct ArrowSchema *item = inner_schema(&s->arena, format, "item", err);
        if (item == NULL) return err->code;
        TRY_RETURN(set_one_child(&s->arena, list, item, err));
        list = item;
    }
}

static pennon_status build_dictionary(struct schema *s, struct field *f, struct bytes text, pennon_error *err)
{
    struct bytes key;
    struct arrow_type type = {.id = ARROW_NULL};
    const char *value = NULL;
    if (!cut_suffix(&text, ":false") && !cut_suffix(&text, ":true")) return unknown_type(f, err);
    if (!cut_last(&text, &key)) return unknown_type(f, err);
    f->arrow.format = find_plain(PLAIN, ARRAY_LEN(PLAIN), key);
    TRY_RETURN(plain_format(&s->arena, text, &value, err));
    if (value == NULL || f->arrow.format == NULL) return unknown_type(f, err);
    TRY_RETURN(arrow_type_parse(f->arrow.format, &type, err));
    if (!arrow_id_is_integer(type.id)) return unknown_type(f, err);
    f->arrow.dictionary = inner_schema(&s->arena, value, "", err);
    return f->arrow.dictionary != NULL ? PENNON_OK : err->code;
}

/* The children's Arrow forms, by pointer: parent and child share them. */
static pennon_status link_children(struct schema *s, struct field *f, pennon_error *err)
{
    if (f->n_children == 0) return PENNON_OK;
    f->arrow.children = arena_calloc(&s->arena, f->n_children, sizeof(struct ArrowSchema *), err);
    if (f->arrow.children == NULL) return err->code;
    for (size_t i = 0; i < f->n_children; i++) f->arrow.children[i] = &f->children[i]->arrow;
    f->arrow.n_children = (int64_t)f->n_children;
    return PENNON_OK;
}

/* ---- kinds ---- */

static bool metadata_true(const struct field *f, const char *key)
{
    struct bytes v = field_metadata_get(f, key);
    if (v.size != 4) return false;
    for (size_t i = 0; i < 4; i++) {
        if ((v.data[i] | 0x20) != (uint8_t) "true"[i]) return false;
    }
    return true;
}

static enum field_kind struct_kind(const struct field *f)
{
    if (bytes_are(field_metadata_get(f, KEY_EXTENSION_NAME), EXTENSION_BLOB_V2)) return FIELD_BLOB_V2;
    /* A data file names the descriptors of a blob v2 column so. */
    if (field_metadata_get(f, KEY_BLOB).data != NULL) return FIELD_BLOB_V2;
    if (metadata_true(f, KEY_PACKED) || metadata_true(f, KEY_PACKED_OLD)) return FIELD_PACKED_STRUCT;
    return FIELD_STRUCT;
}

static pennon_status build_nested(struct schema *s, struct field *f, const char *format, pennon_error *err)
{
    f->arrow.format = format;
    if (format[1] == 's') {
        f->kind = struct_kind(f);
        if (f->kind != FIELD_BLOB_V2) return link_children(s, f, err);
        f->arrow.format = "Z";
        return PENNON_OK;
    }
    f->kind = format[1] == 'm' ? FIELD_MAP : FIELD_LIST;
    CHECK_FILE_RETURN(f->n_children == 1, "schema: field '%.128s' of type %.64s has %zu children", f->name, f->logical_type,
                      f->n_children);
    if (f->kind == FIELD_MAP) {
        const struct field *entries = f->children[0];
        CHECK_FILE_RETURN(entries->kind == FIELD_STRUCT && entries->n_children == 2,
                          "schema: map '%.128s' has no entries of key and value", f->name);
    }
    return link_children(s, f, err);
}

static pennon_status build_struct_list(struct schema *s, struct field *f, pennon_error *err)
{
    f->kind = FIELD_FSL_STRUCT;
    CHECK_FILE_RETURN(f->n_children == 1 && f->children[0]->arrow.format[1] == 's',
                      "schema: field '%.128s' of type %.64s has no struct of items", f->name, f->logical_type);
    return link_children(s, f, err);
}

/* A leaf: the format is in f->arrow, or the text names none. */
static pennon_status build_leaf(struct schema *s, struct field *f, struct bytes text, unsigned depth, pennon_error *err)
{
    struct bytes tail;
    int32_t n;
    f->kind = FIELD_LEAF;
    if (bytes_are(text, "json")) {
        f->arrow.format = "Z";
    } else if (bytes_are(text, "blob")) {
        f->arrow.format = "Z";
        f->kind = FIELD_BLOB_V1;
    } else if (cut_prefix(&text, "dict:")) {
        TRY_RETURN(build_dictionary(s, f, text, err));
    } else if (cut_prefix(&text, "fixed_size_list:")) {
        if (!cut_last(&text, &tail) || !parse_count(tail, &n) || n == 0) return unknown_type(f, err);
        TRY_RETURN(format_text(&s->arena, &f->arrow.format, err, "+w:%" PRId32, n));
        if (bytes_are(text, "struct")) return build_struct_list(s, f, err);
        TRY_RETURN(build_list_items(s, f, text, &f->arrow, depth, err));
    } else {
        TRY_RETURN(plain_format(&s->arena, text, &f->arrow.format, err));
        if (f->arrow.format == NULL) return unknown_type(f, err);
        bool binary = strcmp(f->arrow.format, "Z") == 0 || strcmp(f->arrow.format, "z") == 0;
        if (binary && field_metadata_get(f, KEY_BLOB).data != NULL) f->kind = FIELD_BLOB_V1;
    }
    CHECK_FILE_RETURN(f->n_children == 0, "schema: field '%.128s' of type %.64s has children", f->name, f->logical_type);
    return PENNON_OK;
}

pennon_status field_build(struct schema *s, struct field *f, unsigned depth, pennon_error *err)
{
    static const char *const no_extension[] = {KEY_EXTENSION_NAME, KEY_EXTENSION_METADATA, NULL};
    struct bytes text = bytes_str(f->logical_type);
    const char *nested = find_plain(NESTED, ARRAY_LEN(NESTED), text);
    ASSERT(f->name != NULL && depth >= 1 && depth <= FIELD_MAX_DEPTH);
    f->arrow = (struct ArrowSchema){.name = f->name, .flags = f->nullable ? ARROW_FLAG_NULLABLE : 0, .release = release_nothing};
    TRY_RETURN(nested != NULL ? build_nested(s, f, nested, err) : build_leaf(s, f, text, depth, err));
    ASSERT(f->arrow.format != NULL);
    TRY_RETURN(pairs_encode(&s->arena, f->metadata, f->n_metadata, f->kind == FIELD_BLOB_V2 ? no_extension : NULL,
                            &f->arrow.metadata, err));
    if (arrow_type_of(&f->arrow, &f->type, err) != PENNON_OK) return unknown_type(f, err);
    return PENNON_OK;
}
