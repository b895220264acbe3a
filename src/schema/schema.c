/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Life of a schema, copies of fields, projections by id, and the walk over the columns of a file.
 *
 * A schema is built as a bare tree (schema_new, field_new), then finished once: parents, kinds, Arrow forms, and two sorted indices
 * so that looking up ids and names of wide tables is O(log n).
 * Source: spec file-format 4.3, table-format 7. */
#include <stdatomic.h>
#include <stdlib.h>

#include "schema/schema_private.h"

struct schema *schema_new(struct mem *m, pennon_error *err)
{
    struct schema *s = mem_calloc(m, 1, sizeof *s, err);
    if (s == NULL) return NULL;
    s->mem = mem_retain(m);
    arena_init(&s->arena, m);
    atomic_init(&s->refs, 1);
    return s;
}

struct schema *schema_retain(struct schema *s)
{
    ASSERT(s != NULL);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void schema_release(struct schema *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = s->mem;
    schema_origin_release(s->origin);
    arena_reset(&s->arena);
    mem_free(m, s);
    mem_release(m);
}

/* ---- origin ---- */

struct schema_origin *schema_origin_new(struct mem *m, uint64_t file_size, pennon_error *err)
{
    struct schema_origin *o = mem_calloc(m, 1, sizeof *o, err);
    if (o == NULL) return NULL;
    o->mem = mem_retain(m);
    o->file_size = file_size;
    atomic_init(&o->refs, 1);
    return o;
}

pennon_status schema_origin_add(struct schema_origin *o, uint64_t at, struct block *block, pennon_error *err)
{
    ASSERT(range_inside(at, block->size, o->file_size));
    pennon_status st = mem_grow(o->mem, &o->parts, &o->cap_parts, o->n_parts, sizeof *o->parts, SIZE_MAX / 64, err);
    if (st != PENNON_OK) {
        block_release(block);
        return st;
    }
    o->parts[o->n_parts++] = (struct origin_part){at, block};
    return PENNON_OK;
}

static struct schema_origin *origin_retain(struct schema_origin *o)
{
    if (o != NULL) atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void schema_origin_release(struct schema_origin *o)
{
    if (o == NULL || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = o->mem;
    for (size_t i = 0; i < o->n_parts; i++) block_release(o->parts[i].block);
    mem_free(m, o->parts);
    mem_free(m, o);
    mem_release(m);
}

void schema_set_origin(struct schema *s, struct schema_origin *o)
{
    ASSERT(s->origin == NULL);
    s->origin = o;
}

bool schema_has_dictionaries(const struct schema *s)
{
    for (size_t i = 0; i < s->n_all; i++) {
        if (s->by_id[i]->type.id == ARROW_DICTIONARY) return true;
    }
    return false;
}

/* ---- metadata pairs ---- */

struct pair_place {
    struct field_pair pair;
    size_t place;
};

static int compare_bytes(struct bytes a, struct bytes b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_places(const void *x, const void *y)
{
    const struct pair_place *a = x, *b = y;
    int order = compare_bytes(a->pair.key, b->pair.key);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

static pennon_status bytes_copy(struct arena *a, struct bytes from, struct bytes *out, pennon_error *err)
{
    char *text = arena_strndup(a, from.size > 0 ? (const char *)from.data : "", from.size, err);
    if (text == NULL) return err->code;
    *out = bytes_of(text, from.size);
    return PENNON_OK;
}

pennon_status pairs_copy(struct arena *a, const struct field_pair *from, size_t n, const struct field_pair **out, size_t *n_out,
                         pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct pair_place *sorted = NULL;
    struct field_pair *pairs = NULL;
    size_t kept = 0;
    *out = NULL;
    *n_out = 0;
    if (n == 0) return PENNON_OK;
    TRY_NEW(sorted, mem_calloc(a->mem, n, sizeof *sorted, err));
    TRY_NEW(pairs, arena_calloc(a, n, sizeof *pairs, err));
    for (size_t i = 0; i < n; i++) sorted[i] = (struct pair_place){from[i], i};
    if (n > 1) qsort(sorted, n, sizeof *sorted, compare_places);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && bytes_equal(sorted[i].pair.key, sorted[i + 1].pair.key)) continue;
        TRY(bytes_copy(a, sorted[i].pair.key, &pairs[kept].key, err));
        TRY(bytes_copy(a, sorted[i].pair.value, &pairs[kept].value, err));
        kept++;
    }
    *out = pairs;
    *n_out = kept;
done:
    mem_free(a->mem, sorted);
    return st;
}

struct bytes pairs_get(const struct field_pair *pairs, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_are(pairs[i].key, key)) return pairs[i].value;
    }
    return bytes_of(NULL, 0);
}

static bool is_listed(struct bytes key, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        if (bytes_are(key, *list)) return true;
    }
    return false;
}

