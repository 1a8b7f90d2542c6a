-- The value (price × volume) of the bids in the best quarter of the bid volume. For bids at the best price, the last
-- SUM has no rows. In SQL it is NULL, and these bids are left out; with --mode dbtoaster it is 0, and these bids count.
-- The same is true of mst.sql.
INCLUDE 'finance_schema.sql';

SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price);
