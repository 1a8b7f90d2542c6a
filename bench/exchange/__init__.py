"""The benchmark of the exchange: its book in process, beside peers; the exchange over TCP; memory.

```
flow.py  one stream of requests for all books ──▶ book.py   our book, in this process
                                              └──▶ peers.py  an environment of their own ──▶ peers_process.py
crowd.py  bytes of OUCH sessions  ──▶ tcp.py: an exchange process ◀── load_process.py: sends, listens, counts
                                      memory.py: what a live order and a long day cost
benchmark.py  all of it
```
"""
