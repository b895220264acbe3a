/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tables of the messages in data files: common ones, lance.file, lance.file.v2, lance.encodings21, lance.encodings. */
#include "wire/messages.h"

#define F WIRE_FIELD

static const struct wire_field any_fields[] = {F(struct any_message, 1, WIRE_BYTES, type_url),
                                               F(struct any_message, 2, WIRE_BYTES, value)};
WIRE_TABLE(any_table, struct any_message, "Any", any_fields);

static const struct wire_field map_entry_fields[] = {F(struct map_entry, 1, WIRE_BYTES, key),
                                                     F(struct map_entry, 2, WIRE_BYTES, value)};
WIRE_TABLE(map_entry_table, struct map_entry, "map entry", map_entry_fields);

static const struct wire_field timestamp_fields[] = {F(struct timestamp_message, 1, WIRE_I64, seconds),
                                                     F(struct timestamp_message, 2, WIRE_I32, nanos)};
WIRE_TABLE(timestamp_table, struct timestamp_message, "Timestamp", timestamp_fields);

static const struct wire_field uuid_fields[] = {F(struct uuid_message, 1, WIRE_BYTES, uuid)};
WIRE_TABLE(uuid_table, struct uuid_message, "UUID", uuid_fields);

const struct wire_message empty_table = {"Empty", NULL, 0, offsetof(struct empty_message, unknown), sizeof(struct empty_message)};

/* ---- lance.file ---- */

static const struct wire_field dictionary_fields[] = {F(struct dictionary_message, 1, WIRE_I64, offset),
                                                      F(struct dictionary_message, 2, WIRE_I64, length)};
WIRE_TABLE(dictionary_table, struct dictionary_message, "Dictionary", dictionary_fields);

static const struct wire_field field_fields[] = {
    F(struct field_message, 1, WIRE_U32, type),
    F(struct field_message, 2, WIRE_BYTES, name),
    F(struct field_message, 3, WIRE_I32, id),
    F(struct field_message, 4, WIRE_I32, parent_id),
    F(struct field_message, 5, WIRE_BYTES, logical_type),
    F(struct field_message, 6, WIRE_BOOL, nullable),
    F(struct field_message, 7, WIRE_U32, encoding),
    WIRE_SUB(struct field_message, 8, dictionary, &dictionary_table),
    F(struct field_message, 9, WIRE_BYTES, extension_name),
    WIRE_SUBS(struct field_message, 10, metadata, &map_entry_table),
    F(struct field_message, 12, WIRE_BOOL, unenforced_primary_key),
    F(struct field_message, 13, WIRE_U32, unenforced_primary_key_position),
    F(struct field_message, 14, WIRE_BOOL, unenforced_clustering_key),
    F(struct field_message, 15, WIRE_U32, unenforced_clustering_key_position),
};
WIRE_TABLE(field_table, struct field_message, "Field", field_fields);

static const struct wire_field schema_fields[] = {WIRE_SUBS(struct schema_message, 1, fields, &field_table),
                                                  WIRE_SUBS(struct schema_message, 5, metadata, &map_entry_table)};
WIRE_TABLE(schema_table, struct schema_message, "Schema", schema_fields);

static const struct wire_field file_descriptor_fields[] = {WIRE_SUB(struct file_descriptor_message, 1, schema, &schema_table),
                                                           F(struct file_descriptor_message, 2, WIRE_U64, length)};
WIRE_TABLE(file_descriptor_table, struct file_descriptor_message, "FileDescriptor", file_descriptor_fields);

static const struct wire_field legacy_metadata_fields[] = {
    F(struct legacy_metadata_message, 1, WIRE_U64, manifest_position),
    WIRE_LIST(struct legacy_metadata_message, 2, WIRE_I32, batch_offsets),
    F(struct legacy_metadata_message, 3, WIRE_U64, page_table_position),
    F(struct legacy_metadata_message, 5, WIRE_BYTES, statistics),
};
WIRE_TABLE(legacy_metadata_table, struct legacy_metadata_message, "Metadata", legacy_metadata_fields);

