/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrow schemas: owned ones built and copied, imported ones checked, two of them compared.
 *
 * An owned schema holds its texts and its child structs; children may be moved out by a consumer (their release becomes NULL),
 * which is why each child has private data of its own and the parent only releases what is still there.
 *
 * Recursion is bounded by ARROW_MAX_DEPTH: validation refuses deeper schemas, and builders can only be as deep as what was
 * validated or parsed under the same bound.
 * Source: the Arrow C data interface. */
#include "arrow/arrow_internal.h"

/* ---------------------------------------------------------------------------------------------------- owned schemas */

void arrow_schema_release_owned(struct ArrowSchema *schema)
{
    struct schema_private *p = schema->private_data;
    struct mem *mem = p->mem;
    for (int64_t i = 0; i < schema->n_children; i++) arrow_schema_release(schema->children[i]);
    arrow_schema_release(&p->dictionary);
    mem_free(mem, p->format);
    mem_free(mem, p->name);
    mem_free(mem, p->metadata);
    mem_free(mem, p);
    schema->release = NULL;
    schema->private_data = NULL;
    mem_release(mem);
}

void arrow_schema_release(struct ArrowSchema *schema)
{
    if (schema != NULL && schema->release != NULL) schema->release(schema);
}

void arrow_schema_move(struct ArrowSchema *from, struct ArrowSchema *to)
{
    *to = *from;
    from->release = NULL;
    /* An owned dictionary lies in the private data, which moves along by pointer: no address changes. */
}

pennon_status arrow_schema_new(struct ArrowSchema *out, const char *format, const char *name, int64_t flags, size_t n_children,
                               struct mem *mem, pennon_error *err)
{
    size_t size = sizeof(struct schema_private);
    size_t per_child = sizeof(struct ArrowSchema) + sizeof(struct ArrowSchema *);
    struct schema_private *p = NULL;
    struct ArrowSchema *children = NULL;

    memset(out, 0, sizeof *out);
    if (n_children > ARROW_MAX_FIELDS) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: field '%s' has %zu children; at most %u are accepted", name,
                         n_children, ARROW_MAX_FIELDS);
    }
    size += n_children * per_child;
    p = mem_calloc(mem, 1, size, err);
    if (p == NULL) return err->code;
    children = (struct ArrowSchema *)(p + 1);
    p->child_pointers = (struct ArrowSchema **)(children + n_children);
    for (size_t i = 0; i < n_children; i++) p->child_pointers[i] = &children[i];
    p->mem = mem_retain(mem);
    out->private_data = p;
    out->release = arrow_schema_release_owned;
    out->flags = flags;
    out->n_children = (int64_t)n_children;
    out->children = n_children > 0 ? p->child_pointers : NULL;
    if (arrow_schema_set_format(out, format, err) != PENNON_OK || arrow_schema_set_name(out, name, err) != PENNON_OK) {
        arrow_schema_release(out);
        return err->code;
    }
    return PENNON_OK;
}

pennon_status arrow_schema_new_type(struct ArrowSchema *out, const struct arrow_type *type, const char *name, int64_t flags,
                                    size_t n_children, struct mem *mem, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf format;
    memset(out, 0, sizeof *out);
    buf_init(&format, mem, BUF_NO_LIMIT);
    TRY(arrow_type_format(type, &format, err));
    TRY(arrow_schema_new(out, (const char *)format.data, name, flags, n_children, mem, err));
done:
    buf_free(&format);
    return st;
}

pennon_status arrow_schema_add_dictionary(struct ArrowSchema *schema, pennon_error *err)
{
    struct schema_private *p = schema->private_data;
    UNUSED(err);
    ASSERT(arrow_schema_is_owned(schema) && schema->dictionary == NULL);
    schema->dictionary = &p->dictionary;
    return PENNON_OK;
}

/* A copy of `text` in place of *slot. */
static pennon_status swap_text(struct mem *mem, char **slot, const char *text, pennon_error *err)
{
    char *copy = mem_strdup(mem, text != NULL ? text : "", err);
    if (copy == NULL) return err->code;
    mem_free(mem, *slot);
    *slot = copy;
    return PENNON_OK;
}

pennon_status arrow_schema_set_name(struct ArrowSchema *schema, const char *name, pennon_error *err)
{
    struct schema_private *p = schema->private_data;
    ASSERT(arrow_schema_is_owned(schema));
    TRY_RETURN(swap_text(p->mem, &p->name, name, err));
    schema->name = p->name;
    return PENNON_OK;
}

pennon_status arrow_schema_set_format(struct ArrowSchema *schema, const char *format, pennon_error *err)
{
    struct schema_private *p = schema->private_data;
    ASSERT(arrow_schema_is_owned(schema) && format != NULL);
    TRY_RETURN(swap_text(p->mem, &p->format, format, err));
    schema->format = p->format;
    return PENNON_OK;
}

