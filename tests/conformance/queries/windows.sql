-- name: tumbling
-- class: linear
SELECT t // 3 AS bucket, SUM(volume) AS v, COUNT(*) AS n FROM bids GROUP BY t // 3;

-- name: tumbling_extremes
-- class: ordered
SELECT minute // 5 AS bucket, tag, MIN(minute) AS first, MAX(minute) AS last, COUNT(*) AS n FROM visits GROUP BY minute // 5, tag;

-- name: tumbling_join
-- class: multilinear
SELECT b.t // 2 AS bucket, SUM(b.volume * a.volume) AS v FROM bids b JOIN asks a ON b.t // 2 = a.t // 2 GROUP BY b.t // 2;

-- name: tumbling_by_timestamp
-- class: linear
SELECT DATE_TRUNC('day', sold_at) AS day, SUM(amount) AS a, COUNT(*) AS n FROM sales GROUP BY 1;

-- name: sliding
-- class: multilinear
SELECT w.start, SUM(b.volume) AS v, COUNT(*) AS n
FROM bids b JOIN (SELECT DISTINCT t - t % 2 AS start FROM bids) w ON b.t >= w.start AND b.t < w.start + 4
GROUP BY w.start;

-- name: sliding_two_hops
-- class: linear
SELECT start, SUM(volume) AS v FROM (
  SELECT t // 2 * 2 AS start, volume FROM bids UNION ALL SELECT t // 2 * 2 - 2, volume FROM bids) x GROUP BY start;

-- name: sliding_self_join
-- class: multilinear
SELECT x.id, x.t, COUNT(*) AS n, SUM(y.volume) AS v FROM bids x JOIN bids y ON y.t > x.t - 3 AND y.t <= x.t GROUP BY x.id, x.t;

-- name: session
-- class: ordered
SELECT broker, session, MIN(t) AS first, MAX(t) AS last, COUNT(*) AS n FROM (
  SELECT broker, t, SUM(starts) OVER (PARTITION BY broker ORDER BY t) AS session FROM (
    SELECT broker, t, CASE WHEN t - LAG(t) OVER (PARTITION BY broker ORDER BY t) <= 2 THEN 0 ELSE 1 END AS starts
    FROM (SELECT DISTINCT broker_id AS broker, t FROM bids) a) b) c
GROUP BY broker, session;

-- name: row_number
-- class: ordered
SELECT broker, price, ROW_NUMBER() OVER (PARTITION BY broker ORDER BY price DESC) AS place
FROM (SELECT DISTINCT broker_id AS broker, price FROM bids) x;

-- name: best_two_of_each
-- class: ordered
SELECT broker, price FROM (
  SELECT broker, price, ROW_NUMBER() OVER (PARTITION BY broker ORDER BY price DESC) AS place
  FROM (SELECT DISTINCT broker_id AS broker, price FROM bids) x) y
WHERE place <= 2;

-- name: qualify_best
-- class: ordered
SELECT DISTINCT broker_id, price FROM bids QUALIFY RANK() OVER (PARTITION BY broker_id ORDER BY price DESC) = 1;

-- name: lag
-- class: ordered
SELECT t, price, price - LAG(price) OVER (ORDER BY t, price) AS step FROM (SELECT DISTINCT t, price FROM bids) x;

-- name: running_sum
-- class: ordered
SELECT t, SUM(v) OVER (ORDER BY t) AS running FROM (SELECT t, SUM(volume) AS v FROM bids GROUP BY t) x;

-- name: sum_over_partition
-- class: multilinear
SELECT id, volume, SUM(volume) OVER (PARTITION BY broker_id) AS total FROM bids;

-- name: rank_and_dense_rank
-- class: ordered
SELECT id, price, RANK() OVER (ORDER BY price) AS r, DENSE_RANK() OVER (ORDER BY price) AS d FROM bids;

-- name: moving_average
-- class: ordered
SELECT t, AVG(v) OVER (ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m
FROM (SELECT t, SUM(volume) AS v FROM bids GROUP BY t) x;

-- name: share_of_partition
-- class: multilinear
SELECT broker_id, id, volume / SUM(volume) OVER (PARTITION BY broker_id) AS share FROM bids;
-- name: lag_ignore_nulls
-- class: reevaluated
SELECT id, quantity, LAG(quantity IGNORE NULLS) OVER (PARTITION BY store_id ORDER BY id, quantity) AS l FROM sales;
-- name: lead_ignore_nulls
-- class: reevaluated
SELECT id, amount, LEAD(amount, 2 IGNORE NULLS) OVER (ORDER BY id, amount) AS l FROM sales;
-- name: first_and_last_ignore_nulls
-- class: reevaluated
SELECT id, quantity, FIRST_VALUE(quantity IGNORE NULLS) OVER (PARTITION BY store_id ORDER BY id, quantity) AS f, LAST_VALUE(quantity IGNORE NULLS) OVER (PARTITION BY store_id ORDER BY id, quantity) AS l FROM sales;
-- name: first_respect_nulls
-- class: ordered
SELECT id, quantity, FIRST_VALUE(quantity RESPECT NULLS) OVER (PARTITION BY store_id ORDER BY id, quantity) AS f FROM sales;
