/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A whole dataset folder in the memory store: manifests, data files, deletion files, tags, transactions as one input (folder_split in mutate.h).
 * It is opened (newest version, oldest, or by a tag), counted, scanned, taken from, compared, listed and verified. Each call ends in
 * an error, or in valid arrays of the schema and the number of rows that the manifest declares. */
#include "mutate.h"
#include "stream_fuzz.h"

#define ROWS_READ 1000u

/* What may not happen for any bytes. */
static bool fine(pennon_status st, const pennon_error *err)
{
    if (st == PENNON_INTERNAL || st == PENNON_OUT_OF_MEMORY || st == PENNON_TIMEOUT) {
        fprintf(stderr, "%s: %s\n", pennon_status_name(st), err->message ? err->message : "");
        abort();
    }
    return st == PENNON_OK;
}

typedef pennon_status (*listing_fn)(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err);

static void list_all(pennon_dataset *ds, const pennon_call *call, pennon_error *err)
{
    static const listing_fn listings[] = {pennon_dataset_versions, pennon_dataset_fragments, pennon_dataset_tags,
                                          pennon_dataset_branches, pennon_dataset_data_stats};
    struct ArrowArrayStream stream;
    char *text = NULL;
    for (size_t i = 0; i < sizeof listings / sizeof *listings; i++) {
        if (fine(listings[i](ds, call, &stream, err), err)) (void)drain(&stream, NULL, err);
    }
    if (fine(pennon_dataset_info_json(ds, call, &text, err), err)) pennon_string_free(text);
    if (fine(pennon_dataset_schema_json(ds, &text, err), err)) pennon_string_free(text);
}

static void scan_all(pennon_dataset *ds, const pennon_call *call, const struct ArrowSchema *declared, uint64_t count,
                     pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    o.call = call;
    o.limit = ROWS_READ;
    o.batch_rows = 300;
    if (fine(pennon_scan(ds, &o, &stream, err), err)) {
        const uint64_t rows = drain(&stream, declared, err);
        FUZZ_CHECK(rows == UINT64_MAX || count == UINT64_MAX || rows == (count < ROWS_READ ? count : ROWS_READ));
    }
    o.blobs = PENNON_BLOBS_BYTES;
    o.limit = 100;
    if (fine(pennon_scan(ds, &o, &stream, err), err)) {
        const uint64_t rows = drain(&stream, NULL, err);
        FUZZ_CHECK(rows == UINT64_MAX || count == UINT64_MAX || rows == (count < 100 ? count : 100));
    }
}

/* The last ten rows. */
static void scan_system_columns(pennon_dataset *ds, const pennon_call *call, uint64_t count, pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_scan_options o;
    static const char *const names[] = {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version",
                                        "_row_last_updated_at_version"};
    const pennon_names system_columns = {sizeof names / sizeof *names, names};
    pennon_scan_options_init(&o);
    o.call = call;
    o.columns = &system_columns;
    o.limit = ROWS_READ;
    o.offset = count > 10 && count != UINT64_MAX ? count - 10 : 0;
    if (fine(pennon_scan(ds, &o, &stream, err), err)) {
        const uint64_t rows = drain(&stream, NULL, err);
        FUZZ_CHECK(rows == UINT64_MAX || count == UINT64_MAX || rows == (count < 10 ? count : 10));
    }
}

/* Blobs of the first rows, of every column: most are refused. */
static void take_blobs(pennon_dataset *ds, const pennon_call *call, const struct ArrowSchema *declared, uint64_t count,
                       pennon_error *err)
{
    struct ArrowArrayStream stream;
    uint64_t rows[20];
    size_t n = 0;
    pennon_blob_read_options o;
    pennon_blob_read_options_init(&o);
    o.call = call;
    while (n < sizeof rows / sizeof *rows && n < count) {
        rows[n] = n;
        n++;
    }
    for (int64_t i = 0; i < declared->n_children; i++) {
        pennon_blobs *blobs = NULL;
        uint8_t bytes[64];
        size_t got;
        uint64_t size;
        if (!fine(pennon_dataset_take_blobs(ds, declared->children[i]->name, PENNON_TAKE_OFFSETS, n, rows, call, &blobs, err), err))
            continue;
        FUZZ_CHECK(pennon_blobs_count(blobs) == n);
        for (size_t k = 0; k < n; k++) {
            if (fine(pennon_blob_size(blobs, k, call, &size, err), err) &&
                fine(pennon_blob_read_at(blobs, k, size / 2, sizeof bytes, bytes, call, &got, err), err))
                FUZZ_CHECK(got == (size - size / 2 < sizeof bytes ? size - size / 2 : sizeof bytes));
        }
        if (fine(pennon_blobs_list(blobs, call, &stream, err), err)) FUZZ_CHECK(drain(&stream, NULL, err) == n);
        if (fine(pennon_blobs_read(blobs, &o, &stream, err), err)) (void)drain(&stream, NULL, err);
        pennon_blobs_free(blobs);
    }
}

static void compare(pennon_dataset *ds, const pennon_call *call, pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_delta_counts counts = {.struct_size = sizeof counts};
    pennon_delta_options o;
    pennon_delta_options_init(&o);
    o.call = call;
    o.compared_against = 1;
    (void)fine(pennon_dataset_delta_counts(ds, &o, &counts, err), err);
    for (int32_t kind = PENNON_DELTA_INSERTED; kind <= PENNON_DELTA_DELETED; kind++) {
        if (fine(pennon_dataset_delta(ds, kind, &o, &stream, err), err)) (void)drain(&stream, NULL, err);
    }
    /* A version may have any number: no walk over a million of them. */
    if (pennon_dataset_version(ds) < 100 && fine(pennon_dataset_delta_transactions(ds, &o, &stream, err), err))
        (void)drain(&stream, NULL, err);
}

