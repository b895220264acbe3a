/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Messages from JSON: the reverse of message_json.c, for texts that anybody may have written.
 *
 * Nesting is bounded by the tables, which do not recurse; counts by what the parser has read.
 * An error says where: "operation: fragments[3]: files[0]: no key 'pth'; did you mean 'path'?". */
#include "table/message_json.h"

#include <math.h>

#include "arrow/arrow.h"
#include "schema/schema.h"

#define TEXT_MAX ((size_t)512 << 20) /* the parser's tree is many times as large and not accounted */
#define KEYS_MAX 64u
#define NUMBER_DIGITS 18u /* that every int64 holds */

/* ---- text to tree ---- */

static bool is_number_char(uint8_t c) { return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; }

/* Put quotes around integers that the parser may not be able to hold, outside of texts. What is no JSON stays none or is refused as a value of a
 * wrong type later. */
static pennon_status quote_long_numbers(struct bytes in, struct buf *out, pennon_error *err)
{
    bool text = false;
    TRY_RETURN(buf_reserve(out, in.size, err));
    for (size_t i = 0; i < in.size;) {
        uint8_t c = in.data[i];
        size_t n = 1;
        if (text && c == '\\' && i + 1 < in.size) {
            n = 2;
        } else if (c == '"') {
            text = !text;
        } else if (!text && is_number_char(c)) {
            bool digits = true;
            for (n = 0; i + n < in.size && is_number_char(in.data[i + n]); n++)
                digits = digits && in.data[i + n] >= '0' && in.data[i + n] <= '9';
            if (digits && n > NUMBER_DIGITS) {
                TRY_RETURN(buf_append_byte(out, '"', err));
                TRY_RETURN(buf_append(out, in.data + i, n, err));
                TRY_RETURN(buf_append_byte(out, '"', err));
                i += n;
                continue;
            }
        }
        TRY_RETURN(buf_append(out, in.data + i, n, err));
        i += n;
    }
    return PENNON_OK;
}

pennon_status message_json_parse(struct mem *m, struct bytes text, const char *what, json_t **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    json_error_t why;
    struct buf quoted;
    *out = NULL;
    buf_init(&quoted, m, BUF_NO_LIMIT);
    if (text.size > TEXT_MAX) FAIL(PENNON_OVER_BUDGET, "%s: %zu bytes of JSON, at most %zu are read", what, text.size, TEXT_MAX);
    TRY(quote_long_numbers(text, &quoted, err));
    TRY(buf_terminate(&quoted, err));
    *out = json_loadb((const char *)quoted.data, quoted.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!*out) FAIL(PENNON_INVALID_ARGUMENT, "%s is no JSON: %s (line %d, column %d)", what, why.text, why.line, why.column);
done:
    buf_free(&quoted);
    return st;
}

/* ---- values ---- */

static const char *type_name(const json_t *json)
{
    static const char *const names[] = {"an object", "an array", "a text", "a number", "a number", "true", "false", "null"};
    return json && (size_t)json_typeof(json) < ARRAY_LEN(names) ? names[json_typeof(json)] : "nothing";
}

static pennon_status wrong_type(const json_t *json, const char *wanted, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "%s instead of %s", type_name(json), wanted);
}

static bool digits_value(const char *text, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (n == 0 || n > 20 || (n > 1 && text[0] == '0')) return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) || __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

pennon_status message_json_read_u64(const json_t *json, uint64_t *out, pennon_error *err)
{
    if (json_is_integer(json) && json_integer_value(json) >= 0) {
        *out = (uint64_t)json_integer_value(json);
        return PENNON_OK;
    }
    if (json_is_string(json) && digits_value(json_string_value(json), json_string_length(json), out)) return PENNON_OK;
    if (json_is_integer(json))
        return error_set(err, PENNON_INVALID_ARGUMENT, "%" JSON_INTEGER_FORMAT " is below zero", json_integer_value(json));
    return wrong_type(json, "a whole number of at most 64 bits", err);
}

