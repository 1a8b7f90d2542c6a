"""NASDAQ's protocols: ITCH 5.0, MoldUDP64, GLIMPSE and OUCH.

```
market ─events─▶ itch.py ──▶ stream "itch" ─┬─▶ itch.py ──▶ SoupBinTCP listeners
   │                                        └─▶ mold.py ──▶ datagrams, and lost ones on request
   ├──books of one moment──▶ glimpse.py ──▶ SoupBinTCP, then the number at which to join the feed
   └──accounts◀──▶ ouch/ ◀──▶ SoupBinTCP clients
soup.py     a SoupBinTCP port: logins, heartbeats, limits, streams (over ../readers.py); servers for listeners
listing.py  the instruments that fit the messages, and their units
```

The package imports nothing by itself: import from its modules.
"""
