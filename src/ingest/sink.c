/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Sinks: a file, standard output or a callback; and the frame that all writers share.
 *
 * A file is written as "<path>.<uuid>.tmp" in the same folder and renamed to its place once it is complete, so that a failure
 * leaves what was there before. What exists and is no regular file is written directly. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/ingest.h"

/* `pending` is written when it has this many bytes. */
#define FLUSH_SIZE ((size_t)1 << 20)

static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static pennon_status open_file(struct byte_sink *s, const char *path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t uuid[16];
    char text[37];
    struct mem *mem = s->call->mem;

    TRY_NEW(s->path, mem_strdup(mem, path, err));
    if (is_special(path)) {
        do s->fd = open(path, O_WRONLY | O_CLOEXEC);
        while (s->fd < 0 && errno == EINTR);
        if (s->fd < 0) st = error_set_errno(err, errno, "cannot write '%s'", path);
        goto done;
    }
    TRY(uuid_new(uuid, err));
    uuid_text(uuid, text);
    TRY_NEW(s->temporary, mem_printf(mem, err, "%s.%s.tmp", path, text));
    do s->fd = open(s->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    while (s->fd < 0 && errno == EINTR);
    if (s->fd < 0) {
        st = error_set_errno(err, errno, "cannot write '%s'", path);
        mem_free(mem, s->temporary);
        s->temporary = NULL;
    }
done:
    s->own_fd = s->fd >= 0;
    return st;
}

pennon_status byte_sink_open(struct byte_sink *s, const pennon_sink *sink, const struct call *call, pennon_error *err)
{
    memset(s, 0, sizeof *s);
    s->fd = -1;
    s->call = call;
    buf_init(&s->pending, call->mem, BUF_NO_LIMIT);
    TRY_RETURN(options_read(&s->to, sizeof s->to, sink, "pennon_sink", err));
    if (sink == NULL || (s->to.path == NULL) == (s->to.write == NULL)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "a sink needs either a path or a write callback");
    }
    if (s->to.path == NULL) return PENNON_OK;
    if (strcmp(s->to.path, "-") != 0) return open_file(s, s->to.path, err);
    s->fd = STDOUT_FILENO;
    return PENNON_OK;
}

pennon_status byte_sink_write(void *sink, const void *bytes, size_t n, pennon_error *err)
{
    struct byte_sink *s = sink;
    const uint8_t *p = bytes;
    TRY_RETURN(call_check(s->call, err));
    if (s->fd < 0) {
        int code = n == 0 ? 0 : s->to.write(s->to.ctx, bytes, n);
        return code == 0 ? PENNON_OK : error_set_errno(err, code, "the sink refused %zu bytes", n);
    }
    while (n > 0) {
        ssize_t done = write(s->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return error_set_errno(err, errno, "cannot write %s", s->path != NULL ? s->path : "standard output");
        p += done;
        n -= (size_t)done;
    }
    return PENNON_OK;
}

pennon_status byte_sink_put(void *sink, const void *bytes, size_t n, pennon_error *err)
{
    struct byte_sink *s = sink;
    if (n < FLUSH_SIZE / 8) {
        TRY_RETURN(buf_append(&s->pending, bytes, n, err));
        return byte_sink_flush(s, false, err);
    }
    TRY_RETURN(byte_sink_flush(s, true, err));
    return byte_sink_write(s, bytes, n, err);
}

pennon_status byte_sink_flush(struct byte_sink *s, bool all, pennon_error *err)
{
    if (s->pending.size == 0 || (!all && s->pending.size < FLUSH_SIZE)) return PENNON_OK;
    TRY_RETURN(byte_sink_write(s, s->pending.data, s->pending.size, err));
    s->pending.size = 0;
    return PENNON_OK;
}

pennon_status byte_sink_commit(struct byte_sink *s, pennon_error *err)
{
    struct mem *mem = s->call->mem;
    TRY_RETURN(byte_sink_flush(s, true, err));
    if (!s->own_fd) return PENNON_OK;
    s->own_fd = false;
    if (s->temporary != NULL && s->call->durability == PENNON_DURABILITY_FULL && fsync(s->fd) != 0) {
        int code = errno;
        (void)close(s->fd);
        return error_set_errno(err, code, "cannot write '%s'", s->path);
    }
    if (close(s->fd) != 0) return error_set_errno(err, errno, "cannot write '%s'", s->path);
    if (s->temporary == NULL) return PENNON_OK;
    if (rename(s->temporary, s->path) != 0) return error_set_errno(err, errno, "cannot put '%s' in place", s->path);
    mem_free(mem, s->temporary);
    s->temporary = NULL;
    return PENNON_OK;
}

void byte_sink_close(struct byte_sink *s)
{
    if (s->call == NULL) return;
    if (s->own_fd) (void)close(s->fd);
    s->own_fd = false;
    if (s->temporary != NULL) (void)unlink(s->temporary);
    mem_free(s->call->mem, s->temporary);
    mem_free(s->call->mem, s->path);
    s->temporary = s->path = NULL;
    buf_free(&s->pending);
}

/* ------------------------------------------------------------------------------------------------------------- writers */

pennon_status write_job_begin(struct write_job *j, struct ArrowArrayStream *data, const pennon_sink *sink, const pennon_call *call,
                              pennon_error *err)
{
    memset(j, 0, sizeof *j);
    j->data = data;
    if (data == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "the stream is NULL");
    TRY_RETURN(call_begin(&j->call, call, err));
    TRY_RETURN(stream_schema(data, &j->schema, err));
    TRY_RETURN(arrow_schema_validate(&j->schema, err));
    if (strcmp(j->schema.format, "+s") != 0)
        return error_set(err, PENNON_INVALID_ARGUMENT, "the batches of the stream are not structs");
    return byte_sink_open(&j->sink, sink, &j->call, err);
}

pennon_status write_job_next(struct write_job *j, struct ArrowArray *batch, pennon_error *err)
{
    TRY_RETURN(call_check(&j->call, err));
    TRY_RETURN(stream_next(j->data, batch, err));
    if (batch->release == NULL) return PENNON_OK;
    if (array_validate(&j->schema, batch, ARRAY_VALIDATE_FULL, err) != PENNON_OK) {
        array_release(batch);
        return err->code;
    }
    return PENNON_OK;
}

pennon_status write_job_wrote(struct write_job *j, int64_t rows, pennon_error *err)
{
    j->rows += (uint64_t)rows;
    TRY_RETURN(byte_sink_flush(&j->sink, false, err));
    call_progress(&j->call, j->rows, 0);
    return PENNON_OK;
}

pennon_status write_job_end(struct write_job *j, pennon_status st, pennon_error *err)
{
    if (st == PENNON_OK) st = byte_sink_commit(&j->sink, err);
    byte_sink_close(&j->sink);
    arrow_schema_release(&j->schema);
    stream_release(j->data);
    call_end(&j->call);
    return st;
}
