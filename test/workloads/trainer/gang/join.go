// Join: how a rank becomes part of a generation.

package gang

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Offer is a step that a rank can load, with the digest of the state that all ranks share.
type Offer struct {
	Step   int    `json:"step"`
	Digest string `json:"digest"`
}

// Config is what a rank knows before it has met the others.
type Config struct {
	Rank, World, Incarnation int

	Run         string // jobs that meet at one address by mistake have different ones
	Fingerprint string // flags that have to be the same at all ranks
	Offers      []Offer

	Listen    string                       // rank 0: address to listen at
	Advertise func(listening string) error // rank 0: called once it listens
	RootAddr  func() (string, error)       // others: where rank 0 is, as of now

	PeerTimeout time.Duration // silence after which a peer is lost
	JoinTimeout time.Duration // for all ranks to be there

	// Claimed is the highest incarnation of a rank that has ever started.
	Claimed func(rank int) (int, error)
	Waiting func(what string) // told now and then what is waited for
}

// hello is what a rank says first.
type hello struct {
	Run         string  `json:"run"`
	Fingerprint string  `json:"fingerprint"`
	Rank        int     `json:"rank"`
	Incarnation int     `json:"incarnation"`
	Offers      []Offer `json:"offers"`
}

// welcome is rank 0's answer once all ranks are there.
type welcome struct {
	Run         string `json:"run"`
	Incarnation int    `json:"incarnation"` // of rank 0
	Resume      int    `json:"resume"`
}

// rejection is its answer to a rank that cannot join.
type rejection struct {
	Code string `json:"code"`
	Why  string `json:"why"`
}

const (
	rejectRun    = "run"    // another job's rank: it has an old address, and looks again
	rejectConfig = "config" // its flags differ
	rejectFenced = "fenced" // a higher incarnation of its rank has started
)

// Errors of Join.
var (
	ErrTimeout = errors.New("the gang is not complete")
	ErrConfig  = errors.New("ranks differ in their flags")
	ErrFenced  = errors.New("a higher incarnation of this rank has started")
)

// Join returns once every rank has joined the same generation.
func Join(ctx context.Context, c Config) (*Gang, error) {
	ctx, cancel := context.WithTimeout(ctx, c.JoinTimeout)
	defer cancel()
	if c.Rank == 0 {
		return gather(ctx, &c)
	}
	return seek(ctx, &c)
}

// fenced returns ErrFenced where a higher incarnation of a rank has started.
func (c *Config) fenced(rank, incarnation int) error {
	claimed, err := c.Claimed(rank)
	if err != nil {
		return fmt.Errorf("looking for claims of rank %d: %w", rank, err)
	}
	if claimed > incarnation {
		return fmt.Errorf("%w: rank %d has incarnation %d, this is %d", ErrFenced, rank, claimed, incarnation)
	}
	return nil
}

// newest returns the newest step that all ranks can load with the same state. A step that
// two ranks would load with different states was written in different lives of the job.
func newest(offers [][]Offer) int {
	best := 0
	for _, o := range offers[0] {
		if o.Step > best && allOffer(offers, o) {
			best = o.Step
		}
	}
	return best
}

func allOffer(offers [][]Offer, want Offer) bool {
	for _, of := range offers {
		found := false
		for _, o := range of {
			found = found || o == want
		}
		if !found {
			return false
		}
	}
	return true
}
