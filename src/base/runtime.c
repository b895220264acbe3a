/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Runtime, cancel token, budget, and the running call. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/runtime.h"

#define MEMORY_DEFAULT_MAX ((uint64_t)1 << 30)
#define OPEN_FILES_DEFAULT 128u
#define LOG_LINE_MAX 1024
#define KEPT_SHARE 8u /* freed buffers that are kept: one part in so many of the limit */

struct pennon_runtime {
    struct mem *base; /* unlimited: the runtime's own objects */
    struct mem *mem;  /* budget of the calls */
    struct pool *pool;
    uint32_t max_open_files;
    pennon_log_fn log;
    void *log_ctx;
    pennon_log_level log_level;
    pthread_mutex_t slot_lock;
    _Atomic(int32_t) slot_pid;
    void *slots[RUNTIME_SLOTS];
    void (*slot_free[RUNTIME_SLOTS])(void *);
    _Atomic(uint32_t) refs;
};

struct pennon_cancel {
    struct mem *mem;
    _Atomic(uint32_t) refs;
    _Atomic(bool) fired;
};

struct pennon_budget {
    struct mem *own;
    struct mem *mem;
};

const char *pennon_version(void) { return "0.1.0"; }

/* ---- options ---- */

void pennon_runtime_options_init(pennon_runtime_options *options)
{
    if (!options) return;
    *options = (pennon_runtime_options){.struct_size = sizeof *options, .memory_limit = PENNON_NONE, .log_level = PENNON_LOG_WARN};
}

void pennon_call_init(pennon_call *call)
{
    if (!call) return;
    *call = (pennon_call){.struct_size = sizeof *call, .timeout_ms = -1, .durability = PENNON_DURABILITY_FULL};
}

pennon_status options_read(void *defaults, size_t known, const void *given, const char *name, pennon_error *err)
{
    if (!given) return PENNON_OK;
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > 1 << 16) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "%s.struct_size is %zu: fill the struct with its init function", name, size);
    }
    for (size_t i = known; i < size; i++) {
        if (((const uint8_t *)given)[i] != 0) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "%s has options that this version of the library does not know", name);
        }
    }
    memcpy(defaults, given, size < known ? size : known);
    memcpy(defaults, &known, sizeof known);
    return PENNON_OK;
}

/* ---- machine ---- */

/* cgroup v2 limit of this process, or UINT64_MAX. */
static uint64_t cgroup_memory(void)
{
    unsigned long long bytes = 0;
    FILE *f = fopen("/sys/fs/cgroup/memory.max", "r");
    if (!f) return UINT64_MAX;
    int n = fscanf(f, "%llu", &bytes);
    (void)fclose(f);
    return n == 1 ? (uint64_t)bytes : UINT64_MAX;
}

static uint64_t default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : MEMORY_DEFAULT_MAX * 4;
    return min_u64(min_u64(all, cgroup_memory()) / 4, MEMORY_DEFAULT_MAX);
}

static uint32_t default_threads(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        if (n > 0) return (uint32_t)n;
    }
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

/* ---- runtime ---- */

static void runtime_destroy(pennon_runtime *rt)
{
    for (size_t i = 0; i < RUNTIME_SLOTS; i++) {
        if (rt->slots[i]) rt->slot_free[i](rt->slots[i]);
    }
    pool_free(rt->pool);
    mem_release(rt->mem);
    (void)pthread_mutex_destroy(&rt->slot_lock);
    struct mem *base = rt->base;
    mem_free(base, rt);
    mem_release(base);
}

static pennon_status runtime_make(const pennon_runtime_options *o, pennon_runtime **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_runtime *rt = NULL;
    struct mem *base;
    TRY_NEW(base, mem_new(NULL, UINT64_MAX, o->allocator, err));
    rt = mem_calloc(base, 1, sizeof *rt, err);
    if (!rt) {
        mem_release(base);
        return err->code;
    }
    rt->base = base;
    atomic_init(&rt->refs, 1);
    (void)pthread_mutex_init(&rt->slot_lock, NULL);
    atomic_init(&rt->slot_pid, (int32_t)getpid());
    rt->max_open_files = o->max_open_files ? o->max_open_files : OPEN_FILES_DEFAULT;
    rt->log = o->log;
    rt->log_ctx = o->log_ctx;
    rt->log_level = o->log_level;
    TRY_NEW(rt->mem, mem_new(base, o->memory_limit == PENNON_NONE ? default_memory() : o->memory_limit, NULL, err));
    mem_keep(base, mem_limit(rt->mem) / KEPT_SHARE);
    TRY_NEW(rt->pool, pool_new(base, o->threads ? o->threads : default_threads(), err));
    *out = rt;
    rt = NULL;
done:
    if (rt) runtime_destroy(rt);
    return st;
}