static pennon_status copy_metadata(struct ArrowSchema *to, const char *metadata, pennon_error *err)
{
    struct schema_private *p = to->private_data;
    size_t size = arrow_metadata_size(metadata);
    /* A block of no pairs is the same as none. */
    if (arrow_metadata_count(metadata) == 0) return PENNON_OK;
    p->metadata = mem_alloc(p->mem, size, err);
    if (p->metadata == NULL) return err->code;
    memcpy(p->metadata, metadata, size);
    to->metadata = p->metadata;
    return PENNON_OK;
}

pennon_status arrow_schema_copy(const struct ArrowSchema *schema, struct mem *mem, struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    memset(out, 0, sizeof *out);
    TRY(arrow_schema_new(out, schema->format, schema->name, schema->flags, (size_t)schema->n_children, mem, err));
    TRY(copy_metadata(out, schema->metadata, err));
    for (int64_t i = 0; i < schema->n_children; i++) TRY(arrow_schema_copy(schema->children[i], mem, out->children[i], err));
    if (schema->dictionary != NULL) {
        TRY(arrow_schema_add_dictionary(out, err));
        TRY(arrow_schema_copy(schema->dictionary, mem, out->dictionary, err));
    }
done:
    if (st != PENNON_OK) arrow_schema_release(out);
    return st;
}

/* Format of the plain type that stands for a view type, or NULL. */
static const char *plain_format(enum arrow_id id)
{
    switch (id) {
    case ARROW_UTF8_VIEW: return "u";
    case ARROW_BINARY_VIEW: return "z";
    case ARROW_LIST_VIEW: return "+l";
    case ARROW_LARGE_LIST_VIEW: return "+L";
    default: return NULL;
    }
}

static pennon_status make_plain(struct ArrowSchema *schema, pennon_error *err)
{
    struct arrow_type type;
    const char *format = NULL;
    TRY_RETURN(arrow_type_parse(schema->format, &type, err));
    format = plain_format(type.id);
    if (format != NULL) TRY_RETURN(arrow_schema_set_format(schema, format, err));
    for (int64_t i = 0; i < schema->n_children; i++) TRY_RETURN(make_plain(schema->children[i], err));
    return schema->dictionary != NULL ? make_plain(schema->dictionary, err) : PENNON_OK;
}

pennon_status arrow_schema_plain(const struct ArrowSchema *schema, struct mem *mem, struct ArrowSchema *out, pennon_error *err)
{
    TRY_RETURN(arrow_schema_copy(schema, mem, out, err));
    if (make_plain(out, err) != PENNON_OK) {
        arrow_schema_release(out);
        return err->code;
    }
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------- validation */

static pennon_status invalid(const struct ArrowSchema *s, const char *what, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: field '%.128s': %s", field_name(s), what);
}

/* Numbers in a union's list of ids. */
static int64_t union_id_count(const char *ids)
{
    int64_t n = *ids != '\0';
    for (; *ids != '\0'; ids++) n += *ids == ',';
    return n;
}

/* Children that the type has; -1 = any number. */
static int64_t expected_children(const struct arrow_type *t)
{
    switch (t->layout) {
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST: return 1;
    case LAYOUT_STRUCT: return -1;
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: return union_id_count(t->union_ids);
    case LAYOUT_RUN_END: return 2;
    default: return 0;
    }
}

/* What the children of maps and run ends have to be. The children are valid themselves. */
static pennon_status check_child_types(const struct ArrowSchema *s, const struct arrow_type *t, pennon_error *err)
{
    if (t->id == ARROW_MAP) {
        const struct ArrowSchema *entries = s->children[0];
        if (strcmp(entries->format, "+s") != 0 || entries->n_children != 2) {
            return invalid(s, "the entries of a map must be a struct of two fields", err);
        }
    }
    if (t->id == ARROW_RUN_END_ENCODED) {
        const char *f = s->children[0]->format;
        bool ok = (strcmp(f, "s") == 0 || strcmp(f, "i") == 0 || strcmp(f, "l") == 0) && s->children[0]->dictionary == NULL;
        if (!ok) return invalid(s, "run ends must be int16, int32 or int64", err);
    }
    return PENNON_OK;
}

static pennon_status check_metadata(const struct ArrowSchema *s, pennon_error *err)
{
    struct arrow_metadata_walk walk = arrow_metadata_begin(s->metadata);
    struct arrow_pair pair;
    int32_t n = 0;
    if (s->metadata != NULL && walk.left < 0) return invalid(s, "negative count of metadata entries", err);
    while (arrow_metadata_next(&walk, &pair)) n++;
    if (n != arrow_metadata_count(s->metadata)) return invalid(s, "negative length in the metadata", err);
    return PENNON_OK;
}

static pennon_status validate_field(const struct ArrowSchema *s, unsigned depth, uint32_t *fields, pennon_error *err)
{
    struct arrow_type type;
    int64_t expected = 0;

    if (s == NULL || s->release == NULL)
        return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: a field is missing or released");
    if (depth > ARROW_MAX_DEPTH) return invalid(s, "nested too deeply", err);
    if (++*fields > ARROW_MAX_FIELDS) return invalid(s, "the schema has too many fields", err);
    if (s->name != NULL && !utf8_valid((const uint8_t *)s->name, strlen(s->name))) return invalid(s, "the name is not UTF-8", err);
    if (arrow_type_of(s, &type, err) != PENNON_OK) return error_prefix(err, "field '%.128s'", field_name(s));
    TRY_RETURN(check_metadata(s, err));
    expected = expected_children(&type);
    if (s->n_children < 0 || (expected >= 0 && s->n_children != expected)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: field '%.128s' of type %s has %" PRId64 " children",
                         field_name(s), arrow_id_name(type.id), s->n_children);
    }
    if (s->n_children > 0 && s->children == NULL) return invalid(s, "the children are missing", err);
    for (int64_t i = 0; i < s->n_children; i++) TRY_RETURN(validate_field(s->children[i], depth + 1, fields, err));
    if (s->dictionary != NULL) {
        if (s->dictionary->dictionary != NULL) return invalid(s, "a dictionary of dictionary values", err);
        TRY_RETURN(validate_field(s->dictionary, depth + 1, fields, err));
    }
    return check_child_types(s, &type, err);
}

