package journal

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// clock is a machine's clock, next to that of the bubble, and a journal whose rows it dates.
type clock struct {
	t        *testing.T
	cfg      Config
	j        *Journal
	number   uint32
	virtual  bool // the instrument has a virtual clock
	ahead    time.Duration
	position uint64
}

// open creates or opens the journal.
func (c *clock) open() {
	c.t.Helper()
	c.j = mustOpen(c.t, c.cfg)
	if err := c.j.Start(func(_ uint32, emit func(*Row)) { emit(&Row{Kind: Numbers, Instrument: 1}) }); err != nil {
		c.t.Fatal(err)
	}
	c.define(c.virtual)
}

// define defines the instrument with a virtual or real clock.
func (c *clock) define(virtual bool) {
	def := testInstrument(0)
	def.VirtualClock = virtual
	c.number = c.j.Define(def)
}

func (c *clock) restart() {
	c.t.Helper()
	if err := c.j.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.open()
}

// rows writes a row every half minute for a duration, or one row.
func (c *clock) rows(d time.Duration) {
	for end := time.Now().Add(d); ; time.Sleep(30 * time.Second) {
		c.position++
		at := time.Now().Add(c.ahead).UnixNano()
		c.j.Append(&Row{Kind: Trade, Instrument: c.number, Position: c.position, N: c.position, Time: at, At: at, Price: 1, Size: 1})
		c.j.Commit()
		if !time.Now().Before(end) {
			return
		}
	}
}

// days checks the days of the journal, also after a restart, and all rows in their order.
func (c *clock) days(want ...string) {
	c.t.Helper()
	var got []string
	for _, d := range c.j.Days() {
		got = append(got, d.Date)
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("days %v, want %v", got, want)
	}
	n := uint64(0)
	for _, r := range readAll(c.t, c.j.Archive, Series{Instrument: testInstrument(0).ID}, Range{}) {
		if n++; r.N != n || r.Position != n {
			c.t.Fatalf("row %d is N %d at position %d", n, r.N, r.Position)
		}
	}
	if rows := scanAll(c.t, c.j.Archive, ScanStart{}); n != c.position || uint64(len(rows)) != n {
		c.t.Errorf("%d rows are read and %d scanned, %d were written", n, len(rows), c.position)
	}
}

const virtualAlone = "virtual clocks only"

const year = 365 * 24 * time.Hour

