// Conditions: when what was read is ill.

package health

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is one test of what was read. Exactly one is given; for an XID, none means one XID.
type Condition struct {
	Increase  *Increase  `json:"increase,omitempty"`
	Rate      *Rate      `json:"rate,omitempty"`
	Equals    OneOf      `json:"equals,omitempty"`
	NotEquals NoneOf     `json:"notEquals,omitempty"`
	Above     *Above     `json:"above,omitempty"`
	Bits      *Bits      `json:"bits,omitempty"`
	ErrorRate *ErrorRate `json:"bitErrorRate,omitempty"`
	LessThan  *LessThan  `json:"lessThan,omitempty"`
	Unmasked  *Unmasked  `json:"unmasked,omitempty"`
	Missing   *Missing   `json:"missing,omitempty"`
}

// Increase holds where a counter rose at least so often within the window.
type Increase struct {
	AtLeast int64           `json:"atLeast"`
	Within  metav1.Duration `json:"within,omitzero"`
}

// Rate holds where a counter rises at least so often per second or minute, over the window.
type Rate struct {
	AtLeast int64           `json:"atLeast,omitempty"`
	Per     metav1.Duration `json:"per"`
	Within  metav1.Duration `json:"within,omitzero"`
	// LaneLimit: more than a PCIe link of this generation (field 237) and width (238) may have,
	// at a bit error rate of 10^-12 (pcieGenReplayRatePerLane of DcgmHealthWatch.cpp).
	LaneLimit bool `json:"laneLimit,omitempty"`
}

// OneOf holds where the value is one of these.
type OneOf []int64

// NoneOf holds where the value is none of these.
type NoneOf []int64

// Above holds where the value is greater.
type Above int64

// Bits looks at a part of a mask.
type Bits struct {
	Shift   uint  `json:"shift"`
	Width   uint  `json:"width"`
	Equals  OneOf `json:"equals,omitempty"`
	AtLeast int64 `json:"atLeast,omitempty"`
}

// ErrorRate holds where a packed bit error rate is greater: a mantissa in bits 8 to 11, and a
// negative power of ten in bits 0 to 7 (NVML_NVLINK_BER_* of nvml.h; fields 1215 and 1217).
type ErrorRate struct {
	Over float64 `json:"over"`
}

// LessThan holds where the value is less than another field's, under load where that is asked
// for: an idle PCIe link slows down to save power.
type LessThan struct {
	Field Field `json:"field"`
	// BusyFrom is the least use of the GPU, in percent (field 203). Default: 0.
	BusyFrom int64 `json:"busyFrom,omitempty"`
}

// Unmasked holds where a bit is set that another field does not mask, and that a third one
// calls fatal, or does not (PCIe advanced error reporting; fields 1307, 1308 and 1309).
type Unmasked struct {
	Mask     Field `json:"mask"`
	Severity Field `json:"severity"`
	Fatal    bool  `json:"fatal,omitempty"`
}

// Missing holds where an entity that was there is not.
type Missing struct{}

const fieldPCIeGeneration, fieldPCIeWidth, fieldUtilisation = Field(237), Field(238), Field(203)

// defaultWindow is how long an increase is remembered where a row does not say.
const defaultWindow = 10 * time.Minute

// reading is what a condition is about.
type reading struct {
	value  int64
	others map[Field]Value
	rises  rises
	now    time.Time
}

// other reads another field of the entity.
func (r *reading) other(f Field) (int64, bool) {
	v, ok := r.others[f]
	return v.Int, ok && !v.Blank
}

// test is a condition's only member.
type test interface {
	// holds says whether it holds, and whether that can be said at all.
	holds(*reading) (holds, known bool)
	// limit says what it holds against, for people.
	limit() string
	valid() error
}

func (c *Condition) tests() []test {
	var given []test
	add := func(is bool, t test) {
		if is {
			given = append(given, t)
		}
	}
	add(c.Increase != nil, c.Increase)
	add(c.Rate != nil, c.Rate)
	add(c.Equals != nil, c.Equals)
	add(c.NotEquals != nil, c.NotEquals)
	add(c.Above != nil, c.Above)
	add(c.Bits != nil, c.Bits)
	add(c.ErrorRate != nil, c.ErrorRate)
	add(c.LessThan != nil, c.LessThan)
	add(c.Unmasked != nil, c.Unmasked)
	add(c.Missing != nil, c.Missing)
	return given
}

func (c *Condition) window() time.Duration {
	switch {
	case c.Increase != nil:
		return c.Increase.Within.Duration
	case c.Rate != nil:
		return c.Rate.Within.Duration
	}
	return 0
}

func (i *Increase) holds(r *reading) (bool, bool) {
	return r.rises.count(r.now, i.Within.Duration) >= float64(i.AtLeast), true
}

