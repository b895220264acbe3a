/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the options of a merge mean for a version of a table and a source: key columns, expressions, columns to read, the schema that is written.
 *
 * The condition over both sides is compiled against a struct of two columns, `source` and `target`; the columns that it reads are paths into them.
 * Source: spec commits 7.4, api-surface 10. */
#include <strings.h>

#include "dataset/merge.h"

/* ---- options ---- */

static pennon_status check_value(int32_t value, int32_t most, const char *name, const char *values, pennon_error *err)
{
    if (value >= 0 && value <= most) return PENNON_OK;
    return error_set(err, PENNON_INVALID_ARGUMENT, "%s %d is not one of the %s values", name, value, values);
}

static pennon_status check_condition(const char *condition, bool wanted, const char *name, const char *mode, pennon_error *err)
{
    if (wanted && (condition == NULL || condition[0] == '\0'))
        return error_set(err, PENNON_INVALID_ARGUMENT, "%s needs a %s", mode, name);
    if (!wanted && condition != NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "a %s without %s", name, mode);
    return PENNON_OK;
}

pennon_status merge_check_options(const pennon_merge_options *o, pennon_error *err)
{
    TRY_RETURN(check_value(o->when_matched, PENNON_MATCHED_DELETE, "when_matched", "PENNON_MATCHED_", err));
    TRY_RETURN(check_value(o->when_not_matched, PENNON_NOT_MATCHED_INSERT, "when_not_matched", "PENNON_NOT_MATCHED_", err));
    TRY_RETURN(check_value(o->by_source, PENNON_BY_SOURCE_DELETE_IF, "by_source", "PENNON_BY_SOURCE_", err));
    TRY_RETURN(check_value(o->duplicates, PENNON_DUPLICATES_FIRST_SEEN, "duplicates", "PENNON_DUPLICATES_", err));
    TRY_RETURN(check_condition(o->matched_condition, o->when_matched == PENNON_MATCHED_UPDATE_IF, "matched_condition",
                               "PENNON_MATCHED_UPDATE_IF", err));
    TRY_RETURN(check_condition(o->by_source_condition, o->by_source == PENNON_BY_SOURCE_DELETE_IF, "by_source_condition",
                               "PENNON_BY_SOURCE_DELETE_IF", err));
    if (o->when_matched == PENNON_MATCHED_NOTHING && !merge_inserts(o) && o->by_source == PENNON_BY_SOURCE_KEEP)
        return error_set(err, PENNON_INVALID_ARGUMENT, "The merge insert job is not configured to change the data in any way");
    return PENNON_OK;
}

/* ---- keys ---- */

static const struct field *find_key(const struct schema *s, const char *name)
{
    const struct field *exact = schema_find_name(s, name);
    for (size_t i = 0; exact == NULL && i < s->n_fields; i++) {
        if (strcasecmp(s->fields[i]->name, name) == 0) exact = s->fields[i];
    }
    return exact;
}

static pennon_status unknown_key(const struct schema *s, const char *name, pennon_error *err)
{
    const struct field *f = NULL;
    if (schema_find_path(s, name, &f, err) == PENNON_OK)
        return error_set(err, PENNON_NOT_SUPPORTED, "'%s', a part of a column, as key of a merge", name);
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "Merge insert key column '%s' does not exist in schema", name);
    return error_kind(err, "FieldNotFound");
}

static bool has_key(const struct merge_plan *p, const struct field *f)
{
    for (size_t i = 0; i < p->n_keys; i++) {
        if (p->keys[i] == f) return true;
    }
    return false;
}

/* Primary key columns, by their positions. */
static size_t primary_keys(const struct schema *s, const struct field **out)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_fields; i++) {
        if (!s->fields[i]->primary_key) continue;
        size_t at = n++;
        for (; at > 0 && out[at - 1]->primary_key_position > s->fields[i]->primary_key_position; at--) out[at] = out[at - 1];
        out[at] = s->fields[i];
    }
    return n;
}

