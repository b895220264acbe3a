/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bytes of a manifest file, checked and turned into a snapshot.
 *
 * offset     | bytes | what
 * -----------|-------|----------------------------------------------------------------------------------------------
 * i          | 4+n   | index section: u32 length, IndexSection; only when Manifest.index_section = i is present
 * t          | 4+n   | transaction section: u32 length, Transaction; Manifest.transaction_section = t (tag 23, else 21)
 * p          | 4+n   | u32 length, Manifest
 * size - 16  | 8     | i64 p; p + 4 + n + 16 = size
 * size - 8   | 4     | i16 major, i16 minor: any
 * size - 4   | 4     | "LANC"
 *
 * A section that does not lie before p, or does not parse, counts as absent: writers up to 8.0 leave stale offsets behind.
 *
 * Old manifests are made to look like new ones: an absent data_format comes from the files; row counts of writers without a version, and
 * counts of 0, are unknown.
 * Fragments may come in any order of ids, and twice with the same one: old writers and engines committed such tables, and official reads them.
 * Invariants after this: fragment ids fit 32 bits, field ids are unique, every base id is an index, column lists are long enough,
 * deleted rows never exceed physical rows.
 * Source: spec table-format 4, 5, 6, 8, 9, 18.1. */
#include <stdatomic.h>
#include <stdlib.h>

#include "table/table_private.h"

#define FRAGMENT_ID_MAX (UINT32_MAX - 1)

bool manifest_section(struct bytes file, uint64_t offset, uint64_t end, struct bytes *out)
{
    ASSERT(end <= file.size);
    if (!range_inside(offset, 4, end)) return false;
    uint64_t n = load_u32(file.data + offset);
    if (!range_inside(offset + 4, n, end)) return false;
    *out = bytes_of(file.data + offset + 4, (size_t)n);
    return true;
}

/* ---- small parts ---- */

static pennon_status text_of(struct snapshot *s, struct bytes in, const char *what, const char **out, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size == 0 || memchr(in.data, 0, in.size) == NULL, "manifest: a zero byte in %s", what);
    CHECK_FILE_RETURN(utf8_valid(in.data, in.size), "manifest: %s that is not UTF-8", what);
    *out = arena_strndup(&s->arena, (const char *)in.data, in.size, err);
    return *out != NULL ? PENNON_OK : err->code;
}

uint32_t snapshot_find_base(const struct snapshot *s, uint32_t id)
{
    /* Of equal ids the last one counts. */
    for (size_t i = s->n_bases; i > 0; i--) {
        if (s->bases[i - 1].id == id) return (uint32_t)(i - 1);
    }
    return NO_BASE;
}

static pennon_status read_bases(struct snapshot *s, pennon_error *err)
{
    const struct manifest_message *m = &s->manifest;
    s->bases = arena_calloc(&s->arena, m->n_base_paths, sizeof *s->bases, err);
    if (s->bases == NULL) return err->code;
    for (size_t i = 0; i < m->n_base_paths; i++) {
        const struct base_path_message *b = &m->base_paths[i];
        s->bases[i] = (struct base){.id = b->id, .is_dataset_root = b->is_dataset_root};
        TRY_RETURN(text_of(s, b->path, "a base path", &s->bases[i].path, err));
        if (b->has_name) TRY_RETURN(text_of(s, b->name, "the name of a base path", &s->bases[i].name, err));
    }
    s->n_bases = m->n_base_paths;
    return PENNON_OK;
}

static pennon_status check_flags(const struct snapshot *s, pennon_error *err)
{
    uint64_t unknown = s->manifest.reader_feature_flags & ~READER_FLAGS_KNOWN;
    if (unknown == 0) return PENNON_OK;
    (void)error_set(err, PENNON_NOT_SUPPORTED,
                    "the table needs features of a newer Lance (reader flags %" PRIu64 " are unknown here)", unknown);
    return error_kind(err, "NotSupported");
}

static void read_timestamp(struct snapshot *s)
{
    const struct timestamp_message *t = s->manifest.timestamp;
    if (t == NULL) return;
    int64_t ns;
    if (__builtin_mul_overflow(t->seconds, INT64_C(1000000000), &ns) || __builtin_add_overflow(ns, (int64_t)t->nanos, &ns)) {
        ns = t->seconds < 0 ? INT64_MIN : INT64_MAX;
    }
    s->timestamp_ns = ns;
}

/* ---- fragments ---- */

