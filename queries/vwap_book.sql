-- The two sums of the volume-weighted average price (price_volume / volume) of each side of a book.
SELECT symbol, 'B' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM bids GROUP BY symbol
UNION ALL
SELECT symbol, 'S' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM asks GROUP BY symbol;
