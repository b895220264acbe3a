/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommand blob: bytes of one value of a blob column, and where the values lie. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define PIECE ((size_t)4 << 20) /* bytes in memory at once */

struct session {
    pennon_call call;
    pennon_dataset *ds;
    pennon_blobs *blobs;
    pennon_error err;
};

static int begin(const struct args *a, struct session *s)
{
    *s = (struct session){.ds = NULL};
    pennon_error_init(&s->err);
    if (!call_setup(a, &s->call)) return EXIT_USAGE;
    int code = open_uri(a, &s->call, a->operands[1], &s->ds);
    if (code != EXIT_OK) call_teardown(&s->call);
    return code;
}

static int end(struct session *s, int code)
{
    pennon_blobs_free(s->blobs);
    pennon_dataset_free(s->ds);
    pennon_error_clear(&s->err);
    call_teardown(&s->call);
    return code;
}

/* ---- where the bytes go ---- */

struct target {
    const char *path; /* NULL = standard output */
    char *temporary;  /* beside it; NULL: what is there is no regular file, and is written directly */
    int fd;
};

static int target_fault(const struct target *t, const char *what)
{
    fprintf(stderr, "pennon: %s %s: %s\n", what, t->path ? t->path : "standard output", strerror(errno));
    return EXIT_FINDINGS;
}

