package lab

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// withDays is a time that begins with days.
var withDays = regexp.MustCompile(`^([-+]?)([0-9]*\.?[0-9]+)d(.*)$`)

// ParseTime reads a time as time.ParseDuration does, which may begin with days: 90s, 1h30m, 30d, 1d12h.
func ParseTime(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no time such as 90s, 12h or 30d", text)
	m := withDays.FindStringSubmatch(text)
	if m == nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, wrong
		}
		return d, nil
	}
	days, err := strconv.ParseFloat(m[2], 64)
	if err != nil || days*24*float64(time.Hour) > math.MaxInt64/2 {
		return 0, wrong
	}
	d := time.Duration(days * 24 * float64(time.Hour))
	if m[3] != "" {
		rest, err := time.ParseDuration(m[3])
		if err != nil || rest < 0 || rest > math.MaxInt64/2 || m[3][0] == '+' {
			return 0, wrong
		}
		d += rest
	}
	if m[1] == "-" {
		d = -d
	}
	return d, nil
}
