"""Views and derived streams of a running runtime: added, dropped, and waited for until they are published.

`catalogue.Catalogue` makes one change at a time, each at an epoch of its own; `control.Control` answers the requests of
ports; readers_of_views.py says which readers a view needs.
"""

__all__: list[str] = []
