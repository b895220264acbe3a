/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The class Dataset of the extension: facts, scans, takes, listings, verify. One method is one call of the library; what arguments mean is decided in
 * Python, where users read it. */
#include "py_binding.h"

static pennon_dataset *handle(PyObject *self) { return ((struct py_dataset *)self)->ds; }

PyObject *py_dataset_new(struct py_state *state, pennon_dataset *ds)
{
    struct py_dataset *self = (struct py_dataset *)PyType_GenericAlloc(state->dataset_type, 0);
    if (self == NULL) {
        pennon_dataset_free(ds);
        return NULL;
    }
    self->ds = ds;
    return (PyObject *)self;
}

static void dataset_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    pennon_dataset *ds = handle(object);
    Py_BEGIN_ALLOW_THREADS pennon_dataset_free(ds);
    Py_END_ALLOW_THREADS PyObject_Free(object);
    Py_DECREF(type);
}

/* A text that the library made, as str; freed. */
static PyObject *text_out(char *text)
{
    PyObject *out = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "strict");
    pennon_string_free(text);
    return out;
}

/* ---- facts ---- */

static PyObject *version(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(pennon_dataset_version(handle(self)));
}

/* Calls of the form f(ds, call, &number, &err). */
static PyObject *number_of(PyObject *self, pennon_status (*f)(pennon_dataset *, const pennon_call *, uint64_t *, pennon_error *))
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    pennon_error err;
    uint64_t n = 0;
    pennon_error_init(&err);
    if (py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = f(handle(self), &call.options, &n, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return PyLong_FromUnsignedLongLong(n);
}

static PyObject *latest_version(PyObject *self, PyObject *unused)
{
    (void)unused;
    return number_of(self, pennon_dataset_latest_version);
}

static PyObject *count_rows(PyObject *self, PyObject *unused)
{
    (void)unused;
    return number_of(self, pennon_dataset_count_rows);
}

static PyObject *refresh(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    if (py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_refresh(handle(self), &call.options, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    Py_RETURN_NONE;
}

static PyObject *snapshot(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    pennon_dataset *out = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_dataset_snapshot(handle(self), &out, &err) != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_dataset_new(state, out);
}

static PyObject *schema(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct py_state *state = py_state_of(self);
    struct ArrowSchema out;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_dataset_schema(handle(self), &out, &err) != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_schema_new(state, &out);
}

static PyObject *json_of(PyObject *self, pennon_status (*f)(pennon_dataset *, const pennon_call *, char **, pennon_error *))
{
    struct py_state *state = py_state_of(self);
    struct py_call call;
    char *text = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = f(handle(self), &call.options, &text, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return text_out(text);
}

static PyObject *info_json(PyObject *self, PyObject *unused)
{
    (void)unused;
    return json_of(self, pennon_dataset_info_json);
}

static PyObject *fragments_json(PyObject *self, PyObject *unused)
{
    (void)unused;
    return json_of(self, pennon_dataset_fragments_json);
}

static PyObject *schema_json(PyObject *self, PyObject *unused)
{
    (void)unused;
    char *text = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_dataset_schema_json(handle(self), &text, &err) != PENNON_OK) {
        return py_raise(py_state_of(self), &err, PY_RAISES_KIND);
    }
    return text_out(text);
}

/* ---- scans ---- */

#define SCAN(member) offsetof(pennon_scan_options, member)
static const struct py_option scan_table[] = {
    {"columns", PY_OPTION_NAMES, SCAN(columns)},
    {"expressions", PY_OPTION_EXPRESSIONS, SCAN(expressions)},
    {"filter", PY_OPTION_TEXT, SCAN(filter)},
    {"substrait_filter", PY_OPTION_BYTES, SCAN(substrait_filter)},
    {"limit", PY_OPTION_U64, SCAN(limit)},
    {"offset", PY_OPTION_U64, SCAN(offset)},
    {"batch_rows", PY_OPTION_U64, SCAN(batch_rows)},
    {"batch_bytes", PY_OPTION_U64, SCAN(batch_bytes)},
    {"readahead", PY_OPTION_U32, SCAN(readahead)},
    {"fragments", PY_OPTION_IDS, SCAN(fragments)},
    {"unordered", PY_OPTION_BOOL, SCAN(unordered)},
    {"strict_batches", PY_OPTION_BOOL, SCAN(strict_batches)},
    {"with_row_id", PY_OPTION_BOOL, SCAN(with_row_id)},
    {"with_row_address", PY_OPTION_BOOL, SCAN(with_row_address)},
    {"blobs", PY_OPTION_I32, SCAN(blobs)},
    {"order_by", PY_OPTION_ORDERS, SCAN(order_by)},
    {"materialize", PY_OPTION_I32, SCAN(materialize)},
    {"late_columns", PY_OPTION_NAMES, SCAN(late_columns)},
    {"include_deleted_rows", PY_OPTION_BOOL, SCAN(include_deleted_rows)},
    {NULL, 0, 0},
};

static PyObject *scan(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    PyObject *from, *callback = Py_None, *result = NULL;
    struct py_stats *stats = NULL;
    pennon_scan_options options;
    struct ArrowArrayStream stream;
    struct py_call call = {0};
    pennon_cancel *cancel = NULL;
    pennon_error err;
    pennon_error_init(&err);
    pennon_scan_options_init(&options);
    if (!PyArg_ParseTuple(args, "O|O", &from, &callback)) return NULL;
    if (py_options_read(&memory, from, scan_table, &options) < 0) goto done;
    if (callback != Py_None) {
        stats = py_stats_new(callback);
        if (stats == NULL) goto done;
        options.stats = py_stats_write;
        options.stats_ctx = stats;
    }
    if (py_call_init(state, &call) < 0) goto done;
    /* The token stays with the stream. */
    cancel = call.options.cancel;
    call.own = false;
    options.call = &call.options;
    py_call_enter(&call);
    pennon_status status = pennon_scan(handle(self), &options, &stream, &err);
    py_call_leave(state, &call);
    if (status == PENNON_OK) {
        result = py_stream_new(state, &stream, cancel, stats);
        cancel = NULL;
        stats = NULL;
    } else {
        py_raise(state, &err, PY_RAISES_KIND);
    }
done:
    pennon_cancel_free(cancel);
    py_stats_free(stats);
    py_options_free(&memory);
    return result;
}

static PyObject *scan_count(PyObject *self, PyObject *from)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_scan_options options;
    struct py_call call;
    uint64_t rows = 0;
    PyObject *result = NULL;
    pennon_error err;
    pennon_error_init(&err);
    pennon_scan_options_init(&options);
    if (py_options_read(&memory, from, scan_table, &options) < 0 || py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    py_call_enter(&call);
    pennon_status status = pennon_scan_count(handle(self), &options, &rows, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? PyLong_FromUnsignedLongLong(rows) : py_raise(state, &err, PY_RAISES_KIND);
done:
    py_options_free(&memory);
    return result;
}

static PyObject *scan_explain(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_scan_options options;
    struct py_call call;
    PyObject *from, *result = NULL;
    char *text = NULL;
    int analyze;
    pennon_error err;
    pennon_error_init(&err);
    pennon_scan_options_init(&options);
    if (!PyArg_ParseTuple(args, "Op", &from, &analyze)) return NULL;
    if (py_options_read(&memory, from, scan_table, &options) < 0 || py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    py_call_enter(&call);
    pennon_status status = pennon_scan_explain(handle(self), &options, analyze != 0, &text, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? text_out(text) : py_raise(state, &err, PY_RAISES_KIND);
done:
    py_options_free(&memory);
    return result;
}

/* ---- take ---- */

#define TAKE(member) offsetof(pennon_take_options, member)
static const struct py_option take_table[] = {
    {"columns", PY_OPTION_NAMES, TAKE(columns)},
    {"expressions", PY_OPTION_EXPRESSIONS, TAKE(expressions)},
    {"with_row_id", PY_OPTION_BOOL, TAKE(with_row_id)},
    {"with_row_address", PY_OPTION_BOOL, TAKE(with_row_address)},
    {"blobs", PY_OPTION_I32, TAKE(blobs)},
    {NULL, 0, 0},
};

static PyObject *take(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_take_options options;
    struct ArrowArrayStream stream;
    struct py_call call;
    PyObject *list, *from, *result = NULL;
    pennon_ids rows;
    int selector;
    pennon_error err;
    pennon_error_init(&err);
    pennon_take_options_init(&options);
    if (!PyArg_ParseTuple(args, "iOO", &selector, &list, &from)) return NULL;
    if (py_options_ids(&memory, list, &rows) < 0 || py_options_read(&memory, from, take_table, &options) < 0) goto done;
    if (py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_take(handle(self), selector, rows.n, rows.items, &options, &stream, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? py_stream_new(state, &stream, NULL, NULL) : py_raise(state, &err, PY_RAISES_OS);
done:
    py_options_free(&memory);
    return result;
}

/* ---- listings ---- */

typedef pennon_status (*listing_fn)(pennon_dataset *, const pennon_call *, struct ArrowArrayStream *, pennon_error *);

static PyObject *listing(PyObject *self, PyObject *name)
{
    static const struct {
        const char *name;
        listing_fn fn;
    } all[] = {
        {"versions", pennon_dataset_versions}, {"fragments", pennon_dataset_fragments},   {"tags", pennon_dataset_tags},
        {"branches", pennon_dataset_branches}, {"data_stats", pennon_dataset_data_stats},
    };
    struct py_state *state = py_state_of(self);
    struct ArrowArrayStream stream;
    struct py_call call;
    listing_fn fn = NULL;
    pennon_error err;
    pennon_error_init(&err);
    const char *wanted = py_text(name);
    if (wanted == NULL) return NULL;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (strcmp(wanted, all[i].name) == 0) fn = all[i].fn;
    }
    if (fn == NULL) return PyErr_Format(PyExc_ValueError, "no listing '%s'", wanted);
    if (py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = fn(handle(self), &call.options, &stream, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_KIND);
    return py_stream_new(state, &stream, NULL, NULL);
}

/* ---- verify ---- */

struct findings {
    struct py_state *state;
    PyObject *list;
};

static void finding(void *ctx, const pennon_error *err)
{
    struct findings *to = ctx;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *detail = py_detail(to->state, err);
    if (detail == NULL || PyList_Append(to->list, detail) < 0) PyErr_WriteUnraisable(to->list);
    Py_XDECREF(detail);
    PyGILState_Release(gil);
}

static PyObject *verify(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    pennon_verify_options options;
    struct findings found = {state, NULL};
    struct py_call call;
    int scope = PENNON_VERIFY_VERSION;
    pennon_error err;
    pennon_error_init(&err);
    pennon_verify_options_init(&options);
    PyObject *progress = Py_None;
    if (!PyArg_ParseTuple(args, "|iO", &scope, &progress)) return NULL;
    found.list = PyList_New(0);
    if (found.list == NULL || py_call_init(state, &call) < 0) {
        Py_XDECREF(found.list);
        return NULL;
    }
    if (py_call_progress(state, &call, progress) < 0) {
        Py_DECREF(found.list);
        return NULL;
    }
    options.call = &call.options;
    options.scope = scope;
    options.finding = finding;
    options.ctx = &found;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_verify(handle(self), &options, NULL, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) {
        Py_DECREF(found.list);
        return py_raise(state, &err, PY_RAISES_OS);
    }
    return found.list;
}

/* ---- transactions of its history, metadata ---- */

static PyObject *transaction(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    pennon_transaction *t = NULL;
    struct py_call call;
    unsigned long long number;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "K", &number) || py_call_init(state, &call) < 0) return NULL;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_transaction(handle(self), &call.options, number, &t, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) return py_raise(state, &err, PY_RAISES_OS);
    if (t == NULL) Py_RETURN_NONE;
    return py_transaction_new(state, t);
}

static PyObject *metadata_json(PyObject *self, PyObject *args)
{
    const char *field;
    char *text = NULL;
    int which;
    pennon_error err;
    pennon_error_init(&err);
    if (!PyArg_ParseTuple(args, "iz", &which, &field)) return NULL;
    if (pennon_dataset_metadata_json(handle(self), which, field, &text, &err) != PENNON_OK) {
        return py_raise(py_state_of(self), &err, PY_RAISES_OS);
    }
    return text_out(text);
}

static PyMethodDef dataset_methods[] = {
    {"version", version, METH_NOARGS, "Number of the version."},
    {"latest_version", latest_version, METH_NOARGS, "Number of the newest version."},
    {"count_rows", count_rows, METH_NOARGS, "Rows that are not deleted."},
    {"refresh", refresh, METH_NOARGS, "Move to the newest version."},
    {"snapshot", snapshot, METH_NOARGS, "Another handle at this version."},
    {"schema", schema, METH_NOARGS, "The schema."},
    {"info_json", info_json, METH_NOARGS, "Facts as JSON."},
    {"fragments_json", fragments_json, METH_NOARGS, "Fragments as JSON."},
    {"schema_json", schema_json, METH_NOARGS, "Fields as JSON."},
    {"scan", scan, METH_VARARGS, "scan(options, stats=None): a stream."},
    {"scan_count", scan_count, METH_O, "scan_count(options): rows."},
    {"scan_explain", scan_explain, METH_VARARGS, "scan_explain(options, analyze): the plan."},
    {"take", take, METH_VARARGS, "take(selector, rows, options): a stream."},
    {"listing", listing, METH_O, "listing(name): a stream."},
    {"verify", verify, METH_VARARGS, "verify(scope=0, progress=None): the faults."},
    {"transaction", transaction, METH_VARARGS, "transaction(version): that made it, or None."},
    {"metadata_json", metadata_json, METH_VARARGS, "metadata_json(which, field): the map as JSON."},
    {"append", py_dataset_append, METH_VARARGS, "append(data, options)."},
    {"commit", py_dataset_commit, METH_VARARGS, "commit(transaction, options): the version."},
    {"delete", py_dataset_delete, METH_VARARGS, "delete(where, options) -> rows: delete the rows for which the SQL is true."},
    {"update", py_dataset_update, METH_VARARGS,
     "update(columns, expressions, where, options) -> rows: set columns to the values of SQL expressions."},
    {"take_blobs", py_dataset_take_blobs, METH_VARARGS, "take_blobs(column, selector, rows): handles."},
    {"delta", py_dataset_delta, METH_VARARGS, "delta(kind, options): a stream; the range for kind -1, the counts for -2."},
    {"add_sql", py_dataset_add_sql, METH_VARARGS, "add_sql(names, expressions, options, progress=None)."},
    {"add_nulls", py_dataset_add_nulls, METH_VARARGS, "add_nulls(schema, options)."},
    {"add_data", py_dataset_add_data, METH_VARARGS, "add_data(data, options, progress=None)."},
    {"add_function", py_dataset_add_function, METH_VARARGS,
     "add_function(schema, function, read_columns, checkpoint, options, progress=None)."},
    {"drop_columns", py_dataset_drop_columns, METH_VARARGS, "drop_columns(names, options)."},
    {"alter_columns", py_dataset_alter_columns, METH_VARARGS, "alter_columns(alterations, options, progress=None)."},
    {"join_columns", py_dataset_join_columns, METH_VARARGS, "join_columns(data, left_on, right_on, options, progress=None)."},
    {"update_columns", py_dataset_update_columns, METH_VARARGS, "update_columns(data, left_on, right_on, options, progress=None)."},
    {"fragment_delete", py_dataset_fragment_delete, METH_VARARGS, "fragment_delete(id, where): the transaction."},
    {"compact", py_dataset_compact, METH_VARARGS,
     "compact(options, progress=None): fragments removed, added, files removed, added."},
    {"compact_plan", py_dataset_compact_plan, METH_O, "compact_plan(options): the plan as JSON."},
    {"compact_execute", py_dataset_compact_execute, METH_VARARGS, "compact_execute(task, options): the result as JSON."},
    {"compact_commit", py_dataset_compact_commit, METH_VARARGS, "compact_commit(results, options): the same numbers as compact."},
    {"merge", py_dataset_merge, METH_VARARGS, "merge(data, options) -> numbers: merge the rows by their keys."},
    {"merge_uncommitted", py_dataset_merge_uncommitted, METH_VARARGS,
     "merge_uncommitted(data, options): the transaction, and the numbers."},
    {"merge_explain", py_dataset_merge_explain, METH_VARARGS, "merge_explain(data or None, options, verbose): the plan."},
    {"merge_analyze", py_dataset_merge_analyze, METH_VARARGS, "merge_analyze(data, options): what the plan did."},
    {"restore", py_dataset_restore, METH_NOARGS, "A new version with the content of this one."},
    {"update_metadata", py_dataset_update_metadata, METH_VARARGS, "update_metadata(updates, options)."},
    {"add_bases", py_dataset_add_bases, METH_VARARGS, "add_bases(bases, options)."},
    {"tag", py_dataset_tag, METH_VARARGS, "tag(action, name, ref, metadata)."},
    {"branch", py_dataset_branch, METH_VARARGS, "branch(action, name, ref, metadata): the branch that was made, or None."},
    {"clone", py_dataset_clone, METH_VARARGS, "clone(uri, ref, shallow): the clone."},
    {"cleanup", py_dataset_cleanup, METH_O, "cleanup(options): what was removed."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot dataset_slots[] = {
    {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_methods, dataset_methods},
    {Py_tp_doc, "A version of a dataset."},
    {0, NULL},
};
PyType_Spec py_dataset_spec = {"_pennon.Dataset", sizeof(struct py_dataset), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dataset_slots};
