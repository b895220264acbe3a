/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The handle of a transaction, and commits on behalf of a dataset: for the calls that commit. */
#ifndef DATASET_TRANSACTION_HANDLE_H
#define DATASET_TRANSACTION_HANDLE_H

#include "dataset/writing.h"
#include "pennon/transaction.h"

struct pennon_transaction {
    pennon_runtime *runtime; /* retained */
    struct mem *mem;         /* retained */
    struct transaction *t;
    _Atomic(uint32_t) refs;
};

/* Takes `t`, also on failure. */
pennon_status transaction_handle(const struct call *c, struct transaction *t, pennon_transaction **out, pennon_error *err) CHECKED;
/* The frame of a call that commits to a dataset: options read, the branch refused. */
pennon_status commit_api_begin(struct api *a, const pennon_commit_options *options, pennon_commit_options *o,
                               pennon_dataset *ds) CHECKED;
/* Commit on top of `read` at `at`. */
pennon_status commit_on(const struct call *c, const struct table_location *at, struct snapshot *read, const struct transaction *t,
                        const pennon_commit_options *o, struct snapshot **out, pennon_error *err) CHECKED;
/* Commit on top of the cell's version, or of a later one that the transaction needs. The cell is left to the caller. */
pennon_status commit_to_dataset(const struct call *c, pennon_dataset *ds, const struct transaction *t,
                                const pennon_commit_options *o, struct snapshot **out, pennon_error *err) CHECKED;

#endif
