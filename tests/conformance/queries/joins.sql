-- name: inner_pairs
-- class: multilinear
SELECT s.id, c.name FROM sales s JOIN customers c ON s.customer_id = c.id;

-- name: inner_sum_by_other_side
-- class: multilinear
SELECT c.city, SUM(s.amount) AS amount, COUNT(*) AS n FROM sales s JOIN customers c ON s.customer_id = c.id GROUP BY c.city;

-- name: inner_product_of_both_sides
-- class: multilinear
SELECT p.category, SUM(s.quantity * p.price) AS value FROM sales s JOIN products p ON s.product_id = p.id GROUP BY p.category;

-- name: inner_total_without_group
-- class: multilinear
-- mode: both
SELECT SUM(s.quantity * p.price) AS value, COUNT(*) AS n FROM sales s JOIN products p ON s.product_id = p.id;

-- name: inner_two_keys
-- class: multilinear
SELECT b.id, a.price FROM bids b JOIN asks a ON b.broker_id = a.broker_id AND b.id = a.id;

-- name: inner_on_string
-- class: multilinear
SELECT c.name, s.id FROM customers c JOIN stores s ON c.city = s.city WHERE c.city <> '';

-- name: inner_residual
-- class: multilinear
SELECT b.id AS bid, a.id AS ask FROM bids b JOIN asks a ON b.broker_id = a.broker_id AND a.price <= b.price;

-- name: inner_residual_of_three_columns
-- class: multilinear
SELECT b.id AS bid, a.id AS ask FROM bids b JOIN asks a ON b.broker_id = a.broker_id AND a.price + a.volume > b.price;

-- name: inner_on_expressions
-- class: multilinear
SELECT b.broker_id, COUNT(*) AS n FROM bids b JOIN asks a ON b.price % 3 = a.price % 3 GROUP BY b.broker_id;

-- name: inner_scales_differ
-- class: multilinear
SELECT p.id, s.id AS sale FROM products p JOIN sales s ON p.price = s.amount;

-- name: inner_scale_against_integer
-- class: multilinear
SELECT p.id, t.id AS store FROM products p JOIN stores t ON p.tax = t.area;

-- name: using_one_column
-- class: multilinear
SELECT id, b.price AS bid, a.price AS ask FROM bids b JOIN asks a USING (id);

-- name: three_way_chain
-- class: multilinear
SELECT c.city, p.category, SUM(s.quantity) AS quantity
FROM sales s JOIN customers c ON s.customer_id = c.id JOIN products p ON s.product_id = p.id
GROUP BY c.city, p.category;

-- name: three_way_sum_of_products
-- class: multilinear
SELECT st.city, SUM(s.quantity * p.price * st.area) AS weighted
FROM sales s JOIN products p ON s.product_id = p.id JOIN stores st ON s.store_id = st.id
GROUP BY st.city;

-- name: three_way_with_filters
-- class: multilinear
SELECT COUNT(*) AS n
FROM sales s, customers c, products p
WHERE s.customer_id = c.id AND s.product_id = p.id AND c.vip AND p.colour = 'red' AND s.quantity > 0;

-- name: four_way_star
-- class: multilinear
SELECT c.segment, st.city, SUM(s.quantity * p.price) AS value, COUNT(*) AS n
FROM sales s
JOIN customers c ON s.customer_id = c.id
JOIN products p ON s.product_id = p.id
JOIN stores st ON s.store_id = st.id
GROUP BY c.segment, st.city;

-- name: four_way_total
-- class: multilinear
SELECT COUNT(*) AS n
FROM sales s
JOIN customers c ON s.customer_id = c.id
JOIN products p ON s.product_id = p.id
JOIN stores st ON s.store_id = st.id;

-- name: triangle
-- class: multilinear
SELECT COUNT(*) AS n
FROM sales s JOIN stores t ON s.store_id = t.id JOIN customers c ON c.city = t.city AND c.id = s.customer_id;

-- name: left_plain
-- class: multilinear
SELECT s.id, c.name FROM sales s LEFT JOIN customers c ON s.customer_id = c.id;

-- name: left_counts_absent
-- class: multilinear
SELECT c.id, COUNT(s.id) AS n, SUM(s.amount) AS amount
FROM customers c LEFT JOIN sales s ON s.customer_id = c.id GROUP BY c.id;

