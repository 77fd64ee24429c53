package pages

import (
	"fmt"
	"net/http"
	"time"
)

// securityPath is the path of the file that explains how to report a vulnerability (RFC 9116).
const securityPath = "/.well-known/security.txt"

// securityText returns the handler that serves security.txt. contact is the URI for reports, such
// as mailto:security@broker.example. The file expires six months after the answer, and browsers
// keep it for a day.
func securityText(contact, publicURL string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "max-age=86400")
		end := time.Now().UTC().AddDate(0, 6, 0).Truncate(24 * time.Hour)
		fmt.Fprintf(w, "Contact: %s\nExpires: %s\n", contact, end.Format(time.RFC3339))
		if publicURL != "" {
			fmt.Fprintf(w, "Canonical: %s%s\n", publicURL, securityPath)
		}
	})
}
