"""The engine; what brings raw buffers to epochs is in `runtime.engine.ingest`."""

from runtime.engine.errors import EngineError
from runtime.engine.queue import TaskQueue
from runtime.engine.workers import Workers

__all__ = [
    "EngineError",
    "TaskQueue",
    "Workers",
]
