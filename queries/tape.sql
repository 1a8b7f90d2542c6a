-- The recent trades, a row for each; the newest one has the greatest match_id.
SELECT symbol, match_id, t, side, price, volume FROM trades;