static int target_open(struct target *t)
{
    struct stat info;
    if (!t->path) {
        t->fd = STDOUT_FILENO;
        if (!isatty(t->fd)) return EXIT_OK;
        return usage_error("blob get: bytes on a terminal are of no use; -o FILE writes them to a file");
    }
    if (stat(t->path, &info) == 0 && !S_ISREG(info.st_mode)) {
        t->fd = open(t->path, O_WRONLY | O_CLOEXEC);
        return t->fd < 0 ? target_fault(t, "cannot write") : EXIT_OK;
    }
    const size_t n = strlen(t->path) + 32;
    t->temporary = malloc(n);
    if (!t->temporary) return usage_error("out of memory");
    snprintf(t->temporary, n, "%s.%ld.tmp", t->path, (long)getpid());
    t->fd = open(t->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return t->fd < 0 ? target_fault(t, "cannot write") : EXIT_OK;
}

static bool target_write(const struct target *t, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(t->fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* In place when all went well; else nothing of it stays. */
static int target_close(struct target *t, int code)
{
    if (t->path && t->fd >= 0 && close(t->fd) != 0 && code == EXIT_OK) code = target_fault(t, "cannot write");
    if (t->temporary && t->fd >= 0) {
        if (code == EXIT_OK && rename(t->temporary, t->path) != 0) code = target_fault(t, "cannot put in place");
        if (code != EXIT_OK) (void)unlink(t->temporary);
    }
    free(t->temporary);
    return code;
}

/* ---- get ---- */

static int copy_blob(const struct args *a, struct session *s, uint64_t size, const struct target *t)
{
    const struct option *x = a->options;
    uint64_t at = x[OPT_OFFSET].set ? x[OPT_OFFSET].number : 0, end = size;
    if (at > size)
        return usage_error("blob get: --offset %llu is past the end: the blob has %llu bytes", (unsigned long long)at,
                           (unsigned long long)size);
    if (x[OPT_LENGTH].set && x[OPT_LENGTH].number < size - at) end = at + x[OPT_LENGTH].number;
    char *piece = malloc(PIECE);
    if (!piece) return usage_error("out of memory");
    int code = EXIT_OK;
    const uint64_t all = end - at;
    progress_begin(&s->call, "bytes");
    while (at < end && code == EXIT_OK) {
        size_t got;
        const size_t n = end - at < PIECE ? (size_t)(end - at) : PIECE;
        if (pennon_blob_read_at(s->blobs, 0, at, n, piece, &s->call, &got, &s->err) != PENNON_OK) {
            progress_hide();
            code = fail(&s->err);
        } else if (!target_write(t, piece, got)) {
            if (errno == EPIPE && !t->path) break; /* who reads has what it wanted */
            progress_hide();
            code = target_fault(t, "cannot write");
        }
        at += n;
        if (s->call.progress) s->call.progress(s->call.progress_ctx, all - (end - at), all);
    }
    progress_end(&s->call);
    free(piece);
    return code;
}

static int get_blob(const struct args *a, struct session *s, int32_t selector, uint64_t row)
{
    pennon_blob_info info = {.struct_size = sizeof info};
    uint64_t size;
    struct target t = {.path = a->options[OPT_OUTPUT].set ? a->options[OPT_OUTPUT].text : NULL, .fd = -1};
    if (t.path && strcmp(t.path, "-") == 0) t.path = NULL;
    pennon_status st =
        pennon_dataset_take_blobs(s->ds, a->options[OPT_COLUMN].text, selector, 1, &row, &s->call, &s->blobs, &s->err);
    if (st == PENNON_OK) st = pennon_blobs_info(s->blobs, 0, &info, &s->err);
    if (st == PENNON_OK) st = pennon_blob_size(s->blobs, 0, &s->call, &size, &s->err);
    if (st != PENNON_OK) return fail(&s->err);
    if (info.is_null) {
        fprintf(stderr, "pennon: blob get: the value is null\n");
        return EXIT_NOT_FOUND;
    }
    int code = target_open(&t);
    if (code == EXIT_OK) code = copy_blob(a, s, size, &t);
    return target_close(&t, code);
}

static int run_get(const struct args *a)
{
    static const struct {
        enum option_id id;
        int32_t selector;
    } kinds[] = {{OPT_ROW, PENNON_TAKE_OFFSETS}, {OPT_ONE_ROW_ID, PENNON_TAKE_ROW_IDS}, {OPT_ADDRESS, PENNON_TAKE_ADDRESSES}};
    int32_t selector = PENNON_TAKE_OFFSETS;
    uint64_t row = 0;
    size_t given = 0;
    struct session s;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (!a->options[kinds[i].id].set) continue;
        selector = kinds[i].selector;
        row = a->options[kinds[i].id].number;
        given++;
    }
    if (given != 1) return usage_error("blob get: give exactly one of --row, --row-id, --address");
    int code = begin(a, &s);
    return code == EXIT_OK ? end(&s, get_blob(a, &s, selector, row)) : code;
}

/* ---- list ---- */

/* --offset and --limit of all rows. */
static int list_rows(const struct args *a, struct session *s, uint64_t **rows, size_t *n)
{
    uint64_t total, skip = a->options[OPT_OFFSET].set ? a->options[OPT_OFFSET].number : 0;
    if (pennon_dataset_count_rows(s->ds, &s->call, &total, &s->err) != PENNON_OK) return fail(&s->err);
    if (skip > total) skip = total;
    total -= skip;
    if (a->options[OPT_LIMIT].set && a->options[OPT_LIMIT].number < total) total = a->options[OPT_LIMIT].number;
    *rows = total < SIZE_MAX / sizeof **rows ? malloc((size_t)total * sizeof **rows + 1) : NULL;
    if (!*rows) return usage_error("out of memory");
    for (*n = 0; *n < total; ++*n) (*rows)[*n] = skip + *n;
    return EXIT_OK;
}

static int run_list(const struct args *a)
{
    static const enum option_id of_get[] = {OPT_ROW, OPT_ONE_ROW_ID, OPT_ADDRESS, OPT_LENGTH, OPT_OUTPUT};
    struct session s;
    struct ArrowArrayStream stream;
    uint64_t *rows = NULL;
    size_t n = 0;
    for (size_t i = 0; i < COUNT(of_get); i++) {
        if (a->options[of_get[i]].set) return usage_error("blob list: --row, --row-id, --address, --length, --output are for get");
    }
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    code = list_rows(a, &s, &rows, &n);
    if (code == EXIT_OK) {
        pennon_status st =
            pennon_dataset_take_blobs(s.ds, a->options[OPT_COLUMN].text, PENNON_TAKE_OFFSETS, n, rows, &s.call, &s.blobs, &s.err);
        if (st == PENNON_OK) st = pennon_blobs_list(s.blobs, &s.call, &stream, &s.err);
        code = st == PENNON_OK ? write_listing(a, &s.call, &stream) : fail(&s.err);
    }
    free(rows);
    return end(&s, code);
}

static int run_blob(const struct args *a)
{
    const char *word = a->operands[0];
    const bool get = strcmp(word, "get") == 0;
    if (!get && strcmp(word, "list") != 0) return usage_error("blob: unknown action '%s'; it is get or list", word);
    if (!a->options[OPT_COLUMN].set) return usage_error("blob %s: --column says which column", word);
    if (get && a->options[OPT_LIMIT].set) return usage_error("blob get: --limit counts rows, for list; --length counts bytes");
    return get ? run_get(a) : run_list(a);
}

static const enum option_id options[] = {OPT_COLUMN, OPT_ROW,     OPT_ONE_ROW_ID, OPT_ADDRESS, OPT_OFFSET, OPT_LENGTH,  OPT_OUTPUT,
                                         OPT_LIMIT,  OPT_VERSION, OPT_TAG,        OPT_BRANCH,  OPT_AS_OF,  OPT_EXTERNAL};

const struct command command_blob = {
    "blob",
    "get|list URI --column C [--row N | --row-id N | --address N]",
    "bytes of one blob, or where the blobs of a column lie",
    "get writes the bytes of a value, or a part of them, to a file or into a pipe, whatever their size. A null is\n"
    "exit code 3. list tells kind, size, place and URI of each row's value; it reads no bytes of them.",
    options,
    COUNT(options),
    2,
    2,
    run_blob};