static pennon_status read_file(struct snapshot *s, const struct data_file_message *m, uint64_t fragment, struct data_file *out,
                               pennon_error *err)
{
    *out = (struct data_file){
        .fields = m->fields,
        .columns = m->column_indices,
        .version = data_file_version(m->file_major_version, m->file_minor_version),
        .size = m->file_size_bytes,
        .base = NO_BASE,
    };
    CHECK_FILE_RETURN(m->path.size > 0, "manifest: fragment %" PRIu64 " has a data file without a name", fragment);
    CHECK_FILE_RETURN(m->n_fields <= UINT32_MAX && m->n_column_indices <= UINT32_MAX,
                      "manifest: fragment %" PRIu64 ": too many fields", fragment);
    out->n_fields = (uint32_t)m->n_fields;
    out->n_columns = (uint32_t)m->n_column_indices;
    TRY_RETURN(text_of(s, m->path, "the name of a data file", &out->path, err));
    CHECK_FILE_RETURN(out->version == STORAGE_LEGACY || out->n_columns >= out->n_fields,
                      "manifest: data file '%.128s' has %u fields and %u columns", out->path, out->n_fields, out->n_columns);
    for (uint32_t i = 0; i < out->n_fields; i++)
        CHECK_FILE_RETURN(out->fields[i] != -1, "manifest: data file '%.128s' has the field id -1", out->path);
    if (m->has_base_id) {
        out->base = snapshot_find_base(s, m->base_id);
        CHECK_FILE_RETURN(out->base != NO_BASE, "manifest: data file '%.128s' has the base id %u, which no base path has",
                          out->path, m->base_id);
    }
    return PENNON_OK;
}

static pennon_status read_counts(const struct snapshot *s, const struct fragment_message *m, struct fragment *f, pennon_error *err)
{
    /* Before writers said who they are they wrote row counts that are wrong. */
    bool trusted = s->manifest.writer_version != NULL && m->physical_rows > 0;
    f->physical_rows = trusted ? m->physical_rows : UINT64_MAX;
    f->deletion = m->deletion_file;
    if (f->deletion != NULL) {
        bool counted = f->deletion->num_deleted_rows > 0 && !fragment_deletions_doubted(f);
        f->deleted_rows = counted ? f->deletion->num_deleted_rows : UINT64_MAX;
    }
    CHECK_FILE_RETURN(!trusted || m->physical_rows <= UINT32_MAX, "manifest: fragment %u has %" PRIu64 " rows", f->id,
                      m->physical_rows);
    CHECK_FILE_RETURN(f->deleted_rows == UINT64_MAX || f->deleted_rows <= f->physical_rows,
                      "manifest: fragment %u has %" PRIu64 " rows and %" PRIu64 " deleted ones", f->id, f->physical_rows,
                      f->deleted_rows);
    if (f->deletion != NULL && f->deletion->has_base_id) {
        CHECK_FILE_RETURN(snapshot_find_base(s, f->deletion->base_id) != NO_BASE,
                          "manifest: the deletion file of fragment %u has the base id %u, which no base path has", f->id,
                          f->deletion->base_id);
    }
    return PENNON_OK;
}

/* The whole of a fragment, in the snapshot's arena. */
static pennon_status read_body(struct snapshot *s, struct fragment *f, pennon_error *err)
{
    struct fragment_message *m = arena_calloc(&s->arena, 1, sizeof *m, err);
    if (m == NULL) return err->code;
    TRY_RETURN(wire_decode(&fragment_table, f->raw, &s->arena, m, err));
    CHECK_FILE_RETURN(m->n_files <= UINT32_MAX, "manifest: fragment %" PRIu64 " has too many files", m->id);
    ASSERT(m->id == f->id);
    struct data_file *files = arena_calloc(&s->arena, m->n_files, sizeof *files, err);
    if (files == NULL) return err->code;
    for (size_t k = 0; k < m->n_files; k++) TRY_RETURN(read_file(s, &m->files[k], m->id, &files[k], err));
    f->files = files;
    f->n_files = (uint32_t)m->n_files;
    f->message = m;
    return PENNON_OK;
}

/* What is known of a fragment without decoding it: id, rows, whether it has deletions and row ids. As in decoding the last of equal
 * fields counts. */
struct outline {
    uint64_t id, rows;
    bool deletions, row_ids;
};

