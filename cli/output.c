/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Output: streams in the format asked for, listings, JSON for people, progress on a terminal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- streams ---- */

static uint32_t terminal_width(void)
{
    struct winsize w;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

static pennon_status write_table(const pennon_call *call, struct ArrowArrayStream *stream, const pennon_sink *sink,
                                 pennon_error *err)
{
    pennon_table_write_options o;
    pennon_table_write_options_init(&o);
    o.call = call;
    o.max_rows = PENNON_NONE;
    if (strcmp(sink->path, "-") == 0) o.width = terminal_width();
    return pennon_table_write(stream, sink, &o, err);
}

static pennon_status write_ipc(const pennon_call *call, bool file, struct ArrowArrayStream *stream, const pennon_sink *sink,
                               pennon_error *err)
{
    pennon_ipc_write_options o;
    pennon_ipc_write_options_init(&o);
    o.call = call;
    o.file = file;
    return pennon_ipc_write(stream, sink, &o, err);
}

static pennon_status write_csv(const pennon_call *call, char delimiter, struct ArrowArrayStream *stream, const pennon_sink *sink,
                               pennon_error *err)
{
    pennon_csv_write_options o;
    pennon_csv_write_options_init(&o);
    o.call = call;
    o.delimiter = delimiter;
    return pennon_csv_write(stream, sink, &o, err);
}

static pennon_status write_json(const pennon_call *call, struct ArrowArrayStream *stream, const pennon_sink *sink,
                                pennon_error *err)
{
    pennon_json_lines_write_options o;
    pennon_json_lines_write_options_init(&o);
    o.call = call;
    return pennon_json_lines_write(stream, sink, &o, err);
}

int write_stream(const struct args *a, const pennon_call *call, struct ArrowArrayStream *stream, const char *format)
{
    static const char *const formats[] = {"table", "csv", "jsonl", "arrow", "arrow-file", "tsv"};
    pennon_error err;
    pennon_sink sink = {.struct_size = sizeof sink, .path = a->options[OPT_OUTPUT].set ? a->options[OPT_OUTPUT].text : "-"};
    size_t i = 0;
    pennon_error_init(&err);
    if (!format) format = "table";
    while (i < sizeof formats / sizeof formats[0] && strcmp(formats[i], format) != 0) i++;
    pennon_status st;
    switch (i) {
    case 0: st = write_table(call, stream, &sink, &err); break;
    case 1:
    case 5: st = write_csv(call, i == 5 ? '\t' : ',', stream, &sink, &err); break;
    case 2: st = write_json(call, stream, &sink, &err); break;
    case 3:
    case 4: st = write_ipc(call, i == 4, stream, &sink, &err); break;
    default:
        if (stream->release) stream->release(stream);
        return usage_error("--format takes table, csv, tsv, jsonl, arrow or arrow-file, not '%s'", format);
    }
    /* A reader that closed its end has what it wanted. */
    bool closed = st == PENNON_IO && err.os_errno == EPIPE;
    int code = st == PENNON_OK || closed ? EXIT_OK : fail(&err);
    pennon_error_clear(&err);
    return code;
}

int write_listing(const struct args *a, const pennon_call *call, struct ArrowArrayStream *stream)
{
    return write_stream(a, call, stream, a->options[OPT_JSON].set ? "jsonl" : "table");
}

int write_text(const char *text)
{
    const size_t n = strlen(text);
    const bool ended = n > 0 && text[n - 1] == '\n';
    if ((ended ? fputs(text, stdout) : puts(text)) < 0 && errno != EPIPE) return usage_error("standard output cannot be written");
    return EXIT_OK;
}

int print_version(const struct args *a, const pennon_call *call, pennon_dataset *ds)
{
    pennon_error err;
    uint64_t rows;
    pennon_error_init(&err);
    if (pennon_dataset_count_rows(ds, call, &rows, &err) != PENNON_OK) {
        int code = fail(&err);
        pennon_error_clear(&err);
        return code;
    }
    printf(a->options[OPT_JSON].set ? "{\"version\": %llu, \"rows\": %llu}\n" : "version %llu, %llu rows\n",
           (unsigned long long)pennon_dataset_version(ds), (unsigned long long)rows);
    return EXIT_OK;
}

/* ---- JSON for people ---- */

void print_json_text(const char *text)
{
    if (!text) {
        printf("null");
        return;
    }
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\') {
            printf("\\%c", *p);
        } else if (*p < 0x20 || *p == 0x7f) {
            printf("\\u%04x", *p);
        } else {
            putchar(*p);
        }
    }
    putchar('"');
}

