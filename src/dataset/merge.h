/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Parts of a merge, private to src/dataset.
 *
 *   source --row_store--> kept rows --merge_find--> pairs, rows that go, rows that are new --merge_stream--> data files --> one Update
 *
 * A place is (place of the fragment in the snapshot << 32 | physical offset), as SYSTEM_PLACE. */
#ifndef DATASET_MERGE_H
#define DATASET_MERGE_H

#include "dataset/mutation.h"
#include "exec/join.h"
#include "exec/plan.h"
#include "exec/row_store.h"

/* ---- plan (merge_plan.c): what the options mean for a version and a source of some schema ---- */

/* A column that the condition over both sides reads. */
struct merge_operand {
    bool source;
    uint32_t child;            /* target: of the plan's `operands` */
    const struct field *field; /* source: in `data` */
};
struct merge_plan {
    struct mem *mem;
    struct arena arena;
    struct snapshot *s;               /* borrowed */
    const pennon_merge_options *o;    /* borrowed */
    const struct ArrowSchema *source; /* borrowed, or `plain` */
    struct ArrowSchema plain;
    struct schema *data;       /* of the source; NULL where keys are all that is looked at */
    const struct field **keys; /* of the table */
    size_t n_keys;
    uint32_t *source_keys; /* children of the source */
    struct join_columns source_side, target_side;
    struct column_plan *probe; /* keys, columns of by_source_condition, place */
    struct expr *by_source;
    uint32_t n_by_source;
    struct expr *matched;
    struct merge_operand *operand_list; /* of expr_columns(matched) */
    struct column_plan *operands;       /* of the target; NULL = the condition reads none */
    struct column_plan *missing;        /* what the source lacks; NULL = nothing */
    struct ArrowSchema written;         /* of the rows that are written: source, then missing */
    bool stable, delete_only, primary_key;
};
pennon_status merge_check_options(const pennon_merge_options *o, pennon_error *err) CHECKED;
pennon_status merge_plan_make(struct merge_plan *p, const struct call *c, struct snapshot *s, const pennon_merge_options *o,
                              const struct ArrowSchema *source, pennon_error *err) CHECKED;
/* The same for the schema of a stream as it comes: validated, views as plain types. The plan keeps it. */
pennon_status merge_check_source(struct merge_plan *p, const struct call *c, struct snapshot *s, const pennon_merge_options *o,
                                 const struct ArrowSchema *source, pennon_error *err) CHECKED;
void merge_plan_free(struct merge_plan *p); /* idempotent */
static inline bool merge_updates(const pennon_merge_options *o)
{
    return o->when_matched == PENNON_MATCHED_UPDATE || o->when_matched == PENNON_MATCHED_UPDATE_IF;
}
static inline bool merge_inserts(const pennon_merge_options *o) { return o->when_not_matched == PENNON_NOT_MATCHED_INSERT; }

/* ---- search (merge_find.c) ---- */

/* A row of the target that takes the values of a row of the source. */
struct merge_pair {
    uint64_t place;
    uint32_t row; /* of the source */
    uint32_t keep;
};
/* Rows of the target that are looked at as one. */
struct merge_stretch {
    uint32_t fragment;   /* place in the snapshot */
    uint64_t start, end; /* physical */
    uint8_t *gone;       /* bits of rows that are taken out; NULL = none */
    uint8_t *seen;       /* bits of rows that have been matched in an earlier pass; NULL = none */
    struct merge_pair *pairs;
    size_t n_pairs, cap_pairs;
};
struct merge_found {
    struct merge_stretch *stretches;
    size_t n_stretches, cap_stretches;
    struct block *pair_block;
    struct merge_pair *pairs; /* in it; by place */
    size_t n_pairs;
    uint8_t *matched; /* bits of source rows; NULL = nobody asks */
    _Atomic(uint64_t) deleted, skipped, looked_at, hits;
    uint32_t passes;
    uint64_t build_ns, probe_ns, condition_ns;
    uint64_t null_keys;
};
/* The table of keys takes about `table_bytes` at most; what does not fit is looked for in further passes. Free with merge_found_free, also on failure. */
pennon_status merge_find(const struct merge_plan *p, const struct call *c, struct file_cache *files, const struct row_store *rows,
                         uint64_t table_bytes, struct merge_found *out, pennon_error *err) CHECKED;
void merge_found_free(const struct call *c, struct merge_found *f);
/* "id = 1, name = \"a\"": the keys of a source row, appended. */
pennon_status merge_key_text(const struct merge_plan *p, const struct row_store *rows, uint32_t row, struct buf *out,
                             pennon_error *err) CHECKED;
enum pair_order { PAIRS_BY_PLACE, PAIRS_BY_ROW, PAIRS_BY_CHUNK /* of the source */ };
/* Stable. */
pennon_status merge_sort_pairs(const struct call *c, const struct row_store *rows, enum pair_order order, struct merge_pair *pairs,
                               size_t n, pennon_error *err) CHECKED;

/* ---- conditions (merge_condition.c) ---- */

/* Sets keep where the condition over both sides is true. Pairs are sorted by chunk and place, and come back so. */
pennon_status merge_condition(const struct merge_plan *p, const struct call *c, struct file_cache *files,
                              const struct row_store *rows, struct merge_pair *pairs, size_t n, pennon_error *err) CHECKED;

/* ---- keys of inserted rows (merge_filter.c) ---- */

struct key_filter {
    struct mem *mem;
    uint8_t *bits; /* NULL = not wanted */
    struct buf key;
};
pennon_status key_filter_init(struct key_filter *f, struct mem *m, pennon_error *err) CHECKED;
void key_filter_free(struct key_filter *f);
/* Rows of a chunk of the source. */
pennon_status key_filter_add(struct key_filter *f, const struct merge_plan *p, const struct ArrowArray *chunk, const uint64_t *rows,
                             size_t n, pennon_error *err) CHECKED;
/* The message, in the arena. */
pennon_status key_filter_message(const struct key_filter *f, const struct merge_plan *p, struct arena *a,
                                 struct key_filter_message **out, pennon_error *err) CHECKED;

/* ---- rows that are written (merge_rows.c) ---- */

struct merge_rows {
    const struct merge_plan *p;
    const struct call *c;
    struct file_cache *files;
    const struct row_store *rows;
    const struct merge_found *found;
    struct key_filter *filter;
    struct id_runs ids; /* stable: of the updated rows, in the order in which they are given */
    uint64_t to_insert; /* rows that are new, for progress */
    uint64_t given;
    /* under way */
    int turn; /* 0: updated rows (and without stable ids inserted ones too), 1: inserted ones, 2: the end */
    size_t chunk;
    bool entered;
    struct shared_array *array; /* of the chunk */
    size_t pair, end_pair;      /* of the chunk */
    uint64_t window;            /* rows of the chunk that have been listed */
    uint64_t *list;             /* rows of the chunk to give */
    size_t n_list, cap_list, at_list;
};
/* Are the pairs of all chunks given first, by place? */
bool merge_rows_together(const struct merge_plan *p, const struct row_store *rows);
/* stream_next_fn. Pairs: by place together; by chunk and place where columns are missing; else by row. */
pennon_status merge_rows_next(void *ctx, struct ArrowArray *out, pennon_error *err);
void merge_rows_end(struct merge_rows *r);

#endif
