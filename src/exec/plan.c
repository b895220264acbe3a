/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Making the plan of a filtered read, and putting result batches together.
 *
 * Names, filter and expressions become sources, each once; finish divides them into splits and makes the schema of the result.
 * Source: spec expressions 9, 10.1, 10.6. */
#include "exec/plan.h"

/* ---- begin, end ---- */

pennon_status scan_plan_begin(const struct snapshot *s, enum blob_handling blobs, bool with_deleted, struct mem *m,
                              struct scan_plan **out, pennon_error *err)
{
    struct scan_plan *p = mem_calloc(m, 1, sizeof *p, err);
    *out = p;
    if (!p) return err->code;
    atomic_init(&p->refs, 1);
    p->mem = mem_retain(m);
    arena_init(&p->arena, m);
    p->blobs = blobs;
    p->with_deleted = with_deleted;
    p->schema = schema_retain(s->schema);
    return PENNON_OK;
}

struct scan_plan *scan_plan_retain(struct scan_plan *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void scan_plan_free(struct scan_plan *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < SPLITS; i++) {
        column_plan_free(p->splits[i].first);
        column_plan_free(p->splits[i].late);
        arrow_schema_release(&p->splits[i].kept);
    }
    for (size_t i = 0; i < p->n_outputs; i++) expr_free(p->outputs[i].e);
    expr_free(p->filter);
    row_bounds_free(p->mem, &p->bounds);
    arrow_schema_release(&p->input);
    arrow_schema_release(&p->arrow);
    schema_release(p->schema);
    struct mem *m = p->mem;
    mem_free(m, p->sources);
    mem_free(m, p->outputs);
    mem_free(m, p->filter_text);
    arena_reset(&p->arena);
    mem_free(m, p);
    mem_release(m);
}

/* ---- sources and outputs ---- */

static bool field_is_json(const struct field *f)
{
    bool json = strcmp(f->logical_type, "json") == 0;
    for (size_t i = 0; i < f->n_children && !json; i++) json = field_is_json(f->children[i]);
    return json;
}

/* Is the column, or something in it, stored otherwise than it is given? */
static bool path_is_json(const struct scan_plan *p, const char *path)
{
    const struct field *f = schema_find_name(p->schema, path);
    pennon_error ignored;
    pennon_error_init(&ignored);
    if (!f && schema_find_path(p->schema, path, &f, &ignored) != PENNON_OK) f = NULL;
    pennon_error_clear(&ignored);
    return f && field_is_json(f);
}

static pennon_status add_source(struct scan_plan *p, const char *path, bool as_stored, uint32_t *out, pennon_error *err)
{
    as_stored = as_stored && path_is_json(p, path);
    for (size_t i = 0; i < p->n_sources; i++) {
        if (!p->sources[i].place && p->sources[i].as_stored == as_stored && strcmp(p->sources[i].path, path) == 0) {
            *out = (uint32_t)i;
            return PENNON_OK;
        }
    }
    ASSERT(p->n_sources == 0 || !p->sources[p->n_sources - 1].place);
    TRY_RETURN(mem_grow(p->mem, &p->sources, &p->cap_sources, p->n_sources, sizeof *p->sources, ARROW_MAX_FIELDS, err));
    const char *copy = arena_strndup(&p->arena, path, strlen(path), err);
    if (!copy) return err->code;
    p->sources[p->n_sources] = (struct plan_source){.path = copy, .as_stored = as_stored};
    *out = (uint32_t)p->n_sources++;
    return PENNON_OK;
}

static pennon_status sources_of(struct scan_plan *p, const struct expr *e, uint32_t **out, pennon_error *err)
{
    size_t n;
    const struct expr_column *columns = expr_columns(e, &n);
    *out = arena_alloc(&p->arena, (n + 1) * sizeof **out, err);
    if (!*out) return err->code;
    for (size_t i = 0; i < n; i++) TRY_RETURN(add_source(p, columns[i].path, true, &(*out)[i], err));
    return PENNON_OK;
}

