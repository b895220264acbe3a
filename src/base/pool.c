/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The task pool: a queue behind one lock, threads that start on demand, and fork-join over indices.
 *
 * A task never waits for another task; so a pool of one thread finishes everything. pool_parallel keeps to that rule: the
 * caller takes indices itself and waits only for indices that another thread has already begun.
 *
 * After fork the child has no pool threads, and the lock may be held by one that is gone: the process id is compared on submit, and the pool
 * starts anew. The same way other locks that calls share are found free in a child.
 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define POOL_THREADS_MAX 256u
#define TASK_STACK (1024u * 1024u)

struct task {
    struct task *next;
    task_fn fn;
    void *arg;
};

struct pool {
    struct mem *mem;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct task *head, *tail;
    pthread_t threads[POOL_THREADS_MAX];
    uint32_t limit; /* threads at most */
    uint32_t started;
    uint32_t idle; /* threads that wait */
    uint32_t queued;
    bool stopping;
    _Atomic(int32_t) pid;
};

struct pool *pool_new(struct mem *m, uint32_t threads, pennon_error *err)
{
    struct pool *p = mem_calloc(m, 1, sizeof *p, err);
    if (!p) return NULL;
    p->mem = m;
    p->limit = threads > POOL_THREADS_MAX ? POOL_THREADS_MAX : threads;
    atomic_init(&p->pid, (int32_t)getpid());
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->wake, NULL);
    return p;
}

uint32_t pool_threads(const struct pool *p) { return p->limit; }

static void *pool_thread(void *arg)
{
    struct pool *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->head && !p->stopping) {
            p->idle++;
            (void)pthread_cond_wait(&p->wake, &p->lock);
            p->idle--;
        }
        struct task *t = p->head;
        if (!t) break;
        p->head = t->next;
        if (!p->head) p->tail = NULL;
        p->queued--;
        (void)pthread_mutex_unlock(&p->lock);
        task_fn fn = t->fn;
        void *task_arg = t->arg;
        mem_free(p->mem, t);
        fn(task_arg);
        (void)pthread_mutex_lock(&p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* With the lock held. Signals stay with the program's own threads. */
static int start_thread(struct pool *p)
{
    sigset_t all, before;
    pthread_attr_t attr;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, TASK_STACK);
    int e = pthread_create(&p->threads[p->started], &attr, pool_thread, p);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e == 0) p->started++;
    return e;
}

