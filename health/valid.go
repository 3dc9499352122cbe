// What a condition must be like to mean anything.

package health

import (
	"errors"
	"fmt"
	"math"
	"time"
)

func (i *Increase) valid() error {
	if i.AtLeast < 1 {
		return errors.New("increase.atLeast is less than 1")
	}
	return validWindow(i.Within.Duration)
}

func (a *Rate) valid() error {
	if (a.AtLeast > 0) == a.LaneLimit || a.AtLeast < 0 {
		return errors.New("rate needs either atLeast or laneLimit")
	}
	if a.LaneLimit && a.Per.Duration != time.Minute {
		return errors.New("rate.laneLimit is per 1m")
	}
	if a.Per.Duration < time.Second || a.Per.Duration > 24*time.Hour {
		return errors.New("rate.per is not between a second and a day")
	}
	return validWindow(a.Within.Duration)
}

func (o OneOf) valid() error {
	if len(o) == 0 {
		return errors.New("equals lists no value")
	}
	return nil
}

func (o NoneOf) valid() error {
	if len(o) == 0 {
		return errors.New("notEquals lists no value")
	}
	return nil
}

func (*Above) valid() error { return nil }

func (b *Bits) valid() error {
	if b.Width < 1 || b.Shift > 62 || b.Width > 62 || b.Shift+b.Width > 63 {
		return fmt.Errorf("bits %d to %d are not within 0 and 62", b.Shift, b.Shift+b.Width-1)
	}
	if (b.AtLeast > 0) == (len(b.Equals) > 0) || b.AtLeast < 0 {
		return errors.New("bits needs either equals or atLeast")
	}
	return nil
}

func (e *ErrorRate) valid() error {
	if !(e.Over > 0 && e.Over < 1) || math.IsNaN(e.Over) {
		return errors.New("bitErrorRate.over is not between 0 and 1")
	}
	return nil
}

func (l *LessThan) valid() error {
	if l.Field == 0 || l.BusyFrom < 0 || l.BusyFrom > 100 {
		return errors.New("lessThan needs a field, and a busyFrom of 0 to 100 percent")
	}
	return nil
}

func (u *Unmasked) valid() error {
	if u.Mask == 0 || u.Severity == 0 {
		return errors.New("unmasked needs a mask and a severity")
	}
	return nil
}

func (*Missing) valid() error { return nil }

// fields are the others that a condition reads.
func (c *Condition) fields() []Field {
	switch {
	case c.Rate != nil && c.Rate.LaneLimit:
		return []Field{fieldPCIeGeneration, fieldPCIeWidth}
	case c.LessThan != nil && c.LessThan.BusyFrom > 0:
		return []Field{c.LessThan.Field, fieldUtilisation}
	case c.LessThan != nil:
		return []Field{c.LessThan.Field}
	case c.Unmasked != nil:
		return []Field{c.Unmasked.Mask, c.Unmasked.Severity}
	}
	return nil
}
