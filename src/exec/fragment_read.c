/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows of one fragment: several data files merged, missing columns as nulls, deleted rows left out, system columns added.
 *
 * A field is served by the last file that lists its id. A struct whose leaves lie in several files is null where every file that has
 * one of its leaves says so. A leaf that no file has is null.
 * Source: spec table-format 9, 13, 19.2. */
#include "encoding/jsonb.h"
#include "exec/exec.h"

/* One data file of the fragment that serves some of the fields. */
struct source {
    struct file_reader *reader;
    struct schema *schema; /* the served part of the read schema */
    struct ArrowArray batch;
    const struct ArrowSchema *arrow; /* of batch */
    struct file_projection *projection;
};

struct reading {
    const struct call *c;
    struct snapshot *s;
    const struct fragment *f;
    const struct column_plan *plan;
    const struct row_range *rows;
    size_t n;
    uint64_t count; /* physical rows asked for */
    struct source *sources;
    size_t n_sources;
};

/* ---- which file serves what ---- */

struct owned_ids {
    uint32_t version;
    int32_t *ids;
    size_t n;
};

static void collect_owned(const struct field *f, uint32_t version, struct owned_ids *o)
{
    bool own = field_owns_column(f, version);
    if (version < STORAGE_2_1) own = f->n_children == 0 || (f->kind == FIELD_PACKED_STRUCT && version == STORAGE_2_0);
    if (own) {
        o->ids[o->n++] = f->id;
        return;
    }
    for (size_t i = 0; i < f->n_children; i++) collect_owned(f->children[i], version, o);
}

static size_t count_fields(const struct field *f)
{
    size_t n = 1;
    for (size_t i = 0; i < f->n_children; i++) n += count_fields(f->children[i]);
    return n;
}

static bool file_has(const struct data_file *f, int32_t id)
{
    for (uint32_t i = 0; i < f->n_fields; i++) {
        if (f->fields[i] == id) return f->version == STORAGE_LEGACY || (i < f->n_columns && f->columns[i] >= 0);
    }
    return false;
}

const struct data_file *fragment_file_of(const struct fragment *f, int32_t id)
{
    for (uint32_t k = f->n_files; k-- > 0;) {
        if (file_has(&f->files[k], id)) return &f->files[k];
    }
    return NULL;
}

static pennon_status open_source(struct reading *rd, struct file_cache *fc, const struct data_file *f, const int32_t *ids, size_t n,
                                 pennon_error *err)
{
    ASSERT(n > 0 && rd->n_sources < rd->f->n_files);
    struct source *src = &rd->sources[rd->n_sources++];
    struct mem *m = rd->c->mem;
    TRY_RETURN(file_cache_get(rd->c, fc, rd->s, f, &src->reader, err));
    TRY_RETURN(schema_project_ids(m, rd->plan->read, ids, n, &src->schema, err));
    struct column_map map = {f->fields, f->columns, min_u64(f->n_fields, f->n_columns)};
    if (file_reader_version(src->reader) == STORAGE_LEGACY) map = (struct column_map){f->fields, NULL, f->n_fields};
    TRY_RETURN(file_projection_new(src->reader, src->schema, &map, rd->plan->blobs, m, &src->projection, err));
    file_projection_external(src->projection, external_blob_locate, rd->s);
    if (rd->plan->map) file_projection_map(src->projection);
    src->arrow = file_projection_arrow(src->projection);
    uint64_t rows = file_reader_rows(src->reader);
    CHECK_FILE_RETURN(rd->f->physical_rows == UINT64_MAX || rows == rd->f->physical_rows,
                      "data file '%s' has %" PRIu64 " rows, fragment %u has %" PRIu64, f->path, rows, rd->f->id,
                      rd->f->physical_rows);
    return file_read(rd->c, src->reader, src->projection, rd->rows, rd->n, &src->batch, err);
}

