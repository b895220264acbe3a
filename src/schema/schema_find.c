/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Finding fields: by id, by name, by dotted path; and the name that a mistyped one is nearest to. */
#include <stdlib.h>

#include "schema/schema_private.h"

/* Names longer than this are not compared by edit distance. */
#define NEAR_NAME_MAX 64

size_t schema_place_of_id(const struct schema *s, int32_t id)
{
    size_t low = 0, high = s->n_all;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->by_id[mid]->id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return id != FIELD_NO_ID && low < s->n_all && s->by_id[low]->id == id ? low : s->n_all;
}

const struct field *schema_find_id(const struct schema *s, int32_t id)
{
    const size_t at = schema_place_of_id(s, id);
    return at < s->n_all ? s->by_id[at] : NULL;
}

const struct field *schema_find_name(const struct schema *s, const char *name)
{
    size_t low = 0, high = s->n_fields;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(s->by_name[mid]->name, name) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < s->n_fields && strcmp(s->by_name[low]->name, name) == 0 ? s->by_name[low] : NULL;
}

static int compare_texts(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

void sort_names(const char **names, size_t n)
{
    if (n > 1) qsort(names, n, sizeof *names, compare_texts);
}

/* ---- nearest name ---- */

static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[NEAR_NAME_MAX + 1];
    ASSERT(na <= NEAR_NAME_MAX && nb <= NEAR_NAME_MAX);
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best) best = above + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[nb];
}

const char *nearest_name(const char *name, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t length = strlen(name);
    /* A third of the letters may be wrong: more is another word. */
    size_t least = length / 3 + 2;
    if (length > NEAR_NAME_MAX) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(names[i]);
        if (other > NEAR_NAME_MAX) continue;
        size_t d = edit_distance(name, length, names[i], other);
        if (d >= least) continue;
        least = d;
        best = names[i];
    }
    return best;
}

/* ---- paths ---- */

pennon_status schema_path_part(const char *path, size_t *at, struct buf *out, pennon_error *err)
{
    const char *p = path + *at;
    out->size = 0;
    if (*p == '`') {
        for (p++;; p++) {
            if (*p == '\0') return error_set(err, PENNON_INVALID_ARGUMENT, "column path '%.256s': a back-tick is not closed", path);
            if (*p == '`' && *++p != '`') break;
            TRY_RETURN(buf_append_byte(out, (uint8_t)*p, err));
        }
    } else {
        for (; *p != '\0' && *p != '.'; p++) TRY_RETURN(buf_append_byte(out, (uint8_t)*p, err));
    }
    bool last = *p == '\0';
    if (out->size == 0 || (!last && (*p != '.' || p[1] == '\0'))) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "column path '%.256s': expected a name at byte %td", path, p - path);
    }
    *at = (size_t)(p - path) + !last;
    return buf_terminate(out, err);
}

static const struct field *find_child(struct field *const *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i]->name, name) == 0) return fields[i];
    }
    return NULL;
}

static pennon_status not_found(const struct schema *s, const struct field *in, const char *path, const char *part,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char **names = NULL;
    struct field *const *fields = in != NULL ? in->children : s->fields;
    size_t n = in != NULL ? in->n_children : s->n_fields;
    if (in != NULL && in->kind != FIELD_STRUCT && in->kind != FIELD_PACKED_STRUCT) {
        FAIL(PENNON_NOT_FOUND, "there is no column '%.256s': '%.128s' is of type %.64s, not a struct", path, in->name,
             in->logical_type);
    }
    TRY_NEW(names, mem_calloc(s->mem, n, sizeof *names, err));
    for (size_t i = 0; i < n; i++) names[i] = fields[i]->name;
    const char *near = nearest_name(part, names, n);
    if (near != NULL) FAIL(PENNON_NOT_FOUND, "there is no column '%.256s'; did you mean '%s'?", path, near);
    FAIL(PENNON_NOT_FOUND, "there is no column '%.256s'", path);
done:
    mem_free(s->mem, names);
    if (st == PENNON_NOT_FOUND) (void)error_kind(err, "ColumnNotFound");
    return st;
}

pennon_status schema_find_path(const struct schema *s, const char *path, const struct field **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct field *f = NULL;
    size_t at = 0;
    struct buf part;
    buf_init(&part, s->mem, 1 << 20);
    do {
        const struct field *next;
        TRY(schema_path_part(path, &at, &part, err));
        const char *name = (const char *)part.data;
        if (f == NULL) {
            next = schema_find_name(s, name);
        } else {
            bool inside = f->kind == FIELD_STRUCT || f->kind == FIELD_PACKED_STRUCT;
            next = inside ? find_child(f->children, f->n_children, name) : NULL;
        }
        if (next == NULL) {
            st = not_found(s, f, path, name, err);
            goto done;
        }
        f = next;
    } while (path[at] != '\0');
    *out = f;
done:
    buf_free(&part);
    return st;
}

pennon_status field_path(const struct field *f, struct buf *out, pennon_error *err)
{
    if (f->parent != NULL) {
        TRY_RETURN(field_path(f->parent, out, err));
        TRY_RETURN(buf_append_byte(out, '.', err));
    }
    bool quote = strchr(f->name, '.') != NULL || strchr(f->name, '`') != NULL;
    if (!quote) return buf_append(out, f->name, strlen(f->name), err);
    TRY_RETURN(buf_append_byte(out, '`', err));
    for (const char *p = f->name; *p != '\0'; p++) {
        if (*p == '`') TRY_RETURN(buf_append_byte(out, '`', err));
        TRY_RETURN(buf_append_byte(out, (uint8_t)*p, err));
    }
    return buf_append_byte(out, '`', err);
}
