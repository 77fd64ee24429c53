package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

func marketFamilies() []family {
	const group = "Market data"
	perFeed := func(get func(f *Feed) float64) func(*Snapshot, time.Time, *emitter) {
		return func(s *Snapshot, _ time.Time, e *emitter) {
			for i := range s.Feeds {
				e.value(get(&s.Feeds[i]), s.Feeds[i].Name)
			}
		}
	}
	ofJournal := func(get func(j *Journal) float64) func(*Snapshot, time.Time, *emitter) {
		return func(s *Snapshot, _ time.Time, e *emitter) {
			if s.Journal != nil {
				e.value(get(s.Journal))
			}
		}
	}
	feed := []string{"feed"}
	return []family{
		{group, "rueda_feed_up", gauge, feed, "1 if the feed has published events and has not failed since. 0 also if all its markets are down because their producers have disconnected.", "The log has the cause (`feed failed`, `producer disconnected`). The gateway starts a failed feed again by itself.",
			perFeed(func(f *Feed) float64 { return is(f.Up) })},
		{group, "rueda_feed_events_total", counter, feed, "Events that the feed has published.", "",
			perFeed(func(f *Feed) float64 { return float64(f.Events) })},
		{group, "rueda_feed_refused_total", counter, feed, "Calls of the feed with invalid events or definitions.", "The log has the first error (`feed published rejected events`).",
			perFeed(func(f *Feed) float64 { return float64(f.Refused) })},
		{group, "rueda_feed_suspect_total", counter, []string{"feed", "kind"}, "Times that the feed looked wrong: a trade far from the one before (`price_jump`), an event time in the future (`future_time`), a source sequence that went back (`sequence_back`), no events while a market trades (`stall`).", "The log has one case a minute (`feed looks wrong`). See [checks of a feed](feeds.md#checks-of-a-feed).",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for i := range s.Feeds {
					for _, kind := range slices.Sorted(maps.Keys(s.Feeds[i].Suspect)) {
						e.value(float64(s.Feeds[i].Suspect[kind]), s.Feeds[i].Name, kind)
					}
				}
			}},
		{group, "rueda_feed_failures_total", counter, feed, "Runs of the feed that have failed.", "See `rueda_feed_up`.",
			perFeed(func(f *Feed) float64 { return float64(f.Failures) })},
		{group, "rueda_feed_newest_timestamp_seconds", gauge, feed, "Time of the newest event of the feed by this machine's clock.", "During open hours an old time means that the source is silent.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, f := range s.Feeds {
					if !f.Newest.IsZero() {
						e.value(seconds(f.Newest), f.Name)
					}
				}
			}},
		{group, "rueda_instruments", gauge, nil, "Listed instruments.", "",
			one(func(s *Snapshot) int { return s.Market.Instruments })},
		{group, "rueda_topics", gauge, nil, "Topics with subscribers: an identifier of a channel with a depth, conflation and delay.", "",
			one(func(s *Snapshot) int { return s.Market.Topics })},
		{group, "rueda_position", gauge, nil, "Position of the newest row of the log.", "",
			one(func(s *Snapshot) uint64 { return s.Market.Position })},
		{group, "rueda_committed_position", gauge, nil, "Position of the newest row that clients receive.", "Far below `rueda_position` for long: the disk of the journal stalls.",
			one(func(s *Snapshot) uint64 { return s.Market.Committed })},
		{group, "rueda_commit_seconds", durations, nil, "Time of a write of rows to the journal. Clients receive the rows after it.", "Above 10 ms: the disk of the journal is slow or shared.",
			all(func(s *Snapshot) *histogram.Histogram { return &s.Market.Commits })},
		{group, "rueda_hub_lock_longest_wait_seconds", gauge, nil, "Longest time that a feed or shard has waited for the lock of the market data, in the last one to two minutes.", "Above 20 ms: the machine has too few processors. Report it if it has not.",
			one(func(s *Snapshot) float64 { return s.Market.LongestWait.Seconds() })},
		{group, "rueda_journal_suspended", gauge, nil, "1 while the journal loses rows because its disk is full or fails. The stream continues.", "Free disk space; the gateway retries by itself.",
			ofJournal(func(j *Journal) float64 { return is(j.Suspended) })},
		{group, "rueda_journal_days", gauge, nil, "Days in the journal.", "",
			ofJournal(func(j *Journal) float64 { return float64(j.Days) })},
		{group, "rueda_journal_bytes", gauge, nil, "Size of the journal on disk.", "`journal.days` and `journal.bytes` limit it.",
			ofJournal(func(j *Journal) float64 { return float64(j.Bytes) })},
		{group, "rueda_journal_rows", gauge, nil, "Rows in the journal.", "",
			ofJournal(func(j *Journal) float64 { return float64(j.Rows) })},
	}
}
