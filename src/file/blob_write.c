/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing the values of blob columns.
 *
 * v1 (up to 2.1): every value that is not empty is a buffer of the data file; the page holds position and size.
 * v2 (2.2): the place of a value depends on its bytes n and the column's thresholds; the page holds a descriptor.
 *
 *   value           | kind | position       | size | blob_id        | blob_uri          | where
 *   ----------------|------|----------------|------|----------------|-------------------|----------------------------------------
 *   n > dedicated   | 2    | 0              | n    | its file       | ""                | a sidecar of its own
 *   n > inline      | 1    | in the sidecar | n    | the pack file  | ""                | behind the last one in the open pack file
 *   other bytes     | 0    | in the file    | n    | 0              | ""                | an aligned buffer of the data file
 *   uri             | 3    | given or 0     | same | base id or 0   | relative or whole | outside; only the reference is kept, or it is copied: as bytes
 *   null            | 0    | 0              | 0    | 0              | ""                | nowhere; the level says null
 *
 * Sidecars of `data/x.lance` are `data/x/<32 binary digits>.blob`: the bits of the id, lowest first. Ids count from 1 in each data file. A pack file is
 * the values one behind the other; a new one begins when the next value would pass its limit.
 *
 * Values are written as their batch comes, so that batches which wait for a page hold descriptors, not values. Sidecars are finished before the data
 * file is, and removed when the data file is given up.
 * Official takes position 0 with size 0 for null: an empty value at the front of a file says 64.
 * Source: spec file-format 14, table-format 14, commits 14. */
#include "file/blob_write.h"

#define FILE_SUFFIX ".lance"
#define EMPTY_POSITION 64u
#define COPY_BYTES ((uint64_t)4 << 20)    /* of an external blob at once */
#define URI_BYTES_MAX ((size_t)INT32_MAX) /* of the values of one batch: 32-bit offsets */

enum { KIND_INLINE, KIND_PACKED, KIND_DEDICATED, KIND_EXTERNAL };

/* ---- names ---- */

char *file_sidecar_folder(struct mem *m, const char *path, pennon_error *err)
{
    size_t n = strlen(path), suffix = strlen(FILE_SUFFIX);
    if (n <= suffix || strcmp(path + n - suffix, FILE_SUFFIX) != 0 || path[n - suffix - 1] == '/') {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "'%s' holds blob columns, so its name has to end in %s", path, FILE_SUFFIX);
        return NULL;
    }
    return mem_strndup(m, path, n - suffix, err);
}

char *file_sidecar_path(struct mem *m, const char *folder, uint32_t id, pennon_error *err)
{
    char digits[33];
    for (unsigned i = 0; i < 32; i++) digits[i] = (char)('0' + (id >> i & 1));
    digits[32] = '\0';
    return mem_printf(m, err, "%s/%s.blob", folder, digits);
}