static pennon_status find_keys(struct merge_plan *p, pennon_error *err)
{
    const struct schema *s = p->s->schema;
    const pennon_names *on = p->o->on;
    const size_t n_on = on != NULL ? on->n : 0;
    const struct field **primary = arena_calloc(&p->arena, s->n_fields + 1, sizeof *primary, err);
    if (primary == NULL) return err->code;
    p->keys = arena_calloc(&p->arena, s->n_fields + 1, sizeof *p->keys, err);
    if (p->keys == NULL) return err->code;
    const size_t n_primary = primary_keys(s, primary);
    for (size_t i = 0; i < n_on; i++) {
        if (on->items[i] == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "key column %zu is NULL", i);
        const struct field *f = find_key(s, on->items[i]);
        if (f == NULL) return unknown_key(s, on->items[i], err);
        if (!has_key(p, f)) p->keys[p->n_keys++] = f;
    }
    if (n_on == 0) {
        memcpy(p->keys, primary, n_primary * sizeof(struct field *));
        p->n_keys = n_primary;
    }
    if (p->n_keys == 0)
        return error_set(
            err, PENNON_INVALID_ARGUMENT,
            "A merge insert operation requires join keys: specify `on` columns explicitly or configure a primary key in "
            "the dataset schema");
    p->primary_key = n_primary == p->n_keys && (n_on == 0 || n_on == n_primary) &&
                     memcmp(p->keys, primary, n_primary * sizeof(struct field *)) == 0;
    return PENNON_OK;
}

/* The key columns in the source, by exact name and of the same type. */
static pennon_status find_source_keys(struct merge_plan *p, pennon_error *err)
{
    const struct ArrowSchema **mine = arena_calloc(&p->arena, p->n_keys, sizeof *mine, err);
    if (mine == NULL) return err->code;
    const struct ArrowSchema **theirs = arena_calloc(&p->arena, p->n_keys, sizeof *theirs, err);
    if (theirs == NULL) return err->code;
    p->source_keys = arena_calloc(&p->arena, p->n_keys, sizeof *p->source_keys, err);
    if (p->source_keys == NULL) return err->code;
    for (size_t i = 0; i < p->n_keys; i++) {
        const char *name = p->keys[i]->name;
        const int64_t at = arrow_schema_find(p->source, bytes_str(name));
        if (at < 0) {
            (void)error_set(err, PENNON_INVALID_ARGUMENT, "the source has no key column '%s'", name);
            return error_kind(err, "SchemaMismatch");
        }
        if (strcmp(p->keys[i]->logical_type, "json") == 0)
            return error_set(err, PENNON_NOT_SUPPORTED, "the JSON column '%s' as key of a merge", name);
        p->source_keys[i] = (uint32_t)at;
        mine[i] = p->source->children[at];
        theirs[i] = p->probe->arrow.children[i];
        if (!arrow_schema_equal(mine[i], theirs[i], SCHEMA_EQUAL_NO_NULLABLE)) {
            (void)error_set(err, PENNON_INVALID_ARGUMENT,
                            "the key column '%s' of the source has another type than that of the dataset", name);
            return error_kind(err, "SchemaMismatch");
        }
    }
    TRY_RETURN(join_columns_init(&p->source_side, mine, p->n_keys, err));
    return join_columns_init(&p->target_side, theirs, p->n_keys, err);
}

/* ---- columns that are read of the target ---- */

static pennon_status plan_columns(struct merge_plan *p, const char *const *names, size_t n, bool place, struct column_plan **out,
                                  pennon_error *err)
{
    bool *as_stored = arena_alloc(&p->arena, n + 1, err);
    if (as_stored == NULL) return err->code;
    memset(as_stored, true, n + 1);
    const struct column_request r = {
        .columns = names, .n = n, .as_stored = as_stored, .place = place, .allow_doubled = true, .blobs = BLOB_AS_DESCRIPTOR};
    return column_plan_make(p->s, &r, p->mem, out, err);
}

static pennon_status plan_probe(struct merge_plan *p, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema input = {0};
    const struct expr_column *columns = NULL;
    const char **names;
    size_t n = 0;
    if (p->o->by_source_condition != NULL) {
        TRY(schema_to_arrow(p->s->schema, SCHEMA_VIEW_FILE, BLOB_AS_DESCRIPTOR, p->mem, &input, err));
        TRY(expr_compile_filter(bytes_str(p->o->by_source_condition), &input, p->mem, &p->by_source, err));
        columns = expr_columns(p->by_source, &n);
    }
    TRY_NEW(names, arena_calloc(&p->arena, p->n_keys + n + 1, sizeof *names, err));
    for (size_t i = 0; i < p->n_keys; i++) names[i] = p->keys[i]->name;
    for (size_t i = 0; i < n; i++) names[p->n_keys + i] = columns[i].path;
    p->n_by_source = (uint32_t)n;
    TRY(plan_columns(p, names, p->n_keys + n, true, &p->probe, err));
done:
    arrow_schema_release(&input);
    return st;
}

/* ---- the condition over both sides ---- */

static pennon_status side_schema(const struct ArrowSchema *from, const char *name, struct mem *m, struct ArrowSchema *out,
                                 pennon_error *err)
{
    TRY_RETURN(arrow_schema_copy(from, m, out, err));
    TRY_RETURN(arrow_metadata_replace(out, NULL, 0, err));
    return arrow_schema_set_name(out, name, err);
}

