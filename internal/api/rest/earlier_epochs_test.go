package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
)

// openStored returns a hub with the journal of a folder, and data with a delay of 15 minutes.
func openStored(t *testing.T, folder string) (*hub.Hub, *journal.Journal) {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Config{Folder: folder, BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j, Markets: []market.Market{{ID: "BYMA"}, {ID: "OTHER"}}, Delays: []time.Duration{15 * time.Minute}})
	if err := h.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h, j
}

// TestHistoryOfEarlierEpochs checks answers in a new epoch, before a feed has defined instruments.
// Those that have stored rows are listed without a status, and their rows are answered: to a user
// of delayed data if they are old enough, and to nobody without the right to the market.
func TestHistoryOfEarlierEpochs(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h, j := openStored(t, folder)
		trade := func(id string) {
			t.Helper()
			parsed, err := market.ParseInstrumentID(id)
			if err != nil {
				t.Fatal(err)
			}
			handle, err := h.Define(market.Instrument{ID: parsed, PriceDecimals: 2})
			if err == nil {
				err = h.Publish([]market.Event{{Kind: market.KindTrade, Handle: handle, Time: time.Now().UnixNano(), Price: market.Scale, Size: market.Scale}})
			}
			if h.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		trade(ggal)
		trade("XYZ|OTHER|CI")
		time.Sleep(20 * time.Minute)
		trade(ggal)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(folder, "state")); err != nil {
			t.Fatal(err)
		}
		h, j = openStored(t, folder)
		defer func() {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		}()
		a := &archive{t: t, journal: j}
		a.gateway = newGateway(t, func(c *rest.Config, _ *auth.Config) { c.Hub, c.Journal = h, j })
		for user, want := range map[string][]uint64{"historian": {1, 2}, "late": {1}} {
			a.access, _ = a.login(t, user)
			var list struct {
				Data struct{ Instruments []map[string]any }
			}
			if err := json.Unmarshal(a.ask("/market/instruments").Body.Bytes(), &list); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, in := range list.Data.Instruments {
				if ids = append(ids, fmt.Sprint(in["instrument"])); in["status"] != nil {
					t.Errorf("%s: %v", user, in)
				}
			}
			if !slices.Equal(ids, []string{ggal, "XYZ|OTHER|CI"}) {
				t.Errorf("%s: instruments %v", user, ids)
			}
			var numbers []uint64
			p := a.rows(historyPath("trades"))
			for _, raw := range p.Trades {
				var m struct{ N uint64 }
				if err := json.Unmarshal(raw, &m); err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, m.N)
			}
			if !slices.Equal(numbers, want) {
				t.Errorf("%s: trades %v, want %v", user, numbers, want)
			}
			if w := a.ask("/market/trades?instrument=NOPE|BYMA|24hs"); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s: an instrument without rows: %d %s", user, w.Code, w.Body)
			}
			if w := a.ask("/market/status"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "GGAL") {
				t.Errorf("%s: an unknown status is one that differs: %d %s", user, w.Code, w.Body)
			}
			if w := a.ask("/market/snapshot?instruments=" + ggal); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `[{"instrument":"`+ggal+`"}]`) {
				t.Errorf("%s: snapshot: %d %s", user, w.Code, w.Body)
			}
			if w := a.ask("/market/trades?instrument=XYZ|OTHER|CI"); (w.Code == http.StatusForbidden) != (user == "late") {
				t.Errorf("%s: trades of another market: %d %s", user, w.Code, w.Body)
			}
		}
	})
}