/* A signed number in [low, high], of text keys too. */
static pennon_status read_signed(const json_t *json, int64_t low, int64_t high, int64_t *out, pennon_error *err)
{
    uint64_t digits;
    if (json_is_integer(json)) {
        *out = json_integer_value(json);
    } else if (json_is_string(json)) {
        const char *text = json_string_value(json);
        bool minus = text[0] == '-';
        if (!digits_value(text + minus, json_string_length(json) - minus, &digits) || digits > INT64_MAX)
            return error_set(err, PENNON_INVALID_ARGUMENT, "'%.64s' is no whole number", text);
        *out = minus ? -(int64_t)digits : (int64_t)digits;
    } else {
        return wrong_type(json, "a whole number", err);
    }
    if (*out < low || *out > high)
        return error_set(err, PENNON_INVALID_ARGUMENT, "%" PRId64 " is not from %" PRId64 " to %" PRId64, *out, low, high);
    return PENNON_OK;
}

static pennon_status arena_bytes(struct arena *arena, const void *data, size_t n, struct bytes *out, pennon_error *err)
{
    void *copy = arena_alloc(arena, n ? n : 1, err);
    if (!copy) return err->code;
    if (n) memcpy(copy, data, n);
    *out = bytes_of(copy, n);
    return PENNON_OK;
}

pennon_status message_json_read_binary(const json_t *json, struct arena *arena, struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf b;
    *out = (struct bytes){0};
    if (!json || json_is_null(json)) return PENNON_OK;
    if (!json_is_string(json)) return wrong_type(json, "a text in base64", err);
    buf_init(&b, arena->mem, BUF_NO_LIMIT);
    if (!base64_parse(bytes_of(json_string_value(json), json_string_length(json)), &b, &st, err)) {
        TRY(st);
        FAIL(PENNON_INVALID_ARGUMENT, "'%.40s' is not base64", json_string_value(json));
    }
    TRY(arena_bytes(arena, b.data, b.size, out, err));
done:
    buf_free(&b);
    return st;
}

pennon_status message_json_read_text(const json_t *json, struct arena *arena, struct bytes *out, pennon_error *err)
{
    *out = (struct bytes){0};
    if (!json || json_is_null(json)) return PENNON_OK;
    if (json_is_string(json)) return arena_bytes(arena, json_string_value(json), json_string_length(json), out, err);
    const json_t *binary = json_object_get(json, "base64");
    if (binary && json_object_size(json) == 1) return message_json_read_binary(binary, arena, out, err);
    return wrong_type(json, "a text or {\"base64\": \"…\"}", err);
}

static pennon_status read_double(const json_t *json, double *out, pennon_error *err)
{
    if (json_is_number(json)) {
        *out = json_number_value(json);
        return PENNON_OK;
    }
    const char *text = json_is_string(json) ? json_string_value(json) : "";
    uint64_t digits;
    if (strcmp(text, "nan") == 0) {
        *out = (double)NAN;
    } else if (strcmp(text, "inf") == 0) {
        *out = (double)INFINITY;
    } else if (strcmp(text, "-inf") == 0) {
        *out = -(double)INFINITY;
    } else if (digits_value(text, strlen(text), &digits)) {
        *out = (double)digits;
    } else {
        return wrong_type(json, "a number", err);
    }
    return PENNON_OK;
}

static pennon_status read_enum(const struct json_rule *rule, const json_t *json, uint32_t *out, pennon_error *err)
{
    int64_t v = 0;
    if (json_is_string(json)) {
        size_t n = 0;
        for (; rule->labels[n]; n++) {
            *out = (uint32_t)n;
            if (strcmp(rule->labels[n], json_string_value(json)) == 0) return PENNON_OK;
        }
        const char *near = nearest_name(json_string_value(json), rule->labels, n);
        return error_set(err, PENNON_INVALID_ARGUMENT, "'%.64s' is not one of the names; did you mean '%s'?",
                         json_string_value(json), near ? near : rule->labels[0]);
    }
    TRY_RETURN(read_signed(json, 0, UINT32_MAX, &v, err));
    *out = (uint32_t)v;
    return PENNON_OK;
}

