-- The value (price × volume) of the bids in the best quarter of the bid volume. No bid has a price above the best one,
-- and in SQL the SUM of no rows is NULL, so the bids at the best price are left out; with --mode dbtoaster the SUM is 0,
-- and they count. The same is true of mst.sql.
INCLUDE 'finance_schema.sql';

SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price);
