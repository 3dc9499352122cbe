package main

import (
	"net/http"
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
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
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
	c := newCluster(t, 2, "-steps=100000", "-checkpoint-every=50000", "-step-time=2ms")
	c.begin()
	c.awaitStep(0, 0, 1)
	c.awaitStep(0, 1, 1)
	for rank := range 2 {
		if code := status(t, http.MethodGet, c.url(rank, "/healthz"), ""); code != 200 {
			t.Errorf("rank %d: /healthz answers %d while it trains", rank, code)
		}
	}
	// One rank is asked, and the answer means that both have saved.
	if code := status(t, http.MethodPost, c.url(1, "/checkpoint"), request); code != 200 {
		t.Fatalf("a checkpoint is answered with %d", code)
	}
	step := c.awaitEvent(0, "checkpoint", "rank", "0", "requested", "0").keys["step"]
	c.awaitEvent(0, "checkpoint", "rank", "1", "requested", "1", "step", step, "all", "true")
}
