/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Lance's messages as C structs, with their tables for wire_decode and wire_encode. The .proto form is in proto/.
 *
 * Texts and bytes are `struct bytes` that point into the decoded input. `unknown` holds the fields that the table does not
 * know, raw. Sub-messages that nobody interprets stay bytes, which keeps them bit for bit.
 * Source: spec file-format 3, 13, table-format 5, 11, 12, commits 1. */
#ifndef WIRE_MESSAGES_H
#define WIRE_MESSAGES_H

#include "wire/wire.h"

/* ---- common ---- */

/* google.protobuf.Any */
struct any_message {
    struct bytes type_url;
    struct bytes value;
    struct bytes unknown;
};
/* map<string, string|bytes> */
struct map_entry {
    struct bytes key;
    struct bytes value;
    struct bytes unknown;
};
struct timestamp_message {
    int64_t seconds;
    int32_t nanos;
    struct bytes unknown;
};
struct uuid_message {
    struct bytes uuid;
    struct bytes unknown;
};
struct empty_message {
    struct bytes unknown;
};
extern const struct wire_message any_table, map_entry_table, timestamp_table, uuid_table, empty_table;

/* ---- lance.file ---- */

struct dictionary_message {
    int64_t offset;
    int64_t length;
    struct bytes unknown;
};
struct field_message {
    uint32_t type;
    struct bytes name;
    int32_t id;
    int32_t parent_id;
    struct bytes logical_type;
    bool nullable;
    uint32_t encoding;
    struct dictionary_message *dictionary;
    struct bytes extension_name;
    struct map_entry *metadata;
    size_t n_metadata;
    bool unenforced_primary_key;
    uint32_t unenforced_primary_key_position;
    bool unenforced_clustering_key;
    uint32_t unenforced_clustering_key_position;
    struct bytes unknown;
};
struct schema_message {
    struct field_message *fields;
    size_t n_fields;
    struct map_entry *metadata;
    size_t n_metadata;
    struct bytes unknown;
};
struct file_descriptor_message {
    struct schema_message *schema;
    uint64_t length;
    struct bytes unknown;
};
/* Metadata of a 0.1 file. */
struct legacy_metadata_message {
    uint64_t manifest_position;
    int32_t *batch_offsets;
    size_t n_batch_offsets;
    uint64_t page_table_position;
    struct bytes statistics;
    struct bytes unknown;
};
extern const struct wire_message dictionary_table, field_table, schema_table, file_descriptor_table, legacy_metadata_table;

/* ---- lance.file.v2 ---- */

struct direct_encoding_message {
    struct bytes encoding; /* a serialised Any */
    struct bytes unknown;
};
struct encoding_message {
    uint32_t which; /* 1 indirect, 2 direct, 3 none */
    struct bytes indirect;
    struct direct_encoding_message *direct;
    struct bytes none;
    struct bytes unknown;
};
struct page_message {
    uint64_t *buffer_offsets;
    size_t n_buffer_offsets;
    uint64_t *buffer_sizes;
    size_t n_buffer_sizes;
    uint64_t length;
    struct encoding_message *encoding;
    uint64_t priority;
    struct bytes unknown;
};
struct column_metadata_message {
    struct encoding_message *encoding;
    struct page_message *pages;
    size_t n_pages;
    uint64_t *buffer_offsets;
    size_t n_buffer_offsets;
    uint64_t *buffer_sizes;
    size_t n_buffer_sizes;
    struct bytes unknown;
};
extern const struct wire_message direct_encoding_table, encoding_table, page_table, column_metadata_table;

/* ---- lance.encodings21 ---- */

