-- The volume of each broker's resting orders at each price.
SELECT symbol, broker_id, 'B' AS side, price, SUM(volume) AS volume FROM bids GROUP BY symbol, broker_id, price
UNION ALL
SELECT symbol, broker_id, 'S' AS side, price, SUM(volume) AS volume FROM asks GROUP BY symbol, broker_id, price;