func (a *Rate) holds(r *reading) (bool, bool) {
	rate := r.rises.count(r.now, a.Within.Duration) * a.Per.Seconds() / a.Within.Seconds()
	if !a.LaneLimit {
		return rate >= float64(a.AtLeast), true
	}
	limit, known := laneLimit(r)
	return rate > limit, known
}

// laneLimit is how many replays a minute a PCIe link may have: 10^-12 of the bits of its lanes.
func laneLimit(r *reading) (float64, bool) {
	gigabits := []float64{2.5, 5, 8, 16, 32, 64} // per second and lane, from generation 1 on
	generation, known := r.other(fieldPCIeGeneration)
	width, alsoKnown := r.other(fieldPCIeWidth)
	if !known || !alsoKnown || generation < 1 || width < 1 {
		return 0, false
	}
	perLane := gigabits[min(generation, int64(len(gigabits)))-1] / 1000 * 60
	return math.Ceil(perLane * float64(width)), true
}

func (o OneOf) holds(r *reading) (bool, bool) { return o.contains(r.value), true }

func (o OneOf) contains(v int64) bool { return slices.Contains(o, v) }

func (o NoneOf) holds(r *reading) (bool, bool) { return !slices.Contains(o, r.value), true }

func (a *Above) holds(r *reading) (bool, bool) { return r.value > int64(*a), true }

func (b *Bits) holds(r *reading) (bool, bool) {
	part := r.value >> b.Shift & (1<<b.Width - 1)
	return slices.Contains(b.Equals, part) || b.AtLeast > 0 && part >= b.AtLeast, true
}

func (e *ErrorRate) holds(r *reading) (bool, bool) {
	return bitErrorRate(r.value) > e.Over*(1+1e-9), true
}

// bitErrorRate unpacks one. No errors are written as 15e-255, or as nothing at all.
func bitErrorRate(packed int64) float64 {
	return float64(packed>>8&0xf) * math.Pow(10, -float64(packed&0xff))
}

func (l *LessThan) holds(r *reading) (bool, bool) {
	other, known := r.other(l.Field)
	if l.BusyFrom > 0 {
		use, alsoKnown := r.other(fieldUtilisation)
		known = known && alsoKnown && (use >= l.BusyFrom || r.value >= other)
	}
	return r.value < other, known
}

func (u *Unmasked) holds(r *reading) (bool, bool) {
	mask, known := r.other(u.Mask)
	severity, alsoKnown := r.other(u.Severity)
	if !u.Fatal {
		severity = ^severity
	}
	return r.value & ^mask & severity & math.MaxUint32 != 0, known && alsoKnown
}

func (*Missing) holds(*reading) (bool, bool) { return true, true } // where it is asked, it is

func (i *Increase) limit() string {
	return fmt.Sprintf("rises by %d or more in %s", i.AtLeast, short(i.Within.Duration))
}

func (a *Rate) limit() string {
	if a.LaneLimit {
		return fmt.Sprintf("more per %s than the lanes may have, over %s", unit(a.Per.Duration), short(a.Within.Duration))
	}
	return fmt.Sprintf("%d or more per %s, over %s", a.AtLeast, unit(a.Per.Duration), short(a.Within.Duration))
}

func (o OneOf) limit() string { return "is " + joined(o, " or ") }

func (o NoneOf) limit() string { return "is not " + joined(o, " or ") }

func (a *Above) limit() string { return fmt.Sprintf("is above %d", *a) }

func (b *Bits) limit() string {
	bits := fmt.Sprintf("bits %d to %d ", b.Shift, b.Shift+b.Width-1)
	if b.AtLeast > 0 {
		return fmt.Sprintf("%sare %d or more", bits, b.AtLeast)
	}
	return bits + "are " + joined(b.Equals, " or ")
}

func (e *ErrorRate) limit() string { return fmt.Sprintf("is over %g", e.Over) }

func (l *LessThan) limit() string {
	if l.BusyFrom > 0 {
		return fmt.Sprintf("is less than field %d while the GPU is %d %% busy", l.Field, l.BusyFrom)
	}
	return fmt.Sprintf("is less than field %d", l.Field)
}

func (u *Unmasked) limit() string {
	fatal := "not "
	if u.Fatal {
		fatal = ""
	}
	return fmt.Sprintf("has a bit that field %d does not mask, %sfatal by field %d", u.Mask, fatal, u.Severity)
}

func (*Missing) limit() string { return "is no longer there" }

func joined(values []int64, by string) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, by)
}

func unit(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	}
	return short(d)
}

// short writes 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var errWindow = errors.New("a window is between a second and a day")

func validWindow(d time.Duration) error {
	if d < time.Second || d > 24*time.Hour {
		return errWindow
	}
	return nil
}
