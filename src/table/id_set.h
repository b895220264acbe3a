/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A set of 32-bit numbers as ranges: the fragments of an index, the deleted rows of a fragment. Budgeted, unlike CRoaring's, so that bytes from outside cannot
 * make it grow past what the call may use. Not thread safe. */
#ifndef TABLE_ID_SET_H
#define TABLE_ID_SET_H

#include "table/table_private.h"

struct id_range {
    uint32_t first, last; /* both inside */
};
/* Ranges ascend and do not touch each other. */
struct id_set {
    struct mem *mem;
    struct id_range *ranges;
    size_t n, cap;
};

void id_set_init(struct id_set *s, struct mem *m); /* no allocation */
void id_set_free(struct id_set *s);                /* idempotent; ready for reuse */
/* Adds the numbers of a Roaring bitmap (untrusted). CORRUPT; what is in the set then is not defined. */
pennon_status id_set_parse(struct id_set *s, struct bytes in, pennon_error *err) CHECKED;
bool id_set_contains(const struct id_set *s, uint32_t id);
pennon_status id_set_add_range(struct id_set *s, uint32_t first, uint32_t last, pennon_error *err) CHECKED;
static inline pennon_status id_set_add(struct id_set *s, uint32_t id, pennon_error *err)
{
    return id_set_add_range(s, id, id, err);
}
pennon_status id_set_remove(struct id_set *s, uint32_t id, pennon_error *err) CHECKED;
uint64_t id_set_count(const struct id_set *s);
/* Appends the Roaring portable form. */
pennon_status id_set_encode(const struct id_set *s, struct buf *out, pennon_error *err) CHECKED;

#endif
