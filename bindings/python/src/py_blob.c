/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Blobs: the class Blobs, a list of handles, and deltas of a Dataset. */
#include "py_binding.h"

struct py_blobs {
    PyObject head;
    pennon_blobs *blobs;
};

#define OWN(self) (((struct py_dataset *)(self))->ds)

static pennon_blobs *list_of(PyObject *self) { return ((struct py_blobs *)self)->blobs; }

/* take_blobs(column, selector, rows): a Blobs. */
PyObject *py_dataset_take_blobs(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_blobs *blobs = NULL;
    struct py_blobs *result = NULL;
    struct py_call call;
    PyObject *list;
    pennon_ids rows;
    const char *column;
    int selector;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "siO", &column, &selector, &list)) return NULL;
    if (py_options_ids(&memory, list, &rows) < 0 || py_call_init(state, &call) < 0) goto done;
    py_call_enter(&call);
    const pennon_status status =
        pennon_dataset_take_blobs(OWN(self), column, selector, rows.n, rows.items, &call.options, &blobs, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) {
        py_raise(state, &err, PY_RAISES_KIND);
        goto done;
    }
    result = (struct py_blobs *)PyType_GenericAlloc(state->blobs_type, 0);
    if (result == NULL) pennon_blobs_free(blobs);
    if (result != NULL) result->blobs = blobs;
done:
    py_options_free(&memory);
    return (PyObject *)result;
}

static void blobs_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pennon_blobs_free(list_of(object));
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *blobs_nulls(PyObject *self, PyObject *unused)
{
    (void)unused;
    const size_t n = pennon_blobs_count(list_of(self));
    PyObject *list = PyList_New((Py_ssize_t)n);
    pennon_error err;
    pennon_error_init(&err);
    for (size_t i = 0; i < n && list != NULL; i++) {
        pennon_blob_info info = {.struct_size = sizeof(info)};
        if (pennon_blobs_info(list_of(self), i, &info, &err) != PENNON_OK) {
            Py_DECREF(list);
            return py_raise(py_state_of(self), &err, PY_RAISES_KIND);
        }
        if (PyList_SetItem(list, (Py_ssize_t)i, PyBool_FromLong(info.is_null)) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *blobs_info(PyObject *self, PyObject *args)
{
    unsigned long long i;
    pennon_blob_info info = {.struct_size = sizeof(info)};
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "K", &i)) return NULL;
    if (pennon_blobs_info(list_of(self), (size_t)i, &info, &err) != PENNON_OK)
        return py_raise(py_state_of(self), &err, PY_RAISES_KIND);
    return Py_BuildValue("(OiKzK)", info.is_null ? Py_True : Py_False, (int)info.kind, (unsigned long long)info.position, info.uri,
                         (unsigned long long)info.row_address);
}

/* Size of a blob, known to be there. False: an exception is set. */
static bool size_of(PyObject *self, size_t i, uint64_t *size)
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (py_call_init(state, &call) < 0) return false;
    py_call_enter(&call);
    const pennon_status status = pennon_blob_size(list_of(self), i, &call.options, size, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) py_raise(state, &err, PY_RAISES_KIND);
    return status == PENNON_OK;
}

static PyObject *blobs_size(PyObject *self, PyObject *args)
{
    unsigned long long i;
    uint64_t size;
    if (!PyArg_ParseTuple(args, "K", &i) || !size_of(self, (size_t)i, &size)) return NULL;
    return PyLong_FromUnsignedLongLong(size);
}

static bool read_into(PyObject *self, size_t i, uint64_t offset, size_t n, void *to, size_t *got)
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (py_call_init(state, &call) < 0) return false;
    py_call_enter(&call);
    const pennon_status status = pennon_blob_read_at(list_of(self), i, offset, n, to, &call.options, got, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) py_raise(state, &err, PY_RAISES_KIND);
    return status == PENNON_OK;
}

/* read(i, offset, n): bytes, as many as there are of these. */
static PyObject *blobs_read(PyObject *self, PyObject *args)
{
    unsigned long long i, offset, n;
    uint64_t size;
    size_t got;
    if (!PyArg_ParseTuple(args, "KKK", &i, &offset, &n) || !size_of(self, (size_t)i, &size)) return NULL;
    const uint64_t left = offset < size ? size - offset : 0;
    if (n > left) n = left;
    if (n > PY_SSIZE_T_MAX) return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    if (bytes == NULL || n == 0) return bytes;
    if (!read_into(self, (size_t)i, offset, (size_t)n, PyBytes_AsString(bytes), &got)) {
        Py_DECREF(bytes);
        return NULL;
    }
    if (got == n) return bytes;
    PyObject *part = PyBytes_FromStringAndSize(PyBytes_AsString(bytes), (Py_ssize_t)got);
    Py_DECREF(bytes);
    return part;
}

