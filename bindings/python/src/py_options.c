/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Options of the library out of Python dictionaries, by a table of the struct's members. Texts are borrowed from the Python objects, lists are copied
 * into blocks that live until py_options_free. */
#include "py_binding.h"

#include <string.h>

struct py_block {
    struct py_block *next;
    max_align_t data[];
};

static void *take(struct py_options *memory, size_t n, size_t size)
{
    struct py_block *block = NULL;
    if (n < (size_t)PY_SSIZE_T_MAX / 2 / size) block = PyMem_Calloc(1, sizeof(*block) + (n + 1) * size);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    block->next = memory->blocks;
    memory->blocks = block;
    return block->data;
}

void py_options_free(struct py_options *memory)
{
    while (memory->blocks != NULL) {
        struct py_block *next = memory->blocks->next;
        PyMem_Free(memory->blocks);
        memory->blocks = next;
    }
}

const char *py_text(PyObject *text)
{
    Py_ssize_t size;
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "a str is wanted, not %R", (PyObject *)Py_TYPE(text));
        return NULL;
    }
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (utf8 != NULL && strlen(utf8) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "a text with a NUL character");
        return NULL;
    }
    return utf8;
}

/* None gives NULL. */
static int text_or_null(PyObject *text, const char **out)
{
    *out = text == Py_None ? NULL : py_text(text);
    return text != Py_None && *out == NULL ? -1 : 0;
}

static int number(PyObject *from, uint64_t *out)
{
    PyObject *integer = PyNumber_Index(from);
    if (integer == NULL) return -1;
    *out = PyLong_AsUnsignedLongLong(integer);
    Py_DECREF(integer);
    return *out == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

/* ---- lists: the value is a tuple or list that the caller keeps alive and does not change ---- */

/* Number of items, or -1. Only tuples and lists: their items are kept alive by them. */
static Py_ssize_t length(PyObject *list)
{
    if (PyTuple_Check(list)) return PyTuple_Size(list);
    if (PyList_Check(list)) return PyList_Size(list);
    PyErr_Format(PyExc_TypeError, "a list is wanted, not %R", (PyObject *)Py_TYPE(list));
    return -1;
}

/* Borrowed. */
static PyObject *item(PyObject *list, Py_ssize_t i)
{
    return PyTuple_Check(list) ? PyTuple_GetItem(list, i) : PyList_GetItem(list, i);
}

/* A tuple of n parts. */
static int parts(PyObject *tuple, Py_ssize_t n, PyObject **out)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != n) {
        PyErr_Format(PyExc_TypeError, "a tuple of %zd is wanted", n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyTuple_GetItem(tuple, i);
        if (out[i] == NULL) return -1;
    }
    return 0;
}

static int read_names(struct py_options *memory, PyObject *from, pennon_names *out)
{
    Py_ssize_t n = length(from);
    if (n < 0) return -1;
    const char **items = take(memory, (size_t)n, sizeof(*items));
    if (items == NULL) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        items[i] = py_text(item(from, i));
        if (items[i] == NULL) return -1;
    }
    *out = (pennon_names){(size_t)n, items};
    return 0;
}

/* A contiguous buffer of 64-bit integers: NumPy arrays, array.array. Returns 1 when `from` is one. */
static int read_id_buffer(struct py_options *memory, PyObject *from, pennon_ids *out)
{
    Py_buffer view;
    if (!PyObject_CheckBuffer(from) || PyBytes_Check(from)) return 0;
    if (PyObject_GetBuffer(from, &view, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return 0;
    }
    int done = 0;
    const char *format = view.format != NULL ? view.format : "B";
    bool is_signed = strcmp(format, "l") == 0 || strcmp(format, "q") == 0;
    if (view.itemsize == 8 && view.ndim == 1 && (is_signed || strcmp(format, "L") == 0 || strcmp(format, "Q") == 0)) {
        size_t n = (size_t)view.len / 8;
        uint64_t *items = take(memory, n, sizeof(*items));
        done = items == NULL ? -1 : 1;
        if (items != NULL && n > 0) memcpy(items, view.buf, n * sizeof(*items));
        for (size_t i = 0; done == 1 && is_signed && i < n; i++) {
            if (items[i] <= INT64_MAX) continue;
            PyErr_SetString(PyExc_OverflowError, "can't convert negative int to unsigned");
            done = -1;
        }
        *out = (pennon_ids){n, items};
    }
    PyBuffer_Release(&view);
    return done;
}

int py_options_ids(struct py_options *memory, PyObject *from, pennon_ids *out)
{
    int done = read_id_buffer(memory, from, out);
    if (done != 0) return done < 0 ? -1 : 0;
    PyObject *list = PySequence_List(from);
    if (list == NULL) return -1;
    Py_ssize_t n = PyList_Size(list);
    uint64_t *items = take(memory, (size_t)n, sizeof(*items));
    int failed = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; failed == 0 && i < n; i++) failed = number(PyList_GetItem(list, i), &items[i]);
    Py_DECREF(list);
    *out = (pennon_ids){(size_t)n, items};
    return failed;
}

