// What is exchanged: readiness, gradients, checkpoints, the end.

package gang

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Ready returns once every rank has loaded the state that training goes on from, and
// fails where the states differ.
func (g *Gang) Ready(digest string) error {
	_, err := g.exchange(kindReady, []byte(digest), sameDigest)
	return err
}

func sameDigest(parts [][]byte) ([]byte, error) {
	for rank, p := range parts {
		if string(p) != string(parts[0]) {
			return nil, fmt.Errorf("%w: rank 0 has %s, rank %d has %s", errStatesDiffer, parts[0], rank, p)
		}
	}
	return parts[0], nil
}

// Reduce replaces v by the sum of all ranks' v. It returns whether any rank wants a checkpoint.
func (g *Gang) Reduce(step int, v []float64, want bool) (bool, error) {
	out, err := g.exchange(kindReduce, encodeVector(step, v, want), func(parts [][]byte) ([]byte, error) {
		sum := make([]float64, len(v))
		wanted := false
		for rank, p := range parts { // the order of the additions is that of the ranks
			w, err := addVector(step, sum, p)
			if err != nil {
				return nil, fmt.Errorf("rank %d: %w", rank, err)
			}
			wanted = wanted || w
		}
		return encodeVector(step, sum, wanted), nil
	})
	if err != nil {
		return false, err
	}
	clear(v)
	return addVector(step, v, out)
}

func encodeVector(step int, v []float64, want bool) []byte {
	b := make([]byte, 0, 9+8*len(v))
	b = binary.LittleEndian.AppendUint64(b, uint64(step))
	if want {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

// addVector adds an encoded vector of the same step to sum.
func addVector(step int, sum []float64, b []byte) (want bool, err error) {
	if len(b) != 9+8*len(sum) {
		return false, fmt.Errorf("a vector of %d bytes where %d are due", len(b), 9+8*len(sum))
	}
	if got := binary.LittleEndian.Uint64(b); got != uint64(step) {
		return false, fmt.Errorf("a vector of step %d in step %d", got, step)
	}
	for i := range sum {
		sum[i] += math.Float64frombits(binary.LittleEndian.Uint64(b[9+8*i:]))
	}
	return b[8] == 1, nil
}

type saved struct {
	OK     bool   `json:"ok"`
	Digest string `json:"digest"`
}

// Saved returns whether every rank has its checkpoint of this step, and fails where their states differ.
func (g *Gang) Saved(ok bool, digest string) (all bool, err error) {
	mine, err := json.Marshal(saved{ok, digest})
	if err != nil {
		return false, err
	}
	out, err := g.exchange(kindSaved, mine, func(parts [][]byte) ([]byte, error) {
		total := saved{OK: true, Digest: digest}
		for rank, p := range parts {
			var s saved
			if err := json.Unmarshal(p, &s); err != nil {
				return nil, fmt.Errorf("rank %d: %w", rank, err)
			}
			if s.Digest != digest {
				return nil, fmt.Errorf("%w: rank 0 has %s, rank %d has %s", errStatesDiffer, digest, rank, s.Digest)
			}
			total.OK = total.OK && s.OK
		}
		return json.Marshal(total)
	})
	if err != nil {
		return false, err
	}
	var total saved
	err = json.Unmarshal(out, &total)
	return total.OK, err
}

// Done returns once every rank has confirmed that it is done; from then on, ranks may exit.
// Rank 0 calls mark between the last confirmation and the first exit: a rank that misses
// the good-bye, because it or rank 0 dies right then, finds the mark when it comes back.
func (g *Gang) Done(digest string, mark func() error) error {
	_, err := g.exchange(kindDone, []byte(digest), func(parts [][]byte) ([]byte, error) {
		out, err := sameDigest(parts)
		if err != nil {
			return nil, err
		}
		if err := mark(); err != nil {
			return nil, err
		}
		return out, g.close()
	})
	if err != nil {
		return err
	}
	if g.rank != 0 {
		_ = g.close()
		g.links[0].close()
		return nil
	}
	for _, l := range g.links { // the others have left, or cannot be reached for the timeout
		if l != nil {
			select {
			case <-l.down:
			case <-time.After(l.timeout):
			}
		}
	}
	return nil
}
