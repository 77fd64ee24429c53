package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// TestGatewayAudits checks that a gateway records its start and its certificate.
func TestGatewayAudits(t *testing.T) {
	d, err := OpenData(t.Context(), DataConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	recorded := make(chan audit.Event, 100)
	d.db.Store = recording{d.db.Store, recorded}
	g, err := New(t.Context(), Config{Data: d, Listen: "127.0.0.1:0", TLS: TLS(certtest.Write(t, t.TempDir(), "a.example")), Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	if e := <-recorded; e.Kind != audit.Started || e.Detail != "v1" || e.Actor != "gateway" {
		t.Errorf("first %+v", e)
	}
	if e := <-recorded; e.Kind != audit.Certificate || !strings.HasPrefix(e.Detail, "valid until 2") {
		t.Errorf("then %+v", e)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// recording passes on the gateway's own events that were appended.
type recording struct {
	database.Store
	recorded chan audit.Event
}

func (d recording) Append(ctx context.Context, events ...audit.Event) error {
	err := d.Store.Append(ctx, events...)
	for _, e := range events {
		if err == nil && (e.Kind == audit.Started || e.Kind == audit.Certificate) {
			d.recorded <- e
		}
	}
	return err
}
