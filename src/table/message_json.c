/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Messages to JSON. The form is told in the header. */
#include "table/message_json.h"

#include <math.h>

#include "arrow/arrow.h"

/* ---- the rules ---- */

static const char *const update_modes[] = {"REWRITE_ROWS", "REWRITE_COLUMNS", NULL};
static const char *const field_types[] = {"PARENT", "REPEATED", "LEAF", NULL};
static const char *const field_encodings[] = {"NONE", "PLAIN", "VAR_BINARY", "DICTIONARY", "RLE", NULL};
static const char *const deletion_types[] = {"array", "bitmap", NULL};

static const struct json_rule rules[] = {
    {"Any", 2, JSON_FORM_BASE64, NULL, NULL},
    {"UUID", 1, JSON_FORM_BASE64, NULL, NULL},
    {"IndexMetadata", 5, JSON_FORM_BASE64, NULL, NULL},
    {"BloomFilter", 1, JSON_FORM_BASE64, NULL, NULL},
    {"map entry of bitmaps", 2, JSON_FORM_BASE64, NULL, NULL},
    {"Update", 6, JSON_FORM_PLAIN, "fields_for_preserving_frag_bitmap", NULL},
    {"Update", 7, JSON_FORM_ENUM, NULL, update_modes},
    {"Update", 9, JSON_FORM_PLAIN, "updated_fragment_offsets", NULL},
    {"Update", 10, JSON_FORM_PLAIN, "updated_fragment_offset_bitmaps", NULL},
    {"UpdateMap", 1, JSON_FORM_PLAIN, "update_entries", NULL},
    {"UpdateConfig", 1, JSON_FORM_HIDDEN, NULL, NULL},
    {"UpdateConfig", 2, JSON_FORM_HIDDEN, NULL, NULL},
    {"UpdateConfig", 3, JSON_FORM_HIDDEN, NULL, NULL},
    {"UpdateConfig", 4, JSON_FORM_HIDDEN, NULL, NULL},
    {"Rewrite", 1, JSON_FORM_HIDDEN, NULL, NULL},
    {"Rewrite", 2, JSON_FORM_HIDDEN, NULL, NULL},
    {"Field", 1, JSON_FORM_ENUM, NULL, field_types},
    {"Field", 7, JSON_FORM_ENUM, NULL, field_encodings},
    {"DeletionFile", 1, JSON_FORM_ENUM, NULL, deletion_types},
    {"DataFragment", 5, JSON_FORM_HIDDEN, NULL, NULL},
    {"DataFragment", 6, JSON_FORM_HIDDEN, NULL, NULL},
    {"DataFragment", 7, JSON_FORM_HIDDEN, NULL, NULL},
    {"DataFragment", 8, JSON_FORM_HIDDEN, NULL, NULL},
    {"DataFragment", 9, JSON_FORM_HIDDEN, NULL, NULL},
    {"DataFragment", 10, JSON_FORM_HIDDEN, NULL, NULL},
};

const struct json_rule *json_rule_of(const struct wire_message *msg, const struct wire_field *f)
{
    static const struct json_rule plain = {.form = JSON_FORM_PLAIN};
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (rules[i].tag == f->tag && json_is_message(msg, rules[i].message)) return &rules[i];
    }
    return &plain;
}

const struct json_lineage json_lineages[JSON_LINEAGES] = {
    {"row_id_meta", "Inline", "External", 5},
    {"created_at_version_meta", "inline", "external", 9},
    {"last_updated_at_version_meta", "inline", "external", 7},
};

bool json_is_entry(const struct wire_message *msg)
{
    return strncmp(msg->name, "map entry", strlen("map entry")) == 0 || json_is_message(msg, "UpdateMapEntry");
}

/* What pylance reads with every key in place. */
static bool is_whole(const struct wire_message *msg)
{
    return json_is_message(msg, "DataFragment") || json_is_message(msg, "DataFile") || json_is_message(msg, "DeletionFile");
}

/* Fields of those whose zero means "not known". */
static bool zero_is_null(const struct wire_message *msg, const struct wire_field *f)
{
    return (json_is_message(msg, "DataFile") && f->tag == 6) || (json_is_message(msg, "DeletionFile") && f->tag == 4);
}

/* ---- values ---- */

static pennon_status put(struct buf *out, const char *text, pennon_error *err) { return buf_append(out, text, strlen(text), err); }

/* A comma, unless the object or array that began at `start` is empty. */
static pennon_status put_comma(struct buf *out, size_t start, pennon_error *err)
{
    return out->size > start ? put(out, ", ", err) : PENNON_OK;
}

