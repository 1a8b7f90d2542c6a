-- name: count_star
-- class: linear
SELECT COUNT(*) AS n FROM sales;

-- name: count_column
-- class: linear
SELECT COUNT(customer_id) AS n, COUNT(*) - COUNT(customer_id) AS nulls FROM sales;

-- name: sum_nothing
-- class: linear
-- mode: both
SELECT SUM(volume) AS v, SUM(price * volume) AS pv FROM bids;

-- name: sum_nullable
-- class: linear
-- mode: both
SELECT SUM(quantity) AS q FROM sales;

-- name: sum_nullable_grouped
-- class: linear
-- mode: both
SELECT channel, SUM(quantity) AS q, SUM(amount) AS a FROM sales GROUP BY channel;

-- name: sum_decimals
-- class: linear
SELECT category, SUM(price) AS p, SUM(price * tax) AS t, SUM(price + tax) AS both_ FROM products GROUP BY category;

-- name: sum_float
-- class: reevaluated
SELECT channel, SUM(rating) AS r FROM sales GROUP BY channel;

-- name: sum_filtered
-- class: linear
-- mode: both
SELECT SUM(quantity) FILTER (WHERE returned) AS back, SUM(quantity) FILTER (WHERE NOT returned) AS kept FROM sales;

-- name: sum_case
-- class: linear
SELECT store_id, SUM(CASE WHEN channel = 'web' THEN amount ELSE 0 END) AS web, COUNT(*) AS n FROM sales GROUP BY store_id;

-- name: sum_case_no_else
-- class: linear
-- mode: both
SELECT store_id, SUM(CASE WHEN channel = 'web' THEN quantity END) AS web FROM sales GROUP BY store_id;

-- name: sum_distinct
-- class: linear
SELECT broker_id, SUM(DISTINCT price) AS p FROM bids GROUP BY broker_id;

-- name: count_distinct
-- class: linear
SELECT COUNT(DISTINCT price) AS prices, COUNT(DISTINCT broker_id) AS brokers FROM bids;

-- name: count_distinct_nullable_grouped
-- class: linear
SELECT channel, COUNT(DISTINCT customer_id) AS customers, COUNT(*) AS n FROM sales GROUP BY channel;

-- name: count_distinct_strings
-- class: linear
SELECT COUNT(DISTINCT channel) AS n FROM sales;

-- name: avg_integers
-- class: linear
SELECT AVG(price) AS p, AVG(volume) AS v FROM bids;

-- name: avg_decimals_grouped
-- class: linear
SELECT channel, AVG(amount) AS a, AVG(quantity) AS q FROM sales GROUP BY channel;

-- name: avg_float
-- class: reevaluated
SELECT AVG(rating) AS r FROM sales;

-- name: min_max
-- class: ordered
SELECT MIN(price) AS low, MAX(price) AS high FROM bids;

-- name: min_max_grouped
-- class: ordered
SELECT broker_id, MIN(price) AS low, MAX(price) AS high, COUNT(*) AS n FROM bids GROUP BY broker_id;

-- name: min_max_of_every_type
-- class: ordered
SELECT MIN(day) AS d, MAX(sold_at) AS t, MIN(channel) AS c, MAX(amount) AS a, MIN(rating) AS r FROM sales;

-- name: min_of_expression
-- class: ordered
SELECT broker_id, MIN(price * volume - t) AS x FROM bids GROUP BY broker_id;

-- name: min_max_nullable_grouped
-- class: ordered
SELECT store_id, MIN(quantity) AS low, MAX(quantity) AS high FROM sales GROUP BY store_id;

-- name: spread_of_extremes
-- class: ordered
SELECT MAX(price) - MIN(price) AS spread FROM asks;

-- name: stddev
-- class: linear
SELECT STDDEV(price) AS s, VARIANCE(price) AS v FROM bids;

-- name: stddev_population
-- class: linear
SELECT broker_id, STDDEV_POP(volume) AS s, VAR_POP(volume) AS v FROM bids GROUP BY broker_id;

-- name: variance_of_nullable_decimals
-- class: linear
SELECT channel, VAR_SAMP(amount) AS v, STDDEV_SAMP(quantity) AS s FROM sales GROUP BY channel;

-- name: variance_of_floats
-- class: reevaluated
SELECT VARIANCE(rating) AS v FROM sales;

-- name: group_by_expression
-- class: linear
SELECT price // 3 AS level, SUM(volume) AS v FROM bids GROUP BY price // 3;

