/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What writes: write, append, fragments without a commit, transactions and their commit, restore, metadata, base paths. */
#include "py_binding.h"

/* ---- options ---- */

#define WRITE(member) offsetof(pennon_write_options, member)
static const struct py_option write_table[] = {
    {"mode", PY_OPTION_I32, WRITE(mode)},
    {"storage_version", PY_OPTION_TEXT, WRITE(storage_version)},
    {"max_rows_per_file", PY_OPTION_U64, WRITE(max_rows_per_file)},
    {"max_bytes_per_file", PY_OPTION_U64, WRITE(max_bytes_per_file)},
    {"stable_row_ids", PY_OPTION_BOOL, WRITE(stable_row_ids)},
    {"v1_manifest_names", PY_OPTION_BOOL, WRITE(v1_manifest_names)},
    {"properties", PY_OPTION_PAIRS, WRITE(properties)},
    {"branch", PY_OPTION_TEXT, WRITE(branch)},
    {"external_blobs", PY_OPTION_I32, WRITE(external_blobs)},
    {"blob_pack_bytes", PY_OPTION_U64, WRITE(blob_pack_bytes)},
    {"config", PY_OPTION_PAIRS, WRITE(config)},
    {"initial_bases", PY_OPTION_BASES, WRITE(initial_bases)},
    {"target_bases", PY_OPTION_NAMES, WRITE(target_bases)},
    {NULL, 0, 0},
};

#define COMMIT(member) offsetof(pennon_commit_options, member)
static const struct py_option commit_table[] = {
    {"max_retries", PY_OPTION_U32, COMMIT(max_retries)},
    {"detached", PY_OPTION_BOOL, COMMIT(detached)},
    {"storage_version", PY_OPTION_TEXT, COMMIT(storage_version)},
    {"stable_row_ids", PY_OPTION_BOOL, COMMIT(stable_row_ids)},
    {"v1_manifest_names", PY_OPTION_BOOL, COMMIT(v1_manifest_names)},
    {"properties", PY_OPTION_PAIRS, COMMIT(properties)},
    {"branch", PY_OPTION_TEXT, COMMIT(branch)},
    {NULL, 0, 0},
};

/* The options of a write, its call made. On failure nothing is to be ended but `memory`. */
static int write_options(struct py_state *state, PyObject *from, struct py_options *memory, struct py_call *call,
                         pennon_write_options *options)
{
    pennon_write_options_init(options);
    if (py_options_read(memory, from, write_table, options) < 0 || py_call_init(state, call) < 0) return -1;
    options->call = &call->options;
    return 0;
}

/* The same of a commit; `timeout_ms` negative = none. */
static int commit_options(struct py_state *state, PyObject *from, struct py_options *memory, struct py_call *call,
                          pennon_commit_options *options)
{
    pennon_commit_options_init(options);
    if (py_options_read(memory, from, commit_table, options) < 0 || py_call_init(state, call) < 0) return -1;
    options->call = &call->options;
    return 0;
}

/* ---- write ---- */

/* Ends an import that no call took over. */
static void drop_stream(struct ArrowArrayStream *stream)
{
    if (stream->release != NULL) stream->release(stream);
}

static PyObject *write_dataset(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    struct ArrowArrayStream stream = {0};
    pennon_write_options options;
    pennon_dataset *ds = NULL;
    PyObject *data, *from, *progress = Py_None, *result = NULL;
    struct py_call call;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sOO|O", &uri, &data, &from, &progress)) return NULL;
    if (py_stream_import(data, &stream) < 0 || write_options(state, from, &memory, &call, &options) < 0) goto done;
    if (py_call_progress(state, &call, progress) < 0) goto done;
    py_call_enter(&call);
    pennon_status status = pennon_write(uri, &stream, &options, &ds, &err);
    py_call_leave(state, &call);
    stream.release = NULL;
    result = status == PENNON_OK ? py_dataset_new(state, ds) : py_raise(state, &err, PY_RAISES_OS);
done:
    drop_stream(&stream);
    py_options_free(&memory);
    return result;
}

