/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From batches as callers have them to batches as files are written. */
#ifndef DATASET_BATCH_FORM_H
#define DATASET_BATCH_FORM_H

#include "schema/schema.h"

struct batch_form {
    const struct ArrowSchema *input; /* of the batches; borrowed */
    const struct schema *schema;     /* of the files, fields parallel to the input's; borrowed */
    bool has_views, has_json;
};
void batch_form_init(struct batch_form *f, const struct ArrowSchema *input, const struct schema *schema);
/* Replaces the batch by what file_writer_write takes, without a copy where nothing is to be converted. INVALID_ARGUMENT: it is not well-formed, it has null
 * rows, a text is no JSON. */
pennon_status batch_prepare(const struct call *c, const struct batch_form *f, struct ArrowArray *batch, pennon_error *err) CHECKED;

#endif
