-- The best bid and the best ask of each symbol, with the volume at each; NULL for a side without orders.
WITH bid AS (
  SELECT symbol, price, SUM(volume) AS volume
  FROM bids b
  WHERE price = (SELECT MAX(b1.price) FROM bids b1 WHERE b1.symbol = b.symbol)
  GROUP BY symbol, price
), ask AS (
  SELECT symbol, price, SUM(volume) AS volume
  FROM asks a
  WHERE price = (SELECT MIN(a1.price) FROM asks a1 WHERE a1.symbol = a.symbol)
  GROUP BY symbol, price
)
SELECT COALESCE(bid.symbol, ask.symbol) AS symbol,
       bid.price AS bid_price, bid.volume AS bid_volume, ask.price AS ask_price, ask.volume AS ask_volume
FROM bid FULL OUTER JOIN ask ON bid.symbol = ask.symbol;
