/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Verify, one version: what its manifest says of itself, its sections, its transaction, its indices, and then its fragments.
 *
 * Only what is sure is named. Not sure, and so not named: an index section that cannot be read (writers up to 8.0 leave stale positions behind), a
 * transaction file that is not there (clones name those of their source), an index without fragments (it need not have files).
 * Source: spec table-format 4, 5, 15, commits 1. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dataset/verify.h"

#define TRANSACTION_MAX ((uint64_t)1 << 30)
/* The highest id that a fragment may have. */
#define FRAGMENT_ID_MAX (UINT32_MAX - 1)
/* Manifest.max_allocated_field_id of newer releases, which is kept as an unknown field. */
#define TAG_MAX_FIELD_ID 24u

/* ---- order and counters ---- */

/* What is read all the same, and what official's own check refuses. */
static pennon_status verify_order(struct verifying *v, const struct snapshot *s)
{
    if (!s->by_id) return PENNON_OK;
    return verify_fault(v, s->at.store, s->manifest_path, "%s",
                        s->doubled_ids ? "two fragments have the same id" : "the fragments are not in the order of their ids");
}

/* The next row id must lie above every id given: otherwise the next append would give one of them again. */
static pennon_status verify_next_row_id(struct verifying *v, struct snapshot *s, const struct fragment *f)
{
    const struct row_id_sequence *sequence = NULL;
    uint64_t highest, next = s->manifest.next_row_id;
    TRY_RETURN(fragment_row_ids(&v->a->c, s, f, &sequence, v->a->err));
    if (!sequence || !row_id_sequence_highest(sequence, &highest) || highest < next) return PENNON_OK;
    return verify_fault(v, s->at.store, s->manifest_path,
                        "fragment %u has the row id %" PRIu64 ", and the next row id of the manifest is %" PRIu64, f->id, highest,
                        next);
}

/* A table without the highest fragment id has it from its fragments. */
static pennon_status verify_fragment_ids(struct verifying *v, struct snapshot *s)
{
    const struct manifest_message *m = &s->manifest;
    if (m->has_max_fragment_id && m->max_fragment_id > FRAGMENT_ID_MAX)
        TRY_RETURN(verify_fault(v, s->at.store, s->manifest_path,
                                "the highest fragment id of the manifest is %u, and no fragment can follow it",
                                m->max_fragment_id));
    for (size_t i = 0; i < s->n_fragments; i++) {
        if (!m->has_max_fragment_id || s->fragments[i].id <= m->max_fragment_id) continue;
        TRY_RETURN(verify_fault(v, s->at.store, s->manifest_path,
                                "fragment %u is above the highest fragment id of the manifest, %u", s->fragments[i].id,
                                m->max_fragment_id));
    }
    return PENNON_OK;
}

/* The highest id of a field, in the schema and in the data files. A fragment that cannot be decoded is told when its turn comes. */
static pennon_status highest_field(struct verifying *v, struct snapshot *s, int32_t *out)
{
    *out = s->schema->n_all ? s->schema->by_id[s->schema->n_all - 1]->id : -1;
    for (size_t i = 0; i < s->n_fragments; i++) {
        const struct fragment *f = &s->fragments[i];
        pennon_status st = fragment_load(s, f, v->a->err);
        if (st == PENNON_CORRUPT) {
            pennon_error_clear(v->a->err);
            continue;
        }
        TRY_RETURN(st);
        for (uint32_t k = 0; k < f->n_files; k++) {
            for (uint32_t j = 0; j < f->files[k].n_fields; j++) *out = f->files[k].fields[j] > *out ? f->files[k].fields[j] : *out;
        }
    }
    return PENNON_OK;
}

/* Newer releases note the highest id that a field ever had: a new column would get one of the old ones' ids again. */
static pennon_status verify_field_ids(struct verifying *v, struct snapshot *s)
{
    struct wire_cursor cur = wire_cursor_of(s->manifest.unknown);
    struct wire_item item;
    bool said = false;
    int32_t most = 0, highest;
    while (!wire_cursor_done(&cur)) {
        TRY_RETURN(wire_next(&cur, &item, v->a->err));
        if (item.tag != TAG_MAX_FIELD_ID || item.type != 0) continue;
        said = true;
        most = (int32_t)(uint32_t)item.number;
    }
    if (!said) return PENNON_OK;
    TRY_RETURN(highest_field(v, s, &highest));
    if (highest <= most) return PENNON_OK;
    return verify_fault(v, s->at.store, s->manifest_path, "a field has the id %d, above the highest field id of the manifest, %d",
                        highest, most);
}

