/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Drop columns; rename them, change whether they may be null, or their type.
 *
 * A column of another type is a new field: its values are read, cast, and written into a new data file of each fragment; files that hold nothing else are
 * left out. Everything else changes the schema alone.
 * Source: spec commits 8.2, 8.3. */
#include "dataset/evolve.h"
#include "exec/plan.h"
#include "expr/expr.h"

/* ---- drop ---- */

/* The fields of the names, in the arena. */
static pennon_status find_fields(struct evolving *e, size_t n, const char *const *names, const char *what,
                                 const struct field ***out, pennon_error *err)
{
    const struct field **fields;
    if (n == 0 || !names) return evolve_invalid(err, "no column to %s", what);
    fields = arena_calloc(&e->arena, n, sizeof *fields, err);
    if (!fields) return err->code;
    for (size_t i = 0; i < n; i++) {
        if (!names[i]) return evolve_invalid(err, "column name %zu is NULL", i);
        TRY_RETURN(schema_find_inside(e->s->schema, names[i], &fields[i], err));
        if (!fields[i]) {
            (void)evolve_invalid(err, "Column %s does not exist in the dataset", names[i]);
            return error_kind(err, "FieldNotFound");
        }
    }
    *out = fields;
    return PENNON_OK;
}

static pennon_status project(struct evolving *e, size_t n, const char *const *names, pennon_error *err)
{
    const struct field **kept;
    TRY_RETURN(find_fields(e, n, names, "keep", &kept, err));
    TRY_RETURN(schema_select(e->c->mem, e->s->schema, kept, n, e->s->storage_version, &e->schema, err));
    e->result.fields_dropped = e->s->schema->n_all - e->schema->n_all;
    return evolve_commit(e, true, err);
}

static pennon_status drop(struct evolving *e, size_t n, const char *const *names, pennon_error *err)
{
    const struct field **gone;
    TRY_RETURN(find_fields(e, n, names, "drop", &gone, err));
    TRY_RETURN(schema_exclude(e->c->mem, e->s->schema, gone, n, e->s->storage_version, &e->schema, err));
    if (e->schema->n_fields == 0) return evolve_invalid(err, "Cannot drop all columns from a dataset");
    e->result.fields_dropped = e->s->schema->n_all - e->schema->n_all;
    return evolve_commit(e, true, err);
}

/* Of a verb that has no values fragment by fragment. */
static pennon_status refuse_parts(const struct evolving *e, pennon_error *err)
{
    if (!e->o->fragments) return PENNON_OK;
    return error_set(err, PENNON_INVALID_ARGUMENT, "the schema is changed for all fragments, not for some");
}

pennon_status pennon_dataset_drop_columns(pennon_dataset *ds, size_t n, const char *const *names,
                                          const pennon_evolution_options *options, pennon_evolution_result *result,
                                          pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK) st = refuse_parts(&e, a.err);
    if (st == PENNON_OK) st = drop(&e, n, names, a.err);
    return evolve_end(&e, st, result, err);
}

pennon_status pennon_dataset_project(pennon_dataset *ds, size_t n, const char *const *names,
                                     const pennon_evolution_options *options, pennon_evolution_result *result, pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK) st = refuse_parts(&e, a.err);
    if (st == PENNON_OK) st = project(&e, n, names, a.err);
    return evolve_end(&e, st, result, err);
}

/* ---- which types change into which ---- */

static bool is_integer(enum arrow_id id) { return arrow_id_is_integer(id); }
static bool is_temporal(enum arrow_id id) { return id >= ARROW_DATE32 && id <= ARROW_INTERVAL_MONTH_DAY_NANO; }
static bool is_list(enum arrow_id id) { return id == ARROW_LIST || id == ARROW_LARGE_LIST || id == ARROW_FIXED_SIZE_LIST; }
static bool is_text(enum arrow_id id) { return id == ARROW_UTF8 || id == ARROW_LARGE_UTF8; }
static bool is_bytes(enum arrow_id id) { return id == ARROW_BINARY || id == ARROW_LARGE_BINARY; }
static bool is_decimal(enum arrow_id id) { return id == ARROW_DECIMAL128 || id == ARROW_DECIMAL256; }
static bool is_bool(enum arrow_id id) { return id == ARROW_BOOL; }

