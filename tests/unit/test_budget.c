/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tables ten times the memory budget are written and scanned inside it: for every kind of column and every version of the files.
 *
 * Each case runs in a forked child of its own, first the write, then the scan. Two numbers are held against the budget: the accounted peak, and how
 * far the resident memory of the process grew (VmHWM of Linux). The latter also has what no budget counts, SLACK_BYTES: the program's own batch,
 * stacks, code that is paged in, what the C library keeps of freed memory. How much that is depends on which thread frees what another allocated:
 * the children have two heaps (M_ARENA_MAX) instead of one a thread, so that the measure is of the library's own needs.
 *
 * The run of every day takes budgets of 2 MiB and one version a type; with PENNON_LONG=1 all versions are run with 8 MiB. */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define MIB ((uint64_t)1 << 20)
#define SLACK_BYTES (12 * MIB)
#define ROWS_MAX (UINT64_C(1) << 24)

/* Under a sanitizer resident memory says nothing of the library. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define RESIDENT 0
#endif
#endif
#ifndef RESIDENT
#define RESIDENT 1
#endif

/* ---- columns ---- */

struct kind {
    const char *name, *type;
    uint64_t row_bytes; /* of Arrow, about */
    uint32_t columns;
    void (*append)(struct builder *b, int64_t i, pennon_error *err);
    bool dictionary;
};

static uint64_t mixed(int64_t i, uint64_t salt)
{
    uint64_t z = (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15) + salt;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return z ^ (z >> 27);
}

static void must(pennon_status st, const pennon_error *err)
{
    if (st == PENNON_OK) return;
    (void)fprintf(stderr, "%s: %s\n", pennon_status_name(st), err->message);
    _exit(3);
}

static void append_text(struct builder *b, size_t n, int64_t i, pennon_error *err)
{
    static const char *const words[] = {"flag", "mast ", "harbour", "wind, ", "signal", " of the ", "sea", "pennon "};
    char text[20600];
    size_t at = 0;
    uint64_t state = mixed(i, n);
    while (at < n) {
        const char *word = words[state & 7];
        const size_t size = strlen(word) < n - at ? strlen(word) : n - at;
        memcpy(text + at, word, size);
        at += size;
        state = mixed((int64_t)state, at);
    }
    must(builder_append_bytes(b, bytes_of(text, n), err), err);
}

static void append_int64(struct builder *b, int64_t i, pennon_error *err)
{
    must(builder_append_int(b, (int64_t)mixed(i, 1), err), err);
}
static void append_int32(struct builder *b, int64_t i, pennon_error *err)
{
    must(i % 7 == 3 ? builder_append_null(b, err) : builder_append_int(b, (int32_t)(mixed(i, 2) % 100000), err), err);
}
static void append_short(struct builder *b, int64_t i, pennon_error *err) { append_text(b, 4 + mixed(i, 3) % 30, i, err); }
static void append_long(struct builder *b, int64_t i, pennon_error *err) { append_text(b, 2048, i, err); }
static void append_empty(struct builder *b, int64_t i, pennon_error *err)
{
    UNUSED(i);
    must(builder_append_bytes(b, bytes_of("", 0), err), err);
}
static void append_list(struct builder *b, int64_t i, pennon_error *err)
{
    const int64_t n = (int64_t)(mixed(i, 4) % 9);
    for (int64_t k = 0; k < n; k++) append_int32(builder_child(b, 0), i * 9 + k, err);
    must(n == 8 ? builder_append_null(b, err) : builder_append_row(b, err), err);
}
static void append_vector(struct builder *b, int64_t i, pennon_error *err)
{
    for (int k = 0; k < 128; k++)
        must(builder_append_double(builder_child(b, 0), (double)(mixed(i, (uint64_t)k) % 1000003) / 7, err), err);
    must(builder_append_row(b, err), err);
}
static void append_key(struct builder *b, int64_t i, pennon_error *err)
{
    must(builder_append_int(b, (int64_t)(mixed(i, 5) % 1000), err), err);
}
static void append_struct(struct builder *b, int64_t i, pennon_error *err)
{
    append_int64(builder_child(b, 0), i, err);
    append_short(builder_child(b, 1), i, err);
    must(builder_append_row(b, err), err);
}
static void append_binary(struct builder *b, int64_t i, pennon_error *err)
{
    uint64_t bytes[2560];
    for (size_t k = 0; k < ARRAY_LEN(bytes); k++) bytes[k] = mixed(i, k);
    must(builder_append_bytes(b, bytes_of(bytes, sizeof bytes), err), err);
}

