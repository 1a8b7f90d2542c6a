"""Operators of a view program's graph: each node runs one generated kernel over structures that nodes share.

```
node                    plan record         state                                              module
group                   Linear              totals per key                                     totals, show
join                    Joined              indexes over maps, totals of the result            join, indexes
threshold               Selected            ordered indexes, totals of the result              threshold
select, joins, distinct,                    multimaps and counts of rows                       flow, select, flow_joins
  union, sets           operator of a Flow
bound                   operator of a Flow  rows in the order of the compared value             bound
aggregate, top          operator of a Flow  groups, values and rows in sorted order            aggregate, top
window                  operator of a Flow  rows by partition, in order                        window
recompute               Reevaluated         totals per key, the last result                    recompute (calls DuckDB)
show                                        none: totals become removed and added rows          show
```

Sums and products are integers of 128 bits, checked against ±2^126: a view fails with a reason if one of its numbers
passes that bound, and no number wraps. There is no second representation for large numbers, because 128-bit sums cost
less than the conversion between two layouts would. No text of a program becomes part of generated source.
"""