static pennon_status put_key(struct buf *out, size_t start, const char *name, pennon_error *err)
{
    TRY_RETURN(put_comma(out, start, err));
    return buf_printf(out, err, "\"%s\": ", name);
}

static pennon_status put_base64(struct buf *out, struct bytes b, pennon_error *err)
{
    TRY_RETURN(put(out, "\"", err));
    TRY_RETURN(base64_put(b, out, err));
    return put(out, "\"", err);
}

static pennon_status put_text(struct buf *out, struct bytes b, pennon_error *err)
{
    if (b.size == 0) return put(out, "\"\"", err);
    if (utf8_valid(b.data, b.size)) return json_put_text(out, b, err);
    TRY_RETURN(put(out, "{\"base64\": ", err));
    TRY_RETURN(put_base64(out, b, err));
    return put(out, "}", err);
}

static pennon_status put_double(struct buf *out, double v, pennon_error *err)
{
    if (isnan(v)) return put(out, "\"nan\"", err);
    if (isinf(v)) return put(out, v > 0 ? "\"inf\"" : "\"-inf\"", err);
    size_t start = out->size;
    TRY_RETURN(buf_printf(out, err, "%.17g", v));
    /* The C library writes the locale's point. */
    for (size_t i = start; i < out->size; i++) {
        if (out->data[i] == ',') out->data[i] = '.';
    }
    return PENNON_OK;
}

static pennon_status put_message(const struct wire_message *msg, const uint8_t *in, struct buf *out, pennon_error *err);

static uint32_t u32_at(const uint8_t *in)
{
    uint32_t v;
    memcpy(&v, in, sizeof v);
    return v;
}
static uint64_t u64_at(const uint8_t *in)
{
    uint64_t v;
    memcpy(&v, in, sizeof v);
    return v;
}
static const uint8_t *pointer_at(const uint8_t *in)
{
    const uint8_t *v;
    memcpy(&v, in, sizeof v);
    return v;
}
static struct bytes bytes_at(const uint8_t *in)
{
    struct bytes v;
    memcpy(&v, in, sizeof v);
    return v;
}

/* One value at `at`; of messages the struct itself. */
static pennon_status put_value(const struct wire_field *f, const struct json_rule *rule, const uint8_t *at, struct buf *out,
                               pennon_error *err)
{
    double d;
    bool b;
    uint32_t label = 0;
    switch (f->kind) {
    case WIRE_U32:
        if (rule->form == JSON_FORM_ENUM) {
            while (rule->labels[label] && label != u32_at(at)) label++;
            if (rule->labels[label]) return buf_printf(out, err, "\"%s\"", rule->labels[label]);
        }
        return buf_printf(out, err, "%" PRIu32, u32_at(at));
    case WIRE_U64: return buf_printf(out, err, "%" PRIu64, u64_at(at));
    case WIRE_I32: return buf_printf(out, err, "%" PRId32, (int32_t)u32_at(at));
    case WIRE_I64: return buf_printf(out, err, "%" PRId64, (int64_t)u64_at(at));
    case WIRE_BOOL: memcpy(&b, at, sizeof b); return put(out, b ? "true" : "false", err);
    case WIRE_DOUBLE: memcpy(&d, at, sizeof d); return put_double(out, d, err);
    case WIRE_BYTES: return rule->form == JSON_FORM_BASE64 ? put_base64(out, bytes_at(at), err) : put_text(out, bytes_at(at), err);
    default: ASSERT(f->kind == WIRE_MESSAGE); return put_message(f->message, at, out, err);
    }
}

static size_t value_size(const struct wire_field *f)
{
    switch (f->kind) {
    case WIRE_U32:
    case WIRE_I32: return 4;
    case WIRE_U64:
    case WIRE_I64:
    case WIRE_DOUBLE: return 8;
    case WIRE_BOOL: return sizeof(bool);
    case WIRE_BYTES: return sizeof(struct bytes);
    default: return f->message->size;
    }
}

/* ---- maps ---- */

/* Key of an entry, as text in `scratch`. */
static pennon_status entry_key(const struct wire_field *key, const uint8_t *entry, struct buf *scratch, pennon_error *err)
{
    const uint8_t *at = entry + key->offset;
    scratch->size = 0;
    if (key->kind == WIRE_BYTES) return buf_append(scratch, bytes_at(at).data, bytes_at(at).size, err);
    static const struct json_rule plain = {.form = JSON_FORM_PLAIN};
    return put_value(key, &plain, at, scratch, err);
}

struct key_text {
    const uint8_t *text;
    size_t size;
};

