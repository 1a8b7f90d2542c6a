-- How many of the last trades there are, and the sums of their prices and of the squares: n · Σp² - (Σp)² is n² times
-- the variance of the price, exactly.
SELECT symbol, COUNT(*) AS trades, SUM(price) AS price_sum, SUM(price * price) AS square_sum FROM trades GROUP BY symbol;