/* readinto(i, offset, buffer): bytes that were read. */
static PyObject *blobs_readinto(PyObject *self, PyObject *args)
{
    unsigned long long i, offset;
    PyObject *result = NULL;
    Py_buffer buffer;
    size_t got;
    if (!PyArg_ParseTuple(args, "KKw*", &i, &offset, &buffer)) return NULL;
    if (read_into(self, (size_t)i, offset, (size_t)buffer.len, buffer.buf, &got)) result = PyLong_FromSize_t(got);
    PyBuffer_Release(&buffer);
    return result;
}

/* ---- many at once ---- */

/* Tuples (index, row address, bytes or None) of the batch, appended. */
static int append_batch(PyObject *list, const struct ArrowArray *batch)
{
    const uint64_t *index = batch->children[0]->buffers[1], *address = batch->children[1]->buffers[1];
    const struct ArrowArray *data = batch->children[2];
    const int64_t *ends = data->buffers[1];
    const uint8_t *valid = data->null_count ? data->buffers[0] : NULL;
    for (int64_t k = 0; k < batch->length; k++) {
        const bool null = valid != NULL && !(valid[k / 8] >> k % 8 & 1);
        PyObject *bytes =
            null ? Py_NewRef(Py_None)
                 : PyBytes_FromStringAndSize((const char *)data->buffers[2] + ends[k], (Py_ssize_t)(ends[k + 1] - ends[k]));
        PyObject *row =
            bytes == NULL ? NULL : Py_BuildValue("(KKN)", (unsigned long long)index[k], (unsigned long long)address[k], bytes);
        const int failed = row == NULL ? -1 : PyList_Append(list, row);
        Py_XDECREF(row);
        if (failed < 0) return -1;
    }
    return 0;
}

/* `cancel` is the token of the stream. */
static PyObject *drain(struct py_state *state, struct ArrowArrayStream *stream, struct py_call *call, pennon_cancel *cancel)
{
    PyObject *list = PyList_New(0);
    pennon_error err;
    pennon_error_init(&err);
    while (list != NULL) {
        struct ArrowArray batch = {.release = NULL};
        call->options.cancel = cancel;
        py_call_enter(call);
        const int failed = stream->get_next(stream, &batch);
        if (failed && pennon_stream_error(stream, &err) == PENNON_OK) err.code = PENNON_INTERNAL;
        py_call_leave(state, call);
        if (failed) {
            Py_CLEAR(list);
            py_raise(state, &err, PY_RAISES_KIND);
        }
        if (batch.release == NULL) break;
        if (append_batch(list, &batch) < 0) Py_CLEAR(list);
        batch.release(&batch);
    }
    return list;
}

/* Ranges out of a sequence of tuples (blob, offset, size); PyMem. */
static pennon_blob_range *ranges_of(PyObject *from, size_t *n)
{
    PyObject *tuple = PySequence_Tuple(from);
    if (tuple == NULL) return NULL;
    *n = (size_t)PyTuple_Size(tuple);
    pennon_blob_range *out = PyMem_Calloc(*n + 1, sizeof(*out));
    if (out == NULL) PyErr_NoMemory();
    for (size_t i = 0; i < *n && out != NULL; i++) {
        unsigned long long blob, offset, size;
        PyObject *one = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        if (!PyTuple_Check(one)) PyErr_SetString(PyExc_TypeError, "a range is a tuple of three integers");
        if (PyErr_Occurred() || !PyArg_ParseTuple(one, "KKK", &blob, &offset, &size)) {
            PyMem_Free(out);
            out = NULL;
            break;
        }
        out[i] = (pennon_blob_range){(size_t)blob, offset, size};
    }
    Py_DECREF(tuple);
    return out;
}

