-- name: broker_ranking
-- class: ordered
SELECT broker_id, SUM(volume) AS volume, RANK() OVER (ORDER BY SUM(volume) DESC) AS place FROM trades GROUP BY broker_id;

-- name: best_broker_of_each_symbol
-- class: ordered
SELECT symbol, broker_id, SUM(volume) AS volume FROM trades GROUP BY symbol, broker_id
QUALIFY RANK() OVER (PARTITION BY symbol ORDER BY SUM(volume) DESC) = 1;

-- name: market_share
-- class: multilinear
SELECT broker_id, SUM(volume) / SUM(SUM(volume)) OVER () AS share FROM trades GROUP BY broker_id;

-- name: concentration
-- class: linear
SELECT SUM(volume * volume) / (SUM(volume) * SUM(volume)) AS concentration
FROM (SELECT broker_id, SUM(volume) AS volume FROM trades GROUP BY broker_id) brokers;

-- name: quote_to_trade_ratio
-- class: multilinear
SELECT q.broker_id, q.orders / t.trades AS ratio FROM
  (SELECT broker_id, COUNT(*) AS orders FROM (
     SELECT broker_id FROM bids UNION ALL SELECT broker_id FROM asks) orders GROUP BY broker_id) q
  JOIN (SELECT broker_id, COUNT(*) AS trades FROM trades GROUP BY broker_id) t ON t.broker_id = q.broker_id;

-- name: brokers_on_both_sides
-- class: multilinear
SELECT DISTINCT b.broker_id FROM bids b JOIN asks a ON a.broker_id = b.broker_id AND a.symbol = b.symbol;

-- name: inventory
-- class: linear
SELECT broker_id, symbol, SUM(CASE WHEN side = 'B' THEN volume ELSE -volume END) AS position,
       SUM(CASE WHEN side = 'B' THEN -price * volume ELSE price * volume END) AS cash FROM trades GROUP BY broker_id, symbol;

-- name: brokers_at_the_touch
-- class: ordered
SELECT broker_id, COUNT(*) AS orders FROM bids b
WHERE price = (SELECT MAX(x.price) FROM bids x WHERE x.symbol = b.symbol) GROUP BY broker_id;

-- name: brokers_that_only_rest
-- class: multilinear
SELECT broker_id, COUNT(*) AS orders FROM bids b WHERE NOT EXISTS (SELECT 1 FROM trades t WHERE t.broker_id = b.broker_id) GROUP BY broker_id;

-- name: volume_by_broker_and_symbol
-- class: linear
SELECT broker_id, symbol, SUM(volume) AS volume, GROUPING_ID(broker_id, symbol) AS level FROM trades GROUP BY CUBE (broker_id, symbol);

-- name: running_volume_of_brokers
-- class: ordered
SELECT broker_id, second, SUM(volume) OVER (PARTITION BY broker_id ORDER BY second) AS volume FROM (
  SELECT broker_id, t // 1000000000 AS second, SUM(volume) AS volume FROM trades GROUP BY 1, 2) seconds;

-- name: time_between_trades
-- class: ordered
SELECT broker_id, MIN(gap) AS shortest, AVG(gap) AS mean FROM (
  SELECT broker_id, t - LAG(t) OVER (PARTITION BY broker_id ORDER BY t) AS gap FROM trades) gaps
WHERE gap IS NOT NULL GROUP BY broker_id;

-- name: largest_order_of_each_broker
-- class: ordered
SELECT broker_id, id, volume FROM bids QUALIFY RANK() OVER (PARTITION BY broker_id ORDER BY volume DESC) = 1;
