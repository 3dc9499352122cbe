package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
)

// failures is where the failure model comes from.
type failures struct {
	from   string
	nodes  int
	repair time.Duration
	now    func() time.Time
	in     io.Reader
}

func (f *failures) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "failures", "llama3", "failure model: "+strings.Join(lab.Models(), ", ")+"; a file with one; a .csv file of incidents; or a file with TrainingJobs, whose incidents count")
	spanVar(flags, &f.repair, "repair", lab.DefaultRepair, "time for which a node is away or degraded after a failure of --failures or --replay that does not tell it")
	flags.IntVar(&f.nodes, "counted-nodes", 0, "nodes on which the incidents of a .csv file were counted")
}

func (f *failures) read() (*lab.Model, error) {
	isCSV := filepath.Ext(f.from) == ".csv"
	switch {
	case isCSV && f.nodes < 1:
		return nil, fmt.Errorf("--failures %s: a list of incidents needs --counted-nodes, the nodes on which they were counted, 1 at least", f.from)
	case !isCSV && f.nodes != 0:
		return nil, fmt.Errorf("--counted-nodes does nothing with --failures %s, which is no .csv file: leave out --counted-nodes", f.from)
	case slices.Contains(lab.Models(), f.from):
		return lab.ModelNamed(f.from)
	}
	raw, err := readFile(f.in, f.from)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--failures: there is neither a failure model nor a file %q: give a file, or one of the models %s", f.from, strings.Join(lab.Models(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("--failures: %w", err)
	}
	parse := f.parse
	if isCSV {
		parse = f.count
	}
	m, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("--failures %s: %w", nameOf(f.from), err)
	}
	m.Source = cmp.Or(m.Source, nameOf(f.from))
	return m, nil
}

// parse reads a model, or counts the incidents of TrainingJobs.
func (f *failures) parse(raw []byte) (*lab.Model, error) {
	docs, err := documents(raw)
	if err != nil {
		return nil, err
	}
	if hasKind(docs[0]) {
		jobs, err := readJobs(raw)
		if err != nil {
			return nil, err
		}
		return lab.CountIncidents(jobs, f.now(), f.repair)
	}
	if len(docs) > 1 {
		return nil, fmt.Errorf("it has %d documents, and a failure model is one: leave out the others", len(docs))
	}
	m := &lab.Model{}
	unknown, err := decode(docs[0], m)
	if err := cmp.Or(err, listed(unknownFields(unknown))); err != nil {
		return nil, err
	}
	m.AssumeRepair(f.repair)
	_, err = m.Rates()
	return m, err
}

// readJobs reads TrainingJobs of a cluster, which has validated them.
func readJobs(raw []byte) ([]*v1alpha1.TrainingJob, error) {
	all, err := objects(raw)
	if err != nil {
		return nil, err
	}
	var out []*v1alpha1.TrainingJob
	for _, o := range all {
		if o.text("kind") != kind {
			return nil, fmt.Errorf("it has %s, and has to have TrainingJobs alone", o)
		}
		job := &v1alpha1.TrainingJob{}
		if err := o.as(job); err != nil {
			return nil, err
		}
		out = append(out, job)
	}
	return out, nil
}