bool lock_in_process(pthread_mutex_t *lock, _Atomic(int32_t) *pid)
{
    const int32_t busy = -1, here = (int32_t)getpid();
    int32_t was = atomic_load_explicit(pid, memory_order_acquire);
    while (UNLIKELY(was != here)) {
        if (was == busy) {
            (void)sched_yield(); /* another thread of this child makes the lock */
            was = atomic_load_explicit(pid, memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(pid, &was, busy, memory_order_acq_rel, memory_order_acquire)) {
            /* Locked before it is offered: who comes first puts in order what it guards. */
            (void)pthread_mutex_init(lock, NULL);
            (void)pthread_mutex_lock(lock);
            atomic_store_explicit(pid, here, memory_order_release);
            return true;
        }
    }
    (void)pthread_mutex_lock(lock);
    return false;
}

/* In a forked child the threads and whatever they held are gone. */
static void lock_pool(struct pool *p)
{
    if (LIKELY(!lock_in_process(&p->lock, &p->pid))) return;
    p->started = p->idle = p->queued = 0;
    p->head = p->tail = NULL;
    (void)pthread_cond_init(&p->wake, NULL);
}

pennon_status pool_submit(struct pool *p, task_fn fn, void *arg, pennon_error *err)
{
    struct task *t = mem_alloc(p->mem, sizeof *t, err);
    if (!t) return err->code;
    *t = (struct task){.fn = fn, .arg = arg};
    lock_pool(p);
    int e = 0;
    if (p->queued >= p->idle && p->started < p->limit) e = start_thread(p);
    if (e != 0 && p->started == 0) {
        (void)pthread_mutex_unlock(&p->lock);
        mem_free(p->mem, t);
        return error_set_errno(err, e, "no thread could be started");
    }
    if (p->tail) {
        p->tail->next = t;
    } else {
        p->head = t;
    }
    p->tail = t;
    p->queued++;
    (void)pthread_cond_signal(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
    return PENNON_OK;
}

bool pool_runs_here(struct pool *p)
{
    bool found = false;
    lock_pool(p);
    for (uint32_t i = 0; i < p->started && !found; i++) found = pthread_equal(p->threads[i], pthread_self()) != 0;
    (void)pthread_mutex_unlock(&p->lock);
    return found;
}

void pool_free(struct pool *p)
{
    if (!p) return;
    if (atomic_load_explicit(&p->pid, memory_order_acquire) == (int32_t)getpid()) {
        (void)pthread_mutex_lock(&p->lock);
        p->stopping = true;
        (void)pthread_cond_broadcast(&p->wake);
        (void)pthread_mutex_unlock(&p->lock);
        for (uint32_t i = 0; i < p->started; i++) (void)pthread_join(p->threads[i], NULL);
        (void)pthread_mutex_destroy(&p->lock);
        (void)pthread_cond_destroy(&p->wake);
    }
    mem_free(p->mem, p);
}

/* ---- fork-join over indices ---- */

struct job {
    struct mem *mem;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    parallel_fn fn;
    void *arg;
    size_t n;
    size_t next;    /* first index not yet begun */
    size_t running; /* indices begun and not ended */
    uint32_t refs;
    size_t failed_at; /* lowest failed index, SIZE_MAX = none */
    pennon_error error;
};

static void job_release(struct job *j)
{
    (void)pthread_mutex_lock(&j->lock);
    bool last = --j->refs == 0;
    (void)pthread_mutex_unlock(&j->lock);
    if (!last) return;
    pennon_error_clear(&j->error);
    (void)pthread_mutex_destroy(&j->lock);
    (void)pthread_cond_destroy(&j->idle);
    mem_free(j->mem, j);
}

/* Take indices until none is left. */
static void job_work(struct job *j)
{
    pennon_error local;
    pennon_error_init(&local);
    (void)pthread_mutex_lock(&j->lock);
    while (j->next < j->n) {
        size_t i = j->next++;
        j->running++;
        (void)pthread_mutex_unlock(&j->lock);
        pennon_status st = j->fn(j->arg, i, &local);
        (void)pthread_mutex_lock(&j->lock);
        j->running--;
        if (st == PENNON_OK) continue;
        j->next = j->n;
        if (i < j->failed_at) {
            j->failed_at = i;
            (void)error_move(&j->error, &local);
        }
    }
    if (j->running == 0) (void)pthread_cond_broadcast(&j->idle);
    (void)pthread_mutex_unlock(&j->lock);
    pennon_error_clear(&local);
}

static void job_task(void *arg)
{
    struct job *j = arg;
    job_work(j);
    job_release(j);
}

static pennon_status run_here(size_t n, parallel_fn fn, void *arg, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) TRY_RETURN(fn(arg, i, err));
    return PENNON_OK;
}

pennon_status pool_parallel(struct pool *p, uint32_t threads, size_t n, parallel_fn fn, void *arg, pennon_error *err)
{
    size_t helpers = threads > p->limit ? p->limit : threads;
    if (helpers > n) helpers = n;
    if (helpers <= 1) return run_here(n, fn, arg, err);
    struct job *j = mem_calloc(p->mem, 1, sizeof *j, err);
    if (!j) return err->code;
    j->mem = p->mem;
    j->fn = fn;
    j->arg = arg;
    j->n = n;
    j->refs = 1;
    j->failed_at = SIZE_MAX;
    pennon_error_init(&j->error);
    (void)pthread_mutex_init(&j->lock, NULL);
    (void)pthread_cond_init(&j->idle, NULL);
    for (size_t k = 1; k < helpers; k++) {
        pennon_error ignored;
        pennon_error_init(&ignored);
        (void)pthread_mutex_lock(&j->lock);
        j->refs++;
        (void)pthread_mutex_unlock(&j->lock);
        /* Without a further thread the caller does all the work itself. */
        if (pool_submit(p, job_task, j, &ignored) != PENNON_OK) job_release(j);
        pennon_error_clear(&ignored);
    }
    job_work(j);
    (void)pthread_mutex_lock(&j->lock);
    while (j->running > 0) (void)pthread_cond_wait(&j->idle, &j->lock);
    pennon_status st = PENNON_OK;
    if (j->failed_at != SIZE_MAX) st = error_move(err, &j->error);
    (void)pthread_mutex_unlock(&j->lock);
    job_release(j);
    return st;
}
