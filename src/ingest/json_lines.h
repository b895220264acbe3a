/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Private to the JSON lines reader: the inference of a schema. */
#ifndef INGEST_JSON_LINES_H
#define INGEST_JSON_LINES_H

#include "ingest/ingest.h"

/* Most fields of one object. */
#define JSON_FIELDS_MAX 4096u

struct json_guess;

/* Nothing seen yet; everything is allocated in `arena`. NULL with err on failure. */
struct json_guess *json_guess_new(struct arena *arena, pennon_error *err) CHECKED;
/* Take in an object; `types` are top-level fields whose type is given. False at a problem of the scanner or with a failed *st. */
bool json_guess_object(struct json_guess *g, struct json_scan *s, const struct column_types *types, pennon_status *st,
                       pennon_error *err);
/* The struct schema of what was seen, with the given types in place, and those that were not seen behind. INVALID_ARGUMENT when
 * the values of a field do not go together. */
pennon_status json_guess_schema(const struct json_guess *g, const struct column_types *types, struct mem *mem,
                                struct ArrowSchema *out, pennon_error *err) CHECKED;

#endif