static bool same_family(const struct ArrowSchema *from, const struct ArrowSchema *to)
{
    static bool (*const families[])(enum arrow_id) = {is_integer, arrow_id_is_float, is_temporal, is_text,
                                                      is_bytes,   is_decimal,        is_bool,     is_list};
    struct arrow_type a, b;
    pennon_error ignored;
    bool same = false;
    pennon_error_init(&ignored);
    const bool known = arrow_type_of(from, &a, &ignored) == PENNON_OK && arrow_type_of(to, &b, &ignored) == PENNON_OK;
    pennon_error_clear(&ignored);
    for (size_t i = 0; known && i < ARRAY_LEN(families) && !same; i++) same = families[i](a.id) && families[i](b.id);
    return same && (!is_list(a.id) || same_family(from->children[0], to->children[0]));
}

static pennon_status cannot_cast(const struct evolving *e, const char *path, const struct ArrowSchema *from,
                                 const struct ArrowSchema *to, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, e->c->mem, 1 << 20);
    TRY(buf_printf(&text, err, "Cannot cast column \"%s\" from ", path));
    TRY(expr_type_name(from, &text, err));
    TRY(buf_printf(&text, err, " to "));
    TRY(expr_type_name(to, &text, err));
    TRY(buf_terminate(&text, err));
    st = evolve_invalid(err, "%.2000s", (const char *)text.data);
done:
    buf_free(&text);
    return st;
}

/* ---- alterations ---- */

struct altering {
    struct evolving *e;
    size_t n;
    const pennon_alteration *list;
    struct field_alteration *fields; /* parallel to the list */
    struct schema **types;           /* of one column each, or NULL */
    size_t n_casts;
};

/* The new type as a schema of one column. */
static pennon_status read_type(struct altering *x, size_t i, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema table = {0};
    struct mem *m = x->e->c->mem;
    const struct field *f = x->fields[i].field;
    TRY(arrow_schema_validate(x->list[i].data_type, err));
    TRY(arrow_schema_new(&table, "+s", "", 0, 1, m, err));
    TRY(arrow_schema_copy(x->list[i].data_type, m, table.children[0], err));
    TRY(arrow_schema_set_name(table.children[0], "value", err));
    TRY(schema_from_arrow(m, &table, x->e->s->storage_version, &x->types[i], err));
    const struct field *to = x->types[i]->fields[0];
    const bool special =
        field_has_blob(f) || field_has_blob(to) || strcmp(f->logical_type, "json") == 0 || strcmp(to->logical_type, "json") == 0;
    if (special || !same_family(&f->arrow, &to->arrow) || !expr_cast_possible(&f->arrow, &to->arrow)) {
        st = cannot_cast(x->e, x->list[i].path, &f->arrow, &to->arrow, err);
        goto done;
    }
    x->fields[i].type = to;
    x->n_casts++;
done:
    arrow_schema_release(&table);
    return st;
}

static pennon_status read_alteration(struct altering *x, size_t i, pennon_error *err)
{
    const pennon_alteration *a = &x->list[i];
    struct field_alteration *f = &x->fields[i];
    if (!a->path) return evolve_invalid(err, "alteration %zu has no path", i);
    if (a->nullable < PENNON_NULLABLE_KEEP || a->nullable > PENNON_NULLABLE_NO)
        return error_set(err, PENNON_INVALID_ARGUMENT, "nullable %d is not one of the PENNON_NULLABLE_ values", a->nullable);
    TRY_RETURN(schema_find_inside(x->e->s->schema, a->path, &f->field, err));
    if (!f->field) {
        (void)evolve_invalid(err, "Column \"%s\" does not exist in the dataset", a->path);
        return error_kind(err, "FieldNotFound");
    }
    for (const struct field *up = f->field->parent; up; up = up->parent) {
        if (up->kind == FIELD_BLOB_V2 || up->kind == FIELD_MAP || up->kind == FIELD_PACKED_STRUCT)
            return error_set(err, PENNON_NOT_SUPPORTED, "altering '%s', a part of '%s' of type %s, which is kept whole", a->path,
                             up->name, up->logical_type);
    }
    if (!a->rename && a->nullable == PENNON_NULLABLE_KEEP && !a->data_type)
        return evolve_invalid(err, "At least one of name, nullable, or data_type must be specified: '%s' stays as it is", a->path);
    f->rename = a->rename;
    f->sets_nullable = a->nullable != PENNON_NULLABLE_KEEP;
    f->nullable = a->nullable == PENNON_NULLABLE_YES;
    return a->data_type ? read_type(x, i, err) : PENNON_OK;
}

