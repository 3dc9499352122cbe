// What needs no engine: addresses, times, versions, the gate.

package dcgm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseAddress(t *testing.T) {
	for s, want := range map[string]string{
		"embedded":              "embedded",
		"unix:///run/dcgm.sock": "unix:///run/dcgm.sock",
		"UNIX:///run/dcgm.sock": "unix:///run/dcgm.sock",
		"/run/dcgm.sock":        "unix:///run/dcgm.sock",
		"localhost":             "tcp://localhost:5555",
		"10.0.0.1:6666":         "tcp://10.0.0.1:6666",
		"tcp://node-1:5555":     "tcp://node-1:5555",
		"[::1]:5555":            "tcp://[::1]:5555",
		"[fd00::1]":             "tcp://[fd00::1]:5555",
		"vsock://2:5555":        "vsock://2:5555",
	} {
		got, err := ParseAddress(s)
		if err != nil || got.String() != want {
			t.Errorf("%q is %q, %v, want %q", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "unix://run/dcgm.sock", "unix://", "http://node:5555", "tcp://", ":5555", "node:", "node:port", "::1", "a b", "vsock://", "tcp://[]:1",
	} {
		if got, err := ParseAddress(s); err == nil {
			t.Errorf("%q is accepted, as %q", s, got)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"embedded", "unix:///a", "a:1", "[::1]:5555", "vsock://2:1", "tcp://[fe80::1%eth0]:1", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, err := ParseAddress(s)
		if err != nil {
			return
		}
		again, err := ParseAddress(address.String())
		if err != nil || again != address {
			t.Errorf("%q is %#v, which reads as %#v, %v", s, address, again, err)
		}
	})
}

func TestBackoff(t *testing.T) {
	var waits []string
	for failures := 1; failures <= 8; failures++ {
		waits = append(waits, backoff(failures, time.Second, time.Minute).String())
	}
	if got, want := strings.Join(waits, " "), "1s 2s 4s 8s 16s 32s 1m0s 1m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := backoff(1<<40, time.Second, time.Minute); got != time.Minute {
		t.Errorf("after very many failures: %s", got)
	}
	if got := backoff(1, time.Minute, time.Second); got != time.Second {
		t.Errorf("never more than the most: %s", got)
	}
}

func TestSince46(t *testing.T) {
	for version, want := range map[string]bool{
		"4.6.0": true, "4.6": true, "4.10.1": true, "5.0.0": true, "4.5.3": false, "4.5": false, "3.9.9": false, "": false, "x": false, "4": false,
	} {
		if since46(version) != want {
			t.Errorf("%q: %t", version, !want)
		}
	}
}

func TestLinkOf(t *testing.T) {
	for message, want := range map[string]uint{
		"GPU 3's NvLink link 17 is currently down Run a field diagnostic": 17,
		"NVLink down on GPU 3":             unknownLink,
		"link 99999999999999999999 is odd": unknownLink,
	} {
		if got := linkOf(message); got != want {
			t.Errorf("%q: %d", message, got)
		}
	}
}

func TestGate(t *testing.T) {
	g := newGate()
	if err := g.do(context.Background(), func() {}); err != nil {
		t.Error(err)
	}
	if err := g.do(context.Background(), func() { panic("no such thing") }); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("a panic: %v", err)
	}
	inside, leave := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-inside; cancel() }()
	if err := g.do(ctx, func() { close(inside); <-leave }); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that blocks: %v", err)
	}
	if err := g.do(context.Background(), func() { t.Error("two at a time") }); err == nil {
		t.Error("a second call waits for nothing")
	}
	close(leave)
	for g.do(context.Background(), func() {}) != nil {
		time.Sleep(time.Millisecond)
	}
}
