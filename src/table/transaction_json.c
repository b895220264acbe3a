/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Transactions as JSON.
 *
 * | key            | value                                                                                                    |
 * |----------------|----------------------------------------------------------------------------------------------------------|
 * | read_version   | number                                                                                                   |
 * | uuid           | text; absent = a new one                                                                                 |
 * | tag            | text                                                                                                     |
 * | properties     | object of texts                                                                                          |
 * | operation      | {"type": "Append", …}, members as in message_json.h; one that is not known: {"type": "unknown", "tag": number, |
 * |                | "raw": base64}                                                                                           |
 * | unknown_fields | base64                                                                                                   |
 *
 * Source: spec commits 1.2, 1.3, api-surface 6. */
#include "table/message_json.h"
#include "table/transaction.h"

#define UNKNOWN_OPERATION "unknown"
#define OPERATION_SECOND 200u /* from here on no operations: old writers had a second one there */

static const char *const envelope_keys[] = {"read_version", "uuid", "tag", "properties", "operation", "unknown_fields"};

/* ---- out ---- */

static pennon_status put_operation(const struct transaction *t, struct buf *out, pennon_error *err)
{
    const struct wire_message *table = operation_table(t->which);
    if (table) return message_json_put(table, &t->op, table->name, out, err);
    TRY_RETURN(buf_printf(out, err, "{\"type\": \"" UNKNOWN_OPERATION "\", \"tag\": %" PRIu32 ", \"raw\": \"", t->which));
    TRY_RETURN(base64_put(t->raw, out, err));
    return buf_printf(out, err, "\"}");
}

pennon_status transaction_to_json(const struct transaction *t, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "{\"read_version\": %" PRIu64 ", \"uuid\": ", t->read_version));
    TRY_RETURN(message_json_put_text(bytes_str(t->uuid), out, err));
    if (t->tag.size) {
        TRY_RETURN(buf_printf(out, err, ", \"tag\": "));
        TRY_RETURN(message_json_put_text(t->tag, out, err));
    }
    if (t->n_properties) {
        TRY_RETURN(buf_printf(out, err, ", \"properties\": "));
        TRY_RETURN(message_json_put_map(t->properties, t->n_properties, out, err));
    }
    TRY_RETURN(buf_printf(out, err, ", \"operation\": "));
    TRY_RETURN(put_operation(t, out, err));
    if (t->unknown.size) {
        TRY_RETURN(buf_printf(out, err, ", \"unknown_fields\": \""));
        TRY_RETURN(base64_put(t->unknown, out, err));
        TRY_RETURN(buf_printf(out, err, "\""));
    }
    return buf_printf(out, err, "}");
}

pennon_status fragment_to_json(const struct fragment_message *f, struct buf *out, pennon_error *err)
{
    return message_json_put(&fragment_table, f, NULL, out, err);
}

/* ---- in ---- */

/* Tag of the operation's type. */
static pennon_status operation_of(const json_t *operation, uint32_t *which, pennon_error *err)
{
    const char *names[OPERATION_COUNT + 1];
    size_t n = 0;
    const char *type = json_string_value(json_object_get(operation, "type"));
    if (!type) return error_set(err, PENNON_INVALID_ARGUMENT, "operation: \"type\" is missing or no text");
    for (uint32_t tag = OPERATION_APPEND; operation_table(tag); tag++) {
        *which = tag;
        names[n] = operation_table(tag)->name;
        if (strcmp(names[n++], type) == 0) return PENNON_OK;
    }
    names[n++] = UNKNOWN_OPERATION;
    *which = 0;
    if (strcmp(type, UNKNOWN_OPERATION) == 0) return PENNON_OK;
    const char *near = nearest_name(type, names, n);
    if (near) return error_set(err, PENNON_INVALID_ARGUMENT, "operation: no type '%.64s'; did you mean '%s'?", type, near);
    return error_set(err, PENNON_INVALID_ARGUMENT, "operation: no type '%.64s'", type);
}

