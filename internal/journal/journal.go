package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/market"
)

// Config is how a journal is kept.
type Config struct {
	Folder  string
	Segment int64         // bytes of a segment before the next is begun, up to 8 GiB; 0: 256 MiB
	Sync    time.Duration // the disk is waited for at most so often; 0: 1 s
	Days    int           // closed days kept; days ahead of this machine's clock count only if all clocks are virtual; 0: 30
	Bytes   int64         // of closed days kept, oldest go first; 0: 64 GiB
	Pending int64         // bytes of rows that wait to be written; what comes beyond is lost; 0: 64 MiB
	Logger  *slog.Logger  // nil: none
	BootID  string        // what changes when the machine starts; "": the kernel's, where there is one
	Memory  string        // folder of files that a restart of the machine empties; "": /dev/shm, or Folder where BootID is given

	write      func(*os.File, []byte) (int, error) // tests fill disks with it
	sys        system                              // tests lose with it what was not synced
	checkpoint int64                               // bytes of a piece of a checkpoint; 0: checkpointBytes
}

// WriteWith has rows written by a function that does what (*os.File).Write does, if it wants to. Tests
// stall the disk with it, or fill it.
func (c *Config) WriteWith(write func(*os.File, []byte) (int, error)) { c.write = write }

const maxSegment = 8 << 30

// fill puts in what the zero values stand for.
func (c *Config) fill() error {
	if c.Segment == 0 {
		c.Segment = 256 << 20
	}
	if c.Sync == 0 {
		c.Sync = time.Second
	}
	if c.Days == 0 {
		c.Days = 30
	}
	if c.Bytes == 0 {
		c.Bytes = 64 << 30
	}
	if c.Pending == 0 {
		c.Pending = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Memory != "":
	case c.BootID == "":
		c.Memory = sharedMemory
	default:
		c.Memory = c.Folder // the machine is the caller's invention, and so is its memory
	}
	if c.BootID == "" {
		c.BootID = bootID()
	}
	c.sys.fill()
	if c.checkpoint == 0 {
		c.checkpoint = checkpointBytes
	}
	if c.write == nil {
		c.write = (*os.File).Write
	}
	if c.Folder == "" || c.Segment < 0 || c.Segment > maxSegment || c.Sync < 0 || c.Days < 0 || c.Bytes < 0 || c.Pending < 0 || len(c.BootID) > bootSize {
		return errors.New("open journal: a folder is needed, and no setting may be negative or out of range")
	}
	return nil
}

// Journal writes rows, and reads them: the methods of Archive see what was committed.
type Journal struct {
	*Archive
	cfg   Config
	lock  *os.File
	state *stateFile
	given *highWater // nil: there is no memory for it
	writer
	files

	// What Run and the writer have to do with each other.
	duty  sync.Mutex // guards live, sealed and fresh
	live  *os.File   // the file that is written
	seals []*os.File // files that are not written any more, and not synced yet
	fresh []string   // folders with new names in them
	dirty atomic.Bool
	wake  chan struct{}
	fault atomic.Pointer[error] // of a sync
	space atomic.Bool           // a probe says that there is room again
	need  atomic.Int64          // how much room the head of a segment takes

	suspendMu sync.Mutex // guards what Suspended tells
	since     time.Time
	cause     error
}

// Open opens the journal of a folder for writing, and makes it where there is none. The folder is
// locked: the error is ErrLocked while another process has it. Whatever a crash left half
// done is put in order. The epoch stays where all that was ever committed in it is
// surely still there; otherwise a new one begins.
func Open(cfg Config) (*Journal, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("make journal folder: %w", err)
	}
	lock, err := lockFolder(cfg.Folder)
	if err != nil {
		return nil, err
	}
	archive, err := newArchive()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	archive.sys = cfg.sys
	j := &Journal{Archive: archive, cfg: cfg, lock: lock, wake: make(chan struct{}, 1)}
	j.writer.reset()
	if err := j.open(); err != nil {
		if j.state != nil {
			err = errors.Join(err, j.state.file.Close(), j.given.close(false))
		}
		return nil, errors.Join(err, archive.close(), lock.Close())
	}
	return j, nil
}

