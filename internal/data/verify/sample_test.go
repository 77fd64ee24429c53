package verify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// sample is a recording in memory, as a recorder writes it.
type sample struct {
	head  string
	lines []sampleLine
}

type sampleLine struct {
	at   int64 // receive time
	text string
}

// bytes returns the text of the file.
func (x *sample) bytes() []byte {
	b := append([]byte(x.head), '\n')
	for _, l := range x.lines {
		b = append(append(append(strconv.AppendInt(b, l.at, 10), ' '), l.text...), '\n')
	}
	return b
}

// clone returns a copy that can be changed.
func (x *sample) clone() *sample { return &sample{x.head, append([]sampleLine(nil), x.lines...)} }

// verified returns the report about a recording.
func verified(t *testing.T, text []byte) *Report {
	t.Helper()
	in, err := recording.NewReader("sample", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Recording(t.Context(), in, 0)
	if err = errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	r.Source = "sample"
	return r
}

// recorder is a sink that records the stream of a hub, as a client receives it that reads from time
// to time: there is no order between channels.
type recorder struct {
	feed.Sink
	t       *testing.T
	shard   *subscription.Shard
	sub     subscription.Subscriber
	ids     []string
	defined []market.Instrument
	sample  sample
	from    int64 // event time at which the recording begins
	speed   int64 // seconds of event time per second
	read    int64 // event time of the newest read
	begun   bool
}

// Define defines an instrument.
func (r *recorder) Define(def market.Instrument) (market.Handle, error) {
	r.defined = append(r.defined, def)
	return r.Sink.Define(def)
}

// every is how often the recorder reads, in event time.
const every = 40 * int64(time.Millisecond)

var sampleIntervals = [...]market.Interval{market.Second, market.Minute}

// Publish publishes events and reads what the hub sends.
func (r *recorder) Publish(events []market.Event) error {
	for i := range events {
		if e := &events[i]; e.Time-r.read >= every {
			r.read = e.Time
			if err := r.Sink.Publish(events[:i]); err != nil {
				return err
			}
			events = events[i:]
			r.readDue()
			return r.Publish(events)
		}
	}
	return r.Sink.Publish(events)
}

// readDue begins the recording when it is due, and reads.
func (r *recorder) readDue() {
	if r.read < r.from {
		return
	}
	if !r.begun {
		r.begun = true
		r.subscribe()
	}
	r.shard.Turn()
	for r.shard.Next() != nil {
	}
	for r.sub.Pending() {
		r.take(r.sub.Gather(nil, 1<<20, wire.JSON, false))
	}
}

// subscribe subscribes to all channels of the instruments.
func (r *recorder) subscribe() {
	r.shard.Open(&r.sub, nil)
	var items []hub.Item
	for _, s := range r.ids {
		id, err := market.ParseInstrumentID(s)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, c := range [...]wire.Channel{wire.Trades, wire.Quotes, wire.OrderBook, wire.Status, wire.Summary, wire.BarsOf(sampleIntervals[0]), wire.BarsOf(sampleIntervals[1])} {
			items = append(items, hub.Item{Channel: c, ID: id})
		}
	}
	out := r.sub.Subscribe(items, subscription.Options{})
	if len(out.Rejected) > 0 || out.Fault != nil {
		r.t.Fatalf("%+v", out)
	}
	r.add(fmt.Sprintf(`{"type":"Subscription","code":200,"msg":"Subscribed","id":1,"epoch":%q}`, out.Epoch))
	r.take(r.sub.TakeCarry(nil))
}

// take adds the messages of frames to the recording.
func (r *recorder) take(frames []byte) {
	for len(frames) > 0 {
		n, head := int(frames[1]), 2
		switch n {
		case 126:
			n, head = int(binary.BigEndian.Uint16(frames[2:])), 4
		case 127:
			n, head = int(binary.BigEndian.Uint64(frames[2:])), 10
		}
		r.add(string(frames[head : head+n]))
		frames = frames[head+n:]
	}
}

func (r *recorder) add(text string) {
	r.sample.lines = append(r.sample.lines, sampleLine{r.from + (r.read-r.from)/r.speed, text})
}

// recorded records instruments of the simulated exchange from a time of its day on.
func recorded(t *testing.T, seed uint64, from, length time.Duration, speed int64, ids ...string) *sample {
	t.Helper()
	source, err := sim.New(sim.Config{
		Seed: seed, Instruments: 5, Clock: sim.Virtual, Days: 1, Speed: -1, Start: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Duration: from + length,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(t, time.Date(2026, 11, 20, 13, 25, 0, 0, time.UTC).Add(from), speed, ids...)
	if err := source.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r.end()
}

// newRecorder returns a recorder of a new hub.
func newRecorder(t *testing.T, from time.Time, speed int64, ids ...string) *recorder {
	h := hub.New(hub.Config{Epoch: "e1"})
	return &recorder{Sink: h, t: t, shard: subscription.NewShard(h, func(bool) {}), ids: ids, from: from.UnixNano(), speed: speed}
}

// end ends the recording and returns it.
func (r *recorder) end() *sample {
	r.t.Helper()
	r.readDue()
	meta := recording.Meta{Format: "recording", Version: 1, Server: "http://127.0.0.1:1", Began: time.Unix(0, r.from).UTC(), Epoch: "e1",
		Channels: []string{"trades", "quotes", "order_book", "status", "bars", "summary"}, IDs: r.ids}
	for _, i := range sampleIntervals {
		meta.Intervals = append(meta.Intervals, i.String())
	}
	for i := range r.defined {
		if d := &r.defined[i]; slices.Contains(r.ids, d.ID.String()) {
			meta.Instruments = append(meta.Instruments, definitionRow(r.t, d))
		}
	}
	head, err := json.Marshal(meta)
	if err != nil {
		r.t.Fatal(err)
	}
	r.sample.head = string(head)
	return &r.sample
}

// definitionRow returns a definition as GET /market/instruments has it.
func definitionRow(t *testing.T, d *market.Instrument) recording.Row {
	t.Helper()
	row := map[string]any{
		"instrument": d.ID.String(), "symbol": d.ID.Symbol, "market": d.ID.Market, "term": d.ID.Term, "kind": d.Kind, "currency": d.Currency,
		"price_decimals": d.PriceDecimals, "size_decimals": d.SizeDecimals, "lot": json.Number(d.Lot.String()),
		"channels": []string{"trades", "quotes", "order_book", "status", "bars", "summary"},
	}
	var ticks [][2]json.Number
	for _, k := range d.Ticks {
		ticks = append(ticks, [2]json.Number{json.Number(k.From.String()), json.Number(k.Step.String())})
	}
	row["tick"] = ticks
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
