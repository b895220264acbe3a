/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Calls without the GIL, Ctrl-C, and log records.
 *
 * Ctrl-C. Python runs its signal handlers in the main thread between two bytecodes, so not while that thread is in the library. For the time of a call
 * in the main thread SIGINT therefore goes to a handler of ours, which fires the cancel tokens of the calls under way and hands the signal on to
 * Python's; the library returns CANCELLED within milliseconds, and Python raises KeyboardInterrupt. This is done only where Python's own handler
 * (which raises) is in place: a program's handler may want the call to go on, and runs when it returns. Two system calls a call, no thread.
 *
 * A signal handler gets no argument, so the calls under way hang on a variable of the process: a list, the innermost first, written by the main thread
 * alone. A call can be inside of another one, where the library reads a stream that Python code makes.
 *
 * Log records come on threads of the pool, which must not wait for the GIL: a thread that holds it may be waiting for the pool. They are pushed on a
 * list without locks, which survives a fork, and told to `logging` by the next call that ends. */
#include "py_binding.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static struct py_call *volatile calls_under_way;

static bool in_main_thread(void)
{
#if defined(__linux__)
    return getpid() == gettid();
#else
    return pthread_main_np() != 0;
#endif
}

static void on_interrupt(int signal_number, siginfo_t *info, void *context)
{
    struct py_call *last = NULL;
    for (struct py_call *call = calls_under_way; call != NULL; call = call->below) {
        if (call->cancel != NULL) pennon_cancel_fire(call->cancel);
        last = call;
    }
    /* The outermost call took over from Python. */
    if (last == NULL) return;
    if (last->former.sa_flags & SA_SIGINFO) {
        last->former.sa_sigaction(signal_number, info, context);
    } else if (last->former.sa_handler != SIG_DFL && last->former.sa_handler != SIG_IGN) {
        last->former.sa_handler(signal_number);
    }
}

bool py_call_interruptible(struct py_state *state)
{
    if (!in_main_thread()) return false;
    PyObject *handler = PyObject_CallFunction(state->getsignal, "i", SIGINT);
    bool ours = handler == state->default_handler;
    Py_XDECREF(handler);
    PyErr_Clear();
    return ours;
}

void py_call_arm(struct py_call *call, pennon_cancel *cancel)
{
    call->below = NULL;
    call->cancel = in_main_thread() ? cancel : NULL;
    if (call->cancel == NULL) return;
    call->below = calls_under_way;
    if (call->below == NULL) {
        struct sigaction action = {0};
        action.sa_sigaction = on_interrupt;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        /* The former action is needed before a signal can come: two steps. */
        sigaction(SIGINT, NULL, &call->former);
        calls_under_way = call;
        sigaction(SIGINT, &action, NULL);
    } else {
        calls_under_way = call;
    }
}

void py_call_disarm(struct py_call *call)
{
    if (call->cancel == NULL) return;
    if (call->below == NULL) sigaction(SIGINT, &call->former, NULL);
    calls_under_way = call->below;
}

int py_call_init(struct py_state *state, struct py_call *call)
{
    memset(call, 0, sizeof(*call));
    pennon_call_init(&call->options);
    call->options.runtime = state->runtime;
    if (!py_call_interruptible(state)) return 0;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_cancel_new(&call->options.cancel, &err) != PENNON_OK) {
        py_raise(state, &err, PY_RAISES_KIND);
        return -1;
    }
    call->own = true;
    return 0;
}

void py_call_enter(struct py_call *call)
{
    call->thread = PyEval_SaveThread();
    py_call_arm(call, call->options.cancel);
}

void py_call_leave(struct py_state *state, struct py_call *call)
{
    py_call_disarm(call);
    PyEval_RestoreThread(call->thread);
    if (call->own) pennon_cancel_free(call->options.cancel);
    call->options.cancel = NULL;
    call->own = false;
    py_log_drain(state);
}

/* ---- log ---- */

struct record {
    struct record *next;
    pennon_log_level level;
    char message[];
};

struct py_log {
    _Atomic(struct record *) last;
};

struct py_log *py_log_new(void)
{
    struct py_log *log = calloc(1, sizeof(*log));
    if (log == NULL) PyErr_NoMemory();
    return log;
}

void py_log_write(void *ctx, pennon_log_level level, const char *message)
{
    struct py_log *log = ctx;
    size_t size = strlen(message) + 1;
    struct record *record = malloc(sizeof(*record) + size);
    if (record == NULL) return;
    record->level = level;
    memcpy(record->message, message, size);
    record->next = atomic_load(&log->last);
    while (!atomic_compare_exchange_weak(&log->last, &record->next, record)) {
    }
}

static void log_one(struct py_state *state, const struct record *record)
{
    static const int python_levels[] = {0, 40, 30, 20, 10}; /* of the module logging, by pennon_log_level */
    if (state->logger == NULL) {
        PyObject *logging = PyImport_ImportModule("logging");
        if (logging != NULL) state->logger = PyObject_CallMethod(logging, "getLogger", "s", "pennon");
        Py_XDECREF(logging);
    }
    if (state->logger == NULL) return;
    int level = (size_t)record->level < sizeof(python_levels) / sizeof(*python_levels) ? python_levels[record->level] : 10;
    PyObject *said = PyObject_CallMethod(state->logger, "log", "iss", level, "%s", record->message);
    Py_XDECREF(said);
}

void py_log_drain(struct py_state *state)
{
    if (atomic_load_explicit(&state->log->last, memory_order_relaxed) == NULL) return;
    struct record *newest = atomic_exchange(&state->log->last, NULL);
    struct record *oldest = NULL;
    while (newest != NULL) {
        struct record *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    while (oldest != NULL) {
        struct record *next = oldest->next;
        log_one(state, oldest);
        if (PyErr_Occurred()) PyErr_WriteUnraisable(state->logger);
        free(oldest);
        oldest = next;
    }
    PyErr_Restore(type, value, trace);
}
