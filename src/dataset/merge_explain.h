/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A merge as text. */
#ifndef DATASET_MERGE_EXPLAIN_H
#define DATASET_MERGE_EXPLAIN_H

#include "dataset/merge.h"

/* What a merge did. */
struct merge_run {
    const pennon_merge_result *result;
    const struct row_store *rows;
    uint64_t ns;
};
/* Appended; a node a line, its inputs two blanks further in. `found` and `run` NULL: it did not run. */
pennon_status merge_explain(const struct merge_plan *p, const struct merge_found *found, const struct merge_run *run, bool verbose,
                            struct buf *out, pennon_error *err) CHECKED;

#endif
