-- The volume and the number of orders at each price level.
SELECT symbol, 'B' AS side, price, SUM(volume) AS volume, COUNT(*) AS orders FROM bids GROUP BY symbol, price
UNION ALL
SELECT symbol, 'S' AS side, price, SUM(volume) AS volume, COUNT(*) AS orders FROM asks GROUP BY symbol, price;
