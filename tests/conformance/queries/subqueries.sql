-- name: from_filtered
-- class: linear
SELECT x.broker_id, SUM(x.value) AS v FROM (SELECT broker_id, price * volume AS value FROM bids WHERE t > 1) x GROUP BY x.broker_id;

-- name: from_grouped_filtered
-- class: linear
SELECT x.broker_id, x.v FROM (SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id) x WHERE x.v > 100;

-- name: from_union
-- class: linear
SELECT side, SUM(volume) AS v FROM (
  SELECT 'B' AS side, volume FROM bids UNION ALL SELECT 'S', volume FROM asks) x GROUP BY side;

-- name: with_twice
-- class: multilinear
WITH v AS (SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id)
SELECT x.broker_id, y.broker_id AS other FROM v x JOIN v y ON x.v < y.v;

-- name: with_chain
-- class: ordered
WITH a AS (SELECT broker_id, price FROM bids WHERE volume > 1), b AS (SELECT broker_id, MAX(price) AS p FROM a GROUP BY broker_id)
SELECT COUNT(*) AS n, SUM(p) AS p FROM b;

-- name: where_scalar
-- class: ordered
SELECT id, price FROM bids WHERE price = (SELECT MAX(price) FROM bids);

-- name: where_scalar_other_relation
-- class: ordered
SELECT id FROM bids WHERE price >= (SELECT MIN(price) FROM asks);

-- name: where_scalar_sum
-- class: multilinear
-- mode: both
SELECT id FROM bids WHERE volume * 2 > (SELECT SUM(volume) FROM asks);

-- name: where_scalar_average
-- class: multilinear
SELECT id, amount FROM sales WHERE amount > (SELECT AVG(amount) FROM sales);

-- name: where_count
-- class: ordered
SELECT SUM(volume) AS v FROM bids WHERE (SELECT COUNT(*) FROM asks) > 2;

-- name: where_correlated_equal
-- class: ordered
SELECT b.id, b.price FROM bids b WHERE b.price = (SELECT MAX(x.price) FROM bids x WHERE x.broker_id = b.broker_id);

-- name: where_correlated_sum
-- class: multilinear
-- mode: both
SELECT b.id FROM bids b WHERE b.volume > (SELECT SUM(a.volume) FROM asks a WHERE a.broker_id = b.broker_id);

-- name: where_correlated_count_zero
-- class: multilinear
SELECT c.id FROM customers c WHERE (SELECT COUNT(*) FROM sales s WHERE s.customer_id = c.id) = 0;

-- name: where_correlated_below
-- class: ordered
-- mode: both
SELECT SUM(b.volume) AS v FROM bids b WHERE (SELECT SUM(x.volume) FROM bids x WHERE x.price < b.price) > 10;

-- name: where_correlated_count_above
-- class: ordered
SELECT SUM(b.volume * b.price) AS v FROM bids b WHERE (SELECT COUNT(*) FROM bids x WHERE x.price > b.price) < 3;

-- name: where_correlated_other_side
-- class: ordered
-- mode: both
SELECT b.broker_id, SUM(b.volume) AS v FROM bids b
WHERE (SELECT SUM(a.volume) FROM asks a WHERE a.price <= b.price) >= 5 GROUP BY b.broker_id;

-- name: where_correlated_by_time
-- class: ordered
-- mode: both
SELECT COUNT(*) AS n FROM bids b WHERE 0.5 * (SELECT SUM(x.volume) FROM bids x) <= (SELECT SUM(y.volume) FROM bids y WHERE y.t <= b.t);

-- name: where_thresholds_on_two_relations
-- class: ordered
-- mode: both
SELECT SUM(b.volume - a.volume) AS v FROM bids b, asks a
WHERE b.price > 0.01 * (SELECT SUM(price) FROM bids) AND a.price > 0.01 * (SELECT SUM(price) FROM asks);

-- name: where_nullable_threshold
-- class: multilinear
-- mode: both
SELECT COUNT(*) AS n FROM stores s WHERE s.area > 0.5 * (SELECT SUM(q.quantity) FROM sales q);

-- name: select_scalar
-- class: multilinear
SELECT id, (SELECT COUNT(*) FROM asks) AS asks FROM bids;

-- name: select_scalar_of_nothing
-- class: multilinear
-- mode: both
SELECT broker_id, SUM(volume) AS v, (SELECT SUM(volume) FROM asks) AS other FROM bids GROUP BY broker_id;

-- name: select_correlated
-- class: multilinear
SELECT c.id, (SELECT COUNT(*) FROM sales s WHERE s.customer_id = c.id) AS n FROM customers c;

-- name: select_correlated_sum
-- class: multilinear
-- mode: both
SELECT c.id, (SELECT SUM(s.amount) FROM sales s WHERE s.customer_id = c.id) AS amount FROM customers c;

-- name: select_correlated_unequal
-- class: reevaluated
SELECT b.id, (SELECT COUNT(*) FROM bids x WHERE x.price > b.price) AS rank FROM bids b;

-- name: select_two_scalars
-- class: multilinear
SELECT (SELECT SUM(volume) FROM bids) AS bid, (SELECT SUM(volume) FROM asks) AS ask;

-- name: nested_three_deep
-- class: ordered
SELECT id FROM bids WHERE broker_id IN (
  SELECT broker_id FROM asks WHERE price > (SELECT AVG(price) FROM asks WHERE volume > (SELECT MIN(volume) FROM bids)));

-- name: best_of_each_side
-- class: ordered
WITH bid AS (SELECT broker_id, MAX(price) AS price FROM bids GROUP BY broker_id),
     ask AS (SELECT broker_id, MIN(price) AS price FROM asks GROUP BY broker_id)
SELECT COALESCE(bid.broker_id, ask.broker_id) AS broker, bid.price AS bid, ask.price AS ask
FROM bid FULL JOIN ask ON bid.broker_id = ask.broker_id;

-- name: having_scalar
-- class: multilinear
SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id HAVING SUM(volume) > (SELECT AVG(volume) FROM asks);

-- name: lateral_total_share
-- class: multilinear
SELECT b.broker_id, SUM(b.volume) * 100 // t.v AS percent
FROM bids b CROSS JOIN (SELECT SUM(volume) AS v FROM bids) t GROUP BY b.broker_id, t.v;
