/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Compaction of a Dataset: whole, and as plan, tasks and commit, which are texts. */
#include "py_binding.h"

#define OWN(self) (((struct py_dataset *)(self))->ds)

#define COMPACTION(member) offsetof(pennon_compaction_options, member)
static const struct py_option compaction_table[] = {
    {"set", PY_OPTION_U32, COMPACTION(set)},
    {"compaction_mode", PY_OPTION_I32, COMPACTION(compaction_mode)},
    {"target_rows_per_fragment", PY_OPTION_U64, COMPACTION(target_rows_per_fragment)},
    {"max_rows_per_group", PY_OPTION_U64, COMPACTION(max_rows_per_group)},
    {"max_bytes_per_file", PY_OPTION_U64, COMPACTION(max_bytes_per_file)},
    {"materialize_deletions", PY_OPTION_BOOL, COMPACTION(materialize_deletions)},
    {"materialize_deletions_threshold", PY_OPTION_FLOAT, COMPACTION(materialize_deletions_threshold)},
    {"num_threads", PY_OPTION_U64, COMPACTION(num_threads)},
    {"batch_size", PY_OPTION_U64, COMPACTION(batch_size)},
    {"io_buffer_size", PY_OPTION_U64, COMPACTION(io_buffer_size)},
    {"defer_index_remap", PY_OPTION_BOOL, COMPACTION(defer_index_remap)},
    {"binary_copy_read_batch_bytes", PY_OPTION_U64, COMPACTION(binary_copy_read_batch_bytes)},
    {"max_source_fragments", PY_OPTION_U64, COMPACTION(max_source_fragments)},
    {"allow_loss", PY_OPTION_BOOL, COMPACTION(allow_loss)},
    {NULL, 0, 0},
};

static int compaction_options(struct py_state *state, PyObject *from, PyObject *progress, struct py_options *memory,
                              struct py_call *call, pennon_compaction_options *options)
{
    pennon_compaction_options_init(options);
    if (py_options_read(memory, from, compaction_table, options) < 0 || py_call_init(state, call) < 0) return -1;
    options->call = &call->options;
    return progress == NULL ? 0 : py_call_progress(state, call, progress);
}

/* As pylance: what the caller gave is a ValueError, all else an OSError. */
static PyObject *raise_of(struct py_state *state, pennon_error *err)
{
    return py_raise(state, err, err->code == PENNON_INVALID_ARGUMENT ? PY_RAISES_KIND : PY_RAISES_OS);
}

static PyObject *metrics_of(const pennon_compaction_metrics *m)
{
    return Py_BuildValue("(KKKK)", (unsigned long long)m->fragments_removed, (unsigned long long)m->fragments_added,
                         (unsigned long long)m->files_removed, (unsigned long long)m->files_added);
}

static PyObject *text_of(char *text)
{
    PyObject *result = PyUnicode_FromString(text);
    pennon_string_free(text);
    return result;
}

PyObject *py_dataset_compact(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_compaction_options options;
    pennon_compaction_metrics done = {.struct_size = sizeof(done)};
    PyObject *from, *progress = Py_None, *result = NULL;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "O|O", &from, &progress)) return NULL;
    if (compaction_options(state, from, progress, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    const pennon_status status = pennon_dataset_compact(OWN(self), &options, &done, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? metrics_of(&done) : raise_of(state, &err);
done:
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_compact_plan(PyObject *self, PyObject *from)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_compaction_options options;
    PyObject *result = NULL;
    struct py_call call;
    char *text = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (compaction_options(state, from, NULL, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    const pennon_status status = pennon_dataset_compact_plan_json(OWN(self), &options, &text, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? text_of(text) : raise_of(state, &err);
done:
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_compact_execute(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_compaction_options options;
    PyObject *from, *result = NULL;
    struct py_call call;
    const char *task;
    char *text = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sO", &task, &from)) return NULL;
    if (compaction_options(state, from, NULL, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    const pennon_status status = pennon_compact_execute_json(OWN(self), task, &options, &text, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? text_of(text) : raise_of(state, &err);
done:
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_compact_commit(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_compaction_options options;
    pennon_compaction_metrics done = {.struct_size = sizeof(done)};
    PyObject *from, *result = NULL;
    struct py_call call;
    const char *results;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sO", &results, &from)) return NULL;
    if (compaction_options(state, from, NULL, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    const pennon_status status = pennon_dataset_compact_commit_json(OWN(self), results, &options, &done, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? metrics_of(&done) : raise_of(state, &err);
done:
    py_options_free(&memory);
    return result;
}

/* ---- functions ---- */

static PyObject *compact_text(PyObject *module, PyObject *args)
{
    const char *json;
    char *text = NULL;
    int kind;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "is", &kind, &json)) return NULL;
    if (pennon_compact_text(kind, json, &text, &err) != PENNON_OK) return py_raise(py_state_in(module), &err, PY_RAISES_KIND);
    return text_of(text);
}

PyMethodDef py_compact_functions[] = {
    {"compact_text", compact_text, METH_VARARGS,
     "compact_text(kind, json): a plan (0), task (1) or result (2), checked and in its form."},
    {NULL, NULL, 0, NULL},
};
