/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What becomes of a schema when columns are added, dropped or altered.
 *
 * change | fields that stay            | new fields
 * -------|-----------------------------|-----------------------------------------------------------------------------
 * add    | place, id, everything       | at the end of the table or of their struct; ids in pre-order
 * drop   | place, id, everything       | -
 * select | id, everything but place    | -
 * alter  | place; id unless it is cast | a cast field is a new one: new ids for it and what is in it, no metadata
 *
 * The caller says where new ids begin: behind all that the schema and the data files have ever used.
 * Names are compared exactly, at every level; items of lists by place.
 * Source: spec commits 8.1-8.3. */
#include "schema/schema_private.h"

static struct field *child_named(struct field *const *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i]->name, name) == 0) return fields[i];
    }
    return NULL;
}

/* ---- paths ---- */

pennon_status schema_find_inside(const struct schema *s, const char *path, const struct field **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct field *f = NULL;
    size_t at = 0;
    struct buf part;
    buf_init(&part, s->mem, 1 << 20);
    do {
        TRY(schema_path_part(path, &at, &part, err));
        const char *name = (const char *)part.data;
        f = f == NULL ? schema_find_name(s, name) : child_named(f->children, f->n_children, name);
    } while (f != NULL && path[at] != '\0');
    *out = f;
done:
    buf_free(&part);
    return st;
}

pennon_status schema_field_path(const struct field *f, struct buf *out, pennon_error *err)
{
    TRY_RETURN(field_path(f, out, err));
    return buf_terminate(out, err);
}

/* ---- add ---- */

static struct field *copy_new(struct schema *to, const struct field *f, pennon_error *err)
{
    struct field *copy = field_copy_flat(to, f, f->n_children, err);
    if (copy == NULL) return NULL;
    copy->id = FIELD_NO_ID;
    for (size_t i = 0; i < f->n_children; i++) {
        copy->children[i] = copy_new(to, f->children[i], err);
        if (copy->children[i] == NULL) return NULL;
    }
    return copy;
}

/* May parts of `new` become parts of `have`? */
static bool merges(const struct field *have, const struct field *new)
{
    return have->kind == new->kind && (have->kind == FIELD_STRUCT || have->kind == FIELD_LIST || have->kind == FIELD_FSL_STRUCT);
}

static struct field *merge_field(struct schema *to, const struct field *have, const struct field *new, pennon_error *err);

static pennon_status merge_list(struct schema *to, struct field *const *have, size_t n_have, struct field *const *new, size_t n_new,
                                struct field **out, size_t *n_out, pennon_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < n_have; i++) {
        const struct field *twin = child_named(new, n_new, have[i]->name);
        out[n] = twin != NULL ? merge_field(to, have[i], twin, err) : field_copy(to, have[i], err);
        if (out[n++] == NULL) return err->code;
    }
    for (size_t i = 0; i < n_new; i++) {
        if (child_named(have, n_have, new[i]->name) != NULL) continue;
        out[n] = copy_new(to, new[i], err);
        if (out[n++] == NULL) return err->code;
    }
    *n_out = n;
    return PENNON_OK;
}

static struct field *merge_field(struct schema *to, const struct field *have, const struct field *new, pennon_error *err)
{
    if (!merges(have, new)) return field_copy(to, have, err);
    const bool place = have->kind != FIELD_STRUCT;
    struct field *f = field_copy_flat(to, have, place ? 1 : have->n_children + new->n_children, err);
    if (f == NULL) return NULL;
    if (place) {
        ASSERT(have->n_children == 1 && new->n_children == 1);
        f->children[0] = merge_field(to, have->children[0], new->children[0], err);
        return f->children[0] != NULL ? f : NULL;
    }
    pennon_status st =
        merge_list(to, have->children, have->n_children, new->children, new->n_children, f->children, &f->n_children, err);
    return st == PENNON_OK ? f : NULL;
}

