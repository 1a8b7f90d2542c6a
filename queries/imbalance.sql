-- The volume of all resting bids and of all resting asks, by symbol.
SELECT symbol, SUM(bid_volume) AS bid_volume, SUM(ask_volume) AS ask_volume
FROM (
  SELECT symbol, volume AS bid_volume, 0 AS ask_volume FROM bids
  UNION ALL
  SELECT symbol, 0 AS bid_volume, volume AS ask_volume FROM asks
) AS orders
GROUP BY symbol;
