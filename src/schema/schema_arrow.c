/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From an Arrow schema to a table's schema: what the format can hold, and the logical types.
 *
 * Refused by name: intervals, unions, run ends, decimals of 32 and 64 bits, maps before 2.2 or with sorted keys, fixed size lists of anything
 * but fixed width values (and of structs from 2.2 on), empty structs from 2.1 on, blobs in the wrong version, and what official cannot read
 * back: dictionary values or time zones whose text holds a colon.
 *
 * View types become plain ones. arrow.json on text and lance.json on large_binary become the logical type json.
 * Source: spec file-format 4, 14, 18, table-format 7, commits 6.3, 6.4. */
#include <stdio.h>

#include "schema/schema_private.h"

/* wire_encoding */
enum { ENCODING_NONE = 0, ENCODING_PLAIN = 1, ENCODING_VAR_BINARY = 2, ENCODING_DICTIONARY = 3 };

struct converting {
    struct schema *schema;
    uint32_t version;
    const char *path[ARROW_MAX_DEPTH]; /* names from the top, for messages */
    unsigned depth;
    const char *no_blobs; /* a type above that no blob may be in, or NULL */
    pennon_error *err;
};

static pennon_status refuse(const struct converting *c, pennon_status code, const char *fmt, ...) PRINTF_LIKE(3, 4);
static pennon_status refuse(const struct converting *c, pennon_status code, const char *fmt, ...)
{
    char path[512];
    size_t at = 0;
    for (unsigned i = 0; i < c->depth && at < sizeof path; i++) {
        int n = snprintf(path + at, sizeof path - at, "%s%s", i > 0 ? "." : "", c->path[i]);
        if (n < 0) break;
        at += (size_t)n;
    }
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(c->err, code, fmt, args);
    va_end(args);
    (void)error_prefix(c->err, "column '%s'", c->depth > 0 ? path : "");
    return error_kind(c->err, code == PENNON_NOT_SUPPORTED ? "NotSupported" : "Schema");
}

/* ---- logical types ---- */

static const char *simple_logical(enum arrow_id id)
{
    switch (id) {
    case ARROW_NULL: return "null";
    case ARROW_BOOL: return "bool";
    case ARROW_INT8: return "int8";
    case ARROW_UINT8: return "uint8";
    case ARROW_INT16: return "int16";
    case ARROW_UINT16: return "uint16";
    case ARROW_INT32: return "int32";
    case ARROW_UINT32: return "uint32";
    case ARROW_INT64: return "int64";
    case ARROW_UINT64: return "uint64";
    case ARROW_FLOAT16: return "halffloat";
    case ARROW_FLOAT32: return "float";
    case ARROW_FLOAT64: return "double";
    case ARROW_DATE32: return "date32:day";
    case ARROW_DATE64: return "date64:ms";
    case ARROW_UTF8:
    case ARROW_UTF8_VIEW: return "string";
    case ARROW_LARGE_UTF8: return "large_string";
    case ARROW_BINARY:
    case ARROW_BINARY_VIEW: return "binary";
    case ARROW_LARGE_BINARY: return "large_binary";
    case ARROW_STRUCT: return "struct";
    case ARROW_MAP: return "map";
    default: return NULL;
    }
}

static const char *unit_text(enum arrow_unit unit)
{
    static const char *const texts[] = {"s", "ms", "us", "ns"};
    return texts[unit];
}

static pennon_status append_logical(const struct converting *c, const struct ArrowSchema *a, struct buf *out);

static pennon_status append_list_items(const struct converting *c, const struct ArrowSchema *item, struct buf *out)
{
    struct arrow_type type;
    TRY_RETURN(arrow_type_of(item, &type, c->err));
    if (type.id == ARROW_FIXED_SIZE_BINARY && type.fixed_size == 2 &&
        bytes_are(arrow_metadata_get(item->metadata, KEY_EXTENSION_NAME), EXTENSION_BFLOAT16)) {
        return buf_printf(out, c->err, "%s", EXTENSION_BFLOAT16);
    }
    bool fixed = (type.layout == LAYOUT_FIXED && type.id != ARROW_DICTIONARY) || type.layout == LAYOUT_BITS ||
                 type.layout == LAYOUT_FIXED_LIST;
    if (!fixed)
        return refuse(c, PENNON_NOT_SUPPORTED, "a fixed size list of %s cannot be stored; use a list", arrow_id_name(type.id));
    return append_logical(c, item, out);
}

