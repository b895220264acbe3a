/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* How far a call has come: the class Progress.
 *
 * The library tells it on threads of its pool, which must not wait for the GIL. They store two numbers, and a thread of Python's looks at them when it
 * likes. */
#include "py_binding.h"

#include <stdatomic.h>

struct py_progress {
    PyObject head;
    _Atomic uint64_t done, total;
};

static void told(void *ctx, uint64_t done, uint64_t total)
{
    struct py_progress *progress = ctx;
    atomic_store_explicit(&progress->total, total, memory_order_relaxed);
    atomic_store_explicit(&progress->done, done, memory_order_relaxed);
}

int py_call_progress(struct py_state *state, struct py_call *call, PyObject *progress)
{
    if (progress == Py_None) return 0;
    if (Py_TYPE(progress) != state->progress_type) {
        PyErr_Format(PyExc_TypeError, "a Progress is wanted, not %R", (PyObject *)Py_TYPE(progress));
        if (call->own) pennon_cancel_free(call->options.cancel);
        return -1;
    }
    call->options.progress = told;
    call->options.progress_ctx = progress;
    return 0;
}

static PyObject *progress_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    struct py_progress *self = (struct py_progress *)PyType_GenericAlloc(type, 0);
    if (self == NULL) return NULL;
    atomic_init(&self->done, 0);
    atomic_init(&self->total, 0);
    return (PyObject *)self;
}

static void progress_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *numbers(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct py_progress *self = (struct py_progress *)object;
    return Py_BuildValue("(KK)", (unsigned long long)atomic_load(&self->done), (unsigned long long)atomic_load(&self->total));
}

static PyMethodDef progress_methods[] = {
    {"numbers", numbers, METH_NOARGS, "(done, total); a total of 0 is not known."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot progress_slots[] = {
    {Py_tp_new, progress_new},
    {Py_tp_dealloc, progress_dealloc},
    {Py_tp_methods, progress_methods},
    {Py_tp_doc, "How far a call has come."},
    {0, NULL},
};
PyType_Spec py_progress_spec = {"_pennon.Progress", sizeof(struct py_progress), 0, Py_TPFLAGS_DEFAULT, progress_slots};