/* The last file that has a field serves it, so files are visited from the end. */
static pennon_status open_sources(struct reading *rd, struct file_cache *fc, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = rd->c->mem;
    const struct schema *read = rd->plan->read;
    size_t most = 1;
    for (size_t i = 0; i < read->n_fields; i++) most += count_fields(read->fields[i]);
    int32_t *left = NULL, *mine = NULL;
    TRY(fragment_load(rd->s, rd->f, err));
    TRY_NEW(left, mem_calloc(m, most, sizeof *left, err));
    TRY_NEW(mine, mem_calloc(m, most, sizeof *mine, err));
    TRY_NEW(rd->sources, mem_calloc(m, (size_t)rd->f->n_files + 1, sizeof *rd->sources, err));
    /* Ownership differs by file version; a fragment's files share one. */
    struct owned_ids o = {rd->f->n_files ? rd->f->files[0].version : STORAGE_2_1, left, 0};
    for (size_t i = 0; i < read->n_fields; i++) collect_owned(read->fields[i], o.version, &o);
    for (uint32_t k = rd->f->n_files; k-- > 0 && o.n;) {
        size_t n_mine = 0, kept = 0;
        for (size_t i = 0; i < o.n; i++) {
            if (file_has(&rd->f->files[k], left[i])) {
                mine[n_mine++] = left[i];
            } else {
                left[kept++] = left[i];
            }
        }
        o.n = kept;
        if (n_mine) TRY(open_source(rd, fc, &rd->f->files[k], mine, n_mine, err));
    }
done:
    mem_free(m, left);
    mem_free(m, mine);
    return st;
}

static void close_sources(struct reading *rd)
{
    for (size_t i = 0; i < rd->n_sources; i++) {
        array_release(&rd->sources[i].batch);
        file_projection_free(rd->sources[i].projection);
        schema_release(rd->sources[i].schema);
        file_reader_release(rd->sources[i].reader);
    }
    mem_free(rd->c->mem, rd->sources);
}

/* ---- merging ---- */

#define PARTS_MAX 64u

/* What the sources have of one field. */
struct parts {
    struct ArrowArray *array[PARTS_MAX];
    const struct ArrowSchema *schema[PARTS_MAX];
    size_t n;
};

static void find_parts(const struct parts *above, const char *name, struct parts *out)
{
    out->n = 0;
    for (size_t i = 0; i < above->n; i++) {
        int64_t at = arrow_schema_find(above->schema[i], bytes_str(name));
        if (at < 0) continue;
        out->array[out->n] = above->array[i]->children[at];
        out->schema[out->n++] = above->schema[i]->children[at];
    }
}

static bool has_all(const struct ArrowSchema *part, const struct ArrowSchema *want)
{
    if (part->n_children != want->n_children) return false;
    for (int64_t i = 0; i < want->n_children; i++) {
        if (!has_all(part->children[i], want->children[i])) return false;
    }
    return true;
}

static pennon_status merge_field(const struct call *c, const struct parts *p, const struct ArrowSchema *want, int64_t length,
                                 struct ArrowArray *out, pennon_error *err);

/* Nulls of a struct: where every part says null. */
static pennon_status merge_validity(const struct parts *p, int64_t length, struct ArrowArray *out, pennon_error *err)
{
    ASSERT(p->n > 0);
    for (size_t i = 0; i < p->n; i++) {
        if (p->array[i]->null_count == 0) return PENNON_OK;
    }
    size_t bytes = (size_t)bitmap_bytes((uint64_t)length);
    uint8_t *bits = array_make_buffer(out, 0, bytes, err);
    if (!bits) return err->code;
    memset(bits, 0, bytes);
    for (size_t i = 0; i < p->n; i++) {
        const uint8_t *own = p->array[i]->buffers[0];
        ASSERT(own != NULL && p->array[i]->offset == 0); /* readers make arrays without an offset */
        for (size_t b = 0; b < bytes; b++) bits[b] = (uint8_t)(bits[b] | own[b]);
    }
    out->null_count = length - (int64_t)bitmap_count(bits, 0, (uint64_t)length);
    return PENNON_OK;
}

static pennon_status merge_struct(const struct call *c, const struct parts *p, const struct ArrowSchema *want, int64_t length,
                                  struct ArrowArray *out, pennon_error *err)
{
    TRY_RETURN(array_new(out, 1, (size_t)want->n_children, c->mem, err));
    out->length = length;
    TRY_RETURN(merge_validity(p, length, out, err));
    for (int64_t i = 0; i < want->n_children; i++) {
        struct parts below;
        find_parts(p, want->children[i]->name, &below);
        TRY_RETURN(merge_field(c, &below, want->children[i], length, out->children[i], err));
    }
    return PENNON_OK;
}