static pennon_status read_message(const struct wire_message *msg, const json_t *json, bool typed, struct arena *arena, uint8_t *out,
                                  pennon_error *err);

/* One value into the member at `at`; of messages the struct itself. */
static pennon_status read_value(const struct wire_field *f, const struct json_rule *rule, const json_t *json, struct arena *arena,
                                uint8_t *at, pennon_error *err)
{
    int64_t v = 0;
    uint64_t u = 0;
    uint32_t u32;
    int32_t i32;
    double d = 0;
    bool b = json_is_true(json);
    struct bytes bytes;
    switch (f->kind) {
    case WIRE_U32:
        if (rule->form == JSON_FORM_ENUM) {
            TRY_RETURN(read_enum(rule, json, &u32, err));
        } else {
            TRY_RETURN(read_signed(json, 0, UINT32_MAX, &v, err));
            u32 = (uint32_t)v;
        }
        memcpy(at, &u32, sizeof u32);
        return PENNON_OK;
    case WIRE_U64:
        TRY_RETURN(message_json_read_u64(json, &u, err));
        memcpy(at, &u, sizeof u);
        return PENNON_OK;
    case WIRE_I32:
        TRY_RETURN(read_signed(json, INT32_MIN, INT32_MAX, &v, err));
        i32 = (int32_t)v;
        memcpy(at, &i32, sizeof i32);
        return PENNON_OK;
    case WIRE_I64:
        TRY_RETURN(read_signed(json, INT64_MIN, INT64_MAX, &v, err));
        memcpy(at, &v, sizeof v);
        return PENNON_OK;
    case WIRE_BOOL:
        if (!json_is_boolean(json)) return wrong_type(json, "true or false", err);
        memcpy(at, &b, sizeof b);
        return PENNON_OK;
    case WIRE_DOUBLE:
        TRY_RETURN(read_double(json, &d, err));
        memcpy(at, &d, sizeof d);
        return PENNON_OK;
    case WIRE_BYTES:
        TRY_RETURN(rule->form == JSON_FORM_BASE64 ? message_json_read_binary(json, arena, &bytes, err)
                                                  : message_json_read_text(json, arena, &bytes, err));
        memcpy(at, &bytes, sizeof bytes);
        return PENNON_OK;
    default: ASSERT(f->kind == WIRE_MESSAGE); return read_message(f->message, json, false, arena, at, err);
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

/* ---- keys ---- */

static pennon_status unknown_key(const char *key, const char *const *names, size_t n, pennon_error *err)
{
    const char *near = nearest_name(key, names, n);
    if (near) return error_set(err, PENNON_INVALID_ARGUMENT, "no key '%.100s'; did you mean '%s'?", key, near);
    return error_set(err, PENNON_INVALID_ARGUMENT, "no key '%.100s'", key);
}

pennon_status message_json_check_keys(const json_t *json, const char *const *names, size_t n, pennon_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(json)) return wrong_type(json, "an object", err);
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        bool known = false;
        for (size_t i = 0; i < n && !known; i++) known = strcmp(names[i], key) == 0;
        if (!known) return unknown_key(key, names, n, err);
    }
    return PENNON_OK;
}

