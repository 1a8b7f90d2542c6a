"""Steps of a graph in one call: one step for a whole batch, or one for each row; a step runs the kernels in order.

This is the kernel side of `runtime.views.composed`. There are two tables: the *sequence* has the kernels, and the
*events* have rows of relations in the order in which they are processed. Every batch begins with its numbers, the first
of which is its number of rows (`native.structures.Batch`).
"""

from __future__ import annotations

from typing import Any

from runtime.native.plain import array, call, jit, table, window

SEQUENCE, KERNELS, TABLES, ACTIVE, FIRST_INPUT, INPUTS = 0, 1, 2, 3, 4, 5
"""Places of a sequence: its numbers; for each node its kernel, its table, whether it may run, and where its batches
begin in `INPUTS`; the batches. A node is due if one of its batches has rows, or if it has no batches.
"""
NODE, NODES, STATUS = 0, 1, 2
"""Numbers of a sequence: the node at which to resume, the number of nodes, and the status with which that node
stopped.
"""

EVENTS, GRAPH, RELATIONS, SOURCES, WINDOWS, COLUMNS, ORDER, NEXT, BATCHES, WATCHED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Places of events: their numbers; the sequence; for each relation the batch that nodes read, the batch with all of its
rows, and where its columns begin in `COLUMNS`: the columns that nodes read (place, words of a row); the relation of
each event; the next row of each relation; the batches that a step fills, and for each one a `WATCH`."""
EVENT, LAST, ROWS, PAUSES, FILLED = 0, 1, 2, 3, 4
"""Numbers of events: the event at which to resume, number of events, rows of views so far, whether every event ends
its call, and the number of batches that a step fills.
"""
INNER, UNWATCHED, WATCH = 0, 1, 2
"""Kinds of batches that a step fills: a batch between nodes, a batch of a view, a batch of a view for whose rows the
loop stops.
"""
DONE, STOPPED, PAUSED = 0, 1, 2
"""Status of `run_events`: all events are done; a node has stopped, see `STATUS`; a watched view has changed."""


@jit
def is_due(q: Any, node: int) -> Any:
    """Return whether a node must run."""
    if array(q, ACTIVE)[node] == 0:
        return False
    first, last, inputs = array(q, FIRST_INPUT)[node], array(q, FIRST_INPUT)[node + 1], table(q, INPUTS)
    for place in range(first, last):
        if array(table(inputs, place), 0)[0] != 0:
            return True
    return first == last


@jit
def run_nodes(q: Any) -> int:
    """Run the nodes of a sequence from its cursor on; return 1 if one has stopped with a status, 0 if all have run."""
    s, kernels, tables = array(q, SEQUENCE), array(q, KERNELS), array(q, TABLES)
    node = s[NODE]
    while node < s[NODES]:
        if is_due(q, node):
            status = call(kernels[node], tables[node])
            if status != 0:
                s[NODE], s[STATUS] = node, status
                return 1
        node += 1
    s[NODE] = 0
    return 0


@jit
def open_window(p: Any, relation: int) -> None:
    """Make the next row of a relation the only row of its batch."""
    batch, source = table(table(p, RELATIONS), relation), table(table(p, SOURCES), relation)
    row, columns, windows = array(p, NEXT)[relation], array(p, COLUMNS), array(p, WINDOWS)
    for place in range(windows[relation], windows[relation + 1]):
        window(batch, columns[2 * place], source, row * columns[2 * place + 1])
    array(batch, 0)[0] = 1


@jit
def results(p: Any) -> int:
    """Count the changed rows of views; return 1 if some are watched, else empty all batches and return 0."""
    s, batches, watched = array(p, EVENTS), table(p, BATCHES), array(p, WATCHED)
    rows, is_watched = 0, 0
    for place in range(s[FILLED]):
        count = array(table(batches, place), 0)[0]
        if count != 0 and watched[place] != INNER:
            rows += count
            if watched[place] == WATCH:
                is_watched = 1
    s[ROWS] += rows
    if is_watched == 0 and s[PAUSES] == 0:
        for place in range(s[FILLED]):
            array(table(batches, place), 0)[0] = 0
    return is_watched


@jit
def run_events(p: Any) -> int:
    """Process the rows from the cursor on, one step for each row; return the status."""
    s, order, nodes = array(p, EVENTS), array(p, ORDER), table(p, GRAPH)
    while s[EVENT] < s[LAST]:
        event = s[EVENT]
        relation = order[event]
        if relation >= 0:
            open_window(p, relation)
            if run_nodes(nodes) != 0:
                return STOPPED
            array(p, NEXT)[relation] += 1
            if results(p) != 0 or s[PAUSES] != 0:
                s[EVENT] = event + 1
                return PAUSED
            array(table(table(p, RELATIONS), relation), 0)[0] = 0
        s[EVENT] = event + 1
    return DONE
