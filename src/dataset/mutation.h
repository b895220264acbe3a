/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the verbs that change rows share: options, attempts, and the rows that a filter finds. */
#ifndef DATASET_MUTATION_H
#define DATASET_MUTATION_H

#include "dataset/transaction_handle.h"
#include "pennon/mutation.h"
#include "table/row_removal.h"

/* The frame of such a call. */
pennon_status mutation_begin(struct api *a, const pennon_mutation_options *options, pennon_mutation_options *o,
                             pennon_dataset *ds) CHECKED;

/* One attempt: all that is read is read from `s`. `*out` is the new snapshot. */
typedef pennon_status (*mutation_fn)(void *ctx, struct call *c, struct snapshot *s, struct file_cache *files, struct snapshot **out,
                                     pennon_error *err);
/* NOT_SUPPORTED: a column with the name of a system column, as old releases allowed. */
pennon_status mutation_check(const struct snapshot *s, pennon_error *err) CHECKED;
/* Attempts on the cell's version, then on the latest ones, until one is no retryable conflict. The cell moves. */
pennon_status mutation_run(const struct call *c, pennon_dataset *ds, const pennon_mutation_options *o, mutation_fn attempt,
                           void *ctx, uint64_t *attempts, uint64_t *version, pennon_error *err) CHECKED;
/* Commit a Delete or Update of the removed rows on top of the version that they were read from. On failure the deletion files are removed where that is safe. */
pennon_status mutation_commit(const struct call *c, struct snapshot *s, const struct transaction *t, struct row_removal *rows,
                              const pennon_mutation_options *o, struct snapshot **out, pennon_error *err) CHECKED;
/* Best effort: the data files of a commit that did not land. `written` is the Append that would make them visible. */
void mutation_remove_data(const struct call *c, struct snapshot *s, const struct transaction *written);
/* Copies as many bytes as the caller's struct has; both begin with struct_size. `to` NULL: nothing. */
void mutation_result_out(const void *from, size_t known, void *to);

/* Row ids of rows that move, in their order, as runs. */
struct id_run {
    uint64_t first, n;
};
struct id_runs {
    struct mem *mem;
    struct id_run *items;
    size_t n, cap;
};
pennon_status id_runs_add(struct id_runs *r, const uint64_t *ids, size_t n, pennon_error *err) CHECKED;
/* Cut to the fragments, one after the other. Rows behind the last id get none: the commit numbers them. */
pennon_status id_runs_give(const struct id_runs *r, struct arena *a, struct fragment_message *fragments, size_t n,
                           pennon_error *err) CHECKED;
void id_runs_free(struct id_runs *r);

#endif
