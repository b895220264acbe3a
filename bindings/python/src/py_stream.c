/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrow data across the border by the PyCapsule protocol: streams, batches and schemas out of the library, and streams into it.
 *
 * A stream of the library goes out wrapped: each get_next in the main thread can be stopped by Ctrl-C, and the whole error of a failed one is kept where
 * the Python object finds it after the consumer has let the stream go.
 *
 *     Stream (Python) ----+
 *                         v
 *     capsule --------> struct wrapped (counted) --> ArrowArrayStream of the library */
#include "py_binding.h"

#include <stdatomic.h>
#include <string.h>

struct wrapped {
    atomic_int references;
    struct ArrowArrayStream inner; /* released as soon as the consumer releases */
    pennon_cancel *cancel;
    bool interruptible;     /* as it was when the stream was handed out: asking takes the GIL */
    struct py_stats *stats; /* or NULL */
    pennon_error error;     /* of the last call that failed */
};

struct py_stats {
    PyObject *callback;
    bool reading; /* inside of get_next: a scan that is let go before its end says nothing */
};

static void wrapped_release(struct wrapped *w)
{
    if (atomic_fetch_sub(&w->references, 1) != 1) return;
    if (w->inner.release != NULL) w->inner.release(&w->inner);
    pennon_cancel_free(w->cancel);
    pennon_error_clear(&w->error);
    if (w->stats != NULL) {
        PyGILState_STATE gil = PyGILState_Ensure();
        py_stats_free(w->stats);
        PyGILState_Release(gil);
    }
    free(w);
}

static int note(struct wrapped *w, int code)
{
    if (code != 0) pennon_stream_error(&w->inner, &w->error);
    return code;
}

static int next(struct wrapped *w, struct ArrowArray *out)
{
    if (w->stats != NULL) w->stats->reading = true;
    int code = w->inner.get_next(&w->inner, out);
    if (w->stats != NULL) w->stats->reading = false;
    return note(w, code);
}

static int out_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct wrapped *w = self->private_data;
    return note(w, w->inner.get_schema(&w->inner, out));
}

static int out_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct wrapped *w = self->private_data;
    struct py_call call;
    py_call_arm(&call, w->interruptible ? w->cancel : NULL);
    int code = next(w, out);
    py_call_disarm(&call);
    return code;
}

static const char *out_last_error(struct ArrowArrayStream *self)
{
    struct wrapped *w = self->private_data;
    return w->inner.get_last_error(&w->inner);
}

static void out_release(struct ArrowArrayStream *self)
{
    struct wrapped *w = self->private_data;
    if (w->inner.release != NULL) w->inner.release(&w->inner);
    wrapped_release(w);
    self->release = NULL;
}

/* ---- capsules ---- */

static void stream_capsule_free(PyObject *capsule)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream == NULL) return;
    if (stream->release != NULL) stream->release(stream);
    free(stream);
}

static void schema_capsule_free(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (schema == NULL) return;
    if (schema->release != NULL) schema->release(schema);
    free(schema);
}

static void array_capsule_free(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array == NULL) return;
    if (array->release != NULL) array->release(array);
    free(array);
}

/* A capsule of zeroed bytes, to be filled by the caller. */
static PyObject *capsule_new(const char *name, size_t size, PyCapsule_Destructor destructor, void **out)
{
    *out = calloc(1, size);
    if (*out == NULL) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(*out, name, destructor);
    if (capsule == NULL) free(*out);
    return capsule;
}

/* ---- Schema ---- */

struct py_schema {
    PyObject head;
    struct ArrowSchema schema;
};

PyObject *py_schema_new(struct py_state *state, struct ArrowSchema *schema)
{
    struct py_schema *self = (struct py_schema *)PyType_GenericAlloc(state->schema_type, 0);
    if (self == NULL) {
        schema->release(schema);
        return NULL;
    }
    self->schema = *schema;
    schema->release = NULL;
    return (PyObject *)self;
}

static void schema_dealloc(PyObject *object)
{
    struct py_schema *self = (struct py_schema *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->schema.release != NULL) self->schema.release(&self->schema);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* What keeps the schema alive behind an exported copy of its top: a reference to the Python object. */
static void borrowed_release(struct ArrowSchema *schema)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)schema->private_data);
    PyGILState_Release(gil);
    schema->release = NULL;
}