/* Raw fields of the envelope: well framed, and none that it knows. An operation behind those that have a place in the envelope stands among them. */
static pennon_status read_unknown(struct transaction *t, const json_t *json, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct bytes fields;
    struct wire_item item;
    struct buf all;
    bool later = t->which >= OPERATION_APPEND + OPERATION_COUNT;
    buf_init(&all, t->mem, BUF_NO_LIMIT);
    TRY(message_json_read_binary(json, &t->arena, &fields, err));
    struct wire_cursor c = wire_cursor_of(fields);
    while (!wire_cursor_done(&c)) {
        if (wire_next(&c, &item, err) != PENNON_OK) FAIL(PENNON_INVALID_ARGUMENT, "unknown_fields: the bytes are no fields");
        if (item.tag <= 4 || (item.tag >= OPERATION_APPEND && item.tag < OPERATION_APPEND + OPERATION_COUNT))
            FAIL(PENNON_INVALID_ARGUMENT, "unknown_fields: field %u is known", item.tag);
        bool operation = item.tag > OPERATION_APPEND && item.tag < OPERATION_SECOND && item.type == 2;
        if (!operation) TRY(buf_append(&all, item.raw.data, item.raw.size, err));
    }
    if (later) TRY(wire_put_bytes(&all, t->which, t->raw, err));
    uint8_t *copy;
    TRY_NEW(copy, arena_alloc(&t->arena, all.size + 1, err));
    if (all.size) memcpy(copy, all.data, all.size);
    t->unknown = bytes_of(copy, all.size);
done:
    buf_free(&all);
    return st;
}

/* One whose message is not known here: its tag and bytes. */
static pennon_status read_raw(struct transaction *t, const json_t *operation, pennon_error *err)
{
    static const char *const keys[] = {"type", "tag", "raw"};
    uint64_t tag = 0;
    TRY_RETURN(message_json_check_keys(operation, keys, ARRAY_LEN(keys), err));
    TRY_RETURN(message_json_read_u64(json_object_get(operation, "tag"), &tag, err));
    if (tag < OPERATION_APPEND || tag >= OPERATION_SECOND || operation_table((uint32_t)tag))
        return error_set(err, PENNON_INVALID_ARGUMENT, "tag %" PRIu64 " is not that of an unknown operation", tag);
    t->which = (uint32_t)tag;
    return message_json_read_binary(json_object_get(operation, "raw"), &t->arena, &t->raw, err);
}

static pennon_status read_envelope(struct transaction *t, const json_t *json, pennon_error *err)
{
    const json_t *uuid = json_object_get(json, "uuid"), *operation = json_object_get(json, "operation");
    TRY_RETURN(message_json_read_text(json_object_get(json, "tag"), &t->arena, &t->tag, err));
    TRY_RETURN(message_json_read_map(json_object_get(json, "properties"), &t->arena, &t->properties, &t->n_properties, err));
    if (uuid && !json_is_null(uuid)) {
        uint8_t bytes[16];
        if (!json_is_string(uuid) || !uuid_parse(json_string_value(uuid), json_string_length(uuid), bytes))
            return error_set(err, PENNON_INVALID_ARGUMENT, "uuid: no UUID with hyphens");
        uuid_text(bytes, t->uuid);
    }
    const struct wire_message *table = operation_table(t->which);
    pennon_status st = table ? message_json_read(table, operation, true, &t->arena, &t->op, err) : read_raw(t, operation, err);
    if (st != PENNON_OK) return error_prefix(err, "operation");
    return read_unknown(t, json_object_get(json, "unknown_fields"), err);
}

pennon_status transaction_from_json(struct mem *m, struct bytes json, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    json_t *tree = NULL;
    struct transaction *t = NULL;
    uint32_t which = 0;
    uint64_t read_version = 0;
    TRY(message_json_parse(m, json, "the transaction", &tree, err));
    TRY(message_json_check_keys(tree, envelope_keys, ARRAY_LEN(envelope_keys), err));
    const json_t *version = json_object_get(tree, "read_version");
    if (version && message_json_read_u64(version, &read_version, err) != PENNON_OK) {
        st = error_prefix(err, "read_version");
        goto done;
    }
    TRY(operation_of(json_object_get(tree, "operation"), &which, err));
    /* An unknown operation gets its tag below; until then the transaction is of any kind. */
    TRY(transaction_new(m, which ? which : OPERATION_APPEND, read_version, &t, err));
    if (!which) t->which = 0;
    TRY(read_envelope(t, tree, err));
    *out = t;
    t = NULL;
done:
    transaction_free(t);
    json_decref(tree);
    return st;
}
