package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func (c *cluster) url(rank int, path string) string {
	return "http://" + c.awaitEvent(0, "serving", "rank", strconv.Itoa(rank)).keys["http"] + path
}

func status(t *testing.T, method, url, body string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

const request = `{"id": "1", "namespace": "default", "job": "j", "reason": "HealthDegraded", "moves": ["p"]}`

// ask requests a checkpoint of all ranks at once: all save one step, and that step is resumed.
func ask(t *testing.T, c *cluster) {
	c.awaitStep(0, 0, every+2)
	var wg sync.WaitGroup
	for rank := range ranks {
		url := c.url(rank, "/checkpoint")
		wg.Go(func() {
			if code := status(t, http.MethodPost, url, request); code != http.StatusOK {
				t.Errorf("rank %d answers %d", rank, code)
			}
		})
	}
	wg.Wait()
	before, newest := 0, 0
	c.killAll(func() {
		newest = newestStep(t, c)
		before = c.now()
	})
	l := c.awaitEvent(before, "resumed", "rank", "0")
	if step, _ := strconv.Atoi(l.keys["step"]); step < every+2 {
		t.Errorf("resumed step %d, which is not what was asked for after step %d (newest %d)", step, every+2, newest)
	}
}

func TestServeWithoutAGang(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ranks, flags...)
	c.start(0, 0, c.newNode())
	c.awaitEvent(0, "joining", "rank", "0")
	for path, want := range map[string]int{"/healthz": 503, "/livez": 200} {
		if code := status(t, http.MethodGet, c.url(0, path), ""); code != want {
			t.Errorf("%s answers %d, not %d, before the gang is complete", path, code, want)
		}
	}
	if code := status(t, http.MethodPost, c.url(0, "/checkpoint"), request); code != 503 {
		t.Errorf("a checkpoint is answered with %d before the gang is complete", code)
	}
	if code := status(t, http.MethodPost, c.url(0, "/checkpoint"), "{"); code != 400 {
		t.Errorf("a broken body is answered with %d", code)
	}
	if code := status(t, http.MethodGet, c.url(0, "/checkpoint"), ""); code != 405 {
		t.Errorf("GET /checkpoint is answered with %d", code)
	}
}

func TestServeWhileTraining(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ranks, "-steps=100000", "-checkpoint-every=50000", "-step-time=2ms")
	c.begin()
	for rank := range ranks {
		c.awaitStep(0, rank, 1)
		if code := status(t, http.MethodGet, c.url(rank, "/healthz"), ""); code != 200 {
			t.Errorf("rank %d: /healthz answers %d while it trains", rank, code)
		}
	}
	// One rank is asked, and the answer means that all have saved.
	for rank := range ranks {
		before := c.now()
		if code := status(t, http.MethodPost, c.url(rank, "/checkpoint"), request); code != 200 {
			t.Fatalf("a checkpoint is answered with %d", code)
		}
		step := c.awaitEvent(before, "checkpoint", "rank", strconv.Itoa(rank), "requested", "1", "all", "true").keys["step"]
		for other := range ranks {
			name := fmt.Sprintf("step-%s.rank-%d.inc-0", step, other)
			if _, err := os.Stat(c.path("shared", "checkpoints", name)); err != nil {
				t.Errorf("rank %d has answered, and rank %d has not saved: %v", rank, other, err)
			}
		}
	}
}

// A rank that cannot write the shared copy has not saved, and no rank says so.
func TestServeWhenTheSharedFolderIsBroken(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "-steps=100000", "-checkpoint-every=50000", "-step-time=2ms")
	c.begin()
	c.awaitStep(0, 0, 1)
	if err := os.WriteFile(c.path("shared", "checkpoints"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before := c.now()
	if code := status(t, http.MethodPost, c.url(1, "/checkpoint"), request); code != 503 {
		t.Errorf("a checkpoint that cannot be saved is answered with %d", code)
	}
	c.awaitEvent(before, "checkpoint_failed", "rank", "0")
	c.awaitStep(c.now(), 0, 1) // and training goes on
}
