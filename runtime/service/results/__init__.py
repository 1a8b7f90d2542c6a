"""Results of views at their newest version, and their rows in pages.

```
lanes ─changes▶ hub.py (full result of each view) ─▶ subscriptions/ (changes) and http/, postgres/ (rows)
                 materialised.py: rows for clients            cursors.py: one version, page by page
                 full_results.py: a version of all views on Spark in one segment, from which a restart resumes
```
"""

__all__: list[str] = []
