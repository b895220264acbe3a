/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Schemas from and to the flat field lists of manifests and data files.
 *
 * A list is in pre-order: every field comes after its parent, siblings in table order, perhaps with other subtrees between them. The ids are
 * sorted once, so that parents are found in O(log n) whatever the ids are.
 * Source: spec file-format 3.3, 4.1, table-format 7. */
#include <stdlib.h>

#include "schema/schema_private.h"

#define BLOB_DESCRIPTOR_PARTS 5u

struct id_place {
    int32_t id;
    size_t place; /* in the list of fields */
};

static int compare_id_places(const void *x, const void *y)
{
    const struct id_place *a = x, *b = y;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

struct reading {
    struct schema *schema;
    struct field **fields; /* by place; NULL = left out */
    struct id_place *ids;  /* sorted, fields that are kept */
    size_t n_ids;
    pennon_error *err;
};

/* The field with the id, only when it comes before `place`. */
static struct field *find_before(const struct reading *r, int32_t id, size_t place)
{
    size_t low = 0, high = r->n_ids;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->ids[mid].id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    bool found = low < r->n_ids && r->ids[low].id == id && r->ids[low].place < place;
    return found ? r->fields[r->ids[low].place] : NULL;
}

static pennon_status text_copy(struct schema *s, struct bytes text, const char *what, const char **out, pennon_error *err)
{
    CHECK_FILE_RETURN(text.size == 0 || memchr(text.data, 0, text.size) == NULL, "schema: %s with a zero byte", what);
    CHECK_FILE_RETURN(utf8_valid(text.data, text.size), "schema: %s that is not UTF-8", what);
    *out = arena_strndup(&s->arena, (const char *)text.data, text.size, err);
    return *out != NULL ? PENNON_OK : err->code;
}

/* The pairs of a field: its map, and what other tags say that Arrow keeps in metadata. */
static pennon_status read_metadata(struct schema *s, const struct field_message *m, struct field *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct field_pair *pairs = NULL;
    size_t n = 0;
    TRY_NEW(pairs, mem_calloc(s->mem, m->n_metadata + 2, sizeof *pairs, err));
    for (; n < m->n_metadata; n++) pairs[n] = (struct field_pair){m->metadata[n].key, m->metadata[n].value};
    if (m->extension_name.size > 0) pairs[n++] = (struct field_pair){bytes_str(KEY_EXTENSION_NAME), m->extension_name};
    if (bytes_are(m->logical_type, "blob")) pairs[n++] = (struct field_pair){bytes_str(KEY_BLOB), bytes_str("true")};
    TRY(pairs_copy(&s->arena, pairs, n, &f->metadata, &f->n_metadata, err));
done:
    mem_free(s->mem, pairs);
    return st;
}

static pennon_status read_dictionary(struct schema *s, const struct dictionary_message *m, struct field *f, pennon_error *err)
{
    struct dictionary_message *d = arena_calloc(&s->arena, 1, sizeof *d, err);
    if (d == NULL) return err->code;
    *d = (struct dictionary_message){.offset = m->offset, .length = m->length};
    f->dictionary = d;
    return PENNON_OK;
}

static pennon_status read_field(struct schema *s, const struct field_message *m, struct field **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct field *f = NULL;
    TRY_NEW(f, field_new(s, 0, err));
    f->id = m->id;
    f->parent_id = m->parent_id;
    f->nullable = m->nullable;
    f->wire_encoding = m->encoding;
    f->primary_key = m->unenforced_primary_key || m->unenforced_primary_key_position > 0;
    f->primary_key_position = m->unenforced_primary_key_position;
    f->clustering_key = m->unenforced_clustering_key || m->unenforced_clustering_key_position > 0;
    f->clustering_key_position = m->unenforced_clustering_key_position;
    TRY(text_copy(s, m->name, "a field name", &f->name, err));
    TRY(text_copy(s, m->logical_type, "a logical type", &f->logical_type, err));
    TRY(read_metadata(s, m, f, err));
    if (m->dictionary != NULL) TRY(read_dictionary(s, m->dictionary, f, err));
    if (m->unknown.size > 0) {
        const char *copy = NULL;
        TRY_NEW(copy, arena_strndup(&s->arena, (const char *)m->unknown.data, m->unknown.size, err));
        f->unknown = bytes_of(copy, m->unknown.size);
    }
    *out = f;
done:
    return st;
}

static pennon_status index_ids(struct reading *r, const struct field_message *fields, size_t n, bool skip_unnumbered)
{
    pennon_error *err = r->err;
    for (size_t i = 0; i < n; i++) {
        if (skip_unnumbered && fields[i].id == FIELD_NO_ID) continue;
        CHECK_FILE_RETURN(fields[i].id >= 0, "schema: field %zu has the id %" PRId32, i, fields[i].id);
        r->ids[r->n_ids++] = (struct id_place){fields[i].id, i};
    }
    if (r->n_ids > 0) qsort(r->ids, r->n_ids, sizeof *r->ids, compare_id_places);
    for (size_t i = 1; i < r->n_ids; i++)
        CHECK_FILE_RETURN(r->ids[i].id != r->ids[i - 1].id, "schema: two fields with the id %" PRId32, r->ids[i].id);
    return PENNON_OK;
}

/* Every field read, children counted at their parents. */
static pennon_status read_fields(struct reading *r, const struct field_message *fields, size_t n, bool skip_unnumbered)
{
    pennon_error *err = r->err;
    for (size_t i = 0; i < n; i++) {
        if (skip_unnumbered && fields[i].id == FIELD_NO_ID) continue;
        TRY_RETURN(read_field(r->schema, &fields[i], &r->fields[i], err));
        if (fields[i].parent_id == -1) {
            r->schema->n_fields++;
            continue;
        }
        struct field *parent = find_before(r, fields[i].parent_id, i);
        CHECK_FILE_RETURN(parent != NULL, "schema: field '%.128s' has the parent id %" PRId32 ", which no field before it has",
                          r->fields[i]->name, fields[i].parent_id);
        r->fields[i]->parent = parent;
        parent->n_children++;
    }
    return PENNON_OK;
}

static pennon_status link_fields(struct reading *r, size_t n)
{
    struct schema *s = r->schema;
    pennon_error *err = r->err;
    s->fields = arena_calloc(&s->arena, s->n_fields, sizeof(struct field *), err);
    if (s->fields == NULL) return err->code;
    s->n_fields = 0;
    for (size_t i = 0; i < n; i++) {
        struct field *f = r->fields[i];
        if (f == NULL) continue;
        struct field *parent = f->parent;
        if (f->n_children > 0) {
            f->children = arena_calloc(&s->arena, f->n_children, sizeof(struct field *), err);
            if (f->children == NULL) return err->code;
            f->n_children = 0; /* counts up again as they come */
        }
        if (parent == NULL) {
            s->fields[s->n_fields++] = f;
        } else {
            parent->children[parent->n_children++] = f;
        }
    }
    return PENNON_OK;
}

static pennon_status read_schema_metadata(struct schema *s, const struct map_entry *metadata, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct field_pair *pairs = NULL;
    if (n == 0) return PENNON_OK;
    TRY_NEW(pairs, mem_calloc(s->mem, n, sizeof *pairs, err));
    for (size_t i = 0; i < n; i++) pairs[i] = (struct field_pair){metadata[i].key, metadata[i].value};
    TRY(pairs_copy(&s->arena, pairs, n, &s->metadata, &s->n_metadata, err));
done:
    mem_free(s->mem, pairs);
    return st;
}

/* Columns are asked for by name, so that two of one name cannot both be meant; nobody writes them. */
static pennon_status check_sibling_names(struct mem *m, struct field *const *fields, size_t n, const char *parent,
                                         pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char **names = NULL;
    for (size_t i = 0; i < n; i++)
        TRY_RETURN(check_sibling_names(m, fields[i]->children, fields[i]->n_children, fields[i]->name, err));
    if (n < 2) return PENNON_OK;
    TRY_NEW(names, mem_calloc(m, n, sizeof *names, err));
    for (size_t i = 0; i < n; i++) names[i] = fields[i]->name;
    sort_names(names, n);
    for (size_t i = 1; i < n; i++)
        CHECK_FILE(strcmp(names[i], names[i - 1]) != 0, "schema: two fields have the name '%.128s'%s%.128s", names[i],
                   parent[0] != '\0' ? " in " : "", parent);
done:
    mem_free(m, names);
    return st;
}

pennon_status schema_from_messages(struct mem *m, const struct field_message *fields, size_t n, const struct map_entry *metadata,
                                   size_t n_metadata, bool skip_unnumbered, struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct reading r = {.err = err};
    CHECK_FILE(n <= ARROW_MAX_FIELDS, "schema: %zu fields; at most %u are accepted", n, ARROW_MAX_FIELDS);
    TRY_NEW(r.schema, schema_new(m, err));
    TRY_NEW(r.fields, mem_calloc(m, n, sizeof(struct field *), err));
    TRY_NEW(r.ids, mem_calloc(m, n, sizeof *r.ids, err));
    TRY(index_ids(&r, fields, n, skip_unnumbered));
    TRY(read_fields(&r, fields, n, skip_unnumbered));
    TRY(link_fields(&r, n));
    TRY(read_schema_metadata(r.schema, metadata, n_metadata, err));
    TRY(schema_finish(r.schema, err));
    TRY(check_sibling_names(m, r.schema->fields, r.schema->n_fields, "", err));
    *out = r.schema;
    r.schema = NULL;
done:
    mem_free(m, r.fields);
    mem_free(m, r.ids);
    schema_release(r.schema);
    return st;
}

/* ---- the other way ---- */

static pennon_status entries_of(const struct field_pair *pairs, size_t n, struct arena *a, struct map_entry **out,
                                pennon_error *err)
{
    *out = arena_calloc(a, n, sizeof **out, err);
    if (*out == NULL) return err->code;
    for (size_t i = 0; i < n; i++) (*out)[i] = (struct map_entry){.key = pairs[i].key, .value = pairs[i].value};
    return PENNON_OK;
}

pennon_status schema_metadata_to_messages(const struct schema *s, struct arena *a, struct map_entry **out, size_t *n,
                                          pennon_error *err)
{
    *n = s->n_metadata;
    return entries_of(s->metadata, s->n_metadata, a, out, err);
}

/* What a data file says of a blob v2 column: a struct of descriptors, which have no ids. Behind the field, whose message is filled. */
static pennon_status write_descriptor(struct arena *a, struct field_message *list, size_t *at, pennon_error *err)
{
    static const struct {
        const char *name, *type;
        uint32_t encoding;
    } parts[BLOB_DESCRIPTOR_PARTS] = {{"kind", "uint8", 1},
                                      {"position", "uint64", 1},
                                      {"size", "uint64", 1},
                                      {"blob_id", "uint32", 1},
                                      {"blob_uri", "string", 2}};
    static const char *const keys[] = {KEY_BLOB, KEY_PACKED};
    struct field_message *m = &list[*at - 1];
    m->extension_name = bytes_of(NULL, 0);
    m->n_metadata = ARRAY_LEN(keys);
    m->metadata = arena_calloc(a, ARRAY_LEN(keys), sizeof *m->metadata, err);
    if (m->metadata == NULL) return err->code;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        m->metadata[i] = (struct map_entry){.key = bytes_str(keys[i]), .value = bytes_str("true")};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        list[(*at)++] = (struct field_message){.name = bytes_str(parts[i].name),
                                               .id = FIELD_NO_ID,
                                               .parent_id = -1,
                                               .logical_type = bytes_str(parts[i].type),
                                               .encoding = parts[i].encoding};
    }
    return PENNON_OK;
}

