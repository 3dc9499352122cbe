package main

import (
	"testing"
	"time"
)

func TestReadTimeline(t *testing.T) {
	began := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	at := func(millis int) time.Time { return began.Add(time.Duration(millis) * time.Millisecond) }
	const stopping = `2026-01-01T09:59:59.9Z time=x event=step rank=0 inc=0 step=40 loss=0.5 bits=a0
2026-01-01T10:00:00.05Z time=x event=step rank=0 inc=0 step=41 loss=0.5 bits=a1
2026-01-01T10:00:00.1Z time=x level=INFO msg=Reporting from=lockstep-run state=STOPPING epoch=2
2026-01-01T10:00:00.2Z time=x level=INFO msg=Reporting from=lockstep-run state=WAITING epoch=2
`
	const supervised = stopping + `2026-01-01T10:00:00.3Z time=x event=start rank=0 inc=0 pid=9
2026-01-01T10:00:00.31Z time=x level=INFO msg=Reporting from=lockstep-run state=RUNNING epoch=2
2026-01-01T10:00:00.5Z time=x event=step rank=0 inc=0 step=41 loss=0.5 bits=a1
2026-01-01T10:00:00.6Z time=x event=step rank=0 inc=0 step=42 loss=0.5 bits=a2
`
	for name, test := range map[string]struct {
		log                       string
		waiting, started, trained time.Time
		steps                     int
	}{
		"before it is started again": {log: stopping, waiting: at(200)},
		"under a supervisor":         {log: supervised, waiting: at(200), started: at(310), trained: at(500), steps: 2},
		"a container started again": {
			log: "2026-01-01T10:00:02Z time=x event=start rank=3\n2026-01-01T10:00:03Z time=x event=step rank=3 inc=0 step=7 loss=1 bits=b\n",

			started: at(2000), trained: at(3000), steps: 1,
		},
		"torchrun": {
			log: "2026-01-01T10:00:02Z [default0]:event=start rank=3\n2026-01-01T10:00:03Z [default0]:event=step rank=3 step=7 loss=1 bits=0x1p-3\n",

			started: at(2000), trained: at(3000), steps: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := readTimeline(test.log, began)
			if !l.waiting.Equal(test.waiting) || !l.started().Equal(test.started) || !l.trained.Equal(test.trained) {
				t.Errorf("waits at %v, started at %v, trained at %v", l.waiting, l.started(), l.trained)
			}
			if !l.trained.IsZero() && l.steps != test.steps {
				t.Errorf("%d steps, want %d", l.steps, test.steps)
			}
		})
	}
}

func TestCurve(t *testing.T) {
	seen := curve{}
	if err := seen.add(&timeline{bits: map[string]string{"1": "a", "2": "b"}}); err != nil {
		t.Error(err)
	}
	if err := seen.add(&timeline{bits: map[string]string{"2": "b", "3": "c"}}); err != nil {
		t.Error(err)
	}
	if err := seen.add(&timeline{bits: map[string]string{"3": "d"}}); err == nil {
		t.Error("a step with another loss was taken")
	}
}
