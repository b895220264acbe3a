/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cleanup against a set model: random histories of lines, tags, branches, detached versions and garbage, cleaned by random policies. What is reachable, or
 * young, is never removed; what is neither is never left. */
#include "cleanup_world.h"

/* A commit that drops some files, adds some, or brings back an old version. */
static void random_commit(struct world *w, int line, bool detached)
{
    const struct version_model *from = world_latest(w, line);
    if (from != NULL && pick(w, 8) == 0) {
        const struct version_model *old = &w->versions[pick(w, (uint64_t)w->n_versions)];
        if (old->there && old->line == line) from = old;
    }
    struct version_model *v = world_next(w, line, from, detached);
    for (int i = v->n_data - 1; i >= 0; i--) {
        if (pick(w, 4) == 0)
            world_drop_data(v, i);
        else if (pick(w, 5) == 0)
            v->deletion[i] = world_object(w, line, CLEANUP_DELETION, v->data[i]);
    }
    for (uint64_t n = pick(w, 3); n > 0; n--) world_add_data(w, v, pick(w, 3) == 0);
    if (v->n_index > 0 && pick(w, 3) == 0) v->n_index--;
    if (v->n_index < MAX_FILES && pick(w, 3) == 0) v->index[v->n_index++] = world_object(w, line, CLEANUP_INDEX, -1);
    /* A writer's clock may be wrong by days. */
    if (pick(w, 4) == 0) v->timestamp += (int64_t)pick(w, 7) * DAY_NS - 3 * DAY_NS;
    world_write_version(w, v);
}

static void random_garbage(struct world *w, int line)
{
    static const enum cleanup_kind kinds[] = {CLEANUP_DATA,        CLEANUP_DELETION,  CLEANUP_INDEX,
                                              CLEANUP_TRANSACTION, CLEANUP_TEMPORARY, CLEANUP_UNKNOWN};
    enum cleanup_kind kind = kinds[pick(w, ARRAY_LEN(kinds))];
    int owner = kind == CLEANUP_DELETION ? 9000 + w->n_objects : -1;
    int id = world_object(w, line, kind, owner);
    if (kind == CLEANUP_DATA && pick(w, 2) == 0) (void)world_object(w, line, CLEANUP_BLOB, id);
}

static void random_branch(struct world *w)
{
    static const char *const names[] = {"", "b1", "b1/x", "c-3", "d_4.e"};
    const struct version_model *v = &w->versions[pick(w, (uint64_t)w->n_versions)];
    if (w->n_lines == MAX_LINES || !v->there || (v->number & DETACHED_VERSION) != 0) return;
    (void)world_branch(w, v, names[w->n_lines], pick(w, 5) != 0);
}

static void random_tag(struct world *w)
{
    int slot = (int)pick(w, MAX_TAGS);
    const struct version_model *v = &w->versions[pick(w, (uint64_t)w->n_versions)];
    char path[80];
    if (w->tags[slot].there && pick(w, 2) == 0) {
        w->tags[slot].there = false;
        (void)snprintf(path, sizeof path, "w/t/_refs/tags/tag%d.json", slot);
        table_ok(w->t, store_delete(&w->t->call, w->store, path, &w->t->base.err));
    } else if (v->there && (v->number & DETACHED_VERSION) == 0) {
        world_tag(w, slot, v);
    }
}

static void random_policy(struct world *w, struct cleanup_policy *p)
{
    static const int64_t ages[] = {0, HOUR_NS, DAY_NS, 5 * DAY_NS, 20 * DAY_NS};
    cleanup_policy_init(p);
    if (pick(w, 2) == 0) p->older_than_ns = ages[pick(w, ARRAY_LEN(ages))];
    if (pick(w, 3) == 0) p->keep_versions = pick(w, 5);
    if (pick(w, 5) == 0) p->before_version = pick(w, 10);
    p->delete_unverified = pick(w, 4) == 0;
    /* The clock of the cleaner may be wrong, too. */
    p->now_ns = w->now + (pick(w, 4) == 0 ? (int64_t)pick(w, 9) * DAY_NS - 4 * DAY_NS : 0);
}