static int compare_keys(const void *x, const void *y)
{
    const struct key_text *a = x, *b = y;
    size_t n = a->size < b->size ? a->size : b->size;
    int c = n ? memcmp(a->text, b->text, n) : 0;
    return c ? c : (a->size > b->size) - (a->size < b->size);
}

/* Can the entries stand in an object: keys are texts and differ, and there is nothing but key and value? */
static pennon_status map_is_plain(const struct wire_message *msg, const uint8_t *items, size_t n, struct mem *m, bool *plain,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct wire_field *key = &msg->fields[0];
    struct key_text *keys = NULL;
    *plain = true;
    TRY_NEW(keys, mem_calloc(m, n, sizeof *keys, err));
    for (size_t i = 0; i < n && *plain; i++) {
        const uint8_t *entry = items + i * msg->size;
        struct bytes k = bytes_of(entry + key->offset, value_size(key));
        if (key->kind == WIRE_BYTES) k = bytes_at(entry + key->offset);
        keys[i] = (struct key_text){k.data, k.size};
        /* A key with a zero byte is none for the parser. */
        bool text = key->kind != WIRE_BYTES || k.size == 0 || (utf8_valid(k.data, k.size) && !memchr(k.data, 0, k.size));
        *plain = text && bytes_at(entry + msg->unknown).size == 0;
    }
    if (*plain) qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n && *plain; i++) *plain = compare_keys(&keys[i - 1], &keys[i]) != 0;
done:
    mem_free(m, keys);
    return st;
}

static pennon_status put_entry_value(const struct wire_message *msg, const uint8_t *entry, struct buf *out, pennon_error *err)
{
    ASSERT(msg->n_fields == 2);
    const struct wire_field *f = &msg->fields[1];
    const uint8_t *at = entry + f->offset;
    bool has = true;
    if (f->rule == WIRE_OPTIONAL) memcpy(&has, entry + f->aux, sizeof has);
    if (f->kind == WIRE_MESSAGE) {
        at = pointer_at(at);
        has = at != NULL;
    }
    return has ? put_value(f, json_rule_of(msg, f), at, out, err) : put(out, "null", err);
}

static pennon_status put_map(const struct wire_message *msg, const uint8_t *items, size_t n, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf key;
    buf_init(&key, out->mem, BUF_NO_LIMIT);
    TRY(put(out, "{", err));
    size_t start = out->size;
    for (size_t i = 0; i < n; i++) {
        TRY(put_comma(out, start, err));
        TRY(entry_key(&msg->fields[0], items + i * msg->size, &key, err));
        TRY(put_text(out, bytes_of(key.data, key.size), err));
        TRY(put(out, ": ", err));
        TRY(put_entry_value(msg, items + i * msg->size, out, err));
    }
    TRY(put(out, "}", err));
done:
    buf_free(&key);
    return st;
}

/* ---- messages ---- */

static pennon_status put_repeated(const struct wire_field *f, const struct json_rule *rule, const uint8_t *items, size_t n,
                                  struct buf *out, pennon_error *err)
{
    if (f->kind == WIRE_MESSAGE && json_is_entry(f->message) && n) {
        bool plain;
        TRY_RETURN(map_is_plain(f->message, items, n, out->mem, &plain, err));
        if (plain) return put_map(f->message, items, n, out, err);
    }
    TRY_RETURN(put(out, "[", err));
    size_t start = out->size;
    for (size_t i = 0; i < n; i++) {
        TRY_RETURN(put_comma(out, start, err));
        TRY_RETURN(put_value(f, rule, items + i * value_size(f), out, err));
    }
    return put(out, "]", err);
}

/* Is the singular field to be written? *at moves to the value. */
static bool is_there(const struct wire_field *f, const uint8_t *in, const uint8_t **at)
{
    bool has = true;
    *at = in + f->offset;
    if (f->rule == WIRE_OPTIONAL) memcpy(&has, in + f->aux, sizeof has);
    if (f->rule == WIRE_ONEOF) has = u32_at(in + f->aux) == f->tag;
    if (!has) return false;
    if (f->kind == WIRE_MESSAGE) {
        *at = pointer_at(in + f->offset);
        return *at != NULL;
    }
    if (f->rule != WIRE_SINGULAR) return true;
    if (f->kind == WIRE_BYTES) return bytes_at(*at).size > 0;
    for (size_t i = 0; i < value_size(f); i++) {
        if ((*at)[i]) return true;
    }
    return false;
}

