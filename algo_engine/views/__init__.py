"""Views as strategies see them.

``mirror.py`` applies the frames of the change stream to the contents of the views (``contents.py``), and ``quotes.py``
keeps the best prices of each symbol for the risk gate and the marks.
"""

__all__: list[str] = []
