package subscription_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/wire"
)

// TestResumeOnNewNode checks that a new node of a cluster refuses a resume, and a replay from a
// time, that needs days which it does not have yet. The client then asks another node. No row is
// reported as lost. When the days are added, the node replays them.
func TestResumeOnNewNode(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "journal")
	journaltest.Days{Folder: folder, Epoch: "e1", Closed: 3, Rows: 100}.Write(t)
	earlier := journaltest.Split(t, folder, 2)
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, Copy: true, Epoch: "e1", Days: 1000})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j, Following: true})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	day := func(n int) int64 { return journaltest.First().Add(time.Duration(n) * 24 * time.Hour).UnixNano() }
	byN := func(n uint64) subscription.Options {
		r := &wire.Resume{Epoch: "e1"}
		r.Seen[wire.Trades] = map[string]uint64{journaltest.ID().String(): n}
		return subscription.Options{Resume: r}
	}
	at := func(text string) subscription.Options {
		return subscription.Options{Resume: &wire.Resume{Epoch: "e1", Position: text}}
	}
	from := func(at int64) subscription.Options {
		return subscription.Options{Start: subscription.Start{Time: at}}
	}
	for name, c := range map[string]struct {
		o       subscription.Options
		pattern bool
		refused bool
		first   uint64 // N of the first row of the replay
	}{
		"by N, before":                    {o: byN(150), refused: true, first: 151},
		"by N, the last missing row":      {o: byN(199), refused: true, first: 200},
		"by N, the first row":             {o: byN(200), first: 201},
		"by position, before":             {o: at("e1:20"), refused: true, first: 21},
		"by position, after":              {o: at("e1:250"), first: 251},
		"by position, a pattern, before":  {o: at("e1:20"), pattern: true, refused: true, first: 21},
		"by position, a pattern, after":   {o: at("e1:200"), pattern: true, first: 201},
		"from a time, before":             {o: from(day(1)), refused: true, first: 101},
		"from a time, after":              {o: from(day(2)), first: 201},
		"from a time between two days":    {o: from(day(2) - 1), first: 201},
		"by N, with a position before it": {o: func() subscription.Options { o := byN(210); o.Resume.Position = "e1:20"; return o }(), first: 211},
	} {
		id := journaltest.ID()
		if c.pattern {
			id = streamtest.ID("*|BYMA|CI")
		}
		resume := func(what string, refused bool) {
			t.Helper()
			shard := subscription.NewShard(h, func(bool) {})
			client := streamtest.NewClient(t, shard)
			defer client.Sub.Close()
			out := client.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: id}}, c.o)
			if got := out.Fault != nil && out.Fault.Reason == wire.Overloaded && out.Fault.RetryAfter > 0; got != refused || len(out.Lost[wire.Trades]) > 0 {
				t.Errorf("%s, %s: %+v, lost %v", name, what, out.Fault, out.Lost)
			}
			if refused {
				return
			}
			var list []streamtest.Message
			for until := time.Now().Add(10 * time.Second); len(list) < int(400-c.first+1) && time.Now().Before(until); streamtest.Turn(shard) {
				list = append(list, client.Read(1<<20, false)...)
			}
			if len(list) != int(400-c.first+1) || list[0].N != c.first {
				t.Errorf("%s, %s: %d rows", name, what, len(list))
			}
		}
		resume("days are missing", c.refused)
		defer resume("all days are there", false)
	}
	for i := len(earlier) - 1; i >= 0; i-- {
		if err := journal.AddDay(j, earlier[i]); err != nil {
			t.Fatal(err)
		}
	}
}