static PyObject *write_fragments(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    struct ArrowArrayStream stream = {0};
    pennon_write_options options;
    pennon_transaction *t = NULL;
    PyObject *data, *from, *progress = Py_None, *result = NULL;
    struct py_call call;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sOO|O", &uri, &data, &from, &progress)) return NULL;
    if (py_stream_import(data, &stream) < 0 || write_options(state, from, &memory, &call, &options) < 0) goto done;
    if (py_call_progress(state, &call, progress) < 0) goto done;
    py_call_enter(&call);
    pennon_status status = pennon_write_fragments(uri, &stream, &options, &t, &err);
    py_call_leave(state, &call);
    stream.release = NULL;
    result = status == PENNON_OK ? py_transaction_new(state, t) : py_raise(state, &err, PY_RAISES_OS);
done:
    drop_stream(&stream);
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_append(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    struct ArrowArrayStream stream = {0};
    pennon_write_options options;
    PyObject *data, *from, *progress = Py_None, *result = NULL;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "OO|O", &data, &from, &progress)) return NULL;
    if (py_stream_import(data, &stream) < 0 || write_options(state, from, &memory, &call, &options) < 0) goto done;
    if (py_call_progress(state, &call, progress) < 0) goto done;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_append(((struct py_dataset *)self)->ds, &stream, &options, &err);
    py_call_leave(state, &call);
    stream.release = NULL;
    result = status == PENNON_OK ? Py_NewRef(Py_None) : py_raise(state, &err, PY_RAISES_OS);
done:
    drop_stream(&stream);
    py_options_free(&memory);
    return result;
}

PyMethodDef py_write_functions[] = {
    {"write", write_dataset, METH_VARARGS, "write(uri, data, options, progress=None): the dataset."},
    {"write_fragments", write_fragments, METH_VARARGS, "write_fragments(uri, data, options, progress=None): the transaction."},
    {NULL, NULL, 0, NULL},
};

/* ---- Transaction ---- */

static pennon_transaction *transaction_of(PyObject *self) { return ((struct py_transaction *)self)->t; }

PyObject *py_transaction_new(struct py_state *state, pennon_transaction *t)
{
    struct py_transaction *self = (struct py_transaction *)PyType_GenericAlloc(state->transaction_type, 0);
    if (self == NULL) {
        pennon_transaction_free(t);
        return NULL;
    }
    self->t = t;
    return (PyObject *)self;
}

static void transaction_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pennon_transaction_free(transaction_of(object));
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *json_out(PyObject *self, pennon_status (*f)(const pennon_transaction *, char **, pennon_error *))
{
    char *text = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (f(transaction_of(self), &text, &err) != PENNON_OK) return py_raise(py_state_of(self), &err, PY_RAISES_KIND);
    PyObject *out = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "strict");
    pennon_string_free(text);
    return out;
}

static PyObject *transaction_to_json(PyObject *self, PyObject *unused)
{
    (void)unused;
    return json_out(self, pennon_transaction_to_json);
}

static PyObject *transaction_fragments(PyObject *self, PyObject *unused)
{
    (void)unused;
    return json_out(self, pennon_transaction_fragments_json);
}

static PyObject *transaction_to_bytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    void *bytes = NULL;
    size_t n = 0;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_transaction_to_bytes(transaction_of(self), &bytes, &n, &err) != PENNON_OK) {
        return py_raise(py_state_of(self), &err, PY_RAISES_KIND);
    }
    PyObject *out = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
    pennon_bytes_free(bytes);
    return out;
}

/* Arrow schema of the table that it makes. */
static PyObject *transaction_schema(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    struct ArrowSchema schema;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_transaction_schema(transaction_of(self), &schema, &err) != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_schema_new(state, &schema);
}

