// Timeline: what a rank has been through, by the log of its container.

package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// timeline is when a rank came to each point of a restart for the last time. What has not happened is zero.
type timeline struct {
	// told is when its supervisor had the order to stop, waiting when every process had ended, and launched when it had started the program again.
	told, waiting, launched time.Time
	// began is the program's own first line, and trained its first step after that.
	began, trained time.Time
	// steps is the number of steps since then, and stepped when it made the last one before.
	steps   int
	stepped time.Time
	// bits are the losses of all steps, as the program prints them.
	bits map[string]string
}

var (
	reported  = regexp.MustCompile(`from=lockstep-run.* state=([A-Z]+)`)
	completed = regexp.MustCompile(`event=step .*step=(\d+) .*bits=(\S+)`)
)

// readTimeline reads a log, each line of which begins with its time, from a time on.
func readTimeline(log string, from time.Time) *timeline {
	t := &timeline{bits: map[string]string{}}
	for line := range strings.Lines(log) {
		stamp, text, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && !at.Before(from) {
			t.read(text, at)
		}
	}
	return t
}

func (t *timeline) read(text string, at time.Time) {
	if m := reported.FindStringSubmatch(text); m != nil {
		t.report(m[1], at)
		return
	}
	if strings.Contains(text, "event=start ") {
		t.began, t.trained, t.steps = at, time.Time{}, 0
		return
	}
	if m := completed.FindStringSubmatch(text); m != nil {
		t.step(m[1], m[2], at)
	}
}

func (t *timeline) report(state string, at time.Time) {
	switch state {
	case "STOPPING":
		t.told = at
	case "WAITING":
		t.waiting = at
	case "RUNNING":
		t.launched, t.trained, t.steps = at, time.Time{}, 0 // the program's own first line may be there already
	}
}

func (t *timeline) step(number, bits string, at time.Time) {
	t.bits[number] = bits
	t.steps++
	if t.launched.IsZero() {
		t.stepped = at
	}
	if t.trained.IsZero() && !t.started().IsZero() {
		t.trained = at
	}
}

// started is when the program was started: by its supervisor, or by its own first line where it has none.
func (t *timeline) started() time.Time {
	if !t.launched.IsZero() {
		return t.launched
	}
	return t.began
}

// curve is a loss for each step, as text.
type curve map[string]string

// add takes the losses of a timeline. A step that was done again has to have the same loss.
func (c curve) add(t *timeline) error {
	for step, bits := range t.bits {
		if before, known := c[step]; known && before != bits {
			return fmt.Errorf("step %s has the loss %s, and %s when it was done again", step, before, bits)
		}
		c[step] = bits
	}
	return nil
}
