"""Broken messages to the results service's WebSocket."""
