-- name: top_5_depth
-- class: ordered
SELECT symbol, price, volume, orders FROM (
  SELECT symbol, price, SUM(volume) AS volume, COUNT(*) AS orders FROM bids GROUP BY symbol, price) levels
QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price DESC) <= 5;

-- name: top_3_depth_numbered
-- class: ordered
SELECT symbol, level, price, volume FROM (
  SELECT symbol, price, volume, ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price) AS level
  FROM (SELECT symbol, price, SUM(volume) AS volume FROM asks GROUP BY symbol, price) levels) numbered
WHERE level <= 3;

-- name: second_level
-- class: ordered
SELECT symbol, price FROM (
  SELECT symbol, price, DENSE_RANK() OVER (PARTITION BY symbol ORDER BY price DESC) AS level FROM bids) ranked
WHERE level = 2;

-- name: depth_of_both_sides
-- class: ordered
WITH levels AS (
  SELECT symbol, 'B' AS side, price, -price AS distance, SUM(volume) AS volume FROM bids GROUP BY symbol, price
  UNION ALL SELECT symbol, 'S', price, price, SUM(volume) FROM asks GROUP BY symbol, price)
SELECT symbol, side, price, volume FROM levels
QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol, side ORDER BY distance) <= 2;

-- name: cumulative_depth
-- class: ordered
SELECT symbol, price, volume, SUM(volume) OVER (PARTITION BY symbol ORDER BY price DESC) AS depth
FROM (SELECT symbol, price, SUM(volume) AS volume FROM bids GROUP BY symbol, price) levels;

-- name: volume_of_the_best_two_levels
-- class: ordered
SELECT symbol, SUM(volume) AS volume FROM (
  SELECT symbol, price, SUM(volume) AS volume FROM bids GROUP BY symbol, price
  QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price DESC) <= 2) best
GROUP BY symbol;

-- name: price_to_fill
-- class: ordered
SELECT symbol, MAX(price) AS worst FROM (
  SELECT symbol, price, volume, SUM(volume) OVER (PARTITION BY symbol ORDER BY price) - volume AS before FROM (
    SELECT symbol, price, SUM(volume) AS volume FROM asks GROUP BY symbol, price) levels) depth
WHERE before < 100 GROUP BY symbol;

-- name: gaps_between_levels
-- class: ordered
SELECT symbol, price, price - LAG(price) OVER (PARTITION BY symbol ORDER BY price) AS gap
FROM (SELECT DISTINCT symbol, price FROM asks) levels;

-- name: widest_gap
-- class: ordered
SELECT symbol, MAX(gap) AS gap FROM (
  SELECT symbol, price - LAG(price) OVER (PARTITION BY symbol ORDER BY price) AS gap
  FROM (SELECT DISTINCT symbol, price FROM bids) levels) gaps
GROUP BY symbol;

-- name: share_of_level
-- class: multilinear
SELECT symbol, price, volume / SUM(volume) OVER (PARTITION BY symbol) AS share
FROM (SELECT symbol, price, SUM(volume) AS volume FROM bids GROUP BY symbol, price) levels;

-- name: oldest_orders_of_each_level
-- class: ordered
SELECT symbol, price, id, t FROM bids
QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol, price ORDER BY t, id) <= 1;

-- name: queue_position
-- class: ordered
SELECT symbol, price, id, t, SUM(volume) OVER (PARTITION BY symbol, price ORDER BY t, id) - volume AS ahead, volume
FROM bids;

-- name: levels_within_a_distance
-- class: ordered
SELECT l.symbol, SUM(l.volume) AS volume FROM bids l
JOIN (SELECT symbol, MAX(price) AS best FROM bids GROUP BY symbol) b ON l.symbol = b.symbol
WHERE l.price >= b.best - 2 GROUP BY l.symbol;

-- name: orders_per_level_rolled_up
-- class: linear
SELECT symbol, price, COUNT(*) AS orders, SUM(volume) AS volume FROM bids GROUP BY ROLLUP (symbol, price);
