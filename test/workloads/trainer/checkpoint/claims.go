// Claims: who may write, and which files of earlier lives still count.

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrFenced means that a higher incarnation of the rank has started.
var ErrFenced = errors.New("fenced")

// claim is the file that an incarnation writes into the shared folder before it does
// anything else, and completes once it knows where it goes on from.
type claim struct {
	Incarnation int       `json:"incarnation"`
	Host        string    `json:"host"`
	Started     time.Time `json:"started"`
	// Base is the oldest step that this incarnation has resumed from. What lower
	// incarnations published above it is not part of the rank's history.
	Base *int `json:"base,omitempty"`
}

const claimsDir = "claims"

func (s *Store) claimPath(incarnation int) string {
	return filepath.Join(s.Shared, claimsDir, fmt.Sprintf("rank-%d.inc-%d", s.Rank, incarnation))
}

// Claim makes this incarnation known. It is called before training, and fails with
// ErrFenced where a higher incarnation has done so.
func (s *Store) Claim() error {
	if err := s.Fenced(); err != nil {
		return err
	}
	c, err := s.readClaim(s.Incarnation)
	if err != nil {
		host, _ := os.Hostname()
		c = &claim{Incarnation: s.Incarnation, Host: host, Started: time.Now().UTC()}
	}
	if err := s.writeClaim(c); err != nil {
		return err
	}
	return s.Fenced() // two that claim at once both see the higher one here, or before
}

// Resumed completes the claim: this incarnation goes on from a step.
func (s *Store) Resumed(step int) error {
	c, err := s.readClaim(s.Incarnation)
	if err != nil {
		return err
	}
	if c.Base != nil {
		step = min(step, *c.Base)
	}
	c.Base = &step
	return s.writeClaim(c)
}

// Fenced returns ErrFenced where a higher incarnation of this rank has claimed.
func (s *Store) Fenced() error {
	highest, err := s.Claimed(s.Rank)
	if err != nil {
		return err
	}
	if highest > s.Incarnation {
		return fmt.Errorf("%w: incarnation %d of rank %d has started, this is %d", ErrFenced, highest, s.Rank, s.Incarnation)
	}
	return nil
}

// Admit is Fenced for something that is about to be published. It calls Refused where it must not be.
func (s *Store) Admit(path string) error {
	err := s.Fenced()
	if errors.Is(err, ErrFenced) {
		s.Refused(path, err)
	}
	return err
}

// Claimed is the highest incarnation of a rank that has started, -1 if none has.
func (s *Store) Claimed(rank int) (int, error) {
	entries, err := os.ReadDir(filepath.Join(s.Shared, claimsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	highest := -1
	for _, e := range entries {
		var r, i int
		if n, _ := fmt.Sscanf(e.Name(), "rank-%d.inc-%d", &r, &i); n == 2 && r == rank {
			highest = max(highest, i)
		}
	}
	return highest, nil
}

func (s *Store) readClaim(incarnation int) (*claim, error) {
	b, err := os.ReadFile(s.claimPath(incarnation))
	if err != nil {
		return nil, err
	}
	c := &claim{}
	return c, json.Unmarshal(b, c)
}

func (s *Store) writeClaim(c *claim) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return write(s.claimPath(c.Incarnation), append(b, '\n'), always)
}

// limit is the newest step up to which files of an incarnation count: none, or the lowest
// base of the incarnations after it.
func (s *Store) limit(incarnation, highest int) (step int, limited bool) {
	for i := incarnation + 1; i <= highest; i++ {
		c, err := s.readClaim(i)
		if err != nil || c.Base == nil { // it never started, or never got as far as to resume
			continue
		}
		if !limited || *c.Base < step {
			step, limited = *c.Base, true
		}
	}
	return step, limited
}