/* Names of all members, for suggestions. */
static pennon_status no_member(const struct wire_message *msg, const char *key, pennon_error *err)
{
    const char *names[KEYS_MAX + JSON_LINEAGES];
    size_t n = 0;
    for (size_t i = 0; i < msg->n_fields && n < KEYS_MAX; i++) {
        const struct json_rule *rule = json_rule_of(msg, &msg->fields[i]);
        if (rule->form != JSON_FORM_HIDDEN) names[n++] = rule->name ? rule->name : msg->fields[i].name;
    }
    for (size_t i = 0; i < JSON_LINEAGES && msg == &fragment_table; i++) names[n++] = json_lineages[i].name;
    TRY_RETURN(unknown_key(key, names, n, err));
    return PENNON_OK;
}

static const struct wire_field *find_field(const struct wire_message *msg, const char *key)
{
    /* lance-go's name of the same */
    if (json_is_message(msg, "UpdateMap") && strcmp(key, "entries") == 0) key = "update_entries";
    for (size_t i = 0; i < msg->n_fields; i++) {
        const struct json_rule *rule = json_rule_of(msg, &msg->fields[i]);
        if (rule->form != JSON_FORM_HIDDEN && strcmp(rule->name ? rule->name : msg->fields[i].name, key) == 0)
            return &msg->fields[i];
    }
    return NULL;
}

/* ---- maps and lists ---- */

static pennon_status read_entry(const struct wire_message *msg, const char *key, const json_t *value, struct arena *arena,
                                uint8_t *entry, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    static const struct json_rule plain = {.form = JSON_FORM_PLAIN};
    const struct wire_field *f = &msg->fields[1];
    ASSERT(msg->n_fields == 2);
    json_t *name = json_string(key);
    if (!name) FAIL(PENNON_OUT_OF_MEMORY, "no memory for a key");
    TRY(read_value(&msg->fields[0], &plain, name, arena, entry + msg->fields[0].offset, err));
    if (json_is_null(value)) {
        if (f->rule != WIRE_OPTIONAL) FAIL(PENNON_INVALID_ARGUMENT, "'%.100s' has no value", key);
        goto done;
    }
    if (f->rule == WIRE_OPTIONAL) memcpy(entry + f->aux, &(bool){true}, sizeof(bool));
    uint8_t *at = entry + f->offset;
    if (f->kind == WIRE_MESSAGE) {
        uint8_t *sub;
        TRY_NEW(sub, arena_calloc(arena, 1, f->message->size, err));
        memcpy(at, &sub, sizeof sub);
        at = sub;
    }
    st = read_value(f, json_rule_of(msg, f), value, arena, at, err);
    if (st != PENNON_OK) st = error_prefix(err, "%.100s", key);
done:
    json_decref(name);
    return st;
}

static pennon_status read_map(const struct wire_message *msg, const json_t *json, struct arena *arena, uint8_t **items, size_t *n,
                              pennon_error *err)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    *n = json_object_size(json);
    if (!(*items = arena_calloc(arena, *n + 1, msg->size, err))) return err->code;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        TRY_RETURN(read_entry(msg, key, value, arena, *items + i * msg->size, err));
        i++;
    }
    return PENNON_OK;
}

static pennon_status read_repeated(const struct wire_field *f, const struct json_rule *rule, const json_t *json,
                                   struct arena *arena, uint8_t *out, pennon_error *err)
{
    uint8_t *items = NULL;
    size_t n = json_array_size(json), size = value_size(f);
    if (f->kind == WIRE_MESSAGE && json_is_entry(f->message) && json_is_object(json)) {
        TRY_RETURN(read_map(f->message, json, arena, &items, &n, err));
    } else {
        if (!json_is_array(json)) return wrong_type(json, "an array", err);
        if (!(items = arena_calloc(arena, n + 1, size, err))) return err->code;
        for (size_t i = 0; i < n; i++) {
            if (read_value(f, rule, json_array_get(json, i), arena, items + i * size, err) == PENNON_OK) continue;
            return error_prefix(err, "[%zu]", i);
        }
    }
    memcpy(out + f->offset, &items, sizeof items);
    memcpy(out + f->aux, &n, sizeof n);
    return PENNON_OK;
}

/* ---- messages ---- */