static pennon_status count_removed(void *ctx, const struct cleanup_verdict *v, pennon_error *err)
{
    UNUSED(err);
    assert_non_null(v->reason);
    assert_true(v->kind != CLEANUP_UNKNOWN || !v->removed);
    *(uint64_t *)ctx += v->removed;
    return PENNON_OK;
}

static uint64_t total_of(const struct cleanup_stats *s)
{
    return s->versions + s->data_files + s->transaction_files + s->index_files + s->deletion_files + s->temporary_files;
}

static uint64_t random_cleanup(struct world *w, uint64_t seed)
{
    int line = (int)pick(w, (uint64_t)w->n_lines);
    const struct version_model *latest = world_latest(w, line), *open = latest;
    struct cleanup_policy p;
    struct cleanup_stats dry, stats;
    uint64_t would = 0, removed = 0;
    pennon_error *err = &w->t->base.err;
    if (latest == NULL) return 0;
    random_policy(w, &p);
    if (pick(w, 6) == 0) {
        const struct version_model *v = &w->versions[pick(w, (uint64_t)w->n_versions)];
        if (v->there && v->line == line && (v->number & DETACHED_VERSION) == 0) open = v;
    }
    struct table_location at = world_place(w, line);
    uint64_t handle = open->number;
    /* A dry run changes nothing, and says what the run then does: both clocks of this world are the same to it only when they agree. */
    bool same_clock = p.now_ns == w->now;
    p.dry_run = true;
    table_ok(w->t, cleanup_run(&w->t->call, &at, handle, &p, count_removed, &would, &dry, err));
    world_compare(w, seed);
    p.dry_run = false;
    model_clean(w, line, &p, handle);
    table_ok(w->t, cleanup_run(&w->t->call, &at, handle, &p, count_removed, &removed, &stats, err));
    assert_int_equal(total_of(&stats), removed);
    assert_int_equal(total_of(&dry), would);
    if (same_clock) assert_memory_equal(&dry, &stats, sizeof dry);
    world_compare(w, seed);
    world_whole(w, "after a cleanup");
    table_location_free(w->t->base.mem, &at);
    return removed;
}

static uint64_t run_history(struct table_fixture *t, uint64_t seed)
{
    static struct world w;
    static const int64_t pauses[] = {HOUR_NS, DAY_NS, 3 * DAY_NS, 8 * DAY_NS, 15 * DAY_NS};
    uint64_t removed = 0;
    world_open(&w, t, seed);
    random_commit(&w, 0, false);
    for (uint64_t steps = 10 + pick(&w, 16); steps > 0; steps--) {
        int line = (int)pick(&w, (uint64_t)w.n_lines);
        switch (pick(&w, 14)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 12: random_commit(&w, line, false); break;
        case 4: random_garbage(&w, line); break;
        case 5: random_tag(&w); break;
        case 6: random_branch(&w); break;
        case 7: random_commit(&w, line, pick(&w, 2) == 0); break;
        case 8:
        case 13: removed += random_cleanup(&w, seed); break;
        default: world_set_time(&w, w.now + pauses[pick(&w, ARRAY_LEN(pauses))]); break;
        }
    }
    removed += random_cleanup(&w, seed);
    world_close(&w);
    return removed;
}

static void test_table_cleanup__model(void **state)
{
    struct table_fixture *t = *state;
    uint64_t removed = 0;
    const uint64_t histories = getenv("PENNON_LONG") != NULL ? 6000 : 600;
    t->call.durability = PENNON_DURABILITY_FULL;
    for (uint64_t seed = 1; seed <= histories; seed++) removed += run_history(t, seed);
    /* The histories are not idle. */
    assert_true(removed > histories * 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TABLE_TEST(test_table_cleanup__model)};
    return cmocka_run_group_tests_name("cleanup_model", tests, NULL, NULL);
}