/* What expressions may name: the columns as they are stored, then the system columns. */
static pennon_status make_input(struct scan_plan *p, const struct snapshot *s, pennon_error *err)
{
    if (p->input.release) return PENNON_OK;
    pennon_status st = PENNON_OK;
    struct ArrowSchema table = {0}, all = {0};
    TRY(schema_to_arrow(s->schema, SCHEMA_VIEW_FILE, p->blobs, p->mem, &table, err));
    const size_t n = (size_t)table.n_children;
    size_t at = n;
    for (int i = 1; i < SYSTEM_PLACE; i++) at += schema_find_name(s->schema, system_column_name((enum system_column)i)) == NULL;
    TRY(arrow_schema_new(&all, "+s", "", 0, at, p->mem, err));
    for (size_t i = 0; i < n; i++) arrow_schema_move(table.children[i], all.children[i]);
    at = n;
    for (int i = 1; i < SYSTEM_PLACE; i++) {
        const char *name = system_column_name((enum system_column)i);
        if (schema_find_name(s->schema, name)) continue;
        TRY(arrow_schema_new(all.children[at++], "L", name, ARROW_FLAG_NULLABLE, 0, p->mem, err));
    }
    arrow_schema_move(&all, &p->input);
done:
    arrow_schema_release(&table);
    arrow_schema_release(&all);
    return st;
}

pennon_status scan_plan_filter(struct scan_plan *p, const struct snapshot *s, const char *text, struct bytes substrait,
                               pennon_error *err)
{
    bool value, is_null;
    struct buf b;
    struct expr *sql = NULL, *message = NULL;
    pennon_status st = PENNON_OK;
    buf_init(&b, p->mem, BUF_NO_LIMIT);
    ASSERT(p->filter == NULL && (text || substrait.data));
    TRY(make_input(p, s, err));
    if (text) TRY(expr_compile_filter(bytes_str(text), &p->input, p->mem, &sql, err));
    if (substrait.data) TRY(expr_compile_substrait(substrait, &p->input, p->mem, &message, err));
    st = expr_and(sql, message, &p->filter, err); /* takes both */
    sql = message = NULL;
    if (st != PENNON_OK) goto done;
    TRY(expr_print(p->filter, &b, err));
    TRY(buf_terminate(&b, err));
    TRY_NEW(p->filter_text, mem_strdup(p->mem, (const char *)b.data, err));
    if (expr_constant_filter(p->filter, &value, &is_null)) {
        p->nothing = is_null || !value;
        expr_free(p->filter);
        p->filter = NULL;
        goto done;
    }
    TRY(sources_of(p, p->filter, &p->filter_sources, err));
    for (size_t i = 0; i < p->n_sources; i++) p->sources[i].filter = true;
    TRY(row_bounds_make(p->filter, s->schema, p->mem, &p->bounds, err));
done:
    expr_free(sql);
    expr_free(message);
    buf_free(&b);
    return st;
}

static pennon_status add_output(struct scan_plan *p, const char *name, struct plan_output **out, pennon_error *err)
{
    TRY_RETURN(mem_grow(p->mem, &p->outputs, &p->cap_outputs, p->n_outputs, sizeof *p->outputs, ARROW_MAX_FIELDS, err));
    *out = &p->outputs[p->n_outputs];
    (*out)->name = arena_strndup(&p->arena, name, strlen(name), err);
    if (!(*out)->name) return err->code;
    p->n_outputs++;
    return PENNON_OK;
}

pennon_status scan_plan_column(struct scan_plan *p, const char *path, pennon_error *err)
{
    struct plan_output *o;
    TRY_RETURN(add_output(p, path, &o, err));
    o->sources = arena_alloc(&p->arena, sizeof *o->sources, err);
    if (!o->sources) return err->code;
    TRY_RETURN(add_source(p, path, false, o->sources, err));
    p->sources[o->sources[0]].wanted = true;
    return PENNON_OK;
}

pennon_status scan_plan_place(struct scan_plan *p, pennon_error *err)
{
    struct plan_output *o;
    const char *name = system_column_name(SYSTEM_PLACE);
    TRY_RETURN(add_output(p, name, &o, err));
    TRY_RETURN(mem_grow(p->mem, &p->sources, &p->cap_sources, p->n_sources, sizeof *p->sources, ARROW_MAX_FIELDS, err));
    o->sources = arena_alloc(&p->arena, sizeof *o->sources, err);
    if (!o->sources) return err->code;
    p->sources[p->n_sources] = (struct plan_source){.path = name, .place = true, .wanted = true};
    o->sources[0] = (uint32_t)p->n_sources++;
    return PENNON_OK;
}

