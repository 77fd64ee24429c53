package journal

import (
	"encoding/binary"
	"encoding/hex"
	"path/filepath"
	"strings"
	"sync"
)

// highWater keeps the greatest position that was given out in the memory of the machine: in a
// mapped file that outlives a kill of the process and not a restart of the machine. A disk that
// fails cannot refuse it. Rows that were streamed and not written stand above the end of the
// journal there, so that the next start knows of them whatever the disk still took:
//
//	0 magic    8 position    16 epoch    32 journal    48 length of the place    50 place
//
// The place is the absolute path of the journal with the mount namespace in which it is valid. With
// it, the next start of any journal finds the files of journals that were removed after a kill, and
// removes these files.
//
// The nil highWater keeps nothing.
type highWater struct {
	mu       sync.Mutex
	position uint64
	epoch    string // what was found, then what is kept
	page     []byte // nil: closed
	release  func(remove bool) error
}

const (
	highWaterMagic  = "RUEDAHWM"
	highWaterSize   = 4096
	highWaterPrefix = "rueda-"
	highWaterPlace  = 48 // offset of the place
)

// highWaterPath is the file of a journal in a folder of the machine's memory.
func highWaterPath(folder string, journal [16]byte) string {
	return filepath.Join(folder, highWaterPrefix+hex.EncodeToString(journal[:]))
}

// parse reads what a process has left; the epoch is "" where that is nothing.
func (w *highWater) parse(journal [16]byte) {
	if string(w.page[:8]) == highWaterMagic && string(w.page[32:48]) == string(journal[:]) {
		w.position = binary.LittleEndian.Uint64(w.page[8:])
		w.epoch = strings.TrimRight(string(w.page[16:32]), "\x00")
	}
}

// setPlace writes a place into the page. A place that does not fit is omitted.
func setPlace(page []byte, place string) {
	b := page[highWaterPlace:]
	clear(b)
	if 2+len(place) <= len(b) {
		binary.LittleEndian.PutUint16(b, uint16(len(place)))
		copy(b[2:], place)
	}
}

// placeOf returns the place in a page, or "" if there is none.
func placeOf(page []byte) string {
	b := page[highWaterPlace:]
	return string(b[2:min(2+int(binary.LittleEndian.Uint16(b)), len(b))])
}

// found returns the greatest position of an epoch that was given out; ok is false where it is not
// known.
func (w *highWater) found(epoch string) (position uint64, ok bool) {
	if w == nil || w.epoch == "" || w.epoch != epoch {
		return 0, false
	}
	return w.position, true
}

// begin keeps the positions of an epoch from now on.
func (w *highWater) begin(journal [16]byte, epoch string, position uint64) {
	if w == nil {
		return
	}
	w.epoch, w.position = epoch, position
	clear(w.page[:48]) // no magic: a kill in between leaves nothing
	binary.LittleEndian.PutUint64(w.page[8:], position)
	copy(w.page[16:32], epoch)
	copy(w.page[32:48], journal[:])
	copy(w.page, highWaterMagic)
}

// raise notes that rows up to a position are given out. It stores a word: no system call, no disk.
func (w *highWater) raise(position uint64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if position > w.position && w.page != nil {
		w.position = position
		binary.LittleEndian.PutUint64(w.page[8:], position)
	}
}

// close ends the keeping. remove says that nothing needs to be known after this process.
func (w *highWater) close(remove bool) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.page == nil {
		return nil
	}
	w.page = nil
	return w.release(remove)
}
