/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the files of the Python extension share: the module's state, calls without the GIL, options out of dictionaries, errors as exceptions.
 *
 * Against CPython's limited API of 3.11, so that one binary serves that release and every later one. Everything is reached through the module's
 * state; the one variable of the process is the list of calls that Ctrl-C stops (py_call.c).
 *
 * Memory that is freed without the GIL is the C library's; the rest is PyMem. Functions named py_ are ours. Where one returns PyObject * or int, NULL or -1 means that an exception is set. */
#ifndef PENNON_PY_BINDING_H
#define PENNON_PY_BINDING_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pennon/pennon.h"

struct py_log; /* records that wait for the GIL */

struct py_state {
    PyTypeObject *dataset_type, *stream_type, *batch_type, *schema_type, *transaction_type, *file_type, *writer_type, *store_type,
        *progress_type, *detail_type, *blobs_type;
    PyObject *getsignal, *default_handler; /* of the module signal */
    PyObject *logger;                      /* logging.getLogger("pennon"), or NULL until there is something to say */
    struct py_log *log;
    pennon_runtime *runtime;
};

/* ---- errors (py_error.c) ---- */

/* How a status becomes an exception type, as the calls of pylance do it. */
enum py_raises {
    PY_RAISES_KIND, /* ValueError, OSError, NotImplementedError, ... by what failed: open, scan, explain */
    PY_RAISES_OS,   /* OSError for everything: write, commit, restore, cleanup, config, branches, checkout, take */
    PY_RAISES_REF   /* ValueError for a tag or version that is not there or there already, else OSError: tags */
};

/* Set the exception of `err`, with the object `detail`, and clear `err`. Returns NULL. */
PyObject *py_raise(struct py_state *state, pennon_error *err, enum py_raises how);
/* A struct sequence of the parts of `err`. */
PyObject *py_detail(struct py_state *state, const pennon_error *err);
/* The type `detail` itself. */
PyTypeObject *py_detail_type(void);

/* ---- calls (py_call.c) ---- */

/* One call into the library without the GIL, which Ctrl-C can stop. */
struct py_call {
    pennon_call options;
    pennon_cancel *cancel; /* NULL where no signal can come: another thread, a handler of the program's own */
    bool own;              /* the token is the call's, not a stream's */
    struct py_call *below; /* the call that this one runs inside of */
    struct sigaction former;
    PyThreadState *thread;
};

/* Does Ctrl-C raise KeyboardInterrupt, and in this thread? With the GIL. */
bool py_call_interruptible(struct py_state *state);
/* With the GIL. On failure an exception is set and there is nothing to end. */
int py_call_init(struct py_state *state, struct py_call *call);
/* Around the call itself: the GIL is let go, and taken back. */
void py_call_enter(struct py_call *call);
void py_call_leave(struct py_state *state, struct py_call *call);
/* The same without the GIL, for callbacks of Arrow; `cancel` may be NULL. */
void py_call_arm(struct py_call *call, pennon_cancel *cancel);
void py_call_disarm(struct py_call *call);

/* How far a call has come, for another thread to look at: an object of the type Progress, or None. `progress` outlives the call. */
int py_call_progress(struct py_state *state, struct py_call *call, PyObject *progress);
extern PyType_Spec py_progress_spec;

/* Log records. The functions of the runtime come on any thread, also on ones that must not wait for the GIL: they queue. */
struct py_log *py_log_new(void);
void py_log_write(void *ctx, pennon_log_level level, const char *message);
void py_log_drain(struct py_state *state); /* with the GIL; keeps an exception that is set */

/* ---- options (py_options.c) ---- */

/* Memory that options point into; freed with py_options_free. */
struct py_block;
struct py_options {
    struct py_block *blocks;
};

enum py_option_kind {
    PY_OPTION_BOOL,
    PY_OPTION_I32,
    PY_OPTION_U32,
    PY_OPTION_I64,
    PY_OPTION_U64,
    PY_OPTION_FLOAT,
    PY_OPTION_TEXT,        /* const char *, borrowed from the value */
    PY_OPTION_BYTES,       /* const void *, and its size_t in the member behind */
    PY_OPTION_NAMES,       /* const pennon_names *: texts */
    PY_OPTION_IDS,         /* const pennon_ids * */
    PY_OPTION_PAIRS,       /* const pennon_pairs *: a dictionary of texts; None removes */
    PY_OPTION_EXPRESSIONS, /* const pennon_expressions *: pairs (name, SQL or None) */
    PY_OPTION_ORDERS,      /* const pennon_orders *: triples (column, descending, nulls first) */
    PY_OPTION_BASES,       /* const pennon_bases *: (id, name or None, path, is a dataset's root) */
    PY_OPTION_REF          /* const pennon_ref *: (version or None, tag or None, branch or None) */
};
struct py_option {
    const char *name;
    enum py_option_kind kind;
    size_t offset; /* of the member in the struct */
};

