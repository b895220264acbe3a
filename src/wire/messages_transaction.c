/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tables of the messages of transactions: the envelope and every operation.
 * Source: spec commits 1.2, 1.3. */
#include "wire/messages.h"

#define F WIRE_FIELD

static const struct wire_field append_fields[] = {WIRE_SUBS(struct append_message, 1, fragments, &fragment_table)};
WIRE_TABLE(append_table, struct append_message, "Append", append_fields);

static const struct wire_field overwrite_fields[] = {
    WIRE_SUBS(struct overwrite_message, 1, fragments, &fragment_table),
    WIRE_SUBS(struct overwrite_message, 2, schema, &field_table),
    WIRE_SUBS(struct overwrite_message, 3, schema_metadata, &map_entry_table),
    WIRE_SUBS(struct overwrite_message, 4, config_upsert_values, &map_entry_table),
    WIRE_SUBS(struct overwrite_message, 5, initial_bases, &base_path_table),
};
WIRE_TABLE(overwrite_table, struct overwrite_message, "Overwrite", overwrite_fields);

static const struct wire_field delete_fields[] = {
    WIRE_SUBS(struct delete_message, 1, updated_fragments, &fragment_table),
    WIRE_LIST(struct delete_message, 2, WIRE_U64, deleted_fragment_ids),
    F(struct delete_message, 3, WIRE_BYTES, predicate),
};
WIRE_TABLE(delete_table, struct delete_message, "Delete", delete_fields);

static const struct wire_field create_index_fields[] = {
    WIRE_SUBS(struct create_index_message, 1, new_indices, &index_metadata_table),
    WIRE_SUBS(struct create_index_message, 2, removed_indices, &index_metadata_table),
};
WIRE_TABLE(create_index_table, struct create_index_message, "CreateIndex", create_index_fields);

static const struct wire_field rewrite_group_fields[] = {
    WIRE_SUBS(struct rewrite_group_message, 1, old_fragments, &fragment_table),
    WIRE_SUBS(struct rewrite_group_message, 2, new_fragments, &fragment_table),
};
static WIRE_TABLE(rewrite_group_table, struct rewrite_group_message, "RewriteGroup", rewrite_group_fields);

static const struct wire_field rewritten_index_fields[] = {
    WIRE_SUB(struct rewritten_index_message, 1, old_id, &uuid_table),
    WIRE_SUB(struct rewritten_index_message, 2, new_id, &uuid_table),
    WIRE_SUB(struct rewritten_index_message, 3, new_index_details, &any_table),
    F(struct rewritten_index_message, 4, WIRE_U32, new_index_version),
    WIRE_SUBS(struct rewritten_index_message, 5, new_index_files, &index_file_table),
};
static WIRE_TABLE(rewritten_index_table, struct rewritten_index_message, "RewrittenIndex", rewritten_index_fields);

static const struct wire_field rewrite_fields[] = {
    WIRE_SUBS(struct rewrite_message, 1, old_fragments, &fragment_table),
    WIRE_SUBS(struct rewrite_message, 2, new_fragments, &fragment_table),
    WIRE_SUBS(struct rewrite_message, 3, groups, &rewrite_group_table),
    WIRE_SUBS(struct rewrite_message, 4, rewritten_indices, &rewritten_index_table),
};
WIRE_TABLE(rewrite_table, struct rewrite_message, "Rewrite", rewrite_fields);

static const struct wire_field merge_fields[] = {
    WIRE_SUBS(struct merge_message, 1, fragments, &fragment_table),
    WIRE_SUBS(struct merge_message, 2, schema, &field_table),
    WIRE_SUBS(struct merge_message, 3, schema_metadata, &map_entry_table),
    F(struct merge_message, 4, WIRE_BOOL, preserves_nullability),
};
WIRE_TABLE(merge_table, struct merge_message, "Merge", merge_fields);

static const struct wire_field project_fields[] = {
    WIRE_SUBS(struct project_message, 1, schema, &field_table),
    F(struct project_message, 2, WIRE_BOOL, preserves_nullability),
};
WIRE_TABLE(project_table, struct project_message, "Project", project_fields);