struct compression_message {
    uint32_t scheme; /* 0 unspecified, 1 lz4, 2 zstd */
    bool has_level;
    int32_t level;
    struct bytes unknown;
};
struct ce_message;
enum {
    CE_FLAT = 1,
    CE_VARIABLE = 2,
    CE_CONSTANT = 3,
    CE_OUT_OF_LINE_BITPACKING = 4,
    CE_INLINE_BITPACKING = 5,
    CE_FSST = 6,
    CE_DICTIONARY = 7,
    CE_RLE = 8,
    CE_BYTE_STREAM_SPLIT = 9,
    CE_GENERAL = 10,
    CE_FIXED_SIZE_LIST = 11,
    CE_PACKED_STRUCT = 12,
    CE_VARIABLE_PACKED_STRUCT = 13
};
struct ce_flat_message {
    uint64_t bits_per_value;
    struct compression_message *data;
    struct bytes unknown;
};
struct ce_variable_message {
    struct ce_message *offsets;
    struct compression_message *values;
    struct bytes unknown;
};
struct ce_constant_message {
    bool has_value;
    struct bytes value;
    struct bytes unknown;
};
struct ce_out_of_line_message {
    uint64_t uncompressed_bits_per_value;
    struct ce_message *values;
    struct bytes unknown;
};
struct ce_inline_message {
    uint64_t uncompressed_bits_per_value;
    struct compression_message *values;
    struct bytes unknown;
};
struct ce_fsst_message {
    struct bytes symbol_table;
    struct ce_message *values;
    struct bytes unknown;
};
struct ce_dictionary_message {
    struct ce_message *indices;
    struct ce_message *items;
    uint32_t num_dictionary_items;
    struct bytes unknown;
};
struct ce_rle_message {
    struct ce_message *values;
    struct ce_message *run_lengths;
    struct bytes unknown;
};
struct ce_bss_message {
    struct ce_message *values;
    struct bytes unknown;
};
struct ce_general_message {
    struct compression_message *compression;
    struct ce_message *values;
    struct bytes unknown;
};
struct ce_fsl_message {
    uint64_t items_per_value;
    struct ce_message *values;
    bool has_validity;
    struct bytes unknown;
};
struct ce_packed_message {
    uint64_t *bits_per_value;
    size_t n_bits_per_value;
    struct ce_message *values;
    struct bytes unknown;
};
struct ce_packed_field_message {
    struct ce_message *value;
    uint32_t which; /* 2 bits_per_value, 3 bits_per_length */
    uint64_t bits_per_value;
    uint64_t bits_per_length;
    struct bytes unknown;
};
struct ce_variable_packed_message {
    struct ce_packed_field_message *fields;
    size_t n_fields;
    struct bytes unknown;
};
/* CompressiveEncoding: one member, named by `which` (CE_). */
struct ce_message {
    uint32_t which;
    struct ce_flat_message *flat;
    struct ce_variable_message *variable;
    struct ce_constant_message *constant;
    struct ce_out_of_line_message *out_of_line;
    struct ce_inline_message *inline_bitpacking;
    struct ce_fsst_message *fsst;
    struct ce_dictionary_message *dictionary;
    struct ce_rle_message *rle;
    struct ce_bss_message *byte_stream_split;
    struct ce_general_message *general;
    struct ce_fsl_message *fixed_size_list;
    struct ce_packed_message *packed_struct;
    struct ce_variable_packed_message *variable_packed_struct;
    struct bytes unknown;
};

enum {
    LAYER_ALL_VALID_ITEM = 1,
    LAYER_ALL_VALID_LIST = 2,
    LAYER_NULLABLE_ITEM = 3,
    LAYER_NULLABLE_LIST = 4,
    LAYER_EMPTYABLE_LIST = 5,
    LAYER_NULL_AND_EMPTY_LIST = 6
};
struct mini_block_message {
    struct ce_message *rep_compression;
    struct ce_message *def_compression;
    struct ce_message *value_compression;
    struct ce_message *dictionary;
    uint64_t num_dictionary_items;
    uint32_t *layers;
    size_t n_layers;
    uint64_t num_buffers;
    uint32_t repetition_index_depth;
    uint64_t num_items;
    bool has_large_chunk;
    struct bytes unknown;
};
struct full_zip_message {
    uint32_t bits_rep;
    uint32_t bits_def;
    uint32_t which; /* 3 bits_per_value, 4 bits_per_offset */
    uint32_t bits_per_value;
    uint32_t bits_per_offset;
    uint32_t num_items;
    uint32_t num_visible_items;
    struct ce_message *value_compression;
    uint32_t *layers;
    size_t n_layers;
    struct bytes unknown;
};
struct constant_layout_message {
    uint32_t *layers;
    size_t n_layers;
    bool has_inline_value;
    struct bytes inline_value;
    struct ce_message *rep_compression;
    struct ce_message *def_compression;
    uint64_t num_rep_values;
    uint64_t num_def_values;
    struct bytes unknown;
};
struct page_layout_message;
struct blob_layout_message {
    struct page_layout_message *inner_layout;
    uint32_t *layers;
    size_t n_layers;
    struct bytes unknown;
};
enum {
    LAYOUT_MINI_BLOCK_PAGE = 1,
    LAYOUT_CONSTANT_PAGE = 2,
    LAYOUT_FULL_ZIP_PAGE = 3,
    LAYOUT_BLOB_PAGE = 4,
    LAYOUT_SPARSE_PAGE = 5
};
struct page_layout_message {
    uint32_t which; /* LAYOUT_*_PAGE */
    struct mini_block_message *mini_block;
    struct constant_layout_message *constant;
    struct full_zip_message *full_zip;
    struct blob_layout_message *blob;
    struct bytes sparse;
    struct bytes unknown;
};
extern const struct wire_message compression_table, ce_table, mini_block_table, full_zip_table, constant_layout_table,
    blob_layout_table, page_layout_table;

