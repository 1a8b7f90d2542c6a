-- name: vwap
-- class: linear
SELECT symbol, SUM(price * volume) / SUM(volume) AS vwap FROM trades GROUP BY symbol;

-- name: session_vwap_against_last_price
-- class: ordered
SELECT v.symbol, l.price - v.value / v.volume AS distance FROM
  (SELECT symbol, SUM(price * volume) AS value, SUM(volume) AS volume FROM trades GROUP BY symbol) v
  JOIN (SELECT symbol, price FROM trades
        QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY t DESC, match_id DESC, price) = 1) l
  ON l.symbol = v.symbol;

-- name: last_price
-- class: ordered
SELECT symbol, t, match_id, price FROM trades
QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY t DESC, match_id DESC, price) = 1;

-- name: last_three_trades
-- class: ordered
SELECT symbol, t, match_id, price, volume FROM trades
QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY t DESC, match_id DESC, price, volume) <= 3;

-- name: bars_1s
-- class: ordered
SELECT symbol, t // 1000000000 AS second, MIN(t) AS begins, MAX(price) AS high, MIN(price) AS low,
       SUM(volume) AS volume, COUNT(*) AS trades FROM trades GROUP BY 1, 2;

-- name: vwap_1s
-- class: linear
SELECT symbol, t // 1000000000 AS second, SUM(price * volume) / SUM(volume) AS vwap FROM trades GROUP BY 1, 2;

-- name: order_flow_imbalance_1s
-- class: linear
SELECT symbol, t // 1000000000 AS second,
       SUM(CASE WHEN side = 'B' THEN volume WHEN side = 'S' THEN -volume ELSE 0 END) AS flow FROM trades GROUP BY 1, 2;

-- name: cumulative_flow
-- class: ordered
SELECT symbol, second, SUM(flow) OVER (PARTITION BY symbol ORDER BY second) AS flow FROM (
  SELECT symbol, t // 1000000000 AS second, SUM(CASE WHEN side = 'B' THEN volume ELSE -volume END) AS flow
  FROM trades GROUP BY 1, 2) seconds;

-- name: bought_and_sold
-- class: linear
SELECT symbol, SUM(volume) FILTER (WHERE side = 'B') AS bought, SUM(volume) FILTER (WHERE side = 'S') AS sold,
       COUNT(*) FILTER (WHERE side IS NULL) AS unknown FROM trades GROUP BY symbol;

-- name: returns_between_seconds
-- class: ordered
SELECT symbol, second, price / LAG(price) OVER (PARTITION BY symbol ORDER BY second) - 1 AS change FROM (
  SELECT symbol, t // 1000000000 AS second, MAX(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: rolling_volatility
-- class: ordered
SELECT symbol, second, STDDEV(price) OVER (PARTITION BY symbol ORDER BY second ROWS 4 PRECEDING) AS volatility FROM (
  SELECT symbol, t // 1000000000 AS second, MAX(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: realised_variance
-- class: ordered
SELECT symbol, SUM(step * step) AS variance FROM (
  SELECT symbol, price - LAG(price) OVER (PARTITION BY symbol ORDER BY t, match_id, price) AS step FROM trades) steps
GROUP BY symbol;

-- name: rolling_high_and_low
-- class: ordered
SELECT symbol, second, MAX(price) OVER (PARTITION BY symbol ORDER BY second ROWS 2 PRECEDING) AS high,
       MIN(price) OVER (PARTITION BY symbol ORDER BY second ROWS 2 PRECEDING) AS low FROM (
  SELECT symbol, t // 1000000000 AS second, MAX(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: moving_averages
-- class: ordered
SELECT symbol, second, AVG(price) OVER (PARTITION BY symbol ORDER BY second ROWS 1 PRECEDING) AS fast,
       AVG(price) OVER (PARTITION BY symbol ORDER BY second ROWS 4 PRECEDING) AS slow FROM (
  SELECT symbol, t // 1000000000 AS second, MAX(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: median_trade_size
-- class: ordered
SELECT symbol, MEDIAN(volume) AS size FROM trades GROUP BY symbol;

-- name: percentiles_of_trade_size
-- class: ordered
SELECT symbol, QUANTILE_DISC(volume, 0.9) AS p90, QUANTILE_CONT(volume, 0.25) AS p25 FROM trades GROUP BY symbol;

-- name: large_trades
-- class: multilinear
SELECT symbol, match_id, t, volume FROM trades t
WHERE volume > 2 * (SELECT AVG(x.volume) FROM trades x WHERE x.symbol = t.symbol);

-- name: largest_trades
-- class: ordered
SELECT symbol, match_id, t, volume FROM trades QUALIFY RANK() OVER (PARTITION BY symbol ORDER BY volume DESC) <= 2;

-- name: trades_per_minute
-- class: linear
SELECT symbol, t // 60000000000 AS minute, COUNT(*) AS trades, SUM(volume) AS volume FROM trades GROUP BY 1, 2;

-- name: tick_rule
-- class: ordered
SELECT symbol, match_id, t, price, CASE WHEN price > before THEN 1 WHEN price < before THEN -1 ELSE 0 END AS tick FROM (
  SELECT symbol, match_id, t, price, LAG(price) OVER (PARTITION BY symbol ORDER BY t, match_id, price) AS before FROM trades) x;

-- name: price_against_open
-- class: ordered
SELECT symbol, match_id, t, price, price - FIRST_VALUE(price) OVER (PARTITION BY symbol ORDER BY t, match_id, price) AS move
FROM trades;

-- name: price_against_close
-- class: ordered
SELECT symbol, second, price - LAST_VALUE(price) OVER (PARTITION BY symbol ORDER BY second
  ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS below FROM (
  SELECT symbol, t // 1000000000 AS second, MAX(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: next_price
-- class: ordered
SELECT symbol, second, price, LEAD(price) OVER (PARTITION BY symbol ORDER BY second) AS after FROM (
  SELECT symbol, t // 1000000000 AS second, MAX(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: distinct_prices
-- class: linear
SELECT symbol, COUNT(DISTINCT price) AS prices, COUNT(DISTINCT broker_id) AS brokers FROM trades GROUP BY symbol;

-- name: volume_by_price
-- class: multilinear
SELECT symbol, price, SUM(volume) AS volume, SUM(volume) / SUM(SUM(volume)) OVER (PARTITION BY symbol) AS share
FROM trades GROUP BY symbol, price;

-- name: point_of_control
-- class: ordered
SELECT symbol, price, SUM(volume) AS volume FROM trades GROUP BY symbol, price
QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY SUM(volume) DESC, price) = 1;

-- name: drawdown
-- class: ordered
SELECT symbol, second, MAX(price) OVER (PARTITION BY symbol ORDER BY second) - price AS drawdown FROM (
  SELECT symbol, t // 1000000000 AS second, MIN(price) AS price FROM trades GROUP BY 1, 2) seconds;

-- name: kyle_lambda
-- class: ordered
SELECT symbol, SUM(step * flow) / SUM(flow * flow) AS slope FROM (
  SELECT symbol, flow, price - LAG(price) OVER (PARTITION BY symbol ORDER BY second) AS step FROM (
    SELECT symbol, t // 1000000000 AS second, MAX(price) AS price,
           SUM(CASE WHEN side = 'B' THEN volume ELSE -volume END) AS flow
    FROM trades GROUP BY 1, 2) seconds) steps
WHERE step IS NOT NULL GROUP BY symbol;
