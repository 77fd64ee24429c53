-- +goose Up
-- Limits that all gateways keep together. A bucket is one time: when it would be even. An account has its wrong
-- passwords in a row. Unlogged would forget them in a crash; to lose the last second is good enough.
CREATE TABLE limits (
	key    BYTEA PRIMARY KEY,
	even   BIGINT NOT NULL DEFAULT 0, -- of a bucket
	fails  INTEGER NOT NULL DEFAULT 0,
	last   BIGINT NOT NULL DEFAULT 0, -- of the last failure; of a bucket, of the charge since which it was never even
	before BIGINT NOT NULL DEFAULT 0  -- of the one before it, should the last be taken back
) WITH (fillfactor = 50);

-- rueda_reserve charges the account and every bucket, or none. refused is 0 for the account and n for the n-th bucket, -1
-- where the attempt may be made. The rows are locked in the order of their keys, as everywhere.
-- +goose StatementBegin
CREATE FUNCTION rueda_reserve(
	moment BIGINT, account BYTEA, free INTEGER, longest BIGINT, kept BIGINT,
	buckets BYTEA[], intervals BIGINT[], bursts BIGINT[],
	OUT refused INTEGER, OUT wait BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
	a limits%ROWTYPE;
	b limits%ROWTYPE;
	evens BIGINT[];
	since BIGINT[];
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	INSERT INTO limits (key) SELECT k FROM unnest(buckets || account) k ORDER BY k ON CONFLICT DO NOTHING;
	PERFORM 1 FROM limits WHERE key = ANY (buckets || account) ORDER BY key FOR UPDATE;

	SELECT * INTO a FROM limits WHERE key = account;
	IF moment - a.last > kept THEN
		a.fails := 0;
	END IF;
	IF a.fails >= free THEN
		wait := a.last + least(1000000000 * (1::bigint << least(a.fails - free, 30)), longest) - moment;
		IF wait > 0 THEN
			refused := 0;
			RETURN;
		END IF;
	END IF;
	FOR i IN 1 .. coalesce(array_length(buckets, 1), 0) LOOP
		SELECT * INTO b FROM limits WHERE key = buckets[i];
		evens[i] := greatest(b.even, moment) + intervals[i];
		since[i] := CASE WHEN b.even > moment THEN b.last ELSE moment END;
		wait := evens[i] - moment - bursts[i];
		IF wait > 0 THEN
			refused := i;
			RETURN;
		END IF;
	END LOOP;

	UPDATE limits SET fails = a.fails + 1, before = last, last = greatest(last, moment) WHERE key = account;
	UPDATE limits SET even = u.even, last = u.since FROM unnest(buckets, evens, since) u (key, even, since) WHERE limits.key = u.key;
	refused := -1;
	wait := 0;
END
$$;
-- +goose StatementEnd

-- rueda_settle takes back what rueda_reserve charged at moment: the buckets, and of the account this failure or, when
-- the password was right, all. A bucket that was even since then has nothing of it left to give.
-- +goose StatementBegin
CREATE FUNCTION rueda_settle(moment BIGINT, account BYTEA, succeeded BOOLEAN, buckets BYTEA[], intervals BIGINT[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	PERFORM 1 FROM limits WHERE key = ANY (buckets || account) ORDER BY key FOR UPDATE;
	IF succeeded THEN
		UPDATE limits SET fails = 0 WHERE key = account;
	ELSE
		UPDATE limits SET fails = greatest(fails - 1, 0), last = CASE WHEN last = moment THEN before ELSE last END WHERE key = account;
	END IF;
	UPDATE limits SET even = limits.even - u.interval FROM unnest(buckets, intervals) u (key, interval)
		WHERE limits.key = u.key AND limits.last <= moment;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION rueda_settle(BIGINT, BYTEA, BOOLEAN, BYTEA[], BIGINT[]);
DROP FUNCTION rueda_reserve(BIGINT, BYTEA, INTEGER, BIGINT, BIGINT, BYTEA[], BIGINT[], BIGINT[]);
DROP TABLE limits;