static pennon_status scan_fragment(struct bytes raw, struct outline *out, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(raw);
    struct wire_item item;
    *out = (struct outline){0};
    while (!wire_cursor_done(&c)) {
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 1 && item.type == 0) out->id = item.number;
        if (item.tag == 4 && item.type == 0) out->rows = item.number;
        if (item.tag == 3 && item.type == 2) out->deletions = true;
        if ((item.tag == 5 || item.tag == 6) && item.type == 2) out->row_ids = true;
    }
    return PENNON_OK;
}

/* Plain fragments are scanned; what has deletions or lacks a row count is decoded at once. */
static pennon_status read_fragment(struct snapshot *s, struct bytes raw, struct fragment *f, pennon_error *err)
{
    struct outline o;
    TRY_RETURN(scan_fragment(raw, &o, err));
    CHECK_FILE_RETURN(o.id <= FRAGMENT_ID_MAX, "manifest: the fragment id %" PRIu64, o.id);
    CHECK_FILE_RETURN((s->manifest.reader_feature_flags & FLAG_STABLE_ROW_IDS) == 0 || o.row_ids,
                      "manifest: the table has stable row ids, and fragment %" PRIu64 " has none", o.id);
    f->id = (uint32_t)o.id;
    f->raw = raw;
    f->physical_rows = o.rows;
    bool plain = !o.deletions && o.rows > 0 && o.rows <= UINT32_MAX && s->manifest.writer_version != NULL;
    if (!plain) {
        TRY_RETURN(read_body(s, f, err));
        TRY_RETURN(read_counts(s, f->message, f, err));
    }
    atomic_init(&f->loaded, !plain);
    return PENNON_OK;
}