/* read_all(ranges or None, batch_bytes): tuples (index, row address, bytes or None). */
static PyObject *blobs_read_all(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    pennon_blob_read_options options;
    pennon_blob_range *ranges = NULL;
    struct ArrowArrayStream stream;
    struct py_call call;
    unsigned long long batch_bytes;
    PyObject *from, *result = NULL;
    size_t n = 0;
    pennon_error err;
    pennon_error_init(&err);
    pennon_blob_read_options_init(&options);
    if (!PyArg_ParseTuple(args, "OK", &from, &batch_bytes)) return NULL;
    if (from != Py_None) {
        ranges = ranges_of(from, &n);
        if (ranges == NULL) return NULL;
    }
    if (py_call_init(state, &call) < 0) goto done;
    pennon_cancel *cancel = call.options.cancel;
    call.own = false;
    options.call = &call.options;
    options.batch_bytes = batch_bytes;
    py_call_enter(&call);
    const pennon_status status = ranges != NULL ? pennon_blobs_read_ranges(list_of(self), n, ranges, &options, &stream, &err)
                                                : pennon_blobs_read(list_of(self), &options, &stream, &err);
    py_call_leave(state, &call);
    if (status == PENNON_OK) {
        result = drain(state, &stream, &call, cancel);
        stream.release(&stream);
    } else {
        py_raise(state, &err, PY_RAISES_KIND);
    }
    pennon_cancel_free(cancel);
done:
    PyMem_Free(ranges);
    return result;
}

static PyMethodDef blobs_methods[] = {
    {"nulls", blobs_nulls, METH_NOARGS, "A bool a blob: is it null?"},
    {"info", blobs_info, METH_VARARGS, "info(i): is null, kind, position, uri, row address."},
    {"size", blobs_size, METH_VARARGS, "size(i): bytes."},
    {"read", blobs_read, METH_VARARGS, "read(i, offset, n): bytes."},
    {"readinto", blobs_readinto, METH_VARARGS, "readinto(i, offset, buffer): bytes read."},
    {"read_all", blobs_read_all, METH_VARARGS, "read_all(ranges, batch_bytes): tuples (index, row address, bytes)."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot blobs_slots[] = {
    {Py_tp_dealloc, blobs_dealloc},
    {Py_tp_methods, blobs_methods},
    {Py_tp_doc, "Handles of blobs."},
    {0, NULL},
};
PyType_Spec py_blobs_spec = {"_pennon.Blobs", sizeof(struct py_blobs), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             blobs_slots};

/* ---- deltas ---- */

#define DELTA(member) offsetof(pennon_delta_options, member)
static const struct py_option delta_table[] = {
    {"compared_against", PY_OPTION_U64, DELTA(compared_against)},
    {"begin_version", PY_OPTION_U64, DELTA(begin_version)},
    {"end_version", PY_OPTION_U64, DELTA(end_version)},
    {"begin_ns", PY_OPTION_I64, DELTA(begin_ns)},
    {"end_ns", PY_OPTION_I64, DELTA(end_ns)},
    {"columns", PY_OPTION_NAMES, DELTA(columns)},
    {"filter", PY_OPTION_TEXT, DELTA(filter)},
    {"blobs", PY_OPTION_I32, DELTA(blobs)},
    {"batch_rows", PY_OPTION_U64, DELTA(batch_rows)},
    {NULL, 0, 0},
};

/* delta(kind, options): a stream, which keeps the token of its call; kind -1 gives the range, -2 the counts (inserted, updated, deleted). */
PyObject *py_dataset_delta(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_delta_options options;
    pennon_delta_counts counts = {.struct_size = sizeof(counts)};
    struct ArrowArrayStream stream;
    struct py_call call;
    uint64_t begin = 0, end = 0;
    PyObject *from, *result = NULL;
    pennon_status status;
    int kind;
    pennon_error err;
    pennon_error_init(&err);
    pennon_delta_options_init(&options);
    if (!PyArg_ParseTuple(args, "iO", &kind, &from)) return NULL;
    if (py_options_read(&memory, from, delta_table, &options) < 0 || py_call_init(state, &call) < 0) goto done;
    pennon_cancel *cancel = call.options.cancel;
    call.own = false;
    options.call = &call.options;
    py_call_enter(&call);
    if (kind == -1) {
        status = pennon_dataset_delta_range(OWN(self), &options, &begin, &end, &err);
    } else if (kind == -2) {
        status = pennon_dataset_delta_counts(OWN(self), &options, &counts, &err);
    } else {
        status = pennon_dataset_delta(OWN(self), kind, &options, &stream, &err);
    }
    py_call_leave(state, &call);
    if (status == PENNON_OK && kind >= 0) {
        result = py_stream_new(state, &stream, cancel, NULL);
        cancel = NULL;
    } else if (status != PENNON_OK) {
        py_raise(state, &err, PY_RAISES_KIND);
    } else if (kind == -1) {
        result = Py_BuildValue("(KK)", (unsigned long long)begin, (unsigned long long)end);
    } else {
        result = Py_BuildValue("(KKK)", (unsigned long long)counts.inserted, (unsigned long long)counts.updated,
                               (unsigned long long)counts.deleted);
    }
    pennon_cancel_free(cancel);
done:
    py_options_free(&memory);
    return result;
}