static const struct wire_field restore_fields[] = {
    F(struct restore_message, 1, WIRE_U64, version),
};
WIRE_TABLE(restore_table, struct restore_message, "Restore", restore_fields);

static const struct wire_field reserve_fragments_fields[] = {
    F(struct reserve_fragments_message, 1, WIRE_U32, num_fragments),
};
WIRE_TABLE(reserve_fragments_table, struct reserve_fragments_message, "ReserveFragments", reserve_fragments_fields);

static const struct wire_field clone_fields[] = {
    F(struct clone_message, 1, WIRE_BOOL, is_shallow),          WIRE_OPT(struct clone_message, 2, WIRE_BYTES, ref_name),
    F(struct clone_message, 3, WIRE_U64, ref_version),          F(struct clone_message, 4, WIRE_BYTES, ref_path),
    WIRE_OPT(struct clone_message, 5, WIRE_BYTES, branch_name),
};
WIRE_TABLE(clone_table, struct clone_message, "Clone", clone_fields);

static const struct wire_field merged_generation_fields[] = {
    WIRE_SUB(struct merged_generation_message, 1, shard_id, &uuid_table),
    F(struct merged_generation_message, 2, WIRE_U64, generation),
};
static WIRE_TABLE(merged_generation_table, struct merged_generation_message, "MergedGeneration", merged_generation_fields);

static const struct wire_field mem_wal_details_fields[] = {
    WIRE_SUBS(struct mem_wal_details_message, 9, merged_generations, &merged_generation_table),
};
WIRE_TABLE(mem_wal_details_table, struct mem_wal_details_message, "MemWalIndexDetails", mem_wal_details_fields);

static const struct wire_field reuse_digest_fields[] = {
    F(struct reuse_digest_message, 1, WIRE_U64, id),
    F(struct reuse_digest_message, 2, WIRE_U64, physical_rows),
    F(struct reuse_digest_message, 3, WIRE_U64, num_deleted_rows),
};
static WIRE_TABLE(reuse_digest_table, struct reuse_digest_message, "FragmentDigest", reuse_digest_fields);

static const struct wire_field reuse_group_fields[] = {
    F(struct reuse_group_message, 1, WIRE_BYTES, changed_row_addrs),
    WIRE_SUBS(struct reuse_group_message, 2, old_fragments, &reuse_digest_table),
    WIRE_SUBS(struct reuse_group_message, 3, new_fragments, &reuse_digest_table),
};
static WIRE_TABLE(reuse_group_table, struct reuse_group_message, "FragmentReuseIndexDetails.Group", reuse_group_fields);

static const struct wire_field reuse_version_fields[] = {
    F(struct reuse_version_message, 1, WIRE_U64, dataset_version),
    WIRE_SUBS(struct reuse_version_message, 3, groups, &reuse_group_table),
};
static WIRE_TABLE(reuse_version_table, struct reuse_version_message, "FragmentReuseIndexDetails.Version", reuse_version_fields);

static const struct wire_field reuse_content_fields[] = {
    WIRE_SUBS(struct reuse_content_message, 1, versions, &reuse_version_table),
};
WIRE_TABLE(reuse_content_table, struct reuse_content_message, "FragmentReuseIndexDetails.InlineContent", reuse_content_fields);

static const struct wire_field reuse_details_fields[] = {
    WIRE_ONE_SUB(struct reuse_details_message, 1, content, which, &reuse_content_table),
    WIRE_ONE_SUB(struct reuse_details_message, 2, external, which, &external_file_table),
};
WIRE_TABLE(reuse_details_table, struct reuse_details_message, "FragmentReuseIndexDetails", reuse_details_fields);

static const struct wire_field exact_filter_fields[] = {
    WIRE_LIST(struct exact_filter_message, 1, WIRE_U64, key_hashes),
};
static WIRE_TABLE(exact_filter_table, struct exact_filter_message, "ExactKeySetFilter", exact_filter_fields);