/* End of the JSON value that begins at p. */
static const char *value_end(const char *p)
{
    int depth = 0;
    bool text = false;
    for (; *p; p++) {
        if (text) {
            if (*p == '\\' && p[1]) {
                p++;
            } else if (*p == '"') {
                text = false;
            }
            continue;
        }
        if (*p == '"') text = true;
        if (*p == '{' || *p == '[') depth++;
        if (*p == '}' || *p == ']') {
            if (depth == 0) return p;
            depth--;
        }
        if (*p == ',' && depth == 0) return p;
    }
    return p;
}

static void print_value(const char *p, const char *stop)
{
    /* Lists of objects: one a line below. */
    if (stop - p > 2 && p[0] == '[' && p[1] == '{') {
        p++;
        while (p < stop && *p == '{') {
            const char *end = value_end(p);
            printf("\n    %.*s", (int)(end - p), p);
            p = end + (*end == ',' ? 1 : 0);
            while (*p == ' ') p++;
        }
        putchar('\n');
        return;
    }
    if (stop - p >= 2 && p[0] == '"') {
        p++;
        stop--;
    }
    printf("%.*s\n", (int)(stop - p), p);
}

void print_json_object(const char *json)
{
    size_t widest = 0;
    for (int pass = 0; pass < 2; pass++) {
        const char *p = json + 1;
        while (*p && *p != '}') {
            while (*p == ' ' || *p == ',') p++;
            if (*p != '"') break;
            const char *key = p + 1, *key_end = strchr(key, '"');
            if (!key_end) return;
            p = key_end + 2;
            while (*p == ' ') p++;
            const char *stop = value_end(p);
            size_t n = (size_t)(key_end - key);
            if (n > widest) widest = n;
            if (pass) {
                printf("%.*s%*s", (int)n, key, (int)(widest - n + 2), "");
                print_value(p, stop);
            }
            p = stop;
        }
    }
}

/* ---- progress ---- */

struct progress {
    const char *what;
    struct timespec start, shown;
};

static double seconds_since(const struct timespec *t)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - t->tv_sec) + (double)(now.tv_nsec - t->tv_nsec) / 1e9;
}

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct progress *p = ctx;
    double elapsed = seconds_since(&p->start);
    if (elapsed < 0.5 || seconds_since(&p->shown) < 0.1) return;
    clock_gettime(CLOCK_MONOTONIC, &p->shown);
    double rate = (double)done / elapsed;
    if (total) {
        int filled = (int)(30.0 * (double)done / (double)total);
        double left = rate > 0 ? (double)(total - done) / rate : 0;
        fprintf(stderr, "\r\x1b[K%s [%.*s%*s] %3.0f%%  %.0f/s  %.0f s left", p->what, filled, "##############################",
                30 - filled, "", 100.0 * (double)done / (double)total, rate, left);
    } else {
        fprintf(stderr, "\r\x1b[K%llu %s  %.0f/s", (unsigned long long)done, p->what, rate);
    }
    fflush(stderr);
}

void progress_begin(pennon_call *call, const char *what)
{
    if (!isatty(STDERR_FILENO)) return;
    struct progress *p = calloc(1, sizeof *p);
    if (!p) return;
    p->what = what;
    clock_gettime(CLOCK_MONOTONIC, &p->start);
    p->shown = p->start;
    call->progress = show_progress;
    call->progress_ctx = p;
}

void progress_hide(void)
{
    if (isatty(STDERR_FILENO)) fputs("\r\x1b[K", stderr);
}

void progress_end(pennon_call *call)
{
    if (!call->progress) return;
    struct progress *p = call->progress_ctx;
    if (p->shown.tv_sec != p->start.tv_sec || p->shown.tv_nsec != p->start.tv_nsec) fputs("\r\x1b[K", stderr);
    free(p);
    call->progress = NULL;
    call->progress_ctx = NULL;
}