/* A list whose item struct is spread over files: all must have the same lists. */
static pennon_status merge_list(const struct call *c, const struct parts *p, const struct ArrowSchema *want, int64_t length,
                                struct ArrowArray *out, pennon_error *err)
{
    struct arrow_type type;
    TRY_RETURN(arrow_type_of(want, &type, err));
    size_t width = type.layout == LAYOUT_LIST64 ? 8 : 4, bytes = ((size_t)length + 1) * width;
    struct parts below = {.n = p->n};
    for (size_t i = 0; i < p->n; i++) {
        below.array[i] = p->array[i]->children[0];
        below.schema[i] = p->schema[i]->children[0];
        bool same = type.layout == LAYOUT_FIXED_LIST || memcmp(p->array[i]->buffers[1], p->array[0]->buffers[1], bytes) == 0;
        CHECK_FILE_RETURN(same, "lists of '%s' differ between the data files of a fragment", want->name);
    }
    size_t buffers = type.layout == LAYOUT_FIXED_LIST ? 1 : 2;
    TRY_RETURN(array_new(out, buffers, 1, c->mem, err));
    out->length = length;
    TRY_RETURN(merge_validity(p, length, out, err));
    if (buffers == 2) {
        void *offsets = array_make_buffer(out, 1, bytes, err);
        if (!offsets) return err->code;
        memcpy(offsets, p->array[0]->buffers[1], bytes);
    }
    return merge_field(c, &below, want->children[0], p->array[0]->children[0]->length, out->children[0], err);
}

static pennon_status merge_field(const struct call *c, const struct parts *p, const struct ArrowSchema *want, int64_t length,
                                 struct ArrowArray *out, pennon_error *err)
{
    if (p->n == 0) return array_nulls(want, length, c->mem, out, err);
    for (size_t i = 0; i < p->n; i++) {
        CHECK_FILE_RETURN(p->array[i]->length == length, "'%s' has %" PRId64 " values where %" PRId64 " were expected", want->name,
                          p->array[i]->length, length);
    }
    if (p->n == 1 && has_all(p->schema[0], want)) {
        array_move(p->array[0], out);
        return PENNON_OK;
    }
    struct arrow_type type;
    TRY_RETURN(arrow_type_of(want, &type, err));
    if (type.layout == LAYOUT_STRUCT) return merge_struct(c, p, want, length, out, err);
    if (type.layout == LAYOUT_LIST32 || type.layout == LAYOUT_LIST64 || type.layout == LAYOUT_FIXED_LIST)
        return merge_list(c, p, want, length, out, err);
    return error_set(err, PENNON_CORRUPT, "'%s' is served by several data files", want->name);
}