/* Read the column, and look for a null. */
static pennon_status check_no_nulls(struct evolving *e, const char *path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *p = NULL;
    struct ArrowArrayStream rows = {0};
    struct ArrowArray batch = {0};
    for (size_t i = 0; i < e->n_list; i++) {
        TRY(scan_plan_begin(e->s, BLOB_AS_DESCRIPTOR, false, e->c->mem, &p, err));
        TRY(scan_plan_stored(p, path, err));
        TRY(scan_plan_finish(p, e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
        TRY(evolve_scan(e, e->c, e->list[i].fragment, scan_plan_retain(p), &rows, err));
        for (;;) {
            TRY(stream_next(&rows, &batch, err));
            if (!batch.release) break;
            if (array_null_count(p->arrow.children[0], batch.children[0]) > 0) {
                st = evolve_invalid(err, "Column \"%s\" contains NULL values and cannot be made non-nullable", path);
                goto done;
            }
            array_release(&batch);
        }
        stream_release(&rows);
        scan_plan_free(p);
        p = NULL;
    }
done:
    array_release(&batch);
    stream_release(&rows);
    scan_plan_free(p);
    return st;
}

/* A part of a list cannot be scanned alone. */
static bool inside_list(const struct field *f)
{
    for (const struct field *up = f->parent; up; up = up->parent) {
        if (up->kind != FIELD_STRUCT) return true;
    }
    return false;
}

static pennon_status check_nullability(struct altering *x, pennon_error *err)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct field_alteration *f = &x->fields[i];
        if (!f->sets_nullable || f->nullable || !f->field->nullable) continue;
        x->e->keeps_nullability = false;
        if (inside_list(f->field))
            return error_set(err, PENNON_NOT_SUPPORTED, "making '%s', a part of a list, not nullable", x->list[i].path);
        TRY_RETURN(check_no_nulls(x->e, x->list[i].path, err));
    }
    return PENNON_OK;
}

/* ---- indices ---- */

static bool index_has(const struct index_metadata_message *index, int32_t id)
{
    for (size_t i = 0; i < index->n_fields; i++) {
        if (index->fields[i] == id) return true;
    }
    return false;
}

static pennon_status put_name(struct buf *to, struct bytes name, pennon_error *err)
{
    if (to->size > 0) TRY_RETURN(buf_printf(to, err, ", "));
    return buf_append(to, name.data, name.size, err);
}

static pennon_status refuse_indices(struct altering *x, const struct index_section_message *section, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf columns, indices;
    size_t n = 0;
    buf_init(&columns, x->e->c->mem, 1 << 20);
    buf_init(&indices, x->e->c->mem, 1 << 20);
    for (size_t k = 0; k < x->n; k++) {
        bool has = false;
        for (size_t i = 0; x->fields[k].type && i < section->n_indices && !has; i++)
            has = index_has(&section->indices[i], x->fields[k].field->id);
        if (has) TRY(put_name(&columns, bytes_str(x->fields[k].field->name), err));
    }
    for (size_t i = 0; i < section->n_indices; i++) {
        bool has = false;
        for (size_t k = 0; k < x->n && !has; k++)
            has = x->fields[k].type && index_has(&section->indices[i], x->fields[k].field->id);
        if (!has) continue;
        TRY(put_name(&indices, section->indices[i].name, err));
        n++;
    }
    TRY(buf_terminate(&columns, err));
    TRY(buf_terminate(&indices, err));
    if (n > 0)
        st = evolve_invalid(
            err,
            "Cannot cast column(s) [%.512s] to a new type: they have %zu index(es) attached: [%.512s]; the index would "
            "be of values that are no longer there. Drop it before, and create it again afterwards",
            (const char *)columns.data, n, (const char *)indices.data);
done:
    buf_free(&columns);
    buf_free(&indices);
    return st;
}

static pennon_status check_indices(struct altering *x, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct bytes raw;
    struct index_section_message section = {0};
    struct arena a;
    arena_init(&a, x->e->c->mem);
    TRY(snapshot_section(x->e->c, x->e->s, SECTION_INDICES, &raw, err));
    if (raw.size == 0) goto done;
    TRY(wire_decode(&index_section_table, raw, &a, &section, err));
    TRY(refuse_indices(x, &section, err));
done:
    arena_reset(&a);
    return st;
}

/* ---- casts ---- */

/* What a scan gives for the fields of e->write in pre-order: for a struct whether it is there, for a field of another type its values. */
struct casting {
    struct scan_plan *plan;
    bool plain; /* no structs: what the scan gives is what is written */
};

struct cast_stream {
    const struct call *call;
    const struct schema *write;
    struct ArrowArrayStream scan;
};

