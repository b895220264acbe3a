/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Projections: which columns serve the fields asked for, what the leaves hold, and how decoded leaves become nested arrays.
 *
 * A leaf knows the structure of all its ancestors (layers, from the leaf outward). For a container the first leaf below it speaks; the
 * other leaves must agree in length.
 * Source: spec file-format 4.3, 4.4, 5.1. */
#include "file/file_private.h"

/* ---- leaf types ---- */

static pennon_status fixed_leaf(const struct arrow_type *t, struct leaf_type *out, pennon_error *err)
{
    if (t->layout == LAYOUT_BITS) {
        out->kind = LEAF_BITS;
        return PENNON_OK;
    }
    size_t width = t->id == ARROW_FIXED_SIZE_BINARY ? (size_t)t->fixed_size : arrow_type_width(t);
    if (t->layout != LAYOUT_FIXED || width == 0 || width > 1u << 28) {
        return error_set(err, PENNON_NOT_SUPPORTED, "columns of type %s", arrow_id_name(t->id));
    }
    out->kind = LEAF_FIXED;
    out->width = (uint32_t)width;
    return PENNON_OK;
}

/* Lists of fixed size down to their items. */
static pennon_status fixed_list_leaf(const struct ArrowSchema *schema, struct leaf_type *out, pennon_error *err)
{
    struct arrow_type t;
    for (;;) {
        TRY_RETURN(arrow_type_of(schema, &t, err));
        if (t.layout != LAYOUT_FIXED_LIST) return fixed_leaf(&t, out, err);
        if (out->n_dims == LEAF_MAX_DIMS || t.fixed_size <= 0)
            return error_set(err, PENNON_NOT_SUPPORTED, "fixed size lists of %u dimensions", out->n_dims + 1);
        out->dims[out->n_dims++] = (uint32_t)t.fixed_size;
        if (leaf_items(out) > UINT32_MAX) return error_set(err, PENNON_NOT_SUPPORTED, "fixed size lists of more than 2^32 items");
        schema = schema->children[0];
    }
}

static pennon_status packed_leaf(struct arena *a, const struct ArrowSchema *schema, struct leaf_type *out, pennon_error *err)
{
    size_t n = (size_t)schema->n_children;
    struct leaf_type *children = arena_calloc(a, n + 1, sizeof *children, err);
    if (!children) return err->code;
    for (size_t i = 0; i < n; i++) TRY_RETURN(leaf_type_of_arrow(a, schema->children[i], &children[i], err));
    out->kind = LEAF_PACKED;
    out->children = children;
    out->n_children = (uint32_t)n;
    return PENNON_OK;
}

pennon_status leaf_type_of_arrow(struct arena *a, const struct ArrowSchema *schema, struct leaf_type *out, pennon_error *err)
{
    struct arrow_type t;
    memset(out, 0, sizeof *out);
    TRY_RETURN(arrow_type_of(schema, &t, err));
    if (t.id == ARROW_DICTIONARY) {
        struct leaf_type *value = arena_calloc(a, 1, sizeof *value, err);
        if (!value) return err->code;
        out->kind = LEAF_DICTIONARY;
        out->width = (uint32_t)arrow_type_width(&t);
        out->signed_keys = arrow_id_is_signed(t.index);
        out->value = value;
        return leaf_type_of_arrow(a, schema->dictionary, value, err);
    }
    switch (t.layout) {
    case LAYOUT_NULL: out->kind = LEAF_NULL; return PENNON_OK;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
        out->kind = LEAF_VARIABLE;
        out->large = t.layout == LAYOUT_VAR64;
        return PENNON_OK;
    case LAYOUT_FIXED_LIST: return fixed_list_leaf(schema, out, err);
    case LAYOUT_STRUCT: return packed_leaf(a, schema, out, err);
    default: return fixed_leaf(&t, out, err);
    }
}

static bool is_empty_struct(const struct field *f) { return f->kind == FIELD_STRUCT && f->n_children == 0; }