static pennon_status append_fixed_list(const struct converting *c, const struct ArrowSchema *a, const struct arrow_type *type,
                                       struct buf *out)
{
    const struct ArrowSchema *item = a->children[0];
    if (type->fixed_size <= 0)
        return refuse(c, PENNON_INVALID_ARGUMENT, "a fixed size list of %" PRId32 " items", type->fixed_size);
    TRY_RETURN(buf_printf(out, c->err, "fixed_size_list:"));
    if (strcmp(item->format, "+s") == 0 && out->size == strlen("fixed_size_list:")) {
        if (c->version < STORAGE_2_2)
            return refuse(c, PENNON_NOT_SUPPORTED, "a fixed size list of structs needs data storage version 2.2");
        TRY_RETURN(buf_printf(out, c->err, "struct"));
    } else {
        TRY_RETURN(append_list_items(c, item, out));
    }
    return buf_printf(out, c->err, ":%" PRId32, type->fixed_size);
}

static pennon_status append_timestamp(const struct converting *c, const struct arrow_type *type, struct buf *out)
{
    const char *zone = type->timezone != NULL ? type->timezone : "";
    if (strchr(zone, ':') != NULL || strcmp(zone, "-") == 0) {
        return refuse(c, PENNON_NOT_SUPPORTED,
                      "time zone '%.64s': official Lance cannot read back a zone with a colon; use a zone name such as UTC", zone);
    }
    return buf_printf(out, c->err, "timestamp:%s:%s", unit_text(type->unit), zone[0] != '\0' ? zone : "-");
}

static pennon_status append_dictionary(const struct converting *c, const struct ArrowSchema *a, const struct arrow_type *type,
                                       struct buf *out)
{
    struct arrow_type value;
    size_t start;
    TRY_RETURN(arrow_type_of(a->dictionary, &value, c->err));
    bool plain = value.layout == LAYOUT_FIXED || value.layout == LAYOUT_BITS || arrow_id_is_variable(value.id);
    if (!plain || value.id == ARROW_DICTIONARY)
        return refuse(c, PENNON_NOT_SUPPORTED, "a dictionary of %s", arrow_id_name(value.id));
    TRY_RETURN(buf_printf(out, c->err, "dict:"));
    start = out->size;
    TRY_RETURN(append_logical(c, a->dictionary, out));
    if (memchr(out->data + start, ':', out->size - start) != NULL) {
        return refuse(c, PENNON_NOT_SUPPORTED, "a dictionary of %s: official Lance cannot read its type back; decode it",
                      arrow_id_name(value.id));
    }
    return buf_printf(out, c->err, ":%s:false", simple_logical(type->index));
}

static pennon_status append_logical(const struct converting *c, const struct ArrowSchema *a, struct buf *out)
{
    struct arrow_type t;
    pennon_error *err = c->err;
    TRY_RETURN(arrow_type_of(a, &t, err));
    const char *simple = simple_logical(t.id);
    if (simple != NULL) return buf_printf(out, err, "%s", simple);
    switch (t.id) {
    case ARROW_TIME32: return buf_printf(out, err, "time32:%s", unit_text(t.unit));
    case ARROW_TIME64: return buf_printf(out, err, "time64:%s", unit_text(t.unit));
    case ARROW_DURATION: return buf_printf(out, err, "duration:%s", unit_text(t.unit));
    case ARROW_TIMESTAMP: return append_timestamp(c, &t, out);
    case ARROW_DECIMAL128: return buf_printf(out, err, "decimal:128:%" PRId32 ":%" PRId32, t.precision, t.scale);
    case ARROW_DECIMAL256: return buf_printf(out, err, "decimal:256:%" PRId32 ":%" PRId32, t.precision, t.scale);
    case ARROW_FIXED_SIZE_BINARY: return buf_printf(out, err, "fixed_size_binary:%" PRId32, t.fixed_size);
    case ARROW_FIXED_SIZE_LIST: return append_fixed_list(c, a, &t, out);
    case ARROW_DICTIONARY: return append_dictionary(c, a, &t, out);
    case ARROW_LIST:
    case ARROW_LIST_VIEW: return buf_printf(out, err, "list%s", strcmp(a->children[0]->format, "+s") == 0 ? ".struct" : "");
    case ARROW_LARGE_LIST:
    case ARROW_LARGE_LIST_VIEW:
        return buf_printf(out, err, "large_list%s", strcmp(a->children[0]->format, "+s") == 0 ? ".struct" : "");
    default: return refuse(c, PENNON_NOT_SUPPORTED, "the format has no type for %s", arrow_id_name(t.id));
    }
}