-- name: left_residual
-- class: multilinear
SELECT c.id, s.id AS sale FROM customers c LEFT JOIN sales s ON s.customer_id = c.id AND s.amount > 1;

-- name: left_residual_on_left_side
-- class: multilinear
SELECT c.id, s.id AS sale FROM customers c LEFT JOIN sales s ON s.customer_id = c.id AND c.vip;

-- name: left_where_null
-- class: multilinear
SELECT c.id, c.name FROM customers c LEFT JOIN sales s ON s.customer_id = c.id WHERE s.id IS NULL;

-- name: left_chain
-- class: multilinear
SELECT s.id, c.city, st.city AS store_city
FROM sales s LEFT JOIN customers c ON s.customer_id = c.id LEFT JOIN stores st ON c.city = st.city;

-- name: left_by_range
-- class: multilinear
SELECT b.id, a.id AS ask FROM bids b LEFT JOIN asks a ON a.price < b.price;

-- name: right_plain
-- class: multilinear
SELECT s.id, st.city FROM sales s RIGHT JOIN stores st ON s.store_id = st.id;

-- name: right_grouped
-- class: multilinear
SELECT st.city, SUM(s.quantity) AS quantity FROM sales s RIGHT JOIN stores st ON s.store_id = st.id GROUP BY st.city;

-- name: full_plain
-- class: multilinear
SELECT b.id, b.price AS bid, a.id AS ask_id, a.price AS ask FROM bids b FULL JOIN asks a ON b.id = a.id;

-- name: full_coalesced_keys
-- class: multilinear
SELECT COALESCE(b.broker_id, a.broker_id) AS broker, b.volume AS bid, a.volume AS ask
FROM (SELECT broker_id, SUM(volume) AS volume FROM bids GROUP BY broker_id) b
FULL JOIN (SELECT broker_id, SUM(volume) AS volume FROM asks GROUP BY broker_id) a ON a.broker_id = b.broker_id;

-- name: full_residual
-- class: multilinear
SELECT b.id, a.id AS ask_id FROM bids b FULL JOIN asks a ON b.broker_id = a.broker_id AND a.price > b.price;

-- name: self_pairs
-- class: multilinear
SELECT x.id, y.id AS other FROM bids x JOIN bids y ON x.broker_id = y.broker_id AND x.id < y.id;

-- name: self_sums
-- class: multilinear
SELECT x.broker_id, SUM(x.volume * y.volume) AS product, COUNT(*) AS n
FROM bids x, bids y WHERE x.broker_id = y.broker_id GROUP BY x.broker_id;

-- name: self_different_filters
-- class: multilinear
SELECT COUNT(*) AS n FROM sales x JOIN sales y ON x.customer_id = y.customer_id WHERE x.channel = 'web' AND y.channel = 'shop';

-- name: self_three
-- class: multilinear
SELECT COUNT(*) AS n, SUM(x.volume * y.volume * z.volume) AS v
FROM bids x, bids y, bids z WHERE x.broker_id = y.broker_id AND y.broker_id = z.broker_id;

-- name: cross_all
-- class: multilinear
SELECT COUNT(*) AS n, SUM(b.volume * a.volume) AS v FROM bids b CROSS JOIN asks a;

-- name: cross_condition_on_sums
-- class: ordered
SELECT COUNT(*) AS n FROM bids b, asks a WHERE b.price + a.price > 1500;

-- name: cross_unequal
-- class: multilinear
SELECT b.id, a.id AS other FROM bids b, asks a WHERE b.broker_id <> a.broker_id AND b.volume > a.volume;

-- name: cross_either
-- class: multilinear
SELECT SUM(a.volume) AS v FROM bids b, asks a WHERE b.price = a.price OR b.broker_id = a.broker_id;

-- name: range_below
-- class: ordered
SELECT SUM(b.volume) AS v, COUNT(*) AS n FROM bids b, asks a WHERE b.price >= a.price;

-- name: range_by_key
-- class: ordered
SELECT b.broker_id, SUM(b.volume - a.volume) AS v FROM bids b, asks a
WHERE b.broker_id = a.broker_id AND a.price < b.price GROUP BY b.broker_id;

