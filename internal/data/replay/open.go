package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	recorder "github.com/ruedahq/rueda/internal/data/recording" // a test type is called recording
	"github.com/ruedahq/rueda/internal/data/replay/dbn"
	"github.com/ruedahq/rueda/internal/data/replay/iex"
	"github.com/ruedahq/rueda/internal/data/replay/itch"
	"github.com/ruedahq/rueda/internal/data/replay/lobster"
	"github.com/ruedahq/rueda/market"
)

// playable is a recording of one format.
type playable interface {
	// instruments returns the instruments that are known before the recording is played.
	instruments() []market.Instrument

	// play plays the recording once. run defines the instruments and counts the events. If the
	// recording is damaged, play publishes what comes before the damage and returns an *Error.
	play(ctx context.Context, run *run) error
}

// head is the beginning of a recording, from which its format is detected.
type head struct {
	data   []byte // decompressed
	whole  bool   // data is the complete file
	folder bool   // path is a folder, and data is empty
	path   string
}

// format is a known format.
type format struct {
	name string // for the error message that lists the formats
	is   func(h *head) bool

	// open returns the playable of a recording. in is at the beginning of the file and must not be
	// kept: play opens the file again. in is nil for a folder.
	open func(s *shared, in *input) (playable, error)
}

// formats returns the known formats, in the order in which they are tried. The last one accepts any
// text, because its errors describe best what is wrong with one.
func formats() []format {
	return []format{
		{"journals of a gateway", isJournal, openJournal},
		{"recordings of rueda record", func(h *head) bool { return recorder.Is(h.data) }, openRecorded},
		{"Databento DBN", func(h *head) bool { return dbn.Sniff(h.data) }, openDBN},
		{"captures (pcap, pcapng) of IEX TOPS and DEEP", func(h *head) bool { return iex.Sniff(h.data) }, openIEX},
		{"NASDAQ TotalView-ITCH 5.0", func(h *head) bool { return itch.Sniff(h.data, h.whole) }, openITCH},
		{"message files of LOBSTER", func(h *head) bool { return lobster.Sniff(h.data, h.whole) }, openLOBSTER},
		{"captures of Binance", func(h *head) bool { return !h.folder }, openBinance},
	}
}

// formatList returns the names of the formats.
func formatList() string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + ", plain, gzip or zstd"
}

// headSize is the number of bytes used to detect the format.
const headSize = 64 << 10

// Open detects the format of a recording and returns a Source that plays it. Each Run opens the
// file again. Open returns an error that wraps ErrUnknownFormat if the format is unknown, and an
// *Error if the recording is damaged.
func Open(path string, config Config) (*Source, error) {
	s := &Source{shared: shared{path: path, config: config, defined: make(map[market.InstrumentID]bool)}}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if s.stream != nil {
		if err := s.openFile(0); err != nil {
			return nil, err
		}
		return s, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if info.IsDir() {
		err = s.recognize(&head{folder: true, path: path}, nil)
	} else {
		err = s.openFile(info.Size())
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Source) openFile(size int64) (err error) {
	s.total.Store(size)
	in, err := s.openInput()
	if err != nil {
		return err
	}
	defer func() {
		s.read.Store(0)
		err = errors.Join(err, in.close())
	}()
	data, whole, err := in.peek(headSize)
	if len(data) == 0 && err != nil {
		return in.fault(err)
	}
	if len(data) == 0 {
		return fmt.Errorf("replay %s: the file is empty", s.path)
	}
	return s.recognize(&head{data: data, whole: whole, path: s.path}, in)
}

// archives holds the first bytes of files that must be unpacked.
var archives = []struct{ name, magic string }{
	{"zip", "PK\x03\x04"}, {"zip", "PK\x05\x06"}, {"xz", "\xfd7zXZ\x00"}, {"bzip2", "BZh"}, {"7z", "7z\xbc\xaf\x27\x1c"},
	{"lz4", "\x04\x22\x4d\x18"}, {"rar", "Rar!\x1a\x07"},
}

// recognize detects the format and opens the recording.
func (s *Source) recognize(h *head, in *input) (err error) {
	for _, a := range archives {
		if strings.HasPrefix(string(h.data[:min(len(h.data), 8)]), a.magic) {
			return fmt.Errorf("replay %s: it is a %s archive: unpack it first. Files may be compressed with gzip or zstd", s.path, a.name)
		}
	}
	if len(h.data) >= 262 && string(h.data[257:262]) == "ustar" {
		return fmt.Errorf("replay %s: it is a tar archive: unpack it first", s.path)
	}
	for _, f := range formats() {
		if f.is(h) {
			s.playable, err = f.open(&s.shared, in)
			return err
		}
	}
	return unknownFormat{fmt.Errorf("replay %s: unknown recording format; known formats are %s", s.path, formatList())}
}

// ErrUnknownFormat is returned for a file in an unknown format. [Formats] lists the known ones.
var ErrUnknownFormat = errors.New("unknown recording format")

// unknownFormat wraps an error so that it matches ErrUnknownFormat.
type unknownFormat struct{ error }

func (u unknownFormat) Is(err error) bool { return err == ErrUnknownFormat }
func (u unknownFormat) Unwrap() error     { return u.error }

// Formats returns the names of the known formats.
func Formats() string { return formatList() }

// prepare fills in the defaults of the configuration.
func (s *shared) prepare() error {
	if math.IsNaN(s.config.Speed) {
		return errors.New("speed is not a number")
	}
	if s.config.Logger == nil {
		s.config.Logger = noLogger()
	}
	if s.config.Input != nil {
		if s.stream = (&onceReader{source: s.config.Input}); s.config.Loop {
			return errors.New("an input that can be read only once cannot be looped")
		}
	}
	return nil
}

func openRecorded(s *shared, in *input) (playable, error) {
	filter := s.filter()
	return openRecords(s, in, func() (decoder, error) { return &recorder.Events{Filter: filter}, nil })
}

func openDBN(s *shared, in *input) (playable, error) {
	c := dbn.Config{Filter: s.filter(), Orders: s.config.Orders}
	return openRecords(s, in, func() (decoder, error) { return dbn.New(c), nil })
}

func openIEX(s *shared, in *input) (playable, error) {
	filter := s.filter()
	return openRecords(s, in, func() (decoder, error) { return iex.New(filter), nil })
}

func openITCH(s *shared, in *input) (playable, error) {
	date, err := s.date()
	if err != nil {
		return nil, fmt.Errorf("replay %s: NASDAQ ITCH: %w", s.path, err)
	}
	c := itch.Config{Midnight: date, Filter: s.filter()}
	return openRecords(s, in, func() (decoder, error) { return itch.New(c), nil })
}

// ended reports whether err is the end of the file.
func ended(err error) bool { return errors.Is(err, io.EOF) }

// truncated reports whether a file is truncated and its format allows that: a recorder that was
// killed leaves such files.
func truncated(d decoder, err error) bool {
	_, ok := d.(interface{ AllowsTruncation() })
	return ok && errors.Is(err, io.ErrUnexpectedEOF)
}
