/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What changes rows: delete, update, merge. */
#include "py_binding.h"

#define MUTATION(member) offsetof(pennon_mutation_options, member)
static const struct py_option mutation_table[] = {
    {"conflict_retries", PY_OPTION_U32, MUTATION(conflict_retries)},
    {"retry_timeout_ms", PY_OPTION_U64, MUTATION(retry_timeout_ms)},
    {"properties", PY_OPTION_PAIRS, MUTATION(properties)},
    {"skip_auto_cleanup", PY_OPTION_BOOL, MUTATION(skip_auto_cleanup)},
    {NULL, 0, 0},
};

static int mutation_options(struct py_state *state, PyObject *from, struct py_options *memory, struct py_call *call,
                            pennon_mutation_options *options)
{
    pennon_mutation_options_init(options);
    if (py_options_read(memory, from, mutation_table, options) < 0 || py_call_init(state, call) < 0) return -1;
    options->call = &call->options;
    return 0;
}

PyObject *py_dataset_delete(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_mutation_options options;
    pennon_delete_result done = {.struct_size = sizeof(done)};
    PyObject *from;
    struct py_call call;
    const char *where;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sO", &where, &from)) return NULL;
    if (mutation_options(state, from, &memory, &call, &options) < 0) {
        py_options_free(&memory);
        return NULL;
    }
    py_call_enter(&call);
    const pennon_status status = pennon_dataset_delete(((struct py_dataset *)self)->ds, where, &options, &done, &err);
    py_call_leave(state, &call);
    py_options_free(&memory);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    return PyLong_FromUnsignedLongLong(done.rows_deleted);
}