pennon_status arrow_schema_validate(const struct ArrowSchema *schema, pennon_error *err)
{
    uint32_t fields = 0;
    return validate_field(schema, 1, &fields, err);
}

/* --------------------------------------------------------------------------------------------------- find and compare */

int64_t arrow_schema_find(const struct ArrowSchema *schema, struct bytes name)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (bytes_equal(bytes_str(field_name(schema->children[i])), name)) return i;
    }
    return -1;
}

/* Every pair of `a` stands in `b`. Metadata is small: the square is cheaper than a set. */
static bool metadata_within(const char *a, const char *b)
{
    struct arrow_metadata_walk walk_a = arrow_metadata_begin(a);
    struct arrow_pair pa;
    while (arrow_metadata_next(&walk_a, &pa)) {
        struct arrow_metadata_walk walk_b = arrow_metadata_begin(b);
        struct arrow_pair pb;
        bool found = false;
        while (!found && arrow_metadata_next(&walk_b, &pb)) found = bytes_equal(pa.key, pb.key) && bytes_equal(pa.value, pb.value);
        if (!found) return false;
    }
    return true;
}

static bool metadata_equal(const char *a, const char *b)
{
    return arrow_metadata_count(a) == arrow_metadata_count(b) && metadata_within(a, b) && metadata_within(b, a);
}

/* Names of children that are only a matter of taste: items of lists, entries, key and value of maps. */
static bool child_names_matter(const struct arrow_type *t) { return t->layout == LAYOUT_STRUCT || t->union_ids != NULL; }

static bool fields_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, unsigned flags, bool names, bool nullability)
{
    struct arrow_type type;
    pennon_error err;
    int64_t differing = a->flags ^ b->flags;
    int64_t counting = ARROW_FLAG_DICTIONARY_ORDERED | ARROW_FLAG_MAP_KEYS_SORTED;
    bool child_names = false;
    bool known = false;

    if (nullability && !(flags & SCHEMA_EQUAL_NO_NULLABLE)) counting |= ARROW_FLAG_NULLABLE;
    if (strcmp(a->format, b->format) != 0 || a->n_children != b->n_children) return false;
    if ((a->dictionary == NULL) != (b->dictionary == NULL)) return false;
    if (names && strcmp(field_name(a), field_name(b)) != 0) return false;
    if ((flags & SCHEMA_EQUAL_METADATA) && !metadata_equal(a->metadata, b->metadata)) return false;
    pennon_error_init(&err);
    known = arrow_type_parse(a->format, &type, &err) == PENNON_OK;
    pennon_error_clear(&err);
    if (!known) return false;
    if (type.id != ARROW_MAP) counting &= ~(int64_t)ARROW_FLAG_MAP_KEYS_SORTED;
    if (a->dictionary == NULL) counting &= ~(int64_t)ARROW_FLAG_DICTIONARY_ORDERED;
    if ((differing & counting) != 0) return false;
    child_names = child_names_matter(&type);
    for (int64_t i = 0; i < a->n_children; i++) {
        /* The two fields of a map's entries have no names that matter either; they are compared from the map. */
        bool entries = type.id == ARROW_MAP;
        const struct ArrowSchema *ca = a->children[i];
        const struct ArrowSchema *cb = b->children[i];
        if (!entries && !fields_equal(ca, cb, flags, child_names, true)) return false;
        if (entries && (!fields_equal(ca->children[0], cb->children[0], flags, false, false) ||
                        !fields_equal(ca->children[1], cb->children[1], flags, false, true))) {
            return false;
        }
    }
    return a->dictionary == NULL || fields_equal(a->dictionary, b->dictionary, flags, false, false);
}

bool arrow_schema_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, unsigned flags)
{
    bool top = (flags & SCHEMA_EQUAL_TOP_NAME) != 0;
    return fields_equal(a, b, flags, top, top);
}