/* ---- lance.file.v2 ---- */

static const struct wire_field direct_encoding_fields[] = {F(struct direct_encoding_message, 1, WIRE_BYTES, encoding)};
WIRE_TABLE(direct_encoding_table, struct direct_encoding_message, "DirectEncoding", direct_encoding_fields);

static const struct wire_field encoding_fields[] = {
    WIRE_ONE(struct encoding_message, 1, WIRE_BYTES, indirect, which),
    WIRE_ONE_SUB(struct encoding_message, 2, direct, which, &direct_encoding_table),
    WIRE_ONE(struct encoding_message, 3, WIRE_BYTES, none, which),
};
WIRE_TABLE(encoding_table, struct encoding_message, "Encoding", encoding_fields);

static const struct wire_field page_fields[] = {
    WIRE_LIST(struct page_message, 1, WIRE_U64, buffer_offsets),
    WIRE_LIST(struct page_message, 2, WIRE_U64, buffer_sizes),
    F(struct page_message, 3, WIRE_U64, length),
    WIRE_SUB(struct page_message, 4, encoding, &encoding_table),
    F(struct page_message, 5, WIRE_U64, priority),
};
WIRE_TABLE(page_table, struct page_message, "Page", page_fields);

static const struct wire_field column_metadata_fields[] = {
    WIRE_SUB(struct column_metadata_message, 1, encoding, &encoding_table),
    WIRE_SUBS(struct column_metadata_message, 2, pages, &page_table),
    WIRE_LIST(struct column_metadata_message, 3, WIRE_U64, buffer_offsets),
    WIRE_LIST(struct column_metadata_message, 4, WIRE_U64, buffer_sizes),
};
WIRE_TABLE(column_metadata_table, struct column_metadata_message, "ColumnMetadata", column_metadata_fields);

/* ---- lance.encodings21 ---- */

static const struct wire_field compression_fields[] = {F(struct compression_message, 1, WIRE_U32, scheme),
                                                       WIRE_OPT(struct compression_message, 2, WIRE_I32, level)};
WIRE_TABLE(compression_table, struct compression_message, "BufferCompression", compression_fields);

static const struct wire_field ce_flat_fields[] = {F(struct ce_flat_message, 1, WIRE_U64, bits_per_value),
                                                   WIRE_SUB(struct ce_flat_message, 2, data, &compression_table)};
static WIRE_TABLE(ce_flat_table, struct ce_flat_message, "Flat", ce_flat_fields);

static const struct wire_field ce_variable_fields[] = {WIRE_SUB(struct ce_variable_message, 1, offsets, &ce_table),
                                                       WIRE_SUB(struct ce_variable_message, 2, values, &compression_table)};
static WIRE_TABLE(ce_variable_table, struct ce_variable_message, "Variable", ce_variable_fields);

static const struct wire_field ce_constant_fields[] = {WIRE_OPT(struct ce_constant_message, 1, WIRE_BYTES, value)};
static WIRE_TABLE(ce_constant_table, struct ce_constant_message, "Constant", ce_constant_fields);

static const struct wire_field ce_out_of_line_fields[] = {
    F(struct ce_out_of_line_message, 1, WIRE_U64, uncompressed_bits_per_value),
    WIRE_SUB(struct ce_out_of_line_message, 3, values, &ce_table)};
static WIRE_TABLE(ce_out_of_line_table, struct ce_out_of_line_message, "OutOfLineBitpacking", ce_out_of_line_fields);

static const struct wire_field ce_inline_fields[] = {F(struct ce_inline_message, 1, WIRE_U64, uncompressed_bits_per_value),
                                                     WIRE_SUB(struct ce_inline_message, 2, values, &compression_table)};
