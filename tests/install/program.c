/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What a user's program may look like: it has functions of its own whose names the library uses inside. Prints the version
 * of the library; fails when the library called one of them. */
#include <pennon/runtime.h>
#include <stdio.h>

int mem_alloc(void);
int error_set(void);
static int called;

int mem_alloc(void) { return called = 1; }
int error_set(void) { return called = 1; }

int main(void)
{
    pennon_runtime *runtime = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (pennon_runtime_new(NULL, &runtime, &err) != PENNON_OK) {
        fprintf(stderr, "%s\n", err.message);
        pennon_error_clear(&err);
        return 1;
    }
    pennon_runtime_free(runtime);
    printf("%s\n", pennon_version());
    return called;
}