static PyObject *schema_export(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct py_schema *self = (struct py_schema *)object;
    void *out;
    PyObject *capsule = capsule_new("arrow_schema", sizeof(struct ArrowSchema), schema_capsule_free, &out);
    if (capsule == NULL) return NULL;
    struct ArrowSchema *schema = out;
    *schema = self->schema;
    schema->private_data = Py_NewRef(object);
    schema->release = borrowed_release;
    return capsule;
}

static PyMethodDef schema_methods[] = {
    {"__arrow_c_schema__", schema_export, METH_NOARGS, "The schema as a PyCapsule."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot schema_slots[] = {
    {Py_tp_dealloc, schema_dealloc},
    {Py_tp_methods, schema_methods},
    {Py_tp_doc, "An Arrow schema."},
    {0, NULL},
};
PyType_Spec py_schema_spec = {"_pennon.Schema", sizeof(struct py_schema), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              schema_slots};

/* ---- Batch: its array can be had once ---- */

struct py_batch {
    PyObject head;
    PyObject *schema; /* py_schema */
    struct ArrowArray array;
    int64_t rows;
};

static void batch_dealloc(PyObject *object)
{
    struct py_batch *self = (struct py_batch *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->array.release != NULL) self->array.release(&self->array);
    Py_XDECREF(self->schema);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* As borrowed_release, of an array. */
static void borrowed_array_release(struct ArrowArray *array)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)array->private_data);
    PyGILState_Release(gil);
    array->release = NULL;
}

static PyObject *batch_export(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"requested_schema", NULL};
    struct py_batch *self = (struct py_batch *)object;
    PyObject *requested = NULL;
    void *out;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &requested)) return NULL;
    PyObject *schema = schema_export(self->schema, NULL);
    if (schema == NULL) return NULL;
    PyObject *capsule = capsule_new("arrow_array", sizeof(struct ArrowArray), array_capsule_free, &out);
    if (capsule == NULL) {
        Py_DECREF(schema);
        return NULL;
    }
    /* The children stay this object's, so that the batch can be handed out again. */
    struct ArrowArray *array = out;
    *array = self->array;
    array->private_data = Py_NewRef(object);
    array->release = borrowed_array_release;
    return Py_BuildValue("(NN)", schema, capsule);
}

static PyObject *batch_schema(PyObject *object, PyObject *unused)
{
    return schema_export(((struct py_batch *)object)->schema, unused);
}

static PyObject *batch_rows(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((struct py_batch *)object)->rows);
}

static PyMethodDef batch_methods[] = {
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))batch_export, METH_VARARGS | METH_KEYWORDS, "The batch as two PyCapsules."},
    {"__arrow_c_schema__", batch_schema, METH_NOARGS, "The schema as a PyCapsule."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef batch_getters[] = {{"num_rows", batch_rows, NULL, "Rows of the batch.", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot batch_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_getters},
    {Py_tp_doc, "A record batch."},
    {0, NULL},
};
PyType_Spec py_batch_spec = {"_pennon.Batch", sizeof(struct py_batch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             batch_slots};

/* ---- Stream ---- */

struct py_stream {
    PyObject head;
    struct wrapped *w;
    bool handed_out;  /* to a capsule: the batches are the consumer's */
    PyObject *schema; /* py_schema, or NULL until it is asked for */
};

PyObject *py_stream_new(struct py_state *state, struct ArrowArrayStream *stream, pennon_cancel *cancel, struct py_stats *stats)
{
    struct wrapped *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        stream->release(stream);
        pennon_cancel_free(cancel);
        py_stats_free(stats);
        return PyErr_NoMemory();
    }
    atomic_init(&w->references, 1);
    w->inner = *stream;
    stream->release = NULL;
    w->cancel = cancel;
    w->stats = stats;
    pennon_error_init(&w->error);
    w->interruptible = py_call_interruptible(state);
    struct py_stream *self = (struct py_stream *)PyType_GenericAlloc(state->stream_type, 0);
    if (self == NULL) {
        wrapped_release(w);
        return NULL;
    }
    self->w = w;
    return (PyObject *)self;
}

static void stream_dealloc(PyObject *object)
{
    struct py_stream *self = (struct py_stream *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->w != NULL) wrapped_release(self->w);
    Py_XDECREF(self->schema);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *stream_raise(struct py_stream *self)
{
    pennon_error err = self->w->error;
    pennon_error_init(&self->w->error);
    return py_raise(py_state_of((PyObject *)self), &err, PY_RAISES_KIND);
}

/* The object of the schema, borrowed. */
static PyObject *stream_schema_object(struct py_stream *self)
{
    struct ArrowSchema schema;
    if (self->schema != NULL) return self->schema;
    if (self->w->inner.release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the stream is closed");
        return NULL;
    }
    if (note(self->w, self->w->inner.get_schema(&self->w->inner, &schema)) != 0) return stream_raise(self);
    self->schema = py_schema_new(py_state_of((PyObject *)self), &schema);
    return self->schema;
}

static PyObject *stream_schema(PyObject *object, PyObject *unused)
{
    PyObject *schema = stream_schema_object((struct py_stream *)object);
    return schema == NULL ? NULL : schema_export(schema, unused);
}

static PyObject *stream_export(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"requested_schema", NULL};
    struct py_stream *self = (struct py_stream *)object;
    PyObject *requested = NULL;
    void *memory;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &requested)) return NULL;
    if (self->handed_out || self->w->inner.release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the stream has been handed out already");
        return NULL;
    }
    PyObject *capsule = capsule_new("arrow_array_stream", sizeof(struct ArrowArrayStream), stream_capsule_free, &memory);
    if (capsule == NULL) return NULL;
    struct ArrowArrayStream *out = memory;
    *out = (struct ArrowArrayStream){out_schema, out_next, out_last_error, out_release, self->w};
    atomic_fetch_add(&self->w->references, 1);
    self->handed_out = true;
    return capsule;
}