/* One length-prefixed text; the lengths of the interface are in the machine's byte order. */
static char *put_text(char *to, struct bytes text)
{
    int32_t n = (int32_t)text.size;
    memcpy(to, &n, sizeof n);
    if (text.size > 0) memcpy(to + sizeof n, text.data, text.size);
    return to + sizeof n + text.size;
}

pennon_status pairs_encode(struct arena *a, const struct field_pair *pairs, size_t n, const char *const *without, const char **out,
                           pennon_error *err)
{
    size_t size = sizeof(int32_t);
    int32_t count = 0;
    *out = NULL;
    for (size_t i = 0; i < n; i++) {
        if (is_listed(pairs[i].key, without)) continue;
        size += 2 * sizeof(int32_t) + pairs[i].key.size + pairs[i].value.size;
        CHECK_FILE_RETURN(size <= INT32_MAX, "schema: more than 2 GiB of metadata");
        count++;
    }
    if (count == 0) return PENNON_OK;
    char *block = arena_alloc(a, size, err);
    if (block == NULL) return err->code;
    char *at = block;
    memcpy(at, &count, sizeof count);
    at += sizeof count;
    for (size_t i = 0; i < n; i++) {
        if (is_listed(pairs[i].key, without)) continue;
        at = put_text(at, pairs[i].key);
        at = put_text(at, pairs[i].value);
    }
    ASSERT(at == block + size);
    *out = block;
    return PENNON_OK;
}

struct bytes field_metadata_get(const struct field *f, const char *key) { return pairs_get(f->metadata, f->n_metadata, key); }

/* ---- fields ---- */

struct field *field_new(struct schema *s, size_t n_children, pennon_error *err)
{
    struct field *f = arena_calloc(&s->arena, 1, sizeof *f, err);
    if (f == NULL) return NULL;
    f->id = FIELD_NO_ID;
    f->parent_id = -1;
    f->n_children = n_children;
    if (n_children > 0) {
        f->children = arena_calloc(&s->arena, n_children, sizeof(struct field *), err);
        if (f->children == NULL) return NULL;
    }
    return f;
}

struct field *field_copy_flat(struct schema *s, const struct field *from, size_t n_children, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct field *f = NULL;
    struct dictionary_message *dictionary = NULL;
    TRY_NEW(f, field_new(s, n_children, err));
    f->id = from->id;
    f->parent_id = from->parent_id;
    f->nullable = from->nullable;
    f->primary_key = from->primary_key;
    f->clustering_key = from->clustering_key;
    f->primary_key_position = from->primary_key_position;
    f->clustering_key_position = from->clustering_key_position;
    f->wire_encoding = from->wire_encoding;
    TRY_NEW(f->name, arena_strndup(&s->arena, from->name, strlen(from->name), err));
    TRY_NEW(f->logical_type, arena_strndup(&s->arena, from->logical_type, strlen(from->logical_type), err));
    TRY(pairs_copy(&s->arena, from->metadata, from->n_metadata, &f->metadata, &f->n_metadata, err));
    if (from->unknown.size > 0) TRY(bytes_copy(&s->arena, from->unknown, &f->unknown, err));
    if (from->dictionary != NULL) {
        TRY_NEW(dictionary, arena_calloc(&s->arena, 1, sizeof *dictionary, err));
        *dictionary = (struct dictionary_message){.offset = from->dictionary->offset, .length = from->dictionary->length};
        if (from->dictionary->unknown.size > 0) TRY(bytes_copy(&s->arena, from->dictionary->unknown, &dictionary->unknown, err));
        f->dictionary = dictionary;
    }
done:
    return st == PENNON_OK ? f : NULL;
}

struct field *field_copy(struct schema *s, const struct field *from, pennon_error *err)
{
    struct field *f = field_copy_flat(s, from, from->n_children, err);
    for (size_t i = 0; f != NULL && i < from->n_children; i++) {
        f->children[i] = field_copy(s, from->children[i], err);
        if (f->children[i] == NULL) return NULL;
    }
    return f;
}

/* A schema without fields that has the metadata of `s` and room for n top-level fields. */
static pennon_status schema_copy_frame(struct mem *m, const struct schema *s, size_t n, struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *copy = NULL;
    TRY_NEW(copy, schema_new(m, err));
    TRY(pairs_copy(&copy->arena, s->metadata, s->n_metadata, &copy->metadata, &copy->n_metadata, err));
    TRY_NEW(copy->fields, arena_calloc(&copy->arena, n, sizeof(struct field *), err));
    copy->origin = origin_retain(s->origin);
    *out = copy;
    copy = NULL;
done:
    schema_release(copy);
    return st;
}

/* ---- finishing ---- */

