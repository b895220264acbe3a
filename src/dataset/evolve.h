/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the verbs that change columns share: options, new data files beside those of the fragments, the transaction.
 *
 * A verb makes the new schema and says how the values of a fragment come; evolve_write writes them, evolve_commit makes them visible.
 * After a failure evolve_end removes what was written. */
#ifndef DATASET_EVOLVE_H
#define DATASET_EVOLVE_H

#include "dataset/transaction_handle.h"
#include "pennon/evolution.h"

struct evolving;

/* Where the values of a fragment come from. */
struct value_source {
    /* A stream of the live rows of the fragment in their order, whose batches have the form of `write` in files (SCHEMA_VIEW_FILE, BLOB_AS_INPUT). Thread
     * safe unless `in_turn`. */
    pennon_status (*open)(void *ctx, const struct call *c, struct evolving *e, const struct fragment *f,
                          struct ArrowArrayStream *out, pennon_error *err);
    void *ctx;
    bool in_turn; /* fragments one after the other, on the thread of the call */
    /* NULL, or: has the fragment been written before? Then *file is the data file, in the arena. Called for one fragment after the other. */
    pennon_status (*find)(void *ctx, struct evolving *e, const struct fragment *f, struct data_file_message *file, bool *found,
                          pennon_error *err);
    /* NULL, or told of each fragment that is written, in turn. */
    pennon_status (*wrote)(void *ctx, struct evolving *e, const struct fragment *f, const struct data_file_message *file,
                           pennon_error *err);
};

/* A fragment and what was written for it. */
struct evolved {
    const struct fragment *fragment;
    uint64_t physical;
    char *path; /* of the new data file, in call->mem; NULL = there is none */
    char name[57];
    struct written_file file;
    bool kept;                        /* the file stays whatever comes: a checkpoint has it */
    bool again;                       /* did not fit the memory beside others */
    struct data_file_message message; /* of the new file; path empty = none */
};

struct evolving {
    struct api *api;
    const struct call *c;
    pennon_dataset *ds;
    const pennon_evolution_options *o;
    struct snapshot *s;
    struct file_cache *files;
    struct arena arena;      /* of the verb; its thread only */
    struct schema *schema;   /* new one of the table */
    struct schema *write;    /* what is in the new files, with the ids of `schema`; NULL = nothing is written */
    struct ArrowSchema form; /* of batches of `write` */
    struct value_source source;
    int32_t next_id;
    struct evolved *list; /* the fragments that are looked at */
    size_t n_list;
    pennon_store *store; /* of new files, and their folder */
    char *folder;
    bool keeps_nullability; /* no column is tightened, and new ones may be null */
    _Atomic(uint64_t) rows; /* written so far */
    uint64_t total;
    pthread_t caller;
    pennon_evolution_result result;
};

/* ---- the frame (evolve.c) ---- */

/* Options and handle; on failure too evolve_end follows. */
pennon_status evolve_begin(struct evolving *e, struct api *a, pennon_evolution_options *o, const pennon_evolution_options *options,
                           pennon_dataset *ds) CHECKED;
/* Cleans up, hands the result or the error out. */
pennon_status evolve_end(struct evolving *e, pennon_status st, pennon_evolution_result *result, pennon_error *err);
/* NULL, with the error filled: the message begins with the kind's name in official's words. */
pennon_status evolve_invalid(pennon_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* e->schema and e->write out of columns that are added. Collisions as official has them. */
pennon_status evolve_add_schema(struct evolving *e, const struct schema *added, bool written, pennon_error *err) CHECKED;
/* Commit (or hand out) a Merge of the fragments with their new files, or a Project where `project`. */
pennon_status evolve_commit(struct evolving *e, bool project, pennon_error *err) CHECKED;
/* The same for a transaction that is made already; taken. */
pennon_status evolve_commit_transaction(struct evolving *e, struct transaction *t, pennon_error *err) CHECKED;

/* ---- new files (evolve_files.c) ---- */

/* Values of all fragments in the list, from e->source, into one new data file each. */
pennon_status evolve_write(struct evolving *e, pennon_error *err) CHECKED;
/* Best effort: the files of a verb that failed. */
void evolve_remove_files(struct evolving *e);
/* Live rows of the fragment. */
pennon_status evolve_live_rows(struct evolving *e, const struct call *c, const struct fragment *f, uint64_t *rows,
                               pennon_error *err) CHECKED;
/* A scan over the live rows of one fragment; takes the plan. */
pennon_status evolve_scan(struct evolving *e, const struct call *c, const struct fragment *f, struct scan_plan *plan,
                          struct ArrowArrayStream *out, pennon_error *err) CHECKED;

#endif
