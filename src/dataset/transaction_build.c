/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Changing transactions while they are built. */
#include "dataset/writing.h"

static pennon_status own_text(struct arena *a, const char *text, struct bytes *out, pennon_error *err)
{
    char *copy = arena_strndup(a, text, strlen(text), err);
    if (!copy) return err->code;
    *out = bytes_str(copy);
    return PENNON_OK;
}

pennon_status transaction_set_pairs(struct transaction *t, const pennon_pairs *pairs, pennon_error *err)
{
    size_t n = pairs ? pairs->n : 0, kept = 0;
    if (n == 0) return PENNON_OK;
    struct map_entry *list = arena_calloc(&t->arena, t->n_properties + n, sizeof *list, err);
    if (!list) return err->code;
    for (size_t i = 0; i < t->n_properties; i++) {
        bool replaced = false;
        for (size_t k = 0; k < n && !replaced; k++)
            replaced = pairs->keys[k] && bytes_equal(t->properties[i].key, bytes_str(pairs->keys[k]));
        if (!replaced) list[kept++] = t->properties[i];
    }
    for (size_t k = 0; k < n; k++) {
        if (!pairs->keys[k]) return error_set(err, PENNON_INVALID_ARGUMENT, "the key of transaction property %zu is NULL", k);
        if (!pairs->values[k]) continue;
        TRY_RETURN(own_text(&t->arena, pairs->keys[k], &list[kept].key, err));
        TRY_RETURN(own_text(&t->arena, pairs->values[k], &list[kept].value, err));
        kept++;
    }
    t->properties = list;
    t->n_properties = kept;
    return PENNON_OK;
}
