/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From the pieces of a filtered scan to result batches: small ones are joined, large ones cut, late columns of few rows read for several pieces at
 * once, rows skipped and counted for offset and limit. Keeps the order. Belongs to the consumer of the scan; private to src/exec. */
#ifndef EXEC_GATHER_H
#define EXEC_GATHER_H

#include "exec/plan.h"

struct gather {
    const struct call *c; /* of the consumer */
    struct snapshot *s;
    struct file_cache *fc;
    const struct scan_plan *p;
    struct scan_counters *counters; /* or NULL */
    uint64_t batch_rows;            /* of a batch at most */
    uint64_t batch_bytes;           /* pieces are not joined past this, about */
    uint64_t target;                /* pieces of so many rows are not waited with */
    uint64_t skip, take;            /* rows still to skip, to give; UINT64_MAX = all */
    /* pieces that wait to be joined, all of one kind */
    struct ArrowArray *parts;
    size_t n_parts, cap_parts;
    uint64_t *places;
    size_t n_places, cap_places;
    uint64_t rows, bytes, waited; /* of the parts; pieces that came since the first of them */
    const struct split *split;    /* NULL = the parts are of the result */
    /* joined parts whose late columns are to be read, from row late_at on */
    struct shared_array *late_first;
    uint64_t *late_places;
    uint64_t late_rows, late_at, late_step;
    const struct split *late_split;
    /* result rows that are being given, from row cut_at on */
    struct shared_array *cut;
    int64_t cut_at;
};
/* Give memory back before a read is tried again with fewer rows. */
typedef void (*relieve_fn)(void *ctx);

/* Rows that are enough for a limit have come. */
static inline bool gather_done(const struct gather *g) { return g->take == 0; }
/* Is there something that gather_next would give? */
static inline bool gather_ready(const struct gather *g) { return g->cut != NULL || g->late_first != NULL; }
/* Would this piece have to wait until those before are given? Then gather_flush comes first. */
bool gather_refuses(const struct gather *g, const struct piece *piece);
/* Takes the piece. Calls that fail for want of memory change nothing, and may be tried again. Then gather_full says whether gather_flush should follow. */
pennon_status gather_add(struct gather *g, struct piece *piece, pennon_error *err) CHECKED;
bool gather_full(const struct gather *g);
/* Make the waiting pieces ready to be given; nothing where there are none. */
pennon_status gather_flush(struct gather *g, pennon_error *err) CHECKED;
/* Next batch of what is ready. */
pennon_status gather_next(struct gather *g, relieve_fn relieve, void *ctx, struct ArrowArray *out, pennon_error *err) CHECKED;
void gather_free(struct gather *g);

#endif
