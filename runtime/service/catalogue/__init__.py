"""Views and derived streams of a running runtime: changes, and waiting for their publication.

`catalogue.Catalogue` makes one change at a time, each at an epoch of its own; `control.Control` answers the requests of
ports; readers_of_views.py finds the readers that a view needs.
"""

__all__: list[str] = []