static const struct wire_field bloom_filter_fields[] = {
    F(struct bloom_filter_message, 1, WIRE_BYTES, bitmap),
    F(struct bloom_filter_message, 2, WIRE_U32, num_bits),
    F(struct bloom_filter_message, 3, WIRE_U64, number_of_items),
    F(struct bloom_filter_message, 4, WIRE_DOUBLE, probability),
};
static WIRE_TABLE(bloom_filter_table, struct bloom_filter_message, "BloomFilter", bloom_filter_fields);

static const struct wire_field key_filter_fields[] = {
    WIRE_LIST(struct key_filter_message, 1, WIRE_I32, field_ids),
    WIRE_ONE_SUB(struct key_filter_message, 2, exact, which, &exact_filter_table),
    WIRE_ONE_SUB(struct key_filter_message, 3, bloom, which, &bloom_filter_table),
};
static WIRE_TABLE(key_filter_table, struct key_filter_message, "KeyExistenceFilter", key_filter_fields);

static const struct wire_field u32_list_fields[] = {
    WIRE_LIST(struct u32_list_message, 1, WIRE_U32, values),
};
static WIRE_TABLE(u32_list_table, struct u32_list_message, "UInt32List", u32_list_fields);

static const struct wire_field offsets_entry_fields[] = {
    F(struct offsets_entry_message, 1, WIRE_U64, key),
    WIRE_SUB(struct offsets_entry_message, 2, value, &u32_list_table),
};
static WIRE_TABLE(offsets_entry_table, struct offsets_entry_message, "map entry of offsets", offsets_entry_fields);

static const struct wire_field bitmap_entry_fields[] = {
    F(struct bitmap_entry_message, 1, WIRE_U64, key),
    F(struct bitmap_entry_message, 2, WIRE_BYTES, value),
};
static WIRE_TABLE(bitmap_entry_table, struct bitmap_entry_message, "map entry of bitmaps", bitmap_entry_fields);

static const struct wire_field update_fields[] = {
    WIRE_LIST(struct update_message, 1, WIRE_U64, removed_fragment_ids),
    WIRE_SUBS(struct update_message, 2, updated_fragments, &fragment_table),
    WIRE_SUBS(struct update_message, 3, new_fragments, &fragment_table),
    WIRE_LIST(struct update_message, 4, WIRE_U32, fields_modified),
    WIRE_SUBS(struct update_message, 5, merged_generations, &merged_generation_table),
    WIRE_LIST(struct update_message, 6, WIRE_U32, fields_preserving),
    F(struct update_message, 7, WIRE_U32, update_mode),
    WIRE_SUB(struct update_message, 8, inserted_rows, &key_filter_table),
    WIRE_SUBS(struct update_message, 9, updated_offsets, &offsets_entry_table),
    WIRE_SUBS(struct update_message, 10, updated_offset_bitmaps, &bitmap_entry_table),
};
WIRE_TABLE(update_table, struct update_message, "Update", update_fields);

static const struct wire_field update_map_entry_fields[] = {
    F(struct update_map_entry_message, 1, WIRE_BYTES, key),
    WIRE_OPT(struct update_map_entry_message, 2, WIRE_BYTES, value),
};
static WIRE_TABLE(update_map_entry_table, struct update_map_entry_message, "UpdateMapEntry", update_map_entry_fields);

static const struct wire_field update_map_fields[] = {
    WIRE_SUBS(struct update_map_message, 1, entries, &update_map_entry_table),
    F(struct update_map_message, 2, WIRE_BOOL, replace),
};
static WIRE_TABLE(update_map_table, struct update_map_message, "UpdateMap", update_map_fields);

static const struct wire_field field_update_fields[] = {
    F(struct field_update_message, 1, WIRE_I32, key),
    WIRE_SUB(struct field_update_message, 2, value, &update_map_table),
};
static WIRE_TABLE(field_update_table, struct field_update_message, "map entry of field updates", field_update_fields);

static const struct wire_field old_field_metadata_fields[] = {
    WIRE_SUBS(struct old_field_metadata_message, 5, metadata, &map_entry_table),
};
static WIRE_TABLE(old_field_metadata_table, struct old_field_metadata_message, "FieldMetadataUpdate", old_field_metadata_fields);

