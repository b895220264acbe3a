/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows of a stream in memory, found by a key: the right side of a left join. */
#ifndef DATASET_EVOLVE_LOOKUP_H
#define DATASET_EVOLVE_LOOKUP_H

#include "dataset/batch_form.h"

/* A batch of the stream. */
struct lookup_part {
    struct ArrowArray key, values; /* one column; a struct of the others */
    struct array_view view;        /* deep, of `key` */
    uint64_t first;                /* number of its first row among all */
};

struct lookup {
    struct mem *mem;
    struct arena arena;
    struct ArrowSchema input;    /* of the stream */
    size_t key;                  /* child of `input` */
    struct ArrowSchema key_type; /* without views */
    struct ArrowSchema values;   /* the other children */
    struct batch_form form;      /* of values; set by the caller before lookup_read */
    struct lookup_part *parts;
    size_t n_parts, cap_parts;
    uint64_t rows;
    uint32_t *slots; /* row + 1 of the newest row of a key; 0 = free */
    uint32_t *tags;  /* high bits of its hash */
    uint64_t mask;
};

/* Schema of the stream, split at the key. INVALID_ARGUMENT: there is no such column. `side` names the stream in messages. */
pennon_status lookup_open(struct lookup *l, const struct call *c, struct ArrowArrayStream *data, const char *key, const char *side,
                          pennon_error *err) CHECKED;
/* Read it to the end; the key of a later row takes the place of an earlier one. */
pennon_status lookup_read(struct lookup *l, const struct call *c, struct ArrowArrayStream *data, pennon_error *err) CHECKED;
void lookup_end(struct lookup *l); /* idempotent */

#define LOOKUP_NONE UINT32_MAX
/* rows[i] = number of the row with the key of row i, or LOOKUP_NONE. `keys` is of key_type. Thread safe, as lookup_gather. */
pennon_status lookup_find(const struct lookup *l, const struct call *c, const struct ArrowArray *keys, uint32_t *rows,
                          pennon_error *err) CHECKED;
/* The values of those rows, of `schema` (the form of lookup's values in files). Where there is none: the row of `other` with the same place, a struct
 * of the same schema, or nulls where it is NULL. */
pennon_status lookup_gather(const struct lookup *l, const struct call *c, const struct ArrowSchema *schema, const uint32_t *rows,
                            size_t n, const struct ArrowArray *other, struct ArrowArray *out, pennon_error *err) CHECKED;

#endif