static const struct kind kinds[] = {
    {"int64", "int64", 8, 1, append_int64, false},
    {"nullable int32", "int32", 4, 1, append_int32, false},
    {"short strings", "string", 22, 1, append_short, false},
    {"long strings", "string", 2052, 1, append_long, false},
    {"list<int32>", "list<item: int32>", 20, 1, append_list, false},
    {"vectors", "fixed_size_list<item: float>[128]", 512, 1, append_vector, false},
    {"dictionary", "int32", 4, 1, append_key, true},
    {"struct of two", "struct<a: int64, b: string>", 30, 1, append_struct, false},
    {"20 KiB binary", "binary", 20484, 1, append_binary, false},
    {"empty strings", "string", 4, 1, append_empty, false},
    {"20 text columns", "string", 22 * 20, 20, append_short, false},
};

/* ---- rows ---- */

struct source {
    const struct kind *kind;
    struct mem *mem;
    int64_t at, end, step;
    struct ArrowSchema plain, schema; /* built, and given: they differ where the values become keys of a dictionary */
    struct shared_array *items;
};

static void make_schema(struct source *s, pennon_error *err)
{
    char text[2000] = "struct<";
    size_t at = strlen(text);
    for (uint32_t c = 0; c < s->kind->columns; c++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%sc%u: %s", c ? ", " : "", c, s->kind->type);
    (void)snprintf(text + at, sizeof text - at, ">");
    must(arrow_schema_from_text(bytes_str(text), "", s->mem, &s->plain, err), err);
    if (s->kind->dictionary) (void)snprintf(text, sizeof text, "struct<c0: dictionary<values=string, indices=int32, ordered=0>>");
    must(arrow_schema_from_text(bytes_str(text), "", s->mem, &s->schema, err), err);
    s->plain.flags = s->schema.flags = 0;
}

/* 1000 texts, shared by all batches. */
static void make_items(struct source *s, pennon_error *err)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    must(arrow_schema_from_text(bytes_str("string"), "", s->mem, &schema, err), err);
    struct builder *b = builder_new(&schema, s->mem, err);
    for (int64_t i = 0; b && i < 1000; i++) append_text(b, 20, i, err);
    if (!b) must(err->code, err);
    must(builder_finish(b, &array, err), err);
    builder_free(b);
    schema.release(&schema);
    s->items = shared_array_new(&array, s->mem, err);
    if (!s->items) must(err->code, err);
}

static int source_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    struct source *s = stream->private_data;
    pennon_error err;
    pennon_error_init(&err);
    must(arrow_schema_copy(&s->schema, s->mem, out, &err), &err);
    return 0;
}

struct keyed {
    struct ArrowArray dictionary, keys, *children[1];
    struct ArrowArray batch; /* owner of the keys */
};

static void keyed_release(struct ArrowArray *a)
{
    struct keyed *k = a->private_data;
    k->dictionary.release(&k->dictionary);
    k->batch.release(&k->batch);
    free(k);
    a->release = NULL;
}

static void nothing_to_release(struct ArrowArray *a) { a->release = NULL; }

/* The batch of integers as one of keys. */
static void put_dictionary(struct source *s, struct ArrowArray *batch, pennon_error *err)
{
    struct keyed *k = calloc(1, sizeof *k);
    struct ArrowSchema items;
    if (!k) _exit(4);
    must(arrow_schema_from_text(bytes_str("string"), "", s->mem, &items, err), err);
    must(array_slice(&items, s->items, 0, 1000, s->mem, &k->dictionary, err), err);
    items.release(&items);
    k->batch = *batch;
    k->keys = *batch->children[0];
    k->keys.dictionary = &k->dictionary;
    k->keys.release = nothing_to_release;
    k->children[0] = &k->keys;
    batch->children = k->children;
    batch->private_data = k;
    batch->release = keyed_release;
}