/* Is the type JSON as files hold it? */
static bool is_stored_json(const struct ArrowSchema *type)
{
    struct bytes name = arrow_metadata_get(type->metadata, "ARROW:extension:name");
    return strcmp(type->format, "Z") == 0 && bytes_equal(name, bytes_str("lance.json"));
}

pennon_status scan_plan_expression(struct scan_plan *p, const struct snapshot *s, const char *name, const char *sql,
                                   pennon_error *err)
{
    struct plan_output *o;
    size_t n;
    if (!name || !name[0]) return error_set(err, PENNON_INVALID_ARGUMENT, "an expression without a name");
    if (!sql) return scan_plan_column(p, name, err);
    TRY_RETURN(make_input(p, s, err));
    TRY_RETURN(add_output(p, name, &o, err));
    pennon_status st = expr_compile(bytes_str(sql), &p->input, p->mem, &o->e, err);
    if (st != PENNON_OK) return error_prefix(err, "column '%s'", name);
    TRY_RETURN(sources_of(p, o->e, &o->sources, err));
    (void)expr_columns(o->e, &n);
    for (size_t i = 0; i < n; i++) p->sources[o->sources[i]].wanted = true;
    o->json = is_stored_json(expr_type(o->e));
    return PENNON_OK;
}

pennon_status scan_plan_stored(struct scan_plan *p, const char *name, pennon_error *err)
{
    struct plan_output *o;
    TRY_RETURN(add_output(p, name, &o, err));
    o->sources = arena_alloc(&p->arena, sizeof *o->sources, err);
    if (!o->sources) return err->code;
    TRY_RETURN(add_source(p, name, true, o->sources, err));
    p->sources[o->sources[0]].wanted = true;
    return PENNON_OK;
}

/* The value as the column stores it, or a text for a JSON column. */
static pennon_status compile_value(struct scan_plan *p, const struct ArrowSchema *type, const char *sql, struct expr **out,
                                   bool *text, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema utf8 = {0};
    *text = false;
    if (!is_stored_json(type)) return expr_compile_as(bytes_str(sql), &p->input, type, p->mem, out, err);
    TRY(expr_compile(bytes_str(sql), &p->input, p->mem, out, err));
    if (is_stored_json(expr_type(*out))) goto done;
    *text = true;
    expr_free(*out);
    *out = NULL;
    TRY(arrow_schema_new(&utf8, "u", "", ARROW_FLAG_NULLABLE, 0, p->mem, err));
    TRY(expr_compile_as(bytes_str(sql), &p->input, &utf8, p->mem, out, err));
done:
    arrow_schema_release(&utf8);
    return st;
}

pennon_status scan_plan_value(struct scan_plan *p, const struct snapshot *s, const struct field *f, const char *sql, bool *text,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct plan_output *o;
    struct ArrowSchema type = {0};
    size_t n;
    TRY(make_input(p, s, err));
    TRY(add_output(p, f->name, &o, err));
    TRY(field_to_arrow(f, SCHEMA_VIEW_FILE, p->blobs, p->mem, &type, err));
    st = compile_value(p, &type, sql, &o->e, text, err);
    if (st != PENNON_OK) {
        st = error_prefix(err, "column '%s'", f->name);
        goto done;
    }
    TRY(sources_of(p, o->e, &o->sources, err));
    (void)expr_columns(o->e, &n);
    for (size_t i = 0; i < n; i++) p->sources[o->sources[i]].wanted = true;
done:
    arrow_schema_release(&type);
    return st;
}

static pennon_status refuse_doubled(const struct scan_plan *p, pennon_error *err)
{
    for (size_t i = 0; i < p->n_outputs; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(p->outputs[i].name, p->outputs[k].name) == 0)
                return error_set(err, PENNON_INVALID_ARGUMENT, "column '%s' is asked for twice", p->outputs[i].name);
        }
    }
    return PENNON_OK;
}

static bool has_output(const struct scan_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_outputs; i++) {
        if (strcmp(p->outputs[i].name, name) == 0) return true;
    }
    return false;
}

