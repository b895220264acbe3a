/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Paths into JSON values. */
#ifndef EXPR_JSON_PATH_H
#define EXPR_JSON_PATH_H

#include "encoding/jsonb.h"

/* Places of an array that a step takes: first to last, both counted from the end where they say so. */
struct json_range {
    int64_t first, last;
    bool first_from_end, last_from_end; /* value -n: n before the last */
};
struct json_step {
    enum { STEP_FIELD, STEP_FIELDS, STEP_ITEMS, STEP_RANGES } kind;
    struct bytes name; /* in the path's text */
    size_t range, n_ranges;
};
struct json_path {
    struct mem *mem;
    struct json_step *steps;
    size_t n_steps, cap_steps;
    struct json_range *ranges;
    size_t n_ranges, cap_ranges;
    struct buf text; /* a copy of the path */
};

/* Parse `$.a.b`, `$.a[0]`, `$["a"]`, `$['a']`, `$.*`, `[*]`, `[0, 2]`, `[0 to last]`; the leading $ may be missing. INVALID_ARGUMENT of kind
 * FunctionFailed; filters are NOT_SUPPORTED. json_path_free also after a failure. */
pennon_status json_path_parse(struct bytes text, struct mem *m, struct json_path *out, pennon_error *err) CHECKED;
void json_path_free(struct json_path *p); /* idempotent; all zero is allowed */
/* Append the matches (struct jsonb_value each) in document order. */
pennon_status json_path_find(const struct json_path *p, const struct jsonb_value *root, struct buf *out, struct buf *scratch,
                             pennon_error *err) CHECKED;

#endif
