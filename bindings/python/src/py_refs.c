/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tags, branches, clones and cleanup of a Dataset. */
#include "py_binding.h"

#define OWN(self) (((struct py_dataset *)(self))->ds)

static const struct py_option ref_table[] = {{"ref", PY_OPTION_REF, 0}, {NULL, 0, 0}};
static const struct py_option pairs_table[] = {{"metadata", PY_OPTION_PAIRS, 0}, {NULL, 0, 0}};

/* The options {"ref": tuple} and {"metadata": dict}, both perhaps None. */
static int ref_and_pairs(struct py_options *memory, PyObject *ref, PyObject *pairs, const pennon_ref **out_ref,
                         const pennon_pairs **out_pairs)
{
    *out_ref = NULL;
    *out_pairs = NULL;
    if (py_options_read(memory, ref, ref_table, (void *)out_ref) < 0) return -1;
    return py_options_read(memory, pairs, pairs_table, (void *)out_pairs);
}

PyObject *py_dataset_tag(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_tag_options options;
    const pennon_ref *ref;
    const pennon_pairs *pairs;
    PyObject *ref_from, *pairs_from, *result = NULL;
    const char *action, *name;
    struct py_call call;
    pennon_status status;
    pennon_error err;
    pennon_error_init(&err);
    pennon_tag_options_init(&options);
    if (!PyArg_ParseTuple(args, "ssOO", &action, &name, &ref_from, &pairs_from)) return NULL;
    if (ref_and_pairs(&memory, ref_from, pairs_from, &ref, &pairs) < 0 || py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    options.metadata = pairs;
    py_call_enter(&call);
    if (strcmp(action, "create") == 0) {
        status = pennon_tag_create(OWN(self), name, ref, &options, &err);
    } else if (strcmp(action, "update") == 0) {
        status = pennon_tag_update(OWN(self), name, ref, &options, &err);
    } else if (strcmp(action, "delete") == 0) {
        status = pennon_tag_delete(OWN(self), name, &call.options, &err);
    } else {
        status = pennon_tag_set_metadata(OWN(self), name, pairs, &call.options, &err);
    }
    py_call_leave(state, &call);
    result = status == PENNON_OK ? Py_NewRef(Py_None) : py_raise(state, &err, PY_RAISES_REF);
done:
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_branch(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_branch_options options;
    const pennon_ref *ref;
    const pennon_pairs *pairs;
    pennon_dataset *branch = NULL;
    PyObject *ref_from, *pairs_from, *result = NULL;
    const char *action, *name;
    struct py_call call;
    pennon_status status;
    pennon_error err;
    pennon_error_init(&err);
    pennon_branch_options_init(&options);
    if (!PyArg_ParseTuple(args, "ssOO", &action, &name, &ref_from, &pairs_from)) return NULL;
    if (ref_and_pairs(&memory, ref_from, pairs_from, &ref, &pairs) < 0 || py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    py_call_enter(&call);
    if (strcmp(action, "create") == 0) {
        status = pennon_branch_create(OWN(self), name, ref, &options, &branch, &err);
    } else if (strcmp(action, "delete") == 0) {
        status = pennon_branch_delete(OWN(self), name, &options, &err);
    } else {
        status = pennon_branch_set_metadata(OWN(self), name, pairs, &call.options, &err);
    }
    py_call_leave(state, &call);
    if (status != PENNON_OK) {
        py_raise(state, &err, strcmp(action, "delete") == 0 ? PY_RAISES_REF : PY_RAISES_OS);
    } else {
        result = branch != NULL ? py_dataset_new(state, branch) : Py_NewRef(Py_None);
    }
done:
    py_options_free(&memory);
    return result;
}

PyObject *py_dataset_clone(PyObject *self, PyObject *args)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_clone_options options;
    const pennon_ref *ref;
    const pennon_pairs *pairs;
    pennon_dataset *clone = NULL;
    PyObject *ref_from, *progress = Py_None, *result = NULL;
    struct py_call call;
    const char *uri;
    int shallow;
    pennon_error err;
    pennon_error_init(&err);
    pennon_clone_options_init(&options);
    if (!PyArg_ParseTuple(args, "sOp|O", &uri, &ref_from, &shallow, &progress)) return NULL;
    if (ref_and_pairs(&memory, ref_from, NULL, &ref, &pairs) < 0 || py_call_init(state, &call) < 0) goto done;
    if (py_call_progress(state, &call, progress) < 0) goto done;
    options.call = &call.options;
    options.ref = ref;
    options.shallow = shallow != 0;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_clone(OWN(self), uri, &options, &clone, &err);
    py_call_leave(state, &call);
    result = status == PENNON_OK ? py_dataset_new(state, clone) : py_raise(state, &err, PY_RAISES_OS);
done:
    py_options_free(&memory);
    return result;
}

#define CLEANUP(member) offsetof(pennon_cleanup_options, member)
static const struct py_option cleanup_table[] = {
    {"older_than_ns", PY_OPTION_I64, CLEANUP(older_than_ns)},
    {"keep_versions", PY_OPTION_U64, CLEANUP(keep_versions)},
    {"before_version", PY_OPTION_U64, CLEANUP(before_version)},
    {"delete_unverified", PY_OPTION_BOOL, CLEANUP(delete_unverified)},
    {"error_if_tagged", PY_OPTION_BOOL, CLEANUP(error_if_tagged)},
    {"dry_run", PY_OPTION_BOOL, CLEANUP(dry_run)},
    {"delete_rate", PY_OPTION_U64, CLEANUP(delete_rate)},
    {NULL, 0, 0},
};

PyObject *py_dataset_cleanup(PyObject *self, PyObject *from)
{
    struct py_state *state = py_state_of(self);
    struct py_options memory = {NULL};
    pennon_cleanup_options options;
    pennon_cleanup_stats stats = {0};
    PyObject *result = NULL;
    struct py_call call;
    pennon_error err;
    pennon_error_init(&err);
    pennon_cleanup_options_init(&options);
    if (py_options_read(&memory, from, cleanup_table, &options) < 0 || py_call_init(state, &call) < 0) goto done;
    options.call = &call.options;
    py_call_enter(&call);
    pennon_status status = pennon_dataset_cleanup(OWN(self), &options, &stats, NULL, &err);
    py_call_leave(state, &call);
    if (status != PENNON_OK) {
        py_raise(state, &err, PY_RAISES_OS);
        goto done;
    }
    result = Py_BuildValue("(KKKKKK)", (unsigned long long)stats.bytes_removed, (unsigned long long)stats.versions,
                           (unsigned long long)stats.data_files, (unsigned long long)stats.transaction_files,
                           (unsigned long long)stats.index_files, (unsigned long long)stats.deletion_files);
done:
    py_options_free(&memory);
    return result;
}