pennon_status scan_plan_columns(struct scan_plan *p, const struct snapshot *s, const struct column_request *r,
                                const pennon_expressions *expressions, pennon_error *err)
{
    const char *id = system_column_name(SYSTEM_ROW_ID), *address = system_column_name(SYSTEM_ROW_ADDRESS);
    for (size_t i = 0; r->all && i < s->schema->n_fields; i++) TRY_RETURN(scan_plan_column(p, s->schema->fields[i]->name, err));
    for (size_t i = 0; !r->all && i < r->n; i++) {
        if (!r->columns[i]) return error_set(err, PENNON_INVALID_ARGUMENT, "column name %zu is NULL", i);
        TRY_RETURN(scan_plan_column(p, r->columns[i], err));
    }
    for (size_t i = 0; expressions && i < expressions->n; i++)
        TRY_RETURN(scan_plan_expression(p, s, expressions->items[i].name, expressions->items[i].sql, err));
    if (r->row_id && !has_output(p, id)) TRY_RETURN(scan_plan_column(p, id, err));
    if (r->row_address && !has_output(p, address)) TRY_RETURN(scan_plan_column(p, address, err));
    return r->allow_doubled ? PENNON_OK : refuse_doubled(p, err);
}

/* ---- splits ---- */

static bool is_system(const struct snapshot *s, const struct plan_source *source)
{
    return source->place || (system_column_of(source->path) != SYSTEM_NONE && !schema_find_name(s->schema, source->path));
}

/* Columns of the sources with in[i] set, in their order; child[i] is where each came. */
static pennon_status plan_sources(const struct scan_plan *p, const struct snapshot *s, const bool *in, uint32_t *child,
                                  struct column_plan **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char **names = NULL;
    bool *as_stored = NULL;
    struct column_request r = {.with_deleted = p->with_deleted, .map = p->map, .allow_doubled = true, .blobs = p->blobs};
    TRY_NEW(names, mem_calloc(p->mem, p->n_sources + 1, sizeof *names, err));
    TRY_NEW(as_stored, mem_calloc(p->mem, p->n_sources + 1, sizeof *as_stored, err));
    for (size_t i = 0; i < p->n_sources; i++) {
        child[i] = NO_CHILD;
        if (!in[i]) continue;
        if (p->sources[i].place) {
            ASSERT(i + 1 == p->n_sources);
            r.place = true;
            child[i] = (uint32_t)r.n;
            continue;
        }
        names[r.n] = p->sources[i].path;
        as_stored[r.n] = p->sources[i].as_stored;
        child[i] = (uint32_t)r.n++;
    }
    r.columns = names;
    r.as_stored = as_stored;
    TRY(column_plan_make(s, &r, p->mem, out, err));
done:
    mem_free(p->mem, names);
    mem_free(p->mem, as_stored);
    return st;
}

/* Wanted children of `first`, and where each wanted source is found after the filter. */
static pennon_status keep_wanted(struct scan_plan *p, struct split *sp, const uint32_t *late_child, pennon_error *err)
{
    uint32_t n = 0;
    for (size_t i = 0; i < p->n_sources; i++) n += p->sources[i].wanted && sp->first_child[i] != NO_CHILD;
    TRY_RETURN(arrow_schema_new(&sp->kept, "+s", "", 0, n, p->mem, err));
    uint32_t at = 0;
    for (size_t i = 0; i < p->n_sources; i++) {
        sp->child[i] = NO_CHILD;
        if (!p->sources[i].wanted) continue;
        if (sp->first_child[i] == NO_CHILD) {
            sp->child[i] = n + late_child[i];
            continue;
        }
        TRY_RETURN(arrow_schema_copy(sp->first->arrow.children[sp->first_child[i]], p->mem, sp->kept.children[at], err));
        sp->child[i] = at++;
    }
    return PENNON_OK;
}

/* `early`: what is not of the filter is read early by its flag; else it is late. */
static pennon_status make_split(struct scan_plan *p, const struct snapshot *s, bool all_early, struct split *sp, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool *in = NULL;
    uint32_t *late_child = NULL;
    bool any = false;
    TRY_NEW(in, mem_calloc(p->mem, p->n_sources + 1, sizeof *in, err));
    TRY_NEW(late_child, mem_calloc(p->mem, p->n_sources + 1, sizeof *late_child, err));
    TRY_NEW(sp->first_child, arena_alloc(&p->arena, (p->n_sources + 1) * sizeof *sp->first_child, err));
    TRY_NEW(sp->child, arena_alloc(&p->arena, (p->n_sources + 1) * sizeof *sp->child, err));
    for (size_t i = 0; i < p->n_sources; i++) {
        in[i] = all_early || p->sources[i].filter || p->sources[i].early;
        any = any || (!in[i] && !is_system(s, &p->sources[i]));
    }
    /* Nothing but numbers that are made here is not worth a second round. */
    for (size_t i = 0; i < p->n_sources && !any; i++) in[i] = true;
    TRY(plan_sources(p, s, in, sp->first_child, &sp->first, err));
    for (size_t i = 0; i < p->n_sources; i++) in[i] = !in[i];
    if (any) TRY(plan_sources(p, s, in, late_child, &sp->late, err));
    TRY(keep_wanted(p, sp, late_child, err));
done:
    mem_free(p->mem, in);
    mem_free(p->mem, late_child);
    return st;
}

