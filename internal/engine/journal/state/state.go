// Package state stores what the next start of a journal needs to know about this one: the epoch, a
// clean end, and the greatest position that was streamed. If all streamed rows are stored, the
// epoch continues.
package state

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/journal/disk"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// The state of a journal is a small file that is updated in place, so that it can be written on a
// full disk. It has two copies, one of which is complete at any time.
//
//	 0 magic    8 version    12 number of the write    16 journal    32 epoch
//	48 clean end    49 suspended    56 end of the last segment    64 its number
//	72 boot id, 40 bytes    124 CRC32C
const (
	stateName  = "state"
	stateMagic = "RUEDASTA"
	stateCopy  = 128
	stateSlot  = 4096 // each copy has its own, the unit of a disk write
	MaxBootID  = 40   // of State.Boot, in bytes
	MaxEpoch   = 16   // of State.Epoch, in bytes
)

// State is the content of the file.
type State struct {
	write     uint32
	Journal   [16]byte
	Epoch     string
	Clean     bool
	Suspended bool
	Segment   uint32 // last segment at a clean end
	End       int64  // and its length
	Boot      string // BootID of the process that wrote it
}

func (s *State) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, stateCopy)...)
	f := b[start:]
	copy(f, stateMagic)
	binary.LittleEndian.PutUint32(f[8:], record.Version)
	binary.LittleEndian.PutUint32(f[12:], s.write)
	copy(f[16:32], s.Journal[:])
	copy(f[32:48], s.Epoch)
	if s.Clean {
		f[48] = 1
	}
	if s.Suspended {
		f[49] = 1
	}
	binary.LittleEndian.PutUint64(f[56:], uint64(s.End))
	binary.LittleEndian.PutUint32(f[64:], s.Segment)
	copy(f[72:72+MaxBootID], s.Boot)
	binary.LittleEndian.PutUint32(f[124:], record.Checksum(f[:124]))
	return b
}

func (s *State) parse(f []byte) bool {
	if string(f[:8]) != stateMagic || binary.LittleEndian.Uint32(f[124:]) != record.Checksum(f[:124]) ||
		binary.LittleEndian.Uint32(f[8:]) != record.Version {
		return false
	}
	text := func(b []byte) string { return strings.TrimRight(string(b), "\x00") }
	s.write = binary.LittleEndian.Uint32(f[12:])
	copy(s.Journal[:], f[16:32])
	s.Epoch = text(f[32:48])
	s.Clean, s.Suspended = f[48] == 1, f[49] == 1
	s.End = int64(binary.LittleEndian.Uint64(f[56:]))
	s.Segment = binary.LittleEndian.Uint32(f[64:])
	s.Boot = text(f[72 : 72+MaxBootID])
	return true
}

// File is the open file of the state.
type File struct {
	file *os.File
	sys  *disk.System
	State
}

// ErrNewer means that a newer program has written a journal, in a format that this one does not
// know.
var ErrNewer = errors.New("a newer version of the program has written this journal: run that version, or restore a backup")

// isNewer reports whether a copy has a later format.
func isNewer(f []byte) bool {
	return string(f[:8]) == stateMagic && binary.LittleEndian.Uint32(f[8:]) > record.Version
}

// Open opens the state of a folder; found reports whether there was a valid one. The error is
// ErrNewer for one in a later format.
func Open(folder string, sys *disk.System) (s *File, found bool, err error) {
	f, err := sys.Open(filepath.Join(folder, stateName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, false, fmt.Errorf("open state of the journal: %w", err)
	}
	s = &File{file: f, sys: sys}
	b, n := make([]byte, 2*stateSlot), 0
	if n, found, err = s.read(f, b); err != nil {
		return nil, false, errors.Join(fmt.Errorf("journal %s: %w", folder, err), f.Close())
	}
	if n == len(b) {
		return s, found, nil
	}
	// Allocate all of it now, so that it never grows.
	clear(b[n:])
	if _, err := sys.WriteAt(f, b[n:], int64(n)); err != nil {
		return nil, false, errors.Join(fmt.Errorf("create state of the journal: %w", err), f.Close())
	}
	return s, found, nil
}

// Read returns the state of a folder, without a change of the file; found reports whether there is
// a valid one.
func Read(folder string) (s State, found bool) {
	f, err := os.Open(filepath.Join(folder, stateName))
	if err != nil {
		return State{}, false
	}
	defer func() { _ = f.Close() }() // only read from
	_, found, err = s.read(f, make([]byte, 2*stateSlot))
	return s, found && err == nil
}

// read reads the newer valid copy of a file into s, with a buffer for both. It returns the number
// of bytes that were read.
func (s *State) read(f io.ReaderAt, b []byte) (n int, found bool, err error) {
	n, _ = f.ReadAt(b, 0) // unreadable data counts as missing
	for at := 0; at+stateCopy <= n; at += stateSlot {
		var c State
		if isNewer(b[at:]) {
			return n, false, ErrNewer
		}
		if c.parse(b[at:at+stateCopy]) && (!found || int32(c.write-s.write) > 0) {
			*s, found = c, true
		}
	}
	return n, found, nil
}

// Save overwrites the older copy.
func (s *File) Save() error {
	s.write++
	if _, err := s.sys.WriteAt(s.file, s.append(nil), int64(s.write%2)*stateSlot); err != nil {
		return fmt.Errorf("write state of the journal: %w", err)
	}
	return nil
}

// SaveSync saves and syncs the state.
func (s *File) SaveSync() error {
	if err := s.Save(); err != nil {
		return err
	}
	if err := s.sys.Sync(s.file); err != nil {
		return fmt.Errorf("sync state of the journal: %w", err)
	}
	return nil
}

// Close closes the file.
func (s *File) Close() error { return s.file.Close() }

// NewEpoch returns a new unique word: 60 random bits in letters and digits.
func NewEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])[:12])
}

// BootID changes when the machine starts: older data that was not synced may then be lost. It is ""
// if the system has none.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	return id[:min(len(id), MaxBootID)]
}
