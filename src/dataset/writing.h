/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Parts of a write: where its data files go, and the transaction that it ends in. */
#ifndef DATASET_WRITING_H
#define DATASET_WRITING_H

#include "dataset/dataset.h"
#include "table/transaction.h"

/* ---- bases (write_bases.c) ---- */

/* A folder of data files. */
struct write_target {
    pennon_store *store; /* retained */
    char *folder;
    bool has_base;
    uint32_t base_id;
};

/* The option as messages, texts in the arena: paths made absolute, with `assign` ids for those of id 0. INVALID_ARGUMENT: no path, ids that repeat. */
pennon_status write_bases_read(const struct call *c, const pennon_bases *bases, bool assign, struct arena *a,
                               struct base_path_message **out, size_t *n, pennon_error *err) CHECKED;
/* The folders that the option names among the bases of `s` (may be NULL) and the new ones; without the option the table's own data folder at `at`.
 * INVALID_ARGUMENT names a base that there is not. Free with write_targets_free, also on failure. */
pennon_status write_targets_open(const struct call *c, const struct table_location *at, struct snapshot *s,
                                 const struct base_path_message *initial, size_t n_initial, const pennon_names *names,
                                 struct write_target **out, size_t *n, pennon_error *err) CHECKED;
void write_targets_free(struct mem *m, struct write_target *targets, size_t n);

/* ---- uncommitted writes (write.c) ---- */

/* Data files of the stream, which is not released here, and the transaction that refers to them, allocated in `m`. */
pennon_status write_uncommitted(struct call *c, const struct table_location *at, struct ArrowArrayStream *data,
                                const pennon_write_options *o, struct mem *m, struct transaction **out, pennon_error *err) CHECKED;

/* What the version says of a finished file of the table's data folder, in the arena. */
pennon_status written_data_file(struct arena *a, const char *file_name, uint32_t version, const struct written_file *written,
                                struct data_file_message **out, pennon_error *err) CHECKED;

/* The same on top of a version that is open: an Append of rows of its schema. */
pennon_status write_onto(struct call *c, struct snapshot *s, struct ArrowArrayStream *data, const pennon_write_options *o,
                         struct mem *m, struct transaction **out, pennon_error *err) CHECKED;

/* The same; URIs of blobs are names that the function knows, unless it is NULL. */
pennon_status write_onto_given(struct call *c, struct snapshot *s, struct ArrowArrayStream *data, const pennon_write_options *o,
                               blob_given_fn given, void *given_ctx, struct mem *m, struct transaction **out,
                               pennon_error *err) CHECKED;
/* ---- transactions (transaction_build.c) ---- */

/* Put the pairs over the properties; a NULL value removes the key. */
pennon_status transaction_set_pairs(struct transaction *t, const pennon_pairs *pairs, pennon_error *err) CHECKED;

#endif