static pennon_status merge_metadata(struct schema *to, const struct schema *table, const struct schema *added, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct field_pair *pairs = NULL;
    const size_t n = table->n_metadata + added->n_metadata;
    TRY_NEW(pairs, mem_calloc(to->mem, n + 1, sizeof *pairs, err));
    for (size_t i = 0; i < n; i++) pairs[i] = i < table->n_metadata ? table->metadata[i] : added->metadata[i - table->n_metadata];
    TRY(pairs_copy(&to->arena, pairs, n, &to->metadata, &to->n_metadata, err));
done:
    mem_free(to->mem, pairs);
    return st;
}

pennon_status schema_merge(struct mem *m, const struct schema *table, const struct schema *added, int32_t next, struct schema **out,
                           pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *s = NULL;
    TRY_NEW(s, schema_new(m, err));
    TRY(merge_metadata(s, table, added, err));
    TRY_NEW(s->fields, arena_calloc(&s->arena, table->n_fields + added->n_fields + 1, sizeof(struct field *), err));
    TRY(merge_list(s, table->fields, table->n_fields, added->fields, added->n_fields, s->fields, &s->n_fields, err));
    TRY(schema_finish(s, err));
    TRY(schema_assign_ids(m, s, next, out, err));
done:
    schema_release(s);
    return st;
}

/* ---- drop ---- */

struct excluding {
    struct schema *to;
    const struct field *const *gone;
    size_t n;
};

static bool goes(const struct excluding *x, const struct field *f)
{
    for (size_t i = 0; i < x->n; i++) {
        if (x->gone[i] == f) return true;
    }
    return false;
}

static bool loses_parts(const struct excluding *x, const struct field *f)
{
    for (size_t i = 0; i < f->n_children; i++) {
        if (goes(x, f->children[i]) || loses_parts(x, f->children[i])) return true;
    }
    return false;
}

/* *out is NULL when nothing of the field is left. */
static pennon_status exclude_field(const struct excluding *x, const struct field *f, struct field **out, pennon_error *err)
{
    *out = NULL;
    if (goes(x, f)) return PENNON_OK;
    if (!loses_parts(x, f)) {
        *out = field_copy(x->to, f, err);
        return *out != NULL ? PENNON_OK : err->code;
    }
    if (f->kind != FIELD_STRUCT && f->kind != FIELD_LIST && f->kind != FIELD_FSL_STRUCT)
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "dropping a part of '%.128s', of type %.64s: it is kept as one column; drop all of it", f->name,
                         f->logical_type);
    struct field *copy = field_copy_flat(x->to, f, f->n_children, err);
    if (copy == NULL) return err->code;
    copy->n_children = 0;
    for (size_t i = 0; i < f->n_children; i++) {
        struct field *child;
        TRY_RETURN(exclude_field(x, f->children[i], &child, err));
        if (child != NULL) copy->children[copy->n_children++] = child;
    }
    if (copy->n_children > 0) *out = copy;
    return PENNON_OK;
}

pennon_status schema_exclude(struct mem *m, const struct schema *s, const struct field *const *gone, size_t n, uint32_t version,
                             struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct excluding x = {NULL, gone, n};
    TRY_NEW(x.to, schema_new(m, err));
    TRY(pairs_copy(&x.to->arena, s->metadata, s->n_metadata, &x.to->metadata, &x.to->n_metadata, err));
    TRY_NEW(x.to->fields, arena_calloc(&x.to->arena, s->n_fields + 1, sizeof(struct field *), err));
    for (size_t i = 0; i < s->n_fields; i++) {
        const struct field *f = s->fields[i];
        struct field *left = NULL;
        const bool whole = version <= STORAGE_2_1 && f->kind != FIELD_STRUCT && f->kind != FIELD_PACKED_STRUCT;
        if (!whole || !loses_parts(&x, f)) TRY(exclude_field(&x, f, &left, err));
        if (left != NULL) x.to->fields[x.to->n_fields++] = left;
    }
    TRY(schema_finish(x.to, err));
    *out = x.to;
    x.to = NULL;
done:
    schema_release(x.to);
    return st;
}

