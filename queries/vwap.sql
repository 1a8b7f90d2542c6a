-- Value of the bids in the best quarter of the bid volume. SUM of nothing is NULL in SQL, which leaves out the best
-- price, above which there is nothing; with --mode dbtoaster it is 0, and the best price counts. So it is with mst.sql.
INCLUDE 'finance_schema.sql';

SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price);