pennon_status leaf_type_of(struct arena *a, const struct field *f, struct leaf_type *out, pennon_error *err)
{
    memset(out, 0, sizeof *out);
    pennon_status st = PENNON_OK;
    struct ArrowSchema descriptor = {0};
    if (f->kind == FIELD_BLOB_V1) {
        *out = (struct leaf_type){.kind = LEAF_BLOB, .width = 16};
        return PENNON_OK;
    }
    if (is_empty_struct(f)) {
        *out = (struct leaf_type){.kind = LEAF_PACKED};
        return PENNON_OK;
    }
    if (f->kind == FIELD_BLOB_V2) {
        st = field_to_arrow(f, SCHEMA_VIEW_FILE, BLOB_AS_DESCRIPTOR, a->mem, &descriptor, err);
        if (st == PENNON_OK) st = packed_leaf(a, &descriptor, out, err);
        arrow_schema_release(&descriptor);
    } else {
        st = leaf_type_of_arrow(a, &f->arrow, out, err);
    }
    return st == PENNON_OK ? st : error_prefix(err, "column '%s'", f->name);
}

static struct layer_spec spec_of(const struct field *f)
{
    if (f->kind == FIELD_LIST || f->kind == FIELD_MAP) return (struct layer_spec){ROLE_LIST, f->type.layout == LAYOUT_LIST64, 0};
    if (f->kind == FIELD_FSL_STRUCT) return (struct layer_spec){ROLE_FSL, false, (uint32_t)f->type.fixed_size};
    return (struct layer_spec){ROLE_ITEM, false, 0};
}

pennon_status layer_specs_of(struct arena *a, const struct field *leaf, struct layer_spec **specs, uint32_t *n, uint32_t *dimension,
                             pennon_error *err)
{
    uint32_t count = leaf->kind == FIELD_BLOB_V2; /* the descriptor is an item of its own inside the blob */
    for (const struct field *f = leaf; f; f = f->parent) count++;
    if (count > LAYERS_MAX) return error_set(err, PENNON_NOT_SUPPORTED, "columns nested %u deep", count);
    *specs = arena_calloc(a, count, sizeof **specs, err);
    if (!*specs) return err->code;
    uint32_t at = 0;
    uint64_t dims = 1;
    if (leaf->kind == FIELD_BLOB_V2) (*specs)[at++] = (struct layer_spec){ROLE_ITEM, false, 0};
    for (const struct field *f = leaf; f; f = f->parent) {
        struct layer_spec s = f == leaf ? (struct layer_spec){ROLE_ITEM, false, 0} : spec_of(f);
        if (s.role == ROLE_FSL) {
            if (s.dimension == 0 || mul_overflows(dims, s.dimension, &dims) || dims > UINT32_MAX) {
                return error_set(err, PENNON_NOT_SUPPORTED, "fixed size lists of %u structs", s.dimension);
            }
        }
        (*specs)[at++] = s;
    }
    *n = count;
    *dimension = (uint32_t)dims;
    return PENNON_OK;
}

/* ---- nodes ---- */

struct node_builder {
    struct file_projection *p;
    const struct column_map *map;
    uint32_t depth_of_leaf; /* layers below the node while unwinding */
    size_t cap_columns, cap_nodes;
    pennon_error *err;
};

/* Has values of its own: the leaves of every version. */
static bool owns_column(const struct field *f) { return field_owns_column(f, STORAGE_2_1); }

static pennon_status map_column(const struct node_builder *b, const struct field *f, uint32_t *column)
{
    pennon_error *err = b->err;
    for (size_t i = 0; i < b->map->n; i++) {
        if (b->map->ids[i] != f->id || b->map->columns[i] < 0) continue;
        *column = (uint32_t)b->map->columns[i];
        CHECK_FILE_RETURN(*column < b->p->reader->n_columns, "field '%s' in column %u of %u", f->name, *column,
                          b->p->reader->n_columns);
        return PENNON_OK;
    }
    return error_set(err, PENNON_NOT_FOUND, "the file has no column for field '%s' (id %d)", f->name, f->id);
}

static pennon_status build_node(struct node_builder *b, const struct field *f, struct file_node *node);