void file_remove_sidecars(const struct call *c, pennon_store *store, const char *path, uint32_t n)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    char *folder = n ? file_sidecar_folder(c->mem, path, &ignored) : NULL;
    for (uint32_t id = 1; folder && id <= n; id++) {
        char *one = file_sidecar_path(c->mem, folder, id, &ignored);
        if (!one || store_delete(c, store, one, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
        mem_free(c->mem, one);
    }
    mem_free(c->mem, folder);
    pennon_error_clear(&ignored);
}

/* ---- sidecars ---- */

pennon_status blob_files_open(struct file_writer *w, pennon_error *err)
{
    w->blobs.folder = file_sidecar_folder(w->mem, w->path, err);
    return w->blobs.folder ? PENNON_OK : err->code;
}

/* A new sidecar. Its id is used up even when it cannot be opened: a reply may have been lost. */
static pennon_status open_sidecar(const struct call *c, struct file_writer *w, uint32_t *id, struct store_writer **out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *path = NULL;
    ASSERT(w->blobs.folder);
    if (w->blobs.n_files == UINT32_MAX) FAIL(PENNON_INVALID_ARGUMENT, "more than 2^32 - 1 blob files beside one data file");
    *id = ++w->blobs.n_files;
    TRY_NEW(path, file_sidecar_path(w->mem, w->blobs.folder, *id, err));
    TRY(store_writer_open(c, w->store, path, out, err));
done:
    mem_free(w->mem, path);
    return st;
}

static pennon_status finish_pack(const struct call *c, struct file_writer *w, pennon_error *err)
{
    struct store_writer *ended = w->blobs.pack;
    w->blobs.pack = NULL;
    w->blobs.pack_size = 0;
    return ended ? store_writer_finish(c, ended, err) : PENNON_OK;
}

pennon_status blob_files_finish(const struct call *c, struct file_writer *w, pennon_error *err) { return finish_pack(c, w, err); }

void blob_files_end(struct file_writer *w, bool remove)
{
    store_writer_abort(w->blobs.pack);
    if (remove && w->blobs.n_files) {
        /* A cancelled call may still clean up behind itself. */
        struct call c = w->call;
        c.cancel = NULL;
        c.deadline_ns = INT64_MAX;
        file_remove_sidecars(&c, w->store, w->path, w->blobs.n_files);
    }
    mem_free(w->mem, w->blobs.folder);
    w->blobs = (struct blob_files){0};
}

/* ---- one value ---- */

struct descriptor {
    uint8_t kind;
    uint64_t position, size;
    uint32_t id;
};

static pennon_status put_dedicated(const struct call *c, struct file_writer *w, struct bytes value, struct descriptor *d,
                                   pennon_error *err)
{
    struct store_writer *out = NULL;
    d->kind = KIND_DEDICATED;
    TRY_RETURN(open_sidecar(c, w, &d->id, &out, err));
    pennon_status st = store_writer_write(out, value.data, value.size, err);
    if (st == PENNON_OK) return store_writer_finish(c, out, err);
    store_writer_abort(out);
    return st;
}

/* Room for `size` more bytes in the open pack file, or in a new one. */
static pennon_status open_packed(const struct call *c, struct file_writer *w, uint64_t size, uint64_t limit, struct descriptor *d,
                                 pennon_error *err)
{
    struct blob_files *b = &w->blobs;
    bool full = b->pack_limit != limit || size > limit || b->pack_size > limit - size;
    if (!b->pack || full) {
        TRY_RETURN(finish_pack(c, w, err));
        TRY_RETURN(open_sidecar(c, w, &b->pack_id, &b->pack, err));
        b->pack_limit = limit;
    }
    d->kind = KIND_PACKED;
    d->id = b->pack_id;
    d->position = b->pack_size;
    b->pack_size += size;
    return PENNON_OK;
}

static pennon_status put_inline(struct file_writer *w, struct bytes value, struct descriptor *d, pennon_error *err)
{
    d->kind = KIND_INLINE;
    if (value.size) return writer_put_aligned(w, value, &d->position, err);
    d->position = max_u64(store_writer_position(w->out), EMPTY_POSITION);
    return PENNON_OK;
}

static pennon_status put_bytes(const struct call *c, struct file_writer *w, const struct blob_thresholds *t, struct bytes value,
                               struct descriptor *d, pennon_error *err)
{
    d->size = value.size;
    w->blobs.taken += value.size;
    if (value.size > t->dedicated) return put_dedicated(c, w, value, d, err);
    if (value.size <= t->inline_max) return put_inline(w, value, d, err);
    TRY_RETURN(open_packed(c, w, value.size, t->pack, d, err));
    return store_writer_write(w->blobs.pack, value.data, value.size, err);
}

/* ---- copies of external blobs ---- */

/* Where the bytes of an external blob are. */
struct source {
    pennon_store *store;
    char *path;
    uint64_t position, size;
};

static pennon_status open_source(const struct call *c, struct bytes uri, bool ranged, struct source *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_object_info info;
    char *text = NULL;
    if (memchr(uri.data, 0, uri.size)) FAIL(PENNON_INVALID_ARGUMENT, "a URI with a zero byte");
    TRY_NEW(text, mem_strndup(c->mem, (const char *)uri.data, uri.size, err));
    TRY(store_resolve(c, text, &s->store, &s->path, err));
    TRY(store_head(c, s->store, s->path, &info, err));
    if (!ranged) s->size = info.size;
    if (!range_inside(s->position, s->size, info.size))
        FAIL(PENNON_INVALID_ARGUMENT, "%" PRIu64 " bytes at %" PRIu64 " of '%s', which has %" PRIu64, s->size, s->position, text,
             info.size);
done:
    mem_free(c->mem, text);
    return st;
}

static pennon_status copy_source(const struct call *c, const struct source *s, struct store_writer *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t *chunk;
    TRY_NEW(chunk, mem_alloc(c->mem, (size_t)min_u64(s->size, COPY_BYTES) + 1, err));
    for (uint64_t at = 0; at < s->size;) {
        pennon_range part = {s->position + at, min_u64(s->size - at, COPY_BYTES), chunk};
        TRY(store_read_ranges(c, s->store, s->path, 1, &part, err));
        TRY(store_writer_write(out, chunk, (size_t)part.size, err));
        at += part.size;
    }
done:
    mem_free(c->mem, chunk);
    return st;
}

static pennon_status put_copy(const struct call *c, struct file_writer *w, const struct blob_thresholds *t, const struct source *s,
                              struct descriptor *d, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct store_writer *out = NULL;
    uint8_t *bytes = NULL;
    d->size = s->size;
    if (s->size > t->dedicated) {
        d->kind = KIND_DEDICATED;
        TRY(open_sidecar(c, w, &d->id, &out, err));
        TRY(copy_source(c, s, out, err));
        struct store_writer *ended = out;
        out = NULL;
        TRY(store_writer_finish(c, ended, err));
    } else if (s->size > t->inline_max) {
        TRY(open_packed(c, w, s->size, t->pack, d, err));
        TRY(copy_source(c, s, w->blobs.pack, err));
    } else {
        pennon_range part = {s->position, s->size, NULL};
        TRY_NEW(bytes, mem_alloc(c->mem, (size_t)s->size + 1, err));
        part.to = bytes;
        if (s->size) TRY(store_read_ranges(c, s->store, s->path, 1, &part, err));
        TRY(put_inline(w, bytes_of(bytes, (size_t)s->size), d, err));
    }
done:
    store_writer_abort(out);
    mem_free(c->mem, bytes);
    return st;
}

/* ---- the slots of a column in a batch ---- */

struct blob_input {
    const struct call *c;
    struct file_writer *w;
    const struct column_writer *col;
    struct ArrowArray *array;                        /* of the column; its place in the batch */
    const struct ArrowArray *above[ARROW_MAX_DEPTH]; /* the structs around it, up to the next list, innermost first */
    uint32_t n_above;
    uint64_t start, count; /* slots of the array that rows of the batch have */
};

static void find_slots(struct blob_input *in, struct ArrowArray *batch)
{
    struct ArrowArray *at = batch;
    const struct field *f = NULL;
    const struct ArrowArray *chain[ARROW_MAX_DEPTH];
    uint32_t n = 0;
    in->start = 0;
    in->count = (uint64_t)batch->length;
    ASSERT(in->col->depth <= ARROW_MAX_DEPTH);
    for (uint32_t i = 0; i < in->col->depth; i++) {
        uint32_t child = in->col->path[i];
        /* A null row of a list has no slots of its own; what is null above it counts no more. */
        n = f && f->kind == FIELD_LIST ? 0 : n + 1;
        if (n) chain[n - 1] = at;
        writer_child_slots(f, at, &in->start, &in->count);
        at = at->children[child];
        f = f ? f->children[child] : in->w->schema->fields[child];
    }
    in->array = at;
    for (in->n_above = 0; in->n_above < n; in->n_above++) in->above[in->n_above] = chain[n - 1 - in->n_above];
}

static bool bit_null(const struct ArrowArray *a, uint64_t bit)
{
    return a->null_count != 0 && a->n_buffers > 0 && a->buffers[0] && !bit_get(a->buffers[0], bit);
}

/* Null itself, or below a null struct. */
static bool slot_is_null(const struct blob_input *in, uint64_t slot)
{
    if (bit_null(in->array, (uint64_t)in->array->offset + slot)) return true;
    for (uint32_t i = 0; i < in->n_above; i++) {
        /* A slot of a struct's child is the struct's offset and its slot: the bit of its validity. */
        if (bit_null(in->above[i], slot)) return true;
        slot -= (uint64_t)in->above[i]->offset;
    }
    return false;
}

static pennon_status refuse(const struct blob_input *in, uint64_t slot, const char *what, pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "column '%s', value %" PRIu64 " of the batch: %s", in->col->field->name,
                    slot - in->start, what);
    return error_kind(err, "InvalidInput");
}

