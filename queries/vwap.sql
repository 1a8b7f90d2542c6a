-- The value (price × volume) of the bids in the best quarter of the bid volume. No bid is above the best price, and in
-- SQL the SUM of no rows is NULL, so the best price itself is left out; with --mode dbtoaster the SUM is 0, and the
-- best price counts. The same is true of mst.sql.
INCLUDE 'finance_schema.sql';

SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price);
