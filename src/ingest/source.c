/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Sources: a file, standard input or a callback as one stream of bytes, and a window on it that rows are cut from.
 *
 * The window holds the row in work as a whole: what is read is dropped from its front when more bytes are needed, and it grows (by
 * doubling) only while a single row does not fit. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "ingest/ingest.h"

/* Bytes read at once: little at first, for sources are often small, then more each time. */
#define WINDOW_FIRST ((size_t)1 << 16)
#define WINDOW_STEP ((size_t)1 << 20)
/* How long a pipe that says nothing is waited for before the call is asked again whether it goes on. */
#define WAIT_MS 50

static void close_callback(struct byte_source *s)
{
    if (s->from.path == NULL && s->from.close != NULL) s->from.close(s->from.ctx);
    s->from.close = NULL;
}

static void set_name(struct byte_source *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(s->name, sizeof s->name, "%s", slash != NULL ? slash + 1 : path);
}

static pennon_status open_path(struct byte_source *s, const char *path, pennon_error *err)
{
    if (strcmp(path, "-") == 0) {
        s->fd = STDIN_FILENO;
        set_name(s, "standard input");
        return PENNON_OK;
    }
    set_name(s, path);
    do s->fd = open(path, O_RDONLY | O_CLOEXEC);
    while (s->fd < 0 && errno == EINTR);
    if (s->fd < 0) return error_set_errno(err, errno, "cannot open '%s'", path);
    s->own_fd = true;
    return PENNON_OK;
}

pennon_status byte_source_open(struct byte_source *s, const pennon_source *source, const pennon_call *call, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char *path = NULL;
    memset(s, 0, sizeof *s);
    s->fd = -1;
    TRY(options_read(&s->from, sizeof s->from, source, "pennon_source", err));
    if (source == NULL || (s->from.path == NULL) == (s->from.read == NULL)) {
        FAIL(PENNON_INVALID_ARGUMENT, "a source needs either a path or a read callback");
    }
    TRY(call_begin(&s->call, call, err));
    s->has_call = true;
    buf_init(&s->ahead, s->call.mem, BUF_NO_LIMIT);
    path = s->from.path;
    if (path != NULL) TRY(open_path(s, path, err));
    if (path != NULL) s->from.path = ""; /* the caller's text may be gone later */
done:
    if (st != PENNON_OK) byte_source_close(s);
    return st;
}

void byte_source_close(struct byte_source *s)
{
    close_callback(s);
    if (s->own_fd) (void)close(s->fd);
    s->own_fd = false;
    s->fd = -1;
    if (!s->has_call) return;
    buf_free(&s->ahead);
    call_end(&s->call);
    s->has_call = false;
}

struct byte_source *byte_source_new(const pennon_source *source, const pennon_call *call, pennon_error *err)
{
    struct byte_source local;
    struct byte_source *s = NULL;
    if (byte_source_open(&local, source, call, err) != PENNON_OK) return NULL;
    s = mem_alloc(local.call.mem, sizeof *s, err);
    if (s == NULL) {
        byte_source_close(&local);
        return NULL;
    }
    *s = local;
    return s;
}

void byte_source_delete(void *source)
{
    struct byte_source *s = source;
    struct mem *mem = NULL;
    if (s == NULL) return;
    mem = mem_retain(s->call.mem);
    byte_source_close(s);
    mem_free(mem, s);
    mem_release(mem);
}

/* Until there is something to read: a pipe or a terminal may be silent for long, and a call that was cancelled or is late ends all
 * the same. What cannot be waited for is left to read. */
