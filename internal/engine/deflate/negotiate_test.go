package deflate

import "testing"

// TestNegotiate checks offers and their results.
func TestNegotiate(t *testing.T) {
	const (
		no     = Off
		yes    = On
		window = OnWindow
		bad    = Agreement(255)
	)
	for _, c := range []struct {
		want   Agreement
		values []string
	}{
		{no, nil},
		{no, []string{""}},
		{no, []string{" , ,", ","}},
		{no, []string{"x-webkit-deflate-frame"}},
		{no, []string{"Permessage-Deflate"}},
		{yes, []string{"permessage-deflate"}},
		{yes, []string{" permessage-deflate ,"}},
		{yes, []string{"permessage-deflate;client_max_window_bits"}},
		{yes, []string{"permessage-deflate; client_max_window_bits=8"}},
		{yes, []string{"permessage-deflate; client_max_window_bits=15"}},
		{yes, []string{`permessage-deflate; client_max_window_bits="10"`}},
		{yes, []string{"permessage-deflate ; server_no_context_takeover\t; client_no_context_takeover"}},
		{window, []string{"permessage-deflate; server_max_window_bits=15"}},
		{window, []string{`permessage-deflate; server_max_window_bits = "15"; client_max_window_bits`}},
		{no, []string{"permessage-deflate; server_max_window_bits=14"}},
		{no, []string{"permessage-deflate; server_max_window_bits=8"}},
		{no, []string{"permessage-deflate; server_max_window_bits=015"}},
		{no, []string{"permessage-deflate; server_max_window_bits=16"}},
		{no, []string{"permessage-deflate; server_max_window_bits"}},
		{no, []string{"permessage-deflate; client_max_window_bits=7"}},
		{no, []string{"permessage-deflate; client_max_window_bits=16"}},
		{no, []string{"permessage-deflate; client_max_window_bits=08"}},
		{no, []string{"permessage-deflate; client_max_window_bits=1a"}},
		{no, []string{"permessage-deflate; server_no_context_takeover=1"}},
		{no, []string{"permessage-deflate; client_no_context_takeover=true"}},
		{no, []string{"permessage-deflate; client_no_context_takeover; client_no_context_takeover"}},
		{no, []string{"permessage-deflate; client_max_window_bits; client_max_window_bits=10"}},
		{no, []string{"permessage-deflate; mux"}},
		{no, []string{"mux; client_no_context_takeover"}},
		{yes, []string{"permessage-deflate; server_max_window_bits=10, permessage-deflate"}},
		{yes, []string{"permessage-deflate; server_max_window_bits=10", "foo; a=b; c", "permessage-deflate; client_max_window_bits"}},
		{yes, []string{"permessage-deflate, permessage-deflate; server_max_window_bits=15"}},
		{window, []string{"permessage-deflate; server_max_window_bits=15", "permessage-deflate"}},
		{bad, []string{"permessage-deflate;"}},
		{bad, []string{"permessage-deflate; =1"}},
		{bad, []string{"permessage-deflate; client_max_window_bits="}},
		{bad, []string{`permessage-deflate; client_max_window_bits="`}},
		{bad, []string{`permessage-deflate; client_max_window_bits=""`}},
		{bad, []string{`permessage-deflate; client_max_window_bits="1 0"`}},
		{bad, []string{"permessage-deflate client_max_window_bits"}},
		{bad, []string{"permessage-deflate; a b"}},
		{bad, []string{"permessage-deflate", "; a"}},
		{bad, []string{"perm\x00"}},
		{bad, []string{"<script>"}},
		{bad, []string{"é"}},
	} {
		got, ok := Negotiate(c.values)
		if !ok {
			got = bad
		}
		if got != c.want {
			t.Errorf("%q: got %d, want %d", c.values, got, c.want)
		}
	}
}