static pennon_status place_operand(struct merge_plan *p, const struct expr_column *column, struct merge_operand *out,
                                   const char **names, uint32_t *n, pennon_error *err)
{
    const char *dot = strchr(column->path, '.');
    if (dot == NULL)
        return error_set(err, PENNON_INVALID_ARGUMENT, "matched_condition: '%s' as a whole; name its columns, as source.x",
                         column->path);
    out->source = column->top == 0;
    if (out->source) return schema_find_path(p->data, dot + 1, &out->field, err);
    out->child = *n;
    names[(*n)++] = dot + 1;
    return PENNON_OK;
}

static pennon_status compile_matched(struct merge_plan *p, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema input = {0}, table = {0};
    const struct expr_column *columns;
    const char **names;
    uint32_t n_target = 0;
    size_t n;
    if (p->o->matched_condition == NULL) return PENNON_OK;
    TRY(schema_to_arrow(p->s->schema, SCHEMA_VIEW_FILE, BLOB_AS_DESCRIPTOR, p->mem, &table, err));
    TRY(arrow_schema_new(&input, "+s", "", 0, 2, p->mem, err));
    TRY(side_schema(p->source, "source", p->mem, input.children[0], err));
    TRY(side_schema(&table, "target", p->mem, input.children[1], err));
    st = expr_compile_filter(bytes_str(p->o->matched_condition), &input, p->mem, &p->matched, err);
    if (st != PENNON_OK) {
        st = error_prefix(err, "matched_condition");
        goto done;
    }
    columns = expr_columns(p->matched, &n);
    TRY_NEW(p->operand_list, arena_calloc(&p->arena, n + 1, sizeof *p->operand_list, err));
    TRY_NEW(names, arena_calloc(&p->arena, n + 1, sizeof *names, err));
    for (size_t i = 0; i < n; i++) TRY(place_operand(p, &columns[i], &p->operand_list[i], names, &n_target, err));
    if (n_target > 0) TRY(plan_columns(p, names, n_target, false, &p->operands, err));
done:
    arrow_schema_release(&input);
    arrow_schema_release(&table);
    return st;
}

/* ---- the rows that are written ---- */

static pennon_status nested_differs(const struct field *table, const struct field *data, pennon_error *err)
{
    if (table->n_children != data->n_children) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "column '%s' of the source has %zu parts, that of the dataset %zu",
                        data->name, data->n_children, table->n_children);
        return error_kind(err, "SchemaMismatch");
    }
    for (size_t i = 0; i < data->n_children; i++) TRY_RETURN(nested_differs(table->children[i], data->children[i], err));
    return PENNON_OK;
}

/* Columns of the source are columns of the table, of the same types. */
static pennon_status match_source(struct merge_plan *p, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct schema *table = p->s->schema;
    struct schema *part = NULL, *matched = NULL;
    int32_t *ids;
    size_t n = 0;
    TRY(schema_from_arrow(p->mem, p->source, p->s->storage_version, &p->data, err));
    TRY_NEW(ids, arena_calloc(&p->arena, p->data->n_fields + 1, sizeof *ids, err));
    for (size_t i = 0; i < p->data->n_fields; i++) {
        const struct field *f = schema_find_name(table, p->data->fields[i]->name);
        if (f != NULL) ids[n++] = f->id;
    }
    TRY(schema_project_ids(p->mem, table, ids, n, &part, err));
    TRY(schema_match_append(p->mem, part, p->data, &matched, err));
    for (size_t i = 0; i < p->data->n_fields; i++)
        TRY(nested_differs(schema_find_name(table, p->data->fields[i]->name), p->data->fields[i], err));
done:
    schema_release(part);
    schema_release(matched);
    return st;
}

static pennon_status refuse_missing(const struct merge_plan *p, const struct field *const *missing, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf names;
    size_t found = 0;
    buf_init(&names, p->mem, BUF_NO_LIMIT);
    for (size_t i = 0; i < n; i++) {
        if (!missing[i]->nullable) TRY(buf_printf(&names, err, "%s\"%s\"", found++ ? ", " : "", missing[i]->name));
    }
    if (found == 0 || !merge_inserts(p->o)) goto done;
    TRY(buf_terminate(&names, err));
    st =
        error_set(err, PENNON_INVALID_ARGUMENT,
                  "Cannot insert rows with a partial-schema source: target column(s) [%.512s] are non-nullable and not provided by "
                  "the source. Either add them to the source or set when_not_matched to DoNothing.",
                  (const char *)names.data);
done:
    buf_free(&names);
    return st;
}

