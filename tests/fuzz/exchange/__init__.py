"""Random and broken bytes for every session of the exchange.

```
corpus.py ──messages of each protocol──▶ mutation.py ──broken, joined, cut anywhere──▶ floor.py: sessions in memory
                        driver.py: rounds, each of a seed     __main__.py: the command     test_fuzz.py: the tests
```
"""
