-- Price spread: over the pairs of orders that are each more than a ten-thousandth of their side's volume.
INCLUDE 'finance_schema.sql';

SELECT SUM(a.price + (-1 * b.price)) AS psp
FROM bids b, asks a
WHERE (b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1))
  AND (a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1));
