package gang

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestSilence(t *testing.T) {
	tests := map[string]struct {
		course string // h: the peer is heard; t: this rank's tick
		lost   int    // the tick that finds it lost; 0 is none
	}{
		"heard in every tick":          {"hthththththththt", 0},
		"heard in every second tick":   {"htthtthtthtthtt", 0},
		"never heard":                  {"ttttt", 5},
		"heard long ago":               {"hthtttttt", 7},
		"heard just before it is lost": {"htttthtttthtttt", 0},
		"heard often, and no more":     {"hhhhhhhtttttt", 6},
		// The ticks of a pause are one, which may come before what the peer sent meanwhile is read.
		"a pause that ends with a tick":   {"hththttht", 0},
		"a pause that ends with the peer": {"hthththt", 0},
		"a pause after which it is gone":  {"hthttttttt", 7},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var s silence
			n, lost := 0, 0
			for _, e := range test.course {
				if e == 'h' {
					s.hear()
					continue
				}
				n++
				if s.tick() && lost == 0 {
					lost = n
				}
			}
			if lost != test.lost {
				t.Errorf("lost at tick %d, not %d", lost, test.lost)
			}
		})
	}
}

// Peers that have nothing to say hear each other's heartbeats.
func TestHeartbeatsKeepALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		one, other := newLink(a, 5*time.Second), newLink(b, 5*time.Second)
		time.Sleep(time.Hour + time.Millisecond)
		synctest.Wait()
		for _, l := range []*link{one, other} {
			select {
			case <-l.down:
				t.Errorf("lost: %v", l.why)
			default:
			}
		}
		one.close() // which the other sees
	})
}

func TestSilentPeerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // it takes what it is sent
		began := time.Now()
		l := newLink(mine, 5*time.Second)
		<-l.down
		if took := time.Since(began); took != 5*time.Second || l.why.Error() != "silent for 5s" {
			t.Errorf("lost after %s: %v", took, l.why)
		}
	})
}
