package query

import "testing"

// TestConsoleOf checks the URL of the console for the addresses that --url accepts.
func TestConsoleOf(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:8080":             "http://127.0.0.1:8080/",
		"https://api.broker.example/":       "https://api.broker.example/",
		"ws://127.0.0.1:8080/stream":        "http://127.0.0.1:8080/",
		"wss://api.broker.example/stream/":  "https://api.broker.example/",
		"https://broker.example/api/stream": "https://broker.example/api/",
	} {
		if got := consoleOf(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
