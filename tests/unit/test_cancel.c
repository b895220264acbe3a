/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Every long verb ends soon after its token fires or its deadline passes, wherever it is by then, and leaves nothing: no charged byte, no file.
 *
 * A verb is run once to its end for its duration; then it is stopped at several points of that. Between the stop and the return the processor time of
 * the process is measured, which other programs on the machine do not change much, and the time of the clock, for which only a generous bound holds.
 * The median over the points is held against 50 ms. Unoptimised and checked builds are slower by a factor that is allowed for. */
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define TRIES_MOST 7
#define WALL_MOST_NS (INT64_C(5) * 1000000000)
#ifdef NDEBUG
#define CPU_MEDIAN_NS (INT64_C(50) * 1000000)
#else
#define CPU_MEDIAN_NS (INT64_C(500) * 1000000)
#endif

struct world {
    char folder[64], uri[80], other[80], file[200];
    pennon_runtime *runtime;
    pennon_dataset *ds, *many;
    struct mem *mem;
    struct ArrowSchema schema;
    struct shared_array *rows; /* one large batch */
    int64_t n_rows;
    char *csv, *json;
    size_t csv_size, json_size;
    uint64_t *places;
    size_t n_places;
};

static struct world *the; /* made once for all cases */

/* With PENNON_LONG=1 the tables are large and the points many. */
static bool is_long(void)
{
    const char *wish = getenv("PENNON_LONG");
    return wish && strcmp(wish, "1") == 0;
}

static int64_t clock_of(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t) != 0) abort();
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void must(pennon_status st, const pennon_error *err)
{
    if (st != PENNON_OK) fail_msg("%s: %s", pennon_status_name(st), err->message);
}

/* ---- rows ---- */

#define SCHEMA "struct<id: int64, s: string, t: string, l: list<item: int32>>"

static uint64_t mixed(uint64_t i)
{
    uint64_t z = i * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return z ^ (z >> 27);
}

static void make_rows(struct world *w, pennon_error *err)
{
    struct ArrowArray array;
    must(arrow_schema_from_text(bytes_str(SCHEMA), "", w->mem, &w->schema, err), err);
    w->schema.flags = 0;
    struct builder *b = builder_new(&w->schema, w->mem, err), *l;
    assert_non_null(b);
    l = builder_child(b, 3);
    for (int64_t i = 0; i < the->n_rows; i++) {
        char text[80];
        const uint64_t m = mixed((uint64_t)i);
        must(builder_append_int(builder_child(b, 0), (int64_t)m, err), err);
        int n = snprintf(text, sizeof text, "signal flag %llu of the harbour", (unsigned long long)(m % 900000));
        must(builder_append_bytes(builder_child(b, 1), bytes_of(text, (size_t)n), err), err);
        n = snprintf(text, sizeof text, "word %llu", (unsigned long long)(m % 5000));
        must(builder_append_bytes(builder_child(b, 2), bytes_of(text, (size_t)n), err), err);
        for (uint64_t k = 0; k < m % 9; k++) must(builder_append_int(builder_child(l, 0), (int64_t)((m >> k) & 0xffff), err), err);
        must(builder_append_row(l, err), err);
        must(builder_append_row(b, err), err);
    }
    must(builder_finish(b, &array, err), err);
    builder_free(b);
    w->rows = shared_array_new(&array, w->mem, err);
    assert_non_null(w->rows);
}

/* The first `end` rows, in batches of `step`. */
struct source {
    int64_t at, end, step;
};

static int source_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    pennon_error err;
    pennon_error_init(&err);
    UNUSED(s);
    must(arrow_schema_copy(&the->schema, the->mem, out, &err), &err);
    return 0;
}

static int source_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    struct source *from = s->private_data;
    pennon_error err;
    pennon_error_init(&err);
    memset(out, 0, sizeof *out);
    const int64_t n = from->end - from->at < from->step ? from->end - from->at : from->step;
    if (n > 0) must(array_slice(&the->schema, the->rows, from->at, n, the->mem, out, &err), &err);
    from->at += n;
    return 0;
}

