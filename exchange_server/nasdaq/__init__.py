"""NASDAQ's protocols: ITCH 5.0, MoldUDP64, GLIMPSE and OUCH.

```
market ──says──▶ itch.py ──▶ stream "itch" ─┬─▶ itch.py ──▶ SoupBinTCP listeners
   │                                        └─▶ mold.py ──▶ datagrams, and again what was lost
   ├──books of one moment──▶ glimpse.py ──▶ SoupBinTCP, then the number at which to join the feed
   └──accounts◀──▶ ouch/ ◀──▶ SoupBinTCP clients
soup.py     a SoupBinTCP port: logins, heartbeats, limits, streams (over ../readers.py), also one that only listens
listing.py  which instruments fit the messages, and in which units
```

The package imports nothing by itself: import from its modules.
"""