/* All numbers that the next commit would count on from. Row ids that cannot be read are told here, and not again with the rows. */
static pennon_status verify_counters(struct verifying *v, struct snapshot *s)
{
    TRY_RETURN(verify_fragment_ids(v, s));
    TRY_RETURN(verify_report(v, verify_field_ids(v, s), NULL));
    if (!snapshot_has_stable_ids(s)) return PENNON_OK;
    for (size_t i = 0; i < s->n_fragments; i++) {
        pennon_status st = verify_next_row_id(v, s, &s->fragments[i]);
        if (st == PENNON_CORRUPT)
            (void)store_error(s->at.store, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, v->a->err);
        TRY_RETURN(verify_report(v, st, NULL));
    }
    return PENNON_OK;
}

/* Row ids must lead back to live rows; the index that finds one refuses an id that two live rows have. Faults of the sequences and of deletion files
 * were told. */
static pennon_status verify_row_ids(struct verifying *v, struct snapshot *s)
{
    uint64_t id = 0, address;
    pennon_error *err = v->a->err;
    if (!snapshot_has_stable_ids(s) || s->doubled_ids) return PENNON_OK;
    pennon_status st = resolve_row_ids(&v->a->c, s, &id, 1, &address, err);
    if (st == PENNON_OK) return st;
    if (st == PENNON_CORRUPT && !err->file && strncmp(err->message, "row id", 6) == 0)
        (void)store_error(s->at.store, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    else if (st == PENNON_CORRUPT || st == PENNON_NOT_FOUND || st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT) {
        pennon_error_clear(err);
        return PENNON_OK;
    }
    return verify_report(v, st, NULL);
}

/* ---- the transaction ---- */

/* The message, and the operation in it where it is one that is known. */
static pennon_status decode_transaction(struct verifying *v, struct bytes in)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = v->a->err;
    struct arena a;
    struct transaction_message t;
    const struct wire_message *table;
    void *operation;
    arena_init(&a, v->a->c.mem);
    TRY(wire_decode(&transaction_table, in, &a, &t, err));
    table = operation_table(t.which);
    if (!table) goto done;
    TRY_NEW(operation, arena_calloc(&a, 1, table->size, err));
    st = wire_decode(table, t.operation[t.which - OPERATION_APPEND], &a, operation, err);
done:
    arena_reset(&a);
    return st;
}

/* Every commit writes the section anew, so that unlike the index section it is never stale: a place that is set must be good. */
static pennon_status verify_transaction_section(struct verifying *v, const struct snapshot *s)
{
    const struct manifest_message *m = &s->manifest;
    const uint64_t at = m->has_transaction_section_new ? m->transaction_section_new : m->transaction_section;
    struct bytes section;
    if (!m->has_transaction_section && !m->has_transaction_section_new) return PENNON_OK;
    TRY_RETURN(snapshot_section(&v->a->c, s, SECTION_TRANSACTION, &section, v->a->err));
    if (!section.data)
        return verify_fault(v, s->at.store, s->manifest_path,
                            "the transaction section at byte %" PRIu64 " does not lie in the manifest", at);
    pennon_status st = decode_transaction(v, section);
    if (st != PENNON_OK) (void)store_error(s->at.store, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, (int64_t)at, v->a->err);
    return verify_report(v, st, "the transaction in the manifest");
}

/* The file need not be there; when it is, it is a transaction. The name must stay in its folder. */
static pennon_status verify_transaction_file(struct verifying *v, const struct snapshot *s)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    pennon_error *err = v->a->err;
    struct bytes name = s->manifest.transaction_file;
    char *path = NULL;
    struct block *file = NULL;
    if (name.size == 0) return PENNON_OK;
    if (memchr(name.data, '/', name.size) || memchr(name.data, 0, name.size))
        return verify_fault(v, s->at.store, s->manifest_path, "the name of the transaction file, '%.*s', is no name",
                            (int)min_u64(name.size, 200), (const char *)name.data);
    TRY_NEW(path, mem_printf(c->mem, err, "%s%s_transactions/%.*s", s->at.path, s->at.path[0] ? "/" : "",
                             (int)min_u64(name.size, 4096), (const char *)name.data));
    st = store_get(c, s->at.store, path, TRANSACTION_MAX, &file, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        st = PENNON_OK;
        goto done;
    }
    if (st == PENNON_OK) st = decode_transaction(v, bytes_of(file->data, file->size));
    if (st != PENNON_OK) (void)store_error(s->at.store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    st = verify_report(v, st, "the transaction file");
done:
    block_release(file);
    mem_free(c->mem, path);
    return st;
}

/* ---- indices ---- */

static bool note_any(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    *(bool *)ctx = true;
    return false;
}

