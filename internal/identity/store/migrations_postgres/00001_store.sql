-- +goose Up
-- Times are Unix nanoseconds, but for those of audit and usage, which are microseconds.
-- fillfactor leaves room for the new version of a row beside the old, so that no index is touched.
CREATE TABLE families (
	id           TEXT COLLATE "C" PRIMARY KEY,
	user_id      TEXT COLLATE "C" NOT NULL,
	user_version BIGINT NOT NULL,
	key_id       TEXT NOT NULL, -- names a secret of the keys
	seed         BYTEA NOT NULL,
	created_at   BIGINT NOT NULL,
	used_at      BIGINT NOT NULL,
	address      TEXT NOT NULL,
	client       TEXT NOT NULL,
	revoked_at   BIGINT,
	revoked_for  TEXT
) WITH (fillfactor = 70);

CREATE INDEX families_by_user ON families (user_id);
CREATE INDEX families_by_revocation ON families (revoked_at) WHERE revoked_at IS NOT NULL;

CREATE TABLE refresh_tokens (
	hash       BYTEA PRIMARY KEY, -- SHA-256; the token itself is nowhere
	parent     BYTEA,             -- NULL: the first of its family
	family     TEXT COLLATE "C" NOT NULL REFERENCES families (id) ON DELETE CASCADE,
	issued_at  BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	dead_at    BIGINT
) WITH (fillfactor = 80);

CREATE INDEX refresh_tokens_by_family ON refresh_tokens (family);
CREATE INDEX refresh_tokens_by_expiry ON refresh_tokens (expires_at);

-- Rows are chained by hash, and never changed.
CREATE TABLE audit (
	seq     BIGINT PRIMARY KEY,
	hash    BYTEA NOT NULL,
	at      BIGINT NOT NULL,
	kind    TEXT NOT NULL,
	actor   TEXT NOT NULL,
	user_id TEXT NOT NULL,
	family  TEXT NOT NULL,
	address TEXT NOT NULL,
	client  TEXT NOT NULL,
	detail  TEXT NOT NULL
);

-- The newest row of audit. Who appends locks it, as the last lock taken, until the commit: this is what keeps the chain
-- of an installation one, whatever the number of gateways.
CREATE TABLE audit_head (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	seq  BIGINT NOT NULL,
	hash BYTEA NOT NULL
) WITH (fillfactor = 10);
INSERT INTO audit_head (one, seq, hash) VALUES (1, 0, decode(repeat('00', 32), 'hex'));

-- Where the chain begins once old rows were deleted.
CREATE TABLE audit_start (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	seq  BIGINT NOT NULL,
	hash BYTEA NOT NULL
);

CREATE TABLE usage (
	month       TEXT NOT NULL, -- 2026-11
	user_id     TEXT COLLATE "C" NOT NULL,
	market      TEXT COLLATE "C" NOT NULL,
	level       TEXT COLLATE "C" NOT NULL,
	delay       INTEGER NOT NULL,
	days        BIGINT NOT NULL, -- bit d-1: used on day d
	connections INTEGER NOT NULL,
	first       BIGINT NOT NULL,
	last        BIGINT NOT NULL,
	PRIMARY KEY (month, user_id, market, level, delay)
);

-- The signing keys, encrypted.
CREATE TABLE keys (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	document BYTEA NOT NULL,
	version  BIGINT NOT NULL
);

-- +goose Down
DROP TABLE keys;
DROP TABLE usage;
DROP TABLE audit_start;
DROP TABLE audit_head;
DROP TABLE audit;
DROP TABLE refresh_tokens;
DROP TABLE families;