static struct bytes value_of(const struct ArrowArray *a, bool large, uint64_t slot)
{
    uint64_t at = (uint64_t)a->offset + slot, start = writer_offset_at(a, large, at), end = writer_offset_at(a, large, at + 1);
    return end > start ? bytes_of((const uint8_t *)a->buffers[2] + start, (size_t)(end - start)) : bytes_of(NULL, 0);
}

static uint64_t number_of(const struct ArrowArray *a, uint64_t slot)
{
    return load_u64((const uint8_t *)a->buffers[1] + ((uint64_t)a->offset + slot) * 8);
}

/* ---- v1 ---- */

static pennon_status take_v1(struct blob_input *in, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf valid;
    uint64_t n = (uint64_t)in->array->length, nulls = 0, *pairs;
    size_t bytes;
    buf_init(&valid, in->w->mem, BUF_NO_LIMIT);
    TRY(buf_resize(&valid, (size_t)bitmap_bytes(n), err));
    bitmap_fill(valid.data, 0, n, true);
    TRY(array_new(out, 2, 0, in->w->mem, err));
    out->length = (int64_t)n;
    if (size_mul_overflows((size_t)n, 16, &bytes)) FAIL(PENNON_OVER_BUDGET, "a batch of %" PRIu64 " blobs", n);
    TRY_NEW(pairs, array_make_buffer(out, 1, bytes, err));
    memset(pairs, 0, bytes);
    for (uint64_t slot = in->start; slot < in->start + in->count; slot++) {
        if (slot_is_null(in, slot)) {
            bitmap_fill(valid.data, slot, 1, false);
            nulls++;
            continue;
        }
        struct bytes value = value_of(in->array, true, slot);
        pairs[2 * slot + 1] = value.size;
        in->w->blobs.taken += value.size;
        if (value.size) TRY(writer_put_aligned(in->w, value, &pairs[2 * slot], err));
        if (slot % 256 == 0) TRY(call_check(in->c, err));
    }
    out->null_count = (int64_t)nulls;
    if (nulls) array_give_buf(out, 0, &valid);
done:
    buf_free(&valid);
    return st;
}

