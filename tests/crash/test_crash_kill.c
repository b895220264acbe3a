/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Every operation on the local disk, in a child that is killed before and behind every call of its store. What the child leaves is the old or the new
 * state, verify finds nothing, and the operation works a second time, in this process. The number of points is printed. A kill loses nothing that the
 * operating system has, so the folders are in memory where there is /dev/shm: syncing to a disk would be most of the time.
 *
 * With a sanitizer every fifth point is taken; PENNON_LONG=1 takes all. */
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash_operations.h"

/* The local store behind one that counts calls and kills. */
struct killer {
    pennon_store *below;
    _Atomic(uint64_t) calls;
    uint64_t at; /* this call, UINT64_MAX = none */
    bool behind; /* when it is done, else before it begins */
};

static char root[64]; /* folder of the point under way */

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;) (void)pause();
}

static uint64_t before(struct killer *k)
{
    uint64_t call = atomic_fetch_add(&k->calls, 1);
    if (call == k->at && !k->behind) die();
    return call;
}

static pennon_status behind(struct killer *k, uint64_t call, pennon_status st)
{
    if (call == k->at && k->behind) die();
    return st;
}

static pennon_status kill_read_start(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                                     void *ctx, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.read_start(k->below->self, path, n, ranges, done, ctx, err));
}
static void kill_poll(void *self, int32_t timeout_ms)
{
    struct killer *k = self;
    k->below->vtable.poll(k->below->self, timeout_ms);
}
static pennon_status kill_head(void *self, const char *path, pennon_object_info *out, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.head(k->below->self, path, out, err));
}
static pennon_status kill_put(void *self, const char *path, const void *bytes, size_t size, uint32_t flags, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.put(k->below->self, path, bytes, size, flags, err));
}
static pennon_status kill_list(void *self, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.list(k->below->self, prefix, recursive, fn, ctx, err));
}
static pennon_status kill_remove(void *self, const char *path, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.remove(k->below->self, path, err));
}
static pennon_status kill_sync_removals(void *self, const char *path, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.sync_removals(k->below->self, path, err));
}
static pennon_status kill_copy(void *self, const char *from, const char *to, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.copy(k->below->self, from, to, err));
}
static pennon_status kill_writer_open(void *self, const char *path, void **writer, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.writer_open(k->below->self, path, writer, err));
}
static pennon_status kill_writer_write(void *self, void *writer, const void *bytes, size_t size, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.writer_write(k->below->self, writer, bytes, size, err));
}
static pennon_status kill_writer_finish(void *self, void *writer, uint32_t flags, pennon_error *err)
{
    struct killer *k = self;
    uint64_t call = before(k);
    return behind(k, call, k->below->vtable.writer_finish(k->below->self, writer, flags, err));
}
static void kill_writer_abort(void *self, void *writer)
{
    struct killer *k = self;
    uint64_t call = before(k);
    k->below->vtable.writer_abort(k->below->self, writer);
    (void)behind(k, call, PENNON_OK);
}
static bool kill_is_last_change(void *self, const char *path)
{
    struct killer *k = self;
    return k->below->vtable.is_last_change(k->below->self, path);
}
static void kill_free(void *self)
{
    struct killer *k = self;
    pennon_store_free(k->below);
    free(k);
}

static pennon_status make_killer(pennon_runtime *rt, void **out, pennon_error *err)
{
    struct killer *k = calloc(1, sizeof *k);
    pennon_store *s = NULL;
    assert_non_null(k);
    k->at = UINT64_MAX;
    TRY_RETURN(local_store_new(rt, root, &k->below, err));
    const pennon_store_vtable *local = &k->below->vtable;
    const pennon_store_vtable vtable = {.struct_size = sizeof vtable,
                                        .read_start = kill_read_start,
                                        .poll = local->poll ? kill_poll : NULL,
                                        .head = kill_head,
                                        .put = kill_put,
                                        .list = kill_list,
                                        .remove = kill_remove,
                                        .copy = kill_copy,
                                        .writer_open = kill_writer_open,
                                        .writer_write = kill_writer_write,
                                        .writer_finish = kill_writer_finish,
                                        .writer_abort = kill_writer_abort,
                                        .free = kill_free,
                                        .ordered_listing = local->ordered_listing,
                                        .block_size = local->block_size,
                                        .parallel_reads = local->parallel_reads,
                                        .is_last_change = kill_is_last_change,
                                        .sync_removals = kill_sync_removals};
    TRY_RETURN(store_wrap(runtime_base_mem(rt), &vtable, k, "memory", &s, err));
    *out = s;
    return PENNON_OK;
}

static void begin(struct world *w) { world_begin(w, RUNTIME_SLOT_MEMORY_STORE, make_killer, "memory://w", "w"); }

/* ---- folders ---- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    UNUSED(st);
    UNUSED(ftw);
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void folder_make(void)
{
    (void)snprintf(root, sizeof root, "%s/pennon-crash-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(root));
}
static void folder_remove(void) { assert_int_equal(nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* ---- points ---- */

/* The old and the new state, and the calls in between. */
static uint64_t learn(const struct operation *o, struct state *old, struct state *new)
{
    struct world w;
    folder_make();
    begin(&w);
    o->prepare(&w);
    state_read(&w, old);
    struct killer *k = w.store->self;
    atomic_store(&k->calls, 0);
    world_ok(&w, o->run(&w), o->name);
    uint64_t calls = atomic_load(&k->calls);
    state_read(&w, new);
    world_end(&w);
    folder_remove();
    assert_false(state_equal(old, new));
    return calls;
}

/* What the child does: it does not come back. It leaves with 0 when the operation ended before the call. */
static void child(const struct operation *o, uint64_t call, bool late)
{
    struct world w;
    begin(&w);
    o->prepare(&w);
    struct killer *k = w.store->self;
    k->behind = late;
    k->at = atomic_load(&k->calls) + call;
    _exit(o->run(&w) == PENNON_OK ? 0 : 3);
}

/* false: the operation ended before it came to the call. */
static bool one_point(const struct operation *o, const struct state *old, const struct state *new, uint64_t call, bool late)
{
    struct world w;
    char where[160];
    int status = 0;
    folder_make();
    /* No runtime is alive here, so no thread is lost in the child. */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) child(o, call, late);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)snprintf(where, sizeof where, "%s, killed %s call %" PRIu64, o->name, late ? "behind" : "before", call);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!killed && !done) fail_msg("%s: the child ended with %d", where, status);
    begin(&w);
    w.where = where;
    check_outcome(&w, o, old, new, done ? PENNON_OK : PENNON_COMMIT_UNKNOWN);
    world_end(&w);
    folder_remove();
    return killed;
}

static void test_crash_kill__every_call(void **unused)
{
    UNUSED(unused);
    static struct state old, new;
    const char *only = getenv("PENNON_ONLY");
    uint64_t stride = SLOW && !getenv("PENNON_LONG") ? 5 : 1, total = 0, number = 0;
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        const struct operation *o = &operations[i];
        if (only && strcmp(only, o->name) != 0) continue;
        uint64_t calls = learn(o, &old, &new), points = 0;
        for (uint64_t point = 0; point < 2 * calls; point++) {
            if (number++ % stride != 0) continue;
            points += one_point(o, &old, &new, point / 2, point % 2 == 1);
        }
        print_message("%s: %" PRIu64 " calls, %" PRIu64 " points\n", o->name, calls, points);
        assert_true(points > 0);
        total += points;
    }
    print_message("local disk: %" PRIu64 " points\n", total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crash_kill__every_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