/* `file`: as a data file has it, else as a manifest. */
static pennon_status write_field(const struct field *f, bool file, struct arena *a, struct field_message *list, size_t *at,
                                 pennon_error *err)
{
    struct field_message *m = &list[(*at)++];
    *m = (struct field_message){
        .name = bytes_str(f->name),
        .id = f->id,
        .parent_id = f->parent_id,
        .logical_type = bytes_str(f->logical_type),
        .nullable = f->nullable,
        .encoding = f->wire_encoding,
        .extension_name = field_metadata_get(f, KEY_EXTENSION_NAME),
        .n_metadata = f->n_metadata,
        .unenforced_primary_key = f->primary_key,
        .unenforced_primary_key_position = f->primary_key_position,
        .unenforced_clustering_key_position = f->clustering_key_position,
        .unknown = f->unknown,
    };
    TRY_RETURN(entries_of(f->metadata, f->n_metadata, a, &m->metadata, err));
    if (f->dictionary != NULL) {
        m->dictionary = arena_calloc(a, 1, sizeof *m->dictionary, err);
        if (m->dictionary == NULL) return err->code;
        *m->dictionary = *f->dictionary;
    }
    if (file && f->kind == FIELD_BLOB_V2) return write_descriptor(a, list, at, err);
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(write_field(f->children[i], file, a, list, at, err));
    return PENNON_OK;
}

