/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The options that say which rows and values a scan gives: --filter, --expr, --order-by, --aggregate, --group-by, --materialize. */
#ifndef CLI_QUERY_OPTIONS_H
#define CLI_QUERY_OPTIONS_H

#include "cli.h"

#define QUERY_ITEMS 256

/* The lists behind the options of a scan; texts point into copies that live as long as the query. */
struct query {
    pennon_expression expression_items[QUERY_ITEMS];
    pennon_expressions expressions;
    pennon_order order_items[QUERY_ITEMS];
    pennon_orders orders;
    pennon_aggregate aggregate_items[QUERY_ITEMS];
    pennon_aggregates aggregates;
    pennon_names groups;
    char *copies[4 + QUERY_ITEMS];
    size_t n_copies;
};

/* Fill `o` from the options; EXIT_USAGE after a printed message. Pair with query_options_free, on failure too. */
int query_options(const struct args *a, struct query *q, pennon_scan_options *o);
/* --expr alone, for takes. */
int query_expressions(const struct args *a, struct query *q, const pennon_expressions **out);
void query_options_free(struct query *q);

#endif
