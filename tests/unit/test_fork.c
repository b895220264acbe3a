/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Fork: a child of a process whose runtime is live (threads of the pool, rings, open files) opens, scans and writes, with the handles that it
 * inherits and with new ones, also while other threads of the parent are in the middle of calls. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define ROWS 60000
#define CHILD_SECONDS 60u /* a child that hangs is killed */

/* The allocators of the sanitizers are not made for a fork in the middle of other threads' work, as the C library's is: there the threads have ended
 * their calls when the process forks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FORK_AFTER_CALLS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define FORK_AFTER_CALLS 1
#endif
#endif
#ifndef FORK_AFTER_CALLS
#define FORK_AFTER_CALLS 0
#endif

/* ThreadSanitizer cannot start threads in the child of a child: it takes them for those that it knew. */
#if defined(__SANITIZE_THREAD__)
#define THREADS_IN_GRANDCHILDREN 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREADS_IN_GRANDCHILDREN 0
#endif
#endif
#ifndef THREADS_IN_GRANDCHILDREN
#define THREADS_IN_GRANDCHILDREN 1
#endif

struct world {
    char folder[64], uri[80];
    pennon_runtime *runtime;
    pennon_call call;
    pennon_error err;
};

/* One batch of all rows, then the end. */
struct source {
    struct mem *mem;
    bool done;
};

static int source_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    struct source *from = s->private_data;
    pennon_error err;
    pennon_error_init(&err);
    if (arrow_schema_from_text(bytes_str("struct<id: int64, s: string>"), "", from->mem, out, &err) != PENNON_OK) return 5;
    out->flags = 0;
    return 0;
}

static int source_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    struct source *from = s->private_data;
    struct ArrowSchema schema;
    pennon_error err;
    pennon_error_init(&err);
    memset(out, 0, sizeof *out);
    if (from->done) return 0;
    from->done = true;
    if (source_schema(s, &schema) != 0) return 5;
    struct builder *b = builder_new(&schema, from->mem, &err);
    bool ok = b != NULL;
    for (int64_t i = 0; i < ROWS && ok; i++) {
        char text[40];
        const int n = snprintf(text, sizeof text, "row %lld", (long long)(i * 7919 % 1000003));
        ok = builder_append_int(builder_child(b, 0), i, &err) == PENNON_OK &&
             builder_append_bytes(builder_child(b, 1), bytes_of(text, (size_t)n), &err) == PENNON_OK &&
             builder_append_row(b, &err) == PENNON_OK;
    }
    ok = ok && builder_finish(b, out, &err) == PENNON_OK;
    if (b) builder_free(b);
    schema.release(&schema);
    pennon_error_clear(&err);
    return ok ? 0 : 5;
}

static const char *source_error(struct ArrowArrayStream *s)
{
    UNUSED(s);
    return NULL;
}

static void source_release(struct ArrowArrayStream *s)
{
    struct source *from = s->private_data;
    mem_release(from->mem);
    free(from);
    s->release = NULL;
}

static struct ArrowArrayStream rows(pennon_error *err)
{
    struct source *from = calloc(1, sizeof *from);
    if (from) from->mem = mem_new(NULL, UINT64_MAX, NULL, err);
    if (!from || !from->mem) abort();
    return (struct ArrowArrayStream){source_schema, source_next, source_error, source_release, from};
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    pennon_runtime_options o;
    pennon_write_options wo;
    assert_non_null(w);
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&o);
    o.threads = 4;
    assert_int_equal(pennon_runtime_new(&o, &w->runtime, &w->err), PENNON_OK);
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->call.durability = PENNON_DURABILITY_NONE;
    (void)snprintf(w->folder, sizeof w->folder, "/tmp/pennon-fork-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    (void)snprintf(w->uri, sizeof w->uri, "%s/t", w->folder);
    pennon_write_options_init(&wo);
    wo.call = &w->call;
    wo.max_rows_per_file = ROWS / 4;
    struct ArrowArrayStream in = rows(&w->err);
    const pennon_status st = pennon_write(w->uri, &in, &wo, NULL, &w->err);
    if (st != PENNON_OK) fail_msg("%s", w->err.message);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    char command[100];
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
    (void)snprintf(command, sizeof command, "rm -rf %s", w->folder);
    assert_int_equal(system(command), 0);
    free(w);
    return 0;
}

/* Every row once; no assertion of cmocka, since it runs in children and threads. */
static bool scan_all(pennon_dataset *ds, const pennon_call *call, pennon_error *err)
{
    pennon_scan_options o;
    struct ArrowArrayStream stream;
    int64_t n = 0, sum = 0;
    pennon_scan_options_init(&o);
    o.call = call;
    o.batch_rows = 2000;
    if (pennon_scan(ds, &o, &stream, err) != PENNON_OK) return false;
    for (;;) {
        struct ArrowArray batch;
        if (stream.get_next(&stream, &batch) != 0) {
            (void)pennon_stream_error(&stream, err);
            break;
        }
        if (!batch.release) break;
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t i = 0; i < batch.length; i++) sum += ids[batch.children[0]->offset + i];
        n += batch.length;
        batch.release(&batch);
    }
    stream.release(&stream);
    return n == ROWS && sum == (int64_t)ROWS * (ROWS - 1) / 2;
}