static uint32_t choose_encoding(const struct arrow_type *t)
{
    if (t->id == ARROW_DICTIONARY) return ENCODING_DICTIONARY;
    if (arrow_id_is_variable(t->id)) return ENCODING_VAR_BINARY;
    if (t->id == ARROW_STRUCT || t->id == ARROW_NULL) return ENCODING_NONE;
    return ENCODING_PLAIN;
}

/* ---- metadata ---- */

static pennon_status parse_field_id(const struct converting *c, struct bytes text, int32_t *out)
{
    int64_t v = 0;
    bool good = text.size > 0;
    bool negative = good && text.data[0] == '-';
    for (size_t i = negative; good && i < text.size; i++) {
        good = text.data[i] >= '0' && text.data[i] <= '9';
        v = v * 10 + (text.data[i] - '0');
        good = good && v <= INT32_MAX;
    }
    if (!good) return refuse(c, PENNON_INVALID_ARGUMENT, "the metadata %s is not a number of 31 bits", KEY_FIELD_ID);
    *out = negative ? FIELD_NO_ID : (int32_t)v;
    return PENNON_OK;
}

/* A number of 32 bits, or false. */
static bool parse_u32(struct bytes text, uint32_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        v = v * 10 + (uint64_t)(text.data[i] - '0');
        if (v > UINT32_MAX) return false;
    }
    *out = (uint32_t)v;
    return text.size > 0;
}

static bool says_yes(struct bytes v)
{
    static const char *const yes[] = {"true", "1", "yes"};
    for (size_t k = 0; k < ARRAY_LEN(yes); k++) {
        size_t i = 0;
        while (i < v.size && yes[k][i] != '\0' && (v.data[i] >= 'A' && v.data[i] <= 'Z' ? v.data[i] + 32 : v.data[i]) == yes[k][i])
            i++;
        if (i == v.size && yes[k][i] == '\0') return true;
    }
    return false;
}

static pennon_status take_metadata(const struct converting *c, const struct ArrowSchema *a, bool json, struct field *f)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = c->err;
    struct schema *s = c->schema;
    struct field_pair *pairs = NULL;
    size_t n = 0;
    struct arrow_pair pair;
    struct arrow_metadata_walk walk = arrow_metadata_begin(a->metadata);
    TRY_NEW(pairs, mem_calloc(s->mem, (size_t)arrow_metadata_count(a->metadata) + 1, sizeof *pairs, err));
    while (arrow_metadata_next(&walk, &pair)) {
        if (bytes_are(pair.key, KEY_FIELD_ID)) {
            TRY(parse_field_id(c, pair.value, &f->id));
        } else {
            pairs[n++] = (struct field_pair){pair.key, pair.value};
        }
    }
    if (json) pairs[n++] = (struct field_pair){bytes_str(KEY_EXTENSION_NAME), bytes_str(EXTENSION_LANCE_JSON)};
    TRY(pairs_copy(&s->arena, pairs, n, &f->metadata, &f->n_metadata, err));
    f->primary_key = parse_u32(field_metadata_get(f, KEY_PRIMARY_POSITION), &f->primary_key_position);
    f->primary_key = f->primary_key || says_yes(field_metadata_get(f, KEY_PRIMARY));
    f->clustering_key = parse_u32(field_metadata_get(f, KEY_CLUSTERING_POSITION), &f->clustering_key_position);
done:
    mem_free(s->mem, pairs);
    return st;
}

/* ---- fields ---- */

static bool is_json(const struct ArrowSchema *a, const struct arrow_type *t)
{
    struct bytes extension = arrow_metadata_get(a->metadata, KEY_EXTENSION_NAME);
    if (bytes_are(extension, EXTENSION_ARROW_JSON)) return arrow_id_is_text(t->id);
    return bytes_are(extension, EXTENSION_LANCE_JSON) && t->id == ARROW_LARGE_BINARY;
}

static bool is_blob_v2(const struct ArrowSchema *a)
{
    return bytes_are(arrow_metadata_get(a->metadata, KEY_EXTENSION_NAME), EXTENSION_BLOB_V2);
}

