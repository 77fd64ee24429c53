package gateway

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/broker/guard"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/diskspace"
	"github.com/ruedahq/rueda/internal/base/histogram"
	"github.com/ruedahq/rueda/internal/base/metrics"
	"github.com/ruedahq/rueda/wire"
)

// monitor counts the answers of REST and the token checks of the stream, for the metrics. Other
// packages keep the other counters.
type monitor struct {
	checks map[string]*atomic.Uint64 // of tokens on the stream, by result; not changed after the start

	mu       sync.Mutex
	requests map[rest.Observation]uint64 // without Grant and Time
	grants   map[[2]string]uint64        // by grant and result
	took     histogram.Histogram
}

const resultOK = "ok"

func newMonitor() *monitor {
	m := &monitor{checks: map[string]*atomic.Uint64{}, requests: map[rest.Observation]uint64{}, grants: map[[2]string]uint64{}}
	// The reasons are those of tokenFault.
	for _, r := range []wire.Reason{resultOK, wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked, wire.AddressNotAllowed, wire.Overloaded} {
		m.checks[string(r)] = &atomic.Uint64{}
	}
	return m
}

// checked counts a token check of the stream. f is the error message for the client, or nil if the
// token is valid.
func (m *monitor) checked(f *wire.Fault) {
	result := resultOK
	if f != nil {
		result = string(f.Reason)
	}
	m.checks[result].Add(1)
}

// observe counts an answer of REST by route, status and reason, and adds its time to the histogram.
func (m *monitor) observe(o rest.Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Grant != "" {
		m.grants[[2]string{o.Grant, cmp.Or(o.Reason, resultOK)}]++
	}
	if o.Time > 0 {
		m.took.Add(o.Time, 1)
	}
	o.Grant, o.Time = "", 0
	m.requests[o]++
}

// fill copies the counters of the monitor to a snapshot.
func (m *monitor) fill(s *metrics.Snapshot) {
	for result, n := range m.checks {
		s.TokenChecks = append(s.TokenChecks, metrics.Count{Labels: [2]string{result}, N: n.Load()})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for o, n := range m.requests {
		s.Requests = append(s.Requests, metrics.Requests{Route: o.Route, Status: o.Status, Reason: o.Reason, N: n})
	}
	for labels, n := range m.grants {
		s.Grants = append(s.Grants, metrics.Count{Labels: labels, N: n})
	}
	s.RequestTime = m.took
}

// snapshot collects the figures for the metrics. It waits up to 50 ms for the figures of the
// shards.
func (g *Gateway) snapshot() *metrics.Snapshot {
	s := &metrics.Snapshot{Version: g.cfg.Version, Ready: g.ready() == nil, Panics: g.Stats().Panics, Cluster: g.node.Figures()}
	g.monitor.fill(s)
	g.streamFigures(s)
	for _, f := range g.supervisors() {
		st := f.Stats()
		s.Feeds = append(s.Feeds, metrics.Feed{
			Name: f.Name(), Up: st.Up, Events: st.Events, Refused: st.Refused, Failures: st.Failures, Newest: st.Newest, Suspect: st.Suspect,
		})
	}
	if g.journal != nil {
		s.Journal = &metrics.Journal{}
		_, _, s.Journal.Suspended = g.journal.Suspended()
		for _, d := range g.journal.Days() {
			s.Journal.Days, s.Journal.Bytes, s.Journal.Rows = s.Journal.Days+1, s.Journal.Bytes+d.Bytes, s.Journal.Rows+d.Rows
		}
	}
	g.identityFigures(s)
	for folder, path := range map[string]string{"data": g.folder, "journal": g.cfg.Journal.Folder} {
		if path == "" {
			continue
		}
		if free, size, err := diskspace.Of(path); err == nil {
			s.Disks = append(s.Disks, metrics.Disk{Folder: folder, Free: free, Size: size})
		}
	}
	return s
}

// streamFigures copies the figures of the stream and the market to a snapshot.
func (g *Gateway) streamFigures(s *metrics.Snapshot) {
	st := g.sockets.Stats()
	total, stale := g.sockets.Counters()
	s.Shards, s.Delivery = stale, total.Delivery
	s.Clients = metrics.Clients{
		Open: st.Open, Unauthenticated: st.Unauthenticated, Blocked: st.Behind, PendingBytes: st.PendingBytes,
		Limit: cmp.Or(g.limits.Load().Sockets, defaultSockets), Opened: total.Opened, Closed: total.Closed, Slow: total.Slow, Pauses: total.Pauses,
		Refused: st.Refused, Writes: st.Writes, Bytes: total.Bytes,
	}
	s.Clients.Backlog, s.Clients.BacklogSessions = g.registry.Backlog()
	m, f := g.hub.Figures(), total.Stream
	s.Market = metrics.Market{
		Instruments: m.Instruments, Topics: m.Topics, Position: m.Position, Committed: m.Committed,
		Memory: m.Memory, MemoryLimit: m.MemoryLimit, Relief: m.Relief, LongestWait: m.LongestWait,
		Messages: f.Messages, Deliveries: f.Deliveries, Conflated: f.Conflated, Resumes: f.Resumes, Lost: f.Lost,
	}
	if g.journal != nil {
		s.Market.Commits = g.journal.WriteTimes()
	}
}

// defaultSockets is the default of Limits.Sockets.
const defaultSockets = 20_000

// identityFigures copies the figures of the database, passwords, keys and certificates to a
// snapshot.
func (g *Gateway) identityFigures(s *metrics.Snapshot) {
	s.DatabaseTime, s.DatabaseFailed = g.auditLog.Transactions()
	if users, ok := g.cfg.Users.(*local.Base); ok {
		p := users.Passwords().Stats()
		s.Passwords = &metrics.Passwords{Running: p.Running, Waiting: p.Waiting, Refused: p.Refused, Hashed: p.Hashed}
	}
	if u, ok := g.cfg.Users.(interface{ Guard() *guard.Guard }); ok && u.Guard() != nil {
		s.UserBase = &metrics.UserBase{State: u.Guard().State().String(), InFlight: u.Guard().InFlight()}
	}
	for _, k := range g.keys.Keys() {
		s.Keys = append(s.Keys, metrics.Key{State: string(k.State), Created: k.Created, Since: k.Since, Until: k.Until})
	}
	if g.certificate != nil {
		s.Certificates = append(s.Certificates, metrics.Certificate{Listener: "clients", Expires: g.certificate.Expires()})
	}
	if g.admin != nil && g.admin.certificate != nil {
		s.Certificates = append(s.Certificates, metrics.Certificate{Listener: "admin", Expires: g.admin.certificate.Expires()})
	}
}