static void take(pennon_dataset *ds, const pennon_call *call, uint64_t count, pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_take_options o;
    pennon_take_options_init(&o);
    o.call = call;
    o.with_row_id = true;
    const uint64_t last = count == UINT64_MAX || count == 0 ? 0 : count - 1;
    const uint64_t rows[] = {last, 0, last / 2, 0, 3, UINT64_C(1) << 32, UINT64_MAX};
    if (fine(pennon_dataset_take(ds, PENNON_TAKE_OFFSETS, 4, rows, &o, &stream, err), err)) {
        const uint64_t got = drain(&stream, NULL, err);
        FUZZ_CHECK(got == UINT64_MAX || got == 4);
    }
    o.blobs = PENNON_BLOBS_BYTES;
    for (int32_t by = PENNON_TAKE_ROW_IDS; by <= PENNON_TAKE_ADDRESSES; by++) {
        if (!fine(pennon_dataset_take(ds, by, sizeof rows / sizeof *rows, rows, &o, &stream, err), err)) continue;
        const uint64_t got = drain(&stream, NULL, err);
        FUZZ_CHECK(got == UINT64_MAX || got <= sizeof rows / sizeof *rows);
    }
}

/* An execution does two things of five with one version of three: a number made of the input says which, so that a replay does the same. */
enum { USE_SCAN = 1, USE_SYSTEM_COLUMNS = 2, USE_TAKE = 4, USE_LIST = 8, USE_VERIFY = 16, USE_OLDEST = 32, USE_TAG = 64 };

static unsigned uses_of(const uint8_t *data, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++) h = (h ^ data[i]) * 16777619u;
    const unsigned version = h >> 24 & 7;
    return 1u << (h >> 16) % 5 | 1u << (h >> 8) % 5 | (version == 0 ? USE_OLDEST : version == 1 ? USE_TAG : 0u);
}

static void use_version(const pennon_open_options *o, unsigned uses, pennon_error *err)
{
    pennon_dataset *ds = NULL;
    struct ArrowSchema schema;
    uint64_t count = UINT64_MAX;
    if (!fine(pennon_dataset_open("memory://t", o, &ds, err), err)) return;
    if (!fine(pennon_dataset_count_rows(ds, o->call, &count, err), err)) count = UINT64_MAX;
    if (fine(pennon_dataset_schema(ds, &schema, err), err)) {
        FUZZ_CHECK(arrow_schema_validate(&schema, err) == PENNON_OK);
        if (uses & USE_SCAN) scan_all(ds, o->call, &schema, count, err);
        if (uses & USE_TAKE) take_blobs(ds, o->call, &schema, count, err);
        schema.release(&schema);
    }
    if (uses & USE_SYSTEM_COLUMNS) scan_system_columns(ds, o->call, count, err);
    if (uses & USE_TAKE) take(ds, o->call, count, err);
    if (uses & USE_LIST) list_all(ds, o->call, err);
    if (uses & USE_LIST) compare(ds, o->call, err);
    if (uses & USE_VERIFY) {
        pennon_verify_options v;
        pennon_verify_counts counts = {.struct_size = sizeof counts};
        pennon_verify_options_init(&v);
        v.call = o->call;
        v.scope = uses & USE_TAKE ? PENNON_VERIFY_VERSION : PENNON_VERIFY_ALL;
        (void)fine(pennon_dataset_verify(ds, &v, &counts, err), err);
    }
    pennon_dataset_free(ds);
}

static void fill(pennon_store *store, const pennon_call *call, struct bytes in, pennon_error *err)
{
    struct folder_entry entries[FOLDER_MAX];
    const size_t n = folder_split(in, entries);
    for (size_t i = 0; i < n; i++) {
        char path[300] = "t/";
        memcpy(path + 2, entries[i].path.data, entries[i].path.size);
        if (memchr(path, 0, 2 + entries[i].path.size)) continue;
        /* A path that the store refuses is no object. */
        uint8_t *copy = fuzz_copy(entries[i].data.data, entries[i].data.size);
        (void)fine(pennon_store_put(store, call, path, copy, entries[i].data.size, 0, err), err);
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_world w;
    pennon_open_options oo;
    fuzz_world_open(&w, 10000);
    fill(w.store, &w.call, bytes_of(data, size), &w.err);
    pennon_open_options_init(&oo);
    oo.call = &w.call;
    const unsigned uses = uses_of(data, size);
    if (uses & USE_OLDEST) oo.version = 1;
    if (uses & USE_TAG) oo.tag = "first";
    use_version(&oo, uses, &w.err);
    fuzz_world_close(&w);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct mutation m;
    struct bytes made;
    mutation_begin(&m, seed);
    if (mutation_one_in(&m, 50) || !mutate_folder(&m, bytes_of(data, size), &made) || made.size > max_size) {
        size = LLVMFuzzerMutate(data, size, max_size);
    } else {
        memcpy(data, made.data, made.size);
        size = made.size;
    }
    mutation_end(&m);
    return size;
}