/* data and uri, then position and size or not, in this order: the newest official release takes no other. */
static pennon_status check_blob_v2(const struct converting *c, const struct ArrowSchema *a)
{
    static const struct {
        const char *name;
        enum arrow_id id;
    } parts[] = {{"data", ARROW_LARGE_BINARY}, {"uri", ARROW_UTF8}, {"position", ARROW_UINT64}, {"size", ARROW_UINT64}};
    if (c->version < STORAGE_2_2)
        return refuse(c, PENNON_NOT_SUPPORTED, "a blob column (lance.blob.v2) needs data storage version 2.2");
    if (c->no_blobs != NULL) return refuse(c, PENNON_NOT_SUPPORTED, "a blob column (lance.blob.v2) inside of a %s", c->no_blobs);
    bool good = strcmp(a->format, "+s") == 0 && (a->n_children == 2 || a->n_children == 4);
    for (int64_t i = 0; good && i < a->n_children; i++) {
        struct arrow_type t;
        const struct ArrowSchema *part = a->children[i];
        TRY_RETURN(arrow_type_of(part, &t, c->err));
        good = part->name != NULL && strcmp(part->name, parts[i].name) == 0 && t.id == parts[i].id;
        good = good && (i >= 2 || arrow_schema_nullable(part));
    }
    if (good) return PENNON_OK;
    return refuse(
        c, PENNON_INVALID_ARGUMENT,
        "a blob column (lance.blob.v2) is a struct of data: large_binary and uri: utf8, both nullable, or of data, uri, position: "
        "uint64 and size: uint64");
}

static pennon_status check_version(const struct converting *c, const struct ArrowSchema *a, const struct arrow_type *t)
{
    if (t->id == ARROW_MAP) {
        if (c->version < STORAGE_2_2) return refuse(c, PENNON_NOT_SUPPORTED, "a map needs data storage version 2.2");
        if ((a->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0) return refuse(c, PENNON_NOT_SUPPORTED, "a map with sorted keys");
        if (arrow_schema_nullable(a->children[0]->children[0]))
            return refuse(c, PENNON_INVALID_ARGUMENT, "the key of a map must not be nullable");
    }
    if (t->id == ARROW_STRUCT && a->n_children == 0 && c->version >= STORAGE_2_1) {
        return refuse(c, PENNON_NOT_SUPPORTED, "a struct without fields: official Lance cannot read it back");
    }
    if (is_blob_v2(a)) return check_blob_v2(c, a);
    if (arrow_metadata_get(a->metadata, KEY_BLOB).data != NULL) {
        if (t->id != ARROW_LARGE_BINARY)
            return refuse(c, PENNON_INVALID_ARGUMENT, "a blob column is of type large_binary, not %s", arrow_id_name(t->id));
        if (c->version >= STORAGE_2_2) {
            return refuse(c, PENNON_NOT_SUPPORTED,
                          "a large_binary blob column needs data storage version 2.1 or less; from 2.2 on use lance.blob.v2");
        }
        if (c->depth > 1) return refuse(c, PENNON_NOT_SUPPORTED, "a large_binary blob column inside another column");
    }
    return PENNON_OK;
}

static pennon_status check_names(const struct converting *c, const struct ArrowSchema *a)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = c->err;
    const char **names = NULL;
    const size_t n = (size_t)a->n_children;
    TRY_NEW(names, mem_calloc(c->schema->mem, n, sizeof *names, err));
    for (size_t i = 0; i < n; i++) names[i] = a->children[i]->name != NULL ? a->children[i]->name : "";
    if (n > 0) sort_names(names, n);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i], names[i - 1]) != 0) continue;
        st = refuse(c, PENNON_INVALID_ARGUMENT, "two fields have the name '%.128s'", names[i]);
        break;
    }
done:
    mem_free(c->schema->mem, names);
    return st;
}

static bool has_child_fields(const struct arrow_type *t, const struct ArrowSchema *a)
{
    switch (t->layout) {
    case LAYOUT_STRUCT:
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: return true;
    case LAYOUT_FIXED_LIST: return strcmp(a->children[0]->format, "+s") == 0;
    default: return false;
    }
}

static pennon_status convert_field(struct converting *c, const struct ArrowSchema *a, struct field **out);

static pennon_status convert_children(struct converting *c, const struct ArrowSchema *a, const struct arrow_type *t,
                                      struct field *f)
{
    struct blob_thresholds ignored;
    const char *outer = c->no_blobs;
    if (is_blob_v2(a)) TRY_RETURN(field_blob_thresholds(f, &ignored, c->err));
    if (t->id == ARROW_MAP) c->no_blobs = "map";
    if (t->layout == LAYOUT_FIXED_LIST) c->no_blobs = "fixed size list";
    if (field_metadata_get(f, KEY_PACKED).data != NULL || field_metadata_get(f, KEY_PACKED_OLD).data != NULL)
        c->no_blobs = "packed struct";
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(convert_field(c, a->children[i], &f->children[i]));
    c->no_blobs = outer;
    return PENNON_OK;
}

