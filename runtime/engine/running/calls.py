"""Making the calls of a pipeline, on the worker that took them, without any lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.engine.errors import BarrierError, EngineError
from runtime.engine.listeners import (
    PipelineStarted,
    PipelineStopped,
    TaskCompleted,
    TaskEmitted,
    TaskStarted,
)
from runtime.engine.running.context import DRAIN, END, INPUTS, START, STOP, Call, RunningContext
from runtime.engine.workers import current_worker

if TYPE_CHECKING:
    from runtime.engine.running.node import RunningNode

__all__ = ["discard", "perform", "said", "start", "stop"]


def said(error: Exception) -> str:
    """What a query's failure says of its cause."""
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"


def _context(node: RunningNode, call: Call) -> RunningContext:
    try:
        context = node.contexts.pop()
    except IndexError:
        context = RunningContext(node)
    context.begin(call, current_worker())
    return context


def perform(node: RunningNode, call: Call) -> None:
    """A call of `execute`, `end_of_input` or `start_drain`; whatever it raises fails the query."""
    query = node.query
    context = _context(node, call)
    is_reported = query.publisher.has_statistics and call.kind == INPUTS
    started_s = 0.0
    if is_reported:
        started_s = query.now_s()
        query.publisher.event(
            TaskStarted(query.query_id, started_s, node.name, context.worker, len(call.entries), call.size)
        )
    try:
        if call.kind == INPUTS:
            node.pipeline.execute([entry[1] for entry in call.entries], context)
        elif call.kind == END:
            node.pipeline.end_of_input(call.port, context)
        else:
            assert call.barrier is not None
            node.pipeline.start_drain(call.barrier, context)
            if node.is_one_of_cut_points and context.begun is None:
                raise BarrierError("expected a cut point that is one of several to begin barriers in start_drain")
    except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
        query.node_failed(node.name, error)
        query.admission.leave([entry[3] for entry in call.entries if entry[3] is not None])
        call.barrier = None
        node.settle(call)
        return
    items, size = len(context.emitted), sum([size for _, _, size in context.emitted]) if is_reported else 0
    again, later = context.deliver(call.entries)
    if context.begun is not None or (node.is_cut_point and call.kind == DRAIN):
        call.barrier = context.begun
    barrier = call.barrier
    if barrier is not None:
        for edge in node.edges:
            edge.node.pass_barrier(edge, barrier)
    context.end()
    node.contexts.append(context)
    if is_reported:
        now_s = query.now_s()
        if items:
            query.publisher.event(TaskEmitted(query.query_id, now_s, node.name, items, size))
        inputs = len(call.entries) - len(again) - len(later)
        query.publisher.event(
            TaskCompleted(query.query_id, now_s, node.name, context.worker, inputs, call.size, now_s - started_s)
        )
    node.settle(call, again, later)
    if barrier is not None:
        query.barrier_passed(node, barrier)


def start(node: RunningNode) -> bool:
    """A call of `start`; False if the query ended before."""
    call = Call(node, START)
    if not node.enter(call):
        node.query.expired(node.name, 0)
        return False
    context = RunningContext(node)
    context.begin(call, current_worker())
    try:
        node.pipeline.start(context)
        context.end()
        node.set_started(is_started=True)
    finally:
        node.settle(call)
    node.query.publisher.event(PipelineStarted(node.query.query_id, node.query.now_s(), node.name))
    return True


def stop(node: RunningNode) -> bool:
    """A call of `stop`, after which the node ends; False if it was disposed of before."""
    call = Call(node, STOP)
    if not node.enter(call):
        node.query.expired(node.name, 0)
        return False
    if node.is_started:
        node.set_started(is_started=False)
        context = _context(node, call)
        try:
            node.pipeline.stop(context)
        except Exception as error:  # noqa: BLE001 (whatever user code raises belongs to its query)
            node.query.node_failed(node.name, error)
        else:
            context.deliver(())
        node.query.publisher.event(PipelineStopped(node.query.query_id, node.query.now_s(), node.name))
    node.end()
    return True


def discard(node: RunningNode) -> None:
    """A call of `discard`; what it raises is logged, since the query has its cause already."""
    try:
        node.pipeline.discard()
    except Exception as error:  # noqa: BLE001 (whatever user code raises must not keep the query from ending)
        node.query.publisher.broke(node.query.query_id, f"discarding node {node.name}", said(error))
    node.query.publisher.event(PipelineStopped(node.query.query_id, node.query.now_s(), node.name))