static pennon_status wait_for_bytes(struct byte_source *s, pennon_error *err)
{
    const bool ends = s->call.cancel != NULL || s->call.deadline_ns != INT64_MAX;
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    int ready = 0;
    do {
        TRY_RETURN(call_check(&s->call, err));
        ready = ends ? poll(&p, 1, WAIT_MS) : 1;
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return PENNON_OK;
}

/* Past what was peeked at. */
static pennon_status read_on(struct byte_source *s, void *to, size_t n, size_t *got, pennon_error *err)
{
    int64_t have = 0;
    *got = 0;
    if (s->ended || n == 0) return PENNON_OK;
    TRY_RETURN(s->fd >= 0 ? wait_for_bytes(s, err) : call_check(&s->call, err));
    if (s->fd >= 0) {
        do have = read(s->fd, to, n);
        while (have < 0 && errno == EINTR);
        if (have < 0) have = -(int64_t)errno;
    } else {
        have = s->from.read(s->from.ctx, to, n);
    }
    if (have < 0) return error_set_errno(err, (int)-have, "cannot read %s", s->fd >= 0 ? s->name : "the source");
    if ((uint64_t)have > n)
        return error_set(err, PENNON_INVALID_ARGUMENT, "the read callback says %" PRId64 " bytes of %zu", have, n);
    *got = (size_t)have;
    s->ended = have == 0;
    return PENNON_OK;
}

pennon_status byte_source_read(void *source, void *to, size_t n, size_t *got, pennon_error *err)
{
    struct byte_source *s = source;
    size_t ahead = s->ahead.size - s->ahead_at;
    if (ahead == 0) return read_on(s, to, n, got, err);
    *got = n < ahead ? n : ahead;
    memcpy(to, s->ahead.data + s->ahead_at, *got);
    s->ahead_at += *got;
    return PENNON_OK;
}

pennon_status byte_source_peek(struct byte_source *s, size_t n, struct bytes *out, pennon_error *err)
{
    size_t got = 1;
    while (s->ahead.size - s->ahead_at < n && got > 0) {
        size_t want = n - (s->ahead.size - s->ahead_at);
        TRY_RETURN(buf_grow(&s->ahead, want, err));
        TRY_RETURN(read_on(s, s->ahead.data + s->ahead.size, want, &got, err));
        s->ahead.size += got;
    }
    *out = bytes_of(s->ahead.data + s->ahead_at, s->ahead.size - s->ahead_at);
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------------- window */

void window_init(struct window *w, struct byte_source *source, struct mem *mem, size_t max_row)
{
    memset(w, 0, sizeof *w);
    w->source = source;
    w->line = 1;
    w->max_row = max_row;
    buf_init(&w->bytes, mem, BUF_NO_LIMIT);
}

void window_free(struct window *w) { buf_free(&w->bytes); }

pennon_status window_more(struct window *w, pennon_error *err)
{
    size_t left = window_left(w);
    size_t got = 0;
    if (w->ended) return PENNON_OK;
    if (left > w->max_row) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "line %" PRIu64 ": a row of more than %zu bytes", w->line, w->max_row);
    }
    if (w->at > 0 && left > 0) memmove(w->bytes.data, w->bytes.data + w->at, left);
    w->bytes.size = left;
    w->at = 0;
    const size_t step = w->bytes.cap < WINDOW_FIRST ? WINDOW_FIRST : w->bytes.cap < WINDOW_STEP ? w->bytes.cap * 2 : w->bytes.cap;
    TRY_RETURN(buf_reserve(&w->bytes, left * 2 > step ? left * 2 : step, err));
    /* As many bytes as there are already, however small the pieces: a long row is not looked at again for every one of them. */
    do {
        TRY_RETURN(byte_source_read(w->source, w->bytes.data + w->bytes.size, w->bytes.cap - w->bytes.size, &got, err));
        w->bytes.size += got;
        w->ended = got == 0;
    } while (!w->ended && w->bytes.size < 2 * left);
    return PENNON_OK;
}

pennon_status window_fill(struct window *w, size_t n, pennon_error *err)
{
    while (window_left(w) < n && !w->ended) {
        /* Grow as far as is asked for; the bytes that are there stay. */
        size_t left = window_left(w);
        size_t got = 0;
        if (w->at > 0) {
            if (left > 0) memmove(w->bytes.data, w->bytes.data + w->at, left);
            w->at = 0;
            w->bytes.size = left;
        }
        if (w->bytes.cap == left) TRY_RETURN(buf_reserve(&w->bytes, left == 0 ? WINDOW_FIRST : left * 2, err));
        TRY_RETURN(byte_source_read(w->source, w->bytes.data + left, w->bytes.cap - left, &got, err));
        w->bytes.size += got;
        w->ended = got == 0;
    }
    return PENNON_OK;
}
