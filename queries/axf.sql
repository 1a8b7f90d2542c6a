-- Axis finder: for each broker, the sum of the ask's volume less the bid's volume, over all pairs of one of the broker's
-- asks and one of its bids whose prices differ by more than 1,000.
INCLUDE 'finance_schema.sql';

SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) AS axfinder
FROM bids b, asks a
WHERE b.broker_id = a.broker_id
  AND ((a.price + ((-1) * b.price) > 1000) OR (b.price + ((-1) * a.price) > 1000))
GROUP BY b.broker_id;