PyObject *py_dataset_update(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_mutation_options options;
    pennon_update_result done = {.struct_size = sizeof(done)};
    PyObject *columns, *expressions, *from, *result = NULL;
    const char *where, **texts = NULL;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "O!O!zO", &PyTuple_Type, &columns, &PyTuple_Type, &expressions, &where, &from)) return NULL;
    const size_t n = (size_t)PyTuple_Size(columns);
    if ((size_t)PyTuple_Size(expressions) != n) {
        PyErr_SetString(PyExc_ValueError, "as many expressions as columns");
        return NULL;
    }
    texts = PyMem_Calloc(2 * n + 1, sizeof(*texts));
    if (texts == NULL) return PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) {
        texts[i] = py_text(PyTuple_GetItem(columns, (Py_ssize_t)i));
        texts[n + i] = py_text(PyTuple_GetItem(expressions, (Py_ssize_t)i));
        if (texts[i] == NULL || texts[n + i] == NULL) goto done;
    }
    if (mutation_options(state, from, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    const pennon_status status =
        pennon_dataset_update(((struct py_dataset *)self)->ds, where, n, texts, texts + n, &options, &done, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? PyLong_FromUnsignedLongLong(done.rows_updated) : py_raise(state, &err, PY_RAISES_KIND);
done:
    py_options_free(&memory);
    PyMem_Free(texts);
    return result;
}

/* ---- merge ---- */

#define MERGE(member) offsetof(pennon_merge_options, member)
static const struct py_option merge_table[] = {
    {"on", PY_OPTION_NAMES, MERGE(on)},
    {"when_matched", PY_OPTION_I32, MERGE(when_matched)},
    {"matched_condition", PY_OPTION_TEXT, MERGE(matched_condition)},
    {"when_not_matched", PY_OPTION_I32, MERGE(when_not_matched)},
    {"by_source", PY_OPTION_I32, MERGE(by_source)},
    {"by_source_condition", PY_OPTION_TEXT, MERGE(by_source_condition)},
    {"duplicates", PY_OPTION_I32, MERGE(duplicates)},
    {"use_index", PY_OPTION_BOOL, MERGE(use_index)},
    {"conflict_retries", PY_OPTION_U32, MERGE(conflict_retries)},
    {"retry_timeout_ms", PY_OPTION_U64, MERGE(retry_timeout_ms)},
    {"max_retries", PY_OPTION_U32, MERGE(max_retries)},
    {"properties", PY_OPTION_PAIRS, MERGE(properties)},
    {"skip_auto_cleanup", PY_OPTION_BOOL, MERGE(skip_auto_cleanup)},
    {NULL, 0, 0},
};

/* A merge of Python data. */
struct py_merge {
    struct py_options memory;
    struct ArrowArrayStream stream; /* release NULL = it was taken */
    pennon_merge_options options;
    struct py_call call;
    pennon_error err;
};

/* `data` NULL = none. On failure nothing is to be ended but merge_free. */
static int merge_init(struct py_state *state, struct py_merge *m, PyObject *data, PyObject *from)
{
    memset(m, 0, sizeof(*m));
    pennon_error_init(&m->err);
    pennon_merge_options_init(&m->options);
    if (data != NULL && py_stream_import(data, &m->stream) < 0) return -1;
    if (py_options_read(&m->memory, from, merge_table, &m->options) < 0 || py_call_init(state, &m->call) < 0) return -1;
    m->options.call = &m->call.options;
    return 0;
}

static void merge_free(struct py_merge *m)
{
    if (m->stream.release != NULL) m->stream.release(&m->stream);
    py_options_free(&m->memory);
}

static PyObject *merge_numbers(const pennon_merge_result *r)
{
    return Py_BuildValue("{sKsKsKsKsKsKsKsK}", "num_inserted_rows", (unsigned long long)r->rows_inserted, "num_updated_rows",
                         (unsigned long long)r->rows_updated, "num_deleted_rows", (unsigned long long)r->rows_deleted,
                         "num_skipped_duplicates", (unsigned long long)r->duplicates_skipped, "num_attempts",
                         (unsigned long long)r->attempts, "bytes_written", (unsigned long long)r->bytes_written,
                         "num_files_written", (unsigned long long)r->files_written, "version", (unsigned long long)r->version);
}

PyObject *py_dataset_merge(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_merge m;
    pennon_merge_result done = {.struct_size = sizeof(done)};
    PyObject *data, *from, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO", &data, &from)) return NULL;
    if (merge_init(state, &m, data, from) == 0) {
        py_call_enter(&m.call);
        const pennon_status status = pennon_dataset_merge(((struct py_dataset *)self)->ds, &m.stream, &m.options, &done, &m.err);
        py_call_leave(state, &m.call);
        m.stream.release = NULL;
        result = status == PENNON_OK ? merge_numbers(&done) : py_raise(state, &m.err, PY_RAISES_OS);
    }
    merge_free(&m);
    return result;
}

PyObject *py_dataset_merge_uncommitted(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_merge m;
    pennon_merge_result done = {.struct_size = sizeof(done)};
    pennon_transaction *t = NULL;
    PyObject *data, *from, *made, *numbers, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO", &data, &from)) return NULL;
    if (merge_init(state, &m, data, from) == 0) {
        py_call_enter(&m.call);
        const pennon_status status =
            pennon_dataset_merge_uncommitted(((struct py_dataset *)self)->ds, &m.stream, &m.options, &done, &t, NULL, NULL, &m.err);
        py_call_leave(state, &m.call);
        m.stream.release = NULL;
        if (status == PENNON_OK) {
            made = py_transaction_new(state, t);
            numbers = made != NULL ? merge_numbers(&done) : NULL;
            if (numbers != NULL) result = PyTuple_Pack(2, made, numbers);
            Py_XDECREF(made);
            Py_XDECREF(numbers);
        } else {
            result = py_raise(state, &m.err, PY_RAISES_OS);
        }
    }
    merge_free(&m);
    return result;
}

static PyObject *text_taken(char *text)
{
    PyObject *out = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    pennon_string_free(text);
    return out;
}

PyObject *py_dataset_merge_explain(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_merge m;
    struct ArrowSchema schema = {0};
    char *text = NULL;
    PyObject *data, *from, *result = NULL;
    int verbose;
    if (!PyArg_ParseTuple(args, "OOp", &data, &from, &verbose)) return NULL;
    if (merge_init(state, &m, data == Py_None ? NULL : data, from) == 0) {
        if (m.stream.release != NULL && m.stream.get_schema(&m.stream, &schema) != 0) {
            PyErr_SetString(PyExc_OSError, "the data has no schema");
            goto done;
        }
        py_call_enter(&m.call);
        const pennon_status status = pennon_dataset_merge_explain(
            ((struct py_dataset *)self)->ds, schema.release != NULL ? &schema : NULL, &m.options, verbose != 0, &text, &m.err);
        py_call_leave(state, &m.call);
        result = status == PENNON_OK ? text_taken(text) : py_raise(state, &m.err, PY_RAISES_KIND);
    }
done:
    if (schema.release != NULL) schema.release(&schema);
    merge_free(&m);
    return result;
}

PyObject *py_dataset_merge_analyze(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_merge m;
    char *text = NULL;
    PyObject *data, *from, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO", &data, &from)) return NULL;
    if (merge_init(state, &m, data, from) == 0) {
        py_call_enter(&m.call);
        const pennon_status status =
            pennon_dataset_merge_analyze(((struct py_dataset *)self)->ds, &m.stream, &m.options, &text, &m.err);
        py_call_leave(state, &m.call);
        m.stream.release = NULL;
        result = status == PENNON_OK ? text_taken(text) : py_raise(state, &m.err, PY_RAISES_OS);
    }
    merge_free(&m);
    return result;
}
