package journal

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
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
	bootSize   = 40
)

type state struct {
	write     uint32
	journal   [16]byte
	epoch     string
	clean     bool
	suspended bool
	segment   uint32 // last segment at a clean end
	end       int64  // and its length
	boot      string
}

func (s *state) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, stateCopy)...)
	f := b[start:]
	copy(f, stateMagic)
	binary.LittleEndian.PutUint32(f[8:], version)
	binary.LittleEndian.PutUint32(f[12:], s.write)
	copy(f[16:32], s.journal[:])
	copy(f[32:48], s.epoch)
	if s.clean {
		f[48] = 1
	}
	if s.suspended {
		f[49] = 1
	}
	binary.LittleEndian.PutUint64(f[56:], uint64(s.end))
	binary.LittleEndian.PutUint32(f[64:], s.segment)
	copy(f[72:72+bootSize], s.boot)
	binary.LittleEndian.PutUint32(f[124:], crc32.Checksum(f[:124], castagnoli()))
	return b
}

func (s *state) parse(f []byte) bool {
	if string(f[:8]) != stateMagic || binary.LittleEndian.Uint32(f[124:]) != crc32.Checksum(f[:124], castagnoli()) ||
		binary.LittleEndian.Uint32(f[8:]) != version {
		return false
	}
	text := func(b []byte) string { return strings.TrimRight(string(b), "\x00") }
	s.write = binary.LittleEndian.Uint32(f[12:])
	copy(s.journal[:], f[16:32])
	s.epoch = text(f[32:48])
	s.clean, s.suspended = f[48] == 1, f[49] == 1
	s.end = int64(binary.LittleEndian.Uint64(f[56:]))
	s.segment = binary.LittleEndian.Uint32(f[64:])
	s.boot = text(f[72 : 72+bootSize])
	return true
}

// stateFile is the open file of the state.
type stateFile struct {
	file *os.File
	sys  *system
	state
}

// openState opens the state of a folder; found reports whether there was a valid one.
func openState(folder string, sys *system) (s *stateFile, found bool, err error) {
	f, err := sys.open(filepath.Join(folder, stateName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, false, fmt.Errorf("open state of the journal: %w", err)
	}
	s = &stateFile{file: f, sys: sys}
	b := make([]byte, 2*stateSlot)
	n, _ := f.ReadAt(b, 0) // unreadable data counts as missing
	for at := 0; at+stateCopy <= n; at += stateSlot {
		var c state
		if c.parse(b[at:at+stateCopy]) && (!found || int32(c.write-s.write) > 0) {
			s.state, found = c, true
		}
	}
	if n == len(b) {
		return s, found, nil
	}
	// Allocate all of it now, so that it never grows.
	clear(b[n:])
	if _, err := sys.writeAt(f, b[n:], int64(n)); err != nil {
		return nil, false, errors.Join(fmt.Errorf("create state of the journal: %w", err), f.Close())
	}
	return s, found, nil
}

// save overwrites the older copy.
func (s *stateFile) save() error {
	s.write++
	if _, err := s.sys.writeAt(s.file, s.append(nil), int64(s.write%2)*stateSlot); err != nil {
		return fmt.Errorf("write state of the journal: %w", err)
	}
	return nil
}

// saveSync saves and syncs the state.
func (s *stateFile) saveSync() error {
	if err := s.save(); err != nil {
		return err
	}
	if err := s.sys.sync(s.file); err != nil {
		return fmt.Errorf("sync state of the journal: %w", err)
	}
	return nil
}

// newEpoch returns a new unique word: 60 random bits in letters and digits.
func newEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])[:12])
}

// bootID changes when the machine starts: older data that was not synced may then be lost. It is ""
// if the system has none.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	return id[:min(len(id), bootSize)]
}