/* ---- the schema of the result ---- */

static pennon_status json_schema(const char *name, struct mem *m, struct ArrowSchema *out, pennon_error *err)
{
    TRY_RETURN(arrow_schema_new(out, "u", name, ARROW_FLAG_NULLABLE, 0, m, err));
    return arrow_metadata_set(out, bytes_str("ARROW:extension:name"), bytes_str("arrow.json"), err);
}

static pennon_status output_schema(const struct scan_plan *p, const struct split *sp, const struct plan_output *o,
                                   struct ArrowSchema *out, pennon_error *err)
{
    if (o->json) return json_schema(o->name, p->mem, out, err);
    const struct ArrowSchema *from = NULL;
    if (o->e) {
        from = expr_type(o->e);
    } else {
        uint32_t child = sp->child[o->sources[0]], n = (uint32_t)sp->kept.n_children;
        from = child < n ? sp->kept.children[child] : sp->late->arrow.children[child - n];
    }
    TRY_RETURN(arrow_schema_copy(from, p->mem, out, err));
    if (o->e) out->flags |= ARROW_FLAG_NULLABLE;
    return arrow_schema_set_name(out, o->name, err);
}

static pennon_status result_schema(struct scan_plan *p, const struct snapshot *s, const struct split *sp, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_pair *pairs = NULL;
    TRY(arrow_schema_new(&p->arrow, "+s", "", 0, p->n_outputs, p->mem, err));
    for (size_t i = 0; i < p->n_outputs; i++) TRY(output_schema(p, sp, &p->outputs[i], p->arrow.children[i], err));
    if (s->schema->n_metadata == 0) goto done;
    TRY_NEW(pairs, mem_calloc(p->mem, s->schema->n_metadata, sizeof *pairs, err));
    for (size_t i = 0; i < s->schema->n_metadata; i++)
        pairs[i] = (struct arrow_pair){s->schema->metadata[i].key, s->schema->metadata[i].value};
    TRY(arrow_metadata_replace(&p->arrow, pairs, s->schema->n_metadata, err));
done:
    mem_free(p->mem, pairs);
    return st;
}

/* ---- finish ---- */

static bool names_have(const pennon_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->items[i], name) == 0) return true;
    }
    return false;
}

static pennon_status mark_early(struct scan_plan *p, const struct snapshot *s, const pennon_names *late, pennon_error *err)
{
    /* The names are checked by planning them. */
    struct column_plan *check = NULL;
    const struct column_request r = {.columns = late->items, .n = late->n, .allow_doubled = true, .blobs = p->blobs};
    TRY_RETURN(column_plan_make(s, &r, p->mem, &check, err));
    column_plan_free(check);
    for (size_t i = 0; i < p->n_sources; i++) p->sources[i].early = !names_have(late, p->sources[i].path);
    return PENNON_OK;
}

pennon_status scan_plan_finish(struct scan_plan *p, const struct snapshot *s, int32_t style, const pennon_names *late,
                               pennon_error *err)
{
    const pennon_names none = {0};
    ASSERT(!p->direct && p->arrow.release == NULL);
    if (style < PENNON_MATERIALIZE_HEURISTIC || style > PENNON_MATERIALIZE_EARLY_EXCEPT)
        return error_set(err, PENNON_INVALID_ARGUMENT, "materialize %d is not one of the PENNON_MATERIALIZE_ values", style);
    if (late && style != PENNON_MATERIALIZE_EARLY_EXCEPT)
        return error_set(err, PENNON_INVALID_ARGUMENT, "late_columns belong to PENNON_MATERIALIZE_EARLY_EXCEPT");
    if (style == PENNON_MATERIALIZE_EARLY_EXCEPT) TRY_RETURN(mark_early(p, s, late ? late : &none, err));
    struct split *lean = &p->splits[SPLIT_LEAN], *wide = &p->splits[SPLIT_WIDE];
    const bool heuristic = style == PENNON_MATERIALIZE_HEURISTIC;
    bool may_be_late = p->filter && style != PENNON_MATERIALIZE_EARLY;
    if (may_be_late) TRY_RETURN(make_split(p, s, false, lean, err));
    /* Blobs are not read for rows that may not pass. */
    if (!may_be_late || (heuristic && lean->late && !column_plan_reads_blobs(lean->late)))
        TRY_RETURN(make_split(p, s, true, wide, err));
    p->adaptive = lean->first && wide->first;
    return result_schema(p, s, lean->first ? lean : wide, err);
}