/* ---- v2 ---- */

/* Columns of descriptors that are being filled. */
struct descriptors {
    uint8_t *kind;
    uint64_t *position, *size;
    uint32_t *id;
    int32_t *uri_ends; /* n + 1 offsets */
    struct buf uris, valid;
    uint64_t nulls;
};

/* The part of an external blob that a row asks for; size 0 = all of it. */
static pennon_status read_range(const struct blob_input *in, uint64_t slot, uint64_t *position, uint64_t *size, pennon_error *err)
{
    uint64_t at = (uint64_t)in->array->offset + slot, end;
    *position = number_of(in->array->children[2], at);
    *size = number_of(in->array->children[3], at);
    if (*size == 0) return refuse(in, slot, "a range of no bytes in an external blob", err);
    if (add_overflows(*position, *size, &end)) return refuse(in, slot, "a range past 2^64 in an external blob", err);
    return PENNON_OK;
}

/* A value that the caller knows by a name. */
static pennon_status put_given(struct blob_input *in, const struct blob_thresholds *t, struct bytes name, struct descriptor *d,
                               struct buf *uris, pennon_error *err)
{
    const struct file_writer_options *o = &in->w->options;
    struct blob_given given;
    TRY_RETURN(o->blob_given(o->blob_given_ctx, in->c, name, &given, err));
    if (given.copy) {
        /* Borrowed: put_copy only reads through it. */
        const struct source s = {given.store, (char *)(uintptr_t)given.path, given.position, given.size};
        return put_copy(in->c, in->w, t, &s, d, err);
    }
    d->kind = KIND_EXTERNAL;
    d->position = given.position;
    d->size = given.size;
    d->id = given.base_id;
    return buf_append(uris, given.uri.data, given.uri.size, err);
}