-- name: group_by_nullable_expression
-- class: linear
SELECT quantity % 3 AS k, COUNT(*) AS n FROM sales GROUP BY quantity % 3;

-- name: group_by_condition
-- class: linear
SELECT price > 2 AS dear, COUNT(*) AS n FROM bids GROUP BY price > 2;

-- name: group_by_case
-- class: linear
SELECT CASE WHEN quantity > 1 THEN 'many' WHEN quantity >= 0 THEN 'few' ELSE 'odd' END AS size, COUNT(*) AS n
FROM sales GROUP BY 1;

-- name: group_by_date
-- class: linear
SELECT day, COUNT(*) AS n, SUM(amount) AS a FROM sales GROUP BY day;

-- name: group_by_year_and_month
-- class: linear
SELECT EXTRACT(YEAR FROM day) AS y, EXTRACT(MONTH FROM day) AS m, SUM(amount) AS a FROM sales GROUP BY 1, 2;

-- name: group_by_bool_and_string
-- class: linear
SELECT returned, channel, COUNT(*) AS n FROM sales GROUP BY returned, channel;

-- name: group_by_float
-- class: linear
SELECT rating, COUNT(*) AS n FROM sales GROUP BY rating;

-- name: group_by_without_aggregate
-- class: linear
SELECT broker_id, price FROM bids GROUP BY broker_id, price;

-- name: having_sum
-- class: linear
SELECT broker_id FROM bids GROUP BY broker_id HAVING SUM(volume) > 100;

-- name: having_without_group
-- class: linear
SELECT SUM(volume) AS v FROM bids HAVING COUNT(*) > 2;

-- name: having_nullable_sum
-- class: linear
-- mode: both
SELECT channel FROM sales GROUP BY channel HAVING SUM(quantity) >= 0 OR COUNT(*) > 2;

-- name: having_max
-- class: ordered
SELECT broker_id, COUNT(*) AS n FROM bids GROUP BY broker_id HAVING MAX(price) >= 1500;

-- name: ratio_of_sums
-- class: linear
SELECT broker_id, SUM(price * volume) / SUM(volume) AS vwap FROM bids GROUP BY broker_id;

-- name: ratio_that_may_divide_by_zero
-- class: linear
SELECT channel, SUM(amount) / SUM(quantity) AS per FROM sales GROUP BY channel;

-- name: integer_ratio
-- class: linear
SELECT broker_id, SUM(price * volume) // SUM(volume) AS vwap, SUM(price) % COUNT(*) AS rest FROM bids GROUP BY broker_id;

-- name: aggregates_of_aggregates
-- class: ordered
SELECT MAX(v) AS most, COUNT(*) AS brokers FROM (SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id) x;

-- name: histogram_of_counts
-- class: linear
SELECT n, COUNT(*) AS times FROM (SELECT broker_id, COUNT(*) AS n FROM bids GROUP BY broker_id) x GROUP BY n;

-- name: arg_extremes
-- class: ordered
SELECT broker_id, ARG_MIN(price, id) AS first, ARG_MAX(price, id) AS last FROM (
  SELECT broker_id, id, MAX(price) AS price FROM bids GROUP BY broker_id, id) x
GROUP BY broker_id;

-- name: bool_aggregates
-- class: ordered
SELECT channel, BOOL_AND(returned) AS every, BOOL_OR(returned) AS some FROM sales GROUP BY channel;

-- name: median
-- class: ordered
SELECT MEDIAN(price) AS m FROM bids;

-- name: column_called_weight
-- class: linear
SELECT weight, COUNT(*) AS n, SUM(weight) AS w FROM visits GROUP BY weight;

-- name: mixed_kinds
-- class: ordered
SELECT broker_id, SUM(volume) AS v, MAX(price) AS p, COUNT(DISTINCT t) AS ts, AVG(volume) AS a FROM bids GROUP BY broker_id;

-- name: float_average_with_filter
-- class: reevaluated
SELECT channel, AVG(rating) FILTER (WHERE quantity > 2) AS a FROM sales GROUP BY channel;
-- name: percentiles_from_above
-- class: reevaluated
SELECT broker_id, PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY price DESC) AS d, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY price DESC) AS c FROM bids GROUP BY broker_id;
-- name: mode_least
-- class: reevaluated
SELECT broker_id, MODE(price ORDER BY price) AS m FROM bids GROUP BY broker_id;
-- name: characters
-- class: reevaluated
SELECT CHR(65 + CAST(broker_id AS INT)) AS c FROM bids;
