package auth

// shards is over how many locks it is spread what every token check reads.
const shards = 64

// shardOf is the shard of an id: FNV-1a, since ids are ours and need no secret hash.
func shardOf(id string) int {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return int((h ^ h>>16) % shards)
}
