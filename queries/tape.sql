-- The recent trades as they are: what a tape shows, newest match_id first.
SELECT symbol, match_id, t, side, price, volume FROM trades;
