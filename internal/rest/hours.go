package rest

import (
	"log/slog"
	"sync"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// time is GET /market/time.
func (h *Handler) time(*request) (result, error) {
	b := wire.AppendTime([]byte(`{"time":"`), time.Now().UnixNano())
	return result{object: append(b, `"}`...)}, nil
}

// marketStatus is GET /market/status: the phase of each market and, below it, the
// instruments whose phase is another.
func (h *Handler) marketStatus(*request) (result, error) {
	now := time.Now()
	listed, _ := h.cfg.Hub.Instruments()
	b := append([]byte(nil), `{"markets":[`...)
	for i, m := range h.cfg.Hub.Markets() {
		if i > 0 {
			b = append(b, ',')
		}
		s := h.statusOfMarket(&m, listed, now)
		b = s.Append(b)
	}
	return result{object: append(b, "]}"...)}, nil
}

// statusOfMarket takes what the feed told of the market as a whole over the
// schedule, which is a plan; the schedule still says when the phase will end
// where both agree on it.
func (h *Handler) statusOfMarket(m *market.Market, listed []market.Instrument, now time.Time) wire.MarketStatus {
	phase, next, reason := m.Schedule.At(now, h.zones.load(m.Timezone, h.log), "")
	s := wire.MarketStatus{Market: m.ID, Phase: phase, Reason: reason, Next: unixNano(next)}
	usual := phase
	if told, ok := h.cfg.Hub.MarketStatus(m.ID); ok {
		if told.Until == 0 && told.Phase == phase {
			told.Until = s.Next
		}
		s.Phase, s.Reason, s.Next = told.Phase, told.Reason, told.Until
		if told.Phase != market.FeedDown { // that says nothing of the instruments
			usual = told.Phase
		}
	}
	for i := range listed {
		in := &listed[i]
		if in.ID.Market != m.ID || in.Phase == usual {
			continue
		}
		if told, ok := h.cfg.Hub.Status(in.ID); ok && told.Phase != usual {
			s.Instruments = append(s.Instruments, wire.InstrumentStatus{ID: in.ID, Phase: told.Phase, Reason: told.Reason, Next: told.Until})
		}
	}
	return s
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// zones are time zones by name, read once each. There are as many as markets name.
type zones struct {
	mu     sync.Mutex
	loaded map[string]*time.Location
}

// load is the time zone of that name, UTC where there is none: the gateway
// refuses such a name when it starts.
func (z *zones) load(name string, log *slog.Logger) *time.Location {
	z.mu.Lock()
	defer z.mu.Unlock()
	if loc, ok := z.loaded[name]; ok {
		return loc
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		log.Error("time zone not loaded, UTC stands in", keyError, err)
		loc = time.UTC
	}
	if z.loaded == nil {
		z.loaded = make(map[string]*time.Location)
	}
	z.loaded[name] = loc
	return loc
}
