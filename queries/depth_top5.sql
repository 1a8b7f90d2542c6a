-- The five best price levels of each side; level 1 is the best.
WITH levels AS (
  SELECT symbol, 'B' AS side, price, -price AS distance, SUM(volume) AS volume, COUNT(*) AS orders
  FROM bids GROUP BY symbol, price
  UNION ALL
  SELECT symbol, 'S' AS side, price, price AS distance, SUM(volume) AS volume, COUNT(*) AS orders
  FROM asks GROUP BY symbol, price
)
SELECT symbol, side, ROW_NUMBER() OVER best AS level, price, volume, orders
FROM levels
WINDOW best AS (PARTITION BY symbol, side ORDER BY distance)
QUALIFY level <= 5;
