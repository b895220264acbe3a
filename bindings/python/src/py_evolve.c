/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What changes columns: add, drop, alter, join, update in place; rows of one fragment.
 *
 * Functions of Python are called on the thread of the call, which takes the GIL back for them. What they raise ends the call: an Exception becomes the cause of
 * the error, anything else (KeyboardInterrupt) is raised as it is. */
#include "py_binding.h"

#define EVOLUTION(member) offsetof(pennon_evolution_options, member)
static const struct py_option evolution_table[] = {
    {"batch_rows", PY_OPTION_U64, EVOLUTION(batch_rows)},   {"properties", PY_OPTION_PAIRS, EVOLUTION(properties)},
    {"max_retries", PY_OPTION_U32, EVOLUTION(max_retries)}, {"skip_auto_cleanup", PY_OPTION_BOOL, EVOLUTION(skip_auto_cleanup)},
    {"fragments", PY_OPTION_IDS, EVOLUTION(fragments)},     {NULL, 0, 0},
};

/* One call. With fragments nothing is committed, and the transaction is the result. */
struct change {
    struct py_state *state;
    pennon_dataset *ds;
    struct py_options memory;
    struct py_call call;
    pennon_evolution_options options;
    pennon_transaction *t;
    pennon_error err;
};

static int change_begin(struct change *c, PyObject *self, PyObject *from, PyObject *progress)
{
    memset(c, 0, sizeof(*c));
    c->state = py_state_of(self);
    c->ds = ((struct py_dataset *)self)->ds;
    pennon_error_init(&c->err);
    pennon_evolution_options_init(&c->options);
    if (py_options_read(&c->memory, from, evolution_table, &c->options) < 0) return -1;
    if (c->options.fragments != NULL) c->options.uncommitted = &c->t;
    if (py_call_init(c->state, &c->call) < 0) return -1;
    c->options.call = &c->call.options;
    return progress == NULL ? 0 : py_call_progress(c->state, &c->call, progress);
}

static PyObject *change_end(struct change *c, pennon_status status, enum py_raises how)
{
    py_call_leave(c->state, &c->call);
    py_options_free(&c->memory);
    if (status != PENNON_OK) return py_raise(c->state, &c->err, c->options.uncommitted != NULL ? PY_RAISES_KIND : how);
    return c->t != NULL ? py_transaction_new(c->state, c->t) : Py_NewRef(Py_None);
}

/* Texts of a tuple, borrowed; *out is freed with PyMem_Free. */
static int texts_of(PyObject *tuple, const char ***out)
{
    const Py_ssize_t n = PyTuple_Size(tuple);
    *out = PyMem_Calloc((size_t)n + 1, sizeof(**out));
    if (*out == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        (*out)[i] = py_text(PyTuple_GetItem(tuple, i));
        if ((*out)[i] == NULL) return -1;
    }
    return 0;
}

/* ---- add ---- */

PyObject *py_dataset_add_sql(PyObject *self, PyObject *args)
{
    PyObject *names, *expressions, *from, *progress = Py_None, *result = NULL;
    const char **columns = NULL, **values = NULL;
    struct change c;
    if (!PyArg_ParseTuple(args, "O!O!O|O", &PyTuple_Type, &names, &PyTuple_Type, &expressions, &from, &progress)) return NULL;
    const size_t n = (size_t)PyTuple_Size(names);
    if ((size_t)PyTuple_Size(expressions) != n) {
        PyErr_SetString(PyExc_ValueError, "as many expressions as columns");
        return NULL;
    }
    if (texts_of(names, &columns) < 0 || texts_of(expressions, &values) < 0) goto done;
    if (change_begin(&c, self, from, progress) < 0) {
        py_options_free(&c.memory);
        goto done;
    }
    py_call_enter(&c.call);
    const pennon_status status = pennon_dataset_add_columns_sql(c.ds, n, columns, values, &c.options, NULL, &c.err);
    result = change_end(&c, status, PY_RAISES_OS);
done:
    PyMem_Free(columns);
    PyMem_Free(values);
    return result;
}

/* The schema in a capsule, borrowed. */
static const struct ArrowSchema *schema_in(PyObject *capsule) { return PyCapsule_GetPointer(capsule, "arrow_schema"); }