static int source_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct source *s = stream->private_data;
    pennon_error err;
    pennon_error_init(&err);
    memset(out, 0, sizeof *out);
    if (s->at >= s->end) return 0;
    struct builder *b = builder_new(&s->plain, s->mem, &err);
    if (!b) must(err.code, &err);
    for (int64_t i = 0; i < s->step && s->at < s->end; i++, s->at++) {
        for (uint32_t c = 0; c < s->kind->columns; c++) s->kind->append(builder_child(b, c), s->at + (int64_t)c * 1000003, &err);
        must(builder_append_row(b, &err), &err);
    }
    must(builder_finish(b, out, &err), &err);
    builder_free(b);
    if (s->kind->dictionary) put_dictionary(s, out, &err);
    return 0;
}

static const char *source_error(struct ArrowArrayStream *stream)
{
    UNUSED(stream);
    return NULL;
}

static void source_release(struct ArrowArrayStream *stream)
{
    struct source *s = stream->private_data;
    if (s->items) shared_array_release(s->items);
    s->plain.release(&s->plain);
    s->schema.release(&s->schema);
    if (mem_used(s->mem) != 0) _exit(5);
    mem_release(s->mem);
    free(s);
    stream->release = NULL;
}

static struct ArrowArrayStream rows_of(const struct kind *kind, int64_t n, uint64_t batch_bytes)
{
    pennon_error err;
    struct source *s = calloc(1, sizeof *s);
    pennon_error_init(&err);
    if (!s) _exit(4);
    s->kind = kind;
    s->end = n;
    s->step = (int64_t)max_u64(batch_bytes / kind->row_bytes, 1);
    s->mem = mem_new(NULL, UINT64_MAX, NULL, &err);
    if (!s->mem) _exit(4);
    make_schema(s, &err);
    if (kind->dictionary) make_items(s, &err);
    return (struct ArrowArrayStream){source_schema, source_next, source_error, source_release, s};
}

/* ---- the process ---- */

/* A line of /proc/self/status in bytes, 0 where there is none. */
static uint64_t status_of(const char *name)
{
    char line[200];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), ": %llu", &kib) == 1) break;
    }
    (void)fclose(f);
    return (uint64_t)kib << 10;
}

/* ---- cases ---- */

struct one {
    const struct kind *kind;
    const char *version, *uri;
    uint64_t budget, limit; /* limit of the runtime */
    uint64_t batch_bytes;   /* of the program's batches, about */
    uint32_t threads;
    int64_t rows;
    bool scan; /* else write */
};

/* What a child tells. */
struct told {
    uint64_t peak, resident;
    int64_t rows;
};

static int64_t drain(struct ArrowArrayStream *stream, pennon_error *err)
{
    int64_t rows = 0;
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) must(pennon_stream_error(stream, err), err);
        if (!batch.release) break;
        rows += batch.length;
        batch.release(&batch);
    }
    stream->release(stream);
    return rows;
}

static void work(const struct one *o, const pennon_call *call, struct told *told, pennon_error *err)
{
    if (!o->scan) {
        pennon_write_options wo;
        struct ArrowArrayStream rows = rows_of(o->kind, o->rows, o->batch_bytes);
        pennon_write_options_init(&wo);
        wo.call = call;
        wo.mode = PENNON_WRITE_OVERWRITE;
        wo.storage_version = o->version;
        must(pennon_write(o->uri, &rows, &wo, NULL, err), err);
        told->rows = o->rows;
        return;
    }
    pennon_open_options oo;
    pennon_scan_options so;
    pennon_dataset *ds = NULL;
    struct ArrowArrayStream stream;
    pennon_open_options_init(&oo);
    oo.call = call;
    must(pennon_dataset_open(o->uri, &oo, &ds, err), err);
    pennon_scan_options_init(&so);
    so.call = call;
    must(pennon_scan(ds, &so, &stream, err), err);
    told->rows = drain(&stream, err);
    pennon_dataset_free(ds);
}