static pennon_status convert_field(struct converting *c, const struct ArrowSchema *a, struct field **out)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = c->err;
    struct buf logical;
    struct arrow_type t;
    struct field *f = NULL;
    buf_init(&logical, c->schema->mem, 1 << 20);
    ASSERT(c->depth < ARROW_MAX_DEPTH);
    c->path[c->depth++] = a->name != NULL ? a->name : "";
    TRY(arrow_type_of(a, &t, err));
    TRY(check_version(c, a, &t));
    const bool json = is_json(a, &t);
    const bool nested = has_child_fields(&t, a);
    TRY_NEW(f, field_new(c->schema, nested ? (size_t)a->n_children : 0, err));
    TRY_NEW(f->name, arena_strndup(&c->schema->arena, c->path[c->depth - 1], strlen(c->path[c->depth - 1]), err));
    f->nullable = arrow_schema_nullable(a);
    f->wire_encoding = choose_encoding(&t);
    TRY(take_metadata(c, a, json, f));
    TRY(json ? buf_printf(&logical, err, "json") : append_logical(c, a, &logical));
    TRY_NEW(f->logical_type, arena_strndup(&c->schema->arena, (const char *)logical.data, logical.size, err));
    if (t.id == ARROW_DICTIONARY) TRY_NEW(f->dictionary, arena_calloc(&c->schema->arena, 1, sizeof *f->dictionary, err));
    if (nested) TRY(check_names(c, a));
    TRY(convert_children(c, a, &t, f));
    c->depth--;
    *out = f;
done:
    buf_free(&logical);
    return st;
}

/* ---- the table ---- */

pennon_status schema_check_top_name(const char *name, pennon_error *err)
{
    static const char *const reserved[] = {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version",
                                           "_row_last_updated_at_version"};
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
        if (strcmp(name, reserved[i]) == 0)
            return error_set(err, PENNON_INVALID_ARGUMENT, "column '%s': the name is reserved for a system column", name);
    }
    if (strchr(name, '.') != NULL) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "column '%.128s': the name of a top-level column must not contain a dot",
                         name);
    }
    return PENNON_OK;
}

static pennon_status check_unique_ids(const struct schema *s, pennon_error *err)
{
    for (size_t i = 1; i < s->n_all; i++) {
        if (s->by_id[i]->id != FIELD_NO_ID && s->by_id[i]->id == s->by_id[i - 1]->id) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "columns '%.128s' and '%.128s' both have the id %" PRId32,
                             s->by_id[i - 1]->name, s->by_id[i]->name, s->by_id[i]->id);
        }
    }
    return PENNON_OK;
}

static pennon_status take_schema_metadata(struct schema *s, const struct ArrowSchema *arrow, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct field_pair *pairs = NULL;
    struct arrow_pair pair;
    size_t n = 0;
    struct arrow_metadata_walk walk = arrow_metadata_begin(arrow->metadata);
    TRY_NEW(pairs, mem_calloc(s->mem, (size_t)arrow_metadata_count(arrow->metadata), sizeof *pairs, err));
    while (arrow_metadata_next(&walk, &pair)) pairs[n++] = (struct field_pair){pair.key, pair.value};
    TRY(pairs_copy(&s->arena, pairs, n, &s->metadata, &s->n_metadata, err));
done:
    mem_free(s->mem, pairs);
    return st;
}

pennon_status schema_from_arrow(struct mem *m, const struct ArrowSchema *arrow, uint32_t version, struct schema **out,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct converting c = {.version = version, .err = err};
    if (version < STORAGE_2_0) FAIL(PENNON_NOT_SUPPORTED, "writing data storage version %u.%u", version >> 16, version & 0xffff);
    if (strcmp(arrow->format, "+s") != 0)
        FAIL(PENNON_INVALID_ARGUMENT, "the schema of a table is a struct, not '%.64s'", arrow->format);
    TRY_NEW(c.schema, schema_new(m, err));
    TRY_NEW(c.schema->fields, arena_calloc(&c.schema->arena, (size_t)arrow->n_children, sizeof(struct field *), err));
    TRY(check_names(&c, arrow));
    for (int64_t i = 0; i < arrow->n_children; i++) {
        TRY(schema_check_top_name(arrow->children[i]->name != NULL ? arrow->children[i]->name : "", err));
        TRY(convert_field(&c, arrow->children[i], &c.schema->fields[i]));
        c.schema->n_fields++;
    }
    TRY(take_schema_metadata(c.schema, arrow, err));
    TRY(schema_finish(c.schema, err));
    TRY(check_unique_ids(c.schema, err));
    *out = c.schema;
    c.schema = NULL;
done:
    schema_release(c.schema);
    return st;
}