/* ---- select ---- */

static const struct field *top_of(const struct field *f)
{
    while (f->parent != NULL) f = f->parent;
    return f;
}

static bool is_above(const struct field *above, const struct field *f)
{
    for (; f != NULL; f = f->parent) {
        if (f == above) return true;
    }
    return false;
}

static pennon_status check_selected(const struct field *const *kept, size_t n, uint32_t version, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        for (const struct field *up = kept[i]->parent; up != NULL; up = up->parent) {
            const bool list = up->kind == FIELD_LIST || up->kind == FIELD_FSL_STRUCT;
            if (up->kind == FIELD_STRUCT || (list && version > STORAGE_2_1)) continue;
            return error_set(err, PENNON_NOT_SUPPORTED, "keeping a part of '%.128s', of type %.64s; keep all of it", up->name,
                             up->logical_type);
        }
        for (size_t k = 0; k < i; k++) {
            if (is_above(kept[i], kept[k]) || is_above(kept[k], kept[i]))
                return error_set(err, PENNON_INVALID_ARGUMENT, "column '%.128s' is named twice", kept[i]->name);
        }
    }
    return PENNON_OK;
}

pennon_status schema_select(struct mem *m, const struct schema *s, const struct field *const *kept, size_t n, uint32_t version,
                            struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *part = NULL, *to = NULL;
    int32_t *ids = NULL;
    TRY(check_selected(kept, n, version, err));
    TRY_NEW(ids, mem_calloc(m, n + 1, sizeof *ids, err));
    for (size_t i = 0; i < n; i++) ids[i] = kept[i]->id;
    TRY(schema_project_ids(m, s, ids, n, &part, err));
    TRY_NEW(to, schema_new(m, err));
    TRY(pairs_copy(&to->arena, s->metadata, s->n_metadata, &to->metadata, &to->n_metadata, err));
    TRY_NEW(to->fields, arena_calloc(&to->arena, n + 1, sizeof(struct field *), err));
    for (size_t i = 0; i < n; i++) {
        const struct field *top = top_of(kept[i]);
        bool listed = false;
        for (size_t k = 0; k < to->n_fields && !listed; k++) listed = to->fields[k]->id == top->id;
        if (listed) continue;
        TRY_NEW(to->fields[to->n_fields], field_copy(to, schema_find_id(part, top->id), err));
        to->n_fields++;
    }
    TRY(schema_finish(to, err));
    *out = to;
    to = NULL;
done:
    mem_free(m, ids);
    schema_release(part);
    schema_release(to);
    return st;
}

/* ---- alter ---- */

struct altering {
    struct schema *to;
    const struct field_alteration *list;
    size_t n;
};

static struct field *alter_field(const struct altering *x, const struct field *f, pennon_error *err);

/* Ids from *next in pre-order. */
static void number(struct field *f, int32_t *next)
{
    f->id = (*next)++;
    for (size_t i = 0; i < f->n_children; i++) {
        number(f->children[i], next);
        f->children[i]->parent_id = f->id;
    }
}

static struct field *cast_field(const struct altering *x, const struct field *f, const struct field_alteration *a,
                                pennon_error *err)
{
    struct field *copy = field_copy(x->to, a->type, err);
    int32_t id = a->id;
    if (copy == NULL) return NULL;
    number(copy, &id);
    copy->nullable = f->nullable;
    copy->parent_id = f->parent_id;
    copy->name = f->name;
    return copy;
}

static struct field *alter_children(const struct altering *x, const struct field *f, pennon_error *err)
{
    struct field *copy = field_copy_flat(x->to, f, f->n_children, err);
    for (size_t i = 0; copy != NULL && i < f->n_children; i++) {
        copy->children[i] = alter_field(x, f->children[i], err);
        if (copy->children[i] == NULL) return NULL;
    }
    return copy;
}