pennon_status scan_plan_direct(const struct snapshot *s, const struct column_request *r, struct mem *m, struct scan_plan **out,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *p = NULL;
    TRY(scan_plan_begin(s, r->blobs, r->with_deleted, m, &p, err));
    TRY(column_plan_make(s, r, m, &p->splits[SPLIT_WIDE].first, err));
    TRY(arrow_schema_copy(&p->splits[SPLIT_WIDE].first->arrow, m, &p->arrow, err));
    p->direct = true;
    *out = p;
    p = NULL;
done:
    scan_plan_free(p);
    return st;
}

/* ---- result batches ---- */

static struct ArrowArray *source_array(const struct split *sp, uint32_t source, struct ArrowArray *kept, struct ArrowArray *late)
{
    const uint32_t child = sp->child[source], n = (uint32_t)sp->kept.n_children;
    ASSERT(child != NO_CHILD && (child < n || late != NULL));
    return child < n ? kept->children[child] : late->children[child - n];
}

static pennon_status compute(const struct call *c, const struct split *sp, const struct plan_output *o, struct ArrowArray *kept,
                             struct ArrowArray *late, int64_t rows, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray **columns;
    struct ArrowArray text = {0};
    size_t n;
    (void)expr_columns(o->e, &n);
    TRY_NEW(columns, mem_calloc(c->mem, n + 1, sizeof *columns, err));
    for (size_t i = 0; i < n; i++) columns[i] = source_array(sp, o->sources[i], kept, late);
    TRY(expr_evaluate(o->e, c, columns, rows, out, err));
    if (!o->json) goto done;
    TRY(json_array_text(c->mem, out, &text, err));
    array_release(out);
    array_move(&text, out);
done:
    mem_free(c->mem, columns);
    return st;
}

pennon_status plan_assemble(const struct call *c, const struct scan_plan *p, const struct split *sp, struct ArrowArray *kept,
                            struct ArrowArray *late, int64_t rows, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    TRY(array_new(out, 1, p->n_outputs, c->mem, err));
    out->length = rows;
    for (size_t i = 0; i < p->n_outputs; i++) {
        if (p->outputs[i].e) TRY(compute(c, sp, &p->outputs[i], kept, late, rows, out->children[i], err));
    }
    for (size_t i = 0; i < p->n_outputs; i++) {
        if (p->outputs[i].e) continue;
        struct ArrowArray *from = source_array(sp, p->outputs[i].sources[0], kept, late);
        if (from->release) {
            array_move(from, out->children[i]);
            continue;
        }
        /* Where doubled names are allowed, the first of them has the array. */
        size_t k = 0;
        while (p->outputs[k].e || p->outputs[k].sources[0] != p->outputs[i].sources[0]) k++;
        ASSERT(k < i);
        TRY(array_copy_range(p->arrow.children[i], out->children[k], 0, rows, 0, c->mem, out->children[i], err));
    }
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}

pennon_status plan_take(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct scan_plan *p,
                        const uint64_t *places, size_t n, struct ArrowArray *out, pennon_error *err)
{
    const struct split *sp = &p->splits[SPLIT_WIDE];
    struct ArrowArray batch = {0};
    ASSERT(p->filter == NULL && sp->late == NULL);
    if (p->direct) return take_places(c, s, fc, sp->first, places, n, out, err);
    out->release = NULL;
    pennon_status st = take_places(c, s, fc, sp->first, places, n, &batch, err);
    if (st == PENNON_OK) st = plan_assemble(c, p, sp, &batch, NULL, batch.length, out, err);
    array_release(&batch);
    return st;
}
