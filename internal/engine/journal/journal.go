package journal

import (
	"cmp"
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

	"github.com/ruedahq/rueda/internal/base/flock"
	"github.com/ruedahq/rueda/internal/base/histogram"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/engine/journal/state"
	"github.com/ruedahq/rueda/market"
)

// Config configures a Journal. Zero values have the defaults that are stated.
type Config struct {
	Folder  string
	Segment int64                   // of a segment, at most 8 GiB; 0: 256 MiB
	Sync    time.Duration           // interval of syncs; 0: 1 s
	Days    int                     // stored closed days; days ahead of this machine's clock count only if all clocks are virtual; 0: 30
	Bytes   int64                   // of stored closed days; 0: 64 GiB
	Pending int64                   // limit of bytes that wait to be written, after which rows are lost; 0: 64 MiB
	Logger  *slog.Logger            // nil: discarded
	BootID  string                  // changes when the machine starts; "": that of the kernel, if it has one
	Epoch   string                  // of a new epoch; "": a random one
	Copy    bool                    // the rows are a copy of a log elsewhere, which has the epoch too
	Reading func(done, total int64) // called during Open with bytes of the segments to read; nil: no calls
	Memory  string                  // folder that a restart of the machine empties; "": /dev/shm, or Folder if BootID is set

	sys        disk.System // tests replace it
	checkpoint int64       // size of a piece of a checkpoint; 0: checkpointBytes
}

// WriteWith sets the function that writes rows, for tests with slow or full disks. It has the
// contract of (*os.File).Write.
func (c *Config) WriteWith(write func(*os.File, []byte) (int, error)) { c.sys.Write = write }

const maxSegment = 8 << 30

// fill sets defaults.
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
		c.Memory = state.SharedMemory
	default:
		c.Memory = c.Folder // the caller simulates the machine, and so its memory
	}
	if c.BootID == "" {
		c.BootID = state.BootID()
	}
	c.sys.Fill()
	if c.checkpoint == 0 {
		c.checkpoint = checkpointBytes
	}
	if c.Folder == "" || c.Segment < 0 || c.Segment > maxSegment || c.Sync < 0 || c.Days < 0 || c.Bytes < 0 || c.Pending < 0 || len(c.BootID) > state.MaxBootID {
		return errors.New("open journal: Folder is required, and settings must not be negative or too large")
	}
	return nil
}

// Journal writes rows and reads them: the methods of Archive see committed rows.
type Journal struct {
	*Archive
	cfg       Config
	lock      *os.File
	state     *state.File
	highWater *state.HighWater // nil: not available
	inUse     bool             // another process writes a copy of the journal
	writer
	files

	// Shared by Run and the writer.
	syncMu      sync.Mutex // guards activeFile, sealedFiles and newFolders
	activeFile  *os.File   // file of the active segment
	sealedFiles []*os.File // closed segments that are not synced yet
	newFolders  []string   // folders with new entries
	dirty       atomic.Bool
	wake        chan struct{}
	syncErr     atomic.Pointer[error] // of a failed sync
	space       atomic.Bool           // a probe has found free space
	need        atomic.Int64          // bytes of the last checkpoint

	changing sync.Mutex // held while the first day is removed, or one before it is added

	timesMu sync.Mutex
	times   histogram.Histogram // of writes of rows

	suspendMu sync.Mutex // guards the result of Suspended
	since     time.Time
	cause     error
}

// Open opens the journal of a folder for writing and creates a missing one. It locks the folder:
// the error is ErrLocked while another process has it. It repairs what a crash has left incomplete.
// The epoch continues if all rows committed in it are certainly still there; otherwise a new one
// begins. A journal of a newer program is state.ErrNewer. If ctx ends first, the error is that of
// ctx.
func Open(ctx context.Context, cfg Config) (*Journal, error) {
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
	archive.sys, archive.log, archive.reading.report = cfg.sys, cfg.Logger, cfg.Reading
	j := &Journal{Archive: archive, cfg: cfg, lock: lock, wake: make(chan struct{}, 1)}
	j.writer.reset()
	if err := j.open(ctx); err != nil {
		if j.state != nil {
			err = errors.Join(err, j.state.Close(), j.highWater.Close())
		}
		return nil, errors.Join(err, archive.close(), lock.Close())
	}
	return j, nil
}

