package main

import (
	"io"
	"strconv"
	"strings"
	"testing"
)

func TestWorldOfOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "-steps=5")
	c.begin()
	if err := c.finish().log.Complete(5); err != nil {
		t.Error(err)
	}
}

// A rank that comes back after the end finds the mark, and nobody to meet.
func TestStartedAgainWhenDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "-steps=5")
	c.begin()
	want := c.finish()
	before := c.now()
	c.start(1, 0, c.newNode())
	c.awaitEvent(before, "done", "digest", want.digest, "bits", want.bits)
	c.awaitEvent(before, "exit", "code", "0")
}

// A longer run goes on from where a shorter one ended.
func TestMadeLonger(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "-steps=5")
	c.begin()
	c.finish()
	c.flags = append(c.flags, "-steps=9")
	before := c.now()
	for rank := range 2 {
		c.start(rank, 0, c.proc(rank).node)
	}
	c.awaitEvent(before, "resumed", "step", "5")
	c.awaitEvent(before, "done", "step", "9")
}

func TestNotAllJoin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ranks, "-join-timeout=1s")
	c.start(0, 0, c.newNode())
	c.start(2, 0, c.newNode())
	for _, rank := range []string{"0", "2"} {
		c.awaitEvent(0, "alone", "rank", rank)
		c.awaitEvent(0, "exit", "rank", rank, "code", strconv.Itoa(exitAlone))
	}
}

func TestRanksWithOtherFlags(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ranks)
	c.start(0, 0, c.newNode())
	c.flags = append(c.flags, "-seed=9")
	c.start(1, 0, c.newNode())
	l := c.awaitEvent(0, "usage", "rank", "1")
	if !strings.Contains(l.text, "seed=9") {
		t.Errorf("the message does not say what differs: %s", l.text)
	}
	c.awaitEvent(0, "exit", "rank", "1", "code", strconv.Itoa(exitUsage))
}

func TestResumeWithoutACheckpoint(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "-steps=5")
	c.resume = true
	c.begin()
	c.awaitEvent(0, "warning", "rank", "0")
	c.awaitEvent(0, "warning", "rank", "1")
	c.finish()
	strict := newCluster(t, 1, "-steps=5", "-require-checkpoint")
	strict.resume = true
	strict.begin()
	strict.awaitEvent(0, "exit", "code", strconv.Itoa(exitNoCheckpoint))
}

func TestFlags(t *testing.T) {
	good := []string{"-rank=1", "-world=3"}
	tests := map[string]struct {
		args []string
		env  map[string]string
		want string // of the error; none is good
	}{
		"good":                    {args: good},
		"by the environment":      {env: map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m"}},
		"by Volcano's svc plugin": {env: map[string]string{"LOCKSTEP_TASK_INDEX": "1", "VC_WORKER_NUM": "2", "VC_WORKER_HOSTS": "a.j,b.j"}},
		"no rank":                 {args: []string{"-world=3"}, want: "-rank is -1"},
		"no world":                {args: []string{"-rank=0"}, want: "-world is 0"},
		"rank too high":           {args: []string{"-rank=3", "-world=3"}, want: "set it from 0"},
		"batch":                   {args: append(good, "-batch=4"), want: "-batch is 4: set it to a multiple of -world"},
		"keep":                    {args: append(good, "-keep=1"), want: "-keep is 1: set it to 2"},
		"same folders":            {args: append(good, "-local=/a", "-shared=/a"), want: "different folders"},
		"rendezvous":              {args: append(good, "-rendezvous=dns"), want: "set it to peers, hosts, shared or auto"},
		"peers without a port":    {args: append(good, "-peers=a,b,c"), want: "-peers"},
		"argument":                {args: append(good, "steps=3"), want: `unknown argument "steps=3"`},
		"variable of a flag":      {args: good, env: map[string]string{"TRAINER_STEPS": "many"}, want: "TRAINER_STEPS"},
		"incarnation":             {args: good, env: map[string]string{"LOCKSTEP_INCARNATION": "x"}, want: "LOCKSTEP_INCARNATION"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args, func(k string) string { return test.env[k] }, io.Discard)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, not %q", err, test.want)
			}
		})
	}
}
