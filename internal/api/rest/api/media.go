package api

import (
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/api/openapi"
)

// Media types of answers and bodies.
const (
	MediaJSON   = openapi.JSON
	MediaLines  = openapi.Lines
	MediaCSV    = openapi.CSV
	MediaEvents = openapi.Events
	MediaForm   = openapi.Form
)

// Negotiate returns the media type in offers that the Accept header prefers (RFC 9110, section
// 12.5.1). It returns the first offer if there is no preference, and "" if the client accepts no
// offer. For each offer, the most specific range in the header decides. A header that is missing or
// cannot be parsed accepts everything.
func Negotiate(values []string, offers []string) string {
	ranges := mediaRanges(values)
	if len(ranges) == 0 {
		return offers[0]
	}
	best, quality := "", 0.0
	for _, offer := range offers {
		if q := qualityOf(offer, ranges); q > quality {
			best, quality = offer, q
		}
	}
	return best
}

// mediaRange is an element of an Accept header.
type mediaRange struct {
	media   string
	quality float64
}

// maxRanges bounds how many elements of an Accept header are read.
const maxRanges = 64

func mediaRanges(values []string) (list []mediaRange) {
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			media, param, err := mime.ParseMediaType(member)
			if err != nil {
				continue
			}
			if list = append(list, mediaRange{media, quality(param["q"])}); len(list) == maxRanges {
				return list
			}
		}
	}
	return list
}

func qualityOf(offer string, ranges []mediaRange) (q float64) {
	kind, _, _ := strings.Cut(offer, "/")
	best := 0
	for _, r := range ranges {
		weight := 0
		switch r.media {
		case offer:
			weight = 3
		case kind + "/*":
			weight = 2
		case "*/*":
			weight = 1
		}
		if weight > best {
			best, q = weight, r.quality
		}
	}
	return q
}

// quality parses a q parameter. It returns 1 if the parameter is missing or cannot be parsed.
func quality(q string) float64 {
	v, err := strconv.ParseFloat(q, 64)
	if err != nil || v < 0 || v > 1 {
		return 1
	}
	return v
}

// Tagged sets the ETag header and returns r, or 304 without a body if the client already has this
// answer.
func (q *Request) Tagged(etag string, r Result) Result {
	q.Out.Set("ETag", etag)
	if matched, ok := matchesETag(q.Header.Values("If-None-Match"), etag); ok {
		q.Out.Set("ETag", matched)
		return Result{Status: http.StatusNotModified}
	}
	return r
}

// EntityTag returns the entity tag for a body, which is a part of its SHA-256.
func EntityTag(body []byte) string {
	sum := sha256.Sum256(body)
	return QuoteTag(sum[:])
}

// QuoteTag returns the entity tag that is made of a SHA-256.
func QuoteTag(sum []byte) string {
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// matchesETag returns the entity tag in If-None-Match (RFC 9110, section 13.1.2) that equals etag
// or the tag of its compressed form. For "*" it returns etag. ok is false if none matches.
func matchesETag(values []string, etag string) (matched string, ok bool) {
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			member = strings.TrimPrefix(strings.TrimSpace(member), "W/")
			if member == "*" {
				return etag, true
			}
			for _, coding := range [...]string{"", "-" + codingGzip, "-" + codingZstd} {
				if plain, ok := strings.CutSuffix(member, coding+`"`); ok && plain+`"` == etag {
					return member, true
				}
			}
		}
	}
	return "", false
}
