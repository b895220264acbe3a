/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The column plan: requested names -> fields to read, system columns, and the schema of the result.
 *
 * A name is a top-level column (exact), a dotted path into structs (a flat column of that name), or a system column.
 * Source: spec expressions 10.1, table-format 13. */
#include "exec/exec.h"

static const char *const system_names[SYSTEM_COUNT] = {
    "", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version", "_rowplace"};

enum system_column system_column_of(const char *name)
{
    for (int i = 1; i < SYSTEM_PLACE; i++) {
        if (strcmp(name, system_names[i]) == 0) return (enum system_column)i;
    }
    return SYSTEM_NONE;
}

const char *system_column_name(enum system_column s) { return system_names[s]; }

static pennon_status unknown_column(const struct snapshot *s, const char *name, struct mem *m, pennon_error *err)
{
    size_t n = s->schema->n_fields + SYSTEM_PLACE - 1;
    const char **names = mem_calloc(m, n, sizeof *names, err);
    if (!names) return err->code;
    for (size_t i = 0; i < s->schema->n_fields; i++) names[i] = s->schema->fields[i]->name;
    for (size_t i = 1; i < SYSTEM_PLACE; i++) names[s->schema->n_fields + i - 1] = system_names[i];
    const char *near = nearest_name(name, names, n);
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "no column named '%s'%s%s%s", name, near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
    mem_free(m, names);
    return error_kind(err, "FieldNotFound");
}

/* Field of a name: top level first, so that names with dots in old tables still work, then a path. */
static pennon_status find_field(const struct snapshot *s, const char *name, struct mem *m, const struct field **out,
                                pennon_error *err)
{
    *out = schema_find_name(s->schema, name);
    if (*out) return PENNON_OK;
    pennon_status st = schema_find_path(s->schema, name, out, err);
    if (st != PENNON_NOT_FOUND) return st;
    if (strchr(name, '.')) {
        err->code = PENNON_INVALID_ARGUMENT;
        return error_kind(err, "FieldNotFound");
    }
    return unknown_column(s, name, m, err);
}

/* Path of child indices of field `id` in the read schema. */
static bool path_to(const struct field *f, int32_t id, uint32_t *path, uint32_t depth, uint32_t *out_depth)
{
    if (depth >= 64) return false;
    if (f->id == id) {
        *out_depth = depth;
        return true;
    }
    for (uint32_t i = 0; i < f->n_children; i++) {
        path[depth] = i;
        if (path_to(f->children[i], id, path, depth + 1, out_depth)) return true;
    }
    return false;
}

static pennon_status locate(const struct column_plan *p, int32_t id, struct output_column *c, pennon_error *err)
{
    for (uint32_t i = 0; i < p->read->n_fields; i++) {
        c->path[0] = i;
        if (path_to(p->read->fields[i], id, c->path, 1, &c->depth)) return PENNON_OK;
    }
    return error_set(err, PENNON_INTERNAL, "column '%s' is not among the columns read", c->name);
}

static pennon_status add_column(struct column_plan *p, const char *name, enum system_column system, pennon_error *err)
{
    ASSERT(system < SYSTEM_COUNT);
    struct output_column *c = &p->columns[p->n_columns++];
    c->name = arena_strndup(&p->arena, name, strlen(name), err);
    c->system = system;
    p->uses[system] = true;
    return c->name ? PENNON_OK : err->code;
}

static pennon_status collect(struct column_plan *p, const struct snapshot *s, const struct column_request *r, int32_t *ids,
                             size_t *n_ids, pennon_error *err)
{
    const char *const *columns = r->columns;
    for (size_t i = 0; r->all && i < s->schema->n_fields; i++) {
        TRY_RETURN(add_column(p, s->schema->fields[i]->name, SYSTEM_NONE, err));
        ids[(*n_ids)++] = s->schema->fields[i]->id;
    }
    for (size_t i = 0; !r->all && i < r->n; i++) {
        if (!columns[i]) return error_set(err, PENNON_INVALID_ARGUMENT, "column name %zu is NULL", i);
        const struct field *f = NULL;
        enum system_column system = schema_find_name(s->schema, columns[i]) ? SYSTEM_NONE : system_column_of(columns[i]);
        if (system == SYSTEM_NONE) {
            TRY_RETURN(find_field(s, columns[i], p->mem, &f, err));
            ids[(*n_ids)++] = f->id;
        }
        TRY_RETURN(add_column(p, columns[i], system, err));
        p->columns[p->n_columns - 1].as_stored = r->as_stored && r->as_stored[i];
    }
    if (r->row_id && !p->uses[SYSTEM_ROW_ID]) TRY_RETURN(add_column(p, system_names[SYSTEM_ROW_ID], SYSTEM_ROW_ID, err));
    if (r->row_address && !p->uses[SYSTEM_ROW_ADDRESS])
        TRY_RETURN(add_column(p, system_names[SYSTEM_ROW_ADDRESS], SYSTEM_ROW_ADDRESS, err));
    if (r->place) TRY_RETURN(add_column(p, system_names[SYSTEM_PLACE], SYSTEM_PLACE, err));
    return PENNON_OK;
}

static pennon_status refuse_doubled(const struct column_plan *p, pennon_error *err)
{
    for (size_t i = 0; i < p->n_columns; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(p->columns[i].name, p->columns[k].name) == 0) {
                return error_set(err, PENNON_INVALID_ARGUMENT, "column '%s' is asked for twice", p->columns[i].name);
            }
        }
    }
    return PENNON_OK;
}

