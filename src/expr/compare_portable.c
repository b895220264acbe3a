/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The comparison kernels for the instruction set that every machine of the architecture has. */
#define COMPARE_FORMS_NAME compare_forms_portable
#include "expr/compare_kernel.h"
