package counters

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCollect checks that counters of all shards are added, and that a shard that does not answer
// is reported with its last answer.
func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Collector
		shards := make([]Shard, 3)
		shards[0].Close("gone")
		shards[2].Close("gone")
		shards[2].Close("slow_client")
		shards[1].Bytes, shards[2].Bytes = 10, 100
		silent := -1
		ask := func(i int, reply chan<- Answer) {
			if i != silent {
				reply <- Answer{i, shards[i].Copy()}
			}
		}
		total, stale := c.Collect(3, ask)
		if total.Closed["gone"] != 2 || total.Closed["slow_client"] != 1 || total.Bytes != 110 || stale[0] || stale[1] || stale[2] {
			t.Errorf("all answer: %+v %v", total, stale)
		}
		silent, shards[2].Bytes, shards[1].Bytes = 2, 200, 20
		began := time.Now()
		total, stale = c.Collect(3, ask)
		if total.Bytes != 120 || stale[0] || stale[1] || !stale[2] {
			t.Errorf("one does not answer: %d bytes, %v", total.Bytes, stale)
		}
		if took := time.Since(began); took != Patience {
			t.Errorf("it took %v", took)
		}
		silent = -1
		if total, stale = c.Collect(3, ask); total.Bytes != 220 || stale[2] {
			t.Errorf("it answers again: %d bytes, %v", total.Bytes, stale)
		}
	})
}

// TestLateAnswer checks that a shard which answers too late does not block, and changes nothing.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Collector
		late := func(i int, reply chan<- Answer) {
			time.AfterFunc(time.Second, func() { reply <- Answer{i, Shard{Bytes: 1}} })
		}
		for range 3 {
			if total, stale := c.Collect(1, late); total.Bytes != 0 || !stale[0] {
				t.Errorf("%d bytes, %v", total.Bytes, stale)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
	})
}