static const char *source_error(struct ArrowArrayStream *s)
{
    UNUSED(s);
    return NULL;
}

static void source_release(struct ArrowArrayStream *s)
{
    free(s->private_data);
    s->release = NULL;
}

static struct ArrowArrayStream rows(int64_t end, int64_t step)
{
    struct source *from = calloc(1, sizeof *from);
    assert_non_null(from);
    *from = (struct source){0, end, step};
    return (struct ArrowArrayStream){source_schema, source_next, source_error, source_release, from};
}

static void make_texts(struct world *w)
{
    const size_t n = is_long() ? 400000 : 50000;
    w->csv = malloc(n * 100);
    w->json = malloc(n * 160);
    assert_non_null(w->csv);
    assert_non_null(w->json);
    w->csv_size = (size_t)snprintf(w->csv, 100, "id,x,s,t\n");
    for (size_t i = 0; i < n; i++) {
        const unsigned long long m = mixed(i);
        w->csv_size += (size_t)snprintf(w->csv + w->csv_size, 100, "%llu,%llu.%llu,\"flag %llu, mast\",word %llu\n", m % 1000000,
                                        m % 777, m % 1000, m % 900000, m % 50);
        w->json_size +=
            (size_t)snprintf(w->json + w->json_size, 160, "{\"id\":%llu,\"x\":%llu.5,\"s\":\"flag %llu, mast\",\"l\":[1,2,%llu]}\n",
                             m % 1000000, m % 777, m % 900000, m % 50);
    }
}

/* ---- setup ---- */

static void write_to(struct world *w, const char *uri, int64_t n, uint64_t per_file, pennon_dataset **out, pennon_error *err)
{
    pennon_write_options o;
    pennon_call call;
    pennon_call_init(&call);
    call.runtime = w->runtime;
    call.durability = PENNON_DURABILITY_NONE;
    struct ArrowArrayStream stream = rows(n, 100000);
    pennon_write_options_init(&o);
    o.call = &call;
    o.max_rows_per_file = per_file;
    must(pennon_write(uri, &stream, &o, out, err), err);
}

static int keep_path(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    UNUSED(sb);
    UNUSED(ftw);
    if (type == FTW_F && strstr(path, "/data/")) (void)snprintf(the->file, sizeof the->file, "%s", path);
    return 0;
}

static int setup(void **state)
{
    static struct world w;
    pennon_runtime_options o;
    pennon_error err;
    UNUSED(state);
    the = &w;
    pennon_error_init(&err);
    pennon_runtime_options_init(&o);
    o.threads = 4;
    must(pennon_runtime_new(&o, &w.runtime, &err), &err);
    w.mem = mem_new(NULL, UINT64_MAX, NULL, &err);
    (void)snprintf(w.folder, sizeof w.folder, "/tmp/pennon-cancel-XXXXXX");
    assert_non_null(mkdtemp(w.folder));
    (void)snprintf(w.uri, sizeof w.uri, "%s/t", w.folder);
    (void)snprintf(w.other, sizeof w.other, "%s/o", w.folder);
    w.n_rows = is_long() ? 1200000 : 150000;
    make_rows(&w, &err);
    make_texts(&w);
    write_to(&w, w.uri, the->n_rows, 0, &w.ds, &err);
    write_to(&w, "memory://many", 2000, 1, &w.many, &err);
    assert_int_equal(nftw(w.uri, keep_path, 8, FTW_PHYS), 0);
    assert_true(w.file[0] != '\0');
    w.n_places = (size_t)the->n_rows / 6;
    w.places = calloc(w.n_places, sizeof *w.places);
    assert_non_null(w.places);
    for (size_t i = 0; i < w.n_places; i++) w.places[i] = mixed(i) % (uint64_t)the->n_rows;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = the;
    char command[100];
    UNUSED(state);
    pennon_dataset_free(w->ds);
    pennon_dataset_free(w->many);
    pennon_runtime_free(w->runtime);
    shared_array_release(w->rows);
    w->schema.release(&w->schema);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    free(w->csv);
    free(w->json);
    free(w->places);
    (void)snprintf(command, sizeof command, "rm -rf %s", w->folder);
    assert_int_equal(system(command), 0);
    return 0;
}