func (j *Journal) open() error {
	var found bool
	var err error
	if j.state, found, err = openState(j.cfg.Folder, &j.sys); err != nil {
		return err
	}
	if found {
		j.journal = j.state.journal
	}
	if err := j.removeGone(j.cfg.Folder); err != nil {
		return err
	}
	if err := j.load(j.cfg.Folder, true); err != nil {
		return err
	}
	if j.journal == [16]byte{} {
		_, _ = rand.Read(j.journal[:]) // never fails
	}
	if j.given, err = openHighWater(j.cfg.Memory, j.cfg.Folder, j.journal); err != nil {
		j.cfg.Logger.Warn("there is no memory that outlives the process: after a kill the journal will begin a new epoch",
			"path", j.cfg.Memory, "error", err)
	}
	last := j.lastSegment()
	reason := j.state.endOfEpoch(found, last, j.views(j.state.epoch), j.cfg.BootID, j.given)
	if err := j.cutTorn(last); err != nil {
		return err
	}
	if !j.state.clean {
		if err := j.syncLeft(); err != nil {
			return err
		}
	}
	for _, d := range j.Damage() {
		j.cfg.Logger.Warn("a place of the journal cannot be read", "file", d.File, "reason", d.Reason, "bytes", d.Bytes, "error", d.Error())
	}
	if reason != "" {
		if found || last != nil {
			j.cfg.Logger.Warn("the journal begins a new epoch", "reason", reason)
		}
		j.state.epoch = newEpoch()
	}
	j.epoch = j.state.epoch
	if err := j.findFloors(context.Background()); err != nil {
		return err
	}
	if len(j.days) > 0 {
		j.day, j.hasDay = j.days[len(j.days)-1].date, true
	}
	j.calendar.begun = map[int32]bool{}
	for _, d := range j.days {
		j.calendar.begun[d.date] = true
	}
	j.state.journal, j.state.boot = j.journal, j.cfg.BootID
	j.state.clean, j.state.suspended = false, false
	if last != nil {
		j.state.segment = last.number
	}
	j.given.begin(j.journal, j.epoch, lastPosition(j.views("")))
	// On the disk, before the first row: after it a clean end is not the truth any more.
	return j.state.saveSync()
}

// lastSegment is the newest segment; nil for none.
func (j *Journal) lastSegment() *segment {
	if len(j.days) == 0 {
		return nil
	}
	list := j.days[len(j.days)-1].segments
	return list[len(list)-1]
}

// endOfEpoch is the reason why the epoch of the state cannot go on: a row of it may have been
// shown and be lost. "" says that all is there.
func (s *stateFile) endOfEpoch(found bool, last *segment, views []segmentView, boot string, given *highWater) string {
	number, end := uint32(0), int64(0)
	if last != nil {
		number, end = last.number, last.end
	}
	switch {
	case !found:
		return "no_state"
	case s.suspended:
		return "suspended"
	case number < s.segment, s.clean && (number != s.segment || end != s.end):
		return reasonMissing
	case !s.clean && (boot == "" || boot != s.boot):
		return "machine_restarted"
	}
	switch position, ok := given.found(s.epoch); {
	case ok && position > lastPosition(views):
		return reasonMissing
	case !ok && !s.clean:
		return "unproven" // nothing says how far rows were given out
	}
	for _, v := range views {
		if v.lossy() {
			return "damaged"
		}
	}
	from := restoreFrom(views)
	for i, v := range views {
		if len(v.gaps) > 0 && (i > from || i == from && v.checkpoint == 0) {
			return "suspended" // the N of rows that were lost are not known
		}
	}
	return ""
}

// lastPosition is the greatest position of some segments.
func lastPosition(views []segmentView) (position uint64) {
	for i := range views {
		position = max(position, views[i].sum.last)
	}
	return position
}