static void child(const struct one *o, int to)
{
    pennon_runtime *runtime = NULL;
    pennon_runtime_options ro;
    pennon_budget *budget = NULL;
    pennon_call call;
    pennon_error err;
    struct told told = {0};
    pennon_error_init(&err);
    (void)alarm(120);
    (void)mallopt(M_ARENA_MAX, 2);
    pennon_runtime_options_init(&ro);
    ro.threads = o->threads;
    ro.memory_limit = o->limit;
    must(pennon_runtime_new(&ro, &runtime, &err), &err);
    must(pennon_budget_new(runtime, o->budget, &budget, &err), &err);
    pennon_call_init(&call);
    call.runtime = runtime;
    call.budget = budget;
    call.durability = PENNON_DURABILITY_NONE;
    const uint64_t before = status_of("VmRSS");
    work(o, &call, &told, &err);
    const uint64_t most = status_of("VmHWM");
    told.peak = pennon_budget_peak(budget);
    told.resident = most > before ? most - before : 0;
    if (pennon_budget_used(budget) != 0) _exit(6);
    pennon_budget_free(budget);
    pennon_runtime_free(runtime);
    if (write(to, &told, sizeof told) != (ssize_t)sizeof told) _exit(7);
    _exit(0);
}

/* All cases run before the test fails: false says that this one is bad. */
static bool run_one(const struct one *o)
{
    struct told told = {0};
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) child(o, ends[1]);
    assert_true(pid > 0);
    (void)close(ends[1]);
    const ssize_t n = read(ends[0], &told, sizeof told);
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0 && n == (ssize_t)sizeof told;
    const bool good = ended && told.rows == o->rows && told.peak <= o->budget &&
                      (!RESIDENT || o->limit > o->budget || told.resident <= o->budget + SLACK_BYTES);
    print_message("%-16s %s %-5s budget %5.1f MiB: peak %5.1f, resident %5.1f%s\n", o->kind->name, o->version,
                  o->scan ? "scan" : "write", (double)o->budget / (double)MIB, (double)told.peak / (double)MIB,
                  (double)told.resident / (double)MIB,
                  good    ? ""
                  : ended ? " FAILED"
                          : " ENDED EARLY");
    return good;
}

static bool write_and_scan(const struct kind *kind, const char *version, uint64_t budget, uint64_t limit, uint64_t batch_bytes,
                           uint32_t threads)
{
    char folder[] = "/tmp/pennon-budget-XXXXXX", command[100];
    assert_non_null(mkdtemp(folder));
    struct one o = {.kind = kind,
                    .version = version,
                    .uri = folder,
                    .budget = budget,
                    .limit = limit,
                    .batch_bytes = batch_bytes,
                    .threads = threads};
    o.rows = (int64_t)min_u64(10 * budget / kind->row_bytes + 1, ROWS_MAX);
    bool good = run_one(&o);
    o.scan = true;
    good = good && run_one(&o);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    return good;
}

static bool is_long(void)
{
    const char *wish = getenv("PENNON_LONG");
    return wish && strcmp(wish, "1") == 0;
}

static const char *const versions[] = {"2.0", "2.1", "2.2"};

/* The budget is that of the runtime, so that nothing at all is outside of it. */
static void test_limits_budget__of_the_runtime(void **state)
{
    UNUSED(state);
    const bool all = is_long();
    const uint64_t budget = all ? 8 * MIB : 2 * MIB;
    size_t bad = 0;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
            /* Under a sanitizer a part: only the accounting is looked at, and all takes minutes. */
            if (all || (v == k % 3 && (RESIDENT || k % 4 == 0)))
                bad += !write_and_scan(&kinds[k], versions[v], budget, budget, (uint64_t)256 << 10, 4);
        }
    }
    assert_int_equal(bad, 0);
}

/* The budget of a call below a large one of the runtime; batches of the program that are larger than it, and more threads than it feeds. Freed buffers
 * of the runtime are kept for other calls: only the accounted peak is the budget's. */
static void test_limits_budget__of_one_call(void **state)
{
    UNUSED(state);
    size_t bad = 0;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        const char *version = versions[(k + 1) % 3];
        if (!RESIDENT && k % 4 != 1) continue;
        if (is_long() || strstr(kinds[k].name, "text") || strstr(kinds[k].name, "empty") || strstr(kinds[k].name, "long"))
            bad += !write_and_scan(&kinds[k], version, 4 * MIB, 512 * MIB, 40 * MIB, 8);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits_budget__of_the_runtime),
                                       cmocka_unit_test(test_limits_budget__of_one_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