/* Version 0.1 knows neither blobs nor fields that are packed: such marks change nothing in its files. */
static pennon_status legacy_leaf(const struct node_builder *b, const struct field *f, struct file_node *node)
{
    pennon_error *err = b->err;
    struct leaf_type *type = arena_calloc(&b->p->arena, 1, sizeof *type, err);
    if (!type) return err->code;
    node->type = type;
    if (f->kind == FIELD_BLOB_V1) {
        if (b->p->blobs == BLOB_AS_DESCRIPTOR)
            return error_set(err, PENNON_NOT_SUPPORTED, "blobs of '%s' as descriptors: files of version 0.1 hold bytes", f->name);
        *type = (struct leaf_type){.kind = LEAF_VARIABLE, .large = true};
        return PENNON_OK;
    }
    TRY_RETURN(leaf_type_of(&b->p->arena, f, type, err));
    if (type->kind == LEAF_PACKED)
        return error_set(err, PENNON_NOT_SUPPORTED, "field '%s' of type %s in a file of version 0.1", f->name, f->logical_type);
    return PENNON_OK;
}

static pennon_status build_leaf(struct node_builder *b, const struct field *f, struct file_node *node)
{
    struct file_projection *p = b->p;
    /* The bytes of a blob are found by its descriptors, which a packed struct does not keep as a column. */
    if (field_has_blob(f) && f->kind != FIELD_BLOB_V1 && f->kind != FIELD_BLOB_V2)
        return error_set(b->err, PENNON_NOT_SUPPORTED, "the packed field '%s' holds a blob", f->name);
    node->is_leaf = true;
    node->leaf = p->n_leaves;
    node->layer = f->kind == FIELD_BLOB_V2 ? 1 : 0;
    TRY_RETURN(p->reader->version == STORAGE_LEGACY ? legacy_leaf(b, f, node) : map_column(b, f, &node->column));
    TRY_RETURN(mem_grow(p->mem, &p->leaf_columns, &b->cap_columns, p->n_leaves, sizeof *p->leaf_columns, 1u << 24, b->err));
    TRY_RETURN(mem_grow(p->mem, &p->leaf_nodes, &b->cap_nodes, p->n_leaves, sizeof(void *), 1u << 24, b->err));
    p->leaf_columns[p->n_leaves] = node->column;
    p->leaf_nodes[p->n_leaves++] = node;
    return PENNON_OK;
}

static pennon_status build_node(struct node_builder *b, const struct field *f, struct file_node *node)
{
    struct file_projection *p = b->p;
    node->field = f;
    uint32_t version = p->reader->version;
    bool packed = version == STORAGE_LEGACY && f->kind == FIELD_PACKED_STRUCT && f->n_children;
    if (owns_column(f) && !packed) return build_leaf(b, f, node);
    if (version == STORAGE_2_0 || version == STORAGE_LEGACY) {
        if (f->kind != FIELD_STRUCT && f->kind != FIELD_LIST && !packed) {
            return error_set(b->err, PENNON_NOT_SUPPORTED, "field '%s' of type %s in a file of version %s", f->name,
                             f->logical_type, version == STORAGE_2_0 ? "2.0" : "0.1");
        }
        /* The header column of a struct holds nothing. */
        if (f->kind == FIELD_LIST && version == STORAGE_2_0) TRY_RETURN(map_column(b, f, &node->column));
    }
    node->leaf = p->n_leaves;
    node->n_children = (uint32_t)f->n_children;
    node->children = arena_calloc(&p->arena, f->n_children + 1, sizeof *node->children, b->err);
    if (!node->children) return b->err->code;
    for (uint32_t i = 0; i < node->n_children; i++) TRY_RETURN(build_node(b, f->children[i], &node->children[i]));
    if (node->n_children == 0 || p->n_leaves == node->leaf)
        return error_set(b->err, PENNON_NOT_SUPPORTED, "field '%s' without columns", f->name);
    node->layer = node->children[0].layer + 1;
    return PENNON_OK;
}

/* Ids and columns of the file's own schema. */
struct own_columns {
    int32_t *ids, *columns;
    size_t n, cap_ids, cap_columns;
    struct mem *mem;
};