/* The next batch without a consumer. */
static PyObject *stream_next(PyObject *object)
{
    struct py_stream *self = (struct py_stream *)object;
    struct py_state *state = py_state_of(object);
    struct ArrowArray array;
    struct py_call call = {0};
    if (self->handed_out) {
        PyErr_SetString(PyExc_ValueError, "the stream has been handed out already");
        return NULL;
    }
    PyObject *schema = stream_schema_object(self);
    if (schema == NULL) return NULL;
    call.options.cancel = self->w->interruptible ? self->w->cancel : NULL;
    py_call_enter(&call);
    int code = next(self->w, &array);
    py_call_leave(state, &call);
    if (code != 0) return stream_raise(self);
    if (array.release == NULL) return NULL; /* the end */
    struct py_batch *batch = (struct py_batch *)PyType_GenericAlloc(state->batch_type, 0);
    if (batch == NULL) {
        array.release(&array);
        return NULL;
    }
    batch->schema = Py_NewRef(schema);
    batch->array = array;
    batch->rows = array.length;
    return (PyObject *)batch;
}

static PyObject *stream_check(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct py_stream *self = (struct py_stream *)object;
    py_log_drain(py_state_of(object));
    if (self->w->error.code != PENNON_OK) return stream_raise(self);
    if (PyErr_CheckSignals() < 0) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef stream_methods[] = {
    {"__arrow_c_stream__", (PyCFunction)(void (*)(void))stream_export, METH_VARARGS | METH_KEYWORDS,
     "The stream as a PyCapsule, once."},
    {"__arrow_c_schema__", stream_schema, METH_NOARGS, "The schema as a PyCapsule."},
    {"check", stream_check, METH_NOARGS, "Raise the error that ended the stream, if one did."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_dealloc, stream_dealloc}, {Py_tp_methods, stream_methods},      {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, stream_next},   {Py_tp_doc, "Record batches, once."}, {0, NULL},
};
PyType_Spec py_stream_spec = {"_pennon.Stream", sizeof(struct py_stream), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              stream_slots};

/* ---- into the library ---- */

/* One batch as a stream. Its schemas are copies of the top, whose release counts down. */
struct single {
    atomic_int references; /* of the stream and of every schema that it gave */
    struct ArrowSchema schema;
    struct ArrowArray array;
};

static void single_free(struct single *one)
{
    if (atomic_fetch_sub(&one->references, 1) != 1) return;
    if (one->schema.release != NULL) one->schema.release(&one->schema);
    if (one->array.release != NULL) one->array.release(&one->array);
    free(one);
}

static void single_schema_release(struct ArrowSchema *schema)
{
    single_free(schema->private_data);
    schema->release = NULL;
}

static int single_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct single *one = self->private_data;
    *out = one->schema;
    out->private_data = one;
    out->release = single_schema_release;
    atomic_fetch_add(&one->references, 1);
    return 0;
}

static int single_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct single *one = self->private_data;
    *out = one->array;
    one->array.release = NULL;
    return 0;
}

static const char *single_last_error(struct ArrowArrayStream *self)
{
    (void)self;
    return NULL;
}