/* ---- verbs ---- */

static pennon_status drain(pennon_status st, struct ArrowArrayStream *stream, pennon_error *err)
{
    if (st != PENNON_OK) return st;
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            st = pennon_stream_error(stream, err);
            break;
        }
        if (!batch.release) break;
        batch.release(&batch);
    }
    stream->release(stream);
    return st;
}

static pennon_status scan(const pennon_call *call, uint64_t batch_rows, pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.call = call;
    o.batch_rows = batch_rows;
    return drain(pennon_scan(the->ds, &o, &stream, err), &stream, err);
}

static pennon_status verb_scan(const pennon_call *call, pennon_error *err) { return scan(call, 8192, err); }
static pennon_status verb_scan_at_once(const pennon_call *call, pennon_error *err)
{
    return scan(call, (uint64_t)the->n_rows, err);
}

static pennon_status verb_take(const pennon_call *call, pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_take_options o;
    pennon_take_options_init(&o);
    o.call = call;
    return drain(pennon_dataset_take(the->ds, PENNON_TAKE_OFFSETS, the->n_places, the->places, &o, &stream, err), &stream, err);
}

static pennon_status verb_count(const pennon_call *call, pennon_error *err)
{
    uint64_t n;
    return pennon_dataset_count_rows(the->many, call, &n, err);
}

static pennon_status verb_verify(const pennon_call *call, pennon_error *err)
{
    pennon_verify_options o;
    pennon_verify_options_init(&o);
    o.call = call;
    return pennon_dataset_verify(the->ds, &o, NULL, err);
}

static pennon_status verb_open(const pennon_call *call, pennon_error *err)
{
    pennon_open_options o;
    pennon_dataset *ds = NULL;
    pennon_open_options_init(&o);
    o.call = call;
    const pennon_status st = pennon_dataset_open("memory://many", &o, &ds, err);
    pennon_dataset_free(ds);
    return st;
}

static pennon_status verb_inspect(const pennon_call *call, pennon_error *err)
{
    pennon_file *file = NULL;
    pennon_file_options o;
    char *text = NULL;
    pennon_file_options_init(&o);
    o.call = call;
    pennon_status st = pennon_file_open(the->file, &o, &file, err);
    if (st == PENNON_OK) st = pennon_file_info_json(file, call, &text, err);
    pennon_string_free(text);
    pennon_file_free(file);
    return st;
}

static pennon_status write_stream(const pennon_call *call, struct ArrowArrayStream *stream, const char *version, pennon_error *err)
{
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.call = call;
    o.mode = PENNON_WRITE_OVERWRITE;
    o.storage_version = version;
    return pennon_write(the->other, stream, &o, NULL, err);
}

static pennon_status write_version(const pennon_call *call, const char *version, int64_t step, pennon_error *err)
{
    struct ArrowArrayStream stream = rows(the->n_rows, step);
    return write_stream(call, &stream, version, err);
}

static pennon_status verb_write_2_0(const pennon_call *call, pennon_error *err)
{
    return write_version(call, "2.0", the->n_rows, err);
}
static pennon_status verb_write_2_1(const pennon_call *call, pennon_error *err)
{
    return write_version(call, "2.1", the->n_rows, err);
}
static pennon_status verb_write_2_2(const pennon_call *call, pennon_error *err)
{
    return write_version(call, "2.2", the->n_rows, err);
}
static pennon_status verb_write_batches(const pennon_call *call, pennon_error *err)
{
    return write_version(call, "2.1", 8192, err);
}

static pennon_status verb_append(const pennon_call *call, pennon_error *err)
{
    struct ArrowArrayStream stream = rows(1, 1);
    pennon_write_options o;
    pennon_dataset *ds = NULL;
    pennon_write_options_init(&o);
    o.call = call;
    pennon_status st = pennon_dataset_snapshot(the->many, &ds, err);
    if (st == PENNON_OK) st = pennon_dataset_append(ds, &stream, &o, err);
    pennon_dataset_free(ds);
    return st;
}

