"""HTTP as clients of the ports of runtime, exchange, strategies and dashboard speak it.

```
HttpPeer ──┬─▶ BlockingPort   blocking.py   command line, `runtime.client`
peer.py    └─▶ ReactorPort    reactor.py    dashboard, algorithm engine, on Twisted's reactor
```

Both send the token, trust the authority, bound the answer and raise the errors of `peer`. Nothing is imported here, so
that a client that waits does not load Twisted.
"""