static pennon_status read_field(const struct wire_message *msg, const struct wire_field *f, const json_t *json, struct arena *arena,
                                uint8_t *out, pennon_error *err)
{
    const struct json_rule *rule = json_rule_of(msg, f);
    uint8_t *at = out + f->offset;
    if (json_is_null(json)) return PENNON_OK;
    if (f->rule == WIRE_REPEATED) return read_repeated(f, rule, json, arena, out, err);
    if (f->rule == WIRE_OPTIONAL) memcpy(out + f->aux, &(bool){true}, sizeof(bool));
    if (f->rule == WIRE_ONEOF) {
        uint32_t which;
        memcpy(&which, out + f->aux, sizeof which);
        if (which) return error_set(err, PENNON_INVALID_ARGUMENT, "another member of the same choice is set already");
        memcpy(out + f->aux, &f->tag, sizeof f->tag);
    }
    if (f->kind == WIRE_MESSAGE) {
        uint8_t *sub = arena_calloc(arena, 1, f->message->size, err);
        if (!sub) return err->code;
        memcpy(at, &sub, sizeof sub);
        at = sub;
    }
    return read_value(f, rule, json, arena, at, err);
}

static pennon_status read_byte_list(const json_t *json, struct arena *arena, struct bytes *out, pennon_error *err)
{
    if (!json_is_array(json)) return wrong_type(json, "an array of bytes", err);
    size_t n = json_array_size(json);
    uint8_t *bytes = arena_alloc(arena, n + 1, err);
    if (!bytes) return err->code;
    for (size_t i = 0; i < n; i++) {
        int64_t v = 0;
        TRY_RETURN(read_signed(json_array_get(json, i), 0, UINT8_MAX, &v, err));
        bytes[i] = (uint8_t)v;
    }
    *out = bytes_of(bytes, n);
    return PENNON_OK;
}

static pennon_status read_lineage(const struct json_lineage *l, const json_t *json, struct arena *arena, uint8_t *out,
                                  pennon_error *err)
{
    const struct wire_field *f = &fragment_table.fields[l->inline_tag - 1];
    const char *const labels[] = {l->inline_label, l->external_label};
    uint32_t which;
    ASSERT(f->tag == l->inline_tag && f->rule == WIRE_ONEOF);
    if (json_is_null(json)) return PENNON_OK;
    TRY_RETURN(message_json_check_keys(json, labels, 2, err));
    if (json_object_size(json) != 1)
        return error_set(err, PENNON_INVALID_ARGUMENT, "one of '%s' and '%s' is needed", labels[0], labels[1]);
    const json_t *bytes = json_object_get(json, labels[0]);
    which = bytes ? f->tag : f->tag + 1;
    memcpy(out + f->aux, &which, sizeof which);
    if (bytes) {
        struct bytes b;
        TRY_RETURN(read_byte_list(bytes, arena, &b, err));
        memcpy(out + f->offset, &b, sizeof b);
        return PENNON_OK;
    }
    struct external_file_message *file = arena_calloc(arena, 1, sizeof *file, err);
    if (!file) return err->code;
    memcpy(out + f[1].offset, &file, sizeof file);
    return read_message(&external_file_table, json_object_get(json, labels[1]), false, arena, (uint8_t *)file, err);
}

/* Raw fields: well framed, and none that the table has. */
static pennon_status read_unknown(const struct wire_message *msg, const json_t *json, struct arena *arena, uint8_t *out,
                                  pennon_error *err)
{
    struct bytes b;
    struct wire_item item;
    TRY_RETURN(message_json_read_binary(json, arena, &b, err));
    struct wire_cursor c = wire_cursor_of(b);
    while (!wire_cursor_done(&c)) {
        if (wire_next(&c, &item, err) != PENNON_OK) return error_set(err, PENNON_INVALID_ARGUMENT, "the bytes are no fields");
        for (size_t i = 0; i < msg->n_fields; i++) {
            if (msg->fields[i].tag == item.tag)
                return error_set(err, PENNON_INVALID_ARGUMENT, "field %u is known: it has the key '%s'", item.tag,
                                 msg->fields[i].name);
        }
    }
    memcpy(out + msg->unknown, &b, sizeof b);
    return PENNON_OK;
}