static pennon_status finish_field(struct schema *s, struct field *f, struct field *parent, unsigned depth, size_t *count,
                                  pennon_error *err)
{
    CHECK_FILE_RETURN(depth <= FIELD_MAX_DEPTH, "schema: field '%.128s' nests deeper than %d", f->name, ARROW_MAX_DEPTH);
    CHECK_FILE_RETURN(++*count <= ARROW_MAX_FIELDS, "schema: more than %u fields", ARROW_MAX_FIELDS);
    f->parent = parent;
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(finish_field(s, f->children[i], f, depth + 1, count, err));
    return field_build(s, f, depth, err);
}

static int compare_ids(const void *x, const void *y)
{
    const struct field *a = *(const struct field *const *)x, *b = *(const struct field *const *)y;
    return (a->id > b->id) - (a->id < b->id);
}

/* Equal names keep the order of the table: the place decides. */
struct name_place {
    const struct field *field;
    size_t place;
};

static int compare_names(const void *x, const void *y)
{
    const struct name_place *a = x, *b = y;
    int order = strcmp(a->field->name, b->field->name);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

static void collect(struct field *const *fields, size_t n, const struct field **to, size_t *at)
{
    for (size_t i = 0; i < n; i++) {
        to[(*at)++] = fields[i];
        collect(fields[i]->children, fields[i]->n_children, to, at);
    }
}

static pennon_status index_names(struct schema *s, pennon_error *err)
{
    struct name_place *places = mem_calloc(s->mem, s->n_fields, sizeof *places, err);
    if (places == NULL) return err->code;
    for (size_t i = 0; i < s->n_fields; i++) places[i] = (struct name_place){s->fields[i], i};
    if (s->n_fields > 1) qsort(places, s->n_fields, sizeof *places, compare_names);
    for (size_t i = 0; i < s->n_fields; i++) s->by_name[i] = places[i].field;
    mem_free(s->mem, places);
    return PENNON_OK;
}

pennon_status schema_finish(struct schema *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t count = 0, at = 0;
    for (size_t i = 0; i < s->n_fields; i++) TRY(finish_field(s, s->fields[i], NULL, 1, &count, err));
    s->n_all = count;
    TRY_NEW(s->by_id, arena_calloc(&s->arena, count, sizeof *s->by_id, err));
    TRY_NEW(s->by_name, arena_calloc(&s->arena, s->n_fields, sizeof *s->by_name, err));
    collect(s->fields, s->n_fields, s->by_id, &at);
    ASSERT(at == count);
    if (count > 0) qsort(s->by_id, count, sizeof *s->by_id, compare_ids);
    if (s->n_fields > 0) TRY(index_names(s, err));
done:
    return st;
}

int32_t schema_max_id(const struct schema *s) { return s->n_all > 0 ? s->by_id[s->n_all - 1]->id : FIELD_NO_ID; }

/* ---- ids ---- */

static pennon_status number_field(struct field *f, int32_t parent_id, int64_t *next, pennon_error *err)
{
    if (f->id == FIELD_NO_ID) {
        if (*next > INT32_MAX)
            return error_set(err, PENNON_INVALID_ARGUMENT, "field ids are used up: the highest is %" PRId32, INT32_MAX);
        f->id = (int32_t)(*next)++;
    }
    f->parent_id = parent_id;
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(number_field(f->children[i], f->id, next, err));
    return PENNON_OK;
}

pennon_status schema_assign_ids(struct mem *m, const struct schema *s, int32_t next, struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *copy = NULL;
    int64_t first = (int64_t)schema_max_id(s) + 1;
    if (next > first) first = next;
    TRY(schema_copy_frame(m, s, s->n_fields, &copy, err));
    for (size_t i = 0; i < s->n_fields; i++) {
        TRY_NEW(copy->fields[i], field_copy(copy, s->fields[i], err));
        TRY(number_field(copy->fields[i], -1, &first, err));
    }
    copy->n_fields = s->n_fields;
    TRY(schema_finish(copy, err));
    *out = copy;
    copy = NULL;
done:
    schema_release(copy);
    return st;
}

/* ---- projection ---- */

static int compare_i32(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

struct id_set {
    const int32_t *ids; /* sorted */
    size_t n;
};

static bool id_set_has(const struct id_set *set, int32_t id)
{
    return set->n > 0 && bsearch(&id, set->ids, set->n, sizeof *set->ids, compare_i32) != NULL;
}

/* *out stays NULL when nothing of the field is asked for. */
static pennon_status project_field(struct schema *to, const struct field *f, const struct id_set *set, struct field **out,
                                   pennon_error *err)
{
    *out = NULL;
    if (id_set_has(set, f->id)) {
        *out = field_copy(to, f, err);
        return *out != NULL ? PENNON_OK : err->code;
    }
    if (f->n_children == 0) return PENNON_OK;
    struct field *copy = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < f->n_children; i++) {
        struct field *child;
        TRY_RETURN(project_field(to, f->children[i], set, &child, err));
        if (child == NULL) continue;
        /* What has to be whole stays whole: a map's key and value, blob children, a packed struct. */
        if (f->kind == FIELD_MAP || f->kind == FIELD_BLOB_V2 || f->kind == FIELD_PACKED_STRUCT) {
            *out = field_copy(to, f, err);
            return *out != NULL ? PENNON_OK : err->code;
        }
        if (copy == NULL) copy = field_copy_flat(to, f, f->n_children, err);
        if (copy == NULL) return err->code;
        copy->children[kept++] = child;
    }
    if (copy != NULL) copy->n_children = kept;
    *out = copy;
    return PENNON_OK;
}

pennon_status schema_project_ids(struct mem *m, const struct schema *s, const int32_t *ids, size_t n, struct schema **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *copy = NULL;
    int32_t *sorted = NULL;
    TRY(schema_copy_frame(m, s, s->n_fields, &copy, err));
    TRY_NEW(sorted, mem_calloc(m, n, sizeof *sorted, err));
    if (n > 0) {
        memcpy(sorted, ids, n * sizeof *sorted);
        if (n > 1) qsort(sorted, n, sizeof *sorted, compare_i32);
    }
    struct id_set set = {sorted, n};
    for (size_t i = 0; i < s->n_fields; i++) {
        struct field *f;
        TRY(project_field(copy, s->fields[i], &set, &f, err));
        if (f != NULL) copy->fields[copy->n_fields++] = f;
    }
    TRY(schema_finish(copy, err));
    *out = copy;
    copy = NULL;
done:
    mem_free(m, sorted);
    schema_release(copy);
    return st;
}

/* ---- blobs ---- */

bool field_has_blob(const struct field *f)
{
    if (f->kind == FIELD_BLOB_V1 || f->kind == FIELD_BLOB_V2) return true;
    for (size_t i = 0; i < f->n_children; i++) {
        if (field_has_blob(f->children[i])) return true;
    }
    return false;
}

/* A number of bytes; the plus is official's. */
static pennon_status read_threshold(const struct field *f, const char *key, uint64_t least, uint64_t *out, pennon_error *err)
{
    struct bytes text = field_metadata_get(f, key);
    uint64_t v = 0;
    if (text.data == NULL) return PENNON_OK;
    size_t at = text.size > 1 && text.data[0] == '+' ? 1 : 0;
    bool good = at < text.size;
    for (; good && at < text.size; at++) {
        good = text.data[at] >= '0' && text.data[at] <= '9' && v <= (UINT64_MAX - 9) / 10;
        v = v * 10 + (uint64_t)(text.data[at] - '0');
    }
    if (!good || v < least) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "column '%.128s': %s is '%.*s', not a number of bytes%s", f->name, key,
                        (int)min_u64(text.size, 64), (const char *)text.data, least > 0 ? " above 0" : "");
        return error_kind(err, "InvalidInput");
    }
    *out = v;
    return PENNON_OK;
}

