/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the tests of the table layer share: a call over accounted memory, a memory store, manifests made by hand. */
#ifndef TESTS_TABLE_FIXTURE_H
#define TESTS_TABLE_FIXTURE_H

#include "codec_fixture.h"
#include "table/table.h"

struct table_fixture {
    struct fixture base;
    struct call owner; /* holds the runtime */
    struct call call;  /* the same with accounted memory */
    pennon_store *store;
    struct table_location at;
};

static inline int table_setup(void **state)
{
    struct table_fixture *t = calloc(1, sizeof *t);
    pennon_runtime_options options;
    pennon_runtime *runtime = NULL;
    pennon_call call;
    assert_non_null(t);
    pennon_error_init(&t->base.err);
    pennon_runtime_options_init(&options);
    options.threads = 2;
    assert_ok(&t->base, pennon_runtime_new(&options, &runtime, &t->base.err));
    pennon_call_init(&call);
    call.runtime = runtime;
    assert_ok(&t->base, call_begin(&t->owner, &call, &t->base.err));
    pennon_runtime_free(runtime);
    t->base.mem = mem_new(NULL, UINT64_C(1) << 30, NULL, &t->base.err);
    assert_non_null(t->base.mem);
    buf_init(&t->base.buf, t->base.mem, BUF_NO_LIMIT);
    t->call = t->owner;
    t->call.mem = t->base.mem;
    assert_ok(&t->base, table_locate(&t->call, "memory://tables/t", &t->at, &t->base.err));
    t->store = t->at.store;
    *state = t;
    return 0;
}

static inline int table_teardown(void **state)
{
    struct table_fixture *t = *state;
    table_location_free(t->base.mem, &t->at);
    buf_free(&t->base.buf);
    assert_int_equal(mem_used(t->base.mem), 0);
    mem_release(t->base.mem);
    call_end(&t->owner);
    pennon_error_clear(&t->base.err);
    free(t);
    return 0;
}

/* A case that gets a `struct table_fixture *` in *state. */
#define TABLE_TEST(name) cmocka_unit_test_setup_teardown(name, table_setup, table_teardown)

#define table_ok(t, call) assert_ok(&(t)->base, call)

/* One int64 column "x" with the id 0. */
static struct field_message one_field = {.name = {(const uint8_t *)"x", 1},
                                         .id = 0,
                                         .parent_id = -1,
                                         .logical_type = {(const uint8_t *)"int64", 5},
                                         .nullable = true,
                                         .encoding = 1};
static struct writer_version_message test_writer = {.library = {(const uint8_t *)"lance", 5},
                                                    .version = {(const uint8_t *)"8.0.0", 5}};
static struct data_format_message format_2_1 = {.file_format = {(const uint8_t *)"lance", 5},
                                                .version = {(const uint8_t *)"2.1", 3}};

static inline struct manifest_message plain_manifest(uint64_t version)
{
    return (struct manifest_message){
        .fields = &one_field, .n_fields = 1, .version = version, .writer_version = &test_writer, .data_format = &format_2_1};
}

static inline void put_section(struct fixture *f, struct buf *out, struct bytes section, uint64_t *offset)
{
    uint8_t word[4];
    *offset = out->size;
    store_u32(word, (uint32_t)section.size);
    assert_ok(f, buf_append(out, word, 4, &f->err));
    assert_ok(f, buf_append(out, section.data, section.size, &f->err));
}

/* The bytes of a manifest file. Sections of size 0 are left out; the message's offsets are set. */
static inline void manifest_bytes(struct fixture *f, struct manifest_message *m, struct bytes index, struct bytes transaction,
                                  struct buf *out)
{
    struct buf message;
    uint64_t position;
    uint8_t footer[16] = {0};
    buf_init(&message, f->mem, BUF_NO_LIMIT);
    if (index.size > 0) {
        m->has_index_section = true;
        put_section(f, out, index, &m->index_section);
    }
    if (transaction.size > 0) {
        m->has_transaction_section = true;
        put_section(f, out, transaction, &m->transaction_section);
    }
    assert_ok(f, wire_encode(&manifest_table, m, &message, &f->err));
    put_section(f, out, bytes_of(message.data, message.size), &position);
    store_u64(footer, position);
    store_u16(footer + 10, 2);
    memcpy(footer + 12, "LANC", 4);
    assert_ok(f, buf_append(out, footer, 16, &f->err));
    buf_free(&message);
}

static inline struct block *manifest_block(struct fixture *f, struct manifest_message *m)
{
    struct buf file;
    buf_init(&file, f->mem, BUF_NO_LIMIT);
    manifest_bytes(f, m, bytes_of(NULL, 0), bytes_of(NULL, 0), &file);
    struct block *b = block_from_buf(&file, &f->err);
    assert_non_null(b);
    return b;
}

static inline void put_object(struct table_fixture *t, const char *path, const void *bytes, size_t n)
{
    table_ok(t, store_put(&t->call, t->store, path, bytes_of(bytes, n), PENNON_PUT_OVERWRITE, &t->base.err));
}

#endif
