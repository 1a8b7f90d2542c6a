-- Number of orders at every price level, and the sum of the times at which they came: on average, a level's orders came
-- at arrived / orders.
SELECT symbol, 'B' AS side, price, SUM(t) AS arrived, COUNT(*) AS orders FROM bids GROUP BY symbol, price
UNION ALL
SELECT symbol, 'S' AS side, price, SUM(t) AS arrived, COUNT(*) AS orders FROM asks GROUP BY symbol, price;
