"""HTTP clients of the ports of runtime, exchange, strategies and dashboard.

```
HttpPeer ──┬─▶ BlockingPort   blocking.py   command line, `runtime.client`
peer.py    └─▶ ReactorPort    reactor.py    dashboard, algorithm engine, on Twisted's reactor
```

Both clients send the peer's token, verify its certificate, limit the size of an answer and raise the errors of `peer`.
Nothing is imported here, so that a blocking client does not load Twisted.
"""