static PyMethodDef transaction_methods[] = {
    {"schema", transaction_schema, METH_NOARGS, "Arrow schema of the table that it makes."},
    {"to_json", transaction_to_json, METH_NOARGS, "The transaction as JSON."},
    {"to_bytes", transaction_to_bytes, METH_NOARGS, "The protobuf message."},
    {"fragments_json", transaction_fragments, METH_NOARGS, "The fragments that it adds, as JSON."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot transaction_slots[] = {
    {Py_tp_dealloc, transaction_dealloc},
    {Py_tp_methods, transaction_methods},
    {Py_tp_doc, "A change that can be committed."},
    {0, NULL},
};
PyType_Spec py_transaction_spec = {"_pennon.Transaction", sizeof(struct py_transaction), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, transaction_slots};

static PyObject *from_json(PyObject *module, PyObject *text)
{
    struct py_state *state = py_state_in(module);
    pennon_transaction *t = NULL;
    pennon_error err;
    pennon_error_init(&err);
    const char *json = py_text(text);
    if (json == NULL) return NULL;
    if (pennon_transaction_from_json(json, &t, &err) != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_transaction_new(state, t);
}

static PyObject *from_bytes(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    pennon_transaction *t = NULL;
    const char *bytes;
    Py_ssize_t n;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "y#", &bytes, &n)) return NULL;
    if (pennon_transaction_from_bytes(bytes, (size_t)n, &t, &err) != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_transaction_new(state, t);
}

/* transaction_from_schema(schema capsule or dataset): an Overwrite that has the schema. */
static PyObject *from_schema(PyObject *module, PyObject *from)
{
    struct py_state *state = py_state_in(module);
    const struct ArrowSchema *schema = NULL;
    pennon_dataset *ds = NULL;
    pennon_transaction *t = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (Py_TYPE(from) == state->dataset_type) {
        ds = ((struct py_dataset *)from)->ds;
    } else {
        schema = PyCapsule_GetPointer(from, "arrow_schema");
        if (schema == NULL) return NULL;
    }
    if (pennon_transaction_from_schema(schema, ds, &t, &err) != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_transaction_new(state, t);
}

/* ---- commit ---- */

static int is_transaction(struct py_state *state, PyObject *object)
{
    if (Py_TYPE(object) == state->transaction_type) return 1;
    PyErr_Format(PyExc_TypeError, "a transaction is wanted, not %R", (PyObject *)Py_TYPE(object));
    return 0;
}

/* commit(uri, transaction, options, timeout in ms): the dataset. */
static PyObject *commit(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    pennon_commit_options options;
    pennon_dataset *ds = NULL;
    PyObject *t, *from, *result = NULL;
    struct py_call call;
    long long timeout;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sOOL", &uri, &t, &from, &timeout) || !is_transaction(state, t)) return NULL;
    if (commit_options(state, from, &memory, &call, &options) < 0) goto done;
    call.options.timeout_ms = timeout;
    py_call_enter(&call);
    pennon_status status = pennon_commit(uri, transaction_of(t), &options, &ds, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? py_dataset_new(state, ds) : py_raise(state, &err, PY_RAISES_OS);
done:
    py_options_free(&memory);
    return result;
}

/* commit_batch(uri, transactions, options, timeout in ms): the dataset and the merged transaction. */
static PyObject *commit_batch(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    pennon_commit_options options;
    pennon_dataset *ds = NULL;
    pennon_transaction *merged = NULL;
    const pennon_transaction **items = NULL;
    PyObject *list, *from, *result = NULL;
    struct py_call call;
    long long timeout;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sO!OL", &uri, &PyTuple_Type, &list, &from, &timeout)) return NULL;
    size_t n = (size_t)PyTuple_Size(list);
    items = PyMem_Calloc(n + 1, sizeof(*items));
    if (items == NULL) return PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) {
        PyObject *t = PyTuple_GetItem(list, (Py_ssize_t)i);
        if (t == NULL || !is_transaction(state, t)) goto done;
        items[i] = transaction_of(t);
    }
    if (commit_options(state, from, &memory, &call, &options) < 0) goto done;
    call.options.timeout_ms = timeout;
    py_call_enter(&call);
    pennon_status status = pennon_commit_batch(uri, n, items, &options, &ds, &merged, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) {
        py_raise(state, &err, PY_RAISES_OS);
        goto done;
    }
    PyObject *dataset = py_dataset_new(state, ds);
    PyObject *transaction = py_transaction_new(state, merged);
    if (dataset != NULL && transaction != NULL) result = PyTuple_Pack(2, dataset, transaction);
    Py_XDECREF(dataset);
    Py_XDECREF(transaction);
done:
    PyMem_Free(items);
    py_options_free(&memory);
    return result;
}

PyMethodDef py_transaction_functions[] = {
    {"transaction_from_json", from_json, METH_O, "A transaction from JSON."},
    {"transaction_from_bytes", from_bytes, METH_VARARGS, "A transaction from its protobuf message."},
    {"transaction_from_schema", from_schema, METH_O, "An Overwrite with the schema of a capsule, or a dataset's."},
    {"commit", commit, METH_VARARGS, "commit(uri, transaction, options, timeout_ms): the dataset."},
    {"commit_batch", commit_batch, METH_VARARGS, "commit_batch(uri, transactions, options, timeout_ms): (dataset, transaction)."},
    {NULL, NULL, 0, NULL},
};

PyObject *py_dataset_commit(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_commit_options options;
    PyObject *t, *from, *result = NULL;
    struct py_call call;
    long long timeout;
    uint64_t version = 0;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "OOL", &t, &from, &timeout) || !is_transaction(state, t)) return NULL;
    if (commit_options(state, from, &memory, &call, &options) < 0) goto done;
    call.options.timeout_ms = timeout;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_commit(((struct py_dataset *)self)->ds, transaction_of(t), &options, &version, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? PyLong_FromUnsignedLongLong(version) : py_raise(state, &err, PY_RAISES_OS);
done:
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_restore(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_commit_options options;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (commit_options(state, Py_None, &memory, &call, &options) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_restore(((struct py_dataset *)self)->ds, &options, &err);
    py_call_leave(state, &call);
    py_options_free(&memory);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    Py_RETURN_NONE;
}

/* ---- metadata and base paths ---- */

#define UPDATE(member) offsetof(pennon_metadata_update, member)
static const struct py_option update_table[] = {
    {"which", PY_OPTION_I32, UPDATE(which)},
    {"field", PY_OPTION_TEXT, UPDATE(field)},
    {"pairs", PY_OPTION_PAIRS, UPDATE(pairs)},
    {"replace", PY_OPTION_BOOL, UPDATE(replace)},
    {NULL, 0, 0},
};

PyObject *py_dataset_update_metadata(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_commit_options options;
    pennon_metadata_update *updates = NULL;
    PyObject *list, *from, *result = NULL;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &list, &from)) return NULL;
    size_t n = (size_t)PyTuple_Size(list);
    updates = PyMem_Calloc(n + 1, sizeof(*updates));
    if (updates == NULL) return PyErr_NoMemory();
    for (size_t i = 0; i < n; i++) {
        PyObject *update = PyTuple_GetItem(list, (Py_ssize_t)i);
        if (update == NULL || py_options_read(&memory, update, update_table, &updates[i]) < 0) goto done;
    }
    if (commit_options(state, from, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_update_metadata(((struct py_dataset *)self)->ds, n, updates, &options, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? Py_NewRef(Py_None) : py_raise(state, &err, PY_RAISES_OS);
done:
    PyMem_Free(updates);
    py_options_free(&memory);
    return result;
}

static const struct py_option bases_table[] = {{"bases", PY_OPTION_BASES, 0}, {NULL, 0, 0}};

PyObject *py_dataset_add_bases(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_commit_options options;
    const pennon_bases *bases = NULL;
    PyObject *list, *from, *result = NULL;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "OO", &list, &from)) return NULL;
    if (py_options_read(&memory, list, bases_table, (void *)&bases) < 0) goto done;
    if (commit_options(state, from, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_add_bases(((struct py_dataset *)self)->ds, bases, &options, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? Py_NewRef(Py_None) : py_raise(state, &err, PY_RAISES_OS);
done:
    py_options_free(&memory);
    return result;
}