/* ---- lance.encodings (2.0) ---- */

struct column_encoding_message {
    uint32_t which; /* 1 values, 2 zone_index, 3 blob */
    struct bytes values;
    struct bytes zone_index;
    struct bytes blob;
    struct bytes unknown;
};
struct buffer_message {
    uint32_t buffer_index;
    uint32_t buffer_type; /* 0 page, 1 column, 2 file */
    struct bytes unknown;
};
struct scheme_message {
    struct bytes scheme;
    bool has_level;
    int32_t level;
    struct bytes unknown;
};
struct ae_message;
struct ae_flat_message {
    uint64_t bits_per_value;
    struct buffer_message *buffer;
    struct scheme_message *compression;
    struct bytes unknown;
};
struct ae_no_null_message {
    struct ae_message *values;
    struct bytes unknown;
};
struct ae_some_null_message {
    struct ae_message *validity;
    struct ae_message *values;
    struct bytes unknown;
};
struct ae_nullable_message {
    uint32_t which; /* 1 no_nulls, 2 some_nulls, 3 all_nulls */
    struct ae_no_null_message *no_nulls;
    struct ae_some_null_message *some_nulls;
    struct empty_message *all_nulls;
    struct bytes unknown;
};
struct ae_fsl_message {
    uint32_t dimension;
    struct ae_message *items;
    bool has_validity;
    struct bytes unknown;
};
struct ae_list_message {
    struct ae_message *offsets;
    uint64_t null_offset_adjustment;
    uint64_t num_items;
    struct bytes unknown;
};
struct ae_binary_message {
    struct ae_message *indices;
    struct ae_message *bytes;
    uint64_t null_adjustment;
    struct bytes unknown;
};
struct ae_dictionary_message {
    struct ae_message *indices;
    struct ae_message *items;
    uint32_t num_dictionary_items;
    struct bytes unknown;
};
struct ae_fsst_message {
    struct ae_message *binary;
    struct bytes symbol_table;
    struct bytes unknown;
};
struct ae_packed_message {
    struct ae_message *inner;
    size_t n_inner;
    struct buffer_message *buffer;
    struct bytes unknown;
};
struct ae_bitpacked_message {
    uint64_t compressed_bits_per_value;
    uint64_t uncompressed_bits_per_value;
    struct buffer_message *buffer;
    bool is_signed;
    struct bytes unknown;
};
struct ae_fixed_binary_message {
    struct ae_message *bytes;
    uint32_t byte_width;
    struct bytes unknown;
};
enum {
    AE_FLAT = 1,
    AE_NULLABLE = 2,
    AE_FIXED_SIZE_LIST = 3,
    AE_LIST = 4,
    AE_STRUCT = 5,
    AE_BINARY = 6,
    AE_DICTIONARY = 7,
    AE_FSST = 8,
    AE_PACKED_STRUCT = 9,
    AE_BITPACKED = 10,
    AE_FIXED_SIZE_BINARY = 11,
    AE_BITPACKED_FOR_NON_NEG = 12
};
/* ArrayEncoding: one member, named by `which` (AE_). Later variants are never valid in 2.0 pages and stay unknown. */
struct ae_message {
    uint32_t which;
    struct ae_flat_message *flat;
    struct ae_nullable_message *nullable;
    struct ae_fsl_message *fixed_size_list;
    struct ae_list_message *list;
    struct empty_message *simple_struct;
    struct ae_binary_message *binary;
    struct ae_dictionary_message *dictionary;
    struct ae_fsst_message *fsst;
    struct ae_packed_message *packed_struct;
    struct ae_bitpacked_message *bitpacked;
    struct ae_fixed_binary_message *fixed_size_binary;
    struct ae_bitpacked_message *bitpacked_for_non_neg;
    struct bytes unknown;
};
extern const struct wire_message column_encoding_table, ae_table;

