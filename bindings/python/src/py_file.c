/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Single data files: classes File (read, take, inspect) and FileWriter. */
#include "py_binding.h"

struct py_file {
    PyObject head;
    pennon_file *file;
};
struct py_writer {
    PyObject head;
    pennon_file_writer *writer; /* NULL once it is finished */
};

#define FILE_OPTION(member) offsetof(pennon_file_options, member)
static const struct py_option file_table[] = {
    {"columns", PY_OPTION_NAMES, FILE_OPTION(columns)},
    {"batch_rows", PY_OPTION_U64, FILE_OPTION(batch_rows)},
    {"blobs", PY_OPTION_I32, FILE_OPTION(blobs)},
    {NULL, 0, 0},
};

static int file_options(struct py_state *state, PyObject *from, struct py_options *memory, struct py_call *call,
                        pennon_file_options *options)
{
    pennon_file_options_init(options);
    if (py_options_read(memory, from, file_table, options) < 0 || py_call_init(state, call) < 0) return -1;
    options->call = &call->options;
    return 0;
}

static PyObject *file_open(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    pennon_file_options options;
    pennon_file *file = NULL;
    struct py_file *self = NULL;
    struct py_call call;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "s", &uri) || file_options(state, Py_None, &memory, &call, &options) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_file_open(uri, &options, &file, &err);
    py_call_leave(state, &call);
    py_options_free(&memory);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    self = (struct py_file *)PyType_GenericAlloc(state->file_type, 0);
    if (self == NULL) pennon_file_free(file);
    if (self != NULL) self->file = file;
    return (PyObject *)self;
}

static void file_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pennon_file_free(((struct py_file *)object)->file);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *file_rows(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(pennon_file_rows(((struct py_file *)self)->file));
}

static PyObject *file_schema(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    struct ArrowSchema schema;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_file_schema(((struct py_file *)self)->file, &schema, &err) != PENNON_OK) {
        return py_raise(state, &err, PY_RAISES_KIND);
    }
    return py_schema_new(state, &schema);
}

static PyObject *file_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    struct py_call call;
    char *text = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_file_info_json(((struct py_file *)self)->file, &call.options, &text, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    PyObject *out = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "strict");
    pennon_string_free(text);
    return out;
}

/* read(start, end, options): a stream, which keeps the token of its call. */
static PyObject *file_read(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_file_options options;
    struct ArrowArrayStream stream;
    struct py_call call;
    unsigned long long start, end;
    PyObject *from, *result = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "KKO", &start, &end, &from)) return NULL;
    if (file_options(state, from, &memory, &call, &options) < 0) goto done;
    pennon_cancel *cancel = call.options.cancel;
    call.own = false;
    py_call_enter(&call);
    pennon_status status = pennon_file_read(((struct py_file *)self)->file, start, end, &options, &stream, &err);
    py_call_leave(state, &call);
    if (status == PENNON_OK) {
        result = py_stream_new(state, &stream, cancel, NULL);
    } else {
        pennon_cancel_free(cancel);
        py_raise(state, &err, PY_RAISES_KIND);
    }
done:
    py_options_free(&memory);
    return result;
}

static PyObject *file_take(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_file_options options;
    struct ArrowArrayStream stream;
    struct py_call call;
    PyObject *list, *from, *result = NULL;
    pennon_ids rows;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "OO", &list, &from)) return NULL;
    if (py_options_ids(&memory, list, &rows) < 0 || file_options(state, from, &memory, &call, &options) < 0) goto done;
    py_call_enter(&call);
    pennon_status status = pennon_file_take(((struct py_file *)self)->file, rows.n, rows.items, &options, &stream, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? py_stream_new(state, &stream, NULL, NULL) : py_raise(state, &err, PY_RAISES_KIND);
done:
    py_options_free(&memory);
    return result;
}

static PyObject *file_buffer(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    unsigned int index;
    void *bytes = NULL;
    size_t n = 0;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "I", &index) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_file_global_buffer(((struct py_file *)self)->file, &call.options, index, &bytes, &n, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    PyObject *out = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
    pennon_bytes_free(bytes);
    return out;
}