PyObject *py_dataset_add_nulls(PyObject *self, PyObject *args)
{
    PyObject *capsule, *from;
    struct change c;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &from)) return NULL;
    const struct ArrowSchema *schema = schema_in(capsule);
    if (schema == NULL) return NULL;
    if (change_begin(&c, self, from, NULL) < 0) {
        py_options_free(&c.memory);
        return NULL;
    }
    py_call_enter(&c.call);
    const pennon_status status = pennon_dataset_add_columns_null(c.ds, schema, &c.options, NULL, &c.err);
    return change_end(&c, status, PY_RAISES_OS);
}

PyObject *py_dataset_add_data(PyObject *self, PyObject *args)
{
    PyObject *data, *from, *progress = Py_None;
    struct ArrowArrayStream stream = {0};
    struct change c;
    if (!PyArg_ParseTuple(args, "OO|O", &data, &from, &progress) || py_stream_import(data, &stream) < 0) return NULL;
    if (change_begin(&c, self, from, progress) < 0) {
        py_options_free(&c.memory);
        stream.release(&stream);
        return NULL;
    }
    py_call_enter(&c.call);
    const pennon_status status = pennon_dataset_add_columns_stream(c.ds, &stream, &c.options, NULL, &c.err);
    return change_end(&c, status, PY_RAISES_OS);
}

/* ---- functions ---- */

struct function {
    struct change *change;
    PyObject *map;                  /* batch -> batch */
    PyObject *checkpoint;           /* with the methods get_batch, put_batch, get_fragment, put_fragment; or NULL */
    PyObject *kept;                 /* what a text of the checkpoint belongs to */
    PyObject *type, *value, *trace; /* what was raised */
    char *message;                  /* its text */
};

/* In a callback: with the GIL until callback_end. */
static void callback_begin(struct function *f)
{
    py_call_disarm(&f->change->call);
    PyEval_RestoreThread(f->change->call.thread);
}

/* The text of the exception that is set, which is kept. */
static void note_exception(struct function *f)
{
    PyErr_Fetch(&f->type, &f->value, &f->trace);
    PyErr_NormalizeException(&f->type, &f->value, &f->trace);
    if (f->trace != NULL && f->value != NULL) PyException_SetTraceback(f->value, f->trace);
    PyObject *name = f->type == NULL ? NULL : PyObject_GetAttrString(f->type, "__name__");
    PyObject *text = name == NULL || f->value == NULL ? NULL : PyUnicode_FromFormat("%U: %S", name, f->value);
    PyObject *bytes = text == NULL ? NULL : PyUnicode_AsEncodedString(text, "utf-8", "replace");
    const char *message = bytes == NULL ? NULL : PyBytes_AsString(bytes);
    free(f->message);
    f->message = message == NULL ? NULL : strdup(message);
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    PyErr_Clear();
}

static pennon_status callback_end(struct function *f, bool good, const char **message)
{
    pennon_status status = PENNON_OK;
    if (!good) {
        status = PENNON_INVALID_ARGUMENT;
        note_exception(f);
        *message = f->message;
    }
    f->change->call.thread = PyEval_SaveThread();
    py_call_arm(&f->change->call, f->change->call.options.cancel);
    return status;
}

/* Give a batch to Python: `array` is moved, the schema copied by reference to its owner for the time of the call. */
static PyObject *batch_object(struct function *f, const struct ArrowSchema *schema, struct ArrowArray *array)
{
    return py_batch_new(f->change->state, schema, array);
}

static pennon_status function_map(void *ctx, const struct ArrowSchema *schema, struct ArrowArray *in, struct ArrowArray *out,
                                  const char **message)
{
    struct function *f = ctx;
    callback_begin(f);
    PyObject *batch = batch_object(f, schema, in);
    PyObject *made = batch == NULL ? NULL : PyObject_CallFunctionObjArgs(f->map, batch, NULL);
    const bool good = made != NULL && py_batch_import(made, out) == 0;
    Py_XDECREF(batch);
    Py_XDECREF(made);
    return callback_end(f, good, message);
}

static pennon_status kept_batch(void *ctx, uint64_t fragment, uint64_t batch, struct ArrowArray *out, const char **message)
{
    struct function *f = ctx;
    callback_begin(f);
    PyObject *made = PyObject_CallMethod(f->checkpoint, "get_batch", "KK", (unsigned long long)fragment, (unsigned long long)batch);
    const bool good = made != NULL && (made == Py_None || py_batch_import(made, out) == 0);
    Py_XDECREF(made);
    return callback_end(f, good, message);
}

