package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// acceptsJSON says whether Accept (RFC 9110, section 12.5.1) leaves application/json
// in. Of the ranges that match, the most specific decides. No header, or one that
// cannot be read, accepts everything.
func acceptsJSON(values []string) bool {
	given, best, accepted := false, 0, false
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			media, param, err := mime.ParseMediaType(member)
			if err != nil {
				continue
			}
			given = true
			weight := map[string]int{"*/*": 1, "application/*": 2, "application/json": 3}[media]
			if weight > best {
				best, accepted = weight, !zeroQuality(param["q"])
			}
		}
	}
	return !given || accepted
}

func zeroQuality(q string) bool {
	v, err := strconv.ParseFloat(q, 64)
	return err == nil && v == 0
}

// checkBodyType wants application/json, in UTF-8 and not compressed.
func checkBodyType(h http.Header) *wire.Fault {
	bad := &wire.Fault{Reason: wire.UnsupportedMedia}
	if types := h.Values("Content-Type"); len(types) != 1 {
		return bad
	}
	media, param, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != "application/json" {
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

// matchesETag says whether If-None-Match (RFC 9110, section 13.1.2) names etag.
func matchesETag(values []string, etag string) bool {
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			member = strings.TrimSpace(member)
			if member == "*" || strings.TrimPrefix(member, "W/") == etag {
				return true
			}
		}
	}
	return false
}
