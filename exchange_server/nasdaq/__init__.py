"""NASDAQ's protocols: ITCH 5.0, MoldUDP64, GLIMPSE and OUCH.

```
market ──says──▶ itch/ encoder ──▶ stream "itch" ─┬─▶ itch/ server ──▶ SoupBinTCP listeners
   │                                              └─▶ mold/ ──▶ datagrams, and again what was lost
   ├──books of one moment──▶ glimpse/ ──▶ SoupBinTCP, then the number at which to join the feed
   └──accounts◀──▶ ouch/ ◀──▶ SoupBinTCP clients
soup.py       a SoupBinTCP port: logins, heartbeats, limits, streams (over ../readers.py, ../audience.py, ../tail.py)
listening.py  such a port whose clients only listen
framing.py    messages out of packets, for datagrams and files
listing.py    which instruments fit the messages, and in which units
```

Imports nothing by itself: take what you need from the packages in it.
"""