/* ---- lance.table ---- */

struct data_file_message {
    struct bytes path;
    int32_t *fields;
    size_t n_fields;
    int32_t *column_indices;
    size_t n_column_indices;
    uint32_t file_major_version;
    uint32_t file_minor_version;
    uint64_t file_size_bytes;
    bool has_base_id;
    uint32_t base_id;
    struct bytes unknown;
};
struct deletion_file_message {
    uint32_t file_type; /* 0 arrow array, 1 bitmap */
    uint64_t read_version;
    uint64_t id;
    uint64_t num_deleted_rows;
    bool has_base_id;
    uint32_t base_id;
    struct bytes unknown;
};
struct external_file_message {
    struct bytes path;
    uint64_t offset;
    uint64_t size;
    struct bytes unknown;
};
struct fragment_message {
    uint64_t id;
    struct data_file_message *files;
    size_t n_files;
    struct deletion_file_message *deletion_file;
    uint64_t physical_rows;
    uint32_t row_ids_which; /* 0, 5 inline, 6 external */
    struct bytes inline_row_ids;
    struct external_file_message *external_row_ids;
    uint32_t last_updated_which; /* 0, 7 inline, 8 external */
    struct bytes inline_last_updated;
    struct external_file_message *external_last_updated;
    uint32_t created_which; /* 0, 9 inline, 10 external */
    struct bytes inline_created;
    struct external_file_message *external_created;
    struct bytes unknown; /* overlays (11) are found here */
};
struct writer_version_message {
    struct bytes library;
    struct bytes version;
    bool has_prerelease;
    struct bytes prerelease;
    bool has_build_metadata;
    struct bytes build_metadata;
    struct bytes unknown;
};
struct data_format_message {
    struct bytes file_format;
    struct bytes version;
    struct bytes unknown;
};
struct base_path_message {
    uint32_t id;
    bool has_name;
    struct bytes name;
    bool is_dataset_root;
    struct bytes path;
    struct bytes unknown;
};
struct manifest_message {
    struct field_message *fields;
    size_t n_fields;
    struct fragment_message *fragments;
    size_t n_fragments;
    struct bytes *
        fragment_bytes; /* manifest_outline_table: the same as bytes, not yet decoded; manifest_carry_table: those before `fragments` */
    size_t n_fragment_bytes;
    uint64_t version;
    uint64_t version_aux_data;
    struct map_entry *schema_metadata;
    size_t n_schema_metadata;
    bool has_index_section;
    uint64_t index_section;
    struct timestamp_message *timestamp;
    struct bytes tag;
    uint64_t reader_feature_flags;
    uint64_t writer_feature_flags;
    bool has_max_fragment_id;
    uint32_t max_fragment_id;
    struct bytes transaction_file;
    struct writer_version_message *writer_version;
    uint64_t next_row_id;
    struct data_format_message *data_format;
    struct map_entry *config;
    size_t n_config;
    struct base_path_message *base_paths;
    size_t n_base_paths;
    struct map_entry *table_metadata;
    size_t n_table_metadata;
    bool has_branch;
    struct bytes branch;
    bool has_transaction_section; /* tag 21: writers up to 8.0 */
    uint64_t transaction_section;
    bool has_transaction_section_new; /* tag 23: the same in newer releases, which prefer it */
    uint64_t transaction_section_new;
    struct bytes unknown;
};
struct index_file_message {
    struct bytes path;
    uint64_t size_bytes;
    struct bytes unknown;
};
struct index_metadata_message {
    struct uuid_message *uuid;
    int32_t *fields;
    size_t n_fields;
    struct bytes name;
    uint64_t dataset_version;
    struct bytes fragment_bitmap;
    struct any_message *index_details;
    bool has_index_version;
    int32_t index_version;
    bool has_created_at;
    uint64_t created_at;
    bool has_base_id;
    uint32_t base_id;
    struct index_file_message *files;
    size_t n_files;
    struct bytes unknown;
};
struct index_section_message {
    struct index_metadata_message *indices;
    size_t n_indices;
    struct bytes unknown;
};
extern const struct wire_message data_file_table, deletion_file_table, external_file_table, fragment_table, writer_version_table,
    data_format_table, base_path_table, manifest_table, manifest_outline_table, manifest_carry_table, index_file_table,
    index_metadata_table, index_section_table;

