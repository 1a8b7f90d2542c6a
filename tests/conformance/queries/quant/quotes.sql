-- name: best_quote
-- class: ordered
SELECT b.symbol, b.price AS bid, a.price AS ask FROM
  (SELECT symbol, MAX(price) AS price FROM bids GROUP BY symbol) b
  FULL JOIN (SELECT symbol, MIN(price) AS price FROM asks GROUP BY symbol) a ON a.symbol = b.symbol;

-- name: spread_and_mid
-- class: ordered
SELECT b.symbol, a.price - b.price AS spread, (a.price + b.price) * 0.5 AS mid FROM
  (SELECT symbol, MAX(price) AS price FROM bids GROUP BY symbol) b
  JOIN (SELECT symbol, MIN(price) AS price FROM asks GROUP BY symbol) a ON a.symbol = b.symbol;

-- name: microprice
-- class: ordered
WITH bid AS (SELECT symbol, price, SUM(volume) AS volume FROM bids GROUP BY symbol, price
             QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price DESC) = 1),
     ask AS (SELECT symbol, price, SUM(volume) AS volume FROM asks GROUP BY symbol, price
             QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price) = 1)
SELECT bid.symbol, (bid.price * ask.volume + ask.price * bid.volume) / (bid.volume + ask.volume) AS microprice
FROM bid JOIN ask ON bid.symbol = ask.symbol;

-- name: imbalance
-- class: multilinear
SELECT b.symbol, (b.volume - a.volume) / (b.volume + a.volume) AS imbalance FROM
  (SELECT symbol, SUM(volume) AS volume FROM bids GROUP BY symbol) b
  JOIN (SELECT symbol, SUM(volume) AS volume FROM asks GROUP BY symbol) a ON a.symbol = b.symbol;

-- name: imbalance_of_the_best_three
-- class: ordered
WITH bid AS (SELECT symbol, price, SUM(volume) AS volume FROM bids GROUP BY symbol, price
             QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price DESC) <= 3),
     ask AS (SELECT symbol, price, SUM(volume) AS volume FROM asks GROUP BY symbol, price
             QUALIFY ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY price) <= 3),
     b AS (SELECT symbol, SUM(volume) AS volume FROM bid GROUP BY symbol),
     a AS (SELECT symbol, SUM(volume) AS volume FROM ask GROUP BY symbol)
SELECT b.symbol, (b.volume - a.volume) / (b.volume + a.volume) AS imbalance FROM b JOIN a ON b.symbol = a.symbol;

-- name: weighted_mid
-- class: multilinear
SELECT b.symbol, (b.value / b.volume + a.value / a.volume) / 2 AS mid FROM
  (SELECT symbol, SUM(price * volume) AS value, SUM(volume) AS volume FROM bids GROUP BY symbol) b
  JOIN (SELECT symbol, SUM(price * volume) AS value, SUM(volume) AS volume FROM asks GROUP BY symbol) a
  ON a.symbol = b.symbol;

-- name: crossed_books
-- class: ordered
SELECT b.symbol, b.price AS bid, a.price AS ask FROM
  (SELECT symbol, MAX(price) AS price FROM bids GROUP BY symbol) b
  JOIN (SELECT symbol, MIN(price) AS price FROM asks GROUP BY symbol) a ON a.symbol = b.symbol
WHERE b.price >= a.price;

-- name: orders_at_the_touch
-- class: ordered
SELECT symbol, price, COUNT(*) AS orders, SUM(volume) AS volume FROM bids b
WHERE price = (SELECT MAX(x.price) FROM bids x WHERE x.symbol = b.symbol) GROUP BY symbol, price;

-- name: widest_spreads
-- class: ordered
SELECT b.symbol, a.price - b.price AS spread FROM
  (SELECT symbol, MAX(price) AS price FROM bids GROUP BY symbol) b
  JOIN (SELECT symbol, MIN(price) AS price FROM asks GROUP BY symbol) a ON a.symbol = b.symbol
ORDER BY spread DESC, b.symbol LIMIT 3;

-- name: one_sided_symbols
-- class: multilinear
SELECT DISTINCT symbol FROM bids EXCEPT SELECT DISTINCT symbol FROM asks;

-- name: effective_spread
-- class: ordered
SELECT t.symbol, t.match_id, t.t, 2 * ABS(t.price - (b.price + a.price) * 0.5) AS effective FROM trades t
JOIN (SELECT symbol, MAX(price) AS price FROM bids GROUP BY symbol) b ON b.symbol = t.symbol
JOIN (SELECT symbol, MIN(price) AS price FROM asks GROUP BY symbol) a ON a.symbol = t.symbol;

-- name: book_slope
-- class: ordered
SELECT symbol, (COUNT(*) * SUM(price * depth) - SUM(price) * SUM(depth)) /
               (COUNT(*) * SUM(price * price) - SUM(price) * SUM(price)) AS slope FROM (
  SELECT symbol, price, SUM(volume) OVER (PARTITION BY symbol ORDER BY price) AS depth FROM (
    SELECT symbol, price, SUM(volume) AS volume FROM asks GROUP BY symbol, price) levels) depth
GROUP BY symbol;
