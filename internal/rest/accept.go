package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// Media types of answers.
const (
	mediaJSON   = "application/json"
	mediaLines  = "application/x-ndjson"
	mediaCSV    = "text/csv"
	mediaEvents = "text/event-stream"
	mediaForm   = "application/x-www-form-urlencoded"
)

// negotiate is the media type of offers that Accept (RFC 9110, section 12.5.1) prefers,
// the first of them where it has no preference; "" where it wants none of them. Of the
// ranges that match a type, the most specific decides. No header, or one that cannot be
// read, accepts everything.
func negotiate(values []string, offers []string) string {
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

// mediaRange is a member of Accept.
type mediaRange struct {
	media   string
	quality float64
}

// maxRanges bounds the members of a header that are looked at.
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

// quality is a q parameter; one that is not there or cannot be read is 1.
func quality(q string) float64 {
	v, err := strconv.ParseFloat(q, 64)
	if err != nil || v < 0 || v > 1 {
		return 1
	}
	return v
}

// checkBodyType wants a body of this media type, in UTF-8 and not compressed.
func checkBodyType(h http.Header, want string) *wire.Fault {
	bad := wire.NewFault(wire.UnsupportedMedia, "The body must be "+want+" in UTF-8, without a content encoding")
	if types := h.Values("Content-Type"); len(types) != 1 {
		return bad
	}
	media, param, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != want {
		return bad
	}
	if charset, ok := param["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return bad
	}
	for _, encoding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(encoding, "identity") {
			return bad
		}
	}
	return nil
}

// matchesETag is the member of If-None-Match (RFC 9110, section 13.1.2) that names etag, or a
// compressed form of what it is of; "*" is etag itself.
func matchesETag(values []string, etag string) (matched string, ok bool) {
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			member = strings.TrimPrefix(strings.TrimSpace(member), "W/")
			if member == "*" {
				return etag, true
			}
			for _, coding := range [...]string{codingNone, "-" + codingGzip, "-" + codingZstd} {
				if plain, ok := strings.CutSuffix(member, coding+`"`); ok && plain+`"` == etag {
					return member, true
				}
			}
		}
	}
	return "", false
}