static void single_release(struct ArrowArrayStream *self)
{
    single_free(self->private_data);
    self->release = NULL;
}

static int import_array(PyObject *pair, struct ArrowArrayStream *out)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "__arrow_c_array__ gave no pair of capsules");
        return -1;
    }
    struct ArrowSchema *schema = PyCapsule_GetPointer(PyTuple_GetItem(pair, 0), "arrow_schema");
    struct ArrowArray *array = schema == NULL ? NULL : PyCapsule_GetPointer(PyTuple_GetItem(pair, 1), "arrow_array");
    if (array == NULL) return -1;
    struct single *one = calloc(1, sizeof(*one));
    if (one == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    atomic_init(&one->references, 1);
    one->schema = *schema;
    one->array = *array;
    schema->release = NULL;
    array->release = NULL;
    *out = (struct ArrowArrayStream){single_schema, single_next, single_last_error, single_release, one};
    return 0;
}

static int import_stream(PyObject *capsule, struct ArrowArrayStream *out)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (stream == NULL) return -1;
    if (stream->release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the Arrow stream has been used already");
        return -1;
    }
    *out = *stream;
    stream->release = NULL;
    return 0;
}

int py_stream_import(PyObject *data, struct ArrowArrayStream *out)
{
    PyObject *made = NULL;
    int failed = -1;
    if (PyObject_HasAttrString(data, "__arrow_c_stream__")) {
        made = PyObject_CallMethod(data, "__arrow_c_stream__", NULL);
        if (made != NULL) failed = import_stream(made, out);
    } else if (PyObject_HasAttrString(data, "__arrow_c_array__")) {
        made = PyObject_CallMethod(data, "__arrow_c_array__", NULL);
        if (made != NULL) failed = import_array(made, out);
    } else {
        PyErr_Format(PyExc_TypeError, "%R has neither __arrow_c_stream__ nor __arrow_c_array__", (PyObject *)Py_TYPE(data));
    }
    Py_XDECREF(made);
    return failed;
}

/* The schema stays its owner's, and must outlive the object: it is for the time of a callback. */
static void lent_release(struct ArrowSchema *schema) { schema->release = NULL; }

PyObject *py_batch_new(struct py_state *state, const struct ArrowSchema *schema, struct ArrowArray *array)
{
    struct ArrowSchema lent = *schema;
    lent.private_data = NULL;
    lent.release = lent_release;
    PyObject *owner = py_schema_new(state, &lent);
    struct py_batch *batch = owner == NULL ? NULL : (struct py_batch *)PyType_GenericAlloc(state->batch_type, 0);
    if (batch == NULL) {
        Py_XDECREF(owner);
        return NULL;
    }
    batch->schema = owner;
    batch->rows = array->length;
    batch->array = *array;
    array->release = NULL;
    return (PyObject *)batch;
}

int py_batch_import(PyObject *data, struct ArrowArray *out)
{
    int failed = -1;
    PyObject *pair = PyObject_CallMethod(data, "__arrow_c_array__", NULL);
    if (pair == NULL) return -1;
    if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        struct ArrowArray *array = PyCapsule_GetPointer(PyTuple_GetItem(pair, 1), "arrow_array");
        if (array != NULL) {
            *out = *array;
            array->release = NULL;
            failed = 0;
        }
    } else {
        PyErr_SetString(PyExc_TypeError, "__arrow_c_array__ gave no pair of capsules");
    }
    Py_DECREF(pair);
    return failed;
}

/* ---- numbers of a scan ---- */

struct py_stats *py_stats_new(PyObject *callback)
{
    struct py_stats *stats = calloc(1, sizeof(*stats));
    if (stats == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    stats->callback = Py_NewRef(callback);
    return stats;
}

void py_stats_free(struct py_stats *stats)
{
    if (stats == NULL) return;
    Py_DECREF(stats->callback);
    free(stats);
}

void py_stats_write(void *ctx, const pennon_scan_stats *stats)
{
    struct py_stats *to = ctx;
    if (!to->reading) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *told =
        PyObject_CallFunction(to->callback, "KKKKKK", (unsigned long long)stats->bytes_read, (unsigned long long)stats->requests,
                              (unsigned long long)stats->rows_scanned, (unsigned long long)stats->rows,
                              (unsigned long long)stats->batches, (unsigned long long)stats->nanoseconds);
    if (told == NULL) PyErr_WriteUnraisable(to->callback);
    Py_XDECREF(told);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}
