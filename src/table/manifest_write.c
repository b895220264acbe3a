/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A manifest file out of its message.
 *
 * offset | bytes
 * -------|---------------------------------------------------------
 * 0      | u32 length, index section (left out when there is none)
 * …      | u32 length, transaction (left out when there is none)
 * …      | u32 length, Manifest
 * end-16 | u64 offset of the Manifest's length, u16 0, u16 2, "LANC"
 *
 * Source: spec table-format 3.3, commits 1.1, 3.1. */
#include "table/table_private.h"

#define WRITER_LIBRARY "pennon"

pennon_status manifest_stamp(struct arena *a, struct manifest_message *m, uint64_t version, uint32_t storage_version,
                             const char *txn_name, pennon_error *err)
{
    struct timestamp_message *time = arena_calloc(a, 1, sizeof *time, err);
    struct writer_version_message *writer = arena_calloc(a, 1, sizeof *writer, err);
    struct data_format_message *format = arena_calloc(a, 1, sizeof *format, err);
    if (time == NULL || writer == NULL || format == NULL) return err->code;
    int64_t now = clock_wall_ns();
    time->seconds = now / INT64_C(1000000000);
    time->nanos = (int32_t)(now % INT64_C(1000000000));
    writer->library = bytes_str(WRITER_LIBRARY);
    writer->version = bytes_str(pennon_version());
    format->file_format = bytes_str("lance");
    format->version = bytes_str(storage_version_text(storage_version));
    m->version = version;
    m->version_aux_data = 0;
    m->tag = bytes_of(NULL, 0);
    m->timestamp = time;
    m->writer_version = writer;
    m->data_format = format;
    m->transaction_file = bytes_str(txn_name);
    m->has_index_section = m->has_transaction_section = m->has_transaction_section_new = false;
    m->fragment_bytes = NULL;
    m->n_fragment_bytes = 0;
    return PENNON_OK;
}

void manifest_set_flags(struct manifest_message *m, bool stable_row_ids)
{
    uint64_t both = 0, writer = 0, old = m->writer_feature_flags;
    for (size_t i = 0; i < m->n_fragments; i++) {
        if (m->fragments[i].deletion_file != NULL) both |= FLAG_DELETIONS;
    }
    if (stable_row_ids) both |= FLAG_STABLE_ROW_IDS;
    if (m->n_base_paths > 0) both |= FLAG_BASE_PATHS;
    both |= old & FLAG_MIXED_VERSIONS;
    if (m->n_config > 0) writer |= FLAG_CONFIG;
    writer |= old & FLAG_NO_TRANSACTION_FILE;
    m->reader_feature_flags = both;
    m->writer_feature_flags = both | writer;
}

/* Length word and bytes; gives the offset of the word. */
static pennon_status put_section(struct buf *file, struct bytes section, uint64_t *offset, pennon_error *err)
{
    uint8_t word[4];
    if (section.size > UINT32_MAX)
        return error_set(err, PENNON_INVALID_ARGUMENT, "a section of %zu bytes does not fit a manifest", section.size);
    store_u32(word, (uint32_t)section.size);
    *offset = file->size;
    TRY_RETURN(buf_append(file, word, sizeof word, err));
    return buf_append(file, section.data, section.size, err);
}

static pennon_status put_footer(struct buf *file, uint64_t position, pennon_error *err)
{
    uint8_t footer[MANIFEST_FOOTER];
    store_u64(footer, position);
    store_u16(footer + 8, 0);
    store_u16(footer + 10, 2);
    memcpy(footer + 12, "LANC", 4);
    return buf_append(file, footer, sizeof footer, err);
}

pennon_status manifest_file_make(struct mem *mem, struct manifest_message *m, struct bytes front, struct bytes index_section,
                                 struct bytes transaction, struct block **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf file, message;
    uint64_t position;
    buf_init(&file, mem, BUF_NO_LIMIT);
    buf_init(&message, mem, BUF_NO_LIMIT);
    m->has_index_section = index_section.size > 0;
    m->has_transaction_section = transaction.size > 0;
    TRY(buf_append(&file, front.data, front.size, err));
    if (m->has_index_section) TRY(put_section(&file, index_section, &m->index_section, err));
    if (m->has_transaction_section) TRY(put_section(&file, transaction, &m->transaction_section, err));
    TRY(wire_encode(&manifest_carry_table, m, &message, err));
    TRY(put_section(&file, bytes_of(message.data, message.size), &position, err));
    TRY(put_footer(&file, position, err));
    TRY_NEW(*out, block_from_buf(&file, err));
done:
    buf_free(&file);
    buf_free(&message);
    return st;
}
