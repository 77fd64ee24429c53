package wire

import "errors"

// AppendTime appends a Unix time in nanoseconds as RFC 3339 in UTC with nine fraction digits,
// without quotes. The width is fixed, so that texts sort in time order. It takes a third of the
// time of time.AppendFormat, which matters because every message has a time.
func AppendTime(b []byte, ns int64) []byte {
	sec, frac := ns/1e9, ns%1e9
	if frac < 0 {
		frac += 1e9
		sec--
	}
	day, rest := sec/86400, sec%86400
	if rest < 0 {
		rest += 86400
		day--
	}
	year, month, dayOfMonth := civil(day)
	at := len(b)
	b = append(b, "0000-00-00T00:00:00.000000000Z"...)
	t := b[at:]
	put(t[0:4], year)
	put(t[5:7], month)
	put(t[8:10], dayOfMonth)
	put(t[11:13], int(rest/3600))
	put(t[14:16], int(rest/60%60))
	put(t[17:19], int(rest%60))
	put(t[20:29], int(frac))
	return b
}

// put writes v in decimal over all of b.
func put(b []byte, v int) {
	u, i := uint32(v), len(b)
	for ; i >= 2; i -= 2 {
		pair := u % 100
		u /= 100
		b[i-2], b[i-1] = byte('0'+pair/10), byte('0'+pair%10)
	}
	if i == 1 {
		b[0] = byte('0' + u%10)
	}
}

// civil converts days since 1970-01-01 to a date of the Gregorian calendar. It counts from
// 0000-03-01, so that the leap day is the last day of its year.
func civil(day int64) (y, m, d int) {
	day += 719468
	era := day / 146097
	if day < 0 {
		era = (day - 146096) / 146097
	}
	doe := day - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp + 3)
	if m > 12 {
		m -= 12
	}
	y = int(yoe + era*400)
	if m <= 2 {
		y++
	}
	return y, m, d
}

// ErrTime is returned by ParseTime.
var ErrTime = errors.New("not an RFC 3339 time between the years 1970 and 2261")

// ParseTime parses an RFC 3339 time with up to nine fraction digits into Unix nanoseconds. T and Z
// must be upper case. Unlike time.Parse it rejects a decimal comma and one-digit hours, and it does
// not allocate.
func ParseTime[T string | []byte](s T) (int64, error) {
	if len(s) < len("1970-01-01T00:00:00Z") ||
		s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, ErrTime
	}
	year, month, day := digits(s, 0, 4), digits(s, 5, 7), digits(s, 8, 10)
	hour, minute, second := digits(s, 11, 13), digits(s, 14, 16), digits(s, 17, 19)
	if year < 0 || month < 0 || day < 0 || uint(hour) > 23 || uint(minute) > 59 || uint(second) > 59 {
		return 0, ErrTime
	}
	days := daysTo(year, month, day)
	if y, m, d := civil(days); y != year || m != month || d != day {
		return 0, ErrTime
	}
	i, frac := 19, int64(0)
	if s[i] == '.' {
		start := i + 1
		unit := int64(1e9)
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
			unit /= 10
			frac += int64(s[i]-'0') * unit
		}
		if i == start || i-start > 9 {
			return 0, ErrTime
		}
	}
	offset, ok := zone(s, i)
	sec := days*86400 + int64(hour*3600+minute*60+second-offset)
	const year2262 = 9214646400
	if !ok || sec < 0 || sec >= year2262 {
		return 0, ErrTime
	}
	return sec*1e9 + frac, nil
}

// zone parses the end of a time from index i: Z, or hours and minutes from UTC. The offset is in
// seconds.
func zone[T string | []byte](s T, i int) (offset int, ok bool) {
	switch {
	case len(s) == i+1:
		return 0, s[i] == 'Z'
	case len(s) != i+6 || s[i+3] != ':' || s[i] != '+' && s[i] != '-':
		return 0, false
	}
	h, m := digits(s, i+1, i+3), digits(s, i+4, i+6)
	if uint(h) > 23 || uint(m) > 59 {
		return 0, false
	}
	offset = h*3600 + m*60
	if s[i] == '-' {
		offset = -offset
	}
	return offset, true
}

// digits returns the number in s[from:to], or -1 if it is not a number.
func digits[T string | []byte](s T, from, to int) int {
	n := 0
	for i := from; i < to; i++ {
		d := s[i] - '0'
		if d > 9 {
			return -1
		}
		n = n*10 + int(d)
	}
	return n
}

// daysTo is the inverse of civil. A day past the end of its month becomes a day of the next month.
func daysTo(y, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400 // incorrect for years before 0, which are out of range
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return int64(era)*146097 + int64(doe) - 719468
}