static pennon_status quoted_path(const struct field *f, struct buf *out, pennon_error *err)
{
    if (f->parent) {
        TRY_RETURN(quoted_path(f->parent, out, err));
        TRY_RETURN(buf_append_byte(out, '.', err));
    }
    TRY_RETURN(buf_append_byte(out, '`', err));
    for (const char *p = f->name; *p != '\0'; p++) {
        if (*p == '`') TRY_RETURN(buf_append_byte(out, '`', err));
        TRY_RETURN(buf_append_byte(out, (uint8_t)*p, err));
    }
    return buf_append_byte(out, '`', err);
}

/* The old field that a field of the new files was. */
static const struct field *old_field(const struct altering *x, const struct field *f)
{
    for (size_t i = 0; i < x->n; i++) {
        if (x->fields[i].id == f->id) return x->fields[i].field;
    }
    return schema_find_id(x->e->s->schema, f->id);
}

static pennon_status plan_field(const struct altering *x, struct casting *k, const struct field *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct field *old = old_field(x, f);
    struct evolving *e = x->e;
    struct buf sql;
    bool text;
    buf_init(&sql, e->c->mem, 1 << 20);
    ASSERT(old);
    TRY(quoted_path(old, &sql, err));
    if (old->id != f->id) {
        TRY(buf_terminate(&sql, err));
        TRY(scan_plan_value(k->plan, e->s, f, (const char *)sql.data, &text, err));
        goto done;
    }
    k->plain = false;
    TRY(buf_printf(&sql, err, " IS NOT NULL"));
    TRY(buf_terminate(&sql, err));
    TRY(scan_plan_expression(k->plan, e->s, "valid", (const char *)sql.data, err));
    for (size_t i = 0; i < f->n_children; i++) TRY(plan_field(x, k, f->children[i], err));
done:
    buf_free(&sql);
    return st;
}

/* Takes what belongs to the field from the columns, *at moves on. */
static pennon_status take_field(const struct call *c, const struct field *f, bool inside, struct ArrowArray *columns, size_t *at,
                                struct ArrowArray *out, pennon_error *err)
{
    struct ArrowArray *from = &columns[(*at)++];
    if (f->kind != FIELD_STRUCT) {
        if (!inside || f->nullable || from->n_buffers == 0 || from->null_count == 0) {
            array_move(from, out);
            return PENNON_OK;
        }
        /* Its nulls are those of the structs above; buffers may be shared with other batches. */
        TRY_RETURN(array_copy_range(&f->arrow, from, 0, from->length, 0, c->mem, out, err));
        array_give_block(out, 0, NULL, NULL);
        out->null_count = 0;
        return PENNON_OK;
    }
    TRY_RETURN(array_new(out, 1, f->n_children, c->mem, err));
    out->length = from->length;
    const uint64_t n = (uint64_t)from->length, valid = bitmap_count(from->buffers[1], (uint64_t)from->offset, n);
    if (valid < n) {
        uint8_t *bits = array_make_buffer(out, 0, (size_t)bitmap_bytes(n), err);
        if (!bits) return err->code;
        memset(bits, 0, (size_t)bitmap_bytes(n));
        bitmap_copy(bits, 0, from->buffers[1], (uint64_t)from->offset, n);
        out->null_count = (int64_t)(n - valid);
    }
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(take_field(c, f->children[i], true, columns, at, out->children[i], err));
    return PENNON_OK;
}

static pennon_status cast_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct cast_stream *d = ctx;
    struct ArrowArray batch = {0}, *columns = NULL;
    size_t at = 0;
    TRY(stream_next(&d->scan, &batch, err));
    if (!batch.release) goto done;
    const size_t n = (size_t)batch.n_children;
    TRY_NEW(columns, mem_calloc(d->call->mem, n + 1, sizeof *columns, err));
    for (size_t i = 0; i < n; i++) array_move(batch.children[i], &columns[i]);
    TRY(array_new(out, 1, d->write->n_fields, d->call->mem, err));
    out->length = batch.length;
    for (size_t i = 0; i < d->write->n_fields; i++)
        TRY(take_field(d->call, d->write->fields[i], false, columns, &at, out->children[i], err));
    ASSERT(at == n);
done:
    for (int64_t i = 0; columns && i < batch.n_children; i++) array_release(&columns[i]);
    mem_free(d->call->mem, columns);
    array_release(&batch);
    if (st != PENNON_OK) array_release(out);
    return st;
}