static int read_pairs(struct py_options *memory, PyObject *from, pennon_pairs *out)
{
    if (!PyDict_Check(from)) {
        PyErr_Format(PyExc_TypeError, "a dict is wanted, not %R", (PyObject *)Py_TYPE(from));
        return -1;
    }
    size_t n = (size_t)PyDict_Size(from);
    const char **keys = take(memory, n, sizeof(*keys));
    const char **values = keys == NULL ? NULL : take(memory, n, sizeof(*values));
    if (values == NULL) return -1;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (size_t i = 0; i < n && PyDict_Next(from, &at, &key, &value); i++) {
        keys[i] = py_text(key);
        if (keys[i] == NULL || text_or_null(value, &values[i]) < 0) return -1;
    }
    *out = (pennon_pairs){n, keys, values};
    return 0;
}

static int read_expressions(struct py_options *memory, PyObject *from, pennon_expressions *out)
{
    Py_ssize_t n = length(from);
    if (n < 0) return -1;
    pennon_expression *items = take(memory, (size_t)n, sizeof(*items));
    if (items == NULL) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *of[2];
        if (parts(item(from, i), 2, of) < 0) return -1;
        items[i].name = py_text(of[0]);
        if (items[i].name == NULL || text_or_null(of[1], &items[i].sql) < 0) return -1;
    }
    *out = (pennon_expressions){(size_t)n, items};
    return 0;
}

static int read_orders(struct py_options *memory, PyObject *from, pennon_orders *out)
{
    Py_ssize_t n = length(from);
    if (n < 0) return -1;
    pennon_order *items = take(memory, (size_t)n, sizeof(*items));
    if (items == NULL) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *of[3];
        if (parts(item(from, i), 3, of) < 0) return -1;
        items[i].column = py_text(of[0]);
        items[i].descending = PyObject_IsTrue(of[1]) == 1;
        items[i].nulls_first = PyObject_IsTrue(of[2]) == 1;
        if (items[i].column == NULL) return -1;
    }
    *out = (pennon_orders){(size_t)n, items};
    return 0;
}

static int read_bases(struct py_options *memory, PyObject *from, pennon_bases *out)
{
    Py_ssize_t n = length(from);
    if (n < 0) return -1;
    pennon_base *items = take(memory, (size_t)n, sizeof(*items));
    if (items == NULL) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *of[4];
        uint64_t id = 0;
        if (parts(item(from, i), 4, of) < 0 || (of[0] != Py_None && number(of[0], &id) < 0)) return -1;
        if (id > UINT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "the id of a base path is a number of 32 bits");
            return -1;
        }
        items[i].id = (uint32_t)id;
        items[i].path = py_text(of[2]);
        items[i].is_dataset_root = PyObject_IsTrue(of[3]) == 1;
        if (items[i].path == NULL || text_or_null(of[1], &items[i].name) < 0) return -1;
    }
    *out = (pennon_bases){(size_t)n, items};
    return 0;
}

static int read_ref(PyObject *from, pennon_ref *out)
{
    PyObject *of[3];
    pennon_ref_init(out);
    if (parts(from, 3, of) < 0) return -1;
    if (of[0] != Py_None && number(of[0], &out->version) < 0) return -1;
    if (text_or_null(of[1], &out->tag) < 0) return -1;
    return text_or_null(of[2], &out->branch);
}

/* ---- one member ---- */

