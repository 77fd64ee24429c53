package wire

import (
	"errors"
	"testing"
)

// TestSocketErrors checks the error table of the contract: code, close and retry.
func TestSocketErrors(t *testing.T) {
	type row struct {
		code          int
		closes, retry bool
	}
	table := map[row][]Reason{
		{400, false, false}: {BadJSON, BadMessage, UnknownAction, BadField, BadInstrument},
		{401, false, false}: {NotAuthenticated},
		{401, true, false}:  {InvalidToken, TokenExpired, TokenRevoked},
		{403, false, false}: {Forbidden, NotEntitled, SubjectMismatch},
		{404, false, false}: {UnknownInstrument, UnknownChannel},
		{408, true, true}:   {AuthTimeout},
		{409, true, false}:  {Replaced},
		{413, false, false}: {SubscriptionLimit},
		{413, true, false}:  {MessageTooBig},
		{422, false, false}: {UnsupportedOption, RangeTooLarge},
		{429, false, true}:  {RateLimited},
		{429, true, true}:   {ConnectionLimit, TooManyFailures},
		{500, true, true}:   {Internal, "no_such_reason"},
		{503, true, true}:   {ShuttingDown, Overloaded},
		{504, true, true}:   {PongTimeout},
		{507, true, true}:   {SlowClient},
	}
	for want, reasons := range table {
		for _, r := range reasons {
			e := r.Socket()
			if got := (row{e.Code, e.Closes, e.Retry}); got != want {
				t.Errorf("%s: got %+v, want %+v", r, got, want)
			}
			if e.Msg == "" {
				t.Errorf("%s has no text", r)
			}
		}
	}
}

func TestFaultIsError(t *testing.T) {
	var err error = NewFault(BadField, "depth must be a number")
	var f *Fault
	if !errors.As(err, &f) || err.Error() != "bad_field: depth must be a number" {
		t.Errorf("got %v", err)
	}
	if got := NewFault(BadJSON, "").Error(); got != "bad_json" {
		t.Errorf("got %q", got)
	}
}