func (j *Journal) open(ctx context.Context) error {
	var found bool
	var err error
	if j.state, found, err = state.Open(j.cfg.Folder, &j.sys); err != nil {
		return err
	}
	if found {
		j.journal = j.state.Journal
	}
	if err := j.finishRemovals(j.cfg.Folder); err != nil {
		return err
	}
	if err := j.load(ctx, j.cfg.Folder, true); err != nil {
		return err
	}
	j.reading = reading{} // segments that are read later are not reported
	if j.journal == [16]byte{} {
		_, _ = rand.Read(j.journal[:]) // never fails
	}
	if j.highWater, err = state.OpenHighWater(j.cfg.Memory, j.cfg.Folder, j.journal); err != nil {
		if j.inUse = errors.Is(err, flock.ErrLocked); j.cfg.Copy {
			j.cfg.Logger.Warn("no shared memory is available; after a kill this node counts as one that may lack rows",
				"path", j.cfg.Memory, "error", err)
		} else {
			j.cfg.Logger.Warn("no shared memory is available; after a kill the journal will begin a new epoch",
				"path", j.cfg.Memory, "error", err)
		}
	}
	last := j.lastSegment()
	reason := j.endOfEpoch(found, last)
	j.whole = reason == ""
	if j.cfg.Copy {
		if reason, err = endOfCopy(j, found); err != nil {
			return err
		}
	}
	if err := j.cutTorn(last); err != nil {
		return err
	}
	if !j.state.Clean {
		if err := j.syncPrevious(); err != nil {
			return err
		}
	}
	for _, d := range j.Damage() {
		j.cfg.Logger.Warn("a part of the journal cannot be read", "file", d.File, "reason", d.Reason, "bytes", d.Bytes, "error", d.Error())
	}
	j.calendar.begun = map[int32]bool{}
	for _, d := range j.days {
		j.day, j.hasDay = d.date, true
		j.calendar.begun[d.date] = true
	}
	if reason != "" {
		switch {
		case j.cfg.Copy && !found && last != nil:
			j.cfg.Logger.Info("the journal is a copy, and continues the epoch of the log")
		case found || last != nil:
			j.cfg.Logger.Warn("the journal begins a new epoch", "reason", reason)
		}
		if !j.cfg.Copy && j.endMayBeMissing(reason) {
			j.noteMissingEnd()
		}
		j.state.Epoch = cmp.Or(j.cfg.Epoch, state.NewEpoch())
	}
	j.epoch = j.state.Epoch
	if err := j.findMinSeqs(ctx); err != nil {
		return err
	}
	if err := openEarlier(j); err != nil {
		return err
	}
	j.state.Journal, j.state.Boot = j.journal, j.cfg.BootID
	j.state.Clean, j.state.Suspended = false, false
	if last = j.lastSegment(); last != nil {
		j.state.Segment = last.number
	}
	j.highWater.Begin(j.journal, j.epoch, lastPosition(j.views(j.epoch)))
	// Sync it before the first row, after which the clean end is not valid any more.
	return j.state.SaveSync()
}

// lastSegment returns the newest segment; nil if there is none.
func (j *Journal) lastSegment() *segment {
	if len(j.days) == 0 {
		return nil
	}
	list := j.days[len(j.days)-1].segments
	return list[len(list)-1]
}

// Reasons of endOfEpoch.
const (
	reasonSuspended = "suspended"
	reasonMachine   = "machine_restarted"
	reasonDamaged   = "damaged"
)

// endOfEpoch returns the reason why the epoch of the state cannot continue: a row of it may have
// been streamed and lost. It returns "" if no row is missing.
func (j *Journal) endOfEpoch(found bool, last *segment) string {
	s, boot, views := j.state, j.cfg.BootID, j.views(j.state.Epoch)
	number, end := uint32(0), int64(0)
	if last != nil {
		number, end = last.number, last.end
	}
	switch {
	case !found:
		return "no_state"
	case s.Suspended:
		return reasonSuspended
	case number < s.Segment, s.Clean && (number != s.Segment || end != s.End):
		return record.ReasonMissing
	case !s.Clean && (boot == "" || boot != s.Boot):
		return reasonMachine
	}
	switch position, ok := j.highWater.Previous(s.Epoch); {
	case ok && position > lastPosition(views), j.inUse: // the folder is an older one, or a copy
		return record.ReasonMissing
	case !ok && !s.Clean:
		return "unproven" // the streamed position is unknown
	}
	for _, v := range views {
		if v.lossy() {
			return reasonDamaged
		}
	}
	from := restoreFrom(views)
	for i, v := range views {
		if i < from || i == from && v.checkpoint != 0 {
			continue
		}
		switch { // the N of lost rows are unknown
		case len(v.gaps) > 0:
			return reasonSuspended
		case v.missing > 0:
			return record.ReasonBefore
		}
	}
	return ""
}

// endMayBeMissing reports whether rows after the stored ones of the epoch of the state may have
// been streamed, for a reason why it cannot continue.
func (j *Journal) endMayBeMissing(reason string) bool {
	views := j.views(j.state.Epoch)
	switch reason {
	case record.ReasonMissing:
		return true
	case reasonMachine: // the rows since the last sync
		return true
	case reasonDamaged:
		return views[len(views)-1].damagedEnd()
	case reasonSuspended: // unless a Gap reports them
		position, ok := j.highWater.Previous(j.state.Epoch)
		return j.state.Suspended && (!ok || position > lastPosition(views))
	}
	return false
}

// ErrIncomplete means that a journal which is a copy of a log has lost rows between others.
var ErrIncomplete = errors.New("the journal has lost rows between others: move its folder away, and the node copies the log again")

