"""SQL scripts: their streams as origins of an ingest, and their run to the end of the input.

options.py reads the options of `CREATE STREAM`; origins.py makes sources and adaptors from them; run.py runs a script
through engine, epochs and Spark, and yields the results of its views.
"""

__all__: list[str] = []
