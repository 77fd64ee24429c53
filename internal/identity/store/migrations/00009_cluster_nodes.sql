-- +goose Up
-- The nodes of a cluster that may show rows to clients. registrations counts those of a node.
CREATE TABLE cluster_nodes (
	cluster       TEXT NOT NULL,
	node          TEXT NOT NULL,
	registrations INTEGER NOT NULL,
	active        INTEGER NOT NULL,
	PRIMARY KEY (cluster, node)
) STRICT;

-- +goose Down
DROP TABLE cluster_nodes;
