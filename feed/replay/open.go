package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/ruedahq/rueda/feed/replay/dbn"
	"github.com/ruedahq/rueda/feed/replay/iex"
	"github.com/ruedahq/rueda/feed/replay/itch"
	"github.com/ruedahq/rueda/feed/replay/lobster"
	recorder "github.com/ruedahq/rueda/internal/recording" // a test here calls its files recordings
	"github.com/ruedahq/rueda/market"
)

// playable is a recording of one format.
type playable interface {
	// instruments are what is known of before the recording is played.
	instruments() []market.Instrument

	// play plays it once. Instruments are defined by run, and what was played
	// is counted there. What stands before a fault is published; the error is then an *Error.
	play(ctx context.Context, run *run) error
}

// head is the beginning of a recording, by which its format is told.
type head struct {
	data   []byte // unpacked
	whole  bool   // data is all of the file
	folder bool   // it is no file, and data is empty
	path   string
}

// format is one that is known.
type format struct {
	name string // in the words of the error that lists them
	is   func(h *head) bool

	// open makes the playable of a recording. in stands at its beginning and is not kept:
	// play opens the file again. It is nil for a folder.
	open func(s *shared, in *input) (playable, error)
}

// formats are all that are known. The first that is, is. The last takes any text, for its
// errors tell best what is wrong with one.
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

// known lists the formats.
func known() string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + ", plain, gzip or zstd"
}

// headSize is how much of a recording its format is told by.
const headSize = 64 << 10

// Open looks at a recording, tells what format it is of, and makes a Source of it.
// The file is opened again by each Run. The error says so where it is none of the
// recordings that are known, and is an *Error where one is damaged.
func Open(path string, config Config) (*Source, error) {
	s := &Source{shared: shared{path: path, config: config, placed: make(map[market.InstrumentID]bool)}}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
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

// recognize makes the playable of the format that is the recording's.
func (s *Source) recognize(h *head, in *input) (err error) {
	for _, f := range formats() {
		if f.is(h) {
			s.tape, err = f.open(&s.shared, in)
			return err
		}
	}
	return unknown{fmt.Errorf("replay %s: not a recording that is known: %s", s.path, known())}
}

// ErrUnknown is of a file in none of the formats that are known, which [Formats] lists.
var ErrUnknown = errors.New("not a recording that is known")

// unknown is an error of words of its own that is ErrUnknown.
type unknown struct{ error }

func (u unknown) Is(err error) bool { return err == ErrUnknown }
func (u unknown) Unwrap() error     { return u.error }

// Formats lists the formats that are known, in words.
func Formats() string { return known() }

// prepare fills in what the configuration leaves open.
func (s *shared) prepare() error {
	if math.IsNaN(s.config.Speed) {
		return errors.New("speed is not a number")
	}
	if s.config.Logger == nil {
		s.config.Logger = noLogger()
	}
	return nil
}

func openRecorded(s *shared, in *input) (playable, error) {
	filter := s.filter()
	return openRecords(s, in, func() (decoder, error) { return &recorder.Events{Filter: filter}, nil })
}

func openDBN(s *shared, in *input) (playable, error) {
	filter := s.filter()
	return openRecords(s, in, func() (decoder, error) { return dbn.New(filter), nil })
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

// at end of file there is nothing more to read; any other error is one.
func ended(err error) bool { return errors.Is(err, io.EOF) }

// cut says that a file is cut off and its format has a use for what is left: a recorder that was
// killed leaves such files.
func cut(d decoder, err error) bool {
	_, ok := d.(interface{ MayBeCut() })
	return ok && errors.Is(err, io.ErrUnexpectedEOF)
}