struct text {
    const char *at;
    size_t left;
};

static int64_t read_text(void *ctx, void *to, size_t n)
{
    struct text *t = ctx;
    if (n > t->left) n = t->left;
    memcpy(to, t->at, n);
    t->at += n;
    t->left -= n;
    return (int64_t)n;
}

static pennon_status ingest(const pennon_call *call, bool json, bool at_once, pennon_error *err)
{
    struct text t = {json ? the->json : the->csv, json ? the->json_size : the->csv_size};
    const pennon_source source = {.struct_size = sizeof source, .read = read_text, .ctx = &t};
    struct ArrowArrayStream stream;
    pennon_csv_options co;
    pennon_json_lines_options jo;
    pennon_status st;
    if (json) {
        pennon_json_lines_options_init(&jo);
        jo.call = call;
        if (at_once) jo.batch_rows = 1000000;
        st = pennon_json_lines_open(&source, &jo, &stream, err);
    } else {
        pennon_csv_options_init(&co);
        co.call = call;
        if (at_once) co.batch_rows = 1000000;
        st = pennon_csv_open(&source, &co, &stream, err);
    }
    return st == PENNON_OK ? write_stream(call, &stream, NULL, err) : st;
}

static pennon_status verb_csv(const pennon_call *call, pennon_error *err) { return ingest(call, false, false, err); }
static pennon_status verb_csv_at_once(const pennon_call *call, pennon_error *err) { return ingest(call, false, true, err); }
static pennon_status verb_json(const pennon_call *call, pennon_error *err) { return ingest(call, true, false, err); }
static pennon_status verb_json_at_once(const pennon_call *call, pennon_error *err) { return ingest(call, true, true, err); }

/* ---- stopping ---- */

struct timer {
    pennon_cancel *cancel;
    int64_t after_ns;
    int64_t wall, cpu; /* when it fired */
    _Atomic(bool) fired;
};

static void *fire(void *arg)
{
    struct timer *t = arg;
    const struct timespec wait = {(time_t)(t->after_ns / 1000000000), (long)(t->after_ns % 1000000000)};
    (void)nanosleep(&wait, NULL);
    t->wall = clock_of(CLOCK_MONOTONIC);
    t->cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    atomic_store(&t->fired, true);
    if (t->cancel) pennon_cancel_fire(t->cancel);
    return NULL;
}

static size_t n_files;
static int count_file(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
    UNUSED(path);
    UNUSED(sb);
    UNUSED(ftw);
    n_files += type == FTW_F;
    return 0;
}

static size_t files_below(const char *path)
{
    n_files = 0;
    (void)nftw(path, count_file, 8, FTW_PHYS);
    return n_files;
}

typedef pennon_status (*verb_fn)(const pennon_call *call, pennon_error *err);

struct latency {
    int64_t wall, cpu;
    pennon_status st;
};

/* Run a verb and stop it `after` its start: by the token, or by its deadline. */
static struct latency stop_at(verb_fn verb, int64_t after, bool deadline)
{
    struct timer t = {.after_ns = after};
    pthread_t thread;
    pennon_error err;
    pennon_budget *budget = NULL;
    pennon_call call;
    pennon_error_init(&err);
    pennon_call_init(&call);
    call.runtime = the->runtime;
    call.durability = PENNON_DURABILITY_NONE;
    must(pennon_budget_new(the->runtime, PENNON_NONE, &budget, &err), &err);
    call.budget = budget;
    if (!deadline) must(pennon_cancel_new(&t.cancel, &err), &err);
    call.cancel = t.cancel;
    if (deadline) {
        call.timeout_ms = after / 1000000;
        t.after_ns = call.timeout_ms * 1000000;
    }
    const size_t files = files_below(the->other);
    assert_int_equal(pthread_create(&thread, NULL, fire, &t), 0);
    struct latency l = {.st = verb(&call, &err)};
    const bool fired = atomic_load(&t.fired);
    const int64_t wall = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (fired) {
        l.wall = wall - t.wall;
        l.cpu = cpu - t.cpu;
    }
    if (l.st != PENNON_OK && l.st != (deadline ? PENNON_TIMEOUT : PENNON_CANCELLED)) must(l.st, &err);
    assert_int_equal(pennon_budget_used(budget), 0);
    if (l.st != PENNON_OK) assert_int_equal(files_below(the->other), files);
    pennon_budget_free(budget);
    pennon_cancel_free(t.cancel);
    pennon_error_clear(&err);
    return l;
}

