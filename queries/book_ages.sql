-- The number of orders at each price level, and the sum of their times of arrival: arrived / orders is the mean time.
SELECT symbol, 'B' AS side, price, SUM(t) AS arrived, COUNT(*) AS orders FROM bids GROUP BY symbol, price
UNION ALL
SELECT symbol, 'S' AS side, price, SUM(t) AS arrived, COUNT(*) AS orders FROM asks GROUP BY symbol, price;
