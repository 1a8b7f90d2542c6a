-- The volume of each broker's resting bids and asks, by symbol, and the number of these orders.
SELECT symbol, broker_id, SUM(bid_volume) AS bid_volume, SUM(ask_volume) AS ask_volume, COUNT(*) AS orders
FROM (
  SELECT symbol, broker_id, volume AS bid_volume, 0 AS ask_volume FROM bids
  UNION ALL
  SELECT symbol, broker_id, 0 AS bid_volume, volume AS ask_volume FROM asks
) AS resting
GROUP BY symbol, broker_id;
