package auth

// shards is the number of locks of the tables that every token check reads.
const shards = 64

// shardOf returns the shard of an id, by FNV-1a. Clients do not choose ids, so the hash needs no
// secret.
func shardOf(id string) int {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return int((h ^ h>>16) % shards)
}
