/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What changes rows in place: delete, update. */
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