static PyMethodDef file_methods[] = {
    {"rows", file_rows, METH_NOARGS, "Rows of the file."},
    {"schema", file_schema, METH_NOARGS, "The schema."},
    {"info_json", file_info, METH_NOARGS, "Facts as JSON."},
    {"read", file_read, METH_VARARGS, "read(start, end, options): a stream."},
    {"take", file_take, METH_VARARGS, "take(rows, options): a stream."},
    {"global_buffer", file_buffer, METH_VARARGS, "global_buffer(index): bytes."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot file_slots[] = {
    {Py_tp_dealloc, file_dealloc},
    {Py_tp_methods, file_methods},
    {Py_tp_doc, "A data file."},
    {0, NULL},
};
PyType_Spec py_file_spec = {"_pennon.File", sizeof(struct py_file), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            file_slots};

/* ---- FileWriter ---- */

#define WRITER(member) offsetof(pennon_file_writer_options, member)
static const struct py_option writer_table[] = {
    {"version", PY_OPTION_TEXT, WRITER(version)},
    {"page_bytes", PY_OPTION_U64, WRITER(page_bytes)},
    {NULL, 0, 0},
};

/* file_writer(uri, schema capsule, options). */
static PyObject *writer_open(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_in(module);
    struct py_options memory = {NULL};
    pennon_file_writer_options options;
    pennon_file_writer *writer = NULL;
    struct py_writer *self = NULL;
    PyObject *capsule, *from;
    const char *uri;
    pennon_error err;
    pennon_error_init(&err);
    pennon_file_writer_options_init(&options);
    if (!PyArg_ParseTuple(args, "sOO", &uri, &capsule, &from)) return NULL;
    const struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (schema == NULL || py_options_read(&memory, from, writer_table, &options) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS options.call = NULL;
    if (pennon_file_writer_open(uri, schema, &options, &writer, &err) != PENNON_OK) writer = NULL;
    Py_END_ALLOW_THREADS if (writer == NULL)
    {
        py_raise(state, &err, PY_RAISES_OS);
        goto done;
    }
    self = (struct py_writer *)PyType_GenericAlloc(state->writer_type, 0);
    if (self == NULL) pennon_file_writer_abort(writer);
    if (self != NULL) self->writer = writer;
done:
    py_options_free(&memory);
    return (PyObject *)self;
}

static void writer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pennon_file_writer_abort(((struct py_writer *)object)->writer);
    PyObject_Free(object);
    Py_DECREF(type);
}

static pennon_file_writer *open_writer(PyObject *self)
{
    pennon_file_writer *writer = ((struct py_writer *)self)->writer;
    if (writer == NULL) PyErr_SetString(PyExc_ValueError, "the file is closed");
    return writer;
}

/* Every batch of anything with a capsule. Held by its lock in Python: the writer is not thread safe. */
static PyObject *writer_write(PyObject *self, PyObject *data)
{
    struct py_state *state = py_state_of(self);
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch;
    pennon_status status = PENNON_OK;
    pennon_file_writer *writer = open_writer(self);
    pennon_error err;
    pennon_error_init(&err);
    if (writer == NULL || py_stream_import(data, &stream) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS while (status == PENNON_OK)
    {
        if (stream.get_next(&stream, &batch) != 0) {
            status = pennon_stream_error(&stream, &err);
            if (status == PENNON_OK) status = PENNON_IO;
            break;
        }
        if (batch.release == NULL) break;
        status = pennon_file_writer_write(writer, &batch, &err);
        if (batch.release != NULL) batch.release(&batch);
    }
    stream.release(&stream);
    Py_END_ALLOW_THREADS if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    Py_RETURN_NONE;
}

static PyObject *writer_buffer(PyObject *self, PyObject *args)
{
    const char *bytes;
    Py_ssize_t n;
    uint32_t index = 0;
    pennon_file_writer *writer = open_writer(self);
    pennon_error err;
    pennon_error_init(&err);
    if (writer == NULL || !PyArg_ParseTuple(args, "y#", &bytes, &n)) return NULL;
    if (pennon_file_writer_add_buffer(writer, bytes, (size_t)n, &index, &err) != PENNON_OK) {
        return py_raise(py_state_of(self), &err, PY_RAISES_OS);
    }
    return PyLong_FromUnsignedLong(index);
}

static PyObject *writer_metadata(PyObject *self, PyObject *args)
{
    const char *key, *value;
    pennon_file_writer *writer = open_writer(self);
    pennon_error err;
    pennon_error_init(&err);
    if (writer == NULL || !PyArg_ParseTuple(args, "ss", &key, &value)) return NULL;
    if (pennon_file_writer_add_metadata(writer, key, value, &err) != PENNON_OK) {
        return py_raise(py_state_of(self), &err, PY_RAISES_OS);
    }
    Py_RETURN_NONE;
}

static PyObject *writer_finish(PyObject *self, PyObject *unused)
{
    (void)unused;
    pennon_file_writer *writer = open_writer(self);
    uint64_t rows = 0;
    pennon_status status;
    pennon_error err;
    pennon_error_init(&err);
    if (writer == NULL) return NULL;
    ((struct py_writer *)self)->writer = NULL;
    Py_BEGIN_ALLOW_THREADS status = pennon_file_writer_finish(writer, &rows, &err);
    Py_END_ALLOW_THREADS if (status != PENNON_OK) return py_raise(py_state_of(self), &err, PY_RAISES_OS);
    return PyLong_FromUnsignedLongLong(rows);
}

static PyObject *writer_abort(PyObject *self, PyObject *unused)
{
    (void)unused;
    pennon_file_writer_abort(((struct py_writer *)self)->writer);
    ((struct py_writer *)self)->writer = NULL;
    Py_RETURN_NONE;
}

static PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_O, "Write all batches of the data."},
    {"add_buffer", writer_buffer, METH_VARARGS, "add_buffer(bytes): its index."},
    {"add_metadata", writer_metadata, METH_VARARGS, "add_metadata(key, value)."},
    {"finish", writer_finish, METH_NOARGS, "End the file: its rows."},
    {"abort", writer_abort, METH_NOARGS, "Leave nothing at the path."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot writer_slots[] = {
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, writer_methods},
    {Py_tp_doc, "A data file that is being written."},
    {0, NULL},
};
PyType_Spec py_writer_spec = {"_pennon.FileWriter", sizeof(struct py_writer), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, writer_slots};

PyMethodDef py_file_functions[] = {
    {"file_open", file_open, METH_VARARGS, "file_open(uri): a data file."},
    {"file_writer", writer_open, METH_VARARGS, "file_writer(uri, schema, options): a writer."},
    {NULL, NULL, 0, NULL},
};