static pennon_status read_member(const struct wire_message *msg, const char *key, const json_t *value, struct arena *arena,
                                 uint8_t *out, pennon_error *err)
{
    const struct wire_field *f = find_field(msg, key);
    if (f) return read_field(msg, f, value, arena, out, err);
    for (size_t i = 0; i < JSON_LINEAGES && msg == &fragment_table; i++) {
        if (strcmp(json_lineages[i].name, key) == 0) return read_lineage(&json_lineages[i], value, arena, out, err);
    }
    ASSERT(strcmp(key, "unknown_fields") == 0);
    return read_unknown(msg, value, arena, out, err);
}

static bool is_member(const struct wire_message *msg, const char *key)
{
    if (find_field(msg, key) || strcmp(key, "unknown_fields") == 0) return true;
    for (size_t i = 0; i < JSON_LINEAGES && msg == &fragment_table; i++) {
        if (strcmp(json_lineages[i].name, key) == 0) return true;
    }
    return false;
}

static pennon_status read_uuid(const json_t *json, struct arena *arena, uint8_t *out, pennon_error *err)
{
    uint8_t uuid[16];
    struct uuid_message m = {0};
    if (!uuid_parse(json_string_value(json), json_string_length(json), uuid))
        return error_set(err, PENNON_INVALID_ARGUMENT, "'%.64s' is no UUID", json_string_value(json));
    TRY_RETURN(arena_bytes(arena, uuid, sizeof uuid, &m.uuid, err));
    memcpy(out, &m, sizeof m);
    return PENNON_OK;
}

static pennon_status read_message(const struct wire_message *msg, const json_t *json, bool typed, struct arena *arena, uint8_t *out,
                                  pennon_error *err)
{
    const char *key;
    json_t *value;
    memset(out, 0, msg->size);
    if (msg == &uuid_table && json_is_string(json)) return read_uuid(json, arena, out, err);
    if (!json_is_object(json)) return wrong_type(json, "an object", err);
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (typed && strcmp(key, "type") == 0) continue;
        if (!is_member(msg, key)) return no_member(msg, key, err);
        if (read_member(msg, key, value, arena, out, err) != PENNON_OK) return error_prefix(err, "%s", key);
    }
    return PENNON_OK;
}

pennon_status message_json_read(const struct wire_message *msg, const json_t *json, bool typed, struct arena *arena, void *out,
                                pennon_error *err)
{
    return read_message(msg, json, typed, arena, out, err);
}

pennon_status message_json_read_map(const json_t *json, struct arena *arena, struct map_entry **out, size_t *n, pennon_error *err)
{
    uint8_t *items = NULL;
    *out = NULL;
    *n = 0;
    if (!json || json_is_null(json)) return PENNON_OK;
    if (json_is_array(json)) {
        static const struct json_rule plain = {.form = JSON_FORM_PLAIN};
        struct {
            uint8_t *items;
            size_t n;
        } list = {0};
        const struct wire_field f = {0, WIRE_MESSAGE, WIRE_REPEATED, 0, sizeof(uint8_t *), &map_entry_table, "entries"};
        TRY_RETURN(read_repeated(&f, &plain, json, arena, (uint8_t *)&list, err));
        *out = (struct map_entry *)(void *)list.items;
        *n = list.n;
        return PENNON_OK;
    }
    if (!json_is_object(json)) return wrong_type(json, "an object", err);
    TRY_RETURN(read_map(&map_entry_table, json, arena, &items, n, err));
    *out = (struct map_entry *)(void *)items;
    return PENNON_OK;
}
