// Store: a rank's checkpoints in the node's folder and in the shared one.

package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Store reads and writes the checkpoints of one incarnation of one rank.
type Store struct {
	Local, Shared     string
	Rank, Incarnation int
	Fingerprint       string // of the flags that decide what is computed
	Keep              int    // steps to keep in each folder
	// Ignored is told of files that are not used, and why.
	Ignored func(path string, why error)
	// Refused is called for each file, or line of one, that a higher incarnation's claim has kept from the shared folder, and why.
	Refused func(path string, why error)

	found map[int]Found
}

// Found is a checkpoint that can be loaded.
type Found struct {
	Step        int
	Incarnation int    // that wrote it
	Digest      string // of the state that all ranks share
	Place       string // "local" or "shared"
	Path        string
}

const (
	local      = "local"
	shared     = "shared"
	tempPrefix = ".tmp-"
)

// A name has the incarnation in it, so that a stale process never overwrites a file of its successor.
var namePattern = regexp.MustCompile(`^step-(\d+)\.rank-(\d+)\.inc-(\d+)$`)

func name(step, rank, incarnation int) string {
	return fmt.Sprintf("step-%d.rank-%d.inc-%d", step, rank, incarnation)
}

func (s *Store) dir(place string) string {
	if place == local {
		return filepath.Join(s.Local, "checkpoints")
	}
	return filepath.Join(s.Shared, "checkpoints")
}

// list returns this rank's files in a folder, by name alone.
func (s *Store) list(place string) ([]Found, error) {
	entries, err := os.ReadDir(s.dir(place))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []Found
	for _, e := range entries {
		m := namePattern.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		step, err1 := strconv.Atoi(m[1])
		rank, err2 := strconv.Atoi(m[2])
		inc, err3 := strconv.Atoi(m[3])
		if errors.Join(err1, err2, err3) == nil && rank == s.Rank {
			out = append(out, Found{Step: step, Incarnation: inc, Place: place, Path: filepath.Join(s.dir(place), e.Name())})
		}
	}
	return out, nil
}

// Scan reads every checkpoint of this rank and returns the loadable ones, one for each
// step, in order. Of one step, the copy of the highest incarnation is chosen, and of its
// copies the local one.
func (s *Store) Scan() ([]Found, error) {
	var all []Found
	for _, place := range []string{local, shared} {
		files, err := s.list(place)
		if err != nil {
			s.Ignored(s.dir(place), err)
			continue
		}
		all = append(all, files...)
	}
	slices.SortStableFunc(all, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(b.Incarnation, a.Incarnation), cmp.Compare(a.Place, b.Place))
	})
	s.found = map[int]Found{}
	var out []Found
	for _, f := range all {
		if _, ok := s.found[f.Step]; ok {
			continue
		}
		c, err := s.load(f)
		if err != nil {
			s.Ignored(f.Path, err)
			continue
		}
		f.Digest = c.Digest()
		s.found[f.Step] = f
		out = append(out, f)
	}
	return out, nil
}

// load reads one file, and refuses it where it is corrupt, of other flags or not part of the rank's history.
func (s *Store) load(f Found) (*Checkpoint, error) {
	if f.Incarnation > s.Incarnation {
		return nil, fmt.Errorf("of incarnation %d, which is later than this one", f.Incarnation)
	}
	if step, limited := s.limit(f.Incarnation, s.Incarnation); limited && f.Step > step {
		return nil, fmt.Errorf("of incarnation %d, after which a later one went on from step %d", f.Incarnation, step)
	}
	b, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, err
	}
	h, c, err := decode(b)
	if err != nil {
		return nil, err
	}
	if h.Fingerprint != s.Fingerprint {
		return nil, fmt.Errorf("%w: %s, not %s", errForeign, h.Fingerprint, s.Fingerprint)
	}
	if h.Step != f.Step || h.Rank != s.Rank || h.Incarnation != f.Incarnation {
		return nil, fmt.Errorf("%w: it says step %d of rank %d by incarnation %d", errCorrupt, h.Step, h.Rank, h.Incarnation)
	}
	return c, nil
}

// Load returns the checkpoint of a step that Scan has found.
func (s *Store) Load(step int) (*Checkpoint, Found, error) {
	f, ok := s.found[step]
	if !ok {
		return nil, f, fmt.Errorf("no checkpoint of step %d was found", step)
	}
	c, err := s.load(f)
	return c, f, err
}

// Save writes a checkpoint to both folders and returns once it is durable. Without the
// shared copy it has failed: a replacement on another node reads that one. A local copy
// that cannot be written is told of and does without.
//
// A stale process must not publish. It is stopped by a look at the claims between the
// write and the rename. It can still be frozen right between these two, and its rename
// then happens much later. That does no harm: the name has its own incarnation, so nothing
// is overwritten, and readers ignore steps above the base of a later incarnation.
func (s *Store) Save(c *Checkpoint) error {
	h := header{Fingerprint: s.Fingerprint, Rank: s.Rank, Incarnation: s.Incarnation}
	b, err := h.encode(c)
	if err != nil {
		return err
	}
	file := name(c.Step, s.Rank, s.Incarnation)
	if err := write(filepath.Join(s.dir(local), file), b, always); err != nil {
		s.Ignored(filepath.Join(s.dir(local), file), err)
	}
	path := filepath.Join(s.dir(shared), file)
	if err := write(path, b, func() error { return s.Admit(path) }); err != nil {
		return err
	}
	return s.Fenced() // whoever slipped through learns it here, and stops
}

// Prune removes this rank's files of all but the newest steps, and what torn writes have left.
func (s *Store) Prune(newest int) error {
	var errs []error
	for _, place := range []string{local, shared} {
		files, err := s.list(place)
		errs = append(errs, err)
		steps := []int{}
		for _, f := range files {
			if f.Step <= newest && !slices.Contains(steps, f.Step) {
				steps = append(steps, f.Step)
			}
		}
		slices.Sort(steps)
		if len(steps) <= s.Keep {
			continue
		}
		oldest := steps[len(steps)-s.Keep]
		for _, f := range files {
			if f.Step < oldest && f.Incarnation <= s.Incarnation {
				errs = append(errs, os.Remove(f.Path))
			}
		}
	}
	return errors.Join(errs...)
}

// Sweep removes temporary files that this rank's earlier processes have left.
func (s *Store) Sweep() {
	for _, place := range []string{local, shared} {
		entries, err := os.ReadDir(s.dir(place))
		if err != nil {
			continue
		}
		for _, e := range entries {
			base, ok := strings.CutPrefix(e.Name(), tempPrefix)
			m := namePattern.FindStringSubmatch(base)
			if ok && m != nil && m[2] == strconv.Itoa(s.Rank) && m[3] == strconv.Itoa(s.Incarnation) {
				os.Remove(filepath.Join(s.dir(place), e.Name()))
			}
		}
	}
}
