package command

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:8080":            "local",
		"http://localhost:8080/":           "local",
		"http://[::1]:8080":                "local",
		"ws://127.0.0.1:8080/stream":       "local",
		"https://api.broker.example/v1":    "remote",
		"wss://api.broker.example/stream/": "remote",
		"ws://api.broker.example":          "Use https://api.broker.example",
		"http://api.broker.example":        "Use https://api.broker.example",
		"http://127.evil.example":          "Use https://127.evil.example",
		"https://ana:x@broker.example":     "Use an address like",
		"https://broker.example?a=b":       "Use an address like",
		"ftp://127.0.0.1":                  "Use an address like",
		"127.0.0.1:8080":                   "http://127.0.0.1:8080",
		"localhost:8080":                   "http://localhost:8080",
		"api.broker.example":               "https://api.broker.example",
		"http:127.0.0.1:8080":              "Two slashes follow the scheme: http://127.0.0.1:8080",
		"https:/api.broker.example/":       "Two slashes follow the scheme: https://api.broker.example/",
		"http:":                            "Use an address like",
		"":                                 "Use an address like",
	} {
		local, err := CheckURL(address)
		var f *Failure
		got := map[bool]string{true: "local", false: "remote"}[local]
		if errors.As(err, &f) {
			if got = f.advice; f.status != ExitUsage {
				t.Errorf("%s: status %d", address, f.status)
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v, want %q", address, got, err, want)
		}
	}
}
