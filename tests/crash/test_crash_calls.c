/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Every operation under a fault at every call of its store. Whatever happens, the dataset afterwards has the old or the new state, verify finds nothing,
 * and the operation works a second time; what said OK with full durability survives a power loss. The number of points is printed.
 *
 * With a sanitizer every seventh point is taken; PENNON_LONG=1 takes all. */
#include "crash_operations.h"

#define SEEDS 8

static pennon_status make_fault(pennon_runtime *rt, void **out, pennon_error *err)
{
    pennon_store *s = NULL;
    TRY_RETURN(fault_store_new(runtime_base_mem(rt), &s, err));
    s->scheme = "memory"; /* base paths name it by this scheme */
    *out = s;
    return PENNON_OK;
}

static void begin(struct world *w, const struct operation *o)
{
    world_begin(w, RUNTIME_SLOT_MEMORY_STORE, make_fault, "memory://w", "w");
    o->prepare(w);
}

static void no_faults(struct world *w)
{
    static const struct fault_plan none = {.on = FAULT_ON_ANY, .nth = UINT64_MAX};
    fault_store_plan(w->store, &none);
}

/* The old and the new state, and the calls in between. */
static uint64_t learn(const struct operation *o, struct state *old, struct state *new)
{
    struct world w;
    begin(&w, o);
    state_read(&w, old);
    world_end(&w);
    begin(&w, o);
    no_faults(&w);
    world_ok(&w, o->run(&w), o->name);
    uint64_t calls = fault_store_calls(w.store);
    state_read(&w, new);
    assert_false(state_equal(old, new));
    world_end(&w);
    return calls;
}

static const struct {
    enum fault_kind kind;
    uint32_t times;
    const char *name;
} kinds[] = {{FAULT_FAIL, 1, "failure"},
             {FAULT_FAIL, UINT32_MAX, "failure from here on"},
             {FAULT_TORN_WRITE, 1, "torn write"},
             {FAULT_LOST_REPLY, 1, "lost reply"},
             {FAULT_LOST_REPLY, UINT32_MAX, "lost replies from here on"},
             {FAULT_ENOSPC, 1, "no space"},
             {FAULT_ENOSPC, UINT32_MAX, "no space from here on"},
             {FAULT_EMFILE, 1, "too many files"},
             {FAULT_READ_ONLY, UINT32_MAX, "read only from here on"},
             {FAULT_SHORT_READ, 1, "short read"},
             {FAULT_LATE_LISTING, 1, "late listing"},
             {FAULT_LATE_LISTING, UINT32_MAX, "late listings from here on"},
             {FAULT_POWER_LOSS, 1, "power loss"}};

static void one_point(const struct operation *o, const struct state *old, const struct state *new, size_t k, uint64_t call,
                      uint64_t seed)
{
    struct world w;
    char where[160];
    begin(&w, o);
    (void)snprintf(where, sizeof where, "%s, %s at call %" PRIu64 ", seed %" PRIu64, o->name, kinds[k].name, call, seed);
    w.where = where;
    struct fault_plan plan = {.kind = kinds[k].kind, .on = FAULT_ON_ANY, .nth = call, .times = kinds[k].times, .seed = seed};
    fault_store_plan(w.store, &plan);
    pennon_status st = o->run(&w);
    if (kinds[k].kind == FAULT_POWER_LOSS) {
        fault_store_restart(w.store, seed * 1000 + call);
    } else {
        no_faults(&w);
    }
    check_outcome(&w, o, old, new, st);
    world_end(&w);
}

static void test_crash_calls__every_call(void **state)
{
    UNUSED(state);
    static struct state old, new;
    const char *only = getenv("PENNON_ONLY");
    uint64_t stride = SLOW && !getenv("PENNON_LONG") ? 7 : 1, total = 0;
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        const struct operation *o = &operations[i];
        if (only && strcmp(only, o->name) != 0) continue;
        uint64_t calls = learn(o, &old, &new), points = 0, number = 0;
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            bool loss = kinds[k].kind == FAULT_POWER_LOSS;
            /* A power loss also after the last call, when everything is said and done. */
            for (uint64_t call = 0; call < calls + loss; call++) {
                for (uint64_t seed = 0; seed < (loss ? SEEDS : 1); seed++) {
                    if (number++ % stride != 0) continue;
                    one_point(o, &old, &new, k, call, seed);
                    points++;
                }
            }
        }
        print_message("%s: %" PRIu64 " calls, %" PRIu64 " points\n", o->name, calls, points);
        assert_true(points > 0);
        total += points;
    }
    print_message("fault store: %" PRIu64 " points\n", total);
}

/* ---- what another writer put, and listings do not have yet ---- */

static bool commits_to_main(const struct operation *o)
{
    static const char *const names[] = {"append",          "overwrite",  "config", "restore",
                                        "delete, rebased", "base paths", "batch",  "appender"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(o->name, names[i]) == 0) return true;
    return false;
}

/* Behind the preparation an append of another writer; what it puts from a call on is in no listing. Gives its calls. */
static uint64_t begin_late(struct world *w, const struct operation *o, uint64_t from)
{
    begin(w, o);
    struct fault_plan plan = {.kind = FAULT_LATE_LISTING, .on = FAULT_ON_ANY, .nth = from, .times = UINT32_MAX};
    fault_store_plan(w->store, &plan);
    world_ok(w, write_rows(w, PENNON_WRITE_APPEND, NULL, 300, 4), "append");
    return fault_store_calls(w->store);
}

/* The newest version is the late one: a commit on top of the one before must not take its place. *blind counts the commits that gave up. */
static void late_points(const struct operation *o, uint64_t *points, uint64_t *blind)
{
    static struct state old, new;
    struct world w;
    uint64_t calls = begin_late(&w, o, UINT64_MAX);
    state_read(&w, &old);
    world_ok(&w, o->run(&w), o->name);
    state_read(&w, &new);
    world_end(&w);
    for (uint64_t back = 1; back <= 6; back++, ++*points) {
        char where[160];
        (void)begin_late(&w, o, calls - back);
        (void)snprintf(where, sizeof where, "%s, late from the last call but %" PRIu64 " on", o->name, back - 1);
        w.where = where;
        pennon_status st = o->run(&w);
        no_faults(&w);
        check_outcome(&w, o, &old, &new, st);
        *blind += st != PENNON_OK;
        world_end(&w);
    }
}

static void test_crash_calls__late_versions(void **state)
{
    UNUSED(state);
    uint64_t points = 0, blind = 0;
    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        if (commits_to_main(&operations[i])) late_points(&operations[i], &points, &blind);
    print_message("late versions: %" PRIu64 " points, %" PRIu64 " commits gave up\n", points, blind);
    assert_true(blind > 0 && blind < points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crash_calls__late_versions),
                                       cmocka_unit_test(test_crash_calls__every_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
