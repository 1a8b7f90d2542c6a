-- The two sums whose quotient (price_volume / volume) is the volume-weighted average price of each side of a book.
SELECT symbol, 'B' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM bids GROUP BY symbol
UNION ALL
SELECT symbol, 'S' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM asks GROUP BY symbol;