static WIRE_TABLE(ce_inline_table, struct ce_inline_message, "InlineBitpacking", ce_inline_fields);

static const struct wire_field ce_fsst_fields[] = {F(struct ce_fsst_message, 1, WIRE_BYTES, symbol_table),
                                                   WIRE_SUB(struct ce_fsst_message, 2, values, &ce_table)};
static WIRE_TABLE(ce_fsst_table, struct ce_fsst_message, "Fsst", ce_fsst_fields);

static const struct wire_field ce_dictionary_fields[] = {WIRE_SUB(struct ce_dictionary_message, 1, indices, &ce_table),
                                                         WIRE_SUB(struct ce_dictionary_message, 2, items, &ce_table),
                                                         F(struct ce_dictionary_message, 3, WIRE_U32, num_dictionary_items)};
static WIRE_TABLE(ce_dictionary_table, struct ce_dictionary_message, "Dictionary", ce_dictionary_fields);

static const struct wire_field ce_rle_fields[] = {WIRE_SUB(struct ce_rle_message, 1, values, &ce_table),
                                                  WIRE_SUB(struct ce_rle_message, 2, run_lengths, &ce_table)};
static WIRE_TABLE(ce_rle_table, struct ce_rle_message, "Rle", ce_rle_fields);

static const struct wire_field ce_bss_fields[] = {WIRE_SUB(struct ce_bss_message, 1, values, &ce_table)};
static WIRE_TABLE(ce_bss_table, struct ce_bss_message, "ByteStreamSplit", ce_bss_fields);

static const struct wire_field ce_general_fields[] = {WIRE_SUB(struct ce_general_message, 1, compression, &compression_table),
                                                      WIRE_SUB(struct ce_general_message, 3, values, &ce_table)};
static WIRE_TABLE(ce_general_table, struct ce_general_message, "General", ce_general_fields);

static const struct wire_field ce_fsl_fields[] = {F(struct ce_fsl_message, 1, WIRE_U64, items_per_value),
                                                  WIRE_SUB(struct ce_fsl_message, 2, values, &ce_table),
                                                  F(struct ce_fsl_message, 3, WIRE_BOOL, has_validity)};
static WIRE_TABLE(ce_fsl_table, struct ce_fsl_message, "FixedSizeList", ce_fsl_fields);

static const struct wire_field ce_packed_fields[] = {WIRE_LIST(struct ce_packed_message, 1, WIRE_U64, bits_per_value),
                                                     WIRE_SUB(struct ce_packed_message, 2, values, &ce_table)};
static WIRE_TABLE(ce_packed_table, struct ce_packed_message, "PackedStruct", ce_packed_fields);

static const struct wire_field ce_packed_field_fields[] = {
    WIRE_SUB(struct ce_packed_field_message, 1, value, &ce_table),
    WIRE_ONE(struct ce_packed_field_message, 2, WIRE_U64, bits_per_value, which),
    WIRE_ONE(struct ce_packed_field_message, 3, WIRE_U64, bits_per_length, which),
};
static WIRE_TABLE(ce_packed_field_table, struct ce_packed_field_message, "FieldEncoding", ce_packed_field_fields);

static const struct wire_field ce_variable_packed_fields[] = {
    WIRE_SUBS(struct ce_variable_packed_message, 1, fields, &ce_packed_field_table)};
static WIRE_TABLE(ce_variable_packed_table, struct ce_variable_packed_message, "VariablePackedStruct", ce_variable_packed_fields);