pennon_status pennon_runtime_new(const pennon_runtime_options *options, pennon_runtime **out, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    pennon_runtime_options o;
    pennon_runtime_options_init(&o);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_runtime_options", &local);
    if (st == PENNON_OK && !out) st = error_set(&local, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK && (o.log_level < PENNON_LOG_ERROR || o.log_level > PENNON_LOG_DEBUG)) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "log_level %d is not one of the PENNON_LOG_ values", (int)o.log_level);
    }
    if (st == PENNON_OK) st = runtime_make(&o, out, &local);
    return error_out(err, &local, st);
}

pennon_status error_out(pennon_error *err, pennon_error *local, pennon_status st)
{
    if (st != PENNON_OK && err) (void)error_move(err, local);
    pennon_error_clear(local);
    return st;
}

void pennon_runtime_retain(pennon_runtime *rt)
{
    if (rt) atomic_fetch_add_explicit(&rt->refs, 1, memory_order_relaxed);
}

static void *destroy_later(void *rt)
{
    runtime_destroy(rt);
    return NULL;
}

/* A task that held the runtime last cannot wait for its own thread: another thread does. Without one the runtime is left behind. */
static void destroy_from_task(pennon_runtime *rt)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, destroy_later, rt) == 0) (void)pthread_detach(thread);
}

void pennon_runtime_free(pennon_runtime *rt)
{
    if (!rt || atomic_fetch_sub_explicit(&rt->refs, 1, memory_order_acq_rel) != 1) return;
    if (pool_runs_here(rt->pool)) {
        destroy_from_task(rt);
    } else {
        runtime_destroy(rt);
    }
}

/* The default runtime lives until the process ends. */
static pennon_status runtime_default(pennon_runtime **out, pennon_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic(int32_t) pid; /* 0 = no process has locked yet */
    static pennon_runtime *shared;
    pennon_status st = PENNON_OK;
    (void)lock_in_process(&lock, &pid);
    if (!shared) {
        pennon_runtime_options o;
        pennon_runtime_options_init(&o);
        st = runtime_make(&o, &shared, err);
    }
    *out = shared;
    (void)pthread_mutex_unlock(&lock);
    return st;
}

uint32_t runtime_max_open_files(const pennon_runtime *rt) { return rt->max_open_files; }
struct mem *runtime_mem(pennon_runtime *rt) { return rt->mem; }
struct mem *runtime_base_mem(pennon_runtime *rt) { return rt->base; }
struct pool *runtime_pool(pennon_runtime *rt) { return rt->pool; }

pennon_status runtime_slot(pennon_runtime *rt, unsigned slot, slot_make_fn make, void (*drop)(void *), void **out,
                           pennon_error *err)
{
    ASSERT(slot < RUNTIME_SLOTS);
    pennon_status st = PENNON_OK;
    /* A slot is filled in one step: nothing to put in order in a child. */
    (void)lock_in_process(&rt->slot_lock, &rt->slot_pid);
    if (!rt->slots[slot]) {
        st = make(rt, &rt->slots[slot], err);
        rt->slot_free[slot] = drop;
    }
    *out = rt->slots[slot];
    (void)pthread_mutex_unlock(&rt->slot_lock);
    return st;
}

/* ---- cancel ---- */

pennon_status pennon_cancel_new(pennon_cancel **out, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    pennon_status st = PENNON_OK;
    pennon_cancel *c = NULL;
    struct mem *m = mem_new(NULL, UINT64_MAX, NULL, &local);
    if (m) c = mem_calloc(m, 1, sizeof *c, &local);
    if (c) {
        c->mem = m;
        atomic_init(&c->refs, 1);
        atomic_init(&c->fired, false);
        *out = c;
    } else {
        st = local.code;
        mem_release(m);
    }
    return error_out(err, &local, st);
}

void pennon_cancel_fire(pennon_cancel *cancel)
{
    if (cancel) atomic_store_explicit(&cancel->fired, true, memory_order_release);
}

