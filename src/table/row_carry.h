/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What rows take with them into other fragments: their ids, the versions that they were made and changed at; or, without stable ids, where they were. */
#ifndef TABLE_ROW_CARRY_H
#define TABLE_ROW_CARRY_H

#include "table/table.h"

/* Stable row ids: the live rows of `old`, one fragment after the other, are the rows of `new`, whose physical_rows are set and of which there are as many. Fills
 * row ids and both versions of the new ones, inline, in the arena. INTERNAL: another number of rows. */
pennon_status rows_carry(const struct call *c, struct snapshot *s, const struct fragment *const *old, size_t n_old,
                         file_length_fn length, void *length_ctx, struct arena *a, struct fragment_message *new, size_t n_new,
                         pennon_error *err) CHECKED;
/* The addresses of the live rows as a Roaring treemap, appended: the number of fragments (8 bytes), then the id (4 bytes) and the bitmap of each, ascending;
 * fragments without live rows are left out. */
pennon_status rows_addresses(const struct call *c, struct snapshot *s, const struct fragment *const *old, size_t n_old,
                             file_length_fn length, void *length_ctx, struct buf *out, pennon_error *err) CHECKED;

#endif