pennon_status field_blob_thresholds(const struct field *f, struct blob_thresholds *out, pennon_error *err)
{
    *out = (struct blob_thresholds){(uint64_t)64 << 10, (uint64_t)4 << 20, (uint64_t)1 << 30};
    TRY_RETURN(read_threshold(f, KEY_BLOB_INLINE, 0, &out->inline_max, err));
    TRY_RETURN(read_threshold(f, KEY_BLOB_DEDICATED, 1, &out->dedicated, err));
    return read_threshold(f, KEY_BLOB_PACK, 1, &out->pack, err);
}

/* ---- columns of a file ---- */

bool field_owns_column(const struct field *f, uint32_t version)
{
    if (version < STORAGE_2_1) return true;
    switch (f->kind) {
    case FIELD_LEAF:
    case FIELD_PACKED_STRUCT:
    case FIELD_BLOB_V1:
    case FIELD_BLOB_V2: return true;
    case FIELD_STRUCT: return f->n_children == 0;
    default: return false;
    }
}

static pennon_status walk_field(const struct field *f, uint32_t version, column_fn fn, void *ctx, uint32_t *column,
                                pennon_error *err)
{
    if (field_owns_column(f, version)) TRY_RETURN(fn(ctx, f, (*column)++, err));
    if (f->kind == FIELD_PACKED_STRUCT || f->kind == FIELD_BLOB_V2) return PENNON_OK;
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(walk_field(f->children[i], version, fn, ctx, column, err));
    return PENNON_OK;
}

pennon_status schema_walk_columns(const struct schema *s, uint32_t version, column_fn fn, void *ctx, pennon_error *err)
{
    uint32_t column = 0;
    for (size_t i = 0; i < s->n_fields; i++) TRY_RETURN(walk_field(s->fields[i], version, fn, ctx, &column, err));
    return PENNON_OK;
}
