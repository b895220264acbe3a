/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Messages on the wire: the first byte chooses the message, the others are its bytes. What decodes is written, and what is written decodes to the
 * same bytes again. */
#include "codec_fuzz.h"
#include "wire/messages.h"

static const struct wire_message *const tables[] = {
    &manifest_table,
    &transaction_table,
    &index_section_table,
    &file_descriptor_table,
    &column_metadata_table,
    &page_layout_table,
    &ae_table,
    &column_encoding_table,
    &row_id_sequence_table,
    &version_sequence_table,
    &append_table,
    &delete_table,
    &overwrite_table,
    &create_index_table,
    &rewrite_table,
    &merge_table,
    &restore_table,
    &reserve_fragments_table,
    &update_table,
    &project_table,
    &update_config_table,
    &data_replacement_table,
    &update_mem_wal_table,
    &clone_table,
    &update_bases_table,
    &legacy_metadata_table,
    &schema_table,
    &any_table,
};

static pennon_status again(const struct wire_message *t, struct bytes in, struct mem *mem, struct buf *out, pennon_error *err)
{
    struct arena arena;
    void *message = malloc(t->size);
    FUZZ_CHECK(message != NULL);
    arena_init(&arena, mem);
    pennon_status st = wire_decode(t, in, &arena, message, err);
    if (st == PENNON_OK) FUZZ_CHECK(wire_encode(t, message, out, err) == PENNON_OK);
    arena_reset(&arena);
    free(message);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct buf first, second;
    const struct wire_message *t = tables[fuzz_byte(&in) % (sizeof tables / sizeof *tables)];
    uint8_t *copy = fuzz_copy(in.at, in.left);
    buf_init(&first, mem, BUF_NO_LIMIT);
    buf_init(&second, mem, BUF_NO_LIMIT);
    const pennon_status st = again(t, bytes_of(copy, in.left), mem, &first, &err);
    FUZZ_CHECK(st == PENNON_OK || st == PENNON_CORRUPT || st == PENNON_OVER_BUDGET);
    if (st == PENNON_OK) {
        FUZZ_CHECK(again(t, bytes_of(first.data, first.size), mem, &second, &err) == PENNON_OK);
        FUZZ_CHECK(bytes_equal(bytes_of(first.data, first.size), bytes_of(second.data, second.size)));
    }
    buf_free(&first);
    buf_free(&second);
    FUZZ_CHECK(mem_used(mem) == 0);
    free(copy);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