/* A value that lies outside: its bytes are copied, or a reference is kept, whose text is appended to `uris`. */
static pennon_status put_external(struct blob_input *in, const struct blob_thresholds *t, uint64_t slot, struct bytes uri,
                                  bool ranged, struct descriptor *d, struct buf *uris, pennon_error *err)
{
    const struct file_writer_options *o = &in->w->options;
    struct source s = {0};
    pennon_status st = PENNON_OK;
    if (uri.size == 0) return refuse(in, slot, "an empty uri", err);
    if (o->blob_given) {
        TRY(put_given(in, t, uri, d, uris, err));
        goto done;
    }
    if (ranged) TRY_RETURN(read_range(in, slot, &s.position, &s.size, err));
    if (o->copy_external) {
        TRY(open_source(in->c, uri, ranged, &s, err));
        TRY(put_copy(in->c, in->w, t, &s, d, err));
        goto done;
    }
    if (!o->blob_reference) FAIL(PENNON_NOT_SUPPORTED, "an external blob, which only a table can hold");
    d->kind = KIND_EXTERNAL;
    d->position = s.position;
    d->size = s.size;
    TRY(o->blob_reference(o->blob_reference_ctx, in->c, uri, &d->id, uris, err));
done:
    pennon_store_free(s.store);
    mem_free(in->c->mem, s.path);
    if (st == PENNON_OK) return st;
    return error_prefix(err, "column '%s', value %" PRIu64 " of the batch", in->col->field->name, slot - in->start);
}

/* The value of a slot that is not null itself; *null says whether it has neither bytes nor a URI. */
static pennon_status put_slot(struct blob_input *in, const struct blob_thresholds *t, uint64_t slot, struct descriptor *d,
                              struct buf *uris, bool *null, pennon_error *err)
{
    const struct ArrowArray *a = in->array;
    uint64_t at = (uint64_t)a->offset + slot;
    bool has[4] = {false, false, false, false};
    for (int64_t i = 0; i < a->n_children; i++) has[i] = !bit_null(a->children[i], (uint64_t)a->children[i]->offset + at);
    if (has[2] != has[3]) return refuse(in, slot, "position and size go together", err);
    if (has[2] && !has[1]) return refuse(in, slot, "position and size without a uri", err);
    if (has[0] && has[1]) return refuse(in, slot, "both data and uri", err);
    *null = !has[0] && !has[1];
    if (has[0]) return put_bytes(in->c, in->w, t, value_of(a->children[0], true, at), d, err);
    if (has[1]) return put_external(in, t, slot, value_of(a->children[1], false, at), has[2], d, uris, err);
    return in->col->field->nullable ? PENNON_OK : refuse(in, slot, "null, in a column that is declared not null", err);
}