void pennon_cancel_free(pennon_cancel *cancel)
{
    if (!cancel || atomic_fetch_sub_explicit(&cancel->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = cancel->mem;
    mem_free(m, cancel);
    mem_release(m);
}

/* ---- budget ---- */

pennon_status pennon_budget_new(pennon_runtime *runtime, uint64_t bytes, pennon_budget **out, pennon_error *err)
{
    pennon_error local, *e = &local;
    pennon_error_init(&local);
    pennon_status st = PENNON_OK;
    if (!runtime) st = runtime_default(&runtime, e);
    if (st == PENNON_OK) {
        pennon_budget *b = mem_calloc(runtime->base, 1, sizeof *b, e);
        if (b) b->mem = mem_new(runtime->mem, bytes, NULL, e);
        if (b && b->mem) {
            b->own = mem_retain(runtime->base);
            *out = b;
        } else {
            st = e->code;
            mem_free(runtime->base, b);
        }
    }
    return error_out(err, &local, st);
}

uint64_t pennon_budget_used(const pennon_budget *budget) { return budget ? mem_used(budget->mem) : 0; }
uint64_t pennon_budget_peak(const pennon_budget *budget) { return budget ? mem_peak(budget->mem) : 0; }

void pennon_budget_free(pennon_budget *budget)
{
    if (!budget) return;
    struct mem *own = budget->own;
    mem_release(budget->mem);
    mem_free(own, budget);
    mem_release(own);
}

/* ---- call ---- */

static pennon_status call_options_check(const pennon_call *o, pennon_error *err)
{
    if (o->durability != PENNON_DURABILITY_FULL && o->durability != PENNON_DURABILITY_NONE) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "durability %d is not one of the PENNON_DURABILITY_ values",
                         (int)o->durability);
    }
    return PENNON_OK;
}

pennon_status call_begin(struct call *c, const pennon_call *options, pennon_error *err)
{
    *c = (struct call){0};
    pennon_call o;
    pennon_call_init(&o);
    TRY_RETURN(options_read(&o, sizeof o, options, "pennon_call", err));
    TRY_RETURN(call_options_check(&o, err));
    pennon_runtime *rt = o.runtime;
    if (!rt) TRY_RETURN(runtime_default(&rt, err));
    pennon_runtime_retain(rt);
    c->runtime = rt;
    c->mem = mem_retain(o.budget ? o.budget->mem : rt->mem);
    c->cancel = o.cancel;
    if (c->cancel) atomic_fetch_add_explicit(&c->cancel->refs, 1, memory_order_relaxed);
    c->deadline_ns = INT64_MAX;
    if (o.timeout_ms >= 0 && o.timeout_ms < INT64_MAX / 2000000) c->deadline_ns = clock_monotonic_ns() + o.timeout_ms * 1000000;
    uint32_t all = pool_threads(rt->pool);
    c->threads = o.threads == 0 || o.threads > all ? all : o.threads;
    c->durability = o.durability;
    c->progress = o.progress;
    c->progress_ctx = o.progress_ctx;
    return PENNON_OK;
}

void call_copy(struct call *c, const struct call *from)
{
    *c = *from;
    pennon_runtime_retain(c->runtime);
    (void)mem_retain(c->mem);
    if (c->cancel) atomic_fetch_add_explicit(&c->cancel->refs, 1, memory_order_relaxed);
}

void call_end(struct call *c)
{
    pennon_cancel_free(c->cancel);
    mem_release(c->mem);
    pennon_runtime_free(c->runtime);
    *c = (struct call){0};
}

pennon_status call_check(const struct call *c, pennon_error *err)
{
    if (c->cancel && atomic_load_explicit(&c->cancel->fired, memory_order_acquire)) {
        return error_set(err, PENNON_CANCELLED, "the call was cancelled");
    }
    if (c->deadline_ns != INT64_MAX && clock_monotonic_ns() >= c->deadline_ns) {
        return error_set(err, PENNON_TIMEOUT, "the deadline of the call passed");
    }
    return PENNON_OK;
}

void call_progress(const struct call *c, uint64_t done, uint64_t total)
{
    if (c->progress) c->progress(c->progress_ctx, done, total);
}

struct pool *call_pool(const struct call *c) { return c->runtime->pool; }

void call_log(const struct call *c, pennon_log_level level, const char *fmt, ...)
{
    const pennon_runtime *rt = c->runtime;
    if (!rt->log || level > rt->log_level) return;
    char line[LOG_LINE_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    rt->log(rt->log_ctx, level, line);
}