#define CE(tag, member, table) WIRE_ONE_SUB(struct ce_message, tag, member, which, &table)
static const struct wire_field ce_fields[] = {
    CE(CE_FLAT, flat, ce_flat_table),
    CE(CE_VARIABLE, variable, ce_variable_table),
    CE(CE_CONSTANT, constant, ce_constant_table),
    CE(CE_OUT_OF_LINE_BITPACKING, out_of_line, ce_out_of_line_table),
    CE(CE_INLINE_BITPACKING, inline_bitpacking, ce_inline_table),
    CE(CE_FSST, fsst, ce_fsst_table),
    CE(CE_DICTIONARY, dictionary, ce_dictionary_table),
    CE(CE_RLE, rle, ce_rle_table),
    CE(CE_BYTE_STREAM_SPLIT, byte_stream_split, ce_bss_table),
    CE(CE_GENERAL, general, ce_general_table),
    CE(CE_FIXED_SIZE_LIST, fixed_size_list, ce_fsl_table),
    CE(CE_PACKED_STRUCT, packed_struct, ce_packed_table),
    CE(CE_VARIABLE_PACKED_STRUCT, variable_packed_struct, ce_variable_packed_table),
};
WIRE_TABLE(ce_table, struct ce_message, "CompressiveEncoding", ce_fields);

static const struct wire_field mini_block_fields[] = {
    WIRE_SUB(struct mini_block_message, 1, rep_compression, &ce_table),
    WIRE_SUB(struct mini_block_message, 2, def_compression, &ce_table),
    WIRE_SUB(struct mini_block_message, 3, value_compression, &ce_table),
    WIRE_SUB(struct mini_block_message, 4, dictionary, &ce_table),
    F(struct mini_block_message, 5, WIRE_U64, num_dictionary_items),
    WIRE_LIST(struct mini_block_message, 6, WIRE_U32, layers),
    F(struct mini_block_message, 7, WIRE_U64, num_buffers),
    F(struct mini_block_message, 8, WIRE_U32, repetition_index_depth),
    F(struct mini_block_message, 9, WIRE_U64, num_items),
    F(struct mini_block_message, 10, WIRE_BOOL, has_large_chunk),
};
WIRE_TABLE(mini_block_table, struct mini_block_message, "MiniBlockLayout", mini_block_fields);

static const struct wire_field full_zip_fields[] = {
    F(struct full_zip_message, 1, WIRE_U32, bits_rep),
    F(struct full_zip_message, 2, WIRE_U32, bits_def),
    WIRE_ONE(struct full_zip_message, 3, WIRE_U32, bits_per_value, which),
    WIRE_ONE(struct full_zip_message, 4, WIRE_U32, bits_per_offset, which),
    F(struct full_zip_message, 5, WIRE_U32, num_items),
    F(struct full_zip_message, 6, WIRE_U32, num_visible_items),
    WIRE_SUB(struct full_zip_message, 7, value_compression, &ce_table),
    WIRE_LIST(struct full_zip_message, 8, WIRE_U32, layers),
};
WIRE_TABLE(full_zip_table, struct full_zip_message, "FullZipLayout", full_zip_fields);

static const struct wire_field constant_layout_fields[] = {
    WIRE_LIST(struct constant_layout_message, 5, WIRE_U32, layers),
    WIRE_OPT(struct constant_layout_message, 6, WIRE_BYTES, inline_value),
    WIRE_SUB(struct constant_layout_message, 7, rep_compression, &ce_table),
    WIRE_SUB(struct constant_layout_message, 8, def_compression, &ce_table),
    F(struct constant_layout_message, 9, WIRE_U64, num_rep_values),
    F(struct constant_layout_message, 10, WIRE_U64, num_def_values),
};
WIRE_TABLE(constant_layout_table, struct constant_layout_message, "ConstantLayout", constant_layout_fields);

static const struct wire_field blob_layout_fields[] = {WIRE_SUB(struct blob_layout_message, 1, inner_layout, &page_layout_table),
                                                       WIRE_LIST(struct blob_layout_message, 2, WIRE_U32, layers)};
WIRE_TABLE(blob_layout_table, struct blob_layout_message, "BlobLayout", blob_layout_fields);

