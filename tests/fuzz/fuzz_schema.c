/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A schema message of a file or manifest: read, written back, shown as Arrow, projected, walked. */
#include <stdint.h>
#include <stdlib.h>

#include "schema/schema.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

static pennon_status count_column(void *ctx, const struct field *field, uint32_t column, pennon_error *err)
{
    UNUSED(field);
    UNUSED(err);
    *(uint32_t *)ctx = column + 1;
    return PENNON_OK;
}

static void use_schema(struct mem *m, const struct schema *s, pennon_error *err)
{
    uint32_t columns = 0;
    const struct field *found;
    for (int view = 0; view < 4; view++) {
        struct ArrowSchema arrow;
        if (schema_to_arrow(s, (enum schema_view)(view & 1), (enum blob_handling)(view >> 1), m, &arrow, err) != PENNON_OK)
            continue;
        REQUIRE(arrow_schema_validate(&arrow, err) == PENNON_OK);
        struct schema *again = NULL;
        if (view == 1 && schema_from_arrow(m, &arrow, STORAGE_2_2, &again, err) == PENNON_OK) {
            REQUIRE(again->n_fields == s->n_fields);
            schema_release(again);
        }
        arrow_schema_release(&arrow);
    }
    REQUIRE(schema_walk_columns(s, STORAGE_2_0, count_column, &columns, err) == PENNON_OK);
    REQUIRE(schema_walk_columns(s, STORAGE_2_2, count_column, &columns, err) == PENNON_OK);
    REQUIRE(columns <= s->n_all);
    for (size_t i = 0; i < s->n_all && i < 64; i++) {
        struct schema *p = NULL;
        REQUIRE(schema_find_id(s, s->by_id[i]->id) == s->by_id[i]);
        if (schema_project_ids(m, s, &s->by_id[i]->id, 1, &p, err) == PENNON_OK) {
            REQUIRE(p->n_fields == 1);
            schema_release(p);
        }
        pennon_status st = schema_find_path(s, s->by_id[i]->name, &found, err);
        REQUIRE(st != PENNON_INTERNAL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct arena a;
    struct schema_message m;
    pennon_error_init(&err);
    struct mem *mem = mem_new(NULL, UINT64_C(256) << 20, NULL, &err);
    if (mem == NULL) return 0;
    arena_init(&a, mem);
    if (wire_decode(&schema_table, bytes_of(data, size), &a, &m, &err) == PENNON_OK) {
        for (int skip = 0; skip < 2; skip++) {
            struct schema *s = NULL, *again = NULL;
            struct field_message *fields;
            size_t n;
            if (schema_from_messages(mem, m.fields, m.n_fields, m.metadata, m.n_metadata, skip, &s, &err) != PENNON_OK) continue;
            use_schema(mem, s, &err);
            if (schema_to_messages(s, &a, &fields, &n, &err) == PENNON_OK &&
                schema_from_messages(mem, fields, n, NULL, 0, false, &again, &err) == PENNON_OK) {
                REQUIRE(again->n_all == s->n_all);
                schema_release(again);
            }
            schema_release(s);
        }
    }
    arena_reset(&a);
    REQUIRE(mem_used(mem) == 0);
    mem_release(mem);
    pennon_error_clear(&err);
    return 0;
}
