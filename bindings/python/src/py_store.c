/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Object stores: the class Store, for sessions of data files. */
#include "py_binding.h"

struct py_store {
    PyObject head;
    pennon_store *store;
};

static pennon_store *store_of(PyObject *self) { return ((struct py_store *)self)->store; }

static PyObject *store_open(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    pennon_store_options options;
    pennon_store *store = NULL;
    struct py_call call;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    pennon_store_options_init(&options);
    if (!PyArg_ParseTuple(args, "s", &uri) || py_call_init(state, &call) < 0) return NULL;
    options.call = &call.options;
    options.create = true;
    py_call_enter(&call);
    pennon_status status = pennon_store_open(uri, &options, &store, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    struct py_store *self = (struct py_store *)PyType_GenericAlloc(state->store_type, 0);
    if (self == NULL) pennon_store_free(store);
    if (self != NULL) self->store = store;
    return (PyObject *)self;
}

static void store_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pennon_store_free(store_of(object));
    PyObject_Free(object);
    Py_DECREF(type);
}

/* A listing that is gathered without the GIL: paths one after the other, each with its NUL. */
struct paths {
    char *bytes;
    size_t size, capacity;
    bool failed;
};

static bool add_path(void *ctx, const pennon_object_info *info)
{
    struct paths *paths = ctx;
    size_t n = strlen(info->path) + 1;
    if (paths->size + n > paths->capacity) {
        size_t capacity = 2 * paths->capacity + n;
        char *grown = realloc(paths->bytes, capacity);
        paths->failed = grown == NULL;
        if (paths->failed) return false;
        paths->bytes = grown;
        paths->capacity = capacity;
    }
    memcpy(paths->bytes + paths->size, info->path, n);
    paths->size += n;
    return true;
}

static PyObject *paths_out(const struct paths *paths)
{
    if (paths->failed) return PyErr_NoMemory();
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list != NULL && at < paths->size; at += strlen(paths->bytes + at) + 1) {
        PyObject *path = PyUnicode_DecodeUTF8(paths->bytes + at, (Py_ssize_t)strlen(paths->bytes + at), "surrogateescape");
        if (path == NULL || PyList_Append(list, path) < 0) Py_CLEAR(list);
        Py_XDECREF(path);
    }
    return list;
}

static PyObject *store_list(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct paths paths = {0};
    struct py_call call;
    PyObject *list = NULL;
    const char *prefix;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "s", &prefix) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_store_list(store_of(self), &call.options, prefix, true, add_path, &paths, &err);
    py_call_leave(state, &call);
    list = status == PENNON_OK ? paths_out(&paths) : py_raise(state, &err, PY_RAISES_OS);
    free(paths.bytes);
    return list;
}

/* size(path): bytes, or None where there is no object. */
static PyObject *store_size(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    pennon_object_info info;
    struct py_call call;
    const char *path;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "s", &path) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_store_head(store_of(self), &call.options, path, &info, &err);
    py_call_leave(state, &call);
    if (status == PENNON_NOT_FOUND) {
        pennon_error_clear(&err);
        Py_RETURN_NONE;
    }
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    return PyLong_FromUnsignedLongLong(info.size);
}

/* read(path, offset, size): bytes. */
static PyObject *store_read(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    unsigned long long offset;
    Py_ssize_t size;
    struct py_call call;
    const char *path;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sKn", &path, &offset, &size)) return NULL;
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "a negative size");
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, size);
    if (bytes == NULL || py_call_init(state, &call) < 0) {
        Py_XDECREF(bytes);
        return NULL;
    }
    pennon_range range = {offset, (uint64_t)size, PyBytes_AsString(bytes)};
    py_call_enter(&call);
    pennon_status status = pennon_store_read_ranges(store_of(self), &call.options, path, 1, &range, &err);
    py_call_leave(state, &call);
    if (status == PENNON_OK) return bytes;
    Py_DECREF(bytes);
    return py_raise(state, &err, PY_RAISES_OS);
}

static PyObject *store_put(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    const char *path, *bytes;
    Py_ssize_t size;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "sy#", &path, &bytes, &size) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status =
        pennon_store_put(store_of(self), &call.options, path, bytes, (size_t)size, PENNON_PUT_OVERWRITE | PENNON_PUT_SYNC, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    Py_RETURN_NONE;
}

static PyObject *store_delete(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    const char *path;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "s", &path) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_store_delete(store_of(self), &call.options, path, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    Py_RETURN_NONE;
}

static PyMethodDef store_methods[] = {
    {"list", store_list, METH_VARARGS, "list(prefix): paths of the objects below a folder, \"\" = all."},
    {"size", store_size, METH_VARARGS, "size(path): bytes, or None where there is none."},
    {"read", store_read, METH_VARARGS, "read(path, offset, size): bytes."},
    {"put", store_put, METH_VARARGS, "put(path, bytes)."},
    {"delete", store_delete, METH_VARARGS, "delete(path)."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot store_slots[] = {
    {Py_tp_dealloc, store_dealloc},
    {Py_tp_methods, store_methods},
    {Py_tp_doc, "An object store."},
    {0, NULL},
};
PyType_Spec py_store_spec = {"_pennon.Store", sizeof(struct py_store), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             store_slots};

PyMethodDef py_store_functions[] = {
    {"store_open", store_open, METH_VARARGS, "store_open(uri): a store, its root made where it is missing."},
    {NULL, NULL, 0, NULL},
};