static pennon_status add_own(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    struct own_columns *o = ctx;
    TRY_RETURN(mem_grow(o->mem, &o->ids, &o->cap_ids, o->n, sizeof *o->ids, 1u << 24, err));
    TRY_RETURN(mem_grow(o->mem, &o->columns, &o->cap_columns, o->n, sizeof *o->columns, 1u << 24, err));
    o->ids[o->n] = f->id;
    o->columns[o->n++] = (int32_t)column;
    return PENNON_OK;
}

/* Two fields of one file can only share a column when they read it as the same type. */
static bool same_type(const struct leaf_type *a, const struct leaf_type *b)
{
    if (a->kind != b->kind || a->width != b->width || a->large != b->large || a->n_dims != b->n_dims ||
        a->n_children != b->n_children)
        return false;
    if (memcmp(a->dims, b->dims, sizeof a->dims) != 0) return false;
    if (a->kind == LEAF_DICTIONARY && !same_type(a->value, b->value)) return false;
    for (uint32_t i = 0; i < a->n_children; i++) {
        if (!same_type(&a->children[i], &b->children[i])) return false;
    }
    return true;
}

static bool same_specs(const struct layer_spec *a, const struct layer_spec *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (a[i].role != b[i].role || a[i].large != b[i].large || a[i].dimension != b[i].dimension) return false;
    }
    return true;
}

/* Set the type of a column on its first use; later uses must agree. */
static pennon_status type_column(struct file_reader *r, const struct file_node *node, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_column *col = &r->columns[node->column];
    struct leaf_type type;
    struct layer_spec *specs;
    uint32_t n, dimension;
    struct arena scratch;
    arena_init(&scratch, r->mem);
    (void)pthread_mutex_lock(&r->lock);
    struct arena *a = col->typed ? &scratch : &r->arena;
    TRY(leaf_type_of(a, node->field, &type, err));
    TRY(layer_specs_of(a, node->field, &specs, &n, &dimension, err));
    if (!col->typed) {
        col->type = type;
        col->specs = specs;
        col->n_specs = n;
        col->dimension = dimension;
        col->typed = true;
    }
    bool same = same_type(&col->type, &type) && col->n_specs == n && same_specs(col->specs, specs, n);
    CHECK_FILE(same, "column %u serves fields of different types", node->column);
done:
    (void)pthread_mutex_unlock(&r->lock);
    arena_reset(&scratch);
    return st;
}

static pennon_status build_nodes(struct file_projection *p, const struct column_map *map, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct own_columns own = {.mem = p->mem};
    struct column_map own_map = {0};
    if (p->reader->version == STORAGE_LEGACY) {
        p->first_id = map && map->n ? map->ids[0] : FIELD_NO_ID;
        map = &own_map;
    }
    if (!map) {
        const struct schema *file_schema = NULL;
        struct call none = {0};
        TRY(file_reader_schema(&none, p->reader, &file_schema, err));
        TRY(schema_walk_columns(file_schema, p->reader->version, add_own, &own, err));
        own_map = (struct column_map){own.ids, own.columns, own.n};
        map = &own_map;
    }
    struct node_builder b = {.p = p, .map = map, .err = err};
    p->n_nodes = (uint32_t)p->schema->n_fields;
    TRY_NEW(p->nodes, arena_calloc(&p->arena, p->schema->n_fields + 1, sizeof *p->nodes, err));
    for (uint32_t i = 0; i < p->n_nodes; i++) TRY(build_node(&b, p->schema->fields[i], &p->nodes[i]));
    /* A file without rows may have columns that no file with rows can have. */
    for (uint32_t i = 0; i < p->n_leaves && p->reader->version != STORAGE_LEGACY && p->reader->rows; i++)
        TRY(type_column(p->reader, p->leaf_nodes[i], err));
done:
    mem_free(p->mem, own.ids);
    mem_free(p->mem, own.columns);
    return st;
}

