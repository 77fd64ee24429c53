package state

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"path/filepath"
	"strings"
	"sync"
)

// HighWater stores the greatest position that was streamed in the memory of the machine: in a
// mapped file that survives the end of the process, but not a restart of the machine. A failing
// disk cannot prevent that. The next start thus knows of rows that were streamed and not written,
// and that a folder is an older one, which was put back:
//
//	0 magic    8 position    16 epoch    32 journal    48 length of the folder    50 folder
//
// The folder is the absolute path of the journal with the mount namespace in which it is valid.
// With it, the next start of any journal finds the files of journals that were removed, and removes
// these files.
//
// A nil HighWater stores nothing.
type HighWater struct {
	mu       sync.Mutex
	position uint64
	epoch    string // of the previous process, then of this one
	page     []byte // nil: closed
	release  func() error
}

const (
	highWaterMagic  = "RUEDAHWM"
	highWaterSize   = 4096
	highWaterPrefix = "rueda-"
	highWaterFolder = 48 // offset of the folder
)

// highWaterPath returns the file of a journal in a folder of shared memory.
func highWaterPath(folder string, journal [16]byte) string {
	return filepath.Join(folder, highWaterPrefix+hex.EncodeToString(journal[:]))
}

// parse reads the values of the previous process; epoch is "" if there are none.
func (w *HighWater) parse(journal [16]byte) {
	if string(w.page[:8]) == highWaterMagic && string(w.page[32:48]) == string(journal[:]) {
		w.position = binary.LittleEndian.Uint64(w.page[8:])
		w.epoch = strings.TrimRight(string(w.page[16:32]), "\x00")
	}
}

// setFolder writes a folder into the page. A folder that does not fit is omitted.
func setFolder(page []byte, folder string) {
	b := page[highWaterFolder:]
	clear(b)
	if 2+len(folder) <= len(b) {
		binary.LittleEndian.PutUint16(b, uint16(len(folder)))
		copy(b[2:], folder)
	}
}

// folderOf returns the folder in a page, or "" if there is none.
func folderOf(page []byte) string {
	b := page[highWaterFolder:]
	return string(b[2:min(2+int(binary.LittleEndian.Uint16(b)), len(b))])
}

// Previous returns the greatest position of an epoch that was streamed. If the journal has begun
// another epoch since, the position is unknown and counts as the greatest number. ok is false if
// there are no values.
func (w *HighWater) Previous(epoch string) (position uint64, ok bool) {
	switch {
	case w == nil || w.epoch == "":
		return 0, false
	case w.epoch != epoch:
		return math.MaxUint64, true
	}
	return w.position, true
}

// Begin stores the positions of an epoch from now on.
func (w *HighWater) Begin(journal [16]byte, epoch string, position uint64) {
	if w == nil {
		return
	}
	w.epoch, w.position = epoch, position
	clear(w.page[:48]) // no magic: a kill now leaves nothing
	binary.LittleEndian.PutUint64(w.page[8:], position)
	copy(w.page[16:32], epoch)
	copy(w.page[32:48], journal[:])
	copy(w.page, highWaterMagic)
}

// Raise records that rows up to a position are streamed. It writes to memory, without a system
// call.
func (w *HighWater) Raise(position uint64) {
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

// Close stops storing positions. The file stays for the next process.
func (w *HighWater) Close() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.page == nil {
		return nil
	}
	w.page = nil
	return w.release()
}