static struct field *alter_field(const struct altering *x, const struct field *f, pennon_error *err)
{
    const struct field_alteration *a = NULL;
    for (size_t i = 0; i < x->n && a == NULL; i++) {
        if (x->list[i].field == f) a = &x->list[i];
    }
    struct field *copy = a != NULL && a->type != NULL ? cast_field(x, f, a, err) : alter_children(x, f, err);
    if (copy == NULL) return NULL;
    const char *name = a != NULL && a->rename != NULL ? a->rename : f->name;
    copy->name = arena_strndup(&x->to->arena, name, strlen(name), err);
    if (a != NULL && a->sets_nullable) copy->nullable = a->nullable;
    return copy->name != NULL ? copy : NULL;
}

static pennon_status check_alterations(const struct field_alteration *list, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct field *f = list[i].field;
        if (f->parent == NULL && list[i].rename != NULL) TRY_RETURN(schema_check_top_name(list[i].rename, err));
        if (list[i].rename != NULL &&
            (list[i].rename[0] == '\0' || !utf8_valid((const uint8_t *)list[i].rename, strlen(list[i].rename))))
            return error_set(err, PENNON_INVALID_ARGUMENT, "column '%.128s' cannot get a name that is empty or no UTF-8", f->name);
        for (size_t k = 0; k < n; k++) {
            if (k < i && list[k].field == f)
                return error_set(err, PENNON_INVALID_ARGUMENT, "column '%.128s' is altered twice", f->name);
            for (const struct field *up = f->parent; up != NULL && list[k].type != NULL; up = up->parent) {
                if (up == list[k].field)
                    return error_set(err, PENNON_INVALID_ARGUMENT, "'%.128s' is a part of '%.128s', which gets another type",
                                     f->name, up->name);
            }
        }
    }
    return PENNON_OK;
}

static pennon_status check_unique(const struct schema *s, struct field *const *fields, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char **names = NULL;
    TRY_NEW(names, mem_calloc(s->mem, n + 1, sizeof *names, err));
    for (size_t i = 0; i < n; i++) names[i] = fields[i]->name;
    sort_names(names, n);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i], names[i - 1]) == 0)
            FAIL(PENNON_INVALID_ARGUMENT, "Duplicate field name \"%.256s\" in schema", names[i]);
    }
    for (size_t i = 0; i < n; i++) TRY(check_unique(s, fields[i]->children, fields[i]->n_children, err));
done:
    mem_free(s->mem, names);
    return st;
}

static int64_t count_fields(const struct field *f)
{
    int64_t n = 1;
    for (size_t i = 0; i < f->n_children; i++) n += count_fields(f->children[i]);
    return n;
}

pennon_status schema_alter(struct mem *m, const struct schema *s, struct field_alteration *list, size_t n, int32_t next,
                           struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct altering x = {NULL, list, n};
    int64_t id = next;
    TRY(check_alterations(list, n, err));
    for (size_t i = 0; i < n; i++) {
        list[i].id = list[i].type != NULL ? (int32_t)id : list[i].field->id;
        if (list[i].type != NULL) id += count_fields(list[i].type);
        if (id > INT32_MAX) FAIL(PENNON_INVALID_ARGUMENT, "field ids are used up: the highest is %" PRId32, INT32_MAX);
    }
    TRY_NEW(x.to, schema_new(m, err));
    TRY(pairs_copy(&x.to->arena, s->metadata, s->n_metadata, &x.to->metadata, &x.to->n_metadata, err));
    TRY_NEW(x.to->fields, arena_calloc(&x.to->arena, s->n_fields + 1, sizeof(struct field *), err));
    for (size_t i = 0; i < s->n_fields; i++) {
        TRY_NEW(x.to->fields[i], alter_field(&x, s->fields[i], err));
        x.to->n_fields++;
    }
    TRY(check_unique(x.to, x.to->fields, x.to->n_fields, err));
    TRY(schema_finish(x.to, err));
    *out = x.to;
    x.to = NULL;
done:
    schema_release(x.to);
    return st;
}