pennon_status fragment_load(struct snapshot *s, const struct fragment *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (atomic_load_explicit(&f->loaded, memory_order_acquire)) return PENNON_OK;
    ASSERT(f >= s->fragments && f < s->fragments + s->n_fragments);
    struct fragment *mine = &s->fragments[f - s->fragments];
    caches_lock(s);
    if (!atomic_load_explicit(&f->loaded, memory_order_relaxed)) {
        st = read_body(s, mine, err);
        if (st == PENNON_OK) atomic_store_explicit(&mine->loaded, true, memory_order_release);
    }
    caches_unlock(s);
    if (st != PENNON_OK && s->at.store != NULL)
        (void)store_error(s->at.store, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    return st;
}

pennon_status snapshot_load_fragments(struct snapshot *s, pennon_error *err)
{
    for (size_t i = 0; i < s->n_fragments; i++) TRY_RETURN(fragment_load(s, &s->fragments[i], err));
    return PENNON_OK;
}

/* A fragment's id above its place: what orders by id, then by place. */
static int compare_keys(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Fragments that do not ascend are found through a list that does. */
static pennon_status order_fragments(struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *keys = NULL;
    uint32_t *by_id;
    bool ascend = true;
    for (size_t i = 1; i < s->n_fragments; i++) ascend = ascend && s->fragments[i].id > s->fragments[i - 1].id;
    if (ascend) return PENNON_OK;
    CHECK_FILE(s->n_fragments <= UINT32_MAX, "manifest: %zu fragments", s->n_fragments);
    TRY_NEW(keys, mem_calloc(s->mem, s->n_fragments, sizeof *keys, err));
    TRY_NEW(by_id, arena_calloc(&s->arena, s->n_fragments, sizeof *by_id, err));
    for (size_t i = 0; i < s->n_fragments; i++) keys[i] = (uint64_t)s->fragments[i].id << 32 | i;
    qsort(keys, s->n_fragments, sizeof *keys, compare_keys);
    for (size_t i = 0; i < s->n_fragments; i++) {
        by_id[i] = (uint32_t)keys[i];
        if (i > 0 && keys[i] >> 32 == keys[i - 1] >> 32) s->doubled_ids = true;
    }
    s->by_id = by_id;
done:
    mem_free(s->mem, keys);
    return st;
}

static pennon_status read_fragments(struct snapshot *s, pennon_error *err)
{
    const struct manifest_message *m = &s->manifest;
    s->fragments = arena_calloc(&s->arena, m->n_fragment_bytes, sizeof *s->fragments, err);
    if (s->fragments == NULL) return err->code;
    s->n_fragments = m->n_fragment_bytes;
    for (size_t i = 0; i < m->n_fragment_bytes; i++) TRY_RETURN(read_fragment(s, m->fragment_bytes[i], &s->fragments[i], err));
    return order_fragments(s, err);
}

/* The version of new files; from the files there are when the manifest does not say. */
static pennon_status read_storage_version(struct snapshot *s, pennon_error *err)
{
    const struct data_format_message *format = s->manifest.data_format;
    if (format != NULL) {
        s->storage_version = storage_version_parse(format->version);
        if (s->storage_version != 0) return PENNON_OK;
        return error_set(err, PENNON_NOT_SUPPORTED, "data storage version '%.*s'", (int)min_u64(format->version.size, 64),
                         (const char *)format->version.data);
    }
    bool found = false;
    for (size_t i = 0; i < s->n_fragments; i++) {
        TRY_RETURN(fragment_load(s, &s->fragments[i], err));
        for (uint32_t k = 0; k < s->fragments[i].n_files; k++) {
            uint32_t version = s->fragments[i].files[k].version;
            CHECK_FILE_RETURN(!found || version == s->storage_version,
                              "manifest: data files of different versions in a table that names none");
            s->storage_version = version;
            found = true;
        }
    }
    if (!found) s->storage_version = s->manifest.writer_feature_flags & FLAG_V2_FORMAT ? STORAGE_2_1 : STORAGE_LEGACY;
    return PENNON_OK;
}

/* The values of dictionary fields lie in the manifest file. */
static pennon_status keep_dictionaries(struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema_origin *o = NULL;
    if (s->storage_version != STORAGE_LEGACY || !schema_has_dictionaries(s->schema)) return PENNON_OK;
    TRY_NEW(o, schema_origin_new(s->mem, s->file_size, err));
    TRY(schema_origin_add(o, s->bytes_at, block_retain(s->bytes), err));
    schema_set_origin(s->schema, o);
    o = NULL;
done:
    schema_origin_release(o);
    return st;
}

/* ---- sections ---- */

/* Does the section parse as a whole? Nothing of it is kept. */
static pennon_status index_section_parses(struct mem *m, struct bytes in, bool *good, pennon_error *err)
{
    struct arena scratch;
    struct index_section_message section;
    pennon_error local;
    pennon_error_init(&local);
    arena_init(&scratch, m);
    pennon_status st = wire_decode(&index_section_table, in, &scratch, &section, &local);
    arena_reset(&scratch);
    pennon_error_clear(&local);
    *good = st == PENNON_OK;
    if (st == PENNON_OK || st == PENNON_CORRUPT) return PENNON_OK;
    return error_set(err, st, "the index section of the manifest does not fit the memory budget");
}

/* The message bytes of the section at `offset` of the file, which ends before the Manifest at `position`. What lies before the part of the file that is
 * there is read into *block. */
static pennon_status fetch_section(const struct call *c, const struct snapshot *s, uint64_t offset, struct block **block,
                                   struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t word[4];
    const uint64_t end = s->message_at;
    *out = bytes_of(NULL, 0);
    if (offset >= s->bytes_at) {
        struct bytes here = bytes_of(s->bytes->data, (size_t)(end - s->bytes_at));
        (void)manifest_section(here, offset - s->bytes_at, here.size, out);
        return PENNON_OK;
    }
    if (!range_inside(offset, 4, end)) return PENNON_OK;
    pennon_range length = {offset, sizeof word, word};
    TRY(store_read_ranges(c, s->at.store, s->manifest_path, 1, &length, err));
    uint64_t n = load_u32(word);
    if (!range_inside(offset + 4, n, end)) return PENNON_OK;
    TRY_NEW(*block, block_new(s->mem, (size_t)n, err));
    pennon_range body = {offset + 4, n, (*block)->data};
    if (n > 0) TRY(store_read_ranges(c, s->at.store, s->manifest_path, 1, &body, err));
    *out = bytes_of((*block)->data, (size_t)n);
done:
    return st;
}

static pennon_status index_section(const struct call *c, const struct snapshot *s, struct block **block, struct bytes *out,
                                   pennon_error *err)
{
    bool good = true;
    *out = bytes_of(NULL, 0);
    if (!s->manifest.has_index_section) return PENNON_OK;
    TRY_RETURN(fetch_section(c, s, s->manifest.index_section, block, out, err));
    if (out->size > 0) TRY_RETURN(index_section_parses(s->mem, *out, &good, err));
    if (!good) *out = bytes_of(NULL, 0);
    return PENNON_OK;
}

/* The newer tag is preferred, unless its place is wrong. */
static pennon_status transaction_section(const struct call *c, const struct snapshot *s, struct block **block, struct bytes *out,
                                         pennon_error *err)
{
    const struct manifest_message *m = &s->manifest;
    *out = bytes_of(NULL, 0);
    if (m->has_transaction_section_new) TRY_RETURN(fetch_section(c, s, m->transaction_section_new, block, out, err));
    if (out->data == NULL && m->has_transaction_section) TRY_RETURN(fetch_section(c, s, m->transaction_section, block, out, err));
    return PENNON_OK;
}

pennon_status snapshot_section(const struct call *c, const struct snapshot *s, enum section which, struct bytes *out,
                               pennon_error *err)
{
    struct block *block = NULL;
    if (cache_section(s, which, out)) return PENNON_OK;
    pennon_status st =
        which == SECTION_INDICES ? index_section(c, s, &block, out, err) : transaction_section(c, s, &block, out, err);
    if (st == PENNON_OK) {
        cache_put_section(s, which, block, out);
        return PENNON_OK;
    }
    block_release(block);
    return st;
}

/* ---- the whole ---- */

/* Where the Manifest's length lies, out of the last bytes of a file of `size` bytes. */
pennon_status manifest_position(struct bytes tail, uint64_t size, uint64_t *position, pennon_error *err)
{
    CHECK_FILE_RETURN(size >= MANIFEST_FOOTER + 4 && tail.size >= MANIFEST_FOOTER, "manifest: %" PRIu64 " bytes are too few", size);
    const uint8_t *footer = tail.data + tail.size - MANIFEST_FOOTER;
    CHECK_FILE_RETURN(memcmp(footer + 12, "LANC", 4) == 0, "manifest: the magic number at its end is wrong");
    *position = load_u64(footer);
    CHECK_FILE_RETURN(range_inside(*position, 4 + MANIFEST_FOOTER, size),
                      "manifest: position %" PRIu64 " of its message in a file of %" PRIu64 " bytes", *position, size);
    return PENNON_OK;
}

static pennon_status find_message(struct snapshot *s, struct bytes *out, pennon_error *err)
{
    struct bytes part = bytes_of(s->bytes->data, s->bytes->size);
    TRY_RETURN(manifest_position(part, s->file_size, &s->message_at, err));
    ASSERT(s->message_at >= s->bytes_at);
    uint64_t end = part.size - MANIFEST_FOOTER;
    CHECK_FILE_RETURN(manifest_section(part, s->message_at - s->bytes_at, end, out),
                      "manifest: position %" PRIu64 " of its message in a file of %" PRIu64 " bytes", s->message_at, s->file_size);
    CHECK_FILE_RETURN((uint64_t)(out->data - part.data) + out->size == end, "manifest: its message does not end at the footer");
    return PENNON_OK;
}

pennon_status snapshot_parse_tail(struct mem *m, struct block *file, uint64_t at, const char *name, struct snapshot **out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *s = NULL;
    struct bytes message;
    TRY_NEW(s, mem_calloc(m, 1, sizeof *s, err));
    s->mem = mem_retain(m);
    atomic_init(&s->refs, 1);
    arena_init(&s->arena, m);
    s->bytes = block_retain(file);
    s->bytes_at = at;
    s->file_size = at + file->size;
    TRY_NEW(s->caches, caches_new(s, err));
    TRY_NEW(s->manifest_path, arena_strndup(&s->arena, name, strlen(name), err));
    TRY(find_message(s, &message, err));
    TRY(wire_decode(&manifest_outline_table, message, &s->arena, &s->manifest, err));
    s->version = s->manifest.version;
    CHECK_FILE(s->version != 0, "manifest: version 0");
    TRY(check_flags(s, err));
    read_timestamp(s);
    TRY(read_bases(s, err));
    TRY(read_fragments(s, err));
    TRY(read_storage_version(s, err));
    TRY(schema_from_messages(m, s->manifest.fields, s->manifest.n_fields, s->manifest.schema_metadata,
                             s->manifest.n_schema_metadata, false, &s->schema, err));
    TRY(keep_dictionaries(s, err));
    *out = s;
    s = NULL;
done:
    snapshot_release(s);
    return st;
}

pennon_status snapshot_parse(struct mem *m, struct block *file, const char *name, struct snapshot **out, pennon_error *err)
{
    return snapshot_parse_tail(m, file, 0, name, out, err);
}