/* Read the dictionary `from` (or None) into the struct `to`. None as a value leaves the default; an unknown key is TypeError. `from` outlives `to`. */
int py_options_read(struct py_options *memory, PyObject *from, const struct py_option *table, void *to);
void py_options_free(struct py_options *memory);
/* Numbers of a sequence or of a buffer of 64-bit integers. */
int py_options_ids(struct py_options *memory, PyObject *from, pennon_ids *out);
/* UTF-8 of a text without NUL, borrowed. */
const char *py_text(PyObject *text);

/* ---- streams (py_stream.c) ---- */

struct py_stats; /* who is told what a scan did */

/* A Python object over `stream`, which is moved. `cancel` is the stream's token; it and `stats` (both may be NULL) are taken over, also on failure. */
PyObject *py_stream_new(struct py_state *state, struct ArrowArrayStream *stream, pennon_cancel *cancel, struct py_stats *stats);
/* Move the stream out of anything with __arrow_c_stream__ or __arrow_c_array__. */
int py_stream_import(PyObject *data, struct ArrowArrayStream *out);
/* A batch for a function of Python: the array is moved; the schema is lent, and what the function keeps of the batch must not outlive it. */
PyObject *py_batch_new(struct py_state *state, const struct ArrowSchema *schema, struct ArrowArray *array);
/* Move the array out of anything with __arrow_c_array__; its schema is the caller's to know. */
int py_batch_import(PyObject *data, struct ArrowArray *out);
/* An object with __arrow_c_schema__; the schema is moved. */
PyObject *py_schema_new(struct py_state *state, struct ArrowSchema *schema);
/* Call `callback` with the numbers of a scan, once and only at its end. */
struct py_stats *py_stats_new(PyObject *callback);
void py_stats_free(struct py_stats *stats); /* NULL is allowed */
void py_stats_write(void *ctx, const pennon_scan_stats *stats);

extern PyType_Spec py_stream_spec, py_batch_spec, py_schema_spec;

/* ---- handles (py_dataset.c, py_refs.c, py_commit.c, py_mutate.c, py_blob.c, py_file.c, py_store.c, py_evolve.c) ---- */

struct py_dataset {
    PyObject head;
    pennon_dataset *ds;
};
struct py_transaction {
    PyObject head;
    pennon_transaction *t;
};

PyObject *py_dataset_new(struct py_state *state, pennon_dataset *ds);        /* moved */
PyObject *py_transaction_new(struct py_state *state, pennon_transaction *t); /* moved */

extern PyType_Spec py_dataset_spec, py_transaction_spec, py_file_spec, py_writer_spec, py_store_spec, py_blobs_spec;
extern PyMethodDef py_write_functions[], py_transaction_functions[], py_file_functions[], py_store_functions[],
    py_compact_functions[];

/* Methods of Dataset that live in other files. */
PyObject *py_dataset_append(PyObject *self, PyObject *args);
PyObject *py_dataset_commit(PyObject *self, PyObject *args);
PyObject *py_dataset_restore(PyObject *self, PyObject *unused);
PyObject *py_dataset_update_metadata(PyObject *self, PyObject *args);
PyObject *py_dataset_delete(PyObject *self, PyObject *args);
PyObject *py_dataset_update(PyObject *self, PyObject *args);
PyObject *py_dataset_take_blobs(PyObject *self, PyObject *args);
PyObject *py_dataset_delta(PyObject *self, PyObject *args);
PyObject *py_dataset_add_sql(PyObject *self, PyObject *args);
PyObject *py_dataset_add_nulls(PyObject *self, PyObject *args);
PyObject *py_dataset_add_data(PyObject *self, PyObject *args);
PyObject *py_dataset_add_function(PyObject *self, PyObject *args);
PyObject *py_dataset_drop_columns(PyObject *self, PyObject *args);
PyObject *py_dataset_alter_columns(PyObject *self, PyObject *args);
PyObject *py_dataset_join_columns(PyObject *self, PyObject *args);
PyObject *py_dataset_update_columns(PyObject *self, PyObject *args);
PyObject *py_dataset_fragment_delete(PyObject *self, PyObject *args);
PyObject *py_dataset_compact(PyObject *self, PyObject *args);
PyObject *py_dataset_compact_plan(PyObject *self, PyObject *from);
PyObject *py_dataset_compact_execute(PyObject *self, PyObject *args);
PyObject *py_dataset_compact_commit(PyObject *self, PyObject *args);
PyObject *py_dataset_merge(PyObject *self, PyObject *args);
PyObject *py_dataset_merge_uncommitted(PyObject *self, PyObject *args);
PyObject *py_dataset_merge_explain(PyObject *self, PyObject *args);
PyObject *py_dataset_merge_analyze(PyObject *self, PyObject *args);
PyObject *py_dataset_add_bases(PyObject *self, PyObject *args);
PyObject *py_dataset_tag(PyObject *self, PyObject *args);
PyObject *py_dataset_branch(PyObject *self, PyObject *args);
PyObject *py_dataset_clone(PyObject *self, PyObject *args);
PyObject *py_dataset_cleanup(PyObject *self, PyObject *from);

/* State from an instance of one of our types, and from the module. */
static inline struct py_state *py_state_of(PyObject *self) { return PyType_GetModuleState(Py_TYPE(self)); }

static inline struct py_state *py_state_in(PyObject *module) { return PyModule_GetState(module); }

#endif