/* Messages that a field becomes, at most. */
static size_t count_messages(const struct field *f)
{
    size_t n = 1 + (f->kind == FIELD_BLOB_V2 ? BLOB_DESCRIPTOR_PARTS : 0);
    for (size_t i = 0; i < f->n_children; i++) n += count_messages(f->children[i]);
    return n;
}

static pennon_status write_fields(const struct schema *s, bool file, struct arena *a, struct field_message **out, size_t *n,
                                  pennon_error *err)
{
    size_t at = 0, most = 0;
    for (size_t i = 0; i < s->n_fields; i++) most += count_messages(s->fields[i]);
    *out = arena_calloc(a, most, sizeof **out, err);
    if (*out == NULL) return err->code;
    for (size_t i = 0; i < s->n_fields; i++) TRY_RETURN(write_field(s->fields[i], file, a, *out, &at, err));
    ASSERT(at <= most);
    *n = at;
    return PENNON_OK;
}

pennon_status schema_to_messages(const struct schema *s, struct arena *a, struct field_message **out, size_t *n, pennon_error *err)
{
    return write_fields(s, false, a, out, n, err);
}

pennon_status schema_to_file_messages(const struct schema *s, struct arena *a, struct field_message **out, size_t *n,
                                      pennon_error *err)
{
    return write_fields(s, true, a, out, n, err);
}