/* A file of an index that the manifest lists. */
static pennon_status verify_index_file(struct verifying *v, struct snapshot *s, const struct index_metadata_message *x,
                                       const struct index_file_message *f)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    pennon_error *err = v->a->err;
    pennon_store *store = NULL;
    pennon_object_info info;
    char *name = NULL, *path = NULL;
    CHECK_FILE(memchr(f->path.data ? f->path.data : (const uint8_t *)"", 0, f->path.size) == NULL,
               "a zero byte in the name of an index file");
    TRY_NEW(name, mem_strndup(c->mem, (const char *)f->path.data, f->path.size, err));
    TRY(index_locate(c, s, x, name, &store, &path, err));
    st = store_head(c, store, path, &info, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        st = verify_fault(v, store, path, "a file of index '%.*s' is not there", (int)min_u64(x->name.size, 128),
                          (const char *)x->name.data);
    } else if (st == PENNON_OK && f->size_bytes && info.size != f->size_bytes) {
        st = verify_fault(v, store, path, "the file of index '%.*s' has %" PRIu64 " bytes, the manifest says %" PRIu64,
                          (int)min_u64(x->name.size, 128), (const char *)x->name.data, info.size, f->size_bytes);
    }
done:
    pennon_store_free(store);
    mem_free(c->mem, name);
    mem_free(c->mem, path);
    return st;
}

/* The folder must hold something, and every file that is listed. */
static pennon_status verify_index(struct verifying *v, struct snapshot *s, const struct index_metadata_message *x)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    pennon_error *err = v->a->err;
    pennon_store *store = NULL;
    char *path = NULL;
    bool any = false;
    TRY(index_locate(c, s, x, NULL, &store, &path, err));
    st = store_list(c, store, path, true, note_any, &any, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        st = PENNON_OK;
    }
    if (st != PENNON_OK) goto done;
    if (!any) {
        st = verify_fault(v, store, path, "the folder of index '%.*s' is not there", (int)min_u64(x->name.size, 128),
                          (const char *)x->name.data);
        goto done;
    }
    for (size_t i = 0; i < x->n_files; i++) TRY(verify_report(v, verify_index_file(v, s, x, &x->files[i]), "index"));
done:
    pennon_store_free(store);
    mem_free(c->mem, path);
    return st;
}

/* Names of the system's own indices, which live in the manifest alone. */
static bool is_system_index(struct bytes name) { return name.size >= 8 && memcmp(name.data, "__lance_", 8) == 0; }

/* An index is known by its UUID: versions that share it share its folder, which is looked at once. */
static pennon_status verify_indices(struct verifying *v, struct snapshot *s)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    struct index_section_message section = {0};
    struct bytes bytes;
    struct arena a;
    arena_init(&a, c->mem);
    TRY(snapshot_section(c, s, SECTION_INDICES, &bytes, v->a->err));
    if (bytes.size) TRY(wire_decode(&index_section_table, bytes, &a, &section, v->a->err));
    for (size_t i = 0; i < section.n_indices; i++) {
        const struct index_metadata_message *x = &section.indices[i];
        struct seen_entry *e;
        bool known = false;
        TRY(call_check(c, v->a->err));
        if (is_system_index(x->name) || x->fragment_bitmap.size == 0) continue;
        if (x->uuid) TRY(verify_seen(v, x->uuid->uuid, &e, &known));
        st = known ? PENNON_OK : verify_index(v, s, x);
        if (st == PENNON_CORRUPT)
            (void)store_error(s->at.store, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, v->a->err);
        TRY(verify_report(v, st, NULL));
    }
done:
    arena_reset(&a);
    return st;
}

/* ---- the whole ---- */

/* What decides how a fragment reads, besides itself: types of the fields (names and metadata may change from version to version), and the bases. */
static uint64_t reading_shape(const struct snapshot *s)
{
    const struct schema *schema = s->schema;
    uint64_t shape = schema->n_all;
    for (size_t i = 0; i < s->n_bases; i++) {
        const uint64_t parts[3] = {shape, s->bases[i].id, s->bases[i].is_dataset_root};
        shape = XXH3_64bits_withSeed(s->bases[i].path, strlen(s->bases[i].path), XXH3_64bits(parts, sizeof parts));
    }
    for (size_t i = 0; i < schema->n_all; i++) {
        const struct field *f = schema->by_id[i];
        const uint64_t parts[4] = {(uint64_t)(int64_t)f->id, (uint64_t)(int64_t)f->parent_id, f->nullable, (uint64_t)f->kind};
        shape = XXH3_64bits_withSeed(parts, sizeof parts, shape);
        shape = XXH3_64bits_withSeed(f->logical_type, strlen(f->logical_type), shape);
    }
    return shape;
}

pennon_status verify_snapshot(struct verifying *v, struct snapshot *s, struct file_cache *fc)
{
    const uint64_t shape = reading_shape(s);
    TRY_RETURN(verify_order(v, s));
    TRY_RETURN(verify_counters(v, s));
    TRY_RETURN(verify_transaction_section(v, s));
    TRY_RETURN(verify_transaction_file(v, s));
    TRY_RETURN(verify_report(v, verify_indices(v, s), NULL));
    for (size_t i = 0; i < s->n_fragments; i++) TRY_RETURN(verify_fragment(v, s, fc, &s->fragments[i], shape));
    return verify_row_ids(v, s);
}