/* ---- row ids ---- */

struct u64_range_message {
    uint64_t start;
    uint64_t end;
    struct bytes unknown;
};
struct u_array_message {
    uint64_t base;
    struct bytes offsets; /* U64Array: the values, base 0 */
    struct bytes unknown;
};
struct encoded_array_message {
    uint32_t which; /* 1 u16, 2 u32, 3 u64 */
    struct u_array_message *u16_array;
    struct u_array_message *u32_array;
    struct u_array_message *u64_array;
    struct bytes unknown;
};
struct holes_message {
    uint64_t start;
    uint64_t end;
    struct encoded_array_message *holes;
    struct bytes unknown;
};
struct bitmap_range_message {
    uint64_t start;
    uint64_t end;
    struct bytes bitmap;
    struct bytes unknown;
};
enum { SEGMENT_RANGE = 1, SEGMENT_HOLES = 2, SEGMENT_BITMAP = 3, SEGMENT_SORTED = 4, SEGMENT_ARRAY = 5 };
struct segment_message {
    uint32_t which; /* SEGMENT_ */
    struct u64_range_message *range;
    struct holes_message *range_with_holes;
    struct bitmap_range_message *range_with_bitmap;
    struct encoded_array_message *sorted_array;
    struct encoded_array_message *array;
    struct bytes unknown;
};
struct row_id_sequence_message {
    struct segment_message *segments;
    size_t n_segments;
    struct bytes unknown;
};
struct version_run_message {
    struct segment_message *span;
    uint64_t version;
    struct bytes unknown;
};
struct version_sequence_message {
    struct version_run_message *runs;
    size_t n_runs;
    struct bytes unknown;
};
extern const struct wire_message segment_table, row_id_sequence_table, version_sequence_table;

/* ---- transactions ---- */

