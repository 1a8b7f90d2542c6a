"""Queries that need incremental operators, because neither `linear` nor `factored` supports them: a `Flow` body.

A qualified query passes through these modules, which add nodes to one graph::

    queries       the whole query and its class; SELECT, WITH, set operations, DISTINCT, ORDER BY … LIMIT
      reading     FROM and WHERE of one SELECT: sources, conditions, outer joins, and the
                  conditions that link a subquery to the query around it
      groups      GROUP BY and aggregates
      windows     window functions and QUALIFY
      subqueries  EXISTS, IN and scalar subqueries, as semijoins or as columns that are joined to the rows
    blocks        a SELECT under construction, and the interface of the builder that the other modules use
    joining       outer joins, and joins in which NULL equals NULL
    graph         nodes, each once; filters and projections sink into the base maps
"""

from runtime.compiler.flow.queries import flow_view

__all__ = ["flow_view"]