static pennon_status plan_written(struct merge_plan *p, pennon_error *err)
{
    const struct schema *s = p->s->schema;
    const struct field **missing = arena_calloc(&p->arena, s->n_fields + 1, sizeof *missing, err);
    if (missing == NULL) return err->code;
    const char **names = arena_calloc(&p->arena, s->n_fields + 1, sizeof *names, err);
    if (names == NULL) return err->code;
    const size_t n_source = (size_t)p->source->n_children;
    size_t n = 0;
    for (size_t i = 0; i < s->n_fields; i++) {
        if (arrow_schema_find(p->source, bytes_str(s->fields[i]->name)) >= 0) continue;
        missing[n] = s->fields[i];
        names[n++] = s->fields[i]->name;
    }
    TRY_RETURN(refuse_missing(p, missing, n, err));
    TRY_RETURN(arrow_schema_new(&p->written, "+s", "", 0, n_source + n, p->mem, err));
    for (size_t i = 0; i < n_source; i++)
        TRY_RETURN(arrow_schema_copy(p->source->children[i], p->mem, p->written.children[i], err));
    if (n == 0) return PENNON_OK;
    TRY_RETURN(plan_columns(p, names, n, false, &p->missing, err));
    for (size_t i = 0; i < n; i++)
        TRY_RETURN(arrow_schema_copy(p->missing->arrow.children[i], p->mem, p->written.children[n_source + i], err));
    return PENNON_OK;
}

/* ---- all ---- */

static pennon_status check_table(const struct snapshot *s, pennon_error *err)
{
    TRY_RETURN(mutation_check(s, err));
    if (s->storage_version == STORAGE_LEGACY)
        return error_set(
            err, PENNON_NOT_SUPPORTED,
            "the dataset has data storage version 0.1, which is read and not written: nothing can be merged into it; overwrite it "
            "with version 2.1");
    for (size_t i = 0; i < s->schema->n_fields; i++) {
        if (field_has_blob(s->schema->fields[i]))
            return error_set(err, PENNON_NOT_SUPPORTED, "merging into a dataset with blob columns ('%s')",
                             s->schema->fields[i]->name);
    }
    return PENNON_OK;
}

static pennon_status make_plan(struct merge_plan *p, pennon_error *err)
{
    const pennon_merge_options *o = p->o;
    const struct snapshot *s = p->s;
    const bool writes = merge_updates(o) || merge_inserts(o) || o->when_matched == PENNON_MATCHED_FAIL;
    p->stable = snapshot_has_stable_ids(s);
    p->delete_only = o->when_matched == PENNON_MATCHED_DELETE && !merge_inserts(o) && o->by_source == PENNON_BY_SOURCE_KEEP;
    TRY_RETURN(check_table(s, err));
    TRY_RETURN(find_keys(p, err));
    TRY_RETURN(plan_probe(p, err));
    if (writes) TRY_RETURN(match_source(p, err));
    TRY_RETURN(find_source_keys(p, err));
    if (writes) TRY_RETURN(plan_written(p, err));
    return compile_matched(p, err);
}

static void begin_plan(struct merge_plan *p, const struct call *c, struct snapshot *s, const pennon_merge_options *o)
{
    *p = (struct merge_plan){.mem = c->mem, .s = s, .o = o};
    arena_init(&p->arena, c->mem);
}

pennon_status merge_plan_make(struct merge_plan *p, const struct call *c, struct snapshot *s, const pennon_merge_options *o,
                              const struct ArrowSchema *source, pennon_error *err)
{
    begin_plan(p, c, s, o);
    p->source = source;
    return make_plan(p, err);
}

pennon_status merge_check_source(struct merge_plan *p, const struct call *c, struct snapshot *s, const pennon_merge_options *o,
                                 const struct ArrowSchema *source, pennon_error *err)
{
    begin_plan(p, c, s, o);
    TRY_RETURN(arrow_schema_validate(source, err));
    TRY_RETURN(arrow_schema_plain(source, c->mem, &p->plain, err));
    p->source = &p->plain;
    return make_plan(p, err);
}

void merge_plan_free(struct merge_plan *p)
{
    if (p->mem == NULL) return;
    arrow_schema_release(&p->plain);
    column_plan_free(p->probe);
    column_plan_free(p->operands);
    column_plan_free(p->missing);
    expr_free(p->by_source);
    expr_free(p->matched);
    schema_release(p->data);
    arrow_schema_release(&p->written);
    arena_reset(&p->arena);
    *p = (struct merge_plan){0};
}