static const struct wire_field old_field_update_fields[] = {
    F(struct old_field_update_message, 1, WIRE_U32, key),
    WIRE_SUB(struct old_field_update_message, 2, value, &old_field_metadata_table),
};
static WIRE_TABLE(old_field_update_table, struct old_field_update_message, "map entry of field metadata", old_field_update_fields);

static const struct wire_field update_config_fields[] = {
    WIRE_SUBS(struct update_config_message, 1, upsert_values, &map_entry_table),
    WIRE_LIST(struct update_config_message, 2, WIRE_BYTES, delete_keys),
    WIRE_SUBS(struct update_config_message, 3, schema_metadata, &map_entry_table),
    WIRE_SUBS(struct update_config_message, 4, field_metadata, &old_field_update_table),
    WIRE_SUB(struct update_config_message, 6, config_updates, &update_map_table),
    WIRE_SUB(struct update_config_message, 7, table_metadata_updates, &update_map_table),
    WIRE_SUB(struct update_config_message, 8, schema_metadata_updates, &update_map_table),
    WIRE_SUBS(struct update_config_message, 9, field_metadata_updates, &field_update_table),
};
WIRE_TABLE(update_config_table, struct update_config_message, "UpdateConfig", update_config_fields);

static const struct wire_field replacement_fields[] = {
    F(struct replacement_message, 1, WIRE_U64, fragment_id),
    WIRE_SUB(struct replacement_message, 2, new_file, &data_file_table),
};
static WIRE_TABLE(replacement_table, struct replacement_message, "DataReplacementGroup", replacement_fields);

static const struct wire_field data_replacement_fields[] = {
    WIRE_SUBS(struct data_replacement_message, 1, replacements, &replacement_table),
};
WIRE_TABLE(data_replacement_table, struct data_replacement_message, "DataReplacement", data_replacement_fields);

static const struct wire_field update_mem_wal_fields[] = {
    WIRE_SUBS(struct update_mem_wal_message, 1, merged_generations, &merged_generation_table),
};
WIRE_TABLE(update_mem_wal_table, struct update_mem_wal_message, "UpdateMemWalState", update_mem_wal_fields);

static const struct wire_field update_bases_fields[] = {
    WIRE_SUBS(struct update_bases_message, 1, new_bases, &base_path_table),
};
WIRE_TABLE(update_bases_table, struct update_bases_message, "UpdateBases", update_bases_fields);

#define OPERATION(tag)                                                                                         \
    {                                                                                                          \
        (tag), WIRE_BYTES, WIRE_ONEOF,                                                                         \
            offsetof(struct transaction_message, operation) + ((tag)-OPERATION_APPEND) * sizeof(struct bytes), \
            offsetof(struct transaction_message, which), NULL, "operation"                                     \
    }
static const struct wire_field transaction_fields[] = {
    F(struct transaction_message, 1, WIRE_U64, read_version),
    F(struct transaction_message, 2, WIRE_BYTES, uuid),
    F(struct transaction_message, 3, WIRE_BYTES, tag),
    WIRE_SUBS(struct transaction_message, 4, properties, &map_entry_table),
    OPERATION(100),
    OPERATION(101),
    OPERATION(102),
    OPERATION(103),
    OPERATION(104),
    OPERATION(105),
    OPERATION(106),
    OPERATION(107),
    OPERATION(108),
    OPERATION(109),
    OPERATION(110),
    OPERATION(111),
    OPERATION(112),
    OPERATION(113),
    OPERATION(114),
    OPERATION(115),
};
WIRE_TABLE(transaction_table, struct transaction_message, "Transaction", transaction_fields);

const struct wire_message *operation_table(uint32_t which)
{
    static const struct wire_message *const TABLES[] = {
        &append_table,        &delete_table,           &overwrite_table,         &create_index_table, &rewrite_table,
        &merge_table,         &restore_table,          &reserve_fragments_table, &update_table,       &project_table,
        &update_config_table, &data_replacement_table, &update_mem_wal_table,    &clone_table,        &update_bases_table,
    };
    return which >= OPERATION_APPEND && which - OPERATION_APPEND < ARRAY_LEN(TABLES) ? TABLES[which - OPERATION_APPEND] : NULL;
}
