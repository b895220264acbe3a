/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The comparison kernels compiled for AVX2; reached only on machines that have it. */
#if defined(__x86_64__)
#define COMPARE_FORMS_NAME compare_forms_avx2
#include "expr/compare_kernel.h"
#endif