static pennon_status keep_batch(void *ctx, uint64_t fragment, uint64_t batch, const struct ArrowSchema *schema,
                                struct ArrowArray *values, const char **message)
{
    struct function *f = ctx;
    callback_begin(f);
    PyObject *given = batch_object(f, schema, values);
    PyObject *made = given == NULL ? NULL
                                   : PyObject_CallMethod(f->checkpoint, "put_batch", "KKO", (unsigned long long)fragment,
                                                         (unsigned long long)batch, given);
    const bool good = made != NULL;
    Py_XDECREF(given);
    Py_XDECREF(made);
    return callback_end(f, good, message);
}

static pennon_status kept_fragment(void *ctx, uint64_t fragment, const char **json, const char **message)
{
    struct function *f = ctx;
    callback_begin(f);
    Py_CLEAR(f->kept);
    f->kept = PyObject_CallMethod(f->checkpoint, "get_fragment", "K", (unsigned long long)fragment);
    bool good = f->kept != NULL;
    if (good && f->kept != Py_None) {
        *json = py_text(f->kept);
        good = *json != NULL;
    }
    return callback_end(f, good, message);
}

static pennon_status keep_fragment(void *ctx, uint64_t fragment, const char *json, const char **message)
{
    struct function *f = ctx;
    callback_begin(f);
    PyObject *made = PyObject_CallMethod(f->checkpoint, "put_fragment", "Ks", (unsigned long long)fragment, json);
    const bool good = made != NULL;
    Py_XDECREF(made);
    return callback_end(f, good, message);
}

/* What the function raised goes on: as it is, or as the cause of the error. */
static PyObject *raise_again(struct function *f, PyObject *result)
{
    PyObject *type, *value, *trace;
    if (f->type == NULL) return result;
    if (result != NULL) {
        Py_DECREF(f->type);
        Py_XDECREF(f->value);
        Py_XDECREF(f->trace);
        return result;
    }
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_GivenExceptionMatches(f->type, PyExc_Exception)) {
        PyErr_NormalizeException(&type, &value, &trace);
        if (value != NULL && f->value != NULL) PyException_SetCause(value, Py_NewRef(f->value));
        PyErr_Restore(type, value, trace);
        Py_DECREF(f->type);
        Py_XDECREF(f->value);
        Py_XDECREF(f->trace);
    } else {
        PyErr_Restore(f->type, f->value, f->trace);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    return NULL;
}

PyObject *py_dataset_add_function(PyObject *self, PyObject *args)
{
    PyObject *capsule, *map, *columns, *checkpoint, *from, *progress = Py_None;
    struct change c;
    struct function f = {.change = &c};
    pennon_checkpoint kept = {sizeof(kept), &f, kept_batch, keep_batch, kept_fragment, keep_fragment};
    pennon_column_function function = {.struct_size = sizeof(function), .ctx = &f, .map = function_map};
    const char **names = NULL;
    pennon_names read = {0, NULL};
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "OOOOO|O", &capsule, &map, &columns, &checkpoint, &from, &progress)) return NULL;
    const struct ArrowSchema *schema = schema_in(capsule);
    if (schema == NULL) return NULL;
    if (columns != Py_None) {
        if (!PyTuple_Check(columns)) {
            PyErr_SetString(PyExc_TypeError, "read_columns is a tuple, or None");
            return NULL;
        }
        if (texts_of(columns, &names) < 0) goto done;
        read = (pennon_names){(size_t)PyTuple_Size(columns), names};
        function.read_columns = &read;
    }
    f.map = map;
    f.checkpoint = checkpoint;
    if (checkpoint != Py_None) function.checkpoint = &kept;
    if (change_begin(&c, self, from, progress) < 0) {
        py_options_free(&c.memory);
        goto done;
    }
    py_call_enter(&c.call);
    const pennon_status status = pennon_dataset_add_columns_udf(c.ds, schema, &function, &c.options, NULL, &c.err);
    result = raise_again(&f, change_end(&c, status, PY_RAISES_OS));