// endOfCopy returns the reason why the epoch of the state cannot continue in a journal that is a
// copy of a log, or "". Rows that are missing at its end are no reason, because they come again.
// The error is ErrIncomplete if others are missing.
func endOfCopy(j *Journal, found bool) (reason string, err error) {
	switch {
	case !found:
		return "no_state", nil
	case j.cfg.Epoch != "" && j.cfg.Epoch != j.state.Epoch:
		return "epoch_of_log", nil
	}
	for _, v := range j.views(j.state.Epoch) {
		if v.lossy() || len(v.gaps) > 0 || v.missing > 0 {
			return "", fmt.Errorf("journal %s: %w", j.cfg.Folder, ErrIncomplete)
		}
	}
	return "", nil
}

// lastPosition returns the greatest position of segments.
func lastPosition(views []segmentView) (position uint64) {
	for i := range views {
		position = max(position, views[i].sum.last)
	}
	return position
}

// cutTorn cuts the last segment after its last valid frame, if the file ends inside another one,
// which was being written when the process was killed.
func (j *Journal) cutTorn(last *segment) error {
	if last == nil || !last.torn || last.packed {
		return nil
	}
	torn := last.damage[len(last.damage)-1]
	if err := j.sys.Truncate(last.path(false), last.end); err != nil {
		return fmt.Errorf("cut torn end of the journal: %w", err)
	}
	last.damage, last.torn = last.losses(), false
	j.cfg.Logger.Info("the torn end of the journal was cut", "file", torn.File, "bytes", torn.Bytes)
	return nil
}

// syncPrevious syncs the files of a killed process. This process will sync only its own files
// before it marks a clean end, which includes all files.
func (j *Journal) syncPrevious() error {
	for _, d := range j.days {
		if d.index != nil {
			continue
		}
		for _, s := range d.segments {
			f, err := disk.OpenFile(s.path(s.packed))
			if err != nil {
				return fmt.Errorf("sync journal: %w", err)
			}
			if err := errors.Join(j.sys.Sync(f), f.Close()); err != nil {
				return fmt.Errorf("sync journal: %w", err)
			}
		}
		if err := j.sys.SyncFolder(d.folder); err != nil {
			return err
		}
	}
	return j.sys.SyncFolder(j.cfg.Folder)
}

// removedPrefix is the name prefix of a day's folder that is being removed.
const removedPrefix = ".gone-"

// probeName is a file that is written to find free space.
const probeName = "probe" + disk.TempEnding

// finishRemovals completes removals that a crash has interrupted.
func (a *Archive) finishRemovals(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read journal folder: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) || e.Name() == probeName {
			if err := a.sys.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return fmt.Errorf("remove old day: %w", err)
			}
		}
	}
	return nil
}

// Start sets the function that emits the state of one instrument as rows: first one of Numbers,
// then the others that a restart needs; none if the hub does not have the instrument. Take calls
// it, for a few instruments each time, when the hub's state includes all appended rows. Call Start
// after Restore and before the first Append.
func (j *Journal) Start(checkpoint func(instrument uint32, emit func(*Row))) error {
	if j.checkpoint != nil {
		return errors.New("start journal: already started")
	}
	j.checkpoint, j.emit = checkpoint, j.emitRow
	return nil
}

// Define returns the permanent number of an instrument and stores its definition, which may change.
// That of a log, which DefineAs has stated, is stored too, before it has rows. Call it as Append.
func (j *Journal) Define(def market.Instrument) uint32 {
	number, text, changed := j.table.define(def)
	if (changed || !j.defined.Has(number)) && j.seg != nil {
		j.frameFor(record.Base{Position: j.position, At: j.newest})
		j.buf = record.AppendDefinition(j.buf, number, text)
		j.defined.Add(number)
	}
	return number
}

// Suspended reports whether rows are being lost, since when, and why.
func (j *Journal) Suspended() (since time.Time, err error, ok bool) {
	j.suspendMu.Lock()
	defer j.suspendMu.Unlock()
	return j.since, j.cause, j.cause != nil
}

// WriteTimes returns the durations of the writes of rows.
func (j *Journal) WriteTimes() histogram.Histogram {
	j.timesMu.Lock()
	defer j.timesMu.Unlock()
	return j.times
}

// timed counts a write of rows.
func (j *Journal) timed(began time.Time) {
	j.timesMu.Lock()
	defer j.timesMu.Unlock()
	j.times.Add(time.Since(began), 1)
}

// Close commits, syncs and marks a clean end. Call it after Run has ended.
func (j *Journal) Close() error {
	if j.closed {
		return nil
	}
	j.Commit()
	for j.CheckpointPending() { // so that the next start has less to read
		j.Commit()
	}
	j.closed = true
	err := j.syncAll()
	if j.sus == nil && err == nil {
		j.state.Clean = true
		if last := j.lastSegment(); last != nil {
			j.state.Segment, j.state.End = last.number, last.end
		}
	}
	saved := j.state.SaveSync()
	err = errors.Join(err, saved, j.highWater.Close())
	return errors.Join(err, j.state.Close(), j.Archive.close(), j.lock.Close())
}
