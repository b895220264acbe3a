/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* JSONB values of json columns: the bytes in files, and JSON text.
 * Source: spec file-format 14.3. */
#ifndef ENCODING_JSONB_H
#define ENCODING_JSONB_H

#include "base/base.h"

/* Append the JSON text of one value, as official prints it. CORRUPT; depth at most 128. */
pennon_status jsonb_to_text(struct bytes in, struct buf *out, pennon_error *err) CHECKED;
/* Append the JSONB form of a JSON text. INVALID_ARGUMENT with the place for malformed text, doubled keys, depth. */
pennon_status jsonb_from_text(struct bytes text, struct mem *mem, struct buf *out, pennon_error *err) CHECKED;

/* ---- looking into values without converting them (jsonb_walk.c); everything is checked as bytes from outside ---- */

enum jsonb_kind { JSONB_NULL, JSONB_STRING, JSONB_NUMBER, JSONB_FALSE, JSONB_TRUE, JSONB_OBJECT, JSONB_ARRAY };
/* A value inside a document; borrows its bytes. */
struct jsonb_value {
    enum jsonb_kind kind;
    uint32_t entry;     /* as stored, of scalars */
    struct bytes bytes; /* of strings the text (not checked), of numbers the tagged form, of containers all of it */
};
/* The root of a document. */
pennon_status jsonb_open(struct bytes document, struct jsonb_value *out, pennon_error *err) CHECKED;
/* Append the value as a document of its own. */
pennon_status jsonb_put(const struct jsonb_value *v, struct buf *out, pennon_error *err) CHECKED;
/* Elements of an array or fields of an object; 0 for others. */
size_t jsonb_count(const struct jsonb_value *v);

/* Walk over the elements of an array or the fields of an object. */
struct jsonb_walk {
    struct bytes in;
    size_t i, n, key_at, value_at;
    bool object;
};
pennon_status jsonb_walk_begin(const struct jsonb_value *v, struct jsonb_walk *out, pennon_error *err) CHECKED;
/* *found false at the end. `key` is empty in arrays. */
pennon_status jsonb_walk_next(struct jsonb_walk *w, struct bytes *key, struct jsonb_value *out, bool *found,
                              pennon_error *err) CHECKED;
/* A field by its exact name, an element by its place; *found false: there is none, or the value is of another kind. */
pennon_status jsonb_field(const struct jsonb_value *v, struct bytes key, struct jsonb_value *out, bool *found,
                          pennon_error *err) CHECKED;
pennon_status jsonb_item(const struct jsonb_value *v, size_t at, struct jsonb_value *out, bool *found, pennon_error *err) CHECKED;

#endif
