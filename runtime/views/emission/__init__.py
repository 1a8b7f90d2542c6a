"""What writes kernel source: lines, values, expressions."""

from runtime.views.emission.expressions import Emitter
from runtime.views.emission.values import Field, Value
from runtime.views.emission.writer import Writer

__all__ = ["Emitter", "Field", "Value", "Writer"]
