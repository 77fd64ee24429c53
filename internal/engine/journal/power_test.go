package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// machine is a machine whose disk and power supply fail.
type machine struct {
	t    *testing.T
	what string
	rng  *rand.Rand
	disk *lossyDisk
	cfg  Config
	log  bytes.Buffer
	boot int

	journal *Journal
	src     *rowSource
	epochs  map[string]bool
	shown   []Row // of the epoch, to clients
	ends    map[string]int
}

// power empties the shared memory.
func (m *machine) power() {
	m.boot++
	m.cfg.BootID, m.cfg.Memory = fmt.Sprint("boot-", m.boot), m.t.TempDir()
}

// show sends rows to clients: they were committed or are lost.
func (m *machine) show(from int) { m.shown = append(m.shown, m.src.rows[from:]...) }

// start opens the journal, and checks that no N is used twice and that lost rows are reported.
func (m *machine) start(again bool) {
	t := m.t
	t.Helper()
	m.disk.use(&m.cfg)
	m.log.Reset()
	j := mustOpen(t, m.cfg)
	was := ""
	if m.journal != nil {
		was = m.journal.Epoch()
	}
	src := newRowSource(m.rng.Uint64(), len(m.src.defs))
	src.at = m.src.at
	if err := j.Restore(func(r *Row) error {
		was := *r
		was.Instrument = uint32(m.index(j, r.Instrument) + 1)
		src.follow(&was)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", m.what, err)
	}
	switch e := j.Epoch(); {
	case e == was:
		m.ends["goes on"]++
		m.wantKept(j, src)
	case m.epochs[e]:
		t.Fatalf("%s: an epoch of before comes again", m.what)
	default:
		m.ends["new epoch"]++
		// A folder without synced data has no record of it, but its epoch shows each client.
		if len(j.Epochs()) > 0 && !strings.Contains(m.log.String(), "new epoch") && again {
			t.Fatalf("%s: the epoch ended, and nothing reports it:\n%s", m.what, m.log.String())
		}
		m.shown, m.epochs[e] = nil, true
		if src.position != 0 {
			t.Fatalf("%s: a new epoch begins at position %d", m.what, src.position)
		}
	}
	if err := j.Start(src.checkpoint); err != nil {
		t.Fatal(err)
	}
	m.journal, m.src = j, src
	src.define(j)
}

// index returns the source's index of a number.
func (m *machine) index(j *Journal, number uint32) int {
	def, ok := j.Instrument(number)
	if !ok {
		m.t.Fatalf("%s: instrument %d is not defined", m.what, number)
	}
	return slices.IndexFunc(m.src.defs, func(d market.Instrument) bool { return d.ID == def.ID })
}

// wantKept checks that all rows shown in a continued epoch are stored, or in a gap, and that
// numbers continue after them.
func (m *machine) wantKept(j *Journal, src *rowSource) {
	m.t.Helper()
	have, gap := map[uint64]Row{}, uint64(0)
	for _, r := range scanAll(m.t, j.Archive, ScanStart{}) {
		if r.Kind == Gap {
			gap = max(gap, r.Position)
		}
		have[r.Position] = r
	}
	for i := range m.shown {
		r := &m.shown[i]
		got, ok := have[r.Position]
		if ok && got.Kind != Gap && !equalRows(&got, r) {
			m.t.Fatalf("%s: position %d is given out twice:\n%+v\n%+v", m.what, r.Position, got, *r)
		}
		if !ok && r.Position > gap {
			m.t.Fatalf("%s: position %d of %d is lost, and nothing reports it", m.what, r.Position, m.shown[len(m.shown)-1].Position)
		}
		c, n := &src.counts[m.index(j, r.Instrument)], r.N
		var stands uint64
		switch r.Kind {
		case Trade, Cancel, Correct:
			stands = c.N[Trades]
		case Status:
			stands = c.N[Statuses]
		case Quote:
			stands = c.N[Quotes]
		case Bar:
			stands = c.Bars[r.Bar.Interval]
		case Reference:
			stands = c.N[Summaries]
		default:
			stands = c.N[Books]
		}
		if stands < n {
			m.t.Fatalf("%s: instrument %d, kind %d: N %d was shown, and the next is %d", m.what, r.Instrument, r.Kind, n, stands+1)
		}
	}
}

// live does what a gateway does for a while.
func (m *machine) live(faults ...error) {
	t, j := m.t, m.journal
	enc := testEncoder(t)
	for range 5 + m.rng.IntN(60) {
		switch k := m.rng.IntN(40); {
		case k < 5:
			if err := j.syncFiles(); err != nil {
				j.syncErr.Store(&err)
			}
		case k == 5:
			m.src.at += dayNanos
		case k == 6:
			if err := j.closeDays(t.Context(), enc); err != nil && m.disk.fails == nil {
				t.Fatalf("%s: %v", m.what, err)
			}
		case k == 7 && len(faults) > 0:
			m.disk.fails = faults[m.rng.IntN(len(faults))]
		case k < 10:
			m.disk.fails = nil
		case k < 14:
			if _, _, ok := j.Suspended(); ok {
				j.space.Store(j.probe() == nil)
			}
			j.Commit()
		default:
			from := len(m.src.rows)
			for range 1 + m.rng.IntN(12) {
				j.Append(m.src.next(true))
			}
			j.Commit()
			m.show(from)
		}
	}
	for range m.rng.IntN(5) { // appended, but neither committed nor shown
		j.Append(m.src.next(true))
	}
}

// die ends the process with its memory.
func (m *machine) die() {
	j := m.journal
	for _, f := range j.sealedFiles {
		_ = f.Close()
	}
	if j.activeFile != nil {
		_ = j.activeFile.Close()
	}
	if err := errors.Join(j.state.Close(), j.highWater.Close(), j.Archive.close(), j.lock.Close()); err != nil {
		m.t.Fatal(err)
	}
}

// run runs a machine several times.
func (m *machine) run(lives int, faults ...error) {
	m.start(false)
	for life := range lives {
		m.what = fmt.Sprintf("%s, life %d", m.t.Name(), life)
		m.live(faults...)
		switch k := m.rng.IntN(10); {
		case k < 4:
			m.ends["kill"]++
			m.die()
		case k < 8:
			m.ends["power loss"]++
			m.die()
			m.disk.powerLoss()
			m.power()
		default:
			m.ends["clean end"]++
			from := len(m.src.rows) - int(m.journal.added.rows)
			err := m.journal.Close()
			if err != nil && m.disk.fails == nil {
				m.t.Fatalf("%s: %v", m.what, err)
			}
			m.show(from)
			if m.rng.IntN(2) == 0 {
				m.ends["power loss behind a clean end"]++
				m.disk.powerLoss()
				m.power()
			}
		}
		m.disk.fails = nil // the disk was repaired
		m.start(true)
	}
	m.die()
}

func newMachine(t *testing.T, seed uint64) *machine {
	m := &machine{t: t, rng: rand.New(rand.NewPCG(seed, 17)), epochs: map[string]bool{}, ends: map[string]int{}}
	m.disk = newLossyDisk(t, m.rng)
	m.src = newRowSource(seed, 2+m.rng.IntN(6))
	m.cfg = Config{Segment: int64(2_000 + m.rng.IntN(20_000)), checkpoint: int64(1 + m.rng.IntN(2_000)), Logger: slog.New(slog.NewTextHandler(&m.log, nil))}
	m.power()
	return m
}

// TestPowerLoss ends the process, and the machine's power supply, at random times. The disk keeps a
// random part of data without sync, turns read-only, is full or fails, at random times. Either the
// epoch continues, and no shown row is missing or sent again, or another begins.
func TestPowerLoss(t *testing.T) { losePower(t, 4) }

// TestPowerLossE2E does so with more seeds, without the race detector.
func TestPowerLossE2E(t *testing.T) { losePower(t, soak(240)) }

func losePower(t *testing.T, seeds int) {
	ends := map[string]int{}
	for _, x := range []struct {
		name   string
		faults []error
	}{
		{"power", nil},
		{"read-only", []error{syscall.EROFS}},
		{"full", []error{syscall.ENOSPC}},
		{"all", []error{syscall.EROFS, syscall.ENOSPC, syscall.EIO}},
	} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprint(x.name, " ", seed), func(t *testing.T) {
				m := newMachine(t, seed)
				m.run(8, x.faults...)
				for k, n := range m.ends {
					ends[x.name+": "+k] += n
				}
			})
		}
	}
	t.Logf("figure: %v", ends)
}