static void cast_release(void *ctx)
{
    struct cast_stream *d = ctx;
    stream_release(&d->scan);
    mem_free(d->call->mem, d);
}

static pennon_status open_cast(void *ctx, const struct call *c, struct evolving *e, const struct fragment *f,
                               struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct casting *k = ctx;
    struct ArrowSchema schema = {0};
    struct cast_stream *d;
    if (k->plain) return evolve_scan(e, c, f, scan_plan_retain(k->plan), out, err);
    d = mem_calloc(c->mem, 1, sizeof *d, err);
    if (!d) return err->code;
    *d = (struct cast_stream){.call = e->c, .write = e->write};
    TRY(evolve_scan(e, c, f, scan_plan_retain(k->plan), &d->scan, err));
    TRY(arrow_schema_copy(&e->form, c->mem, &schema, err));
    struct cast_stream *given = d;
    d = NULL;
    TRY(stream_new(&schema, cast_next, cast_release, given, c->mem, out, err));
done:
    if (d) cast_release(d);
    return st;
}

/* Parts of structs can lie in files of their own from 2.2 on. */
static pennon_status check_parts(const struct altering *x, pennon_error *err)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct field *f = x->fields[i].field;
        if (!x->fields[i].type || !f->parent) continue;
        if (inside_list(f) || x->e->s->storage_version < STORAGE_2_2)
            return error_set(err, PENNON_NOT_SUPPORTED,
                             "another type for '%s', a part of '%s': that needs storage version 2.2, and structs alone above it",
                             x->list[i].path, f->parent->name);
    }
    return PENNON_OK;
}

static pennon_status write_casts(struct altering *x, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct evolving *e = x->e;
    struct casting k = {.plain = true};
    int32_t *ids = NULL;
    size_t n = 0;
    TRY(check_parts(x, err));
    TRY(check_indices(x, err));
    TRY_NEW(ids, mem_calloc(e->c->mem, x->n + 1, sizeof *ids, err));
    for (size_t i = 0; i < x->n; i++) {
        if (x->fields[i].type) ids[n++] = x->fields[i].id;
    }
    TRY(schema_project_ids(e->c->mem, e->schema, ids, n, &e->write, err));
    TRY(schema_to_arrow(e->write, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, e->c->mem, &e->form, err));
    TRY(scan_plan_begin(e->s, BLOB_AS_DESCRIPTOR, false, e->c->mem, &k.plan, err));
    for (size_t i = 0; i < e->write->n_fields; i++) TRY(plan_field(x, &k, e->write->fields[i], err));
    TRY(scan_plan_finish(k.plan, e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    e->source = (struct value_source){.open = open_cast, .ctx = &k};
    TRY(evolve_write(e, err));
done:
    scan_plan_free(k.plan);
    mem_free(e->c->mem, ids);
    return st;
}

/* ---- the call ---- */

static pennon_status alter(struct evolving *e, size_t n, const pennon_alteration *list, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct altering x = {.e = e, .n = n, .list = list};
    if (n == 0 || !list) return evolve_invalid(err, "no column to alter");
    TRY_NEW(x.fields, mem_calloc(e->c->mem, n, sizeof *x.fields, err));
    TRY_NEW(x.types, mem_calloc(e->c->mem, n, sizeof(struct schema *), err));
    for (size_t i = 0; i < n; i++) TRY(read_alteration(&x, i, err));
    TRY(schema_alter(e->c->mem, e->s->schema, x.fields, n, e->next_id, &e->schema, err));
    TRY(check_nullability(&x, err));
    for (size_t i = 0; i < e->schema->n_all; i++) e->result.fields_added += e->schema->by_id[i]->id >= e->next_id;
    e->result.fields_dropped = e->s->schema->n_all + e->result.fields_added - e->schema->n_all;
    if (x.n_casts > 0) TRY(write_casts(&x, err));
    TRY(evolve_commit(e, x.n_casts == 0, err));
done:
    for (size_t i = 0; x.types && i < n; i++) schema_release(x.types[i]);
    mem_free(e->c->mem, x.types);
    mem_free(e->c->mem, x.fields);
    return st;
}

pennon_status pennon_dataset_alter_columns(pennon_dataset *ds, size_t n, const pennon_alteration *alterations,
                                           const pennon_evolution_options *options, pennon_evolution_result *result,
                                           pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK) st = refuse_parts(&e, a.err);
    if (st == PENNON_OK) st = alter(&e, n, alterations, a.err);
    return evolve_end(&e, st, result, err);
}