static int read_number(const struct py_option *option, PyObject *value, char *to)
{
    PyObject *integer = PyNumber_Index(value);
    if (integer == NULL) return -1;
    int failed = 0;
    if (option->kind == PY_OPTION_U64) {
        uint64_t n = PyLong_AsUnsignedLongLong(integer);
        memcpy(to, &n, sizeof(n));
    } else {
        int64_t n = PyLong_AsLongLong(integer);
        int64_t low = option->kind == PY_OPTION_U32 ? 0 : option->kind == PY_OPTION_I32 ? INT32_MIN : INT64_MIN;
        int64_t high = option->kind == PY_OPTION_U32 ? UINT32_MAX : option->kind == PY_OPTION_I32 ? INT32_MAX : INT64_MAX;
        if (!PyErr_Occurred() && (n < low || n > high)) {
            PyErr_Format(PyExc_OverflowError, "%s: %lld is out of range", option->name, (long long)n);
        }
        if (option->kind == PY_OPTION_I64) {
            memcpy(to, &n, sizeof(n));
        } else {
            uint32_t low_half = (uint32_t)(uint64_t)n;
            memcpy(to, &low_half, sizeof(low_half));
        }
    }
    if (PyErr_Occurred()) failed = -1;
    Py_DECREF(integer);
    return failed;
}

static int read_bytes(PyObject *value, char *to)
{
    char *bytes;
    Py_ssize_t n;
    if (PyBytes_AsStringAndSize(value, &bytes, &n) < 0) return -1;
    size_t size = (size_t)n;
    memcpy(to, &bytes, sizeof(bytes));
    memcpy(to + sizeof(bytes), &size, sizeof(size));
    return 0;
}

/* Room for what the member points at, and the pointer put into the member. */
static void *pointed_at(struct py_options *memory, char *to, size_t size)
{
    void *block = take(memory, 1, size);
    if (block != NULL) memcpy(to, &block, sizeof(block));
    return block;
}

static int read_list(struct py_options *memory, enum py_option_kind kind, PyObject *value, char *to)
{
    size_t size = kind == PY_OPTION_REF ? sizeof(pennon_ref) : sizeof(pennon_pairs); /* the largest of the lists */
    void *list = pointed_at(memory, to, size);
    if (list == NULL) return -1;
    switch (kind) {
    case PY_OPTION_NAMES: return read_names(memory, value, list);
    case PY_OPTION_IDS: return py_options_ids(memory, value, list);
    case PY_OPTION_PAIRS: return read_pairs(memory, value, list);
    case PY_OPTION_EXPRESSIONS: return read_expressions(memory, value, list);
    case PY_OPTION_ORDERS: return read_orders(memory, value, list);
    case PY_OPTION_BASES: return read_bases(memory, value, list);
    default: return read_ref(value, list);
    }
}

static int read_member(struct py_options *memory, const struct py_option *option, PyObject *value, char *to)
{
    switch (option->kind) {
    case PY_OPTION_BOOL: {
        int truth = PyObject_IsTrue(value);
        bool is_true = truth == 1;
        memcpy(to, &is_true, sizeof(is_true));
        return truth < 0 ? -1 : 0;
    }
    case PY_OPTION_I32:
    case PY_OPTION_U32:
    case PY_OPTION_I64:
    case PY_OPTION_U64: return read_number(option, value, to);
    case PY_OPTION_FLOAT: {
        const float real = (float)PyFloat_AsDouble(value);
        memcpy(to, &real, sizeof(real));
        return PyErr_Occurred() ? -1 : 0;
    }
    case PY_OPTION_TEXT: {
        const char *text = py_text(value);
        memcpy(to, &text, sizeof(text));
        return text == NULL ? -1 : 0;
    }
    case PY_OPTION_BYTES: return read_bytes(value, to);
    default: return read_list(memory, option->kind, value, to);
    }
}

int py_options_read(struct py_options *memory, PyObject *from, const struct py_option *table, void *to)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (from == NULL || from == Py_None) return 0;
    if (!PyDict_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "options are a dict");
        return -1;
    }
    while (PyDict_Next(from, &at, &key, &value)) {
        const char *name = py_text(key);
        if (name == NULL) return -1;
        const struct py_option *option = table;
        while (option->name != NULL && strcmp(option->name, name) != 0) option++;
        if (option->name == NULL) {
            PyErr_Format(PyExc_TypeError, "no option '%s'", name);
            return -1;
        }
        if (value != Py_None && read_member(memory, option, value, (char *)to + option->offset) < 0) return -1;
    }
    return 0;
}