static const struct wire_field page_layout_fields[] = {
    WIRE_ONE_SUB(struct page_layout_message, 1, mini_block, which, &mini_block_table),
    WIRE_ONE_SUB(struct page_layout_message, 2, constant, which, &constant_layout_table),
    WIRE_ONE_SUB(struct page_layout_message, 3, full_zip, which, &full_zip_table),
    WIRE_ONE_SUB(struct page_layout_message, 4, blob, which, &blob_layout_table),
    WIRE_ONE(struct page_layout_message, 5, WIRE_BYTES, sparse, which),
};
WIRE_TABLE(page_layout_table, struct page_layout_message, "PageLayout", page_layout_fields);

/* ---- lance.encodings ---- */

static const struct wire_field column_encoding_fields[] = {
    WIRE_ONE(struct column_encoding_message, 1, WIRE_BYTES, values, which),
    WIRE_ONE(struct column_encoding_message, 2, WIRE_BYTES, zone_index, which),
    WIRE_ONE(struct column_encoding_message, 3, WIRE_BYTES, blob, which),
};
WIRE_TABLE(column_encoding_table, struct column_encoding_message, "ColumnEncoding", column_encoding_fields);

static const struct wire_field buffer_fields[] = {F(struct buffer_message, 1, WIRE_U32, buffer_index),
                                                  F(struct buffer_message, 2, WIRE_U32, buffer_type)};
static WIRE_TABLE(buffer_table, struct buffer_message, "Buffer", buffer_fields);

static const struct wire_field scheme_fields[] = {F(struct scheme_message, 1, WIRE_BYTES, scheme),
                                                  WIRE_OPT(struct scheme_message, 2, WIRE_I32, level)};
static WIRE_TABLE(scheme_table, struct scheme_message, "Compression", scheme_fields);

static const struct wire_field ae_flat_fields[] = {F(struct ae_flat_message, 1, WIRE_U64, bits_per_value),
                                                   WIRE_SUB(struct ae_flat_message, 2, buffer, &buffer_table),
                                                   WIRE_SUB(struct ae_flat_message, 3, compression, &scheme_table)};
static WIRE_TABLE(ae_flat_table, struct ae_flat_message, "Flat", ae_flat_fields);

static const struct wire_field ae_no_null_fields[] = {WIRE_SUB(struct ae_no_null_message, 1, values, &ae_table)};
static WIRE_TABLE(ae_no_null_table, struct ae_no_null_message, "NoNull", ae_no_null_fields);

static const struct wire_field ae_some_null_fields[] = {WIRE_SUB(struct ae_some_null_message, 1, validity, &ae_table),
                                                        WIRE_SUB(struct ae_some_null_message, 2, values, &ae_table)};
static WIRE_TABLE(ae_some_null_table, struct ae_some_null_message, "SomeNull", ae_some_null_fields);

static const struct wire_field ae_nullable_fields[] = {
    WIRE_ONE_SUB(struct ae_nullable_message, 1, no_nulls, which, &ae_no_null_table),
    WIRE_ONE_SUB(struct ae_nullable_message, 2, some_nulls, which, &ae_some_null_table),
    WIRE_ONE_SUB(struct ae_nullable_message, 3, all_nulls, which, &empty_table),
};
static WIRE_TABLE(ae_nullable_table, struct ae_nullable_message, "Nullable", ae_nullable_fields);

static const struct wire_field ae_fsl_fields[] = {F(struct ae_fsl_message, 1, WIRE_U32, dimension),
                                                  WIRE_SUB(struct ae_fsl_message, 2, items, &ae_table),
                                                  F(struct ae_fsl_message, 3, WIRE_BOOL, has_validity)};
static WIRE_TABLE(ae_fsl_table, struct ae_fsl_message, "FixedSizeList", ae_fsl_fields);

static const struct wire_field ae_list_fields[] = {WIRE_SUB(struct ae_list_message, 1, offsets, &ae_table),
                                                   F(struct ae_list_message, 2, WIRE_U64, null_offset_adjustment),
                                                   F(struct ae_list_message, 3, WIRE_U64, num_items)};
