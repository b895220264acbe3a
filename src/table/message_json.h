/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Messages of the format as JSON, driven by the tables of src/wire: every operation of a transaction comes for free.
 *
 * | in the message                     | in JSON                                                                        |
 * |------------------------------------|--------------------------------------------------------------------------------|
 * | field at its default, absent       | left out; null is read as that                                                 |
 * | number, bool                       | number (64 bits, exact; digits in a text are read too), true, false            |
 * | double                             | number; "nan", "inf", "-inf"                                                   |
 * | string                             | text; {"base64": …} where the bytes are no UTF-8                               |
 * | bytes                              | text in base64                                                                 |
 * | enum                               | its name; the number where it has none                                         |
 * | message, repeated                  | object, array                                                                  |
 * | map, UpdateMap entries             | object, null for a key to delete; an array of entries where keys repeat        |
 * | UUID                               | text with hyphens                                                              |
 * | member of a oneof                  | the one that is set                                                            |
 * | fields that the table has not      | "unknown_fields": their bytes in base64                                        |
 * | DataFragment and what it holds     | as pylance's FragmentMetadata.to_json: all keys, null for absent; row ids and   |
 * |                                    | versions as row_id_meta {"Inline": [bytes]} or {"External": {…}},              |
 * |                                    | created_at_version_meta, last_updated_at_version_meta {"inline"} / {"external"} |
 *
 * Names are the format's. Reading trusts nothing: a key that is not known is INVALID_ARGUMENT with the nearest one, and where it stands.
 * Source: spec commits 1.3, api-surface 5, 6. */
#ifndef TABLE_MESSAGE_JSON_H
#define TABLE_MESSAGE_JSON_H

#include <jansson.h>

#include "wire/messages.h"

/* The object of the message. `type` (may be NULL) becomes its first member, "type". */
pennon_status message_json_put(const struct wire_message *msg, const void *in, const char *type, struct buf *out,
                               pennon_error *err) CHECKED;
/* A text, or {"base64": …}. */
pennon_status message_json_put_text(struct bytes text, struct buf *out, pennon_error *err) CHECKED;
/* A map<string, string>: an object where it can be one. */
pennon_status message_json_put_map(const struct map_entry *entries, size_t n, struct buf *out, pennon_error *err) CHECKED;

/* Parse a text; json_decref the result. Integers past 63 bits become texts of digits. `what` names it in errors: INVALID_ARGUMENT with line and column. */
pennon_status message_json_parse(struct mem *m, struct bytes text, const char *what, json_t **out, pennon_error *err) CHECKED;
/* Fill the struct at `out` (msg->size bytes, overwritten) from an object; everything it points to is in the arena. `typed`: a member "type" is
 * left alone. */
pennon_status message_json_read(const struct wire_message *msg, const json_t *json, bool typed, struct arena *arena, void *out,
                                pennon_error *err) CHECKED;
pennon_status message_json_read_map(const json_t *json, struct arena *arena, struct map_entry **out, size_t *n,
                                    pennon_error *err) CHECKED;
/* A text or {"base64": …}; into the arena. Absent and null are empty. */
pennon_status message_json_read_text(const json_t *json, struct arena *arena, struct bytes *out, pennon_error *err) CHECKED;
/* Base64 text. */
pennon_status message_json_read_binary(const json_t *json, struct arena *arena, struct bytes *out, pennon_error *err) CHECKED;
pennon_status message_json_read_u64(const json_t *json, uint64_t *out, pennon_error *err) CHECKED;
/* INVALID_ARGUMENT: no object, or a key that is not one of `names`. */
pennon_status message_json_check_keys(const json_t *json, const char *const *names, size_t n, pennon_error *err) CHECKED;

/* ---- how single fields differ from the rule; for both directions ---- */

enum json_form {
    JSON_FORM_PLAIN,
    JSON_FORM_BASE64,
    JSON_FORM_ENUM,
    JSON_FORM_HIDDEN /* old forms, which decoding brings into the present one; parts of a fragment that have a form of their own */
};
struct json_rule {
    const char *message;
    uint32_t tag;
    enum json_form form;
    const char *name;          /* NULL = the member's */
    const char *const *labels; /* of an enum, NULL at the end */
};
/* The rule of a field; one of form PLAIN without a name where nothing differs. */
const struct json_rule *json_rule_of(const struct wire_message *msg, const struct wire_field *f);

/* Two members of a fragment's oneof: `inline_tag` bytes, the next tag a file. */
struct json_lineage {
    const char *name, *inline_label, *external_label;
    uint32_t inline_tag;
};
#define JSON_LINEAGES 3
extern const struct json_lineage json_lineages[JSON_LINEAGES];

/* Messages that are entries of a map: key in tag 1, value in tag 2. */
bool json_is_entry(const struct wire_message *msg);
static inline bool json_is_message(const struct wire_message *msg, const char *name) { return strcmp(msg->name, name) == 0; }

#endif