static pennon_status system_schema(const char *name, struct mem *m, struct ArrowSchema *out, pennon_error *err)
{
    return arrow_schema_new(out, "L", name, ARROW_FLAG_NULLABLE, 0, m, err);
}

/* Schema of one result column. A path column takes its own name, and is nullable when anything above it is. */
static pennon_status column_schema(const struct column_plan *p, const struct output_column *c, struct ArrowSchema *out,
                                   pennon_error *err)
{
    if (c->system != SYSTEM_NONE) return system_schema(c->name, p->mem, out, err);
    ASSERT(c->depth >= 1 && c->path[0] < p->read->n_fields);
    const struct field *f = p->read->fields[c->path[0]];
    bool nullable = f->nullable;
    for (uint32_t i = 1; i < c->depth; i++) {
        f = f->children[c->path[i]];
        nullable = nullable || f->nullable;
    }
    TRY_RETURN(field_to_arrow(f, c->as_stored ? SCHEMA_VIEW_FILE : SCHEMA_VIEW_TABLE, p->blobs, p->mem, out, err));
    TRY_RETURN(arrow_schema_set_name(out, c->name, err));
    if (nullable) out->flags |= ARROW_FLAG_NULLABLE;
    return PENNON_OK;
}

static pennon_status result_schema(struct column_plan *p, const struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_pair *pairs = NULL;
    TRY(arrow_schema_new(&p->arrow, "+s", "", 0, p->n_columns, p->mem, err));
    for (size_t i = 0; i < p->n_columns; i++) TRY(column_schema(p, &p->columns[i], p->arrow.children[i], err));
    if (s->schema->n_metadata) {
        TRY_NEW(pairs, mem_calloc(p->mem, s->schema->n_metadata, sizeof *pairs, err));
        for (size_t i = 0; i < s->schema->n_metadata; i++)
            pairs[i] = (struct arrow_pair){s->schema->metadata[i].key, s->schema->metadata[i].value};
        TRY(arrow_metadata_replace(&p->arrow, pairs, s->schema->n_metadata, err));
    }
    p->plain = p->n_columns == p->read->n_fields;
    for (size_t i = 0; i < p->n_columns && p->plain; i++) {
        p->plain = p->columns[i].system == SYSTEM_NONE && p->columns[i].depth == 1 && p->columns[i].path[0] == i;
    }
    p->plain = p->plain && arrow_schema_equal(&p->arrow, &p->read_arrow, 0);
done:
    mem_free(p->mem, pairs);
    return st;
}

pennon_status column_plan_make(const struct snapshot *s, const struct column_request *r, struct mem *m, struct column_plan **out,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_plan *p;
    int32_t *ids = NULL;
    size_t n_ids = 0, most = (r->all ? s->schema->n_fields : r->n) + 3;
    TRY_NEW(p, mem_calloc(m, 1, sizeof *p, err));
    p->mem = mem_retain(m);
    arena_init(&p->arena, m);
    p->blobs = r->blobs;
    p->with_deleted = r->with_deleted;
    p->map = r->map;
    TRY_NEW(p->columns, arena_calloc(&p->arena, most, sizeof *p->columns, err));
    TRY_NEW(ids, mem_calloc(m, most, sizeof *ids, err));
    TRY(collect(p, s, r, ids, &n_ids, err));
    if (!r->allow_doubled) TRY(refuse_doubled(p, err));
    TRY(schema_project_ids(m, s->schema, ids, n_ids, &p->read, err));
    TRY(schema_to_arrow(p->read, SCHEMA_VIEW_FILE, r->blobs, m, &p->read_arrow, err));
    for (size_t i = 0, id = 0; i < p->n_columns; i++) {
        if (p->columns[i].system == SYSTEM_NONE) TRY(locate(p, ids[id++], &p->columns[i], err));
    }
    TRY(result_schema(p, s, err));
    *out = p;
    p = NULL;
done:
    mem_free(m, ids);
    column_plan_free(p);
    return st;
}

pennon_status column_plan_new(const struct snapshot *s, const char *const *columns, size_t n, bool all, bool with_row_id,
                              bool with_row_address, enum blob_handling blobs, bool allow_doubled, struct mem *m,
                              struct column_plan **out, pennon_error *err)
{
    const struct column_request r = {.columns = columns,
                                     .n = n,
                                     .all = all,
                                     .row_id = with_row_id,
                                     .row_address = with_row_address,
                                     .blobs = blobs,
                                     .allow_doubled = allow_doubled};
    return column_plan_make(s, &r, m, out, err);
}

void column_plan_free(struct column_plan *p)
{
    if (!p) return;
    schema_release(p->read);
    arrow_schema_release(&p->read_arrow);
    arrow_schema_release(&p->arrow);
    struct mem *m = p->mem;
    arena_reset(&p->arena);
    mem_free(m, p);
    mem_release(m);
}
