/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Errors of the library as Python exceptions: the type that pylance raises for the call, the message, and an attribute `detail` with the whole error
 * object: code, kind, message, uri, version, file, column, page, offset, errno. */
#include "py_binding.h"

static PyObject *kind_type(pennon_status code)
{
    switch (code) {
    case PENNON_INVALID_ARGUMENT:
    case PENNON_NOT_FOUND: return PyExc_ValueError;
    case PENNON_IO:
    case PENNON_CORRUPT:
    case PENNON_ALREADY_EXISTS: return PyExc_OSError;
    case PENNON_NOT_SUPPORTED: return PyExc_NotImplementedError;
    default: return PyExc_RuntimeError;
    }
}

static PyObject *exception_type(pennon_status code, enum py_raises how)
{
    if (code == PENNON_OUT_OF_MEMORY) return PyExc_MemoryError;
    if (code == PENNON_CANCELLED) return PyExc_KeyboardInterrupt;
    if (code == PENNON_TIMEOUT) return PyExc_TimeoutError;
    if (how == PY_RAISES_KIND) return kind_type(code);
    if (how == PY_RAISES_REF && (code == PENNON_NOT_FOUND || code == PENNON_ALREADY_EXISTS)) return PyExc_ValueError;
    return PyExc_OSError;
}

PyTypeObject *py_detail_type(void)
{
    PyStructSequence_Field fields[] = {
        {"code", "name of the status, \"NOT_FOUND\""},
        {"kind", "finer class, \"VersionNotFound\""},
        {"message", "what was wrong"},
        {"uri", "dataset or object, or None"},
        {"version", "version of the dataset, or None"},
        {"file", "file, or None"},
        {"column", "number of the column in the file, or None"},
        {"page", "number of the page in the column, or None"},
        {"offset", "byte in the file, or None"},
        {"errno", "of the system call that failed, or None"},
        {NULL, NULL},
    };
    PyStructSequence_Desc desc = {"pennon.ErrorDetail", "The parts of an error of the library.", fields, 10};
    return PyStructSequence_NewType(&desc);
}

static PyObject *text_or_none(const char *text)
{
    if (text == NULL) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *number_or_none(int64_t number, int64_t nothing)
{
    if (number == nothing) Py_RETURN_NONE;
    return PyLong_FromLongLong(number);
}

PyObject *py_detail(struct py_state *state, const pennon_error *err)
{
    PyObject *detail = PyStructSequence_New(state->detail_type);
    if (detail == NULL) return NULL;
    PyObject *parts[] = {
        text_or_none(pennon_status_name(err->code)),
        text_or_none(err->kind),
        text_or_none(err->message),
        text_or_none(err->uri),
        number_or_none((int64_t)err->version, 0),
        text_or_none(err->file),
        number_or_none(err->column, PENNON_NOWHERE),
        number_or_none(err->page, PENNON_NOWHERE),
        number_or_none(err->offset, PENNON_NOWHERE),
        number_or_none(err->os_errno, 0),
    };
    bool whole = true;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (parts[i] == NULL) whole = false;
        PyStructSequence_SetItem(detail, (Py_ssize_t)i, parts[i]); /* takes the reference */
    }
    if (!whole) Py_CLEAR(detail);
    return detail;
}

/* The words of pylance for a kind, which programs look for in the text; they stand before the message unless it has them. */
static const char *words_of(const pennon_error *err)
{
    static const char *const words[][2] = {
        {"DatasetNotFound", "Dataset was not found"},
        {"VersionNotFound", "Version not found error, it does not exist"},
        {"RefNotFound", "Ref not found error, it does not exist"},
        {"DatasetAlreadyExists", "Dataset already exists"},
        {"SchemaMismatch", "Append with different schema"},
    };
    for (size_t i = 0; err->kind != NULL && i < sizeof(words) / sizeof(*words); i++) {
        if (strcmp(err->kind, words[i][0]) == 0) return words[i][1];
    }
    return NULL;
}

static PyObject *text_of(const pennon_error *err)
{
    const char *words = words_of(err);
    if (err->message == NULL) return text_or_none(words != NULL ? words : pennon_status_name(err->code));
    PyObject *message = text_or_none(err->message);
    if (message == NULL || words == NULL || strstr(err->message, words) != NULL) return message;
    PyObject *both = PyUnicode_FromFormat("%s: %U", words, message);
    Py_DECREF(message);
    return both;
}

PyObject *py_raise(struct py_state *state, pennon_error *err, enum py_raises how)
{
    PyObject *message = NULL;
    PyObject *exception = NULL;
    PyObject *detail = NULL;
    /* The handler of the signal that cancelled the call raises what belongs to it. */
    if (PyErr_Occurred() || PyErr_CheckSignals() < 0) goto done;
    PyObject *type = exception_type(err->code, how);
    message = text_of(err);
    if (message == NULL) goto done;
    exception = PyObject_CallFunctionObjArgs(type, message, NULL);
    if (exception == NULL) goto done;
    detail = py_detail(state, err);
    if (detail == NULL || PyObject_SetAttrString(exception, "detail", detail) < 0) goto done;
    PyErr_SetObject(type, exception);
done:
    Py_XDECREF(detail);
    Py_XDECREF(exception);
    Py_XDECREF(message);
    pennon_error_clear(err);
    return NULL;
}