-- name: range_band
-- class: ordered
SELECT b.broker_id, COUNT(*) AS n, SUM(a.volume) AS v FROM bids b, asks a
WHERE b.broker_id = a.broker_id AND a.t BETWEEN b.t - 2 AND b.t + 2 GROUP BY b.broker_id;

-- name: range_between_columns
-- class: multilinear
SELECT COUNT(*) AS n, SUM(a.price) AS p FROM bids b, asks a WHERE a.price > b.t AND a.price <= b.price;

-- name: range_crossed_bounds
-- class: multilinear
SELECT COUNT(*) AS n FROM bids b, asks a WHERE a.price > b.price AND a.price < b.volume;

-- name: range_or
-- class: ordered
SELECT b.broker_id, SUM(a.volume) AS v FROM bids b, asks a
WHERE b.broker_id = a.broker_id AND (a.price < b.price - 1 OR a.price > b.price + 1) GROUP BY b.broker_id;

-- name: range_or_overlapping
-- class: ordered
SELECT COUNT(*) AS n FROM bids b, asks a WHERE a.price < b.price + 2 OR a.price > b.price - 2;

-- name: range_of_nothing
-- class: multilinear
SELECT COUNT(*) AS n, SUM(a.volume) AS v FROM bids b, asks a WHERE a.price > b.price AND a.price < b.price;

-- name: range_of_nothing_between_integers
-- class: multilinear
SELECT b.broker_id, COUNT(*) AS n FROM bids b, asks a
WHERE b.broker_id = a.broker_id AND NOT (2 * a.price <= 2 * b.price OR a.price >= b.price + 1) GROUP BY b.broker_id;

-- name: range_halves
-- class: ordered
SELECT COUNT(*) AS n FROM bids b, asks a WHERE a.price < b.price * 0.5;

-- name: range_dates
-- class: multilinear
SELECT c.id, COUNT(*) AS n FROM customers c JOIN sales s ON s.day > c.since GROUP BY c.id;

-- name: range_nullable
-- class: ordered
SELECT COUNT(*) AS n, SUM(st.area) AS area FROM sales s JOIN stores st ON s.quantity < st.area;

-- name: range_two_keys
-- class: multilinear
SELECT COUNT(*) AS n FROM bids b, asks a WHERE a.price < b.price AND a.t < b.t;

-- name: range_three_relations
-- class: ordered
SELECT COUNT(*) AS n, SUM(b.volume) AS v FROM bids b, asks a, visits v
WHERE b.broker_id = a.broker_id AND v.store_id = a.broker_id AND b.price > a.price;

-- name: duplicates_multiply
-- class: multilinear
SELECT v.tag, COUNT(*) AS n, SUM(v.weight) AS w FROM visits v JOIN stores s ON v.store_id = s.id GROUP BY v.tag;

-- name: duplicates_as_rows
-- class: multilinear
SELECT v.minute, v.weight, s.city FROM visits v JOIN stores s ON v.store_id = s.id;

-- name: aggregates_in_from
-- class: multilinear
SELECT x.broker_id, x.v, y.n FROM (SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id) x
JOIN (SELECT broker_id, COUNT(*) AS n FROM asks GROUP BY broker_id) y ON x.broker_id = y.broker_id;

-- name: join_then_having
-- class: multilinear
SELECT c.city, COUNT(*) AS n FROM sales s JOIN customers c ON s.customer_id = c.id GROUP BY c.city HAVING COUNT(*) > 1;

-- name: join_average
-- class: reevaluated
SELECT c.city, AVG(s.quantity) AS q, AVG(s.rating) AS r FROM sales s JOIN customers c ON s.customer_id = c.id GROUP BY c.city;

-- name: join_group_by_expression
-- class: multilinear
SELECT s.quantity // 2 AS half, COUNT(*) AS n FROM sales s JOIN products p ON s.product_id = p.id GROUP BY s.quantity // 2;

-- name: join_null_key_group
-- class: multilinear
SELECT s.channel, c.segment, COUNT(*) AS n FROM sales s JOIN customers c ON s.customer_id = c.id GROUP BY s.channel, c.segment;
