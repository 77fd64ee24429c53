// Package alerts tests the alerts of deploy/prometheus with a real Prometheus. Each cause of an
// alert is applied to a gateway in a process of its own, and the alert has to fire from the series
// that Prometheus has scraped.
package alerts
