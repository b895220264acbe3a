/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Base paths as writers name them: new ones to register, and those that data files go to.
 *
 * Files go to the targets in turn, one file to one base. A target is named by its name, its path, or its id in digits, in that order.
 * Source: spec commits 3.10, 6.2, 6.5. */
#include <stdio.h>

#include "dataset/writing.h"

#define BASES_MAX 4096u

/* ---- new bases ---- */

static pennon_status copy_text(struct arena *a, const char *text, struct bytes *out, pennon_error *err)
{
    char *copy = arena_strndup(a, text, strlen(text), err);
    if (!copy) return err->code;
    *out = bytes_str(copy);
    return PENNON_OK;
}

/* The path as the manifest has it. A relative one would mean another place for every process: it is made absolute. */
static pennon_status absolute_path(const struct call *c, const char *path, struct arena *a, struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *below = NULL, *uri = NULL;
    if (path[0] == '/' || strstr(path, "://")) return copy_text(a, path, out, err);
    TRY(store_resolve(c, path, &store, &below, err));
    TRY_NEW(uri, store_uri(c->mem, store, below, err));
    TRY(copy_text(a, uri, out, err));
done:
    pennon_store_free(store);
    mem_free(c->mem, below);
    mem_free(c->mem, uri);
    return st;
}

pennon_status write_bases_read(const struct call *c, const pennon_bases *bases, bool assign, struct arena *a,
                               struct base_path_message **out, size_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct base_path_message *list = NULL;
    *n = bases ? bases->n : 0;
    if (*n > BASES_MAX) FAIL(PENNON_INVALID_ARGUMENT, "%zu base paths, at most %u", *n, BASES_MAX);
    TRY_NEW(list, arena_calloc(a, *n + 1, sizeof *list, err));
    for (size_t i = 0; i < *n; i++) {
        const pennon_base *b = &bases->items[i];
        if (!b->path || !b->path[0]) FAIL(PENNON_INVALID_ARGUMENT, "base path %zu is empty", i);
        list[i] = (struct base_path_message){.id = b->id, .is_dataset_root = b->is_dataset_root, .has_name = b->name != NULL};
        if (b->name) TRY(copy_text(a, b->name, &list[i].name, err));
        TRY(absolute_path(c, b->path, a, &list[i].path, err));
        for (size_t k = 0; k < i; k++) {
            if (b->id && bases->items[k].id == b->id) FAIL(PENNON_INVALID_ARGUMENT, "two base paths have the id %" PRIu32, b->id);
        }
    }
    uint32_t highest = 0;
    for (size_t i = 0; i < *n; i++) highest = list[i].id > highest ? list[i].id : highest;
    if (highest > UINT32_MAX - BASES_MAX) FAIL(PENNON_INVALID_ARGUMENT, "base path id %" PRIu32 " is too high", highest);
    for (size_t i = 0; assign && i < *n; i++) {
        if (list[i].id == 0) list[i].id = ++highest;
    }
    *out = list;
done:
    return st;
}

/* ---- targets ---- */

static pennon_status add_target(const struct call *c, bool in_data, pennon_store *store, const char *path, struct write_target *t,
                                pennon_error *err)
{
    t->folder = in_data ? store_join(c->mem, path, "data", err) : mem_strdup(c->mem, path, err);
    if (!t->folder) return err->code;
    pennon_store_retain(store);
    t->store = store;
    return PENNON_OK;
}

/* How well a base fits the name: 3 by name, 2 by path, 1 by id, 0 not. */
static int fits(const char *wanted, uint32_t id, struct bytes name, struct bytes path)
{
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%" PRIu32, id);
    if (name.size && bytes_equal(name, bytes_str(wanted))) return 3;
    if (bytes_equal(path, bytes_str(wanted))) return 2;
    return id != 0 && strcmp(digits, wanted) == 0;
}

static pennon_status target_of_base(const struct call *c, struct snapshot *s, uint32_t base, struct write_target *t,
                                    pennon_error *err)
{
    pennon_store *store = NULL;
    char *path = NULL;
    TRY_RETURN(base_locate(c, s, base, &store, &path, err));
    pennon_status st = add_target(c, s->bases[base].is_dataset_root, store, path, t, err);
    t->has_base = true;
    t->base_id = s->bases[base].id;
    pennon_store_free(store);
    mem_free(c->mem, path);
    return st;
}

static pennon_status target_of_new(const struct call *c, const struct base_path_message *b, struct write_target *t,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *text = NULL, *path = NULL;
    TRY_NEW(text, mem_strndup(c->mem, (const char *)b->path.data, b->path.size, err));
    TRY(store_resolve(c, text, &store, &path, err));
    TRY(add_target(c, b->is_dataset_root, store, path, t, err));
    t->has_base = true;
    t->base_id = b->id;
done:
    pennon_store_free(store);
    mem_free(c->mem, text);
    mem_free(c->mem, path);
    return st;
}

static pennon_status find_target(const struct call *c, struct snapshot *s, const struct base_path_message *initial,
                                 size_t n_initial, const char *wanted, struct write_target *t, pennon_error *err)
{
    int best = 0;
    uint32_t at = 0;
    for (size_t i = 0; s && i < s->n_bases; i++) {
        const struct base *b = &s->bases[i];
        int fit = fits(wanted, b->id, b->name ? bytes_str(b->name) : (struct bytes){0}, bytes_str(b->path));
        if (fit > best) at = (uint32_t)i;
        best = fit > best ? fit : best;
    }
    if (best) return target_of_base(c, s, at, t, err);
    for (size_t i = 0; i < n_initial; i++) {
        int fit = fits(wanted, initial[i].id, initial[i].name, initial[i].path);
        if (fit > best) at = (uint32_t)i;
        best = fit > best ? fit : best;
    }
    if (best) return target_of_new(c, &initial[at], t, err);
    return error_set(err, PENNON_INVALID_ARGUMENT, "target base '%.256s' is not found among the dataset's base paths", wanted);
}

pennon_status write_targets_open(const struct call *c, const struct table_location *at, struct snapshot *s,
                                 const struct base_path_message *initial, size_t n_initial, const pennon_names *names,
                                 struct write_target **out, size_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t count = names && names->n ? names->n : 1;
    TRY_NEW(*out, mem_calloc(c->mem, count, sizeof **out, err));
    *n = count;
    if (!names || !names->n) {
        st = add_target(c, true, at->store, at->path, *out, err);
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        if (!names->items[i]) FAIL(PENNON_INVALID_ARGUMENT, "target base %zu is NULL", i);
        TRY(find_target(c, s, initial, n_initial, names->items[i], &(*out)[i], err));
    }
done:
    return st;
}

void write_targets_free(struct mem *m, struct write_target *targets, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pennon_store_free(targets[i].store);
        mem_free(m, targets[i].folder);
    }
    mem_free(m, targets);
}