enum {
    OPERATION_APPEND = 100,
    OPERATION_DELETE = 101,
    OPERATION_OVERWRITE = 102,
    OPERATION_CREATE_INDEX = 103,
    OPERATION_REWRITE = 104,
    OPERATION_MERGE = 105,
    OPERATION_RESTORE = 106,
    OPERATION_RESERVE_FRAGMENTS = 107,
    OPERATION_UPDATE = 108,
    OPERATION_PROJECT = 109,
    OPERATION_UPDATE_CONFIG = 110,
    OPERATION_DATA_REPLACEMENT = 111,
    OPERATION_UPDATE_MEM_WAL_STATE = 112,
    OPERATION_CLONE = 113,
    OPERATION_UPDATE_BASES = 114,
    OPERATION_DATA_OVERLAY = 115
};
struct append_message {
    struct fragment_message *fragments;
    size_t n_fragments;
    struct bytes unknown;
};
struct overwrite_message {
    struct fragment_message *fragments;
    size_t n_fragments;
    struct field_message *schema;
    size_t n_schema;
    struct map_entry *schema_metadata;
    size_t n_schema_metadata;
    struct map_entry *config_upsert_values;
    size_t n_config_upsert_values;
    struct base_path_message *initial_bases;
    size_t n_initial_bases;
    struct bytes unknown;
};
struct delete_message {
    struct fragment_message *updated_fragments;
    size_t n_updated_fragments;
    uint64_t *deleted_fragment_ids;
    size_t n_deleted_fragment_ids;
    struct bytes predicate;
    struct bytes unknown;
};
struct create_index_message {
    struct index_metadata_message *new_indices;
    size_t n_new_indices;
    struct index_metadata_message *removed_indices;
    size_t n_removed_indices;
    struct bytes unknown;
};
struct rewrite_group_message {
    struct fragment_message *old_fragments;
    size_t n_old_fragments;
    struct fragment_message *new_fragments;
    size_t n_new_fragments;
    struct bytes unknown;
};
struct rewritten_index_message {
    struct uuid_message *old_id;
    struct uuid_message *new_id;
    struct any_message *new_index_details;
    uint32_t new_index_version;
    struct index_file_message *new_index_files;
    size_t n_new_index_files;
    struct bytes unknown;
};
struct rewrite_message {
    struct fragment_message *old_fragments; /* old form: one group */
    size_t n_old_fragments;
    struct fragment_message *new_fragments;
    size_t n_new_fragments;
    struct rewrite_group_message *groups;
    size_t n_groups;
    struct rewritten_index_message *rewritten_indices;
    size_t n_rewritten_indices;
    struct bytes unknown;
};
struct merge_message {
    struct fragment_message *fragments;
    size_t n_fragments;
    struct field_message *schema;
    size_t n_schema;
    struct map_entry *schema_metadata;
    size_t n_schema_metadata;
    bool preserves_nullability; /* newer than 8.0 */
    struct bytes unknown;
};
struct project_message {
    struct field_message *schema;
    size_t n_schema;
    bool preserves_nullability; /* newer than 8.0 */
    struct bytes unknown;
};
struct restore_message {
    uint64_t version;
    struct bytes unknown;
};
struct reserve_fragments_message {
    uint32_t num_fragments;
    struct bytes unknown;
};
struct clone_message {
    bool is_shallow;
    bool has_ref_name;
    struct bytes ref_name;
    uint64_t ref_version;
    struct bytes ref_path;
    bool has_branch_name;
    struct bytes branch_name;
    struct bytes unknown;
};
struct merged_generation_message {
    struct uuid_message *shard_id;
    uint64_t generation;
    struct bytes unknown;
};
/* MemWalIndexDetails: what is not merged here stays among the unknown fields. */
struct mem_wal_details_message {
    struct merged_generation_message *merged_generations;
    size_t n_merged_generations;
    struct bytes unknown;
};
/* FragmentReuseIndexDetails: the versions inside, or the place of a file that holds InlineContent. */
struct reuse_digest_message {
    uint64_t id;
    uint64_t physical_rows;
    uint64_t num_deleted_rows;
    struct bytes unknown;
};
struct reuse_group_message {
    struct bytes changed_row_addrs; /* Roaring bitmap of 64 bits */
    struct reuse_digest_message *old_fragments;
    size_t n_old_fragments;
    struct reuse_digest_message *new_fragments;
    size_t n_new_fragments;
    struct bytes unknown;
};
struct reuse_version_message {
    uint64_t dataset_version;
    struct reuse_group_message *groups;
    size_t n_groups;
    struct bytes unknown;
};
struct reuse_content_message {
    struct reuse_version_message *versions;
    size_t n_versions;
    struct bytes unknown;
};
struct reuse_details_message {
    uint32_t which; /* 1 content, 2 external */
    struct reuse_content_message *content;
    struct external_file_message *external;
    struct bytes unknown;
};
extern const struct wire_message mem_wal_details_table, reuse_content_table, reuse_details_table;
struct exact_filter_message {
    uint64_t *key_hashes;
    size_t n_key_hashes;
    struct bytes unknown;
};
struct bloom_filter_message {
    struct bytes bitmap;
    uint32_t num_bits;
    uint64_t number_of_items; /* 0 = 8192 */
    double probability;       /* 0 = 0.00057 */
    struct bytes unknown;
};
enum { KEY_FILTER_EXACT = 2, KEY_FILTER_BLOOM = 3 };
struct key_filter_message {
    int32_t *field_ids;
    size_t n_field_ids;
    uint32_t which; /* KEY_FILTER_ */
    struct exact_filter_message *exact;
    struct bloom_filter_message *bloom;
    struct bytes unknown;
};
struct u32_list_message {
    uint32_t *values;
    size_t n_values;
    struct bytes unknown;
};
struct offsets_entry_message { /* of a map from fragment id */
    uint64_t key;
    struct u32_list_message *value;
    struct bytes unknown;
};
struct bitmap_entry_message { /* of a map from fragment id */
    uint64_t key;
    struct bytes value;
    struct bytes unknown;
};
enum { UPDATE_REWRITE_ROWS = 0, UPDATE_REWRITE_COLUMNS = 1 };
struct update_message {
    uint64_t *removed_fragment_ids;
    size_t n_removed_fragment_ids;
    struct fragment_message *updated_fragments;
    size_t n_updated_fragments;
    struct fragment_message *new_fragments;
    size_t n_new_fragments;
    uint32_t *fields_modified;
    size_t n_fields_modified;
    struct merged_generation_message *merged_generations;
    size_t n_merged_generations;
    uint32_t *fields_preserving; /* fields_for_preserving_frag_bitmap */
    size_t n_fields_preserving;
    uint32_t update_mode; /* UPDATE_ */
    struct key_filter_message *inserted_rows;
    struct offsets_entry_message *updated_offsets;
    size_t n_updated_offsets;
    struct bitmap_entry_message *updated_offset_bitmaps; /* newer than 8.0; preferred */
    size_t n_updated_offset_bitmaps;
    struct bytes unknown;
};
struct update_map_entry_message {
    struct bytes key;
    bool has_value; /* false = delete the key */
    struct bytes value;
    struct bytes unknown;
};
struct update_map_message {
    struct update_map_entry_message *entries;
    size_t n_entries;
    bool replace;
    struct bytes unknown;
};
struct field_update_message { /* map entry: field id to update map */
    int32_t key;
    struct update_map_message *value;
    struct bytes unknown;
};
struct old_field_metadata_message {
    struct map_entry *metadata;
    size_t n_metadata;
    struct bytes unknown;
};
struct old_field_update_message { /* map entry */
    uint32_t key;
    struct old_field_metadata_message *value;
    struct bytes unknown;
};
struct update_config_message {
    struct map_entry *upsert_values; /* the old form: tags 1 to 4 */
    size_t n_upsert_values;
    struct bytes *delete_keys;
    size_t n_delete_keys;
    struct map_entry *schema_metadata;
    size_t n_schema_metadata;
    struct old_field_update_message *field_metadata;
    size_t n_field_metadata;
    struct update_map_message *config_updates;
    struct update_map_message *table_metadata_updates;
    struct update_map_message *schema_metadata_updates;
    struct field_update_message *field_metadata_updates;
    size_t n_field_metadata_updates;
    struct bytes unknown;
};
struct replacement_message {
    uint64_t fragment_id;
    struct data_file_message *new_file;
    struct bytes unknown;
};
struct data_replacement_message {
    struct replacement_message *replacements;
    size_t n_replacements;
    struct bytes unknown;
};
struct update_mem_wal_message {
    struct merged_generation_message *merged_generations;
    size_t n_merged_generations;
    struct bytes unknown;
};
struct update_bases_message {
    struct base_path_message *new_bases;
    size_t n_new_bases;
    struct bytes unknown;
};
/* The operation stays bytes: `operation[tag - OPERATION_APPEND]`; decode the one that is needed with its own table. */
#define OPERATION_COUNT 16
struct transaction_message {
    uint64_t read_version;
    struct bytes uuid;
    struct bytes tag;
    struct map_entry *properties;
    size_t n_properties;
    uint32_t which; /* OPERATION_, 0 = none */
    struct bytes operation[OPERATION_COUNT];
    struct bytes unknown;
};
extern const struct wire_message append_table, delete_table, overwrite_table, create_index_table, rewrite_table, merge_table,
    restore_table, reserve_fragments_table, update_table, project_table, update_config_table, data_replacement_table,
    update_mem_wal_table, clone_table, update_bases_table, transaction_table;
/* Table of an operation by its tag; NULL for DataOverlay and unknown ones. */
const struct wire_message *operation_table(uint32_t which);

#endif
