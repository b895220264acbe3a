/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Columns of functions: what they get, what is refused of what they give, errors and cancels inside, and going on from a checkpoint. */
#include "evolve_world.h"

#define BATCH 1000u
#define KEPT_MAX 64u

/* One column "u" of twice the first column, and faults of many kinds. */
struct function {
    struct scan_world *w;
    struct ArrowSchema declared;
    enum { FINE, FAILS, SHORT, NOTHING, CANCELS, SCANS } fault;
    uint64_t fault_at; /* call that is at fault */
    uint64_t calls, rows, most;
    pennon_cancel *cancel;
    char message[64];
    /* the checkpoint */
    struct ArrowArray batches[KEPT_MAX];
    uint64_t keys[KEPT_MAX];
    size_t n_kept;
    char *fragments[16];
    uint64_t asked, found, put;
};

static pennon_status twice(void *ctx, const struct ArrowSchema *schema, struct ArrowArray *in, struct ArrowArray *out,
                           const char **message)
{
    struct function *f = ctx;
    pennon_error err;
    pennon_error_init(&err);
    assert_int_equal(schema->n_children, in->n_children);
    scan_ok(f->w, array_validate(schema, in, ARRAY_VALIDATE_FULL, &f->w->err));
    const bool bad = f->fault != FINE && f->calls == f->fault_at;
    f->calls++;
    f->rows += (uint64_t)in->length;
    f->most = max_u64(f->most, (uint64_t)in->length);
    if (bad && f->fault == FAILS) {
        (void)snprintf(f->message, sizeof f->message, "no value for batch %llu", (unsigned long long)f->calls);
        *message = f->message;
        return PENNON_IO;
    }
    if (bad && f->fault == NOTHING) return PENNON_OK;
    if (bad && f->fault == CANCELS) pennon_cancel_fire(f->cancel);
    if (bad && f->fault == SCANS) assert_true(evolve_count(f->w, f->w->ds, "id >= 0") > 0);
    struct builder *b = builder_new(&f->declared, f->w->mem, &f->w->err);
    assert_non_null(b);
    const int64_t n = in->length - (bad && f->fault == SHORT);
    const struct ArrowArray *a = in->children[0];
    for (int64_t i = 0; i < n; i++) {
        scan_ok(f->w, builder_append_int(builder_child(b, 0), ((const int64_t *)a->buffers[1])[a->offset + i] * 2, &f->w->err));
        scan_ok(f->w, builder_append_row(b, &f->w->err));
    }
    scan_ok(f->w, builder_finish(b, out, &f->w->err));
    builder_free(b);
    return PENNON_OK;
}

static pennon_status get_batch(void *ctx, uint64_t fragment, uint64_t batch, struct ArrowArray *out, const char **message)
{
    struct function *f = ctx;
    UNUSED(message);
    f->asked++;
    for (size_t i = 0; i < f->n_kept; i++) {
        if (f->keys[i] != (fragment << 32 | batch)) continue;
        scan_ok(f->w, array_copy_range(&f->declared, &f->batches[i], 0, f->batches[i].length, 0, f->w->mem, out, &f->w->err));
        f->found++;
    }
    return PENNON_OK;
}

static pennon_status put_batch(void *ctx, uint64_t fragment, uint64_t batch, const struct ArrowSchema *schema,
                               struct ArrowArray *values, const char **message)
{
    struct function *f = ctx;
    UNUSED(message);
    assert_true(arrow_schema_equal(schema, &f->declared, 0));
    assert_true(f->n_kept < KEPT_MAX);
    f->keys[f->n_kept] = fragment << 32 | batch;
    scan_ok(f->w, array_copy_range(&f->declared, values, 0, values->length, 0, f->w->mem, &f->batches[f->n_kept++], &f->w->err));
    f->put++;
    return PENNON_OK;
}

static pennon_status get_fragment(void *ctx, uint64_t fragment, const char **json, const char **message)
{
    struct function *f = ctx;
    UNUSED(message);
    *json = f->fragments[fragment];
    return PENNON_OK;
}

static pennon_status put_fragment(void *ctx, uint64_t fragment, const char *json, const char **message)
{
    struct function *f = ctx;
    UNUSED(message);
    free(f->fragments[fragment]);
    f->fragments[fragment] = strdup(json);
    return PENNON_OK;
}

static void begin(struct scan_world *w, struct function *f)
{
    *f = (struct function){.w = w};
    evolve_schema(w, "struct<u: int64>", &f->declared);
}

static void end(struct function *f)
{
    for (size_t i = 0; i < f->n_kept; i++) array_release(&f->batches[i]);
    for (size_t i = 0; i < ARRAY_LEN(f->fragments); i++) free(f->fragments[i]);
    arrow_schema_release(&f->declared);
}

static pennon_status run(struct function *f, bool kept, pennon_evolution_result *r)
{
    static const char *const read[] = {"id", "_rowaddr"};
    static const pennon_names names = {2, read};
    struct scan_world *w = f->w;
    pennon_call call = w->call;
    pennon_evolution_options o = evolve_options(w);
    const pennon_checkpoint k = {sizeof k, f, get_batch, put_batch, get_fragment, put_fragment};
    const pennon_column_function fn = {
        .struct_size = sizeof fn, .ctx = f, .map = twice, .read_columns = &names, .checkpoint = kept ? &k : NULL};
    call.cancel = f->cancel;
    o.call = &call;
    o.batch_rows = BATCH;
    return pennon_dataset_add_columns_udf(w->ds, &f->declared, &fn, &o, r, &w->err);
}

/* ---- what it gets and gives ---- */