static pennon_status put_field(const struct wire_message *msg, const struct wire_field *f, const uint8_t *in, size_t start,
                               struct buf *out, pennon_error *err)
{
    const struct json_rule *rule = json_rule_of(msg, f);
    const char *name = rule->name ? rule->name : f->name;
    bool whole = is_whole(msg);
    const uint8_t *at;
    if (rule->form == JSON_FORM_HIDDEN) return PENNON_OK;
    if (f->rule == WIRE_REPEATED) {
        size_t n;
        memcpy(&n, in + f->aux, sizeof n);
        at = pointer_at(in + f->offset);
        if (n == 0 && !whole) return PENNON_OK;
        TRY_RETURN(put_key(out, start, name, err));
        return put_repeated(f, rule, at, n, out, err);
    }
    bool there = is_there(f, in, &at);
    if (!there && !whole) return PENNON_OK;
    TRY_RETURN(put_key(out, start, name, err));
    if (!there && (f->rule == WIRE_OPTIONAL || f->kind == WIRE_MESSAGE || zero_is_null(msg, f))) return put(out, "null", err);
    return put_value(f, rule, at, out, err);
}

/* Bytes as pylance has them here: an array of numbers. */
static pennon_status put_byte_list(struct bytes b, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "[", err));
    for (size_t i = 0; i < b.size; i++) TRY_RETURN(buf_printf(out, err, i ? ", %u" : "%u", b.data[i]));
    return put(out, "]", err);
}

static pennon_status put_lineage(const struct json_lineage *l, const uint8_t *in, size_t start, struct buf *out, pennon_error *err)
{
    const struct wire_field *f = &fragment_table.fields[l->inline_tag - 1];
    ASSERT(f->tag == l->inline_tag && f->rule == WIRE_ONEOF && f[1].tag == l->inline_tag + 1);
    uint32_t which = u32_at(in + f->aux);
    TRY_RETURN(put_key(out, start, l->name, err));
    if (which == f->tag) {
        TRY_RETURN(buf_printf(out, err, "{\"%s\": ", l->inline_label));
        TRY_RETURN(put_byte_list(bytes_at(in + f->offset), out, err));
        return put(out, "}", err);
    }
    const uint8_t *file = NULL;
    if (which == f->tag + 1) file = pointer_at(in + f[1].offset);
    if (!file) return put(out, "null", err);
    TRY_RETURN(buf_printf(out, err, "{\"%s\": ", l->external_label));
    TRY_RETURN(put_message(&external_file_table, file, out, err));
    return put(out, "}", err);
}

/* Members behind those that the object that began at `start` has already. */
static pennon_status put_members(const struct wire_message *msg, const uint8_t *in, size_t start, struct buf *out,
                                 pennon_error *err)
{
    for (size_t i = 0; i < msg->n_fields; i++) TRY_RETURN(put_field(msg, &msg->fields[i], in, start, out, err));
    for (size_t i = 0; i < JSON_LINEAGES && msg == &fragment_table; i++)
        TRY_RETURN(put_lineage(&json_lineages[i], in, start, out, err));
    struct bytes unknown = bytes_at(in + msg->unknown);
    if (unknown.size == 0) return PENNON_OK;
    TRY_RETURN(put_key(out, start, "unknown_fields", err));
    return put_base64(out, unknown, err);
}

static pennon_status put_message(const struct wire_message *msg, const uint8_t *in, struct buf *out, pennon_error *err)
{
    if (msg == &uuid_table) {
        const struct uuid_message *u = (const struct uuid_message *)(const void *)in;
        char text[37];
        if (u->uuid.size == 16 && u->unknown.size == 0) {
            uuid_text(u->uuid.data, text);
            return buf_printf(out, err, "\"%s\"", text);
        }
    }
    TRY_RETURN(put(out, "{", err));
    TRY_RETURN(put_members(msg, in, out->size, out, err));
    return put(out, "}", err);
}

pennon_status message_json_put(const struct wire_message *msg, const void *in, const char *type, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "{", err));
    size_t start = out->size;
    if (type) TRY_RETURN(buf_printf(out, err, "\"type\": \"%s\"", type));
    TRY_RETURN(put_members(msg, in, start, out, err));
    return put(out, "}", err);
}

pennon_status message_json_put_map(const struct map_entry *entries, size_t n, struct buf *out, pennon_error *err)
{
    static const struct wire_field list = {.kind = WIRE_MESSAGE, .rule = WIRE_REPEATED, .message = &map_entry_table};
    static const struct json_rule plain = {.form = JSON_FORM_PLAIN};
    if (n == 0) return put(out, "{}", err);
    return put_repeated(&list, &plain, (const uint8_t *)entries, n, out, err);
}

pennon_status message_json_put_text(struct bytes text, struct buf *out, pennon_error *err) { return put_text(out, text, err); }
