package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ruedahq/rueda/internal/data/recording"
)

// Recording verifies a recording from the reader's position to its end. If the recording becomes
// unreadable, that is a finding. findings is the number of findings kept for each check; 0 means
// 20. Recording returns the error of ctx.
func Recording(ctx context.Context, r *recording.Reader, findings int) (*Report, error) {
	m := r.Meta()
	v := New(Config{Channels: slices.Clone(m.Channels), Intervals: slices.Clone(m.Intervals), Findings: findings})
	v.DefineRows(m.Instruments)
	lines, err := v.recording(ctx, r)
	if err != nil {
		return nil, err
	}
	report := v.Report()
	report.Format = "recording"
	if m.Server != "" {
		report.Format += sentence(" of %s", m.Server)
	}
	report.Figures = append(report.Figures, Figure{"lines", uint64(lines)})
	return report, nil
}

func (v *Verifier) recording(ctx context.Context, r *recording.Reader) (lines int64, err error) {
	for lines = 1; ; lines++ {
		if lines%1024 == 0 && ctx.Err() != nil {
			return lines, ctx.Err()
		}
		line, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			if r.Torn() != nil {
				v.Note("%v", r.Torn())
			}
			return lines, nil
		case ctx.Err() != nil:
			return lines, ctx.Err()
		case err != nil:
			v.Unreadable(lines+1, err)
			return lines, nil
		}
		if line.IsNote() {
			var n recording.Note
			if err := n.Parse(line.Body); err != nil {
				v.Unreadable(int64(line.Number), err)
				continue
			}
			v.note(&n)
			continue
		}
		v.Text(int64(line.Number), line.At, line.Body)
	}
}

// note handles a note of the recorder.
func (v *Verifier) note(n *recording.Note) {
	switch n.Kind {
	case recording.Connected:
		v.DefineRows(n.Instruments)
		v.Interrupted()
	case recording.Disconnected:
		v.Note("the recorder lost its connection (%s) and reconnected", n.Reason)
		v.Interrupted()
	}
}

// DefineRows adds definitions in the format of a server.
func (v *Verifier) DefineRows(rows []recording.Row) {
	list, err := recording.Definitions(rows)
	if err != nil {
		v.Note("definitions that cannot be read: %v", err)
	}
	v.Define(list)
}

// Describe sets the source and the format of the report.
func (r *Report) Describe(source, format string, args ...any) *Report {
	r.Source, r.Format = source, fmt.Sprintf(format, args...)
	return r
}