static void test_dataset_udf__values(void **state)
{
    struct scan_world *w = *state;
    struct function f;
    pennon_evolution_result r = {.struct_size = sizeof r};
    begin(w, &f);
    f.fault = SCANS; /* another call of the library inside */
    f.fault_at = 2;
    const uint64_t rows = evolve_count(w, w->ds, NULL);
    scan_ok(w, run(&f, false, &r));
    assert_int_equal(f.rows, rows);
    assert_true(f.most <= BATCH);
    /* As many calls as there are stretches of BATCH rows that have a live one. */
    assert_int_equal(f.calls, 3 * 6 + 3);
    assert_int_equal(r.rows_written, SCAN_ROWS);
    assert_int_equal(evolve_count(w, w->ds, "u = id * 2"), rows);
    evolve_verify(w, w->ds);
    end(&f);
}

/* All columns, in the order of the table. */
static void test_dataset_udf__all_columns(void **state)
{
    struct scan_world *w = *state;
    struct function f;
    begin(w, &f);
    const pennon_column_function fn = {.struct_size = sizeof fn, .ctx = &f, .map = twice};
    const pennon_evolution_options o = evolve_options(w);
    scan_ok(w, pennon_dataset_add_columns_udf(w->ds, &f.declared, &fn, &o, NULL, &w->err));
    assert_int_equal(f.most, 1024);
    assert_int_equal(evolve_count(w, w->ds, "u <> id * 2"), 0);
    end(&f);
}

static void test_dataset_udf__faults(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    const uint64_t version = pennon_dataset_version(w->ds);
    struct function f;
    begin(w, &f);
    for (uint64_t at = 0; at < 14; at += 13) {
        f.fault_at = at;
        f.calls = 0;
        f.fault = FAILS;
        scan_fails(w, run(&f, false, NULL), PENNON_IO, "the function: no value for batch");
        f.calls = 0;
        f.fault = SHORT;
        scan_fails(w, run(&f, false, NULL), PENNON_INVALID_ARGUMENT, "different size with the source batch");
        f.calls = 0;
        f.fault = NOTHING;
        scan_fails(w, run(&f, false, NULL), PENNON_INVALID_ARGUMENT, "gave no batch");
        f.calls = 0;
        f.fault = CANCELS;
        scan_ok(w, pennon_cancel_new(&f.cancel, &w->err));
        scan_fails(w, run(&f, false, NULL), PENNON_CANCELLED, "");
        pennon_cancel_free(f.cancel);
        f.cancel = NULL;
        assert_int_equal(f.calls, at + 1);
    }
    const pennon_evolution_options o = evolve_options(w);
    scan_fails(w, pennon_dataset_add_columns_udf(w->ds, &f.declared, NULL, &o, NULL, &w->err), PENNON_INVALID_ARGUMENT,
               "no function");
    assert_int_equal(evolve_files(w), files);
    assert_int_equal(pennon_dataset_version(w->ds), version);
    end(&f);
}

/* ---- checkpoints ---- */

static void test_dataset_udf__resumes(void **state)
{
    struct scan_world *w = *state;
    const size_t files = evolve_files(w);
    const uint64_t version = pennon_dataset_version(w->ds), rows = evolve_count(w, w->ds, NULL);
    struct function f;
    begin(w, &f);
    f.fault = FAILS;
    f.fault_at = 14;
    scan_fails(w, run(&f, true, NULL), PENNON_IO, "no value");
    assert_int_equal(f.put, 14);
    assert_non_null(f.fragments[0]);
    assert_non_null(f.fragments[1]);
    assert_null(f.fragments[2]);
    assert_int_equal(evolve_files(w), files + 2); /* those that the checkpoint has stay */
    assert_int_equal(pennon_dataset_version(w->ds), version);
    f.fault = FINE;
    f.calls = 0;
    f.asked = f.found = 0;
    scan_ok(w, run(&f, true, NULL));
    assert_int_equal(f.found, 2);
    assert_int_equal(f.asked, 6 + 3);
    assert_int_equal(f.calls, 4 + 3);
    assert_int_equal(evolve_files(w), files + 4);
    assert_int_equal(evolve_count(w, w->ds, "u = id * 2"), rows);
    evolve_verify(w, w->ds);
    end(&f);
}

/* Rows that are gone by then: what was kept of their batches and files is told apart. */
static void test_dataset_udf__stale_checkpoint(void **state)
{
    struct scan_world *w = *state;
    struct function f;
    pennon_mutation_options d;
    pennon_mutation_options_init(&d);
    d.call = &w->call;
    begin(w, &f);
    f.fault = FAILS;
    f.fault_at = 14;
    scan_fails(w, run(&f, true, NULL), PENNON_IO, "no value");
    scan_ok(w, pennon_dataset_delete(w->ds, "id = 3 OR id = 12001", &d, NULL, &w->err));
    f.fault = FINE;
    f.calls = 0;
    free(f.fragments[0]);
    f.fragments[0] = strdup("{\"id\": 0, \"files\": [], \"physical_rows\": 6000}");
    f.found = 0;
    scan_ok(w, run(&f, true, NULL));
    assert_int_equal(f.found, 6 + 2);
    assert_int_equal(f.calls, 1 + 5 + 3); /* one batch of the first fragment, one of the third, and what was not kept */
    assert_int_equal(evolve_count(w, w->ds, "u <> id * 2 OR u IS NULL"), 0);
    evolve_verify(w, w->ds);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dataset_udf__values, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_udf__all_columns, scan_setup_stable, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_udf__faults, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_udf__resumes, scan_setup, scan_teardown),
        cmocka_unit_test_setup_teardown(test_dataset_udf__stale_checkpoint, scan_setup, scan_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