static int by_cpu(const void *a, const void *b)
{
    const struct latency *x = a, *y = b;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

static bool stops(const char *name, verb_fn verb)
{
    bool good = true;
    pennon_error err;
    pennon_call call;
    pennon_error_init(&err);
    pennon_call_init(&call);
    call.runtime = the->runtime;
    call.durability = PENNON_DURABILITY_NONE;
    const int64_t begin = clock_of(CLOCK_MONOTONIC);
    must(verb(&call, &err), &err);
    const int64_t whole = clock_of(CLOCK_MONOTONIC) - begin;
    for (int kind = 0; kind < 2; kind++) {
        struct latency l[TRIES_MOST];
        const int tries = is_long() ? TRIES_MOST : 3;
        int stopped = 0;
        int64_t wall = 0;
        for (int i = 0; i < tries; i++) {
            l[i] = stop_at(verb, whole * (2 * i + 1) / (2 * tries), kind == 1);
            stopped += l[i].st != PENNON_OK;
            if (l[i].wall > wall) wall = l[i].wall;
        }
        qsort(l, (size_t)tries, sizeof *l, by_cpu);
        const bool fine = l[tries / 2].cpu < CPU_MEDIAN_NS && wall < WALL_MOST_NS;
        print_message("%-22s %-8s of %5lld ms: stopped %d of %d, processor median %5.1f ms, most %5.1f; clock, most %5.1f%s\n",
                      name, kind ? "deadline" : "token", (long long)(whole / 1000000), stopped, tries,
                      (double)l[tries / 2].cpu / 1e6, (double)l[tries - 1].cpu / 1e6, (double)wall / 1e6, fine ? "" : " FAILED");
        good = good && fine;
    }
    return good;
}

#define CANCEL_TEST(verb)                                \
    static void test_limits_cancel__##verb(void **state) \
    {                                                    \
        UNUSED(state);                                   \
        assert_true(stops(#verb, verb_##verb));          \
    }

CANCEL_TEST(scan)
CANCEL_TEST(scan_at_once)
CANCEL_TEST(take)
CANCEL_TEST(count)
CANCEL_TEST(verify)
CANCEL_TEST(open)
CANCEL_TEST(inspect)
CANCEL_TEST(write_2_0)
CANCEL_TEST(write_2_1)
CANCEL_TEST(write_2_2)
CANCEL_TEST(write_batches)
CANCEL_TEST(append)
CANCEL_TEST(csv)
CANCEL_TEST(csv_at_once)
CANCEL_TEST(json)
CANCEL_TEST(json_at_once)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_cancel__scan),          cmocka_unit_test(test_limits_cancel__scan_at_once),
        cmocka_unit_test(test_limits_cancel__take),          cmocka_unit_test(test_limits_cancel__count),
        cmocka_unit_test(test_limits_cancel__verify),        cmocka_unit_test(test_limits_cancel__open),
        cmocka_unit_test(test_limits_cancel__inspect),       cmocka_unit_test(test_limits_cancel__write_2_0),
        cmocka_unit_test(test_limits_cancel__write_2_1),     cmocka_unit_test(test_limits_cancel__write_2_2),
        cmocka_unit_test(test_limits_cancel__write_batches), cmocka_unit_test(test_limits_cancel__append),
        cmocka_unit_test(test_limits_cancel__csv),           cmocka_unit_test(test_limits_cancel__csv_at_once),
        cmocka_unit_test(test_limits_cancel__json),          cmocka_unit_test(test_limits_cancel__json_at_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