/* The read columns of the fragment's rows, deleted ones included. */
static pennon_status read_columns(struct reading *rd, struct file_cache *fc, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowSchema *want = &rd->plan->read_arrow;
    TRY(open_sources(rd, fc, err));
    struct parts top = {.n = 0};
    if (rd->n_sources > PARTS_MAX) FAIL(PENNON_NOT_SUPPORTED, "a fragment of %zu data files", rd->n_sources);
    for (size_t i = 0; i < rd->n_sources; i++) {
        top.array[top.n] = &rd->sources[i].batch;
        top.schema[top.n++] = rd->sources[i].arrow;
    }
    TRY(array_new(out, 1, (size_t)want->n_children, rd->c->mem, err));
    out->length = (int64_t)rd->count;
    for (int64_t i = 0; i < want->n_children; i++) {
        struct parts p;
        find_parts(&top, want->children[i]->name, &p);
        TRY(merge_field(rd->c, &p, want->children[i], out->length, out->children[i], err));
    }
done:
    close_sources(rd);
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* ---- system columns ---- */

static pennon_status fill_system(struct reading *rd, enum system_column which, uint64_t first_live,
                                 const struct deletion_vector *dv, uint64_t *to, pennon_error *err)
{
    for (size_t i = 0; i < rd->n; i++) {
        uint64_t start = rd->rows[i].start, n = rd->rows[i].end - start;
        switch (which) {
        case SYSTEM_ROW_ID: TRY_RETURN(fragment_fill_row_ids(rd->c, rd->s, rd->f, start, n, to, err)); break;
        case SYSTEM_ROW_ADDRESS:
            for (uint64_t k = 0; k < n; k++) to[k] = (uint64_t)rd->f->id << 32 | (start + k);
            break;
        case SYSTEM_PLACE:
            for (uint64_t k = 0; k < n; k++) to[k] = (uint64_t)(rd->f - rd->s->fragments) << 32 | (start + k);
            break;
        case SYSTEM_ROW_OFFSET: {
            uint64_t deleted = dv ? deletion_vector_rank(dv, start) : 0;
            for (uint64_t k = 0; k < n; k++) {
                to[k] = first_live + start + k - deleted;
                if (dv && deletion_vector_contains(dv, (uint32_t)(start + k))) deleted++;
            }
            break;
        }
        case SYSTEM_CREATED_AT:
            TRY_RETURN(fragment_fill_versions(rd->c, rd->s, rd->f, LINEAGE_CREATED_AT, start, n, to, err));
            break;
        default: TRY_RETURN(fragment_fill_versions(rd->c, rd->s, rd->f, LINEAGE_LAST_UPDATED_AT, start, n, to, err)); break;
        }
        to += n;
        ASSERT(start <= rd->rows[i].end);
    }
    return PENNON_OK;
}

/* Deleted rows have no id. */
static pennon_status mark_deleted(struct reading *rd, const struct deletion_vector *dv, struct ArrowArray *ids, pennon_error *err)
{
    const size_t bytes = (size_t)bitmap_bytes(rd->count);
    struct buf part;
    uint64_t at = 0, live = 0;
    pennon_status st = PENNON_OK;
    buf_init(&part, rd->c->mem, BUF_NO_LIMIT);
    uint8_t *bits;
    TRY_NEW(bits, array_make_buffer(ids, 0, bytes, err));
    memset(bits, 0, bytes);
    for (size_t i = 0; i < rd->n; i++) {
        const uint64_t n = rd->rows[i].end - rd->rows[i].start;
        part.size = 0;
        TRY(buf_resize_zero(&part, (size_t)bitmap_bytes(n), err));
        live += deletion_vector_live_bits(dv, rd->rows[i].start, rd->rows[i].end, part.data);
        bitmap_copy(bits, at, part.data, 0, n);
        at += n;
    }
    ids->null_count = (int64_t)(rd->count - live);
done:
    buf_free(&part);
    return st;
}

static pennon_status system_array(struct reading *rd, enum system_column which, uint64_t first_live,
                                  const struct deletion_vector *dv, struct ArrowArray *out, pennon_error *err)
{
    TRY_RETURN(array_new(out, 2, 0, rd->c->mem, err));
    out->length = (int64_t)rd->count;
    uint64_t *to = array_make_buffer(out, 1, (size_t)rd->count * 8, err);
    if (!to) return err->code;
    if (which == SYSTEM_ROW_ID && dv && rd->plan->with_deleted) TRY_RETURN(mark_deleted(rd, dv, out, err));
    return fill_system(rd, which, first_live, dv, to, err);
}

/* ---- result columns ---- */

pennon_status json_array_text(struct mem *m, const struct ArrowArray *in, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text, offsets;
    buf_init(&text, m, INT32_MAX);
    buf_init(&offsets, m, BUF_NO_LIMIT);
    out->release = NULL;
    int32_t end = 0;
    const uint8_t *valid = in->null_count ? in->buffers[0] : NULL, *data = in->buffers[2];
    const int64_t *from = (const int64_t *)in->buffers[1] + in->offset;
    const uint64_t first = (uint64_t)in->offset;
    TRY(buf_append(&offsets, &end, sizeof end, err));
    for (int64_t i = 0; i < in->length; i++) {
        if (!valid || bit_get(valid, first + (uint64_t)i)) {
            st = jsonb_to_text(bytes_of(data + from[i], (size_t)(from[i + 1] - from[i])), &text, err);
            if (st == PENNON_OVER_BUDGET && text.size > INT32_MAX / 2) {
                (void)error_set(err, PENNON_INVALID_ARGUMENT, "a batch has more than 2 GiB of JSON text; ask for fewer rows");
                st = error_kind(err, "OffsetOverflow");
            }
            if (st != PENNON_OK) goto done;
        }
        end = (int32_t)text.size;
        TRY(buf_append(&offsets, &end, sizeof end, err));
    }
    TRY(array_new(out, 3, 0, m, err));
    out->length = in->length;
    out->null_count = in->null_count;
    if (valid) {
        uint8_t *bits;
        TRY_NEW(bits, array_make_buffer(out, 0, (size_t)bitmap_bytes((uint64_t)in->length), err));
        bitmap_copy(bits, 0, valid, first, (uint64_t)in->length);
    }
    array_give_buf(out, 1, &offsets);
    array_give_buf(out, 2, &text);
done:
    buf_free(&text);
    buf_free(&offsets);
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* JSONB -> text, through structs and lists. `f` is the read field. */
static pennon_status convert_json(const struct field *f, struct mem *m, struct ArrowArray *array, pennon_error *err)
{
    if (strcmp(f->logical_type, "json") == 0) {
        struct ArrowArray text = {0};
        TRY_RETURN(json_array_text(m, array, &text, err));
        array_release(array);
        array_move(&text, array);
        return PENNON_OK;
    }
    if (f->kind != FIELD_STRUCT && f->kind != FIELD_LIST && f->kind != FIELD_MAP && f->kind != FIELD_FSL_STRUCT) return PENNON_OK;
    for (size_t i = 0; i < f->n_children && (int64_t)i < array->n_children; i++)
        TRY_RETURN(convert_json(f->children[i], m, array->children[i], err));
    return PENNON_OK;
}

/* Null where the struct above is. */
static pennon_status mask_nulls(const struct ArrowArray *above, struct ArrowArray *array, struct mem *m, pennon_error *err)
{
    if (above->null_count == 0 || array->n_buffers == 0) return PENNON_OK;
    ASSERT(above->length == array->length && above->offset == 0 && array->offset == 0);
    pennon_status st = PENNON_OK;
    struct buf both;
    uint64_t n = (uint64_t)array->length;
    const uint8_t *own = array->null_count ? array->buffers[0] : NULL, *mask = above->buffers[0];
    buf_init(&both, m, BUF_NO_LIMIT);
    TRY(buf_append(&both, mask, (size_t)bitmap_bytes(n), err));
    for (size_t i = 0; own && i < both.size; i++) both.data[i] = (uint8_t)(both.data[i] & own[i]);
    array->null_count = array->length - (int64_t)bitmap_count(both.data, 0, n);
    array_give_buf(array, 0, &both);
done:
    buf_free(&both);
    return st;
}

/* A deep copy: when two result columns come from one read column. */
static pennon_status copy_array(const struct ArrowSchema *schema, const struct ArrowArray *array, struct mem *m,
                                struct ArrowArray *out, pennon_error *err)
{
    return array_copy_range(schema, array, 0, array->length, 0, m, out, err);
}

static pennon_status take_column(struct reading *rd, const struct output_column *col, struct ArrowArray *columns, bool shared,
                                 struct ArrowArray *out, pennon_error *err)
{
    struct ArrowArray *at = columns->children[col->path[0]], *chain[64];
    ASSERT(col->depth >= 1 && col->depth <= ARRAY_LEN(chain)); /* the plan goes no deeper */
    const struct field *f = rd->plan->read->fields[col->path[0]];
    const struct ArrowSchema *schema = rd->plan->read_arrow.children[col->path[0]];
    for (uint32_t i = 1; i < col->depth; i++) {
        chain[i - 1] = at;
        at = at->children[col->path[i]];
        schema = schema->children[col->path[i]];
        f = f->children[col->path[i]];
    }
    if (shared) {
        TRY_RETURN(copy_array(schema, at, rd->c->mem, out, err));
    } else {
        array_move(at, out);
    }
    for (uint32_t i = 0; i + 1 < col->depth; i++) TRY_RETURN(mask_nulls(chain[i], out, rd->c->mem, err));
    return col->as_stored ? PENNON_OK : convert_json(f, rd->c->mem, out, err);
}

/* Does a later result column need the same read column? */
static bool used_again(const struct column_plan *p, size_t i)
{
    for (size_t k = i + 1; k < p->n_columns; k++) {
        if (p->columns[k].system == SYSTEM_NONE && p->columns[k].path[0] == p->columns[i].path[0]) return true;
    }
    return false;
}

static pennon_status arrange(struct reading *rd, struct ArrowArray *columns, uint64_t first_live, const struct deletion_vector *dv,
                             struct ArrowArray *out, pennon_error *err)
{
    const struct column_plan *p = rd->plan;
    TRY_RETURN(array_new(out, 1, p->n_columns, rd->c->mem, err));
    out->length = (int64_t)rd->count;
    for (size_t i = 0; i < p->n_columns; i++) {
        if (p->columns[i].system != SYSTEM_NONE) {
            TRY_RETURN(system_array(rd, p->columns[i].system, first_live, dv, out->children[i], err));
        } else {
            TRY_RETURN(take_column(rd, &p->columns[i], columns, used_again(p, i), out->children[i], err));
        }
    }
    return PENNON_OK;
}

/* Keep the live rows. */
static pennon_status drop_deleted(struct reading *rd, const struct deletion_vector *dv, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf bits, part;
    struct ArrowArray live = {0};
    uint64_t at = 0, kept = 0;
    buf_init(&bits, rd->c->mem, BUF_NO_LIMIT);
    buf_init(&part, rd->c->mem, BUF_NO_LIMIT);
    TRY(buf_resize_zero(&bits, (size_t)bitmap_bytes(rd->count), err));
    for (size_t i = 0; i < rd->n; i++) {
        uint64_t n = rd->rows[i].end - rd->rows[i].start;
        TRY(buf_resize_zero(&part, (size_t)bitmap_bytes(n), err));
        kept += deletion_vector_live_bits(dv, rd->rows[i].start, rd->rows[i].end, part.data);
        bitmap_copy(bits.data, at, part.data, 0, n);
        part.size = 0;
        at += n;
    }
    ASSERT(at == rd->count && kept <= at);
    if (kept == rd->count) goto done;
    TRY(array_filter(&rd->plan->arrow, batch, bits.data, 0, rd->c->mem, &live, err));
    array_release(batch);
    array_move(&live, batch);
done:
    buf_free(&bits);
    buf_free(&part);
    return st;
}

/* Where values are large, or lie elsewhere, those of deleted rows are not read: the live rows become the rows to read. `out` is in c->mem. */
static pennon_status only_live(struct reading *rd, const struct deletion_vector *dv, struct row_range **out, pennon_error *err)
{
    size_t cap = 0, n = 0;
    *out = NULL;
    rd->count = 0;
    for (size_t i = 0; i < rd->n; i++) {
        for (uint64_t row = rd->rows[i].start; row < rd->rows[i].end; row++) {
            if (deletion_vector_contains(dv, (uint32_t)row)) continue;
            rd->count++;
            if (n && (*out)[n - 1].end == row) {
                (*out)[n - 1].end++;
                continue;
            }
            TRY_RETURN(mem_grow(rd->c->mem, out, &cap, n, sizeof **out, SIZE_MAX / 64, err));
            (*out)[n++] = (struct row_range){row, row + 1};
        }
    }
    rd->rows = *out;
    rd->n = n;
    return PENNON_OK;
}

bool column_plan_reads_blobs(const struct column_plan *p)
{
    if (p->blobs != BLOB_AS_BYTES && p->blobs != BLOB_AS_INPUT) return false;
    for (size_t i = 0; i < p->read->n_fields; i++) {
        if (field_has_blob(p->read->fields[i])) return true;
    }
    return false;
}

static pennon_status read_rows(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct fragment *f,
                               const struct column_plan *plan, const struct row_range *rows, size_t n, uint64_t first_live,
                               bool all_live, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct reading rd = {.c = c, .s = s, .f = f, .plan = plan, .rows = rows, .n = n};
    struct ArrowArray columns = {0};
    struct deletion_vector *dv = NULL;
    struct row_range *live = NULL;
    bool early, drop;
    out->release = NULL;
    for (size_t i = 0; i < n; i++) rd.count += rows[i].end - rows[i].start;
    if (!all_live || plan->uses[SYSTEM_ROW_OFFSET]) TRY(fragment_deletions(c, s, f, &dv, err));
    drop = dv && !all_live && !plan->with_deleted;
    early = drop && column_plan_reads_blobs(plan);
    if (early) TRY(only_live(&rd, dv, &live, err));
    if (plan->plain) {
        TRY(read_columns(&rd, fc, out, err));
    } else {
        if (plan->read->n_fields) TRY(read_columns(&rd, fc, &columns, err));
        TRY(arrange(&rd, &columns, first_live, dv, out, err));
    }
    if (drop && !early) TRY(drop_deleted(&rd, dv, out, err));
done:
    mem_free(c->mem, live);
    array_release(&columns);
    deletion_vector_release(dv);
    if (st != PENNON_OK) array_release(out);
    return st;
}

pennon_status fragment_read(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct fragment *f,
                            const struct column_plan *plan, const struct row_range *rows, size_t n, uint64_t first_live,
                            struct ArrowArray *out, pennon_error *err)
{
    return read_rows(c, fc, s, f, plan, rows, n, first_live, false, out, err);
}

pennon_status fragment_read_live(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct fragment *f,
                                 const struct column_plan *plan, const struct row_range *rows, size_t n, uint64_t first_live,
                                 struct ArrowArray *out, pennon_error *err)
{
    return read_rows(c, fc, s, f, plan, rows, n, first_live, true, out, err);
}
