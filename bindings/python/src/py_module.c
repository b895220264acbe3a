/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The module _pennon: its types, its functions, its state. Nothing here starts a thread or imports more than `signal` (built in). */
#include "py_binding.h"

#define OPEN(member) offsetof(pennon_open_options, member)
static const struct py_option open_table[] = {
    {"version", PY_OPTION_U64, OPEN(version)},
    {"tag", PY_OPTION_TEXT, OPEN(tag)},
    {"branch", PY_OPTION_TEXT, OPEN(branch)},
    {"as_of_ns", PY_OPTION_I64, OPEN(as_of_ns)},
    {"external_paths", PY_OPTION_I32, OPEN(external_paths)},
    {"external_prefixes", PY_OPTION_NAMES, OPEN(external_prefixes)},
    {NULL, 0, 0},
};

static PyObject *open_dataset(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    pennon_open_options options;
    pennon_dataset *ds = NULL;
    PyObject *from, *result = NULL;
    struct py_call call;
    const char *uri;
    int checkout;
    pennon_error err;
    pennon_error_init(&err);
    pennon_open_options_init(&options);
    if (!PyArg_ParseTuple(args, "sOp", &uri, &from, &checkout)) return NULL;
    if (py_options_read(&memory, from, open_table, &options) < 0 || py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_open(uri, &options, &ds, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? py_dataset_new(state, ds) : py_raise(state, &err, checkout ? PY_RAISES_OS : PY_RAISES_KIND);
done:
    py_options_free(&memory);
    return result;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(pennon_version());
}

static PyMethodDef module_functions[] = {
    {"open", open_dataset, METH_VARARGS, "open(uri, options, checkout): a dataset; a checkout raises OSError."},
    {"version", version, METH_NOARGS, "Version of the library."},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out == NULL ? -1 : PyModule_AddType(module, *out);
}

static int signal_names(struct py_state *state)
{
    PyObject *module = PyImport_ImportModule("signal");
    if (module == NULL) return -1;
    state->getsignal = PyObject_GetAttrString(module, "getsignal");
    state->default_handler = PyObject_GetAttrString(module, "default_int_handler");
    Py_DECREF(module);
    return state->getsignal == NULL || state->default_handler == NULL ? -1 : 0;
}

static int module_exec(PyObject *module)
{
    struct py_state *state = py_state_in(module);
    pennon_runtime_options options;
    pennon_error err;
    pennon_error_init(&err);
    state->detail_type = py_detail_type();
    if (state->detail_type == NULL || PyModule_AddType(module, state->detail_type) < 0) return -1;
    if (add_type(module, &py_dataset_spec, &state->dataset_type) < 0) return -1;
    if (add_type(module, &py_stream_spec, &state->stream_type) < 0) return -1;
    if (add_type(module, &py_batch_spec, &state->batch_type) < 0) return -1;
    if (add_type(module, &py_schema_spec, &state->schema_type) < 0) return -1;
    if (add_type(module, &py_transaction_spec, &state->transaction_type) < 0) return -1;
    if (add_type(module, &py_file_spec, &state->file_type) < 0) return -1;
    if (add_type(module, &py_writer_spec, &state->writer_type) < 0) return -1;
    if (add_type(module, &py_store_spec, &state->store_type) < 0) return -1;
    if (add_type(module, &py_progress_spec, &state->progress_type) < 0) return -1;
    if (add_type(module, &py_blobs_spec, &state->blobs_type) < 0) return -1;
    if (PyModule_AddFunctions(module, py_write_functions) < 0) return -1;
    if (PyModule_AddFunctions(module, py_transaction_functions) < 0) return -1;
    if (PyModule_AddFunctions(module, py_file_functions) < 0) return -1;
    if (PyModule_AddFunctions(module, py_store_functions) < 0) return -1;
    if (PyModule_AddFunctions(module, py_compact_functions) < 0) return -1;
    if (signal_names(state) < 0) return -1;
    state->log = py_log_new();
    if (state->log == NULL) return -1;
    pennon_runtime_options_init(&options);
    options.log = py_log_write;
    options.log_ctx = state->log;
    options.log_level = PENNON_LOG_INFO;
    if (pennon_runtime_new(&options, &state->runtime, &err) != PENNON_OK) {
        py_raise(state, &err, PY_RAISES_KIND);
        return -1;
    }
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct py_state *state = py_state_in(module);
    Py_VISIT(state->dataset_type);
    Py_VISIT(state->stream_type);
    Py_VISIT(state->batch_type);
    Py_VISIT(state->schema_type);
    Py_VISIT(state->transaction_type);
    Py_VISIT(state->file_type);
    Py_VISIT(state->writer_type);
    Py_VISIT(state->store_type);
    Py_VISIT(state->progress_type);
    Py_VISIT(state->detail_type);
    Py_VISIT(state->blobs_type);
    Py_VISIT(state->getsignal);
    Py_VISIT(state->default_handler);
    Py_VISIT(state->logger);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct py_state *state = py_state_in(module);
    Py_CLEAR(state->dataset_type);
    Py_CLEAR(state->stream_type);
    Py_CLEAR(state->batch_type);
    Py_CLEAR(state->schema_type);
    Py_CLEAR(state->transaction_type);
    Py_CLEAR(state->file_type);
    Py_CLEAR(state->writer_type);
    Py_CLEAR(state->store_type);
    Py_CLEAR(state->progress_type);
    Py_CLEAR(state->detail_type);
    Py_CLEAR(state->blobs_type);
    Py_CLEAR(state->getsignal);
    Py_CLEAR(state->default_handler);
    Py_CLEAR(state->logger);
    return 0;
}

/* The queue of the log stays: a stream in other hands may hold the runtime, which writes to it. */
static void module_free(void *module)
{
    struct py_state *state = py_state_in(module);
    if (state == NULL) return;
    module_clear(module);
    pennon_runtime_free(state->runtime);
    state->runtime = NULL;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,   "_pennon",        "The library libpennon.",
    sizeof(struct py_state), module_functions, module_slots,
    module_traverse,         module_clear,     module_free,
};

PyMODINIT_FUNC PyInit__pennon(void);
PyMODINIT_FUNC PyInit__pennon(void) { return PyModuleDef_Init(&module_def); }