static WIRE_TABLE(ae_list_table, struct ae_list_message, "List", ae_list_fields);

static const struct wire_field ae_binary_fields[] = {WIRE_SUB(struct ae_binary_message, 1, indices, &ae_table),
                                                     WIRE_SUB(struct ae_binary_message, 2, bytes, &ae_table),
                                                     F(struct ae_binary_message, 3, WIRE_U64, null_adjustment)};
static WIRE_TABLE(ae_binary_table, struct ae_binary_message, "Binary", ae_binary_fields);

static const struct wire_field ae_dictionary_fields[] = {WIRE_SUB(struct ae_dictionary_message, 1, indices, &ae_table),
                                                         WIRE_SUB(struct ae_dictionary_message, 2, items, &ae_table),
                                                         F(struct ae_dictionary_message, 3, WIRE_U32, num_dictionary_items)};
static WIRE_TABLE(ae_dictionary_table, struct ae_dictionary_message, "Dictionary", ae_dictionary_fields);

static const struct wire_field ae_fsst_fields[] = {WIRE_SUB(struct ae_fsst_message, 1, binary, &ae_table),
                                                   F(struct ae_fsst_message, 2, WIRE_BYTES, symbol_table)};
static WIRE_TABLE(ae_fsst_table, struct ae_fsst_message, "Fsst", ae_fsst_fields);

static const struct wire_field ae_packed_fields[] = {WIRE_SUBS(struct ae_packed_message, 1, inner, &ae_table),
                                                     WIRE_SUB(struct ae_packed_message, 2, buffer, &buffer_table)};
static WIRE_TABLE(ae_packed_table, struct ae_packed_message, "PackedStruct", ae_packed_fields);

static const struct wire_field ae_bitpacked_fields[] = {
    F(struct ae_bitpacked_message, 1, WIRE_U64, compressed_bits_per_value),
    F(struct ae_bitpacked_message, 2, WIRE_U64, uncompressed_bits_per_value),
    WIRE_SUB(struct ae_bitpacked_message, 3, buffer, &buffer_table),
    F(struct ae_bitpacked_message, 4, WIRE_BOOL, is_signed),
};
static WIRE_TABLE(ae_bitpacked_table, struct ae_bitpacked_message, "Bitpacked", ae_bitpacked_fields);

static const struct wire_field ae_fixed_binary_fields[] = {WIRE_SUB(struct ae_fixed_binary_message, 1, bytes, &ae_table),
                                                           F(struct ae_fixed_binary_message, 2, WIRE_U32, byte_width)};
static WIRE_TABLE(ae_fixed_binary_table, struct ae_fixed_binary_message, "FixedSizeBinary", ae_fixed_binary_fields);

#define AE(tag, member, table) WIRE_ONE_SUB(struct ae_message, tag, member, which, &table)
static const struct wire_field ae_fields[] = {
    AE(AE_FLAT, flat, ae_flat_table),
    AE(AE_NULLABLE, nullable, ae_nullable_table),
    AE(AE_FIXED_SIZE_LIST, fixed_size_list, ae_fsl_table),
    AE(AE_LIST, list, ae_list_table),
    AE(AE_STRUCT, simple_struct, empty_table),
    AE(AE_BINARY, binary, ae_binary_table),
    AE(AE_DICTIONARY, dictionary, ae_dictionary_table),
    AE(AE_FSST, fsst, ae_fsst_table),
    AE(AE_PACKED_STRUCT, packed_struct, ae_packed_table),
    AE(AE_BITPACKED, bitpacked, ae_bitpacked_table),
    AE(AE_FIXED_SIZE_BINARY, fixed_size_binary, ae_fixed_binary_table),
    AE(AE_BITPACKED_FOR_NON_NEG, bitpacked_for_non_neg, ae_bitpacked_table),
};
WIRE_TABLE(ae_table, struct ae_message, "ArrayEncoding", ae_fields);