// TestCalendar files rows while the machine's clock jumps. The bubble's clock begins at midnight on
// 2000-01-01.
func TestCalendar(t *testing.T) {
	for name, f := range map[string]func(c *clock){
		"ahead for a row": func(c *clock) {
			c.ahead = year
			c.rows(0)
			c.ahead = 0
			for range 3 {
				time.Sleep(24 * time.Hour)
				c.rows(0)
			}
			c.days("2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04")
		},
		"ahead, now and then": func(c *clock) {
			for range 5 {
				c.ahead = year
				c.rows(30 * time.Second)
				c.ahead = 0
				c.rows(0)
			}
			c.days("2000-01-01")
		},
		"set": func(c *clock) {
			c.ahead = year // permanently
			c.rows(2 * time.Minute)
			time.Sleep(24 * time.Hour)
			c.rows(0)
			c.days("2000-01-01", "2000-12-31", "2001-01-01")
		},
		"ahead, set right the next day": func(c *clock) {
			c.ahead = year
			c.rows(2 * time.Minute)
			c.ahead = 0
			c.rows(5 * time.Minute) // its day has segments already
			c.days("2000-01-01", "2000-12-31")
			time.Sleep(24 * time.Hour)
			c.rows(2 * time.Minute)
			time.Sleep(24 * time.Hour)
			c.rows(0)
			c.days("2000-01-01", "2000-12-31", "2000-01-02", "2000-01-03")
		},
		"ahead, started again the next day": func(c *clock) {
			c.ahead = year
			c.rows(2 * time.Minute)
			time.Sleep(24 * time.Hour)
			c.ahead = 0
			c.restart()
			c.rows(0)
			c.days("2000-01-01", "2000-12-31", "2000-01-02")
		},
		"started with a clock that is far behind": func(c *clock) {
			time.Sleep(24 * time.Hour)
			c.rows(0)
			c.ahead = -10 * year
			c.restart()
			c.rows(10 * time.Minute)
			c.ahead = 0
			c.rows(2 * time.Minute)
			c.days("2000-01-01", "2000-01-02")
		},
		"a weekend": func(c *clock) {
			time.Sleep(3 * 24 * time.Hour)
			c.rows(0)
			c.days("2000-01-01", "2000-01-04")
			time.Sleep(3 * 24 * time.Hour)
			c.restart()
			c.rows(0)
			c.days("2000-01-01", "2000-01-04", "2000-01-07")
		},
		"set back over midnight": func(c *clock) {
			time.Sleep(24 * time.Hour)
			c.rows(0)
			c.ahead = -10 * time.Minute
			c.rows(20 * time.Minute)
			c.days("2000-01-01", "2000-01-02")
		},
		virtualAlone: func(c *clock) {
			c.ahead = 3 * 24 * time.Hour
			c.rows(0)
			c.ahead = 0
			c.rows(2 * time.Minute)
			c.ahead = year
			c.rows(0)
			c.days("2000-01-01", "2000-01-04", "2000-12-31")
		},
		"a clock that alternates between virtual and real": func(c *clock) {
			for range 5 {
				c.define(true)
				for range 10 {
					c.ahead += 24 * time.Hour
					c.rows(0) // each a day further ahead
				}
				c.define(false)
				now := c.ahead
				c.ahead = 0
				c.rows(0)
				c.ahead = now
			}
			c.days("2000-01-01")
		},
		"a clock that becomes virtual": func(c *clock) {
			c.define(true)
			c.ahead = year
			c.rows(10 * time.Minute)
			c.virtual = true
			c.restart() // the journal knows that the clock was real before
			c.rows(10 * time.Minute)
			c.days("2000-01-01")
			time.Sleep(24 * time.Hour)
			c.rows(0) // days still follow this machine's clock
			c.days("2000-01-01", "2000-01-02")
			c.define(false)
			c.ahead = 0
			time.Sleep(24 * time.Hour)
			c.rows(0)
			c.days("2000-01-01", "2000-01-02", "2000-01-03")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &clock{t: t, cfg: testConfig(t), virtual: name == virtualAlone}
				c.open()
				c.rows(0)
				f(c)
				days := c.j.Days()
				if err := c.j.closeDays(t.Context(), testEncoder(t)); err != nil {
					t.Fatal(err)
				}
				c.restart()
				for i, d := range c.j.Days() {
					if d.Date != days[i].Date || d.Rows != days[i].Rows {
						t.Errorf("opened again: %+v, was %+v", d, days[i])
					}
					if closed := i < len(days)-1; d.Closed != closed {
						t.Errorf("%s is closed: %v", d.Date, d.Closed)
					}
				}
				if err := c.j.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestDaysAhead begins days that are ahead of this machine's clock and checks that they cause no
// removal of other days. If all clocks are virtual, the oldest days are removed as usual.
func TestDaysAhead(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("alone %v", alone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &clock{t: t, cfg: testConfig(t), virtual: alone}
				c.cfg.Days = 3
				c.open()
				c.rows(0)
				for range 3 {
					time.Sleep(24 * time.Hour)
					c.rows(0)
				}
				keep := func(want ...string) {
					t.Helper()
					if err := errors.Join(c.j.closeDays(t.Context(), testEncoder(t)), c.j.retain(t.Context())); err != nil {
						t.Fatal(err)
					}
					var got []string
					for _, d := range c.j.Days() {
						got = append(got, d.Date)
					}
					if !slices.Equal(got, want) {
						t.Errorf("days %v, want %v", got, want)
					}
				}
				keep("2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04")
				for range 3 {
					c.ahead += 30 * 24 * time.Hour // long enough to be believed
					c.rows(2 * time.Minute)
				}
				if alone {
					keep("2000-01-04", "2000-02-03", "2000-03-04", "2000-04-03")
				} else {
					keep("2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04", "2000-02-03", "2000-03-04", "2000-04-03")
					time.Sleep(24 * time.Hour)
					keep("2000-01-02", "2000-01-03", "2000-01-04", "2000-02-03", "2000-03-04", "2000-04-03") // the fourth day is over
				}
				if err := c.j.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