static pennon_status fill_descriptors(struct blob_input *in, struct descriptors *to, pennon_error *err)
{
    struct blob_thresholds t;
    TRY_RETURN(field_blob_thresholds(in->col->field, &t, err));
    if (in->w->options.pack_bytes) t.pack = in->w->options.pack_bytes;
    for (uint64_t slot = in->start; slot < in->start + in->count; slot++) {
        struct descriptor d = {0};
        bool null = slot_is_null(in, slot);
        if (!null) TRY_RETURN(put_slot(in, &t, slot, &d, &to->uris, &null, err));
        if (null) {
            bitmap_fill(to->valid.data, slot, 1, false);
            to->nulls++;
        }
        to->kind[slot] = d.kind;
        to->position[slot] = d.position;
        to->size[slot] = d.size;
        to->id[slot] = d.id;
        to->uri_ends[slot + 1] = (int32_t)to->uris.size;
        if (slot % 256 == 0) TRY_RETURN(call_check(in->c, err));
    }
    /* Slots behind the rows of the batch have empty texts too. */
    for (uint64_t slot = in->start + in->count; slot < (uint64_t)in->array->length; slot++)
        to->uri_ends[slot + 1] = (int32_t)to->uris.size;
    return PENNON_OK;
}

/* Zeroed columns of n descriptors in `out`, whose length is set. */
static pennon_status new_descriptors(uint64_t n, struct mem *m, struct ArrowArray *out, struct descriptors *to, pennon_error *err)
{
    static const uint8_t widths[] = {1, 8, 8, 4, 4};
    void *buffers[ARRAY_LEN(widths)];
    TRY_RETURN(array_new(out, 1, ARRAY_LEN(widths), m, err));
    out->length = (int64_t)n;
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        struct ArrowArray *child = out->children[i];
        bool text = i + 1 == ARRAY_LEN(widths);
        TRY_RETURN(array_new(child, text ? 3 : 2, 0, m, err));
        child->length = (int64_t)n;
        size_t bytes;
        if (size_mul_overflows((size_t)n + text, widths[i], &bytes))
            return error_set(err, PENNON_OVER_BUDGET, "a batch of %" PRIu64 " blobs", n);
        buffers[i] = array_make_buffer(child, 1, bytes, err);
        if (!buffers[i]) return err->code;
        memset(buffers[i], 0, bytes);
    }
    to->kind = buffers[0];
    to->position = buffers[1];
    to->size = buffers[2];
    to->id = buffers[3];
    to->uri_ends = buffers[4];
    return PENNON_OK;
}

static pennon_status take_v2(struct blob_input *in, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = in->w->mem;
    struct descriptors to = {0};
    uint64_t n = (uint64_t)in->array->length;
    buf_init(&to.uris, m, URI_BYTES_MAX);
    buf_init(&to.valid, m, BUF_NO_LIMIT);
    TRY(new_descriptors(n, m, out, &to, err));
    TRY(buf_resize(&to.valid, (size_t)bitmap_bytes(n), err));
    bitmap_fill(to.valid.data, 0, n, true);
    TRY(fill_descriptors(in, &to, err));
    out->null_count = (int64_t)to.nulls;
    if (to.nulls) array_give_buf(out, 0, &to.valid);
    array_give_buf(out->children[4], 2, &to.uris);
done:
    buf_free(&to.uris);
    buf_free(&to.valid);
    return st;
}

pennon_status blob_column_take(const struct call *c, struct file_writer *w, const struct column_writer *col,
                               struct ArrowArray *batch, pennon_error *err)
{
    struct blob_input in = {.c = c, .w = w, .col = col};
    struct ArrowArray light = {0};
    find_slots(&in, batch);
    ASSERT(in.start + in.count <= (uint64_t)in.array->length);
    pennon_status st = col->type.kind == LEAF_BLOB ? take_v1(&in, &light, err) : take_v2(&in, &light, err);
    if (st != PENNON_OK) {
        array_release(&light);
        return st;
    }
    array_release(in.array);
    array_move(&light, in.array);
    return PENNON_OK;
}