done:
    Py_XDECREF(f.kept);
    free(f.message);
    PyMem_Free(names);
    return result;
}

/* ---- drop, alter ---- */

PyObject *py_dataset_drop_columns(PyObject *self, PyObject *args)
{
    PyObject *columns, *from, *result = NULL;
    const char **names = NULL;
    struct change c;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &columns, &from)) return NULL;
    if (texts_of(columns, &names) < 0) goto done;
    if (change_begin(&c, self, from, NULL) < 0) {
        py_options_free(&c.memory);
        goto done;
    }
    py_call_enter(&c.call);
    const pennon_status status = pennon_dataset_drop_columns(c.ds, (size_t)PyTuple_Size(columns), names, &c.options, NULL, &c.err);
    result = change_end(&c, status, PY_RAISES_KIND);
done:
    PyMem_Free(names);
    return result;
}

/* (path, name or None, nullable or None, capsule of a schema or None) */
static int alteration_of(PyObject *item, pennon_alteration *out)
{
    PyObject *nullable, *type;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "szOO", &out->path, &out->rename, &nullable, &type)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an alteration is a tuple");
        return -1;
    }
    if (nullable != Py_None) {
        const int yes = PyObject_IsTrue(nullable);
        if (yes < 0) return -1;
        out->nullable = yes ? PENNON_NULLABLE_YES : PENNON_NULLABLE_NO;
    }
    if (type != Py_None) {
        out->data_type = schema_in(type);
        if (out->data_type == NULL) return -1;
    }
    return 0;
}

PyObject *py_dataset_alter_columns(PyObject *self, PyObject *args)
{
    PyObject *items, *from, *progress = Py_None, *result = NULL;
    pennon_alteration *list;
    struct change c;
    if (!PyArg_ParseTuple(args, "O!O|O", &PyTuple_Type, &items, &from, &progress)) return NULL;
    const Py_ssize_t n = PyTuple_Size(items);
    list = PyMem_Calloc((size_t)n + 1, sizeof(*list));
    if (list == NULL) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        if (alteration_of(PyTuple_GetItem(items, i), &list[i]) < 0) goto done;
    }
    if (change_begin(&c, self, from, progress) < 0) {
        py_options_free(&c.memory);
        goto done;
    }
    py_call_enter(&c.call);
    const pennon_status status = pennon_dataset_alter_columns(c.ds, (size_t)n, list, &c.options, NULL, &c.err);
    result = change_end(&c, status, PY_RAISES_OS);
done:
    PyMem_Free(list);
    return result;
}

/* ---- values by key ---- */

typedef pennon_status (*join_fn)(pennon_dataset *, struct ArrowArrayStream *, const char *, const char *,
                                 const pennon_evolution_options *, pennon_evolution_result *, pennon_error *);

static PyObject *join(join_fn fn, PyObject *self, PyObject *args)
{
    PyObject *data, *from, *progress = Py_None;
    const char *left, *right;
    struct ArrowArrayStream stream = {0};
    struct change c;
    if (!PyArg_ParseTuple(args, "OssO|O", &data, &left, &right, &from, &progress) || py_stream_import(data, &stream) < 0)
        return NULL;
    if (change_begin(&c, self, from, progress) < 0) {
        py_options_free(&c.memory);
        stream.release(&stream);
        return NULL;
    }
    py_call_enter(&c.call);
    const pennon_status status = fn(c.ds, &stream, left, right, &c.options, NULL, &c.err);
    return change_end(&c, status, PY_RAISES_OS);
}

PyObject *py_dataset_join_columns(PyObject *self, PyObject *args) { return join(pennon_dataset_join_columns, self, args); }
PyObject *py_dataset_update_columns(PyObject *self, PyObject *args) { return join(pennon_dataset_update_columns, self, args); }

/* ---- rows of one fragment ---- */

PyObject *py_dataset_fragment_delete(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    unsigned long long fragment;
    const char *where;
    struct py_call call;
    pennon_transaction *t = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "Ks", &fragment, &where) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    const pennon_status status = pennon_fragment_delete(((struct py_dataset *)self)->ds, fragment, where, &call.options, &t, &err);
    py_call_leave(state, &call);
    return status == PENNON_OK ? py_transaction_new(state, t) : py_raise(state, &err, PY_RAISES_OS);
}