pennon_status file_projection_new(struct file_reader *r, struct schema *schema, const struct column_map *map,
                                  enum blob_handling blobs, struct mem *m, struct file_projection **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_projection *p;
    TRY_NEW(p, mem_calloc(m, 1, sizeof *p, err));
    p->mem = mem_retain(m);
    arena_init(&p->arena, m);
    p->reader = file_reader_retain(r);
    p->schema = schema_retain(schema);
    p->blobs = blobs;
    for (size_t i = 0; i < schema->n_fields && r->version != STORAGE_LEGACY; i++)
        p->has_blobs = p->has_blobs || field_has_blob(schema->fields[i]);
    TRY(schema_to_arrow(schema, SCHEMA_VIEW_FILE, blobs, m, &p->arrow, err));
    TRY(schema_to_arrow(schema, SCHEMA_VIEW_FILE, BLOB_AS_DESCRIPTOR, m, &p->decoded, err));
    TRY(build_nodes(p, map, err));
    *out = p;
    p = NULL;
done:
    if (p) {
        st = file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
        file_projection_free(p);
    }
    return st;
}

void file_projection_free(struct file_projection *p)
{
    if (!p) return;
    arrow_schema_release(&p->arrow);
    arrow_schema_release(&p->decoded);
    schema_release(p->schema);
    file_reader_release(p->reader);
    struct mem *m = p->mem;
    mem_free(m, p->leaf_columns);
    mem_free(m, p->leaf_nodes);
    arena_reset(&p->arena);
    mem_free(m, p);
    mem_release(m);
}

void file_projection_map(struct file_projection *p) { p->map = true; }

void file_projection_external(struct file_projection *p, blob_locate_fn fn, void *ctx)
{
    p->external = fn;
    p->external_ctx = ctx;
}

const struct ArrowSchema *file_projection_arrow(const struct file_projection *p) { return &p->arrow; }

/* ---- assembly ---- */

pennon_status file_layer_array(struct layer_out *l, size_t n_buffers, size_t n_children, struct mem *m, struct ArrowArray *out,
                               pennon_error *err)
{
    TRY_RETURN(array_new(out, n_buffers, n_children, m, err));
    out->length = (int64_t)l->length;
    out->null_count = (int64_t)l->nulls;
    if (l->nulls) array_give_buf(out, 0, &l->validity);
    if (n_buffers == 2) array_give_buf(out, 1, &l->offsets);
    return PENNON_OK;
}

static pennon_status assemble(const struct file_projection *p, const struct file_node *node, const struct ArrowSchema *schema,
                              struct leaf_out *leaves, struct mem *m, struct ArrowArray *out, pennon_error *err)
{
    struct leaf_out *leaf = &leaves[node->leaf];
    if (node->is_leaf) {
        if (node->field->kind == FIELD_BLOB_V2) {
            /* The nulls of the blob stand in its own layer, outside the descriptor's. */
            struct layer_out inner = leaf->layers[0];
            leaf->layers[0] = leaf->layers[1];
            leaf->layers[1] = inner;
        }
        return leaf_out_finish(leaf, schema, out, err);
    }
    bool list = node->field->kind == FIELD_LIST || node->field->kind == FIELD_MAP;
    uint64_t length = leaf->layers[node->layer].length;
    uint64_t want = list ? leaf->layers[node->layer].items : length;
    if (node->field->kind == FIELD_FSL_STRUCT) want = length * (uint64_t)node->field->type.fixed_size;
    TRY_RETURN(file_layer_array(&leaf->layers[node->layer], list ? 2 : 1, node->n_children, m, out, err));
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct ArrowArray *child = out->children[i];
        TRY_RETURN(assemble(p, &node->children[i], schema->children[i], leaves, m, child, err));
        CHECK_FILE_RETURN((uint64_t)child->length == want,
                          "column of field '%s' has %" PRId64 " values where %" PRIu64 " were expected",
                          node->children[i].field->name, child->length, want);
    }
    return PENNON_OK;
}

pennon_status file_assemble(const struct file_projection *p, struct leaf_out *leaves, uint64_t rows, struct mem *m,
                            struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    out->release = NULL;
    TRY(array_new(out, 1, p->n_nodes, m, err));
    out->length = (int64_t)rows;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        /* Descriptors first; bytes of blobs, where wanted, are read from them later. */
        TRY(assemble(p, &p->nodes[i], p->decoded.children[i], leaves, m, out->children[i], err));
        CHECK_FILE((uint64_t)out->children[i]->length == rows,
                   "column of field '%s' has %" PRId64 " rows where %" PRIu64 " were expected", p->nodes[i].field->name,
                   out->children[i]->length, rows);
    }
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}
