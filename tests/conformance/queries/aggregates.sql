-- name: count_star
SELECT COUNT(*) AS n FROM sales;

-- name: count_column
SELECT COUNT(customer_id) AS n, COUNT(*) - COUNT(customer_id) AS nulls FROM sales;

-- name: sum_nothing
-- mode: both
SELECT SUM(volume) AS v, SUM(price * volume) AS pv FROM bids;

-- name: sum_nullable
-- mode: both
SELECT SUM(quantity) AS q FROM sales;

-- name: sum_nullable_grouped
-- mode: both
SELECT channel, SUM(quantity) AS q, SUM(amount) AS a FROM sales GROUP BY channel;

-- name: sum_decimals
SELECT category, SUM(price) AS p, SUM(price * tax) AS t, SUM(price + tax) AS both_ FROM products GROUP BY category;

-- name: sum_float
SELECT channel, SUM(rating) AS r FROM sales GROUP BY channel;

-- name: sum_filtered
-- mode: both
SELECT SUM(quantity) FILTER (WHERE returned) AS back, SUM(quantity) FILTER (WHERE NOT returned) AS kept FROM sales;

-- name: sum_case
SELECT store_id, SUM(CASE WHEN channel = 'web' THEN amount ELSE 0 END) AS web, COUNT(*) AS n FROM sales GROUP BY store_id;

-- name: sum_case_no_else
-- mode: both
SELECT store_id, SUM(CASE WHEN channel = 'web' THEN quantity END) AS web FROM sales GROUP BY store_id;

-- name: sum_distinct
SELECT broker_id, SUM(DISTINCT price) AS p FROM bids GROUP BY broker_id;

-- name: count_distinct
SELECT COUNT(DISTINCT price) AS prices, COUNT(DISTINCT broker_id) AS brokers FROM bids;

-- name: count_distinct_nullable_grouped
SELECT channel, COUNT(DISTINCT customer_id) AS customers, COUNT(*) AS n FROM sales GROUP BY channel;

-- name: count_distinct_strings
SELECT COUNT(DISTINCT channel) AS n FROM sales;

-- name: avg_integers
SELECT AVG(price) AS p, AVG(volume) AS v FROM bids;

-- name: avg_decimals_grouped
SELECT channel, AVG(amount) AS a, AVG(quantity) AS q FROM sales GROUP BY channel;

-- name: avg_float
SELECT AVG(rating) AS r FROM sales;

-- name: min_max
SELECT MIN(price) AS low, MAX(price) AS high FROM bids;

-- name: min_max_grouped
SELECT broker_id, MIN(price) AS low, MAX(price) AS high, COUNT(*) AS n FROM bids GROUP BY broker_id;

-- name: min_max_of_every_type
SELECT MIN(day) AS d, MAX(sold_at) AS t, MIN(channel) AS c, MAX(amount) AS a, MIN(rating) AS r FROM sales;

-- name: min_of_expression
SELECT broker_id, MIN(price * volume - t) AS x FROM bids GROUP BY broker_id;

-- name: min_max_nullable_grouped
SELECT store_id, MIN(quantity) AS low, MAX(quantity) AS high FROM sales GROUP BY store_id;

-- name: spread_of_extremes
SELECT MAX(price) - MIN(price) AS spread FROM asks;

-- name: stddev
SELECT STDDEV(price) AS s, VARIANCE(price) AS v FROM bids;

-- name: stddev_population
SELECT broker_id, STDDEV_POP(volume) AS s, VAR_POP(volume) AS v FROM bids GROUP BY broker_id;

-- name: variance_of_nullable_decimals
SELECT channel, VAR_SAMP(amount) AS v, STDDEV_SAMP(quantity) AS s FROM sales GROUP BY channel;

-- name: variance_of_floats
SELECT VARIANCE(rating) AS v FROM sales;

-- name: group_by_expression
SELECT price // 3 AS level, SUM(volume) AS v FROM bids GROUP BY price // 3;

-- name: group_by_nullable_expression
SELECT quantity % 3 AS k, COUNT(*) AS n FROM sales GROUP BY quantity % 3;

-- name: group_by_condition
SELECT price > 2 AS dear, COUNT(*) AS n FROM bids GROUP BY price > 2;

-- name: group_by_case
SELECT CASE WHEN quantity > 1 THEN 'many' WHEN quantity >= 0 THEN 'few' ELSE 'odd' END AS size, COUNT(*) AS n
FROM sales GROUP BY 1;

-- name: group_by_date
SELECT day, COUNT(*) AS n, SUM(amount) AS a FROM sales GROUP BY day;

-- name: group_by_year_and_month
SELECT EXTRACT(YEAR FROM day) AS y, EXTRACT(MONTH FROM day) AS m, SUM(amount) AS a FROM sales GROUP BY 1, 2;

-- name: group_by_bool_and_string
SELECT returned, channel, COUNT(*) AS n FROM sales GROUP BY returned, channel;

-- name: group_by_float
SELECT rating, COUNT(*) AS n FROM sales GROUP BY rating;

-- name: group_by_without_aggregate
SELECT broker_id, price FROM bids GROUP BY broker_id, price;

-- name: having_sum
SELECT broker_id FROM bids GROUP BY broker_id HAVING SUM(volume) > 100;

-- name: having_without_group
SELECT SUM(volume) AS v FROM bids HAVING COUNT(*) > 2;

-- name: having_nullable_sum
-- mode: both
SELECT channel FROM sales GROUP BY channel HAVING SUM(quantity) >= 0 OR COUNT(*) > 2;

-- name: having_max
SELECT broker_id, COUNT(*) AS n FROM bids GROUP BY broker_id HAVING MAX(price) >= 1500;

-- name: ratio_of_sums
SELECT broker_id, SUM(price * volume) / SUM(volume) AS vwap FROM bids GROUP BY broker_id;

-- name: ratio_that_may_divide_by_zero
SELECT channel, SUM(amount) / SUM(quantity) AS per FROM sales GROUP BY channel;

-- name: integer_ratio
SELECT broker_id, SUM(price * volume) // SUM(volume) AS vwap, SUM(price) % COUNT(*) AS rest FROM bids GROUP BY broker_id;

-- name: aggregates_of_aggregates
SELECT MAX(v) AS most, COUNT(*) AS brokers FROM (SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id) x;

-- name: histogram_of_counts
SELECT n, COUNT(*) AS times FROM (SELECT broker_id, COUNT(*) AS n FROM bids GROUP BY broker_id) x GROUP BY n;

-- name: arg_extremes
SELECT broker_id, ARG_MIN(price, id) AS first, ARG_MAX(price, id) AS last FROM (
  SELECT broker_id, id, MAX(price) AS price FROM bids GROUP BY broker_id, id) x
GROUP BY broker_id;

-- name: bool_aggregates
SELECT channel, BOOL_AND(returned) AS every, BOOL_OR(returned) AS some FROM sales GROUP BY channel;

-- name: median
SELECT MEDIAN(price) AS m FROM bids;

-- name: column_called_weight
SELECT weight, COUNT(*) AS n, SUM(weight) AS w FROM visits GROUP BY weight;

-- name: mixed_kinds
SELECT broker_id, SUM(volume) AS v, MAX(price) AS p, COUNT(DISTINCT t) AS ts, AVG(volume) AS a FROM bids GROUP BY broker_id;
