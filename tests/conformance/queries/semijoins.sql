-- name: exists_equal
-- class: multilinear
SELECT c.id, c.name FROM customers c WHERE EXISTS (SELECT 1 FROM sales s WHERE s.customer_id = c.id);

-- name: exists_equal_filtered
-- class: multilinear
SELECT c.id FROM customers c WHERE EXISTS (SELECT 1 FROM sales s WHERE s.customer_id = c.id AND s.amount > 1) AND c.vip;

-- name: exists_residual
-- class: ordered
SELECT b.id FROM bids b WHERE EXISTS (SELECT 1 FROM asks a WHERE a.broker_id = b.broker_id AND a.price > b.price);

-- name: exists_range_only
-- class: ordered
SELECT b.id, b.price FROM bids b WHERE EXISTS (SELECT 1 FROM asks a WHERE a.price < b.price);

-- name: exists_uncorrelated
-- class: multilinear
SELECT b.id FROM bids b WHERE EXISTS (SELECT 1 FROM asks a WHERE a.price > 100);

-- name: not_exists_equal
-- class: multilinear
SELECT c.id, c.name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM sales s WHERE s.customer_id = c.id);

-- name: not_exists_unequal
-- class: ordered
SELECT x.id, x.price FROM bids x WHERE NOT EXISTS (SELECT 1 FROM bids y WHERE y.price > x.price);

-- name: not_exists_aggregated
-- class: multilinear
SELECT COUNT(*) AS n, SUM(s.amount) AS v FROM sales s WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = s.customer_id);

-- name: exists_and_not_exists
-- class: multilinear
SELECT p.id FROM products p
WHERE EXISTS (SELECT 1 FROM sales s WHERE s.product_id = p.id)
  AND NOT EXISTS (SELECT 1 FROM sales s WHERE s.product_id = p.id AND s.returned);

-- name: exists_or
-- class: multilinear
SELECT c.id FROM customers c WHERE c.vip OR EXISTS (SELECT 1 FROM sales s WHERE s.customer_id = c.id);

-- name: in_select
-- class: multilinear
SELECT s.id FROM sales s WHERE s.customer_id IN (SELECT c.id FROM customers c WHERE c.vip);

-- name: in_select_null_on_the_left
-- class: multilinear
SELECT s.id, s.store_id FROM sales s WHERE s.store_id IN (SELECT st.id FROM stores st);

-- name: in_select_grouped
-- class: multilinear
SELECT c.id FROM customers c WHERE c.id IN (SELECT s.customer_id FROM sales s GROUP BY s.customer_id HAVING SUM(s.quantity) > 2);

-- name: in_select_aggregated
-- class: multilinear
SELECT channel, COUNT(*) AS n FROM sales s WHERE s.product_id IN (SELECT id FROM products WHERE colour = 'blue') GROUP BY channel;

-- name: in_select_scales
-- class: multilinear
SELECT s.id FROM sales s WHERE s.amount IN (SELECT p.price FROM products p);

-- name: in_correlated
-- class: multilinear
SELECT b.id FROM bids b WHERE b.price IN (SELECT a.price FROM asks a WHERE a.broker_id = b.broker_id);

-- name: not_in_without_nulls
-- class: multilinear
SELECT p.id FROM products p WHERE p.id NOT IN (SELECT s.product_id FROM sales s);

-- name: not_in_with_nulls
-- class: multilinear
SELECT c.id FROM customers c WHERE c.id NOT IN (SELECT s.customer_id FROM sales s);

-- name: not_in_nulls_on_both_sides
-- class: multilinear
SELECT s.id, s.store_id FROM sales s WHERE s.store_id NOT IN (SELECT v.store_id FROM visits v);

-- name: not_in_list
-- class: linear
SELECT s.id FROM sales s WHERE s.quantity NOT IN (1, 2, 10);

-- name: semi_join
-- class: multilinear
SELECT c.id FROM customers c SEMI JOIN sales s ON s.customer_id = c.id;

-- name: anti_join
-- class: multilinear
SELECT c.id FROM customers c ANTI JOIN sales s ON s.customer_id = c.id;

-- name: semi_duplicates
-- class: multilinear
SELECT v.minute, v.tag FROM visits v WHERE EXISTS (SELECT 1 FROM stores s WHERE s.id = v.store_id);

-- name: anti_two_keys
-- class: multilinear
SELECT b.id, b.broker_id FROM bids b WHERE NOT EXISTS (SELECT 1 FROM asks a WHERE a.id = b.id AND a.broker_id = b.broker_id);