static bool open_and_scan(const struct world *w, const pennon_call *call, pennon_error *err)
{
    pennon_open_options o;
    pennon_dataset *ds = NULL;
    pennon_open_options_init(&o);
    o.call = call;
    const bool ok = pennon_dataset_open(w->uri, &o, &ds, err) == PENNON_OK && scan_all(ds, call, err);
    pennon_dataset_free(ds);
    return ok;
}

static bool write_other(const struct world *w, const pennon_call *call, pennon_error *err)
{
    char uri[120];
    pennon_write_options o;
    struct ArrowArrayStream in = rows(err);
    (void)snprintf(uri, sizeof uri, "%s/of-%ld", w->folder, (long)getpid());
    pennon_write_options_init(&o);
    o.call = call;
    return pennon_write(uri, &in, &o, NULL, err) == PENNON_OK;
}

/* What the child does with what it inherits (`ds` may be NULL), and with new handles. Its exit code says which step failed. */
static void child(const struct world *w, pennon_dataset *ds, bool default_runtime)
{
    pennon_error err;
    pennon_call call = w->call;
    int step = 0;
    pennon_error_init(&err);
    (void)alarm(CHILD_SECONDS);
    if (default_runtime) call.runtime = NULL;
    if (!open_and_scan(w, &call, &err)) step = 1;
    if (!step && ds && !scan_all(ds, &call, &err)) step = 2;
    if (!step && !write_other(w, &call, &err)) step = 3;
    if (step) (void)fprintf(stderr, "child: step %d: %s\n", step, err.message ? err.message : "other rows");
    pennon_error_clear(&err);
    _exit(step);
}

static void expect_fine(pid_t pid)
{
    int status = 0;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) fail_msg("the child ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Threads and rings of the parent are live but idle. */
static void test_base_fork__of_an_idle_process(void **state)
{
    struct world *w = *state;
    pennon_open_options o;
    pennon_dataset *ds = NULL;
    pennon_open_options_init(&o);
    o.call = &w->call;
    assert_int_equal(pennon_dataset_open(w->uri, &o, &ds, &w->err), PENNON_OK);
    assert_true(scan_all(ds, &w->call, &w->err));
    for (int i = 0; i < 3; i++) {
        const pid_t pid = fork();
        if (pid == 0) child(w, ds, false);
        assert_true(scan_all(ds, &w->call, &w->err)); /* at the same time */
        expect_fine(pid);
    }
    assert_true(scan_all(ds, &w->call, &w->err));
    pennon_dataset_free(ds);
}

struct busy {
    const struct world *w;
    _Atomic(bool) stop, failed;
    _Atomic(unsigned) rounds;
    bool default_runtime;
};

static void *work(void *arg)
{
    struct busy *b = arg;
    pennon_error err;
    pennon_call call = b->w->call;
    pennon_error_init(&err);
    if (b->default_runtime) call.runtime = NULL;
    while (!atomic_load(&b->stop)) {
        if (!open_and_scan(b->w, &call, &err)) atomic_store(&b->failed, true);
        atomic_fetch_add(&b->rounds, 1);
    }
    pennon_error_clear(&err);
    return NULL;
}

static void end_threads(struct busy *b, pthread_t threads[2])
{
    atomic_store(&b->stop, true);
    for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Threads of the parent are in the middle of calls of the same runtime, and hold whatever locks they hold. */
static void fork_while_busy(struct world *w, bool default_runtime)
{
    struct busy b = {.w = w, .default_runtime = default_runtime};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &b), 0);
    while (atomic_load(&b.rounds) < 2) (void)usleep(1000);
    if (FORK_AFTER_CALLS) end_threads(&b, threads);
    for (int i = 0; i < 6; i++) {
        const pid_t pid = fork();
        if (pid == 0) child(w, NULL, default_runtime);
        expect_fine(pid);
    }
    if (!FORK_AFTER_CALLS) end_threads(&b, threads);
    assert_false(atomic_load(&b.failed));
}

static void test_base_fork__while_threads_scan(void **state) { fork_while_busy(*state, false); }
static void test_base_fork__of_the_default_runtime(void **state) { fork_while_busy(*state, true); }

#if THREADS_IN_GRANDCHILDREN
/* A child of the child, and the runtime freed in both. */
static void test_base_fork__twice(void **state)
{
    struct world *w = *state;
    assert_true(open_and_scan(w, &w->call, &w->err));
    const pid_t pid = fork();
    if (pid == 0) {
        int status = 0;
        if (!open_and_scan(w, &w->call, &w->err)) _exit(10);
        const pid_t second = fork();
        if (second == 0) {
            const bool fine = open_and_scan(w, &w->call, &w->err);
            pennon_runtime_free(w->runtime);
            _exit(fine ? 0 : 11);
        }
        if (waitpid(second, &status, 0) != second) _exit(12);
        pennon_runtime_free(w->runtime);
        _exit(status == 0 ? 0 : 13);
    }
    expect_fine(pid);
}
#endif

#define FORK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FORK_TEST(test_base_fork__of_an_idle_process),
        FORK_TEST(test_base_fork__while_threads_scan),
        FORK_TEST(test_base_fork__of_the_default_runtime),
#if THREADS_IN_GRANDCHILDREN
        FORK_TEST(test_base_fork__twice),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