// cutTorn cuts the last segment where its last good frame ends, if the file ends inside of
// another: it was being written when the process was killed.
func (j *Journal) cutTorn(last *segment) error {
	if last == nil || !last.torn || last.packed {
		return nil
	}
	torn := last.damage[len(last.damage)-1]
	if err := j.sys.truncate(last.path(false), last.end); err != nil {
		return fmt.Errorf("cut torn end of the journal: %w", err)
	}
	last.damage, last.torn = last.losses(), false
	j.cfg.Logger.Info("the torn end of the journal was cut", "file", torn.File, "bytes", torn.Bytes)
	return nil
}

// syncLeft syncs what a process that was killed has written: this one will sync its own files alone, and then mark
// a clean end, which speaks for all of them.
func (j *Journal) syncLeft() error {
	for _, d := range j.days {
		if d.index != nil {
			continue
		}
		for _, s := range d.segments {
			f, err := os.Open(s.path(s.packed))
			if err != nil {
				return fmt.Errorf("sync journal: %w", err)
			}
			if err := errors.Join(j.sys.sync(f), f.Close()); err != nil {
				return fmt.Errorf("sync journal: %w", err)
			}
		}
		if err := j.sys.syncFolder(d.folder); err != nil {
			return err
		}
	}
	return j.sys.syncFolder(j.cfg.Folder)
}

// gonePrefix begins the name of a day's folder that is being removed.
const gonePrefix = ".gone-"

// probeName is a file that is written to see whether there is room.
const probeName = "probe" + tempEnding

// removeGone ends removals that a crash broke off.
func (a *Archive) removeGone(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read journal folder: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), gonePrefix) || e.Name() == probeName {
			if err := a.sys.removeAll(filepath.Join(folder, e.Name())); err != nil {
				return fmt.Errorf("remove old day: %w", err)
			}
		}
	}
	return nil
}

// Start tells how a checkpoint is made: it emits the state of one instrument as rows, first one of
// Numbers, and then what else a restart needs; nothing where the hub does not have the instrument.
// It is called from Append's and Commit's caller within Take, where the state has to agree with the
// rows appended, for a few instruments each time. Start is called after Restore and before the first
// Append.
func (j *Journal) Start(checkpoint func(instrument uint32, emit func(*Row))) error {
	if j.checkpoint != nil {
		return errors.New("start journal: it was started before")
	}
	j.checkpoint, j.emit = checkpoint, j.emitRow
	return nil
}

// Define gives an instrument its number, the same one as long as the journal lives, and keeps its
// definition, which may change. It is called as Append is.
func (j *Journal) Define(def market.Instrument) uint32 {
	number, text, changed := j.table.define(def)
	if changed && j.seg != nil {
		j.frameFor(base{j.position, j.newest})
		j.buf = appendDefinition(j.buf, number, text)
		j.defined.add(number)
	}
	return number
}

// Suspended says whether rows are being lost, since when and why: the disk is full, or fails.
func (j *Journal) Suspended() (since time.Time, err error, ok bool) {
	j.suspendMu.Lock()
	defer j.suspendMu.Unlock()
	return j.since, j.cause, j.cause != nil
}

// Close commits, syncs and marks a clean end. It is called when Run has ended and nothing is
// appended any more.
func (j *Journal) Close() error {
	if j.closed {
		return nil
	}
	j.Commit()
	for j.Unfinished() { // so that the next start has less to read
		j.Commit()
	}
	j.closed = true
	err := j.syncAll()
	if j.sus == nil && err == nil {
		j.state.clean = true
		if last := j.lastSegment(); last != nil {
			j.state.segment, j.state.end = last.number, last.end
		}
	}
	saved := j.state.saveSync()
	err = errors.Join(err, saved, j.given.close(saved == nil))
	return errors.Join(err, j.state.file.Close(), j.Archive.close(), j.lock.Close())
}
