-- name: project_arithmetic
-- class: linear
SELECT id, price * volume AS value, price - t AS d, -volume AS m FROM bids;

-- name: project_decimals
-- class: linear
SELECT id, price * 0.5 AS half, price + tax AS gross, price * tax AS product FROM products;

-- name: division_of_integers
-- class: linear
SELECT id, price // 2 AS half, price % 2 AS rest, -price // 2 AS negative, -price % 3 AS negative_rest FROM bids;

-- name: division_of_decimals
-- class: linear
SELECT id, price // 2 AS half, price // tax AS q, -price // 3 AS negative, id // 2.0 AS r, 7 // tax AS s FROM products;

-- name: division_of_floats
-- class: linear
SELECT id, rating // 2 AS half, amount // rating AS q, rating // 0 AS n FROM sales;

-- name: sums_of_divisions_of_decimals
-- class: reevaluated
SELECT category, SUM(price // 2) AS p, MAX(tax // 0.5) AS t FROM products WHERE price // 4 > tax GROUP BY category;

-- name: division_by_columns
-- class: linear
SELECT id, quantity // store_id AS q, quantity % product_id AS r FROM sales;

-- name: division_by_zero
-- class: linear
SELECT id, 10 // area AS q, 10 % area AS r, 10 / area AS f FROM stores;

-- name: real_division
-- class: linear
SELECT id, price / volume AS x FROM bids;

-- name: case_searched
-- class: linear
SELECT id, CASE WHEN quantity > 1 THEN 'many' WHEN quantity > 0 THEN 'one' ELSE 'none' END AS size FROM sales;

-- name: case_simple
-- class: linear
SELECT id, CASE channel WHEN 'web' THEN 1 WHEN 'shop' THEN 2 END AS code FROM sales;

-- name: case_of_decimals
-- class: linear
SELECT id, CASE WHEN returned THEN 0 ELSE amount END AS net FROM sales;

-- name: coalesce
-- class: linear
SELECT id, COALESCE(quantity, 0) AS q, COALESCE(channel, 'unknown') AS c, COALESCE(customer_id, store_id, -1) AS k FROM sales;

-- name: nullif_and_abs
-- class: linear
SELECT id, NULLIF(quantity, 0) AS q, ABS(quantity) AS a FROM sales;

-- name: greatest_least
-- class: linear
SELECT id, GREATEST(price, volume) AS high, LEAST(price, volume, t) AS low FROM bids;

-- name: like_prefix
-- class: linear
SELECT id FROM sales WHERE channel LIKE 'web%';

-- name: like_inner
-- class: linear
SELECT id, channel LIKE '%e_%' AS matches FROM sales;

-- name: not_like
-- class: linear
SELECT COUNT(*) AS n FROM sales WHERE channel NOT LIKE '%shop';

-- name: like_case
-- class: reevaluated
SELECT id, name FROM customers WHERE name ILIKE 'a%';

-- name: between_integers
-- class: linear
SELECT id FROM bids WHERE price BETWEEN 2 AND 5;

-- name: not_between
-- class: linear
SELECT COUNT(*) AS n FROM sales WHERE quantity NOT BETWEEN 1 AND 3;

-- name: between_decimals
-- class: linear
SELECT id FROM sales WHERE amount BETWEEN 0.5 AND 10.75;

-- name: in_list
-- class: linear
SELECT channel, COUNT(*) AS n FROM sales WHERE channel IN ('web', 'shop') OR quantity IN (1, 2) GROUP BY channel;

-- name: null_logic_and
-- class: linear
SELECT id FROM sales WHERE returned AND quantity > 0;

-- name: null_logic_not
-- class: linear
SELECT id FROM sales WHERE NOT (returned OR quantity > 0);

-- name: null_logic_values
-- class: linear
SELECT id, returned AND quantity > 0 AS a, returned OR quantity > 0 AS o, NOT returned AS n FROM sales;

-- name: is_null
-- class: linear
SELECT COUNT(*) AS n FROM sales WHERE customer_id IS NULL OR channel IS NOT NULL;

-- name: is_true
-- class: linear
SELECT id FROM sales WHERE returned IS NOT TRUE;

-- name: is_distinct
-- class: linear
SELECT id FROM sales WHERE customer_id IS DISTINCT FROM store_id;

-- name: null_equals_nothing
-- class: linear
SELECT id FROM sales WHERE customer_id = store_id OR customer_id <> store_id;

-- name: extract_parts
-- class: linear
SELECT id, EXTRACT(YEAR FROM day) AS y, EXTRACT(MONTH FROM day) AS m, EXTRACT(DAY FROM day) AS d FROM sales;

-- name: extract_time
-- class: linear
SELECT id, EXTRACT(HOUR FROM sold_at) AS h, EXTRACT(MINUTE FROM sold_at) AS m, EXTRACT(SECOND FROM sold_at) AS s FROM sales;

-- name: where_date
-- class: linear
SELECT id, day FROM sales WHERE day >= DATE '2024-02-29';

-- name: where_timestamp
-- class: linear
SELECT COUNT(*) AS n FROM sales WHERE sold_at < TIMESTAMP '2024-02-28 01:00:00';

-- name: date_arithmetic
-- class: linear
SELECT id, since + INTERVAL 1 DAY AS next FROM customers;

-- name: date_difference
-- class: reevaluated
SELECT c.id, s.id AS sale, s.day - c.since AS days FROM customers c JOIN sales s ON s.customer_id = c.id;

-- name: date_of_timestamp
-- class: linear
SELECT CAST(sold_at AS DATE) AS day, COUNT(*) AS n FROM sales GROUP BY 1;

-- name: date_trunc
-- class: reevaluated
SELECT DATE_TRUNC('month', sold_at) AS month, SUM(quantity) AS q FROM sales GROUP BY 1;

-- name: casts
-- class: reevaluated
SELECT id, CAST(quantity AS DOUBLE) AS f, CAST(quantity AS VARCHAR) AS s, CAST(price AS DECIMAL(18,4)) AS d
FROM sales JOIN (SELECT id AS product, price FROM products) p ON product_id = product;

-- name: strings
-- class: reevaluated
SELECT id, UPPER(channel) AS u, LENGTH(channel) AS l, SUBSTRING(channel, 1, 2) AS p, channel || '!' AS x FROM sales;

-- name: float_arithmetic
-- class: reevaluated
SELECT id, rating * 2 + 1 AS x, rating > 0 AS positive, ROUND(rating) AS r FROM sales;

-- name: compare_across_kinds
-- class: linear
SELECT id FROM sales WHERE rating >= quantity AND amount > quantity;

-- name: booleans_as_values
-- class: linear
SELECT vip, COUNT(*) AS n FROM customers WHERE vip = (segment = 1) GROUP BY vip;

-- name: constants_only
-- class: linear
SELECT 1 AS one, 'x' AS x, NULL AS nothing, TRUE AS t, 0.25 AS q FROM bids;

-- name: implicit_truth
-- class: linear
SELECT id FROM customers WHERE vip;
