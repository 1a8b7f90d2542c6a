"""Independent model of the market, slow and simple, with which `exchange_server.matching` is compared.

```
inputs ──▶ ModelMarket (market.py) ──▶ the same calls of a FeedEncoder and of Tellers as the real market's
              │ entering.py  refusals, executions, stops     book.py      orders in plain lists, priority by sorting
              │ changing.py  reduce, replace, mass cancel    crossing.py  auctions
              │ recording.py played files                    said.py      writes the calls down as tuples
```

It follows docs/matching.md sentence by sentence and shares only the records with the real market. It stores nothing
that it can compute again.
"""
